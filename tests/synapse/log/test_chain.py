"""A line of the journal: what it says, what it counts, and what is torn."""

import json

import pytest

from synapse.log import chain
from synapse.model.placement import GENESIS, Tail
from synapse.model.records import Record

AT = 10**15  # 2001-09-09T01:46:40Z
DAY = "2001-09-09"
START = Tail(0, GENESIS, 0, "", 0, 0)


def line(tail=START, at=AT, **more):
    fields = {"kind": "note", "by": "eng", "fields": {"a": 1}} | more
    kind, by = fields.pop("kind"), fields.pop("by")
    record = Record.new(kind, by, fields.pop("fields"))._replace(**fields)
    return chain.encode(tail, at, record)


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"text": "one — “ü” \\ \n \u2028 \0"},
        {"text": ""},
        {"id": "syn-2001-09-09-001", "path": "entries/a.md", "once": "o", "key": "k"},
        {"fields": {}},
        {"fields": {"text": ',"text":"x"'}, "key": ',"text":', "text": "last"},
    ],
)
def test_a_record_comes_back_from_its_line(more):
    raw, placed, tail = line(START, **more)
    assert raw.endswith(b"}\n")
    assert raw.count(b"\n") == 1
    assert chain.decode(raw) == placed
    head = chain.decode_head(raw)
    assert head == placed._replace(text=None)
    assert (placed.seq, placed.at, placed.by) == (1, AT, "eng")
    assert chain.seq_of(raw) == 1
    assert chain.chain_of(raw) == tail.chain == json.loads(raw)["chain"]
    assert chain.follows(raw, GENESIS) is True
    assert chain.follows(raw, "0" * 63 + "1") is False
    assert chain.assemble(*chain.split(raw)) == raw
    assert chain.is_whole(raw) is True
    assert chain.tail_of(raw, 0) == tail
    assert chain.tail_of(raw, 70) == tail._replace(end=70 + len(raw), start=70)


@pytest.mark.parametrize(
    "odd", [b"", b"\n", b"{}\n", b"[]\n", b"7\n", b"null\n", b'{"seq":1,"at":"x"}\n', b"\xff\n"]
)
def test_what_is_no_line_is_none(odd):
    assert chain.decode(odd) is None
    assert chain.decode_head(odd) is None
    assert chain.tail_of(odd, 0) is None
    assert chain.is_whole(odd) is False
    assert chain.seq_of(odd) == 0


def test_a_line_in_part_is_none():
    raw = line(text="a text")[0]
    for size in range(len(raw)):
        assert chain.is_whole(raw[:size]) is False
        assert chain.tail_of(raw[:size], 0) is None
    assert chain.seq_of(raw[:80]) == 0


@pytest.mark.parametrize(
    ("before", "n", "id", "count"),
    [
        ("", 0, None, 0),
        (DAY, 5, None, 5),
        ("2001-09-08", 5, None, 0),
        (DAY, 5, f"syn-{DAY}-006", 6),  # the next
        (DAY, 5, f"syn-{DAY}-009", 9),  # from another workspace, or a file
        (DAY, 5, f"syn-{DAY}-003", 5),
        (DAY, 5, "syn-2001-09-10-006", 5),  # of another day
        (DAY, 5, "plan-7", 5),
        (DAY, 5, "syn-plan", 5),
        ("2001-09-08", 5, f"syn-{DAY}-001", 1),
        ("2001-09-08", 5, f"syn-{DAY}-006", 6),
        ("2001-09-08", 5, "syn-2001-09-08-006", 0),
    ],
)
def test_ids_of_a_day_are_counted(before, n, id, count):
    tail = Tail(7, GENESIS, 0, before, n, 0)
    raw, placed, after = line(tail, id=id)
    assert (placed.seq, after.day, after.n) == (8, DAY, count)
    assert chain.tail_of(raw, 0).n == count
