"""Text that can be stored: halves of surrogate pairs are replaced, and nothing else."""

from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from synapse.system.text import encodes, storable, storable_all

ANY = st.text(st.characters(exclude_categories=()))


@given(ANY)
def test_any_text_becomes_one_that_can_be_stored(text):
    result = storable(text)
    assert encodes(result)
    assert len(result) == len(text)
    assert all(
        after == before or ("\ud800" <= before <= "\udfff" and after == "\ufffd")
        for before, after in zip(text, result, strict=True)
    )


class Reply(NamedTuple):
    text: str
    calls: tuple = ()


def test_every_text_within_a_value_is_made_storable():
    value = {"a\ud800": [1, None, "x\udfff"], "reply": Reply("\ud800", ("\udc00", 2.5))}
    assert storable_all(value) == {
        "a\ufffd": [1, None, "x\ufffd"],
        "reply": Reply("\ufffd", ("\ufffd", 2.5)),
    }
    assert isinstance(storable_all(value)["reply"], Reply)
