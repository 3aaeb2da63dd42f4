"""Two hundred poisoned entries: none stands anywhere in a prompt but in the fenced block, none is
trusted more than where it comes from, and none wakes anybody.
"""

import random
import re

import pytest

import synapse
from orchestrator.prompts import render as rendering
from orchestrator.prompts.render import Assignment, Reach
from orchestrator.prompts.templates import Templates
from synapse import authority
from synapse.access import gate
from synapse.consolidate import run_nightly
from synapse.model.agents import Agent
from synapse.model.entry import RANK, TRUST, Draft
from synapse.model.records import Record
from synapse.notify import route
from synapse.testing import FrozenClock
from synapse.view import block
from synapse.view.fence import tags
from tests.attacks.poison import poisoned

POISONED = list(poisoned())
MARK = re.compile(r"mark\d{4}x")
TASK = Assignment("Build the page.")
AGENTS = (
    Agent("cto", "cto", notify=("critical", "important", "info")),
    Agent("eng", read=("*",), write=("*",), notify=("critical", "important", "info")),
    Agent("lead", "project-lead", read=("*",), write=("*",)),
)


def made_team():
    """Return a memory with all of them, dropped by a stranger in the names of others, as critical;
    what each says by its id; and the clock.
    """
    clock, draw = FrozenClock(), random.Random(7)
    mem = synapse.open("memory:", clock=clock)
    for agent in AGENTS:
        mem.register(agent)
    ids = {}
    for number, (_, body) in enumerate(POISONED):
        clock.advance("10s")
        draft = Draft(
            body,
            draw.choice(("decisions/core", "blockers/shop", "status/shop", "api/x")),
            draw.choice(("cto", "eng", "stranger")),
            "critical",
            topic="plan" if number % 9 == 0 else None,
        )
        entry = authority.admit(draft, None, mem.store.settings)
        ids[mem.store.commit.append(Record.new("entry", draft.author, {}, entry)).id] = body
    return mem, ids, clock


@pytest.fixture(scope="module")
def team():
    mem, ids, clock = made_team()
    yield mem, ids, clock
    mem.close()


def test_there_are_enough_of_enough_kinds():
    assert len(POISONED) >= 200
    assert len({family for family, _ in POISONED}) >= 10
    assert len({text for _, text in POISONED}) == len(POISONED)


def prompt_of(mem, who, budget):
    agent = next(agent for agent in mem.agents() if agent.id == who)
    text = mem.as_agent(who).briefing(budget, about=TASK.text).text
    return rendering.render(
        agent, TASK, text, bytes(32), Templates(None), Reach(("append", "read"))
    )[0]


def outside(mem, budget):
    """Return what stands outside of the fenced block or unquoted in it, and which are shown."""
    with synapse.open("memory:", clock=FrozenClock()) as empty:
        for agent in AGENTS:
            empty.register(agent)
        clean = {agent.id: prompt_of(empty, agent.id, budget) for agent in AGENTS}
    wrong, shown = [], set()
    for agent in AGENTS:
        prompt = prompt_of(mem, agent.id, budget)
        shown.update(MARK.findall(prompt.text))
        if (prompt.system, prompt.task) != (clean[agent.id].system, clean[agent.id].task):
            wrong.append(("another prompt", agent.id))
        tag = re.search(r"<memory-([0-9a-f]{12,})>\n", prompt.memory)
        parts = re.split(rf"</?memory-{tag[1]}>\n", prompt.memory) if tag else []
        if len(parts) != 3:
            wrong.append(("no fence", agent.id))
            continue
        before, inner, behind = parts
        wrong += [("outside", mark) for mark in MARK.findall(before + behind)]
        marked = [line for line in inner.split("\n") if MARK.search(line)]
        wrong += [("unquoted", line) for line in marked if not re.match(r"  >|- \[", line)]
    return wrong, shown


@pytest.mark.parametrize("budget", [400, 2_000, 8_000, 60_000])
def test_none_stands_outside_of_the_fenced_block(team, budget):
    wrong, shown = outside(team[0], budget)
    assert wrong == []
    assert shown
    assert budget < 60_000 or len(shown) > 150


def trusted(mem, ids, clock):
    """Return the entries that are trusted more than what they were made of, and those that somebody
    made of poisoned ones.
    """
    eng, made = mem.as_agent("eng"), []
    for id in [*ids][:40]:
        made.append(eng.append("what I make of it", "status/shop", derived_from=[id]).id)
    clock.advance("1d")
    run_nightly(mem, "2026-02-03", clock())
    with mem.store.snapshot() as snap:
        entries = {entry.id: entry for entry in snap.all(clock())}
    wrong = []
    for entry in entries.values():
        sources = [entries[id] for id in entry.derived_from if id in entries]
        least = min((TRUST.index(source.trust) for source in sources), default=len(TRUST))
        if TRUST.index(entry.trust) > least:
            wrong.append(("more than its sources", entry.id))
        if entry.id in ids or sources:
            if (entry.trust, entry.authority) != ("unverified", 0):
                wrong.append((entry.trust, entry.authority))
            if RANK[entry.priority] <= RANK["critical"]:
                wrong.append(("critical", entry.id))
    return wrong, {entries[id].trust for id in made}


def test_none_is_trusted_more_than_where_it_comes_from(team):
    assert trusted(*team) == ([], {"unverified"})


def woken(mem, ids):
    """Return the poisoned entries that are delivered to somebody at once."""
    with mem.store.snapshot() as snap:
        entries = [snap.entry(id, mem.store.clock()) for id in ids]
    agents = mem.agents()
    found = [e.id for e in entries for agent in agents if authority.wakes(e, agent)]
    found += [entry.id for entry in entries for one in route(entry, agents) if one.tier == "now"]
    return found


def test_none_wakes_anybody(team):
    mem, ids, _ = team
    assert woken(mem, ids) == []
    assert [*mem.as_agent("lead").follow(0, critical=True, timeout=0)] == []


# -- the checker itself ----------------------------------------------------------------------------


def unfenced(name, fence, body, *more, **values):
    """Show a text as it is."""
    return body


def first_fenced(name, fence, body, *more, **values):
    """Close the fence before the last entries."""
    opening, closing = tags(fence)
    middle = body.rfind("\n- ") + 1
    return f"{opening}{body[:middle]}{closing}{body[middle:]}"


@pytest.mark.parametrize(
    ("owner", "name", "wrong", "found"),
    [
        (rendering, "fenced", unfenced, "no fence"),
        (rendering, "fenced", first_fenced, "outside"),
        (block, "prefixed", lambda text, prefix: text, "unquoted"),
    ],
)
def test_a_prompt_without_its_fence_is_found_out(monkeypatch, owner, name, wrong, found):
    monkeypatch.setattr(owner, name, wrong)
    mem, _, _ = made_team()
    block.natural.cache_clear()
    with mem:
        assert found in {what for what, _ in outside(mem, 2_000)[0]}
    block.natural.cache_clear()


def believing(admit):
    """Admit a stranger as if the machine had vouched."""

    def admitted(draft, agent, settings, **more):
        entry = admit(draft, agent, settings, **more)
        return entry._replace(trust="local", authority=50, priority=draft.priority)

    return admitted


@pytest.mark.parametrize(
    ("owner", "name", "wrong"),
    [(authority, "admit", believing(authority.admit)), (gate, "passed_on", lambda trusts: "local")],
    ids=["a stranger is believed", "what is made of it is believed"],
)
def test_trust_that_is_passed_wrongly_is_found_out(monkeypatch, owner, name, wrong):
    monkeypatch.setattr(owner, name, wrong)
    mem, ids, clock = made_team()
    with mem:
        if owner is authority:
            assert woken(mem, ids)
        assert trusted(mem, ids, clock)[0]
