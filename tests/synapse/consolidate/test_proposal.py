"""Proposals pass the rules of the nights' own merges, or are rejected with the reason."""

import pytest

from synapse.consolidate.proposal import KINDS, MOST, Proposal, candidates, judge
from synapse.model.entry import NEVER, Entry

NOW = 1_000_000_000_000_000
DAY = 86_400_000_000


def entry(number, body="Use port 80.", **more):
    fields = {"seq": number, "at": NOW - DAY, "expires": NOW + DAY, "authority": 60} | more
    return Entry(f"syn-2026-02-01-{number:03d}", "eng-a", "", "api/x", "info", body, "2d")._replace(
        **fields
    )


TWO = (entry(1), entry(2, "Use port 80. It is open."))


def judged(*entries, text="Use port 80. It is open.", kind="merge", ids=None, spared=()):
    known = {each.id: each for each in entries}
    return judge(
        Proposal(kind, tuple(known) if ids is None else tuple(ids), text), known, NOW, spared
    )


def test_what_passes_counts_for_no_more_than_the_least_of_its_sources():
    one = TWO[0]._replace(authority=80, trust="keyed", tags=("a",), related=("syn-2026-01-01-001",))
    other = TWO[1]._replace(authority=40, expires=NEVER, tags=("b",))
    made = judged(other, one, kind="summary").new_entry
    assert (made.authority, made.trust) == (40, "local")
    assert (made.draft.priority, made.draft.scope, made.draft.addressees) == (
        "info",
        "public",
        ("all",),
    )
    assert made.draft.derived_from == (one.id, other.id)
    assert made.draft.tags == ("merged", "a", "b", "proposed", "summary")
    assert made.draft.related == ("syn-2026-01-01-001",)
    assert (made.draft.ttl, made.draft.author, made.draft.body) == (
        "never",
        "consolidator",
        "Use port 80. It is open.",
    )


@pytest.mark.parametrize(
    "more",
    [
        {"priority": "critical"},
        {"topic": "ports"},
        {"disputed": ("syn-2026-01-01-001",)},
        {"trust": "unverified"},
        {"scope": "private"},
        {"scope": "encrypted"},
        {"replaces": ("syn-2026-02-01-001",)},
        {"archived": True},
        {"staged": True},
        {"expires": NOW},
        {"author": "consolidator"},
        {"body": "Use port 80. " * 400},
    ],
    ids=lambda more: next(iter(more)),
)
def test_what_stays_itself_is_in_no_proposal(more):
    other = TWO[1]._replace(**more)
    verdict = judged(TWO[0], other)
    assert verdict.new_entry is None
    assert verdict.reason.startswith(other.id)
    assert candidates([TWO[0], other], NOW) == []


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("namespace", "api/y"),
        ("scope", "team"),
        ("addressees", ("team:red",)),
        ("priority", "important"),
        ("evidence", "log"),
        ("when", "2026"),
    ],
)
def test_only_what_is_said_alike_goes_together(field, value):
    other = TWO[1]._replace(**{field: value})
    assert judged(TWO[0], other).reason == f"its sources differ in {field}"
    assert candidates([TWO[0], other], NOW) == []


def test_what_was_brought_back_is_spared():
    spared = {(TWO[0].id, "merge")}
    assert judged(*TWO, spared=spared).reason == f"{TWO[0].id} was brought back from a merge"
    assert candidates(TWO, NOW, spared) == []
    assert candidates(TWO, NOW) == [[*TWO]]


def test_malformed_proposals_have_a_reason():
    many = [entry(number) for number in range(1, MOST + 2)]
    assert "neither" in judged(*TWO, kind="delete").reason
    for ids in ((), [TWO[0].id], [TWO[0].id] * 2):
        assert "2 to" in judged(*TWO, ids=ids).reason
    assert "2 to" in judged(*many).reason
    assert judged(*TWO, ids=[TWO[0].id, "syn-x"]).reason == "syn-x was not offered"
    assert (
        "shorter" in judged(*TWO, text="Use port 80. It is open. Use port 80. It is open.").reason
    )
    assert judged(*TWO, text="Use port 80.").reason == "it leaves out open"
    assert judged(*TWO).reason == "a merge of 2"
    assert Proposal(KINDS[0], ("a", "b"), "x").key == Proposal(KINDS[1], ("b", "a"), "y").key
