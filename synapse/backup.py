"""Snapshots: a directory that holds a whole log, and the operator's files beside it, proven on the
way out and in.

    {name}-{time}-{records}/
        log.jsonl       every line of the journal up to one of them
        files/…         synapse.yaml, agents/, team.yaml and whatever else the log cannot give back
        manifest.json   written last: what there is, with its digests

The log is the truth and only grows, so that its beginning is a consistent state at any moment,
whoever writes meanwhile. What follows from it (entries, archive, views, the index) is not kept. The
folders of runs are no part of the log and are not kept either. Nothing old is removed unless a
number to keep is given.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial

from synapse.errors import (
    InvalidEntry,
    InvalidQuery,
    NotFound,
    StoreCorrupt,
    StoreError,
    SynapseError,
)
from synapse.exchange import Copy, acceptable, demand_empty, lines_out, proven, put_in
from synapse.log.begun import Begun
from synapse.log.chain import split
from synapse.log.disk import make_directory, sync_directory, write_file
from synapse.log.files import FilesLog
from synapse.model import clock
from synapse.model.namespace import is_component
from synapse.store import Store
from synapse.system.digest import sha256
from synapse.system.plain_files import make_folder, open_file, read_file
from synapse.system.typed import Any, NamedTuple, T
from synapse.trust.persons import operators_alone

FORMAT = 1
LOG, FILES, MANIFEST = "log.jsonl", "files", "manifest.json"
# What the log gives back, and what belongs to one machine.
DERIVED = frozenset(
    "journal .index entries archive views changelog staging bin runs messages knowledge".split()
)


class Snapshot(NamedTuple):
    """A snapshot that was read through and found whole. `head` is what `verify` ends with at that
    record, `origin` is the proof of the log's first record, and `at` is when the last one was
    received.
    """

    path: str
    records: int
    head: str
    origin: str
    at: str
    taken: str
    files: Mapping[str, str]


class _Lines(NamedTuple):
    records: int
    head: str
    origin: str
    at: str


def take(store: Store, directory: str, keep: int | None = None) -> Snapshot:
    """Return a new snapshot below the directory, checked after it was written. With `keep`, older
    ones of the same log beyond so many are removed then.
    """
    if keep is not None and keep < 1:
        raise InvalidQuery("keep 1 snapshot or more", keep=keep)
    operators_alone("backup")
    directory = os.path.abspath(os.path.expanduser(directory))
    root = store.root
    if root is not None and (directory + os.sep).startswith(os.path.abspath(root) + os.sep):
        raise InvalidQuery(
            f"{directory} is in the workspace itself: what takes one would take the other",
            dir=directory,
        )
    store.refresh(whole=True)
    snapshot = _or_store_error(directory, lambda: _written(store, directory))
    if keep is not None:
        for old in [results for results in listed(directory) if results.origin == snapshot.origin][
            :-keep
        ]:
            # first, so that none is half there: a hidden one is removed by the next
            hidden = os.path.join(directory, f".{os.path.basename(old.path)}.tmp")
            os.rename(old.path, hidden)
            sync_directory(directory)
            shutil.rmtree(hidden)
    return snapshot


def check(path: str) -> Snapshot:
    """Read all of it: the chain of the log and the digest of every file. StoreCorrupt says what is
    wrong.
    """
    manifest = _manifest(path)
    try:
        lines = _read(os.path.join(path, LOG))
        digests = {
            name: sha256(_bytes(os.path.join(path, FILES, name))) for name in manifest["files"]
        }
    except (InvalidEntry, UnicodeDecodeError, OSError) as error:
        raise StoreCorrupt(f"{path} is damaged: {error}", path=path) from error
    wrong = [name for name, digest in digests.items() if digest != manifest["files"][name]]
    if (lines.records, lines.head) != (manifest["records"], manifest["head"]):
        wrong.insert(0, LOG)
    if wrong:
        raise StoreCorrupt(
            f"{path} is damaged: {', '.join(wrong)} is not what was written", path=path, files=wrong
        )
    return Snapshot(
        path, lines.records, lines.head, lines.origin, lines.at, manifest["taken"], digests
    )


def restore(store: Store, path: str, *, believe: bool = False) -> Snapshot:
    """Fill a workspace that holds nothing yet. The agents' files are those the log vouches for.
    What was written elsewhere waits for a person, unless it is to be believed.
    """
    snapshot = check(path)
    demand_empty(store, "restore")
    with _lines(store, path) as copy:  # what is refused is refused before anything is there
        if not isinstance(store.log, FilesLog):
            put_in(store, copy)
            return snapshot
        if believe:
            store.log.accepted.accept_all(copy)
        act = partial(_fill, store, snapshot, copy)
        Begun(store.log.root).carry_out("restore", {"path": os.path.abspath(path)}, act)
    return snapshot


def finish_restore(store: Store, path: str) -> None:
    """Fill a workspace from a snapshot where a killed process began to."""
    if next(iter(store.log.since(0)), None) is None:
        try:
            snapshot = check(path)
            with _lines(store, path) as copy:
                _fill(store, snapshot, copy)
        except NotFound as error:
            raise StoreError(f"a restore was begun and cannot be finished: {error}") from error


@contextmanager
def _lines(store: Store, path: str) -> Iterator[Copy]:
    """Copy what the log of a snapshot holds; it was read through before."""
    file = open_file(os.path.realpath(os.path.join(path, LOG)))
    with open(file, encoding="utf-8", newline="\n") as lines, acceptable(store, lines) as copy:
        yield copy


def _fill(store: Store, snapshot: Snapshot, copy: Copy) -> None:
    """Put the files of a snapshot there, and then its log: one that is there is whole."""
    path, root = snapshot.path, str(store.root)
    declared = {
        f"agents/{record.fields['agent']['id']}.yaml": record.fields.get("sha")
        for record in copy.records()
        if record.kind == "agent"
    }
    names = [
        name
        for name, digest in snapshot.files.items()
        if declared.get(name, digest) == digest and is_kept(name)
    ]
    _or_store_error(root, lambda: _place(os.path.join(path, FILES), root, names))
    store.operator_files.declare(None)  # its file is another one now
    theirs = (name for name in names if name == "synapse.yaml" or name in declared)
    store.operator_files.sign(*theirs)
    put_in(store, copy)


def is_kept(path: str) -> bool:
    """Return whether a snapshot keeps this file, and a restored workspace has it: not what the log
    gives back, not what belongs to one machine, and nothing of git's, which runs what it names.
    """
    names = path.casefold().split("/")  # a disk may not tell the cases apart
    return names[0] not in DERIVED and not {".git", "", ".", ".."} & {*names}


def listed(directory: str) -> list[Snapshot]:
    """Return the snapshots in a directory by their manifests, oldest first; not read through."""
    results = []
    for name in os.listdir(directory) if os.path.isdir(directory) else ():
        if name.startswith("."):
            continue  # one that is being written
        path = os.path.join(directory, name)
        try:
            manifest = _manifest(path)
        except (NotFound, StoreCorrupt):
            continue  # something else, or a snapshot that was never finished
        values = (
            manifest["records"],
            manifest["head"],
            manifest["origin"],
            manifest["at"],
            manifest["taken"],
            manifest["files"],
        )
        results.append(Snapshot(path, *values))
    return sorted(results, key=lambda each: (each.taken, each.records))


# -- out -------------------------------------------------------------------------------------------


def _written(store: Store, directory: str) -> Snapshot:
    """Write a snapshot under another name, read it back, and only then give it its own."""
    make_directory(directory, 0o700)
    time = clock.iso(store.clock())
    _remove_unfinished(directory)
    aside = os.path.join(directory, f".{time}-{os.getpid()}.tmp")
    os.mkdir(aside, 0o700)
    descriptor = os.open(aside, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        files = dict(_files(store, os.path.join(aside, FILES)))
        _write(os.path.join(aside, LOG), (line.encode() for line in lines_out(store)))
        lines = _read(os.path.join(aside, LOG))
        manifest = {"format": FORMAT, "name": store.settings.name, "taken": time, "files": files}
        manifest |= {
            "records": lines.records,
            "head": lines.head,
            "origin": lines.origin,
            "at": lines.at,
        }
        _write(
            os.path.join(aside, MANIFEST),
            iter([json.dumps(manifest, indent=2, ensure_ascii=False).encode()]),
        )
        check(aside)
        for folder, _, _ in os.walk(aside):
            sync_directory(folder)
        name = store.settings.name
        moment = f"{time[:10]}T{time[11:19].replace(':', '')}.{time[20:26]}Z"
        final = os.path.join(
            directory, f"{name if is_component(name) else 'workspace'}-{moment}-{lines.records}"
        )
        os.rename(aside, final)
        sync_directory(directory)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise
    finally:
        os.close(descriptor)
    return check(final)


def _remove_unfinished(directory: str) -> None:
    """Remove the folders of snapshots that killed processes were writing: nobody holds them."""
    for name in os.listdir(directory):
        if not (name.startswith(".") and name.endswith(".tmp")):
            continue
        path = os.path.join(directory, name)
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path, ignore_errors=True)
        except BlockingIOError:
            pass  # it is being written
        finally:
            os.close(descriptor)


def _files(store: Store, target: str) -> Iterator[tuple[str, str]]:
    """Copy what the log cannot give back: each with its digest. Links are not followed, and not
    kept.
    """
    os.mkdir(target)
    if store.root is None:
        return
    for folder, folders, names in os.walk(store.root):
        inside = os.path.relpath(folder, store.root)
        prefix = "" if inside == "." else f"{inside}/"
        folders[:] = sorted(name for name in folders if is_kept(prefix + name))
        for name in sorted(names):
            path = os.path.join(folder, name)
            to = os.path.normpath(os.path.join(inside, name))
            if not is_kept(to) or os.path.islink(path) or not os.path.isfile(path):
                continue
            try:
                raw, mode = read_file(path), os.stat(path).st_mode & 0o644
            except FileNotFoundError:
                continue  # a dropped file that was adopted just now: it is in the log
            os.makedirs(os.path.dirname(os.path.join(target, to)), exist_ok=True)
            _write(os.path.join(target, to), iter([raw]), mode)
            yield to, sha256(raw)


def _write(path: str, parts: Iterator[bytes], mode: int = 0o600) -> None:
    with open(path, "xb") as file:
        os.fchmod(file.fileno(), mode)
        for chunk in parts:
            file.write(chunk)
        file.flush()
        os.fsync(file.fileno())


# -- in --------------------------------------------------------------------------------------------


def _manifest(path: str) -> dict[str, Any]:
    try:
        results = json.loads(_bytes(os.path.join(path, MANIFEST)))
        if results["format"] > FORMAT:
            raise StoreError(
                f"{path} has format {results['format']}, newer than {FORMAT}: upgrade"
                f" synapse-orchestrator"
            )
        if any(os.path.isabs(name) or ".." in name.split("/") for name in results["files"]):
            raise StoreCorrupt(f"{path} names files outside of it", path=path)
        return {name: results[name] for name in "taken records head origin at files".split()}
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NotFound(f"{path} is no snapshot: it has no {MANIFEST}", path=path) from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreCorrupt(f"{path}: its {MANIFEST} cannot be read: {error}", path=path) from error


def _read(path: str) -> _Lines:
    """Return the chain of the lines, followed from the first to the last."""
    count, chain, origin, seq, at = 0, "", "", 0, 0
    with open(open_file(os.path.realpath(path)), encoding="utf-8", newline="\n") as lines:
        for raw, record in proven(lines):
            count, chain, seq, at = count + 1, split(raw)[0], record.seq, record.at
            origin = origin or chain
    return _Lines(count, f"{seq}:{chain}", origin, clock.iso(at))


def _place(source: str, root: str, names: list[str]) -> None:
    for name in names:
        path, copy = os.path.join(root, name), os.path.join(source, name)
        folder = root
        for part in os.path.dirname(name).split("/"):
            folder = os.path.join(folder, part)
            make_folder(folder, 0o755)  # never through a link
        make_directory(os.path.dirname(path))
        # nothing that a snapshot holds is run: neither its marks nor its right to be
        write_file(path, _bytes(copy), os.stat(copy).st_mode & 0o644)


def _bytes(path: str) -> bytes:
    return read_file(os.path.realpath(path))


def _or_store_error(place: str, act: Callable[[], T]) -> T:
    try:
        return act()
    except SynapseError:
        raise
    except OSError as error:
        raise StoreError(f"{place} cannot be written: {error}") from error
