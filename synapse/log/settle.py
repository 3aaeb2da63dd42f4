"""What follows a record in the tree of files: placing, filing away, quarantine, and doing it again
after a crash.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from errno import EAGAIN, EDQUOT, EINTR, EIO, EMFILE, ENFILE, ENOMEM, ENOSPC
from functools import partial

from synapse.errors import NotFound, StoreError
from synapse.log.adopt import Rejected
from synapse.log.mirror import Mirror, has_place, live_path, path_of
from synapse.model import clock
from synapse.model.records import Record, filings
from synapse.model.settings import Settings
from synapse.privacy.personal import kept
from synapse.privacy.secrets import mask
from synapse.system.digest import sha256

Find = Callable[[Collection[str]], Iterable[Record]]
Place = Callable[[str], str]

_ASIDE = ".index/aside"
# Errors of a disk that is full or fails, and of too many open files: they may be over soon.
_PASSING = frozenset((EAGAIN, EDQUOT, EINTR, EIO, EMFILE, ENFILE, ENOMEM, ENOSPC))


def follow(mirror: Mirror, records: Iterable[Record], find: Find) -> None:
    """Bring the tree in line with these records, after their commit, which nothing here undoes:
    what cannot be put there now `finish` puts there later, or `verify` names it. Doing it twice
    changes nothing. What is only filed away is, all of it, in one go. An entry whose record names
    no place for one has no file.
    """
    find = partial(_placeable, find)
    filed: list[str] = []  # by the archive records since the last other one
    try:
        for record in records:
            if record.kind == "archive":
                filed += [id for id, _ in filings(record)]
                continue
            if filed:
                _file_away(mirror, find(filed))
                filed = []
            if record.kind != "entry":
                _follow(mirror, record, find)
            elif record.text is not None and (path := _first_path(record)):
                unmasked = _is_unmasked(mirror, record)
                dropped = record.path is not None and not unmasked
                if dropped and mirror.read(path) is not None:
                    continue  # an adopted file is still where it was dropped
                mirror.place(path, record.text.encode(), replace=unmasked, sha=record.sha)
        if filed:
            _file_away(mirror, find(filed))
    except (OSError, StoreError, NotFound):
        pass


def _first_path(record: Record) -> str | None:
    """Return `path_of` an entry's record; None where it names no place, at no cost for others."""
    try:
        return path_of(record)
    except (LookupError, ValueError, TypeError, AttributeError):
        return None


def _is_unmasked(mirror: Mirror, record: Record) -> bool:
    """Return whether an entry's file is as it was dropped, with a secret that the log masked."""
    dropped = record.fields.get("masked")
    if dropped is None:
        return False
    raw = mirror.read(live_path(record))
    return raw is not None and sha256(raw) == dropped


def _placeable(find: Find, ids: Collection[str]) -> Iterator[Record]:
    return (record for record in find(ids) if record.text is not None and has_place(record))


def _follow(mirror: Mirror, record: Record, find: Find) -> None:
    """Follow one act. It may name what never was: the record stands, and moves no file."""
    if record.kind in ("approve", "reject"):
        for entry in find((record.fields["entry"],)):
            if record.kind == "approve":
                mirror.place(live_path(entry), (entry.text or "").encode())
            mirror.remove(path_of(entry))
    elif moved := filings(record):
        _file_away(mirror, find([id for id, away in moved if away]))
        for entry in find([id for id, away in moved if not away]):
            mirror.place(live_path(entry), (entry.text or "").encode())


def _file_away(mirror: Mirror, entries: Iterable[Record]) -> None:
    by_page: dict[str, list[Record]] = {}
    for entry in entries:
        by_page.setdefault(page_path(entry), []).append(entry)
    for page, records in by_page.items():
        mirror.file_away(page, {entry.id or "": (entry.text or "").encode() for entry in records})
        paths = [live_path(entry) for entry in records]
        for path in paths:
            mirror.remove(path)
        for folder in {os.path.dirname(path) for path in paths if path.startswith("messages/thr_")}:
            mirror.prune(folder)  # there is one for each thread, of 4 KiB


def page_path(record: Record) -> str:
    """Return the archive page of the month in which the entry was received."""
    return f"archive/{clock.day(record.at)[:7]}.md"


def quarantine(mirror: Mirror, found: Rejected, settings: Settings) -> Record | None:
    """Put a file that can never be adopted aside, readable by its owner alone, with the reason
    beside it, and without secrets and personal data, as the settings say.
    """
    moment, base = time.strftime("%Y%m%dT%H%M%S"), os.path.basename(found.path)
    name = f"{moment}-{digest(found.path)}-{_plain(kept(mask(base), settings))}"
    target, path = f"quarantine/{name}", kept(mask(_readable(found.path)), settings)
    try:
        if (masked := _masked(mirror.read(found.path), settings)) is not None:
            mirror.place(target, masked, mode=0o600)
            mirror.remove(found.path)
        else:
            mirror.move(found.path, target, 0o600)
    except OSError:
        return None  # gone meanwhile, or this process may not move it
    reason = kept(mask(_readable(found.reason)), settings)
    mirror.place(f"{target}.reason.txt", f"{path}\n{reason}\n".encode(), mode=0o600)
    return Record.new("quarantine", "log", {"path": path, "to": target, "reason": reason})


def _masked(raw: bytes | None, settings: Settings) -> bytes | None:
    """Return a file without what may not be kept of it; None where it has nothing of that."""
    text = (raw or b"").decode("utf-8", "surrogateescape")
    masked = kept(mask(text), settings)
    return None if masked == text else masked.encode("utf-8", "surrogateescape")


def set_aside(mirror: Mirror, path: str, raw: bytes) -> None:
    """Put the file of an entry aside that the log once had and has no more: a checkout took its
    record away. It is nobody's drop, and stands again when its record does.
    """
    try:
        mirror.move(
            path, f"{_ASIDE}/{digest(path)}-{sha256(raw)[:12]}-{os.path.basename(path)}", 0o600
        )
    except OSError:
        pass  # gone meanwhile


def _plain(name: str) -> str:
    """Return a name for a file of ours, made of one that may be anything."""
    return "".join(char if char.isascii() and char.isprintable() else "_" for char in name)[-100:]


def _readable(text: str) -> str:
    """Return a name with escapes for the bytes that are no text, so that it can be stored."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def stands(mirror: Mirror, record: Record, rebooted: bool) -> bool:
    """Return whether an entry's file is where its record put it: nearly all are, and that is
    seen at once.
    """
    if record.kind != "entry" or record.sha is None or not has_place(record):
        return False
    path = path_of(record)
    if not rebooted:
        return mirror.exists(path) and not _is_unmasked(mirror, record)
    raw = mirror.read(path)
    return raw is not None and sha256(raw) == record.sha


def moved(record: Record) -> Collection[str]:
    """Return the entries whose files a record may have moved."""
    if record.kind == "entry":
        return (record.id,) if record.id else ()
    if record.kind in ("approve", "reject"):
        return (record.fields["entry"],)
    return [id for id, _ in filings(record)]


def settle(
    mirror: Mirror, ids: Collection[str], find: Find, place: Place, rebooted: bool
) -> set[str]:
    """Bring the tree in line with where these entries are now: with what a record once said, a file
    would come back that was filed away since, or whose record was taken back. Return the archive
    pages that they are on. StoreError where it cannot be known where they are; OSError where the
    disk fails, and may not fail for ever; what else cannot be put, `verify` names.
    """
    placed = [(entry, place(entry.id or "")) for entry in _placeable(find, ids)]
    archived = [entry for entry, state in placed if state == "archived"]
    try:
        _file_away(mirror, archived)
    except (OSError, StoreError) as error:
        _raise_passing(error)
        return set()
    for entry, state in placed:
        try:
            _put(mirror, entry, state, rebooted)
        except (OSError, StoreError) as error:
            _raise_passing(error)
    return {page_path(entry) for entry in archived}


def _raise_passing(error: OSError | StoreError) -> None:
    """Raise the system's error again if it may be over soon."""
    cause = error.__cause__ if isinstance(error, StoreError) else error
    if isinstance(cause, OSError) and cause.errno in _PASSING:
        raise cause


def _put(mirror: Mirror, entry: Record, where: str, rebooted: bool) -> None:
    text, path = (entry.text or "").encode(), live_path(entry)
    if where != "staged" and entry.fields.get("staged"):
        mirror.remove(path_of(entry))
    if where in ("live", "staged"):
        path = path if where == "live" else path_of(entry)
        compared = rebooted or _is_unmasked(mirror, entry)
        raw = mirror.read(path) if compared else None
        changed = raw not in (None, text)
        if changed and raw is not None and mirror.wrote(path, raw):
            set_aside(mirror, path, raw)
        if changed or not mirror.exists(path):
            mirror.sweep(path)
            mirror.place(path, text, replace=changed)


def digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogateescape"))[:12]
