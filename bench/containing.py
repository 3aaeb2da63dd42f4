"""Containment: what was made of one poisoned entry is found and hidden."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator

import synapse
from bench.figures import Goal, Row, once
from bench.ground import Ground, declared_lines, fill, team
from bench.workload import DAY, DAYS, Item, items
from synapse.access import containment
from synapse.authority import admit
from synapse.log.commit import entry_record
from synapse.model.agents import OPERATOR
from synapse.model.entry import Draft
from synapse.model.records import Record
from synapse.model.settings import Settings

PART = 10  # one of so many is made of the poisoned one
GOAL = 1.0  # s


def containing(ground: Ground) -> Iterator[Row]:
    """An entry is tainted of which a tenth of the workspace was made, over many generations; found
    are just these.
    """
    root = f"{ground.root}-tainted"
    synapse.init(root).close()
    made = _Lineage(ground.size)
    start = ground.now - DAYS * DAY
    fill(root, made.lines(items(ground.size, ground.now), start), files=False)
    with synapse.open(root, clock=lambda: ground.now) as mem:
        mem.as_agent(OPERATOR).read(limit=1)
        os.sync()
        found: list[frozenset[str]] = []

        def taint() -> None:
            access = mem.as_agent(OPERATOR).access
            found.append(frozenset(containment.taint(access, made.first, "bench").ids))

        values = {"took": once(taint)}
    whole = frozenset(made.ids)
    values |= {"found": len(found[0]), "wrong": len(found[0] ^ whole)}
    goals = Goal("took", GOAL), Goal("wrong", 0)
    yield Row("taint: with all that was made of it", ground.size, values, None, goals)


class _Lineage:
    """The workload's entries, of which some are made of earlier ones that go back to the first."""

    def __init__(self, size: int) -> None:
        self.draw, self.size = random.Random(3), size
        self.first = ""
        self.ids: list[str] = []

    def lines(self, entries: Iterator[Item], start: int) -> Iterator[tuple[int, Record]]:
        agents = {agent.id: agent for agent in team()}
        yield from declared_lines(agents.values(), start)
        for number, item in enumerate(entries):
            sources: tuple[str, ...] = ()
            if number % PART == 0:
                sources = tuple(self.ids and [self.draw.choice(self.ids[-500:])])
                self.first = self.first or item.id
                self.ids.append(item.id)
            draft = Draft(
                item.body,
                item.namespace,
                item.author,
                item.priority,
                item.ttl,
                derived_from=sources,
            )
            entry = admit(draft, agents[item.author], Settings())
            record = Record.new("entry", item.author, {}, entry)
            yield item.at, entry_record(record, item.at, item.id)
