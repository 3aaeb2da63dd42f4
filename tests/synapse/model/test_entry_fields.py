"""The table of an entry's fields, and what follows from it."""

from synapse.formats import codec
from synapse.model.entry import Draft, Entry
from synapse.model.entry_fields import ALWAYS, FIELDS, NEVER, WHEN_SET


def test_each_field_of_an_entry_and_of_a_draft_has_one_row():
    names = [field.name for field in FIELDS]
    assert sorted(names) == sorted({*Entry._fields, *Draft._fields})
    assert {field.sealed for field in FIELDS} <= {ALWAYS, WHEN_SET, NEVER}


def test_no_two_fields_have_one_name_in_a_file_or_in_json():
    keys = [field.key for field in FIELDS if field.key]
    assert len(keys) == len({*keys})
    wires = [field.wire for field in FIELDS if field.wire]
    assert len(wires) == len({*wires})


def test_what_stands_in_files_is_what_a_draft_has():
    """The gate stamps the rest: a file that claims it is not believed."""
    assert {field.name for field in FIELDS if field.key} == {*Draft._fields} - {"body", "more"}


def test_json_has_the_order_of_the_table():
    entry = Entry("syn-1", "a", "2026-02-01T01:00:00Z", "api", "info", "x", "7d")
    wires = [field.wire for field in FIELDS if field.name in Entry._fields]
    assert list(codec.entry_json(entry)) == wires
