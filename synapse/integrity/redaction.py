"""Redaction: the operator takes the text of one entry out of the whole workspace.

First the act is recorded, and nobody is shown the text any more. Then files that repeat it are
overwritten; the line of the journal, the entry's own file and the index follow. Killed at any step,
it is finished by whoever next looks at the workspace and may write, and by the same call. What has
left the workspace is out of reach. The shell calls this.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterator
from contextlib import suppress

from synapse.errors import InvalidEntry, NotFound, StoreError
from synapse.log.begun import Begun
from synapse.log.files import FilesLog
from synapse.model.agents import OPERATOR
from synapse.model.entry import Entry
from synapse.model.entry_fields import FREE
from synapse.model.records import Record, entry_of
from synapse.model.results import Redacted
from synapse.privacy.erase import erased, forms
from synapse.store import Store
from synapse.system.digest import sha256
from synapse.system.json import dumps
from synapse.system.plain_files import open_file
from synapse.trust.persons import persons_alone

# Files of entries, and what the operator writes: they stay, and are named where they hold the text.
_KEPT = ("entries/", "messages/", "knowledge/", "staging/", "archive/", "agents/", "prompts/")
_OWN = ("journal/", ".index/brain.db", ".index/vectors.db")
_LARGEST = 256 << 20


def redact(store: Store, id: str, reason: str) -> Redacted:
    """Take the text of an entry out of everything below the root, and record who did it and why.
    Done again, it finishes what was begun. Refused to whoever acts as an agent.
    """
    persons_alone("redact")
    if not reason.strip():
        raise InvalidEntry("say why: the reason is all that will be left")
    store.log.demand_writable()
    store.refresh(whole=True)
    record = store.commit.get(id)
    if record.kind != "entry" or record.id is None:
        raise NotFound(f"there is no entry {id}", id=id)
    if "body" in record.fields:
        raise StoreError(
            f"{record.id} was taken in from a file without a text of its own: its body stands in"
            f" the head of its line, which the chain covers; file it away instead"
        )
    sha = record.sha or sha256((record.text or "").encode())
    act = Record.new("redact", OPERATOR, {"entry": record.id, "sha": sha, "reason": reason})
    entry = entry_of(record)
    also, heads = _repeats(store, entry) if record.text is not None else ((), ())
    if isinstance(store.log, FilesLog):
        files = Begun(store.log.root).carry_out(
            f"redact-{record.id}", {"entry": record.id}, lambda: _take_out(store, record, act)
        )
    else:
        files = _take_out(store, record, act)
    return Redacted(record.id, sha, tuple(sorted(files)), also, heads, _stays(entry))


def finish_redaction(store: Store, id: str) -> None:
    """Finish what a killed process began, if it came to record the act."""
    with suppress(NotFound):
        record = store.commit.get(id)
        acts = (act for act in store.log.since(record.seq) if act.kind == "redact")
        for act in acts:
            if act.fields.get("entry") == record.id:
                _take_out(store, record, act)
                return


def _take_out(store: Store, record: Record, act: Record) -> set[str]:
    """Record the act, and take the text out of all places; return the files that repeated it."""
    log = store.log
    store.commit.append(act, once=f"redact:{record.id}")
    store.refresh()  # from here on nobody is shown it
    needles = forms(entry_of(record).body) if record.text is not None else []
    files = _overwrite(log.root, needles) if isinstance(log, FilesLog) else set()
    log.redact(record)
    _purge(store)
    if isinstance(log, FilesLog):
        files |= _overwrite(log.root, needles)  # what a run was shown meanwhile
    return files


def _purge(store: Store) -> None:
    """Derive everything anew, and leave no byte of what was derived before."""
    store.refresh()
    store.index.purge()
    store.refresh()


def _stays(entry: Entry) -> tuple[str, ...]:
    """Return the fields of an entry that stay: they stand in the head of its line."""
    names = (name for name in ("tags", *FREE) if getattr(entry, name))
    return (*names, *sorted(entry.more))


def _repeats(store: Store, entry: Entry) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Return other entries that were made of this one or hold a part of its text, and records whose
    own fields hold one.
    """
    needles = forms(entry.body)
    entries: list[str] = []
    records: list[int] = []
    for record in store.log.since(0):
        fields = dumps(dict(record.fields)).encode()
        if erased(fields, needles) != fields:
            records.append(record.seq)
        if record.kind != "entry" or record.text is None or record.id == entry.id:
            continue
        sources = (*record.fields.get("derived_from", ()), *record.fields.get("replaces", ()))
        raw = record.text.encode()
        if record.id and (entry.id in sources or erased(raw, needles) != raw):
            entries.append(record.id)
    return tuple(entries), tuple(records)


def _overwrite(root: str, needles: Collection[bytes]) -> set[str]:
    """Overwrite these lines in files that repeat them; return which these were."""
    paths: set[str] = set()
    for path in _files(root) if needles else ():
        name = os.path.relpath(path, root)
        try:
            fd = open_file(path, os.O_RDWR)
        except OSError as error:
            raise StoreError(f"{name} could not be looked at: {error}") from error
        try:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode) or status.st_size > _LARGEST:
                continue
            raw = os.pread(fd, status.st_size, 0)
            blanked = erased(raw, needles)
            if blanked != raw:
                paths.add(name)
                with os.fdopen(os.dup(fd), "r+b") as file:
                    file.write(blanked)
                os.fsync(fd)
        finally:
            os.close(fd)
    return paths


def _files(root: str) -> Iterator[str]:
    """Yield the files that may repeat a text: those of runs, views, drops that were put aside."""
    for folder, folders, names in os.walk(root):
        inside = os.path.relpath(folder, root)
        folders[:] = [name for name in folders if name != ".git"]
        for name in names:
            path = name if inside == "." else f"{inside}/{name}"
            plan = path.startswith("entries/projects/") and name == "plan.md"
            if path.startswith(_OWN) or (path.startswith(_KEPT) and not plan):
                continue
            if path != "synapse.yaml" and stat.S_ISREG(os.lstat(f"{root}/{path}").st_mode):
                yield os.path.join(root, path)
