"""What has to be left of a workspace after a power cut, whatever was done in it."""

from __future__ import annotations

import os
from collections import Counter
from typing import NamedTuple

import synapse
from synapse.errors import SynapseError
from synapse.model.clock import now

STAFF = (
    synapse.Agent("lead", role="cto"),
    synapse.Agent("eng", read=["*"], write=["*"], teams=["red"]),
    synapse.Agent("junior", read=["*"], write=["*"], review_required=True),
)


class Act(NamedTuple):
    """An act in a workspace: `prepare` makes what is there before, `perform` does it, and says what
    it was told. `findings` yields what is wrong in what a cut left, by what was acknowledged.
    """

    prepare: object
    perform: object
    findings: object
    standing: object


def workspace(root):
    """A workspace with something in it, all of it on the disk."""
    with synapse.init(str(root / "memory"), clock=lambda: now() - 60_000_000) as memory:
        for agent in STAFF:
            memory.register(agent)
        for n in range(4):
            memory.as_agent("eng").append(f"before {n}", "api/endpoints", topic=f"t{n}")


def entries(memory):
    """The text of every entry that the log holds, by its id."""
    return [
        (record.id, record.text) for record in memory.store.log.since(0) if record.kind == "entry"
    ]


def body(text):
    """What an entry says, whenever that was."""
    return text.partition("\n---\n")[2]


def standing(root):
    """What a finished act left: its entries."""
    with synapse.open(str(root / "memory")) as memory:
        return dict(entries(memory))


def findings(root, told, whole, inodes, more=None, clock=now):
    """What is wrong with a workspace after a cut."""
    try:
        with synapse.open(str(root / "memory"), clock=clock) as memory:
            memory.as_agent("lead").read()
            report = memory.verify()
            if not report.ok:
                yield "verify", report.problems
            yield from in_entries(memory, told, whole)
            yield from in_agents(memory, told)
            if more is not None:
                yield from more(memory, told, whole)
            yield from in_what_follows(memory, report)
    except (SynapseError, OSError) as error:
        yield "stuck", repr(error)


def in_entries(memory, told, whole):
    """Every entry is one that was written, whole and once; none that was acknowledged is missing."""
    held = entries(memory)
    texts = Counter(text for _, text in held)
    if len(dict(held)) < len(held) or len(texts) < len(held):
        yield "twice", [text for text, count in texts.items() if count > 1]
    bodies = {body(text) for text in whole.values()}
    for id, text in held:
        if body(text) not in bodies:
            yield "half", (id, text)
    operator, held = memory.as_agent("operator"), dict(held)
    for what in (what for what in told if what[0] == "entry"):
        _, id, text = what
        if held.get(id) != text or operator.get(id).id != id:
            yield "lost", what


def in_agents(memory, told):
    """The staff is there, and who was registered, as it was last, with its drop box."""
    known = {agent.id: agent for agent in memory.agents()}
    for what in told:
        if what[0] == "agent":
            _, id, departments = what
            box = os.path.join(memory.store.root, "inbox", id, "new")
            if id not in known or not os.path.isdir(box):
                yield "lost", (what, list(known))
            elif known[id].department not in departments:
                yield "lost", (what, known[id])
    if {agent.id for agent in STAFF} - known.keys():
        yield "lost", list(known)


def in_what_follows(memory, report):
    """The workspace goes on, and proves itself then."""
    memory.as_agent("eng").append("and it goes on", "api/endpoints")
    after = memory.verify(report.head)
    if not after.ok:
        yield "verify", after.problems
    if memory.rebuild().digest != memory.digest():
        yield "index", "it is not what the log says"


def in_memory(perform, prepare=workspace, more=None, clock=now):
    """An act in a workspace that is opened for it."""

    def performed(root, acknowledge):
        with synapse.open(str(root / "memory"), clock=clock) as memory:
            perform(memory, acknowledge)

    def found(root, told, whole, inodes):
        return findings(root, told, whole, inodes, more, clock)

    return Act(prepare, performed, found, standing)


def stored(memory, entry):
    record = next(each for each in entries(memory) if each[0] == entry.id)
    return ("entry", *record)
