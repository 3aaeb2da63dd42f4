"""A whole log as JSON Lines, out and in again. The lines are the journal's own: equal logs, equal
lines.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from synapse.errors import Conflict, InvalidEntry, InvalidQuery, NotFound
from synapse.formats import codec
from synapse.index.names import agent_from
from synapse.log.chain import GENESIS, Tail, decode, encode, link, split
from synapse.log.files import FilesLog
from synapse.log.merge import Merged
from synapse.model import kinds
from synapse.model.entry import NEVER, Entry
from synapse.model.records import Record
from synapse.store import Store
from synapse.system.digest import sha256

GENERATIONS = ("A", "B", "C")


def lines_out(store: Store) -> Iterator[str]:
    """Every line of the log, in order."""
    if isinstance(store.log, FilesLog):
        for raw in store.log.journal.lines():
            if decode(raw) is not None:
                yield raw.decode()
        return
    tail = Tail(0, GENESIS, 0, "", 0, 0)
    for record in store.log.since(0):
        raw, _, tail = encode(tail, record.at, record)
        yield raw.decode()


def entries_as(store: Store, generation: str) -> Iterator[tuple[str, str]]:
    """Every entry, live and archived, as a path and the text that readers of another generation
    expect.
    """
    if generation not in GENERATIONS:
        raise InvalidQuery(
            f"generation {generation!r} is not one of {', '.join(GENERATIONS)}",
            generation=generation,
        )
    store.look()
    for entry in everything(store):
        yield kinds.place(entry.id, entry._asdict()), codec.render_as(entry, generation)


def everything(store: Store) -> list[Entry]:
    """Every entry that took effect, oldest first, whatever became of it."""
    with store.snapshot() as snap:
        return [entry for entry in snap.all(NEVER - 1) if entry.id]


def lines_in(store: Store, lines: Iterable[str]) -> int:
    """Take in the lines of an export, into a log that holds nothing yet; how many records. All or
    none.
    """
    if next(iter(store.log.since(0)), None) is not None:
        raise Conflict(
            "the workspace holds records already; import into a new one (`synapse init DIR`)"
        )
    raws = list(proven(lines))
    records = [record for record in map(decode, raws) if record is not None]
    if isinstance(store.log, FilesLog):
        store.log.recover(raws, records)
        store.sign(*write_declarations(store.log, records))
    else:
        store.log.recover(records)
    store.look(force=True)
    store.refresh()
    return len(records)


def merge_in(store: Store, source: str | None) -> Merged:
    """Append what another workspace, or an export of one, holds and this one does not; without a
    source, what git's merge left in the journal as a second history.
    """
    if not isinstance(store.log, FilesLog):
        raise InvalidQuery("only a workspace in a directory can be merged into")
    lines = list(_lines_of(source)) if source else []
    merged = store.log.merge(lines)
    if lines:
        store.refresh()
        store.sign(*write_declarations(store.log, store.log.since(0)))
    store.log.restart(0)
    store.look(force=True)
    store.refresh()
    return merged


def _lines_of(source: str) -> Iterator[bytes]:
    """The lines of a workspace's journal, or of an export; InvalidEntry where a text is not what
    was written.
    """
    journal = os.path.join(source, "journal")
    if os.path.isdir(journal):
        names = sorted(
            name
            for name in os.listdir(journal)
            if name.endswith(".jsonl") and name[:-6].isdigit()
        )
        paths = [os.path.join(journal, name) for name in names]
    elif os.path.isfile(source):
        paths = [source]
    else:
        raise NotFound(f"{source} is neither a workspace nor an export", path=source)
    for path in paths:
        with open(path, "rb") as file:
            for number, raw in enumerate(file, 1):
                record = decode(raw) if raw.endswith(b"\n") else None
                if record is not None:
                    if not _whole(record):
                        raise InvalidEntry(
                            f"{path}: the text of line {number} is not what was written",
                            path=path,
                        )
                    yield raw


def proven(lines: Iterable[str]) -> Iterator[bytes]:
    """The lines as bytes, each checked against the chain before it."""
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
            or not _whole(record)
        ):
            raise InvalidEntry(
                f"line {number} is not the next line of an export: nothing was imported",
                line=number,
            )
        chain, seq = line_chain, record.seq
        yield raw


def _whole(record: Record) -> bool:
    """Return whether the text is the one that the chain vouches for."""
    return (
        record.text is None
        or sha256(record.text.encode("utf-8", "surrogatepass")) == record.sha
    )


def write_declarations(log: FilesLog, records: Iterable[Record]) -> list[str]:
    """The agents' files, as the last record of each declares it; which were written."""
    written = []
    declared = {
        record.fields["agent"]["id"]: record
        for record in records
        if record.kind == "agent"
    }
    for id, record in declared.items():
        path = f"agents/{id}.yaml"
        if record.fields.get("how") != "removed" and not os.path.exists(
            os.path.join(log.root, path)
        ):
            text = codec.render_agent(agent_from(record.fields["agent"]))
            log.mirror.place(path, text.encode(), synced=True)
            written.append(path)
    return written
