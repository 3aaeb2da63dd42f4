import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from synapse.errors import Conflict
from synapse.log.memory import MemoryLog
from synapse.model.entry import NEVER, Entry, expiry
from synapse.model.records import (
    KINDS,
    Record,
    canonical_body,
    entry_of,
    epoch_is,
    fields_of,
    none_live,
    sum_below,
    unruled,
)
from synapse.store import Store
from synapse.testing import FrozenClock, draft_entry
from tests.examples import examples

names = st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=8), max_size=3).map(
    tuple
)
entries = st.builds(
    Entry,
    id=st.just("syn-2026-02-01-001"),
    author=st.sampled_from(("eng-a", "eng-b")),
    timestamp=st.just("2026-02-01T09:00:00Z"),
    namespace=st.sampled_from(("api", "api/x")),
    priority=st.sampled_from(("critical", "info")),
    body=st.text(st.characters(exclude_categories=["Cs"])).map(canonical_body),
    ttl=st.sampled_from(("7d", "never")),
    addressees=st.sampled_from((("all",), ("agent:a", "team:b"))),
    tags=names,
    related=names,
    replaces=names,
    topic=st.none() | st.just("t"),
    scope=st.sampled_from(("public", "team")),
    evidence=st.none() | st.text(max_size=5),
    authority=st.integers(0, 100),
    trust=st.sampled_from(("local", "unverified")),
    claimed=st.none() | st.just("critical"),
    staged=st.booleans(),
    **dict.fromkeys(("claim", "when", "alias"), st.none()),
    derived_from=names,
    disputed=st.just(()),
    archived=st.just(False),
    **dict.fromkeys(("seq", "at", "expires"), st.just(0)),
)


def kept(*fields):
    return [Record(seq, 0, "note", "a", None, each, key="k") for seq, each in enumerate(fields, 1)]


@given(entries)
@examples(100)
def test_an_entry_comes_back_from_its_record(entry):
    fields = json.loads(json.dumps(fields_of(entry) | {"body": entry.body}))
    found = entry_of(Record(7, 1_000, "entry", entry.author, entry.id, fields))
    assert found == entry._replace(seq=7, at=1_000, expires=expiry(entry.ttl, 1_000))


def test_only_what_differs_is_stored():
    plain = Entry("syn-1", "a", "now", "api", "info", "text", "7d")
    assert fields_of(plain) == {
        "author": "a",
        "timestamp": "now",
        "namespace": "api",
        "priority": "info",
        "ttl": "7d",
    }


def test_a_body_is_the_tail_of_the_text():
    fields = {
        "author": "a",
        "timestamp": "",
        "namespace": "api",
        "priority": "info",
        "ttl": "never",
        "start": 5,
        "new": 1,
    }
    found = entry_of(Record(1, 0, "entry", "a", "syn-1", fields, text="head\n\n body\r\n"))
    assert (found.body, found.expires) == (" body", NEVER)


@given(st.text())
def test_a_canonical_body_is_its_own(text):
    once = canonical_body(text)
    assert canonical_body(once) == once
    assert "\r" not in once


@pytest.mark.parametrize(
    ("fields", "held"),
    [([], True), ([{}], False), ([{}, {"end": True}], True), ([{"end": True}, {}], False)],
)
def test_none_live(fields, held):
    assert none_live("k").holds(kept(*fields)) is held


def test_sum_below():
    assert sum_below("k", 1).holds([])
    assert not sum_below("k", 0).holds([])
    assert sum_below("k", 3).holds(kept({}, {"amount": 1}))
    assert not sum_below("k", 3).holds(kept({"amount": 5}, {"amount": -2}))
    assert sum_below("k", 3).holds(kept({"amount": 5}, {"amount": -3}))


def test_epoch_is():
    assert epoch_is("run", 0).holds([])
    assert epoch_is("run", 2).holds(kept({"epoch": 1}, {"epoch": 2}))
    assert not epoch_is("run", 1).holds(kept({"epoch": 1}, {"epoch": 2}))


def test_unruled():
    assert unruled("k", "syn-1").holds(kept({"entry": "syn-2"}, {}))
    assert not unruled("k", "syn-1").holds(kept({}, {"entry": "syn-1"}))


def test_guards_decide_on_the_log_s_own_state():
    log = MemoryLog(FrozenClock())
    commit = Store(log, log.clock).commit
    act = Record.new("entry", "a", {"amount": 2}, draft_entry().entry, key="budget")
    commit.append(act, unless=sum_below("budget", 3))
    commit.append(act, unless=sum_below("budget", 3))
    with pytest.raises(Conflict, match="sum_below"):
        commit.append(act, unless=sum_below("budget", 3))


def test_kinds_are_named_once():
    assert len(KINDS) == len(set(KINDS)) > 10
