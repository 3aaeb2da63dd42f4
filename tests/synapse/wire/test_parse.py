"""What goes over the wire comes back as it was: every field, through JSON as it is sent."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from synapse.access.claims import Claim
from synapse.formats import codec
from synapse.model.agents import Agent, Skill, settled
from synapse.model.entry import NEVER, TAINTED, Entry
from synapse.model.kinds import KINDS, frozen
from synapse.model.message import Mark, Message, Thread, thread_columns
from synapse.model.results import Event, Fate, Hit, Hits, Page, UnreadPage
from synapse.view.view import Included, LeftOut, View
from synapse.wire import forms, parse
from tests.examples import examples

LAST = 253_402_300_799_999_999  # the last microsecond of the year 9999
words = st.text(max_size=20)
texts = st.none() | words
names = st.lists(words, max_size=3).map(tuple)
times = st.integers(0, LAST)
counts = st.integers(0, 1 << 62)
numbers = st.floats(allow_nan=False, allow_infinity=False)
plain = st.none() | st.booleans() | st.integers(-(1 << 62), 1 << 62) | numbers | words
values = st.recursive(
    plain, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner)
)
entries = st.builds(
    Entry,
    **dict.fromkeys("id author timestamp namespace body ttl".split(), words),
    **dict.fromkeys("topic claim evidence when alias claimed".split(), texts),
    **dict.fromkeys(("run", "signature"), texts),
    **dict.fromkeys("tags related replaces derived_from disputed".split(), names),
    priority=words,
    addressees=st.lists(words, min_size=1, max_size=3).map(tuple),
    scope=words,
    trust=words,
    authority=counts,
    seq=counts,
    at=times,
    expires=times | st.just(NEVER),
    archived=st.booleans(),
    staged=st.booleans(),
    kind=st.sampled_from(KINDS),
    more=st.dictionaries(words, values, max_size=4).map(frozen),
)
few = st.lists(entries, max_size=2).map(tuple)
marks = st.lists(st.builds(Mark, words, times, words), max_size=2).map(tuple)
reads = st.lists(st.builds(Mark, words, times, st.none()), max_size=2).map(tuple)
pages = st.builds(lambda found, cursor, n: Page(found, cursor, lambda: n), few, counts, counts)
unread = st.builds(
    UnreadPage,
    few,
    few,
    st.tuples(counts, counts, counts),
    counts,
    counts,
    words,
    st.none() | counts,
)
hits = st.builds(
    Hits,
    st.lists(
        st.builds(
            Hit, entries, numbers, words, st.lists(st.tuples(counts, counts), max_size=2).map(tuple)
        ),
        max_size=2,
    ),
    st.booleans(),
    counts,
    words,
)
views = st.builds(
    View,
    words,
    counts,
    st.lists(st.builds(Included, words, counts, words, words), max_size=3).map(tuple),
    st.lists(st.builds(LeftOut, words, words), max_size=3).map(tuple),
    st.booleans(),
    st.none() | counts,
    words,
    counts,
    counts,
    counts,
)
messages = st.builds(Message, entries, times, st.none() | times, reads, marks, marks).map(
    lambda message: message._replace(
        entry=message.entry._replace(
            more=frozen({"thread": "t", "urgency": "u", **message.entry.more})
        )
    )
)
threads = st.builds(Thread, words, texts, words, times, times, counts, words, names)


def sent(form):
    """Return a form as it arrives."""
    return json.loads(json.dumps(form, ensure_ascii=False).encode("utf-8", "surrogatepass"))


def slots(value):
    """Return all that a page or hits are made of."""
    kind = type(value)
    held = {name for each in kind.__mro__ for name in getattr(each, "__slots__", ())}
    held = {name for name in held if name not in ("_count", "_counted", "_matched")}
    shown = [getattr(value, name) for name in sorted(held)]
    return kind, shown, getattr(value, "visible", None), getattr(value, "matched", None)


def test_every_field_of_an_entry_is_varied():
    """A field that is added goes over the wire, or this fails."""
    odd = Entry(
        "id", "me", "then", "api/x", "critical", "text", "7d", ("agent:a", "team:b"),
        ("t",), ("r",), ("o",), "topic", "team", "cto", ("d",), "seen", "run x", 7,
        "keyed", 9, 11, 13, "alias", "info", ("e",), True, True, "fact",
        frozen({"cites": ["run-1"], "confidence": 0.5}), "run-2", "signed",
    )  # fmt: skip
    plain = Entry("", "", "", "", "", "", "")
    same = [name for name in Entry._fields if getattr(odd, name) == getattr(plain, name)]
    assert same == []
    assert parse.entry(sent(codec.entry_json(odd))) == odd


@given(entries)
@examples(200)
def test_entries_come_back(entry):
    found = parse.entry(sent(codec.entry_json(entry)))
    assert found == entry
    assert [type(value) for value in found] == [type(value) for value in entry]
    assert hash(found.more) == hash(entry.more)


@given(pages | unread)
@examples(100)
def test_pages_come_back(page):
    assert slots(parse.page(sent(forms.page_wire(page)))) == slots(page)


@given(hits)
@examples(100)
def test_hits_come_back(found):
    assert slots(parse.hits(sent(forms.hits_json(found)))) == slots(found)


@given(views)
@examples(100)
def test_views_come_back(view):
    assert parse.view(sent(forms.view_json(view, None))) == view


@given(messages)
@examples(100)
def test_messages_come_back(message):
    assert parse.message(sent(forms.message_json(message))) == message


@given(threads)
@examples(100)
def test_threads_come_back(thread):
    assert parse.thread(sent(thread_columns(thread))) == thread


@given(st.builds(Claim, words, words, texts, times, texts))
@examples(50)
def test_claims_come_back(claim):
    assert parse.claim(sent(forms.fields(claim))) == claim


@given(st.builds(Event, counts, words, entries))
@examples(50)
def test_events_come_back(event):
    assert parse.event(sent(forms.event_json(event))) == event


@pytest.mark.parametrize(
    "fate", [None, Fate("expired", "", NEVER), Fate("superseded", "syn-x", TAINTED)]
)
def test_fates_come_back(fate):
    assert parse.fate(sent(forms.fields(fate))) == fate


def test_agents_come_back():
    skill = Skill("databases", 80, ("db/*",))
    agent = settled(Agent("eng", teams=["a"], projects=["p"], skills=[skill]))
    assert parse.agent(sent(forms.agent_json(agent))) == agent._replace(shift=0)
    shifted = agent._replace(shift=-3, notify=())
    assert parse.agent(sent(forms.agent_json(shifted))) == shifted
