"""What was written elsewhere and waits until a person accepts it: records that came with a clone, a
pull, a merge or an import, and files that git brought. The shell shows it and accepts it.

Until then the log tells nobody what they say (`log.accepted`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterable, Sequence

from synapse.errors import InvalidQuery, NotFound
from synapse.log.accepted import INSTRUCTIONS, RULES, KeyFields, is_signed, listed
from synapse.log.adopt import Drop
from synapse.log.chain import imprint, seq_of
from synapse.log.files import FilesLog
from synapse.model.agents import OPERATOR
from synapse.model.records import MECHANICAL, Record, entry_of
from synapse.store import Store
from synapse.system.plain_files import read_file
from synapse.system.typed import Any, NamedTuple
from synapse.trust.persons import persons_alone


class Foreign(NamedTuple):
    """What waits: the records, and the files with their bytes."""

    records: tuple[Record, ...] = ()
    files: tuple[tuple[str, bytes], ...] = ()

    @property
    def authors(self) -> list[str]:
        """Return whose records these are, the one with most of them first."""
        counts: dict[str, int] = {}
        for record in self.records:
            if record.kind not in MECHANICAL:
                counts[author_of(record)] = counts.get(author_of(record), 0) + 1
        return sorted(counts, key=lambda name: (-counts[name], name))

    @property
    def first(self) -> int:
        """Return the place of the first of the records; 1 where there is none."""
        return min((record.seq for record in self.records), default=1)

    def by(self, authors: Collection[str], keys: Sequence[KeyFields] = ()) -> Foreign:
        """Return what these authors wrote, what these keys signed with the records that register
        them, and what says nothing of its own.
        """
        if missing := sorted({*authors} - {*self.authors}):
            raise NotFound(f"nothing of {', '.join(missing)} waits", id=missing[0])
        names, ids = {*authors}, {key["id"] for key in keys}
        records = (
            record
            for record in self.records
            if record.kind in MECHANICAL
            or author_of(record) in names
            or key_of(record).get("id") in ids
            or any(is_signed(record, key) for key in keys)
        )
        return Foreign(tuple(records))


def key_of(record: Record) -> KeyFields:
    """Return the public key that a record registers; nothing where it registers none."""
    key = record.fields.get("key") if record.kind == "key" else None
    return key if isinstance(key, dict) else {}


def keys_in(store: Store, foreign: Foreign, ids: Collection[str]) -> list[KeyFields]:
    """Return the public keys with these ids: those that wait, and those that count already."""
    with store.snapshot() as snap:
        registered = snap.names.keys
    keys = {} if registered is None else {id: key.fields for id, key in registered.by_id.items()}
    keys |= {key["id"]: key for record in foreign.records if (key := key_of(record)).get("id")}
    if missing := sorted({*ids} - {*keys}):
        raise NotFound(f"there is no key {missing[0]} here", id=missing[0])
    return [keys[id] for id in dict.fromkeys(ids)]


def author_of(record: Record) -> str:
    """Return who a record says wrote it."""
    return str(record.fields.get("author", record.by))


def raises(record: Record) -> str:
    """Return which rights or rules a record changes; empty where it changes none."""
    fields: Any = record.fields
    if record.kind == "agent":
        agent = fields["agent"]
        if fields.get("how") == "removed":
            return f"removes the agent {agent.get('id')}"
        return (
            f"declares the agent {agent.get('id')}: {agent.get('role')}, authority"
            f" {agent.get('authority')}"
        )
    if record.kind == "key":
        key = key_of(record)
        return f"registers the key {key.get('id')} of {key.get('owner') or fields.get('owner')}"
    if record.kind == "settings":
        return "changes the settings"
    return f"{record.kind} of {fields.get('entry') or 'lines'}" if record.kind in RULES else ""


def criticals(foreign: Foreign) -> list[Any]:
    """Return the critical entries among what waits, oldest first."""
    entries = [record for record in foreign.records if record.kind == "entry"]
    return [entry_of(record) for record in entries if record.fields.get("priority") == "critical"]


def waiting(store: Store) -> Foreign:
    """Return what was written elsewhere and waits, as its lines and files say it."""
    log = _files_log(store)
    store.refresh()
    with store.snapshot() as snap:
        seqs = snap.foreign()
    records = tuple(log.these(seqs))
    if log.accepted.known:
        drops = store.tree.foreign if store.tree is not None else {}
        paths = [*store.operator_files.foreign, *drops]
    else:
        paths = [path for path, _ in _not_held(log, ("synapse.yaml", *log.declared()))]
        paths += _dropped(log)
    files = _read(log, (*INSTRUCTIONS, *listed(log.root, "prompts")))
    paths += [path for path, raw in files if not log.accepted.takes_file(path, raw, note=False)]
    return Foreign(records, tuple(_read(log, dict.fromkeys(paths))))


def accept(
    store: Store, foreign: Foreign, authors: Iterable[str], keys: Iterable[KeyFields] = ()
) -> None:
    """Have this count from now on, and what these authors write and these keys sign in times to
    come. What follows from it is derived by `take_in`, in a store that was opened since.
    """
    persons_alone("accept what was written elsewhere")
    log = _files_log(store)
    seqs = {record.seq for record in foreign.records}
    imprints = [imprint(raw) for raw in log.journal.lines() if seq_of(raw) in seqs]
    keyed = {key["owner"] for key in log.accepted.decision.keys.values()}
    registered = map(key_of, foreign.records)
    renewed = [key for key in registered if key.get("owner") in keyed]  # whoever is keyed stays so
    acts = [record.fields for record in foreign.records if record.kind == "key"]
    ended = [str(fields.get("id")) for fields in acts if fields.get("how") == "revoked"]
    log.accepted.accept(imprints, authors, [*keys, *renewed], ended)
    for path, raw in foreign.files:
        log.accepted.note_file(path, raw)


def take_in(store: Store, floor: int) -> None:
    """Derive what follows from records that count by now, after this one."""
    store.index.restored(max(floor, 0))
    store.operator_files.signed = None
    store.refresh(whole=True)
    store.operator_files.write_missing()
    if store.tree is not None:
        store.tree.place_missing()
    store.refresh()


def _files_log(store: Store) -> FilesLog:
    if not isinstance(store.log, FilesLog):
        raise InvalidQuery("only a workspace in a directory holds what was written elsewhere")
    return store.log


def _dropped(log: FilesLog) -> list[str]:
    """Return the dropped files of a workspace of which nothing counts yet."""
    drops = log.scanner.look(lambda folder: set(), time.time(), whole=True)
    return [drop.path for drop in drops if isinstance(drop, Drop)]


def _not_held(log: FilesLog, paths: Iterable[str]) -> list[tuple[str, bytes]]:
    return [
        (path, raw) for path, raw in _read(log, paths) if not log.accepted.holds_file(path, raw)
    ]


def _read(log: FilesLog, paths: Iterable[str]) -> list[tuple[str, bytes]]:
    """Return those of these files that can be read, with their bytes."""
    files = []
    for path in paths:
        try:
            files.append((path, read_file(os.path.join(log.root, path))))
        except OSError:
            continue
    return files


def remembered(foreign: Foreign) -> list[str]:
    """Return the authors that are accepted for what is to come where all of this is."""
    return [name for name in foreign.authors if name != OPERATOR]
