"""Cortex's tools: the names and arguments that its callers know, over what we keep; and the gate
holds.
"""

import itertools

import pytest

import synapse
from synapse import Mail
from synapse.compat.cortex_tools import call, offered
from synapse.knowledge import memory
from synapse.model.agents import Agent
from synapse.testing import FrozenClock
from synapse.tools import CAPSULE, ToolProblem

# As published: the arguments of each, the needed ones first.
PUBLISHED = {
    "cortex_create_category": ("name description keywords", ""),
    "cortex_list_categories": ("", ""),
    "cortex_add": ("content", "category categories importance"),
    "cortex_stm": ("", "limit category categories"),
    "cortex_stats": ("", ""),
    "cortex_dedupe": ("action", "category categories similarity_threshold"),
    "cortex_update": ("memory_id", "importance categories"),
    "cortex_edit": ("memory_id", "append replace"),
    "cortex_move": ("memory_id to_categories", ""),
    "cortex_predict": ("", "query sources urgency_min include_queue limit"),
    "atom_create": ("subject action outcome consequences", "confidence source"),
    "atom_search": ("field query", "limit threshold"),
    "atom_find_causes": ("", "atom_id outcome max_depth"),
    "atom_link": ("from_atom_id to_atom_id", "link_type strength"),
    "atom_stats": ("", ""),
}
TOOLS = {tool.name: tool for tool in offered()}


@pytest.fixture
def mem():
    with synapse.open("memory:", clock=FrozenClock()) as mem:
        for id in ("helios", "nova"):
            mem.register(Agent(id, teams=("brain",)))
        mem.register(Agent("outsider"))
        yield mem


@pytest.fixture
def ask(mem):
    def ask(tool, who="helios", /, **given):
        return call(TOOLS[tool], mem.as_agent(who), given)

    return ask


def id_of(text):
    return text.rstrip(".").split("now ")[-1].split("Stored as ")[-1].split(":")[0].split(",")[0]


def test_names_and_arguments_are_those_that_were_published():
    found = {}
    for name, tool in TOOLS.items():
        needed = tool.schema.get("required", [])
        optional = [each for each in tool.schema["properties"] if each not in needed]
        found[name] = (" ".join(needed), " ".join(optional))
        assert all(each["description"] for each in tool.schema["properties"].values())
    assert {name: tuple(map(sorted, map(str.split, row))) for name, row in found.items()} == {
        name: tuple(map(sorted, map(str.split, row))) for name, row in PUBLISHED.items()
    }


def test_memories_are_kept_shown_and_changed(ask, mem):
    assert "made" in ask(
        "cortex_create_category", name="Trading Desk", description="d", keywords=["Spread", "fees"]
    )
    assert "trading_desk: d (spread, fees)" in ask("cortex_list_categories", "nova")
    told = ask("cortex_add", content="lesson: the spread gate predicts nothing")
    assert "[trading_desk] importance=2.0" in told
    first = id_of(told)
    second = id_of(ask("cortex_add", "nova", content="lunch is at noon", importance=1))
    shown = ask("cortex_stm", "nova", limit=10)
    assert shown.index(second) < shown.index(first)
    assert second not in ask("cortex_stm", categories=["trading_desk"])
    updated = id_of(ask("cortex_update", memory_id=first, importance=3))
    assert "importance=3.0" in ask("cortex_stm", category="trading_desk")
    edited = id_of(ask("cortex_edit", memory_id="spread gate", append="shown on 900 trades"))
    moved = id_of(ask("cortex_move", memory_id=edited, to_categories=["meta"]))
    entry = mem.as_agent("nova").get(moved)
    assert (entry.more["categories"], entry.more["importance"]) == (("meta",), 3)
    assert entry.body.endswith("\n\nshown on 900 trades")
    assert [mem.as_agent("nova").fate(id).reason for id in (first, updated, edited)] == [
        "superseded"
    ] * 3
    stats = ask("cortex_stats")
    assert "memories: 3" in stats
    assert "meta 1" in stats


def test_a_new_version_comes_from_where_the_old_one_did(ask, mem):
    sent = Mail(mem.as_agent("helios")).send("nova", "halt below zero")
    kept = memory.remember(
        mem.as_agent("helios"), "we halt below zero", scope="group:brain", cites=sent.id
    )
    new = id_of(ask("cortex_edit", memory_id=kept.id, replace="we halt at zero"))
    assert mem.as_agent("helios").get(new).derived_from == (sent.id,)


@pytest.mark.parametrize("action", ["merge", "delete_older"])
def test_duplicates(ask, mem, action):
    old = id_of(ask("cortex_add", content="Fees are  4 bps", importance=3, category="a"))
    new = id_of(ask("cortex_add", content="fees are 4 bps", importance=1, category="b"))
    other = id_of(ask("cortex_add", content="fees are 5 bps", importance=1))
    report = ask("cortex_dedupe", action="report")
    assert old in report
    assert new in report
    assert other not in report
    assert "No duplicates" in ask("cortex_dedupe", action="report", category="a")
    assert ask("cortex_dedupe", action=action).startswith("1 duplicates")
    left = [entry for entry in mem.as_agent("nova").read() if entry.kind == "fact"]
    assert len(left) == 2
    kept = next(entry for entry in left if entry.id != other)
    assert (kept.more["importance"], kept.more["categories"]) == (
        (3, ("b", "a")) if action == "merge" else (1, ("b",))
    )
    assert mem.as_agent("nova").get(old).body == "Fees are  4 bps", "nothing is destroyed"


def test_insights(ask, mem):
    mem.as_agent("nova")
    ask(
        "cortex_add",
        "nova",
        content="whales move before the price",
        category="insight",
        importance=3,
    )
    ask("cortex_add", "nova", content="mondays are slow", category="insight", importance=1)
    Mail(mem.as_agent("nova")).send("helios", "look at the whales")
    assert ask("cortex_predict").count("[LOW]") == 1
    assert "mondays" not in ask("cortex_predict", urgency_min="high")
    assert "mondays" not in ask("cortex_predict", query="whales")
    assert "no insight" in ask("cortex_predict", sources=["helios"])
    assert "[UNREAD]" in ask("cortex_predict", include_queue=True)


def test_atoms_and_their_causes(ask):
    made = [
        id_of(ask("atom_create", subject=s, action="leads to", outcome=o, consequences="c"))
        for s, o in (("whales", "crowds"), ("crowds", "hype"), ("hype", "price spike"))
    ]
    for cause, effect in itertools.pairwise(made):
        assert "causes" in ask("atom_link", from_atom_id=cause, to_atom_id=effect)
    assert made[2] in ask("atom_search", field="outcome", query="price spike")
    assert made[0] in ask("atom_find_causes", atom_id=made[2])
    assert "[depth 2]" in ask("atom_find_causes", outcome="price spike")
    assert "nothing is known" in ask("atom_find_causes", atom_id=made[0])
    assert "[depth" not in ask("atom_find_causes", atom_id=made[2], max_depth=1)
    assert "atoms: 3\nlinks: causes 2" in ask("atom_stats")
    ask("atom_link", from_atom_id=made[2], to_atom_id=made[0])
    assert "nothing is known" in ask("atom_find_causes", atom_id=made[0]), "a circle ends"


WRONG = (
    ("cortex_add", {}), ("cortex_add", {"content": ""}), ("cortex_add", {"content": "x", "importance": "high"}),
    ("cortex_add", {"content": "x", "importance": 99}), ("cortex_add", {"content": "\ud800"}),
    ("cortex_stm", {"limit": "all"}), ("cortex_stm", {"nonsense": 1}), ("cortex_dedupe", {"action": "burn"}),
    ("cortex_update", {"memory_id": "fact_000000000000", "importance": 1}), ("cortex_update", {"memory_id": "x"}),
    ("cortex_edit", {"memory_id": "nothing says this", "append": "x"}), ("cortex_edit", {"memory_id": "x"}),
    ("cortex_move", {"memory_id": "x", "to_categories": []}), ("cortex_predict", {"urgency_min": "soon"}),
    ("cortex_create_category", {"name": "x", "description": "y", "keywords": []}),
    ("atom_create", {"subject": "x"}), ("atom_search", {"field": "mood", "query": "x"}), ("atom_find_causes", {}),
    ("atom_search", {"field": "outcome", "query": " "}),
    ("atom_link", {"from_atom_id": "atom_000000000000", "to_atom_id": "atom_000000000000"}),
)  # fmt: skip


@pytest.mark.parametrize(
    ("name", "given"), WRONG, ids=[f"{name} {place}" for place, (name, _) in enumerate(WRONG)]
)
def test_a_mistake_is_an_answer(ask, mem, name, given):
    before = mem.store.log.mark()
    assert isinstance(ask(name, **given), ToolProblem)
    assert mem.store.log.mark() == before


def test_nobody_is_told_more_than_it_may_see(ask, mem):
    kept = id_of(ask("cortex_add", content="the secret is 4711", category="insight"))
    atom = id_of(
        ask("atom_create", subject="secret", action="is", outcome="4711", consequences="c")
    )
    told = [
        ask(name, "outsider")
        for name in ("cortex_stm", "cortex_stats", "cortex_predict", "atom_stats")
    ]
    told += [
        ask("cortex_dedupe", "outsider", action="report"),
        ask("cortex_predict", "outsider", query="secret"),
    ]
    told += [ask("atom_search", "outsider", field="outcome", query="4711")]
    told += [ask("cortex_edit", "outsider", memory_id="4711", append="x")]
    told += [ask("cortex_edit", "outsider", memory_id=kept, append="x")]
    told += [
        ask("atom_find_causes", "outsider", atom_id=atom),
        ask("atom_find_causes", "outsider", outcome="4711"),
    ]
    assert [each for each in told if "secret is" in each or "is -> 4711" in each] == []
    assert all(isinstance(each, ToolProblem) for each in told[7:10])


def test_an_answer_is_a_capsule(ask):
    for place in range(30):
        ask("cortex_add", content=f"memory {place}: {'word ' * 60}")
    assert len(ask("cortex_stm", limit=30).encode()) <= CAPSULE
    assert "of 30 shown" in ask("cortex_stm", limit=30)


def test_a_retry_keeps_nothing_twice(mem):
    agent_memory = mem.as_agent("helios")
    first, again = (
        call(TOOLS["cortex_add"], agent_memory, {"content": "x"}, once="key") for _ in range(2)
    )
    assert first == again
