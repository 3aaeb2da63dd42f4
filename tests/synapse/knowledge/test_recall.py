"""Recall by scopes: nothing leaks, nothing is written twice, nothing that changed is withdrawn or
replaced.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import synapse
from synapse.knowledge import memory, recall
from synapse.knowledge.capsule import LEAST, MOST, short
from synapse.model import kinds
from synapse.model.agents import Agent
from synapse.model.records import Record, unchanged
from synapse.testing import FrozenClock
from tests.examples import examples

AGENTS = (
    Agent("ann", teams=("red",)),
    Agent("rob", teams=("red",)),
    Agent("bea", teams=("blue",)),
    Agent("two", teams=("red", "blue")),
    Agent("nil", department=None),
    Agent("cto", role="cto"),
)


@pytest.fixture
def mem():
    with synapse.open("memory:", clock=FrozenClock()) as mem:
        for agent in AGENTS:
            mem.register(agent)
        yield mem


@pytest.fixture
def agent_memories(mem):
    return {agent.id: mem.as_agent(agent.id) for agent in AGENTS}


def bodies(agent_memory, scope="all", query="tea", **more):
    return sorted(
        entry.body for entry in recall.search(agent_memory, query, scope, top_k=50, **more).shown
    )


def test_a_scope_is_its_agents_its_groups_or_everybodys(agent_memories):
    for id, scope, text in (
        ("ann", "agent", "tea of ann"),
        ("bea", "agent", "tea of bea"),
        ("ann", "group", "tea of red"),
        ("bea", "group", "tea of blue"),
        ("cto", "global", "tea of all"),
    ):
        recall.remember(agent_memories[id], text, scope)
    found = {
        id: {scope: bodies(agent_memories[id], scope) for scope in recall.SCOPES}
        for id in ("ann", "rob", "bea", "two", "nil")
    }
    everybody = ["tea of all"]
    assert found == {
        "ann": {"agent": ["tea of ann"], "group": ["tea of red"], "global": everybody,
                "all": ["tea of all", "tea of ann", "tea of red"]},
        "rob": {"agent": [], "group": ["tea of red"], "global": everybody, "all": ["tea of all", "tea of red"]},
        "bea": {"agent": ["tea of bea"], "group": ["tea of blue"], "global": everybody,
                "all": ["tea of all", "tea of bea", "tea of blue"]},
        "two": {"agent": [], "group": ["tea of blue", "tea of red"], "global": everybody,
                "all": ["tea of all", "tea of blue", "tea of red"]},
        "nil": {"agent": [], "group": [], "global": everybody, "all": everybody},
    }  # fmt: skip
    assert bodies(agent_memories["two"], "group:red") == ["tea of red"]
    with pytest.raises(synapse.Forbidden, match="bea is not in red"):
        bodies(agent_memories["bea"], "group:red")


def test_entries_and_messages_are_recalled_too(agent_memories):
    agent_memories["ann"].append("tea in a note", "agents/ann/notes")
    synapse.Mail(agent_memories["ann"]).send("rob", "tea by mail")
    synapse.Mail(agent_memories["bea"]).send("bea", "tea for oneself")
    assert bodies(agent_memories["ann"]) == ["tea by mail", "tea in a note"]
    assert bodies(agent_memories["rob"]) == ["tea by mail"]
    assert bodies(agent_memories["ann"], "agent") == ["tea in a note"]


def test_what_everybody_recalls_takes_authority(agent_memories):
    with pytest.raises(synapse.Forbidden, match="it takes authority 80"):
        recall.remember(agent_memories["ann"], "tea for all", "global")
    kept = recall.remember(agent_memories["cto"], "tea for all", "global")
    with pytest.raises(synapse.Forbidden):
        recall.forget(agent_memories["ann"], kept.id)
    assert bodies(agent_memories["ann"]) == ["tea for all"]
    with pytest.raises(synapse.InvalidEntry, match="is in blue, red: write group:NAME"):
        recall.remember(agent_memories["two"], "tea", "group")
    assert recall.remember(agent_memories["two"], "tea", "group:blue").namespace == "groups/blue"


def test_a_fact_ends_and_says_how_sure_it_is(mem, agent_memories):
    kept = recall.remember(agent_memories["ann"], "tea at four", "agent", 0.5, 2)
    assert (kept.more["confidence"], kept.ttl, kept.author) == (0.5, "2d", "ann")
    assert "confidence 0.5" in recall.search(agent_memories["ann"], "tea").text
    mem.store.clock.advance("3d")
    assert bodies(agent_memories["ann"]) == []


def test_what_is_forgotten_stays_in_the_log(mem, agent_memories):
    kept = recall.remember(agent_memories["ann"], "tea at four", "group")
    recall.forget(agent_memories["ann"], short(kept), reason="wrong")
    assert bodies(agent_memories["rob"]) == []
    assert agent_memories["rob"].get(kept.id).body == "tea at four"
    (act,) = [record for record in mem.store.log.since() if record.kind == "resolve"]
    assert (act.by, act.fields["entry"], act.fields["note"]) == ("ann", kept.id, "wrong")


def test_what_changed_meanwhile_is_refused_with_its_version(agent_memories):
    ann = agent_memories["ann"]
    old = recall.remember(ann, "tea at four", "group")
    seen = recall.search(ann, "tea")
    new = recall.remember(ann, "tea at five", "group", supersedes=short(old))
    with pytest.raises(synapse.Conflict, match=f"superseded by {short(new)} since") as error:
        recall.forget(ann, short(old))
    assert error.value.details["version"] == new.seq == recall.version_by(ann, old.id)
    with pytest.raises(synapse.Conflict, match="superseded"):
        recall.remember(ann, "tea at six", "group", supersedes=old.id)
    recall.forget(ann, new.id, version=seen.version + 1)
    with pytest.raises(synapse.Conflict, match="was forgotten by ann since"):
        recall.forget(ann, new.id)
    assert bodies(ann) == []


def test_an_older_version_than_the_last_change_is_refused(agent_memories):
    ann = agent_memories["ann"]
    kept = recall.remember(ann, "tea at four", "agent")
    seen = recall.search(ann, "tea").version
    ann.archive([kept.id])
    ann.restore([kept.id])
    with pytest.raises(
        synapse.Conflict, match="was changed since: nothing was written; it is at version"
    ):
        recall.forget(ann, kept.id, version=seen)
    recall.forget(ann, kept.id, version=recall.search(ann, "tea").version)


@pytest.mark.parametrize("act", [
    lambda me, id: recall.forget(me, id),
    lambda me, id: recall.remember(me, "tea at six", "agent", supersedes=id),
])  # fmt: skip
def test_of_two_at_once_one_is_refused(mem, agent_memories, act, monkeypatch):
    """Between looking and writing somebody else writes: the log's lock decides, not the look."""
    ann = agent_memories["ann"]
    kept = recall.remember(ann, "tea at four", "agent")
    looked = recall._expect_version

    def slowly(me, reference, version):
        found = looked(me, reference, version)
        mem.as_agent("ann").resolve(kept.id)
        return found

    monkeypatch.setattr(recall, "_expect_version", slowly)
    with pytest.raises(synapse.Conflict, match="was forgotten by ann since"):
        act(ann, kept.id)
    assert bodies(ann) == []
    monkeypatch.setattr(recall, "_expect_version", looked)
    unguarded = recall.remember(ann, "tea at seven", "agent")
    monkeypatch.setattr(
        recall, "_expect_version", lambda *asked: slowly_of(mem, looked, unguarded, *asked)
    )
    monkeypatch.setattr(recall, "_guard", lambda seen: unchanged("item:other", 0))
    act(ann, unguarded.id)  # without the guard, both go in: that is what it is for


def slowly_of(mem, looked, kept, *asked):
    found = looked(*asked)
    mem.as_agent("ann").resolve(kept.id)
    return found


def test_retries_write_once(mem, agent_memories):
    ann = agent_memories["ann"]
    kept = recall.remember(ann, "tea at four", "agent", once="a")
    assert recall.remember(ann, "tea at four", "agent", once="a").id == kept.id
    newer = recall.remember(ann, "tea at five", "agent", supersedes=kept.id, once="b")
    assert recall.remember(ann, "tea at five", "agent", supersedes=kept.id, once="b").id == newer.id
    for _ in range(3):
        assert recall.forget(ann, short(newer), once="c").id == newer.id
    assert [record.kind for record in mem.store.log.since()].count("resolve") == 1


def test_a_stale_run_writes_nothing(mem, agent_memories):
    kept = recall.remember(agent_memories["ann"], "tea", "agent")
    mem.store.commit.append(
        Record.new("run", "ann", {"run": "r", "epoch": 2, "agent": "ann"}, key="run:r")
    )
    stale = mem.as_agent("ann", run="r", epoch=1)
    for act in (
        lambda: recall.remember(stale, "more tea", "agent"),
        lambda: recall.forget(stale, kept.id),
    ):
        with pytest.raises(synapse.Conflict, match="goes on as epoch 2"):
            act()


def test_what_is_recalled_counts_as_used(agent_memories):
    kept = recall.remember(agent_memories["ann"], "tea", "agent")
    for _ in range(3):
        recall.search(agent_memories["ann"], "tea")
    assert memory.uses_of(agent_memories["ann"], kept.id) == 3


def test_only_knowledge_is_forgotten(agent_memories):
    entry = agent_memories["ann"].append("tea", "agents/ann")
    with pytest.raises(synapse.NotFound, match="is not of the kind fact or atom"):
        recall.forget(agent_memories["ann"], entry.id)


@pytest.mark.parametrize(("name", "value"), [
    ("top_k", 0), ("top_k", -1), ("top_k", True), ("top_k", 1.5), ("top_k", 1_001), ("top_k", "5"),
    ("max_capsule_bytes", LEAST - 1), ("max_capsule_bytes", MOST + 1), ("max_capsule_bytes", None),
    ("scope", ""), ("scope", "team"), ("scope", "agent:rob"), ("scope", "group:../x"), ("scope", "global:x"),
    ("scope", 3), ("query", None), ("query", b"tea"),
])  # fmt: skip
def test_what_cannot_be_asked_is_refused(agent_memories, name, value):
    with pytest.raises((synapse.InvalidQuery, synapse.InvalidEntry, synapse.Forbidden)):
        recall.search(agent_memories["ann"], **({"query": "tea"} | {name: value}))


@pytest.mark.parametrize("ttl", [0, -1, True, 1.0, 3_651, "7"])
def test_a_time_to_live_is_whole_days(agent_memories, ttl):
    with pytest.raises(synapse.InvalidEntry, match="ttl_days"):
        recall.remember(agent_memories["ann"], "tea", "agent", ttl_days=ttl)


HOSTILE = [
    "",
    '"',
    "AND OR NOT",
    "tea*",
    "-tea",
    "(",
    "tea\0",
    "x" * 10_000,
    "😀",
    "'; drop table ids; --",
    "{tea}",
    "группа",
]


@pytest.mark.parametrize("query", HOSTILE)
@pytest.mark.parametrize("scope", recall.SCOPES)
def test_a_query_is_only_words(agent_memories, query, scope):
    recall.remember(agent_memories["bea"], "tea of bea", "agent")
    recall.remember(agent_memories["ann"], "чай и tea 😀", "agent")
    made = recall.search(agent_memories["ann"], query, scope)
    assert len(made.text.encode()) <= 2_048
    assert "of bea" not in made.text


@given(
    st.text(max_size=60),
    st.text("漢字éa 😀\n>", min_size=1, max_size=900),
    st.integers(LEAST, 4_000),
    st.integers(1, 30),
)
@examples(100)
def test_a_capsule_keeps_to_its_limit_whatever_it_holds(query, body, limit, top):
    with synapse.open("memory:", clock=FrozenClock()) as mem:
        mem.register(AGENTS[0])
        me = mem.as_agent("ann")
        if not body.strip():
            return
        for n in range(3):
            recall.remember(me, f"tea {n} {body}", "agent")
        made = recall.search(me, f"tea {query}", top_k=top, max_capsule_bytes=limit)
        assert len(made.text.encode()) <= limit
        assert len(made.shown) <= top
        assert made.shown


def test_the_operator_recalls_from_every_place(mem, agent_memories):
    recall.remember(agent_memories["ann"], "tea of ann", "agent")
    recall.remember(agent_memories["bea"], "tea of blue", "group")
    operator = mem.as_agent("operator")
    assert (bodies(operator, "agent"), bodies(operator, "group"), bodies(operator, "global")) == (
        ["tea of ann"], ["tea of blue"], [],
    )  # fmt: skip
    with pytest.raises(synapse.Forbidden):
        recall.remember(operator, "tea", "global")


def test_ids_of_every_kind_are_said_short(agent_memories):
    recall.remember(agent_memories["ann"], "tea of ann", "agent")
    memory.atom(agent_memories["ann"], "tea", "cools", "is cold")
    agent_memories["ann"].append("tea in a note", "agents/ann")
    synapse.Mail(agent_memories["ann"]).send("rob", "tea by mail")
    text = recall.search(agent_memories["ann"], "tea").text
    ids = [line.split()[1].partition("@")[0] for line in text.splitlines() if line.startswith("- ")]
    assert {kinds.kind_of(id if "-" in id else f"{id}0000") for id in ids} == {*kinds.KINDS}
