"""Texts that cost far more than their length: what reads a text looks at each character a few times."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

import synapse
from synapse.consolidate import words
from synapse.knowledge import memory
from synapse.mail.mailbox import Mail
from synapse.model import condense
from synapse.tools import CLIENTS, call
from tests.examples import examples

OLD = re.compile(
    r"https?://[^\s)\]>\"']+"
    r"|[A-Za-z]*[\d_][\w.-]{2,}|\d[\d,.]{2,}"
    r"|[A-Z][\w’'-]+(?:\s+[A-Z][\w’'-]+)+"
)


def specifics_of_old(line):
    """Return what the plain pattern finds, which is quadratic."""
    return frozenset(
        name for match in OLD.finditer(line) if len(name := match[0].rstrip(".,;:")) > 2
    )


PIECES = st.sampled_from(
    [
        *"A A_1x B1_aX Bb Cc dd AB a_1 x12 1,234 1 23 _ . - ' ’ , ; ( http://".split(),
        *"https://a.b/C_1 é É 12.5 Z9".split(),
        *(" ", "  ", "\n"),
    ]
)


@given(st.lists(PIECES, max_size=14).map("".join))
@examples(3_000)
def test_specifics_are_those_of_the_plain_pattern(line):
    assert condense.specifics.__wrapped__(line) == specifics_of_old(line)


@given(st.text("AaB1_ .,'-h", max_size=24))
@examples(3_000)
def test_specifics_of_any_letters_are_those_of_the_plain_pattern(line):
    assert condense.specifics.__wrapped__(line) == specifics_of_old(line)


LINES = re.compile(r"^\s*(?:[-*•]|#{1,6})\s+", re.MULTILINE)


@given(st.text("-*#a1 \n\r", max_size=16))
@examples(3_000)
def test_bullets_are_those_of_the_plain_pattern(text):
    assert words._BULLET.sub(r"\1", text) == LINES.sub("", text)


def test_a_long_stretch_of_empty_lines_is_compared():
    """The plain pattern takes minutes."""
    assert words.sentences("a" + "\n" * LONG + "b") != []


LONG = 200_000
HOSTILE = {
    "letters": "a",
    "capitals": "A",
    "spaces": " ",
    "words": "Aa ",
    "two words": "Aa  ",
    "figures": "1,",
    "marks": "A_12'",
    "figures that begin names": "A_1x ",
    "addresses": "http",
    "lines": "@remember x\n",
}


@pytest.mark.parametrize("piece", HOSTILE.values(), ids=HOSTILE)
def test_a_long_message_is_summed_up(piece):
    """The plain pattern takes minutes for some of these."""
    body = (piece * LONG)[:LONG]
    turns = [condense.Turn("a", body), condense.Turn("b", body), condense.Turn("a", "end")]
    shape = condense.Shape(window=1)
    assert condense.condense(turns, body, len, shape).window == ("end",)


# -- one message ---------------------------------------------------------------------------------


@pytest.fixture
def me():
    with synapse.open("memory:") as mem:
        mem.register(synapse.Agent("eng"))
        yield mem.as_agent("eng")


FLOOD = "".join(f"@remember line {number}\n" for number in range(3_000))


def test_one_message_makes_a_stated_number_of_records(me):
    before = me.store.index.seen()
    Mail(me).send("all", FLOOD)
    me.store.refresh()
    assert me.store.index.seen() - before == 1 + memory.MOST_KEPT
    assert memory.harvest(me, Mail(me).get(Mail(me).history(first(me))[0].id).entry) == []


def first(me):
    return Mail(me).threads()[0].id


def test_what_is_not_kept_is_named(me):
    send = next(tool for tool in CLIENTS if tool.name == "send")
    told = call(send, me, {"to": "all", "body": FLOOD})
    assert "Of 3,000 tagged lines the first 20 are kept" in told
    assert "'line 20'" in told
    assert "tagged" not in call(send, me, {"to": "all", "body": "@remember one"})
