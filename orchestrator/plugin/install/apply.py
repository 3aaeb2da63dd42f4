"""An installation carried out on the disk: all of it is planned first, then written whole or not at
all.

`prepare` reads and decides, `carry_out` writes files, runs the clients' commands and keeps the
record. Called by `installer` and by the nightly refresh of AGENTS.md.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from orchestrator.plugin.install import record
from orchestrator.plugin.install.change import Change, Command, File, Mode, Target
from orchestrator.plugin.install.files import merge, write
from orchestrator.plugin.install.files.merge import Text
from orchestrator.plugin.install.files.write import Edit, Wrote
from orchestrator.plugin.install.record import Install, Ran, Written
from orchestrator.plugin.install.version import version
from synapse.errors import Conflict, StoreError

COMMAND_WITHIN = 120.0  # seconds


class Prepared(NamedTuple):
    """What will be done: files to write, commands to run before (undoing) and after, the record as
    it is to be, and what people should know."""

    target: Target
    edits: list[Edit]
    undo: list[Ran]
    do: list[Ran]
    installs: dict[str, Install]
    notes: list[str]
    folders: tuple[str, ...] = ()  # that are made for the record
    record_changes: bool = False  # though the files may be as they are to be

    @property
    def changes(self) -> bool:
        """Tell whether anything will be done."""
        are_edited = any(edit.changes for edit in self.edits)
        return bool(self.undo or self.do or are_edited or self.record_changes)


# -- install ---------------------------------------------------------------------------------------


def prepare(target: Target, changes: Sequence[Change]) -> Prepared:
    """Return what an installation will do. Nothing is written; what cannot be done is refused."""
    installs = record.read(target)
    key = record.key_of(target)
    before = installs.get(key, Install("", {}, []))
    notes: list[str] = []
    paths = _by_path(changes)
    _refuse_links(target, [record.path_of(target), target.folder, *paths, *before.files])
    edits, files = _files(target, paths, before)
    for path, written in before.files.items():
        if path not in files:  # an earlier version had it
            undo_edits, note = _undo_file(target, path, written, _is_shared(installs, key, path))
            edits += undo_edits
            notes += note
    known = {*before.files, *files, *(path for done in installs.values() for path in done.files)}
    edits += _strangers(target, changes, known)
    commands = _commands(changes, target, notes)
    same = [ran.do for ran in commands] == [ran.do for ran in before.commands]
    do = [] if same and not any(edit.changes for edit in edits) else commands
    software = version() if do or any(edit.changes for edit in edits) else before.software
    undone = [ran.undo for ran in commands]
    undo = [ran for ran in before.commands if ran.late and ran.undo not in undone]
    installs = {**installs, key: Install(software, files, commands)}
    edits = _bounded(target, edits)
    write.refuse_unwritable(edits)
    return Prepared(
        target,
        edits,
        undo,
        do,
        installs,
        notes,
        tuple(write.missing_folders(record.path_of(target))),
        key not in record.read(target),
    )


def _within(target: Target, path: str) -> str:
    """Return the folder below which no link to a file is followed, for it may be a stranger's: the
    project, or the workspace; "" for what lies among the user's own files."""
    tops = () if target.user else (target.project, target.root or "")
    return next((top for top in tops if _is_below(path, top)), "")


def _refuse_links(target: Target, paths: Iterable[str]) -> None:
    for path in paths:
        write.refuse_link(path, _within(target, path))


def _bounded(target: Target, edits: Iterable[Edit]) -> list[Edit]:
    return [edit._replace(within=_within(target, edit.path)) for edit in edits]


def _strangers(target: Target, changes: Iterable[Change], known: Collection[str]) -> list[Edit]:
    """Return the edits that remove what nobody installed in the folders of a plugin: the client
    would take it for ours."""
    tops = {change.within or target.folder for change in changes if isinstance(change, File)}
    edits = []
    for top in sorted(tops):
        if top != target.folder and not _within(target, top):
            continue
        for folder, folders, names in os.walk(top):
            _refuse_links(target, [os.path.join(folder, name) for name in (*folders, *names)])
            for path in sorted({os.path.join(folder, name) for name in names} - {*known}):
                if not os.path.isfile(path):
                    raise Conflict(f"{path} is no file, and not ours: remove it", path=path)
                edits.append(Edit(path, write.read(path), None))
    return edits


def _by_path(changes: Iterable[Change]) -> dict[str, list[Text | Mode]]:
    paths: dict[str, list[Text | Mode]] = {}
    for change in changes:
        if not isinstance(change, Command):
            paths.setdefault(change.path, []).append(change)
    return paths


def _files(
    target: Target, paths: Mapping[str, list[Text | Mode]], before: Install
) -> tuple[list[Edit], dict[str, Written]]:
    edits, files = [], {}
    folders = {folder for written in before.files.values() for folder in written.folders}
    for path, changes in paths.items():
        edit, written = _file(target, path, changes, before.files.get(path), folders)
        edits.append(edit)
        files[path] = written
    return edits, files


def _file(
    target: Target,
    path: str,
    changes: Sequence[Text | Mode],
    was: Written | None,
    made: Collection[str],
) -> tuple[Edit, Written]:
    """Return the edit of one file, and what the record says of it. `made` are the folders that
    earlier installations made.
    """
    data = write.read(path)
    _refuse_foreign(target, path, data, changes, was)
    pieces = was.pieces if was is not None else []
    texts = [change for change in changes if not isinstance(change, Mode)]
    merged = (
        merge.merge(path, data, texts, pieces) if texts else merge.Merged(data or b"", [], data)
    )
    bits = next((change.mode for change in changes if isinstance(change, Mode)), None)
    mode = (
        bits
        if bits is not None
        else next((c.mode for c in texts if data is None or isinstance(c, File)), None)
    )
    earlier = was.mode if was is not None else (write.mode_of(path) if bits is not None else None)
    folders = {*write.missing_folders(path), *_own_folders(texts)}
    folders |= {folder for folder in made if _is_below(path, folder)}
    base = None if merged.base is None else digest(merged.base)
    return Edit(path, data, merged.data, mode), Written(
        base, digest(merged.data), merged.pieces, sorted(folders, key=len), earlier
    )


def _own_folders(changes: Sequence[Text | Mode]) -> set[str]:
    """Return the folders around a file that are ours as it is."""
    folders = set()
    for change in changes:
        folder = os.path.dirname(change.path)
        while isinstance(change, File) and _is_below(folder + os.sep, change.within):
            folders.add(folder)
            folder = os.path.dirname(folder)
    return folders


def _refuse_foreign(
    target: Target,
    path: str,
    data: bytes | None,
    changes: Sequence[Text | Mode],
    was: Written | None,
) -> None:
    """Raise Conflict where a whole file of ours would take the place of somebody's."""
    whole_file = next((change for change in changes if isinstance(change, File)), None)
    if (
        whole_file is None
        or data is None
        or data == whole_file.text.encode()
        or _is_below(path, target.folder)
        or _is_below(path, whole_file.within)
    ):
        return
    if was is None:
        raise Conflict(f"{path} is there already, and is not ours: move it away", path=path)
    if digest(data) != was.after:
        raise Conflict(
            f"{path} was edited since it was installed: move it away, or undo the edit", path=path
        )


def _commands(changes: Iterable[Change], target: Target, notes: list[str]) -> list[Ran]:
    commands = []
    for change in changes:
        if isinstance(change, Command):
            program = change.needs or (change.do or change.undo)[0]
            if change.do and shutil.which(program, path=target.env.get("PATH")) is None:
                notes.append(
                    f"{program} is not installed, so this was left out: {' '.join(change.do)}"
                )
            else:
                commands.append(
                    Ran(
                        list(change.do),
                        list(change.undo),
                        change.cwd,
                        dict(change.env),
                        change.late,
                    )
                )
    return commands


# -- uninstall -------------------------------------------------------------------------------------


def prepare_removal(target: Target, changes: Sequence[Change] = ()) -> Prepared:
    """Return what taking an installation back will do. Where its record is lost, what the changes
    of today would put in is looked for by its marks.
    """
    installs = record.read(target)
    key = record.key_of(target)
    recorded = installs[key].files if key in installs else _by_path(changes)
    _refuse_links(target, [record.path_of(target), target.folder, *recorded])
    if key not in installs:
        paths = {
            path: path_changes
            for path, path_changes in _by_path(changes).items()
            if not _is_shared(installs, key, path)
        }
        edits = [
            edit
            for path, path_changes in paths.items()
            for edit in _undo_marked(target, path, path_changes)
        ]
        edits = _bounded(target, edits)
        write.refuse_unwritable(edits)
        return Prepared(target, edits, [], [], installs, [])
    before = installs.pop(key)
    edits = []
    notes: list[str] = []
    for path, written in reversed(before.files.items()):
        undo_edits, note = _undo_file(target, path, written, _is_shared(installs, key, path))
        edits += undo_edits
        notes += note
    undo = []
    for ran in reversed(before.commands):
        is_there = (
            bool(ran.undo) and shutil.which(ran.undo[0], path=target.env.get("PATH")) is not None
        )
        if ran.undo and not is_there and not ran.late:
            notes.append(f"{ran.undo[0]} is gone, so this was left out: {' '.join(ran.undo)}")
        elif is_there:
            undo.append(ran)
    edits = _bounded(target, edits)
    write.refuse_unwritable(edits)
    return Prepared(target, edits, undo, [], installs, notes)


def _undo_marked(target: Target, path: str, changes: Sequence[Text | Mode]) -> list[Edit]:
    """Return the edit that takes out of a file what is ours by its marks."""
    data = write.read(path)
    texts = [change for change in changes if not isinstance(change, Mode)]
    if data is None or not texts:
        return []
    whole_file = next((change for change in texts if isinstance(change, File)), None)
    if whole_file is not None:
        is_ours = data == whole_file.text.encode() or any(
            _is_below(path, folder) for folder in (target.folder, whole_file.within)
        )
        folders = tuple(sorted(_own_folders(texts), key=len))
        return [Edit(path, data, None, None, folders)] if is_ours else []
    return [Edit(path, data, merge.take_out_marked(path, data, texts))]


def _undo_file(
    target: Target, path: str, written: Written, is_shared: bool
) -> tuple[list[Edit], list[str]]:
    """Return the edit that takes our part of a file back, and what to say of what stays."""
    data = write.read(path)
    if data is None or is_shared:
        return [], []
    bits = written.mode if digest(data) == written.after else None
    folders = tuple(written.folders)
    if any(piece["kind"] == "file" for piece in written.pieces):
        ours = (target.folder, record.earlier_folder(target))
        if digest(data) != written.after and not any(_is_below(path, top) for top in ours):
            return [], [f"{path} was edited since, so it stays"]
        return [Edit(path, data, None, None, folders)], []
    new = merge.undo(path, data, written.pieces) if written.pieces else data
    if digest(data) == written.after and (None if new is None else digest(new)) != written.before:
        raise StoreError(
            f"{path}: what was put in could not be taken out to the byte; nothing was done",
            path=path,
        )
    return [Edit(path, data, new, bits, folders)], []


def _is_shared(installs: Mapping[str, Install], key: str, path: str) -> bool:
    """Tell whether another project's installation needs a file too."""
    return any(path in done.files for name, done in installs.items() if name != key)


def _is_below(path: str, folder: str) -> bool:
    return bool(folder) and path.startswith(folder + os.sep)


# -- on the disk -----------------------------------------------------------------------------------


def carry_out(prepared: Prepared) -> None:
    """Do what was prepared. Where a step fails, all of it is put back, and the error raised."""
    target = prepared.target
    early = [ran for ran in prepared.undo if not ran.late]
    moved_from = record.moved_from(target)
    announced = _announce(prepared)
    try:
        for ran in early:
            _run(ran.undo, ran, target)
        edits = [_reread(edit, target) if early else edit for edit in prepared.edits]
        _finish(prepared, write.write(edits))
    except BaseException:
        for ran in early:
            _run_quietly(ran.do, ran, target)
        if announced is not None:
            _withdraw(target, announced)
        raise
    for ran in prepared.undo:
        if ran.late:
            _run_quietly(ran.undo, ran, target)
    if moved_from is not None:
        record.forget(target, moved_from)
    _tidy(target)


def _announce(prepared: Prepared) -> Wrote | None:
    """Record the files that are about to get something of ours for the first time, with how it is
    taken out: a process that is killed in between leaves nothing that nobody knows of."""
    target = prepared.target
    key, installs = record.key_of(target), record.read(target)
    before, after = installs.get(key), prepared.installs.get(key)
    recorded = {} if before is None else before.files
    if after is None or set(after.files) <= set(recorded):
        return None
    files = {**after.files, **recorded}
    first = Install(after.software, files, [] if before is None else before.commands)
    change = _record_edit(prepared, {**installs, key: first})
    record.sign(target, change.new or b"")
    return write.write([change])


def _withdraw(target: Target, announced: Wrote) -> None:
    """Put the record back as it was before it was announced what then failed."""
    write.put_back(announced.edits, announced.folders)
    old = write.read(record.path_of(target))
    if old is None:
        record.forget(target)
    else:
        record.sign(target, old)


def _finish(prepared: Prepared, wrote: Wrote) -> None:
    """Run the clients' commands, and keep the record; put the files back where that fails."""
    ended: list[Ran] = []
    try:
        for ran in prepared.do:
            _run(ran.do, ran, prepared.target)
            ended.insert(0, ran)
        change = _record(prepared)
        if change.new is not None:
            record.sign(prepared.target, change.new)
        write.write([change])
        if change.new is None:
            record.forget(prepared.target)
    except BaseException:
        for ran in ended:
            _run_quietly(ran.undo, ran, prepared.target)
        _put_back(wrote)
        raise


def _reread(edit: Edit, target: Target) -> Edit:
    """Return an edit of a file that a client's command may have changed meanwhile."""
    data = write.read(edit.path)
    if data == edit.old:
        return edit
    written = record.read(target)[record.key_of(target)].files[edit.path]
    return edit._replace(
        old=data, new=None if data is None else merge.undo(edit.path, data, written.pieces)
    )


def _put_back(wrote: Wrote) -> None:
    """Put files back as they were, whatever a client's command made of them."""
    write.put_back(
        [edit._replace(new=write.read(edit.path)) for edit in wrote.edits], wrote.folders
    )


def _record(prepared: Prepared) -> Edit:
    """Return the edit of the record: with the digests of the files as the client's commands left
    them; no record where nothing is installed any more."""
    installs = {}
    for key, done in prepared.installs.items():
        files = done.files
        if key == record.key_of(prepared.target) and prepared.do:
            files = {name: _current(name, written) for name, written in files.items()}
        installs[key] = done._replace(files=files)
    return _record_edit(prepared, installs)


def _record_edit(prepared: Prepared, installs: Mapping[str, Install]) -> Edit:
    path = record.path_of(prepared.target)
    folders = record.folders(prepared.target) or prepared.folders
    text = record.text_of(prepared.target.client, installs, folders).encode() if installs else None
    mode, within = 0o600 if text else None, _within(prepared.target, path)
    return Edit(path, write.read(path), text, mode, tuple(folders), within)


def _current(path: str, written: Written) -> Written:
    data = write.read(path)
    if data is None or digest(data) == written.after:
        return written
    before = merge.undo(path, data, written.pieces) if written.pieces else data
    return written._replace(after=digest(data), before=None if before is None else digest(before))


def _run(words: Sequence[str], ran: Ran, target: Target) -> None:
    """Run a command of the client's, if there is one; StoreError says what it said."""
    if not words:
        return
    try:
        done = subprocess.run(
            words,
            cwd=ran.cwd,
            env={**target.env, **ran.env},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=COMMAND_WITHIN,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise StoreError(f"`{' '.join(words)}` did not run: {error}") from error
    if done.returncode:
        lines = (done.stderr or done.stdout).decode(errors="replace").strip().splitlines()
        raise StoreError(
            f"`{' '.join(words)}` failed: {lines[-1] if lines else f'exit code {done.returncode}'}"
        )


def _run_quietly(words: Sequence[str], ran: Ran, target: Target) -> None:
    try:
        _run(words, ran, target)
    except StoreError:
        pass  # the first error is the one to tell


def _tidy(target: Target) -> None:
    """Remove our own folders where nothing is left in them."""
    for folder in (target.folder, os.path.dirname(target.folder), record.folder_of(target)):
        for subfolder, _, _ in os.walk(folder, topdown=False):
            try:
                os.rmdir(subfolder)
            except OSError:
                pass  # something is in it


def digest(data: bytes) -> str:
    """Return the digest by which a file is known to be as it was left."""
    return hashlib.sha256(data).hexdigest()
