"""Provenance: the trail of an item, step by step, to the conversation or prompt it began with."""

from __future__ import annotations

from collections.abc import Iterator

from synapse.agent_memory import AgentMemory
from synapse.errors import NotFound
from synapse.index.questions.links import links
from synapse.index.snapshot import Snapshot
from synapse.knowledge.memory import sees
from synapse.knowledge.references import resolve_reference
from synapse.model import clock
from synapse.model.agents import OPERATOR
from synapse.model.entry import Entry
from synapse.model.kinds import ATOM
from synapse.system.typed import Any, NamedTuple

DEPTH = 12
SHOWN = 50  # entries of a prompt that are named


class Step(NamedTuple):
    """An item of a trail, how the one above came from it, and what it came from itself. `text` is
    how it begins; of what the reader may not see there is neither id nor text.
    """

    how: str
    kind: str
    id: str
    by: str = ""
    at: str = ""
    text: str = ""
    sources: tuple[Step, ...] = ()
    cut: bool = False


def why(me: AgentMemory, id: str, depth: int = DEPTH) -> Step:
    """Return the whole trail of an item or a run, as far as this agent may see it. A step that
    occurred before, or lies too deep, is named and `cut`."""
    me.store.refresh()
    with me.store.snapshot() as snap:
        trail = _Trail(me, snap)
        if snap.run(id) is not None:
            return trail.run("asked for", id, depth)
        return trail.entry("asked for", resolve_reference(me, id).id, depth)


class _Trail:
    """One walk: what it has been to."""

    def __init__(self, me: AgentMemory, snap: Snapshot) -> None:
        self.me = me
        self.snap = snap
        self.been: set[str] = set()

    def entry(self, how: str, id: str, depth: int) -> Step:
        try:
            entry = self.me.get(id)
        except NotFound:
            return Step(how, "hidden", "")
        head = Step(
            how,
            entry.kind,
            entry.id,
            entry.author,
            clock.seconds(entry.at),
            entry.body.partition("\n")[0],
        )
        return self._walk(head, depth, lambda: self._sources_of(entry, depth - 1))

    def run(self, how: str, id: str, depth: int) -> Step:
        run = self.snap.run(id)
        if run is None:
            return Step(how, "run", id)
        text = ""
        if self.me.id in (run["agent"], OPERATOR):
            task = run.get("task")
            text = task.get("text", "") if isinstance(task, dict) else str(task or "")
        head = Step(how, "run", id, run["agent"], clock.seconds(run["at"]), text.partition("\n")[0])
        return self._walk(head, depth, lambda: self._prompt_of(run, id, depth - 1))

    def _walk(self, head: Step, depth: int, sources: Any) -> Step:
        if head.id in self.been or depth <= 0:
            return head._replace(cut=True)
        self.been.add(head.id)
        return head._replace(sources=tuple(sources()))

    def _sources_of(self, entry: Entry, depth: int) -> Iterator[Step]:
        """Yield the sources that an entry names, and the run that wrote it."""
        for id in entry.derived_from:
            yield self.entry("made from", id, depth)
        for id in entry.more.get("cites", ()):
            yield self.run("came out of", id, depth)
        if "parent" in entry.more:
            yield self.entry("answers", entry.more["parent"], depth)
        for id in entry.replaces:
            yield self.entry("took the place of", id, depth)
        if entry.kind == ATOM:
            for link in links(self.snap, entry.id):
                if link.effect == entry.id and sees(self.me, link.cause):
                    yield self.entry(f"{link.type} it ({link.strength:g})", link.cause, depth)
        if entry.run:
            yield self.run("written in", entry.run, depth)

    def _prompt_of(self, run: dict[str, Any], id: str, depth: int) -> Iterator[Step]:
        """Yield what the prompt of a run showed, and the run that spawned it."""
        rendered = [
            delivery for delivery in self.snap.deliveries(run=id) if delivery["state"] == "rendered"
        ]
        if rendered:
            steps = [
                self.entry("showed", delivery["entry"], 1)._replace(cut=False)
                for delivery in rendered[:SHOWN]
            ]
            visible = tuple(step for step in steps if step.kind != "hidden")
            many = "entry" if len(rendered) == 1 else "entries"
            text = f"memory in it: {len(rendered)} {many}" + (
                f", of which {SHOWN} here" if len(rendered) > SHOWN else ""
            )
            yield Step(
                "given",
                "prompt",
                f"{id}/prompt",
                run["agent"],
                clock.seconds(run["at"]),
                text,
                visible,
            )
        if run.get("parent"):
            yield self.run("asked for by", run["parent"], depth)
