"""The memory as a peer among peers: an adapter for programs that compare stores through six
methods.

An entry comes as a dict with seq, id, from, timestamp, namespace, priority, ttl, tags, supersedes,
body. The other stores of such a comparison know no addressees, so `to` is left out here too: all
then answer the same question.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

import synapse
from bench.ground import load
from bench.reading import forget
from bench.workload import Item
from synapse.model import clock
from synapse.model.agents import Agent, settled

Fields = Mapping[str, Any]

READER = "reader"
GLOBS = ("projects/alpha/*", "decisions/*", "blockers/*", "status/backend", "api/*")
NOW = "2026-02-01T12:00:00.000000Z"
MONTH = 30 * 86_400_000_000


class Adapter:
    """As the library is used: what is asked again of an unchanged store is answered from the
    seat.
    """

    name = "synapse"
    durable = "fdatasync journal"

    def __init__(self, dir: str) -> None:
        self.root = os.path.join(dir, "shared-memory")
        self.now = clock.micros(NOW)
        synapse.init(self.root).close()
        self.mem = synapse.open(self.root, clock=lambda: self.now)
        self.agent_memories: dict[str, synapse.AgentMemory] = {}
        self.marked = -1

    def load(self, entries: Iterable[Fields]) -> None:
        found = [_item(fields) for fields in entries]
        names = sorted({item.author for item in found})
        agents = [settled(Agent(name, read=("*",), write=("*",))) for name in names]
        agents.append(settled(Agent(READER, read=GLOBS, write=())))
        files = len(found) <= 100_000
        load(self.root, agents, found, self.now - MONTH, files=files)
        self.before = len(agents)
        self.reader.read(limit=1)
        self.reader.search("endpoint")

    @property
    def reader(self) -> synapse.AgentMemory:
        return self._seat(READER)

    def append(self, entry: Fields) -> None:
        item = _item(entry)
        self._seat(item.author).append(
            item.body, item.namespace, priority=item.priority, ttl=item.ttl, tags=item.tags
        )

    def view(self) -> list[str]:
        page = self.reader.read(since="7d", priority=("critical", "important"), limit=50)
        return [entry.id for entry in page]

    def unread(self, cursor: int) -> int:
        """What came after an entry's number; the mark is set once, as a reader's would be."""
        if cursor != self.marked:
            self.mem.store.commit.act("shown", READER, cursor=cursor + self.before, how="read")
            self.marked = cursor
        return self.reader.unread()

    def search(self, query: str) -> list[str]:
        return [hit.entry.id for hit in self.reader.search(query, limit=10)]

    def _seat(self, agent: str) -> synapse.AgentMemory:
        if agent not in self.agent_memories:
            self.agent_memories[agent] = self.mem.as_agent(agent)
        return self.agent_memories[agent]


class Anew(Adapter):
    """The same, and every answer is worked out again: nothing is kept between two questions."""

    name = "synapse, nothing kept"

    def view(self) -> list[str]:
        forget(self.reader)
        return super().view()

    def unread(self, cursor: int) -> int:
        forget(self.reader)
        return super().unread(cursor)


def _item(fields: Fields) -> Item:
    at = clock.micros(fields["timestamp"])
    return Item(
        fields["id"],
        fields["from"],
        "all",
        at,
        fields["namespace"],
        fields["priority"],
        fields["ttl"],
        tuple(fields["tags"]),
        fields["supersedes"],
        fields["body"],
    )
