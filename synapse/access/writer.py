"""The writer of records in an agent's name, for one incarnation of a run or for none.

The records of a run's agent memory are fenced: they go in only as long as its incarnation is the
current one, decided under the log's lock. What is refused for that is itself recorded. Nothing here
knows who may write where.
"""

from __future__ import annotations

import os
from collections.abc import Collection

from synapse.errors import Conflict, Forbidden, InvalidEntry
from synapse.model.entry import SEALED, Entry
from synapse.model.records import KEYED, Guard, Record, act_of, all_of, entry_of, fence
from synapse.store import Store
from synapse.system.typed import Any
from synapse.trust import lineage


class Writer:
    """Writes as one agent; with a run, as its incarnation `epoch`, as long as that is current and,
    unless it may have `ended`, at work.
    """

    def __init__(
        self, store: Store, id: str, run: str | None = None, epoch: int = 0, *, ended: bool = False
    ) -> None:
        self.store = store
        self.id = id
        self.run = run
        self.epoch = epoch
        self._project: str | None = None
        self.fence = None if run is None else fence(run, epoch, ended=ended)

    def write(
        self, record: Record, *, once: str | None = None, unless: Guard | None = None
    ) -> Record:
        """Commit a record in this agent's name and return it as stored. Conflict, and nothing
        written, where a guard does not hold or another incarnation of the run is the current one.
        """
        if once == "":
            raise InvalidEntry(
                "the key of `once` is empty: every act under it would be taken for the first"
            )
        if self.run and not lineage.is_own(record, None):
            self._refuse_limited(record)
        if self.run and record.entry is not None:
            record = record._replace(fields={**record.fields, "run": self.run})
        try:
            guard = unless if self.fence is None else all_of(self.fence, unless)
            stored = self._commit(record, once, guard)
        except Conflict as error:
            if self.fence is None or error.details.get("key") != self.fence.key:
                raise
            raise self._refused(record) from error
        if once is not None:
            _demand_same(stored, record, once)
        return stored

    def _commit(self, record: Record, once: str | None, guard: Guard | None) -> Record:
        """Commit a record. An entry is sealed and signed before, once more where a key came or went
        meanwhile.
        """
        commit = self.store.commit
        if record.entry is None:
            return commit.append(record, once=once, unless=guard)
        try:
            closed, keys = self._closed(record, record.entry)
            return commit.append(closed, once=once, unless=guard, keys=keys)
        except Conflict as error:
            if error.details.get("key") != KEYED:
                raise
        with self.store.snapshot():  # with the keys that there are now
            closed, keys = self._closed(record, record.entry)
        return commit.append(closed, once=once, unless=guard, keys=keys)

    def _closed(self, record: Record, entry: Entry) -> tuple[Record, int]:
        """Return a record with its entry sealed and signed, as its scope and its author's keys ask
        for, and the last record of a key that was there.
        """
        keys, sealed = self.store.agents.keys, entry.scope in SEALED
        if not sealed and (keys is None or entry.author not in keys):
            return record, 0 if keys is None else keys.last
        from synapse.privacy.records import safe
        from synapse.trust.keyring import signed_key

        agents = self.store.agents.all() if sealed else {}
        if sealed:  # its text is for its readers, a secret in it too
            record, body = record._replace(entry=entry._replace(body="")), entry.body
        record = safe(record, self.store.settings)  # what is signed is what will be stored
        entry = record.entry or entry
        if sealed:
            entry = entry._replace(body=body)
        ring = self.store.keyring
        last = ring.keys.last
        entry = ring.closed(entry, self.store.clock(), agents)
        if entry.author in ring.keys and record.key is None:
            record = record._replace(key=signed_key(entry))
        return record._replace(entry=entry), last

    def act(self, kind: str, **fields: object) -> Record:
        """Commit an act that is no entry."""
        record, guard = act_of(kind, self.id, fields)
        return self.write(record, unless=guard)

    def file(self, kind: str, ids: Collection[str], reason: str) -> Record:
        """Archive or restore entries."""
        return self.act(kind, ids=list(ids), reason=reason)

    def delivery(
        self, state: str, ids: Collection[str], how: str, once: str | None = None
    ) -> Record:
        """Note how far entries came on their way to this agent: offered, rendered or acked."""
        whose = {"agent": self.id} | ({"run": self.run, "epoch": self.epoch} if self.run else {})
        return self.write(
            Record.new("delivery", self.id, whose | {"state": state, "ids": list(ids), "how": how}),
            once=once,
        )

    def shown(
        self, ids: Collection[str], of: int, cursor: int, how: str, once: str | None = None
    ) -> Record:
        """Note that this agent was shown these entries, of so many, as of a cursor; return the
        record.
        """
        fields = {"cursor": cursor, "how": how, "ids": list(ids), "of": of}
        return self.write(Record.new("shown", self.id, fields), once=once)

    def _refuse_limited(self, record: Record) -> None:
        """Raise Forbidden where the run was nobody vouched for, and the act is about more
        than its own.
        """
        assert self.run is not None
        if not lineage.limits(self.store.settings):
            return
        now = self.store.clock()
        with self.store.snapshot() as snap:
            ids = lineage.doubts(snap, self.run, now)
            entry = snap.entry(record.fields.get("entry", ""), now) if ids else None
        if ids and not lineage.is_own(record, entry and entry.author):
            raise Forbidden(
                f"run {self.run} may not {record.kind}: {lineage.why(ids)}",
                agent=self.id,
                action=record.kind,
            )

    def project(self) -> str | None:
        """Return the project that the run is for; Forbidden where the run is another agent's."""
        if self.run is None or self._project is not None:
            return self._project
        run = self._record()
        if run is None:
            return None
        if run["agent"] != self.id:
            raise Forbidden(
                f"run {self.run} is {run['agent']}'s, not {self.id}'s", agent=self.id, action="act"
            )
        self._project = run.get("project")
        return self._project

    def _record(self) -> dict[str, Any] | None:
        if self.run is None:
            return None
        with self.store.snapshot() as snap:
            return snap.run(self.run)

    def _refused(self, record: Record) -> Conflict:
        """Note that a stale incarnation wanted to write, and return the error that tells it so."""
        entry = record.entry
        refused = record.kind if entry is None else f"entry in {entry.namespace}"
        run = self._record() or {}
        current = run.get("epoch", 0)
        details = {"run": self.run, "epoch": self.epoch, "current": current, "what": refused}
        self.store.commit.append(Record.new("refused", self.id, details))
        if not run:
            why = f"there is no run {self.run}"
        elif current != self.epoch:
            why = f"run {self.run} goes on as epoch {current}, and this is epoch {self.epoch}"
        else:
            why = f"run {self.run} has ended"
        return Conflict(f"{why}: nothing was written ({refused})", **details)


def incarnation() -> tuple[str | None, int | None]:
    """Return the run that this process is spawned for and, where SYNAPSE_RUN is RUN:EPOCH, its
    incarnation.
    """
    text = os.environ.get("SYNAPSE_RUN") or None
    run, colon, epoch = (text or "").partition(":")
    if not colon:
        return text, None
    if not run or not (epoch.isascii() and epoch.isdigit()):
        raise Forbidden(f"SYNAPSE_RUN is {text!r}: write RUN, or RUN:EPOCH", action="act")
    return run, int(epoch)


def _demand_same(stored: Record, record: Record, once: str) -> None:
    """Refuse a key of `once` under which another kind of act was written before."""
    same = stored.kind == record.kind
    if same and record.entry is not None:
        same = entry_of(stored).kind == record.entry.kind
    if not same:
        raise Conflict(
            f"the key {once!r} of `once` stands for another act, record {stored.seq}:"
            " take a key of its own for each",
            once=once,
        )
