"""Prompts: a view cut out of a thousand candidates, a template rendered, a spawn's prompt with its
receipt; and how much of a prompt stands at the beginning of the next one.
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import fmean

from bench.figures import Goal, Row, timed
from bench.ground import Ground
from bench.reading import BUDGET
from bench.workload import READER, WRITERS, Item, items
from orchestrator.prompts.receipt import Order, fit
from orchestrator.prompts.render import Assignment, Prompt, prefix, render
from orchestrator.prompts.templates import Templates
from orchestrator.spend.counting import Counter
from synapse.model.agents import Agent
from synapse.model.entry import Entry
from synapse.system.tokens import Tokens
from synapse.view import view

KEY = bytes(32)
TASK = Assignment(
    "Fix the navigation of the landing page, and check it at every width.", "alpha", "lead-alpha"
)
CANDIDATES = 1_000
SPAWNS = 100


def prompting(ground: Ground) -> Iterator[Row]:
    """Spawns are of the reader, whose budget is that of the other views."""
    templates, agent = Templates(), Agent(READER, department="backend")
    found, kept = candidates(ground.now), dict[bytes, int]()
    counts = Tokens("o200k_base", lambda _: kept, kept.update)
    timing = timed(lambda: view.build(found, agent, ground.now, counts.measure, BUDGET))
    shown = view.build(found, agent, ground.now, counts.measure, BUDGET)
    note = f"{len(shown.included)} shown"
    yield Row(
        "fit: 8k tokens of 1,000 candidates",
        ground.size,
        timing.values(),
        None,
        (Goal("p50", 0.6e-3),),
        note,
    )
    timing = timed(lambda: render(agent, TASK, shown.text, KEY, templates))
    yield Row(
        "render: a prompt with that view",
        ground.size,
        timing.values(),
        None,
        (Goal("p50", 0.3e-3),),
    )
    counter, order = Counter("gpt-5"), Order("run", 1, agent, TASK, BUDGET)
    timing = timed(lambda: fit(ground.reader, order, KEY, templates, counter), calls=100)
    goals = (Goal("p50", 5e-3), Goal("p99", 20e-3))
    yield Row("prompt with its receipt", ground.size, timing.values(), None, goals)
    shares = list(successive(ground, order, templates, counter))
    note = f"{SPAWNS} spawns, an entry between each two; {min(shares):.2f} at worst"
    yield Row(
        "prompt: share that the next begins with",
        ground.size,
        {"ratio": fmean(shares)},
        None,
        (),
        note,
    )


def candidates(now: int) -> list[Entry]:
    """The workload's last thousand entries, as an index gives them."""
    return [_entry(place, item) for place, item in enumerate(items(CANDIDATES, now))]


def _entry(place: int, item: Item) -> Entry:
    known = (item.id, item.author, "", item.namespace, item.priority, item.body, item.ttl)
    return Entry(*known, authority=60, seq=place, at=item.at)


def successive(
    ground: Ground, order: Order, templates: Templates, counter: Counter
) -> Iterator[float]:
    """Of one prompt after the other, the share that stands at the beginning of the next. Entries as
    the workload has them are written in between.
    """
    before: Prompt | None = None
    mem = ground.mem
    for place, item in enumerate(items(SPAWNS, ground.now, seed=11)):
        writer = mem.as_agent(WRITERS[place % len(WRITERS)])
        writer.append(item.body, "api/endpoints", priority=item.priority)
        after, _ = fit(ground.reader, order, KEY, templates, counter)
        if before is not None:
            yield prefix(before, after).share
        before = after
