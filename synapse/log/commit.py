"""The commit: from records to lines. Under the log's lock, ids, `once` and guards are decided on
the index, caught up; then the line is written.

It stands between a log and the index of it, which do not know each other. Who may write what is
not decided here. `Store` opens one for each log.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial

from synapse.errors import Conflict, NoKey, NotFound
from synapse.log.files import FilesLog
from synapse.log.taken_ids import TakenIds, claim, is_taken
from synapse.model import clock, kinds
from synapse.model.agents import Agent
from synapse.model.entry import SEALED, Entry, is_id, mint, minted
from synapse.model.placement import Keeper, Place, Tail
from synapse.model.records import (
    KEYED,
    Guard,
    Record,
    act_of,
    all_of,
    demand,
    fields_of,
    with_features,
)
from synapse.model.settings import Settings
from synapse.privacy.records import safe, safe_agent
from synapse.system.typed import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from synapse.index.index import Index
    from synapse.log.memory import MemoryLog
    from synapse.log.merge import Merged

Follow = Callable[[Sequence[Record]], object]


class Commit(Keeper):
    """The way into one log. Threads may share it."""

    def __init__(
        self, log: FilesLog | MemoryLog, index: Index, settings: Callable[[], Settings] = Settings
    ) -> None:
        self.log = log
        self.settings = settings
        self.index = index
        self.taken = TakenIds(log)
        self.followers: list[Follow] = []
        self.last_key = 0  # the last record of a key that was there when this last heard of any

    def subscribe(self, follow: Follow) -> None:
        """Call this with the records of each commit, when they are safe."""
        self.followers.append(follow)

    def append(
        self,
        record: Record,
        *,
        once: str | None = None,
        unless: Guard | None = None,
        keys: int | None = None,
    ) -> Record:
        """Commit one record and return it as stored: see `Log`. `keys` is the last record of a key
        that its writer knew: Conflict where there is a later one.
        """
        if once != record.once:
            record = record._replace(once=once)
        return self._append([record], unless, keys)[0]

    def append_all(
        self, batch: Mapping[str, Record], *, unless: Guard | None = None
    ) -> list[Record]:
        """Commit these records, in their order, each under its `once`, with one sync."""
        records = [record._replace(once=once) for once, record in batch.items()]
        return self._append(records, unless)

    def act(self, kind: str, by: str, guard: Guard | None = None, /, **fields: object) -> Record:
        """Commit an act that is no entry, where the guard holds."""
        record, own = act_of(kind, by, fields)
        return self.append(record, unless=all_of(guard, own))

    def archive(
        self, ids: Collection[str], by: str, reason: str, unless: Guard | None = None
    ) -> Record:
        """File entries away. They stay readable under their ids."""
        record = Record.new("archive", by, {"ids": list(ids), "reason": reason})
        return self.append(record, unless=unless)

    def restore(
        self, ids: Collection[str], by: str, reason: str, unless: Guard | None = None
    ) -> Record:
        """Bring archived entries back, in their old order."""
        record = Record.new("restore", by, {"ids": list(ids), "reason": reason})
        return self.append(record, unless=unless)

    def register(self, agent: Agent, by: str, was: Agent | None = None) -> Record:
        """Declare an agent: its file, then the record. A crash between the two is noticed as an
        edit by hand.
        """
        agent = safe_agent(agent)
        sha = self.log.declare(agent)
        return self.append(agent_record(agent, by, was, sha=sha))

    def get(self, id: str) -> Record:
        """Return the record that holds this id, or NotFound."""
        self.index.catch_up()
        seq = self.index.holder(id)
        if seq is None:
            raise NotFound(f"there is no entry {id}", id=id)
        return self.log.at(seq)

    def find(self, ids: Collection[str]) -> Iterator[Record]:
        """Yield the records that hold these ids, those that there are, in their order: many for one
        way through the log.
        """
        self.index.catch_up()
        holders = map(self.index.holder, ids)
        return self.log.these(sorted({seq for seq in holders if seq is not None}))

    def merge(self, lines: Iterable[bytes] = ()) -> Merged:
        """Append what the other histories hold that the journal's files hold, and what these lines
        are of one.
        """
        assert isinstance(self.log, FilesLog)
        # what was indexed is compared with what git left here, not with what comes of it
        self.index.catch_up()
        copies = list(lines)
        if copies:
            # what they follow has to be a whole line, or a seal of what is none
            self.log.journal.finish(self)
        return self.log.journal.lock.run(partial(self.log.unite, copies))

    # -- asked under the log's lock ----------------------------------------------------------------

    def check(self) -> None:
        """See that the index is this log's, before a line follows one of another's; two histories
        become one.
        """
        self.taken = TakenIds(self.log)
        self.index.catch_up()
        if isinstance(self.log, FilesLog) and self.log.forked:
            merged = self.log.unite()
            self.index.hear(
                f"the journal held two histories: {merged.records} records of the other were"
                " appended"
            )

    def hear(self) -> None:
        """Take in the keys that came or went: what is written next is decided by them."""
        self.index.catch_up()
        self.last_key = max((record.seq for record in self.index.keyed(KEYED)), default=0)

    def minted(self, day: str) -> int:
        """Return the highest number that an id of the day has."""
        self.index.catch_up()
        return self.index.minted(day)

    # -- below -------------------------------------------------------------------------------------

    def _append(
        self, records: Sequence[Record], unless: Guard | None, keys: int | None = None
    ) -> list[Record]:
        settings = self.settings()
        records = [with_features(safe(record, settings)) for record in records]
        if any(record.entry is not None for record in records):
            # Under the journal's lock all others would wait for a first import.
            from synapse.formats import codec as codec

        def decide() -> Place:
            return Decision(self, unless, keys).place

        # A damaged index is found before a line is written.
        results = self.index.twice(partial(self.log.write, records, decide, self))
        written = [record for record, new in results if new]
        if written:
            self.taken.own.extend(written)
            for follow in self.followers:
                follow(written)
        return [record for record, _ in results]


class Decision:
    """The decisions of one append, under the log's lock: by the log as it is before the first of
    its records.
    """

    def __init__(self, commit: Commit, unless: Guard | None, keys: int | None) -> None:
        self.commit = commit
        self.unless = unless
        self.keys = keys
        self.names: set[str] = set()  # what these records are called
        self.caught_up = False

    @property
    def index(self) -> Index:
        if not self.caught_up:
            self.commit.index.catch_up()
            self.caught_up = True
        return self.commit.index

    def place(self, record: Record, tail: Tail, at: int) -> Record:
        """Return a record as it is to stand there, or the one that its `once` names already."""
        if record.once is not None or self.unless is not None:
            first = None if record.once is None else self.index.first(record.by, record.once)
            if first is not None:
                return self.commit.log.at(first)
            demand(self.unless, self.index.keyed)
        if self.keys is not None and self.keys < self.commit.last_key:
            raise Conflict(
                "the key of an agent came or went meanwhile: nothing was written", key=KEYED
            )
        if record.entry is not None:
            return self._place_entry(record, tail, at)
        return record

    def _taken(self, id: str) -> bool:
        return id in self.names or is_taken(self.index, id)

    def _place_entry(self, record: Record, tail: Tail, at: int) -> Record:
        """Return an entry's record with its id and its text."""
        id = self._claim(record, tail)
        alias = self._alias(record, tail, id) if "alias" in record.fields else None
        self.names.update((id,) if alias is None else (id, alias))
        return entry_record(record, at, id, alias)

    def _alias(self, record: Record, tail: Tail, id: str) -> str | None:
        """Return the id that a dropped file had, where it may find the entry too. One of our own
        form may not, from today on: the log has yet to give it to somebody else.
        """
        alias: str = record.fields["alias"]
        own = minted(alias)
        old = own is None or own[0] < tail.day
        free = old and alias != id and is_id(alias) and not self._taken(alias)
        return alias if free else None

    def _claim(self, record: Record, tail: Tail) -> str:
        """Return the entry's id. A wanted one is kept if it is free and not far ahead."""
        assert record.entry is not None
        own_id = record.entry.id
        kind = record.entry.kind
        if kind != kinds.ENTRY:
            dropped = record.text is not None
            held = partial(self.commit.taken.holds, self.commit.index, tail)
            return claim(kind, own_id, tail.chain, dropped, held)
        day, number = tail.day, tail.n
        if own_id and kinds.kind_of(own_id) == kinds.ENTRY and not self._taken(own_id):
            own = minted(own_id)
            if own is None or own[0] < day or (own[0] == day and own[1] <= number + 1000):
                return own_id
        while True:
            number += 1
            id = mint(day, number)
            if not self.commit.log.occupied(f"entries/{record.entry.namespace}/{id}.md"):
                return id


def entry_record(record: Record, at: int, id: str, alias: str | None = None) -> Record:
    """Return a new entry's record under its id, and another that finds it. An entry that came as a
    text of its own keeps that text.
    """
    from synapse.formats import codec

    assert record.entry is not None
    if record.entry.scope in SEALED:
        _demand_envelope(record.entry)
    timestamp = record.entry.timestamp or clock.seconds(at)
    entry = record.entry._replace(id=id, timestamp=timestamp, alias=alias)
    fields = fields_of(entry)
    for name, value in record.fields.items():
        if name != "alias":
            fields[name] = value
    text = record.text
    if text is None:
        text = codec.render(entry)
        fields["start"] = len(text) - len(entry.body) - 1
    return record._replace(id=id, fields=fields, text=text)


def _demand_envelope(entry: Entry) -> None:
    """Refuse the plain text of a sealed scope, whoever writes it: it never comes to the disk."""
    from synapse import crypto

    if not crypto.is_envelope(entry.body):
        raise NoKey(
            f"scope: {entry.scope} needs a key to seal it: nothing was stored;"
            " `synapse keys` says which there are"
        )


def agent_record(
    agent: Agent, by: str, was: Agent | None, how: str = "registered", sha: str | None = None
) -> Record:
    """Return the record that declares an agent, with what it was before, and the digest of the file
    that declares it.
    """
    fields = {"agent": _declared(agent), "how": how} | ({"was": _declared(was)} if was else {})
    return Record.new("agent", by, fields | ({"sha": sha} if sha else {}))


def _declared(agent: Agent) -> dict[str, Any]:
    fields = agent._asdict()
    del fields["shift"]
    return fields
