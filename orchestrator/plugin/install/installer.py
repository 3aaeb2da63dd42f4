"""The whole of `install` and `uninstall`: the workspace, the client's files, what git leaves out.

Called by the shell. Returns what was done; prints nothing.
"""

from __future__ import annotations

import importlib
import os
import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from types import ModuleType
from typing import NamedTuple

from orchestrator.plugin.install import apply, record
from orchestrator.plugin.install import place as places
from orchestrator.plugin.install.apply import Prepared
from orchestrator.plugin.install.change import Target
from orchestrator.plugin.install.files.write import Edit
from orchestrator.plugin.install.place import AGENTS_MD, CLIENTS, GIT, SYNC, Place
from synapse.errors import NotFound
from synapse.mcp import installation


class Done(NamedTuple):
    """What a verb did, or would do. `notes` is what people should know of it."""

    place: Place
    prepared: Prepared
    ignored: Prepared | None
    notes: list[str]

    @property
    def edits(self) -> list[Edit]:
        """Return the files that are written."""
        ignored = self.ignored.edits if self.ignored is not None else []
        return [edit for edit in [*self.prepared.edits, *ignored] if edit.changes]

    @property
    def changes(self) -> bool:
        """Tell whether anything is done."""
        ignored = self.ignored is not None and self.ignored.changes
        return self.place.new or bool(self.place.agents) or self.prepared.changes or ignored


def module_of(client: str) -> ModuleType:
    """Return the module that knows how a client is set up."""
    name = client.replace("-", "_")
    try:
        return importlib.import_module(f"orchestrator.plugin.install.clients.{name}")
    except ModuleNotFoundError as error:
        if error.name != f"orchestrator.plugin.install.clients.{name}":
            raise
        clients = ", ".join((*CLIENTS, AGENTS_MD))
        raise NotFound(f"{client} cannot be installed: one of {clients} can", id=client) from None


def install(place: Place, dry_run: bool = False) -> Done:
    """Put a client's plugin into its configuration. All of it is done, or nothing."""
    target, module = place.target, module_of(place.target.client)
    places.refuse_unmakeable(place)
    if hasattr(module, "refuse_other"):
        module.refuse_other(target)
    prepared = apply.prepare(target, module.plan(target))
    ignored = _ignored(place, prepared)
    notes = [*prepared.notes, *_missing(place), *_tracked(place, prepared)]
    if hasattr(module, "notes"):
        notes += module.notes(target)
    done = Done(place, prepared, ignored, notes)
    if dry_run or not done.changes:
        return done
    try:
        places.make(place)
        if ignored is not None:
            apply.carry_out(ignored)
        apply.carry_out(prepared)
    except BaseException:
        git = places.git_target(place)
        was_ignored = ignored is not None and ignored.changes
        if git is not None and was_ignored and record.read(git):
            apply.carry_out(apply.prepare_removal(git))
        places.unmake(place)
        raise
    return done


def uninstall(place: Place, dry_run: bool = False) -> Done:
    """Take a client's plugin out of its configuration. The workspace stays."""
    target = place.target
    changes = (
        []
        if record.key_of(target) in record.read(target)
        else module_of(target.client).plan(target)
    )
    prepared = apply.prepare_removal(target, changes)
    git = places.git_target(place)
    is_last = git is not None and not any(True for _ in installed(place, but=target))
    ignored = None
    if git is not None and is_last:
        ignored = _no_longer_ignored(place, git)
    done = Done(place._replace(new=False, agents=()), prepared, ignored, prepared.notes)
    if not dry_run and done.changes:
        apply.carry_out(prepared)
        if ignored is not None and ignored.changes:
            apply.carry_out(ignored)
    return done


def installed(place: Place, but: Target | None = None) -> Iterator[tuple[str, str]]:
    """Yield what is installed in a workspace, or for the user: clients, and their projects."""
    folder = record.folder_of(place.target)
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    for name in names:
        client, suffix = os.path.splitext(name)
        if suffix == ".json" and client not in (GIT, SYNC):
            for project in record.read(place.target._replace(client=client)):
                if but is None or (client, project) != (but.client, record.key_of(but)):
                    yield client, project


def _ignored(place: Place, prepared: Prepared) -> Prepared | None:
    """Return what has git leave out the workspace and the files, where they are new."""
    git, root = places.git_target(place), place.target.root
    if git is None or root is None or place.target.client == AGENTS_MD:
        new_paths = [root] if place.new and root else []
    else:
        new_paths = [
            edit.path
            for edit in prepared.edits
            if edit.old is None and not edit.path.startswith(root + os.sep)
        ]
        new_paths += [root] if place.new else []
    blocks = places.exclude(place, new_paths)
    return apply.prepare(git, blocks) if git is not None and blocks else None


def _tracked(place: Place, prepared: Prepared) -> list[str]:
    """Return a note where files that others get with the next commit name this machine's places."""
    paths = [
        edit.path
        for edit in prepared.edits
        if edit.changes and place.target.folder.encode() in (edit.new or b"")
    ]
    names = ", ".join(places.tracked(place, paths))
    if not names:
        return []
    return [
        f"git tracks {names}, which now names places of this machine: keep that out of"
        f" commits, or use `orchestrator install {place.target.client} --user`."
    ]


def _no_longer_ignored(place: Place, git: Target) -> Prepared:
    """Return what has git leave out the workspace alone, without a record of it: that is no part of
    an installation any more.
    """
    remaining = places.exclude_workspace(place)
    if not remaining:
        return apply.prepare_removal(git, places.exclude(place, [git.root or ""]))
    prepared, key = apply.prepare(git, remaining), record.key_of(git)
    others = {name: done for name, done in prepared.installs.items() if name != key}
    is_recorded = key in record.read(git)
    return prepared._replace(installs=others, record_changes=is_recorded)


def _missing(place: Place) -> list[str]:
    """Return a note where the client itself is not there, and one where its tools' package is
    not.
    """
    client = place.target.client
    if client == AGENTS_MD:
        return []
    from orchestrator.plugin.facts import load

    notes = []
    command = str(load(client).raw.get("command", client))
    if shutil.which(command, path=place.target.env.get("PATH")) is None:
        notes.append(f"`{command}` is not installed (not on PATH); all is ready for when it is")
    if find_spec("mcp_types") is None:
        notes.append(f"All but the memory's tools works; for those: {installation()}")
    return notes
