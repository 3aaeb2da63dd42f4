"""The record of an installation, so that it can be undone: one JSON file for each client.

It lies in the workspace (`runs/.plugins/CLIENT.json`), or for an installation of the user's among
the user's own state. It holds texts of ours and digests of others', never a copy of what others
wrote. It also names commands, and files to delete: one in a workspace is believed only where its
digest is in the person's own folder, for the workspace may be a stranger's. Called by `apply`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from orchestrator.plugin.install.change import Target
from orchestrator.plugin.install.files.merge import Piece
from synapse.errors import StoreError
from synapse.system import home
from synapse.system.digest import sha256

FORMAT = 1
PLUGINS = os.path.join("runs", ".plugins")
USER = "~"  # stands for the project in a record of the user's


class Written(NamedTuple):
    """One file: its digest before and after, what was put in, and the folders that were made for
    it. `mode` is what its permission bits were, where they were changed."""

    before: str | None
    after: str
    pieces: list[Piece]
    folders: list[str]
    mode: int | None = None


class Ran(NamedTuple):
    """A command of the client's, and the one that undoes it."""

    do: list[str]
    undo: list[str]
    cwd: str | None
    env: dict[str, str]
    late: bool = False


class Install(NamedTuple):
    """What one installation into one project did."""

    software: str
    files: dict[str, Written]
    commands: list[Ran]


def path_of(target: Target) -> str:
    """Return where a client's record lies."""
    return os.path.join(folder_of(target), f"{target.client}.json")


def folder_of(target: Target) -> str:
    """Return the folder of the records."""
    if target.user or target.root is None:
        state = target.env.get("XDG_STATE_HOME") or os.path.join(target.home, ".local", "state")
        return os.path.join(state, "synapse", "plugins")
    return os.path.join(target.root, PLUGINS)


def plugin_folder(root: str | None, client: str, env: Mapping[str, str], home: str) -> str:
    """Return where the files of a client's plugin lie, always among the user's own: for one
    workspace, by its real path, or for all projects. What lies in a workspace, git may have brought
    there.
    """
    data = env.get("XDG_DATA_HOME") or os.path.join(home, ".local", "share")
    folders = [] if root is None else [sha256(os.fsencode(os.path.realpath(root)))[:16]]
    return os.path.join(data, "synapse", "plugins", *folders, client)


def earlier_folder(target: Target) -> str:
    """Return where an older version kept the files of a client's plugin; empty for the user's."""
    if target.user or target.root is None:
        return ""
    return os.path.join(target.root, PLUGINS, target.client)


def key_of(target: Target) -> str:
    """Return the name under which a record keeps what was done for this target."""
    return USER if target.user else target.project


def read(target: Target) -> dict[str, Install]:
    """Return what was installed of a client, by project; empty where nothing was."""
    return _read(target)[0]


def folders(target: Target) -> list[str]:
    """Return the folders that were made for a record, the outermost first."""
    return _read(target)[1]


def moved_from(target: Target) -> str | None:
    """Return the folder in which a project was when this person left the record that is in it now;
    None where it was not moved. By the digest that they left for that folder: a copy is no move.
    """
    try:
        with open(path_of(target), "rb") as file:
            raw = file.read()
        if target.root is None or _is_own(path_of(target), raw):
            return None
        projects = list(json.loads(raw)["installs"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    for project in projects:
        path = _path_before(target, str(project))
        if not os.path.lexists(path) and _is_own(path, raw):
            return str(project)
    return None


def _path_before(target: Target, project: str) -> str:
    """Return where the record was while the project was in another folder."""
    place = os.path.relpath(path_of(target), target.project)
    return os.path.normpath(os.path.join(project, place))


def _read(target: Target) -> tuple[dict[str, Install], list[str]]:
    path = path_of(target)
    try:
        with open(path, "rb") as file:
            raw = file.read()
        before = moved_from(target)
        if before is None and not _is_own(path, raw):
            if home.read(_name(path)) is not None:
                raise ValueError("it is not as it was left")
            return {}, []  # a stranger's, or lost
        data = json.loads(raw)
        if before is not None:
            data = _at_new_place(data, before, target.project)
        if data["format"] > FORMAT:
            raise StoreError(
                f"{path} was written by a newer version: upgrade this software", path=path
            )
        return {name: _install(value) for name, value in data["installs"].items()}, data["folders"]
    except FileNotFoundError:
        return {}, []
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror}", path=path) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StoreError(
            (
                f"{path} is damaged ({error}): move it away; what was installed is then"
                f" known by its marks"
            ),
            path=path,
        ) from error


def _at_new_place(value: Any, old: str, new: str) -> Any:
    """Return a record with the paths of a moved project as they are now. What was put into files
    stays: it names the old ones.
    """
    if isinstance(value, dict):
        return {
            _at_new_place(key, old, new): item if key == "pieces" else _at_new_place(item, old, new)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [_at_new_place(item, old, new) for item in value]
    is_inside = isinstance(value, str) and f"{value}{os.sep}".startswith(old + os.sep)
    return f"{new}{value[len(old) :]}" if is_inside else value


def sign(target: Target, raw: bytes) -> None:
    """Note that this person is about to leave a record with these bytes; the one before stays
    believed until the next.
    """
    path = path_of(target)
    if not _is_in_workspace(path):
        return
    try:
        with open(path, "rb") as file:
            before = file.read()
    except OSError:
        before = raw
    digests = {sha256(raw)} | ({sha256(before)} if _is_own(path, before) else set())
    home.write(_name(path), "\n".join(sorted(digests)).encode())


def forget(target: Target, project: str | None = None) -> None:
    """Note that this person left no record any more; with a `project`, where that was before."""
    path = path_of(target) if project is None else _path_before(target, project)
    if _is_in_workspace(path):
        home.remove(_name(path))


def _is_own(path: str, raw: bytes) -> bool:
    """Tell whether the person of this process left a record with these bytes at this place."""
    if not _is_in_workspace(path):
        return True
    return sha256(raw) in (home.read(_name(path)) or b"").decode().split()


def _is_in_workspace(path: str) -> bool:
    return os.path.dirname(path).endswith(os.sep + PLUGINS)


def _name(path: str) -> str:
    return f"plugins/{sha256(os.fsencode(os.path.realpath(path)))[:32]}"


def text_of(client: str, installs: Mapping[str, Install], folders: Sequence[str]) -> str:
    """Return the text of a record, with the folders that were made for it."""
    done = {name: _plain(install) for name, install in installs.items()}
    data = {"format": FORMAT, "client": client, "folders": list(folders), "installs": done}
    return json.dumps(data, indent=1, ensure_ascii=False) + "\n"


def _plain(done: Install) -> dict[str, Any]:
    files = {path: written._asdict() for path, written in done.files.items()}
    return {
        "software": done.software,
        "files": files,
        "commands": [ran._asdict() for ran in done.commands],
    }


def _install(value: Any) -> Install:
    files = {path: Written(**written) for path, written in value["files"].items()}
    return Install(value["software"], files, [Ran(**ran) for ran in value["commands"]])
