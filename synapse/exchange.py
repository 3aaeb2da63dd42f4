"""A whole log as JSON Lines, out and in again. The lines are the journal's own: equal logs, equal
lines.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from io import BytesIO
from typing import IO

from synapse.errors import Conflict, InvalidEntry, InvalidQuery, StoreError
from synapse.formats import codec
from synapse.log.accepted import persons_own
from synapse.log.chain import chain_of, decode, encode, imprint, link, split
from synapse.log.damage import has_text
from synapse.log.files import FilesLog
from synapse.log.merge import Merged
from synapse.log.mirror import unplaced
from synapse.log.unite import lines_of
from synapse.model import kinds
from synapse.model.entry import NEVER, Entry
from synapse.model.placement import GENESIS, NOTHING
from synapse.model.records import Record, set_aside
from synapse.store import Store
from synapse.system.quoting import one_line

GENERATIONS = ("A", "B", "C")
NAMED = 20  # agents of another workspace, at most


def lines_out(store: Store) -> Iterator[str]:
    """Yield every line of the log, in order."""
    if isinstance(store.log, FilesLog):
        for raw in store.log.journal.lines():
            if decode(raw) is not None:
                yield raw.decode()
        return
    tail = NOTHING
    for record in store.log.since(0):
        raw, _, tail = encode(tail, record.at, record)
        yield raw.decode()


def entries_as(store: Store, generation: str) -> Iterator[tuple[str, str]]:
    """Yield every entry, live and archived, as a path and the text that readers of another
    generation expect.
    """
    if generation not in GENERATIONS:
        raise InvalidQuery(
            f"generation {generation!r} is not one of {', '.join(GENERATIONS)}",
            generation=generation,
        )
    store.refresh()
    for entry in everything(store):
        yield kinds.place(entry.id, entry._asdict()), codec.render_as(entry, generation)


def everything(store: Store) -> list[Entry]:
    """Return every entry that took effect, oldest first, whatever became of it."""
    with store.snapshot() as snap:
        return [entry for entry in snap.all(NEVER - 1) if entry.id]


def lines_in(store: Store, lines: Iterable[str], *, believe: bool = False) -> int:
    """Take in the lines of an export, into a log that holds nothing yet; how many records. All or
    none. Those that were written elsewhere wait for a person, unless they are to be believed.
    """
    demand_empty(store, "import")
    with acceptable(store, lines) as copy:
        if believe and isinstance(store.log, FilesLog):
            store.log.accepted.accept_all(copy)
        return put_in(store, copy)


def demand_empty(store: Store, act: str) -> None:
    """Raise Conflict where the log holds anything."""
    if next(iter(store.log.since(0)), None) is not None:
        raise Conflict(
            f"the workspace holds records already; {act} into a new one (`synapse init DIR`)"
        )


@contextmanager
def acceptable(store: Store, lines: Iterable[str]) -> Iterator[Copy]:
    """Copy the lines of an export beside the log that is to take them in, so that they are checked
    before the first of them is there, however many. InvalidEntry where one may not be taken in.
    """
    from synapse.trust.keyring import unproven

    with _unnamed(store) as file:
        copy = Copy(file)
        demand_fit(copy.fill(lines))
        for record, why in unproven(copy.records()):
            raise InvalidEntry(
                f"record {record.seq} ({record.id}) cannot be taken in: {why}; nothing was"
                " imported",
                line=record.seq,
            )
        yield copy


class Copy:
    """The lines of an export in a file of this process, which are read as often as needed."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file
        self.count = 0

    def fill(self, lines: Iterable[str]) -> Iterator[Record]:
        """Yield the records of these lines, each proven and then written to the file."""
        for raw, record in proven(lines):
            self.file.write(raw)
            self.count += 1
            yield record

    def __iter__(self) -> Iterator[bytes]:
        self.file.seek(0)
        return iter(self.file)

    def records(self) -> Iterator[Record]:
        """Yield the record of each line."""
        return (record for record in map(decode, self) if record is not None)


def _unnamed(store: Store) -> IO[bytes]:
    """Open a file that is gone with its process: on the disk of the log, or in memory with it."""
    if not isinstance(store.log, FilesLog):
        return BytesIO()
    from tempfile import TemporaryFile

    return TemporaryFile(dir=os.path.join(store.log.root, ".index"))


def put_in(store: Store, copy: Copy) -> int:
    """Put acceptable lines into a log that holds nothing yet; return how many records."""
    if isinstance(store.log, FilesLog):
        store.log.recover(copy)
        store.operator_files.write_missing()
    else:
        store.log.recover(copy.records())
    store.refresh(whole=True)
    return copy.count


def demand_fit(records: Iterable[Record]) -> None:
    """Raise InvalidEntry where one of these was set aside, and no operator gave it up since."""
    refused: dict[int, tuple[int, str]] = {}
    for number, record in enumerate(records, 1):
        if why := set_aside(record):
            refused[record.seq] = (number, why)
        for seq in record.fields.get("aside", ()) if record.kind == "repair" else ():
            refused.pop(seq, None)
    for number, why in refused.values():
        raise InvalidEntry(
            f"line {number} cannot be taken in: it {why}; nothing was taken in", line=number
        )


def merge_in(store: Store, source: str | None, *, believe: bool = False) -> Merged:
    """Append what another workspace, or an export of one, holds and this one does not; without a
    source, what git's merge left in the journal as a second history. Conflict where the other is
    no copy of this one, unless that is to be believed: its records say who has which authority.
    """
    if not isinstance(store.log, FilesLog):
        raise InvalidQuery("only a workspace in a directory can be merged into")
    lines = list(lines_of(source)) if source else []
    if source:
        own = map(imprint, lines) if believe else persons_own(lines)
        store.log.accepted.add(list(own))
    demand_fit(record for record in map(decode, lines) if record is not None)
    if source and not believe:
        _demand_related(store.log, lines, source)
    try:
        merged = store.commit.merge(lines)
        if lines:
            store.operator_files.write_missing()
    except OSError as error:
        raise StoreError(
            f"the merge was cut short: {error}; merged again, it is made whole"
        ) from error
    store.log.restart(0)
    store.refresh(whole=True)
    return merged


def _demand_related(log: FilesLog, lines: list[bytes], source: str) -> None:
    """Raise Conflict where no record of these is one of ours, and ours has any."""
    own = {chain_of(raw) for raw in log.journal.raw_lines()}
    if not own or not lines or any(chain_of(raw) in own for raw in lines):
        return
    records = [record for record in map(decode, lines) if record is not None]
    declared = {record.by: 0 for record in records if record.entry is not None}
    for record in records:
        if record.kind == "agent":
            agent = record.fields["agent"]
            declared[str(agent.get("id"))] = agent.get("authority")
    named = [f"{name} ({authority})" for name, authority in declared.items()]
    names = one_line(", ".join(named[:NAMED])) + (", ..." if named[NAMED:] else "")
    raise Conflict(
        f"{source} is no copy of this workspace: no record is in both. What it says of its agents"
        f" would be believed, each with its authority ({names}), and an agent of a name that is"
        " here would be that agent; --believe says that it is",
        path=source,
    )


def proven(lines: Iterable[str]) -> Iterator[tuple[bytes, Record]]:
    """Yield the lines as bytes, each checked against the chain before it, with its record."""
    chain, seq = GENESIS, 0
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        raw = line.rstrip("\r\n").encode() + b"\n"
        record = decode(raw)
        line_chain, head, _ = split(raw)
        if (
            record is None
            or record.seq <= seq
            or link(chain, head) != line_chain
            or not has_text(record, raw)
        ):
            raise InvalidEntry(
                f"line {number} is not the next line of an export: nothing was imported",
                line=number,
            )
        if why := unplaced(record):
            raise InvalidEntry(
                f"line {number} cannot be taken in: {why}; nothing was imported", line=number
            )
        chain, seq = line_chain, record.seq
        yield raw, record
