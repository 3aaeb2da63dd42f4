"""A pen: what writes records in an agent's name, for one incarnation of a run or for none.

The records of a run's seat are fenced: they go in only as long as its incarnation is the current
one, decided under the log's lock. What is refused for that is itself recorded. Nothing here knows
who may write where.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection

from synapse.errors import Conflict, Forbidden, InvalidEntry
from synapse.model.records import Guard, Pending, Record, all_of, fence
from synapse.store import Store
from synapse.system.typed import Any


class Writer:
    """Writes as one agent; with a run, as its incarnation `epoch`, as long as that is current and,
    unless it may have `ended`, at work.
    """

    def __init__(
        self,
        store: Store,
        id: str,
        run: str | None = None,
        epoch: int = 0,
        *,
        ended: bool = False,
    ) -> None:
        self.store = store
        self.id = id
        self.run = run
        self.epoch = epoch
        self._project: str | None = None
        self.fence = None if run is None else fence(run, epoch, ended=ended)

    def write(
        self, pending: Pending, *, once: str | None = None, unless: Guard | None = None
    ) -> Record:
        if once == "":
            raise InvalidEntry(
                "the key of `once` is empty: every act under it would be taken for the first"
            )
        what = (
            pending.kind
            if pending.entry is None
            else f"entry in {pending.entry.namespace}"
        )
        if self.run and pending.entry is not None:
            pending = pending._replace(fields={**pending.fields, "run": self.run})
        return self._fenced(
            what,
            unless,
            lambda guard: self.store.log.append(pending, once=once, unless=guard),
        )

    def act(self, kind: str, **fields: object) -> Record:
        """An act that is no entry."""
        return self._fenced(
            kind, None, lambda guard: self.store.act(kind, self.id, guard, **fields)
        )

    def file(self, kind: str, ids: Collection[str], reason: str) -> Record:
        """Archive or restore entries."""
        filer = self.store.log.archive if kind == "archive" else self.store.log.restore
        return self._fenced(
            kind, None, lambda guard: filer(ids, self.id, reason, guard)
        )

    def delivery(
        self, state: str, ids: Collection[str], how: str, once: str | None = None
    ) -> Record:
        """Note how far entries came on their way to this agent: offered, rendered or acked."""
        whose = {"agent": self.id} | (
            {"run": self.run, "epoch": self.epoch} if self.run else {}
        )
        return self.write(
            Pending(
                "delivery",
                self.id,
                whose | {"state": state, "ids": list(ids), "how": how},
            ),
            once=once,
        )

    def shown(
        self,
        ids: Collection[str],
        of: int,
        cursor: int,
        how: str,
        once: str | None = None,
    ) -> Record:
        """Note that this agent was shown these entries, of so many, as of a cursor; return the
        record.
        """
        fields = {"cursor": cursor, "how": how, "ids": list(ids), "of": of}
        return self.write(Pending("shown", self.id, fields), once=once)

    def project(self) -> str | None:
        """Return the project that the run is for; Forbidden where the run is another agent's."""
        if self.run is None or self._project is not None:
            return self._project
        run = self._record()
        if run is None:
            return None
        if run["agent"] != self.id:
            raise Forbidden(
                f"run {self.run} is {run['agent']}'s, not {self.id}'s",
                agent=self.id,
                action="act",
            )
        self._project = run.get("project")
        return self._project

    def _record(self) -> dict[str, Any] | None:
        if self.run is None:
            return None
        with self.store.snapshot() as snap:
            return snap.run(self.run)

    def _fenced(
        self, what: str, unless: Guard | None, write: Callable[[Guard | None], Record]
    ) -> Record:
        try:
            return write(all_of(self.fence, unless))
        except Conflict as error:
            if self.fence is None or error.details.get("key") != self.fence.key:
                raise
            raise self._refused(what) from error

    def _refused(self, what: str) -> Conflict:
        """Note that a stale incarnation wanted to write; the error that tells it so."""
        found = self._record() or {}
        current = found.get("epoch", 0)
        about = {"run": self.run, "epoch": self.epoch, "current": current, "what": what}
        self.store.log.append(Pending("refused", self.id, about))
        if not found:
            why = f"there is no run {self.run}"
        elif current != self.epoch:
            why = f"run {self.run} goes on as epoch {current}, and this is epoch {self.epoch}"
        else:
            why = f"run {self.run} has ended"
        return Conflict(f"{why}: nothing was written ({what})", **about)


def incarnation() -> tuple[str | None, int | None]:
    """The run that this process is spawned for and, where SYNAPSE_RUN is RUN:EPOCH, its
    incarnation.
    """
    text = os.environ.get("SYNAPSE_RUN") or None
    run, colon, epoch = (text or "").partition(":")
    if not colon:
        return text, None
    if not run or not (epoch.isascii() and epoch.isdigit()):
        raise Forbidden(
            f"SYNAPSE_RUN is {text!r}: write RUN, or RUN:EPOCH", action="act"
        )
    return run, int(epoch)
