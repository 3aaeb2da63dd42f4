"""Reading: pages, unread counts, full text, views. Each once as it is asked anew, once with nothing
changed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

import synapse
from bench import limits
from bench.brute import differs, ranking
from bench.child import told
from bench.figures import Beside, Goal, Row, Timing, timed
from bench.ground import Ground, team
from bench.workload import PLANTED, READER, WRITERS, items
from synapse.agent_memory import AgentMemory

SHAPES: dict[str, dict[str, Any]] = {
    "24 h, all priorities": {"since": "24h"},
    "critical only": {"priority": "critical"},
    "one namespace": {"namespace": "api/endpoints"},
    "important and critical, 7 d": {"since": "7d", "priority": ("critical", "important")},
    "everything": {},
}
ANEW, UNCHANGED, FLAT = Goal("p50", 0.2e-3), Goal("p50", 0.05e-3), Goal("ratio", 1.3)
WORD_GOALS = {
    10_000: dict.fromkeys(PLANTED, 1e-3),
    100_000: dict(zip(PLANTED, (2e-3, 4e-3, 6e-3, 8e-3), strict=True)),
}
CHECKED_UP_TO = 100_000
BUDGET = 8_000
NOTE = "short status, nothing to do"


def forget(agent_memory: AgentMemory) -> None:
    """Make the seat work its answers out again, as it does whenever the store has changed."""
    agent_memory._pages.clear()
    agent_memory._unread = (None, 0, 0)


def pages(ground: Ground) -> Iterator[Row]:
    """The fifty newest of each shape: worked out anew, and asked again of an unchanged store."""
    agent_memory, beside = ground.reader, limits.rows(ground.root)
    for name, asked in SHAPES.items():
        anew = timed(
            lambda: agent_memory.read(limit=50, **asked),  # noqa: B023
            before=lambda: forget(agent_memory),
        )
        again = timed(lambda: agent_memory.read(limit=50, **asked))  # noqa: B023
        yield Row(f"page: {name}", ground.size, anew.values(), beside, (ANEW,))
        yield Row(f"page, unchanged: {name}", ground.size, again.values(), beside, (UNCHANGED,))


def flatness(rows: Sequence[Row]) -> Iterator[Row]:
    """How much dearer a page is in the largest workspace than in one of ten thousand entries."""
    for name in SHAPES:
        found = [
            row for row in rows if row.operation == f"page: {name}" and (row.size or 0) >= 10_000
        ]
        found.sort(key=lambda row: row.size or 0)
        if len(found) > 1:
            small, large = found[0], found[-1]
            beside = Beside(f"at {small.size:,}", small.values["p50"])
            yield Row(
                f"page, flat: {name}", large.size, {"p50": large.values["p50"]}, beside, (FLAT,)
            )


def unread(ground: Ground) -> Iterator[Row]:
    """A hundred entries after the last mark, counted anew; then asked again with nothing new; then
    where an agent was shown a few of all that there is.
    """
    agent_memory, writer = ground.reader, ground.mem.as_agent(WRITERS[0])
    never = timed(agent_memory.unread, before=lambda: forget(agent_memory), calls=50, budget=1.0)
    yield Row("unread: by one who was never shown anything", ground.size, never.values())
    agent_memory.writer.act("shown", cursor=agent_memory.read(limit=1).cursor, how="read")
    for place in range(100):
        writer.append(
            f"{NOTE} {place}", ("api/endpoints", "blockers/alpha", "decisions/process")[place % 3]
        )
    if agent_memory.unread() != 100:
        raise AssertionError(f"100 entries are unread, and {agent_memory.unread()} were counted")
    beside = limits.tally(ground.root)
    anew = timed(agent_memory.unread, before=lambda: forget(agent_memory), calls=1_000)
    yield Row("unread: 100 new", ground.size, anew.values(), beside, (Goal("p50", 0.03e-3),))
    again = timed(agent_memory.unread, calls=1_000)
    yield Row("unread: nothing new", ground.size, again.values(), beside, (Goal("p50", 0.01e-3),))
    part = ground.mem.as_agent(WRITERS[1])
    part.read(limit=20, mark=True)
    some = timed(part.unread, before=lambda: forget(part), calls=1_000)
    yield Row("unread: all but 20", ground.size, some.values(), beside)
    page = timed(lambda: part.read(unread=True, limit=20), calls=200)
    yield Row("what is unread, the first 20", ground.size, page.values(), limits.rows(ground.root))


def after_a_write(ground: Ground) -> Iterator[Row]:
    """The same questions just after somebody wrote: the index takes the entry in first."""
    agent_memory, writer = ground.reader, ground.mem.as_agent(WRITERS[0])

    def write() -> None:
        writer.append(NOTE, "api/endpoints")

    page = timed(lambda: agent_memory.read(limit=50, since="24h"), before=write, calls=200)
    yield Row("page, after a write: 24 h", ground.size, page.values(), limits.rows(ground.root))
    count = timed(agent_memory.unread, before=write, calls=200)
    yield Row("unread, after a write", ground.size, count.values(), limits.tally(ground.root))


def search(ground: Ground) -> Iterator[Row]:
    """The ten best for words of known frequency, and whether they are the ones that they should
    be.
    """
    agent_memory = ground.reader
    for word, share in PLANTED.items():
        hits = agent_memory.search(word)
        found = timed(lambda: agent_memory.search(word), calls=100)  # noqa: B023
        ids = [hit.entry.id for hit in hits]
        wrong = check(ground, word, ids) if ground.size <= CHECKED_UP_TO else None
        values = found.values() | {"wrong": float(wrong is not None)}
        most = WORD_GOALS.get(ground.size, {}).get(word)
        goals = (*((Goal("p50", most),) if most else ()), Goal("wrong", 0))
        note = wrong or "all ranked"
        beside = limits.ranked(ground.root, word)
        yield Row(f"full text: a word in {share:.1%}", ground.size, values, beside, goals, note)


def check(ground: Ground, word: str, ids: Sequence[str]) -> str | None:
    """What is wrong with these ten by the definition of the ranking, over what the reader may
    see.
    """
    seen = {entry.seq for entry in ground.reader.read()}
    return differs(ids, ranking(ground.everything(), seen, word))


def view(ground: Ground) -> Iterator[Row]:
    """A view of fifty entries, and the one of this workspace, cut to a budget, counts stored
    beforehand.
    """
    beside = limits.rows(ground.root)
    root = os.path.join(os.path.dirname(ground.root), f"fifty-{ground.size}")
    with fifty(root, ground.now) as mem:
        timing, shown = _views(mem.as_agent(READER))
    loaded = told("view", root, READER, str(BUDGET))["tokenizers"]
    values = timing.values() | {"tokenizers": float(loaded)}
    goals = (Goal("p50", 1e-3), Goal("tokenizers", 0))
    yield Row("view: 50 entries", ground.size, values, beside, goals, f"{shown} shown")
    timing, shown = _views(ground.reader)
    yield Row(
        "view: all that matters here", ground.size, timing.values(), beside, (), f"{shown} shown"
    )


def _views(agent_memory: AgentMemory) -> tuple[Timing, int]:
    if agent_memory.briefing(BUDGET).bounded:
        raise AssertionError("no tokenizer can be loaded here, so no exact counts are stored")
    return timed(lambda: agent_memory.briefing(BUDGET), calls=100), len(
        agent_memory.briefing(BUDGET).included
    )


def fifty(root: str, now: int) -> synapse.Memory:
    """A workspace with fifty entries of this day, all of which the reader may see."""
    mem = synapse.init(root, clock=lambda: now)
    for agent in team():
        mem.register(agent)
    for item in items(50, now):
        mem.as_agent(item.author).append(item.body, "api/endpoints", priority=item.priority)
    return mem
