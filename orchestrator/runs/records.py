"""Runs as records of the log: begun, recovered, ended. Every change names its incarnation; a stale
change is refused under the log's lock, and recorded as refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from orchestrator.runs.task import Task
from synapse.access.writer import Writer
from synapse.model.agents import Agent
from synapse.model.records import Guard, Record, fence
from synapse.store import Store
from synapse.system.digest import sha256

# what the end of a run said, of one that goes on
_NOT_ENDED: dict[str, Any] = {
    "status": None,
    "entry": None,
    "usage": None,
    "cost": None,
    "why": "",
    "summary": "",
    "debt": [],
}
ATTEMPTS = 3  # a run that died so often without moving is a dead letter


class Run(NamedTuple):
    """One run, as its records say. `fields` has all of them."""

    id: str
    agent: str
    project: str
    parent: str | None
    root: str
    depth: int
    epoch: int
    state: str
    status: str | None
    holder: str | None
    attempts: int
    at: int
    seq: int
    fields: Mapping[str, Any]

    @property
    def running(self) -> bool:
        return self.state == "running"

    @property
    def waits(self) -> bool:
        """Return whether it is blocked, and goes on once somebody has answered."""
        return self.state == "waiting"

    @property
    def needs(self) -> Mapping[str, Any] | None:
        """Return what a process must offer to go on with this run; None where that was not
        recorded.
        """
        needs: Mapping[str, Any] | None = self.fields.get("needs")
        return needs

    @property
    def task(self) -> Task:
        """Return the task of this run."""
        asked = {
            name: value
            for name, value in self.fields["asked"].items()
            if name in Task._fields  # an older version may have asked for more
        }
        return Task(self.fields["task"], **asked)


def run_of(fields: Mapping[str, Any]) -> Run:
    return Run(
        id=fields["run"],
        agent=fields["agent"],
        project=fields["project"],
        parent=fields.get("parent"),
        root=fields["root"],
        depth=fields["depth"],
        epoch=fields["epoch"],
        state=fields["state"],
        status=fields.get("status"),
        holder=fields.get("holder"),
        attempts=fields.get("attempts", 1),
        at=fields["at"],
        seq=fields["seq"],
        fields=fields,
    )


def name(agent: str, *origin: object) -> str:
    """Return the id of a run: its agent and a digest of its origin. Equal origins give equal
    names.
    """
    digest = sha256(repr(origin).encode())[:10]
    return f"{agent[:50]}-{digest}"


class Runs:
    """The runs of one workspace."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def begin(
        self,
        id: str,
        task: Task,
        agent: Agent,
        holder: str,
        parent: Run | None,
        unless: Guard | None,
        **more: Any,
    ) -> Run:
        """Start a run. Asked again under the same id, the run that was started then. Where its
        parent's incarnation is stale it is refused, on record.
        """
        fields = {
            "run": id,
            "epoch": 1,
            "state": "running",
            "agent": agent.id,
            "role": task.role or agent.role,
            "department": agent.department,
            "project": task.project,
            "task": task.text,
            "asked": {key: value for key, value in task._asdict().items() if key != "text"},
            "parent": parent.id if parent else None,
            "root": parent.root if parent else id,
            "depth": parent.depth + 1 if parent else 0,
            "holder": holder,
            "attempts": 1,
            **more,
        }
        writer = Writer(self.store, agent.id)
        if parent is not None:
            # a team goes on below its first run
            writer = Writer(self.store, agent.id, parent.id, parent.epoch, ended=True)
        record = writer.write(
            Record.new("run", agent.id, fields, key=_key(id)), once=f"run:{id}", unless=unless
        )
        return run_of({**record.fields, "at": record.at, "seq": record.seq})

    def take(self, run: Run, holder: str, progress: int) -> Run:
        """Go on with a run whose holder is gone: the next incarnation. Conflict where somebody else
        was faster. `progress` is how far it and all below it had come; attempts are counted from
        where it last moved.
        """
        moved = progress > run.fields.get("progress", 0)
        died = run.fields.get("left") is None
        fields = {
            "run": run.id,
            "epoch": run.epoch + 1,
            "state": "running",
            "holder": holder,
            "progress": progress,
            "attempts": (1 if moved else run.attempts) + died,
            **self._rested(run),
        }
        self.store.commit.append(
            Record.new("run", run.agent, fields, key=_key(run.id)), unless=fence(run.id, run.epoch)
        )
        return run_of({**run.fields, **fields})

    def leave(self, run: Run, by: str) -> None:
        """Let go of a run in the middle: nobody holds it, and its time stands still until somebody
        goes on. `by` whom it was left: nobody goes on unasked with what a person left.
        """
        fields = {"run": run.id, "epoch": run.epoch, "state": "running"}
        left = {"holder": None, "left": self.store.clock(), "left_by": by}
        Writer(self.store, run.agent, run.id, run.epoch).write(
            Record.new("run", run.agent, fields | left, key=_key(run.id))
        )

    def reopen(self, run: Run, holder: str, **more: Any) -> Run:
        """Go on with a run that was blocked and is answered: the next incarnation, from its steps.
        Conflict where somebody else was faster."""
        since = {"left": run.fields["ended_at"]}
        fields = {
            "run": run.id,
            "epoch": run.epoch + 1,
            "state": "running",
            "holder": holder,
            "attempts": 1,
            "answers": run.fields.get("answers", 0) + 1,
            **_NOT_ENDED,
            **self._rested(run._replace(fields={**run.fields, **since})),
            **more,
        }
        self.store.commit.append(
            Record.new("run", run.agent, fields, key=_key(run.id)),
            unless=fence(run.id, run.epoch, ended=True),
        )
        return run_of({**run.fields, **fields, "ended_at": None})

    def drop(self, run: Run, reason: str) -> None:
        """End a run that waits for an answer, and will get none."""
        fields = {"run": run.id, "epoch": run.epoch, "state": "ended"}
        self.store.commit.append(
            Record.new(
                "run", run.agent, fields | {"status": "stopped", "why": reason}, key=_key(run.id)
            ),
            unless=fence(run.id, run.epoch, ended=True),
        )

    def _rested(self, run: Run) -> dict[str, Any]:
        """Return how long a run has rested in all, as whoever goes on with it records that."""
        if (since := run.fields.get("left")) is None:
            return {}
        rested = run.fields.get("rested", 0) + max(self.store.clock() - since, 0)
        return {"left": None, "left_by": None, "rested": rested}

    def name(self, run: Run, task: str) -> None:
        """Say what a run is at, of one that began before anybody knew."""
        fields = {"run": run.id, "epoch": run.epoch, "state": "running", "task": task}
        Writer(self.store, run.agent, run.id, run.epoch).write(
            Record.new("run", run.agent, fields, key=_key(run.id))
        )

    def end(self, run: Run, status: str, *, waits: bool = False, **more: Any) -> Run:
        """Settle it, or where it `waits`, let it rest until somebody has answered. A stale
        incarnation's word is refused, and recorded."""
        fields = {
            "run": run.id,
            "epoch": run.epoch,
            "state": "waiting" if waits else "ended",
            "status": status,
            **more,
        }
        writer = Writer(self.store, run.agent, run.id, run.epoch)
        record = writer.write(Record.new("run", run.agent, fields, key=_key(run.id)))
        return run_of({**run.fields, **fields, "ended_at": record.at})

    def stop(self, id: str, by: str, reason: str, once: str | None = None) -> None:
        """Ask for its end, whoever holds it."""
        record = Record.new("stop", by, {"run": id, "reason": reason}, key=f"stop:{id}")
        self.store.commit.append(record, once=once)

    def over(self, run: Run, *, known: bool = False) -> str | None:
        """Return why this incarnation has to end: another one goes on with the run, or somebody
        stopped it or a run above it. `known`: the index is caught up already.
        """
        with self.store.snapshot(late=known) as snap:
            fields = snap.run(run.id)
            if fields is not None and fields["epoch"] != run.epoch:
                return (
                    f"it was taken over: another supervisor goes on with it, as epoch"
                    f" {fields['epoch']}"
                )
            while fields is not None:
                if stops := snap.keyed(f"stop:{fields['run']}"):
                    return str(stops[-1].fields["reason"])
                fields = snap.run(fields["parent"]) if fields.get("parent") else None
        return None

    def get(self, id: str) -> Run | None:
        with self.store.snapshot() as snap:
            fields = snap.run(id)
        return None if fields is None else run_of(fields)

    def is_below(self, run: str | None, above: str) -> bool:
        """Tell whether a run is this other one, or was spawned by it or below it."""
        with self.store.snapshot(late=True) as snap:
            while run is not None and run != above:
                run = (snap.run(run) or {}).get("parent")
        return run is not None

    def all(self, **wanted: Any) -> list[Run]:
        """Return the runs, newest first, filtered by `state`, `root`, `agent`, `project` and
        `limit`.
        """
        with self.store.snapshot() as snap:
            return [run_of(fields) for fields in snap.runs(**wanted)]

    def children(self, id: str) -> list[Run]:
        with self.store.snapshot() as snap:
            return [run_of(fields) for fields in snap.children(id)]


def _key(run: str) -> str:
    return f"run:{run}"


def still(key: str, seen: int) -> Guard:
    """Return the guard that nobody has added a record of this key to the `seen` ones."""
    return Guard(key, f"still({seen})", lambda records: len(list(records)) == seen)
