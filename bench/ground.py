"""A workspace full of entries, made as quickly as its lines can be written.

Every entry passes the library's own gate and becomes a line by the library's own encoder; only the
sync of each is left out, and time is the workload's. Nothing else of the bench writes below the
surface of the library.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import chain
from typing import IO

import synapse
from bench.figures import once
from bench.workload import DAY, DAYS, READER, Item, items, people
from synapse.agent_memory import AgentMemory
from synapse.authority import admit
from synapse.formats.declared import render_agent
from synapse.log import settle
from synapse.log.chain import encode
from synapse.log.commit import agent_record, entry_record
from synapse.log.files import FilesLog
from synapse.log.journal import SEGMENT_BYTES
from synapse.log.progress import Progress, boot
from synapse.model import clock
from synapse.model.agents import OPERATOR, Agent, agent_from, settled
from synapse.model.entry import Draft, Entry, addressees
from synapse.model.placement import GENESIS, NOBODY, Tail
from synapse.model.records import Record, entry_of
from synapse.model.settings import Settings

FILES_UP_TO = 100_000


class Ground:
    """One workspace of the bench, and the time at which it is read."""

    def __init__(self, root: str, size: int, now: int) -> None:
        self.root = root
        self.size = size
        self.now = now
        self.files = size <= FILES_UP_TO
        self.loaded = once(self._load)

    def open(self, *, frozen: bool = True) -> synapse.Memory:
        """Frozen at the workload's end nothing expires while it is measured; else the clock goes
        on.
        """
        return synapse.open(self.root, clock=self._frozen if frozen else clock.now)

    @cached_property
    def mem(self) -> synapse.Memory:
        mem = self.open()
        mem.as_agent(READER).read(limit=1)
        return mem

    @property
    def reader(self) -> AgentMemory:
        return self.mem.as_agent(READER)

    def everything(self) -> Iterator[Entry]:
        """Every entry of the log, whatever became of it, past the index."""
        return (
            entry_of(record) for record in self.mem.store.log.since(0) if record.kind == "entry"
        )

    def close(self) -> None:
        if "mem" in self.__dict__:
            self.mem.close()
            del self.mem

    def _frozen(self) -> int:
        return self.now

    def _load(self) -> None:
        synapse.init(self.root).close()
        load(self.root, team(), items(self.size, self.now), self.now - DAYS * DAY, files=self.files)
        with self.open() as mem:
            mem.as_agent(READER).read(limit=1)


def team() -> list[Agent]:
    """The workload's people as agents. All may write everywhere: what is measured is not who
    may.
    """
    return [
        settled(
            Agent(
                who.id,
                role=who.role,
                authority=who.authority,
                teams=who.teams,
                read=who.read,
                write=("*",),
            )
        )
        for who in people()
    ]


def load(
    root: str, agents: Iterable[Agent], entries: Iterable[Item], start: int, *, files: bool
) -> None:
    """Make these agents and entries the whole content of an empty workspace."""
    declared = list(agents)
    fill(root, _lines(declared, entries, Settings(), start), files=files)


def fill(root: str, lines: Iterable[tuple[int, Record]], *, files: bool) -> None:
    """Make these lines, each with the time at which it comes, the whole journal, and place what
    follows from them.
    """
    log = FilesLog(root)
    try:
        records = _Writer(os.path.join(root, "journal")).write(lines)
        kept = []
        for record in records:
            if record.kind == "agent":
                kept.append(record)
            elif files:
                settle.follow(log.mirror, (record,), lambda ids: ())
        for record in kept:
            agent = agent_from(record.fields["agent"])
            path, raw = f"agents/{agent.id}.yaml", render_agent(agent).encode()
            log.accepted.note_file(path, raw)
            log.mirror.place(path, raw)
        log.accepted.accept_all(log.journal.lines())  # past the journal they were not noted
        _settled(root, log)
    finally:
        log.close()


def declared_lines(agents: Iterable[Agent], start: int) -> Iterator[tuple[int, Record]]:
    for agent in agents:
        yield start, agent_record(agent, OPERATOR, None)


def _lines(
    agents: list[Agent], entries: Iterable[Item], settings: Settings, start: int
) -> Iterator[tuple[int, Record]]:
    yield from declared_lines(agents, start)
    known = {agent.id: agent for agent in agents}
    for item in entries:
        entry = admit(_draft(item), known[item.author], settings)
        record = Record.new("entry", item.author, {}, entry)
        yield item.at, entry_record(record, item.at, item.id)


def _draft(item: Item) -> Draft:
    replaces = (item.replaces,) if item.replaces else ()
    to = addressees(item.to)
    return Draft(
        item.body,
        item.namespace,
        item.author,
        item.priority,
        item.ttl,
        to,
        item.tags,
        replaces=replaces,
    )


def _settled(root: str, log: FilesLog) -> None:
    """Say that every file has been placed: the bench placed them, or wants none."""
    last = log.journal._current(NOBODY)
    Progress(last.seq, last.at, boot()).note(root)


class _Writer:
    """Lines into the segments of a journal, chained, not synced."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.tail = Tail(0, GENESIS, 0, "", 0, 0)

    def write(self, lines: Iterable[tuple[int, Record]]) -> Iterator[Record]:
        waiting = iter(lines)
        while (first := next(waiting, None)) is not None:
            path = os.path.join(self.directory, f"{self.tail.seq + 1:012d}.jsonl")
            self.tail = self.tail._replace(end=0)
            with open(path, "wb", buffering=1 << 20) as file:
                for record in self._segment(file, chain((first,), waiting)):
                    yield record
                    if self.tail.end >= SEGMENT_BYTES:
                        break

    def _segment(self, file: IO[bytes], lines: Iterator[tuple[int, Record]]) -> Iterator[Record]:
        for at, line in lines:
            raw, record, self.tail = encode(self.tail, max(at, self.tail.at + 1), line)
            file.write(raw)
            yield record
