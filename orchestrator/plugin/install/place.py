"""The place of an installation: the project, its workspace, and what of them has to be made first.

Called by the shell's verbs and by the doctor. `place` only looks; `make` makes what is missing.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from orchestrator.plugin.install import record
from orchestrator.plugin.install.change import Block, Target
from orchestrator.plugin.sessions.settings import Clients, clients, member
from synapse import core
from synapse.errors import NotFound, StoreError
from synapse.formats.declared import read_settings
from synapse.model.agents import Agent
from synapse.model.settings import Settings
from synapse.system import discovery

CLIENTS = ("claude-code", "codex", "gemini", "openclaw")
AGENTS_MD = "agents-md"
SYNC = "sync"  # the name of the record of blocks with what the team decided
GIT = "git"  # the name of the record of what git leaves out
TEAM = ("lead", "default")
GIT_WITHIN = 10.0  # seconds for git to say what it tracks


class Place(NamedTuple):
    """A target, and what is to be made for it: the workspace, and its agents by role. `tree` is the
    git work tree around the project."""

    target: Target
    new: bool
    agents: tuple[Agent, ...]
    tree: discovery.WorkTree | None


def place(
    client: str, project: str | None, named: str | None, user: bool, env: Mapping[str, str]
) -> Place:
    """Return where a client's plugin goes: into the project around a folder, by default the current
    one, and the workspace that this project has or is to have."""
    start = os.path.realpath(project) if project is not None else os.getcwd()
    if not os.path.isdir(start):
        raise NotFound(f"there is no folder {start}", id=start)
    tree = discovery.work_tree(start)
    top = start if tree is None else tree.top
    home = os.path.expanduser("~")
    if user:
        folder = record.plugin_folder(None, client, env, home)
        target = _target(client, None, home, True, home, folder, env)
        return Place(target, False, (), None)
    root = _workspace(named, start)
    new = root is None
    if root is None:
        root = os.path.join(start if tree is None else tree.main, discovery.FOLDER)
        discovery.refuse_link_out(root)
        root = os.path.realpath(root)
    declared, agents = _team(root)
    folder = record.plugin_folder(root, client, env, home)
    target = _target(client, root, top, False, home, folder, env)
    return Place(target._replace(lead=declared.lead), new, agents, tree)


def target_in(root: str, client: str) -> Target:
    """Return the target of a client in a workspace, for whoever looks after all of its projects."""
    home, env = os.path.expanduser("~"), dict(os.environ)
    folder = record.plugin_folder(root, client, env, home)
    return _target(client, root, root, False, home, folder, env)


def _target(
    client: str,
    root: str | None,
    project: str,
    user: bool,
    home: str,
    folder: str,
    env: Mapping[str, str],
) -> Target:
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    return Target(client, root, project, user, sys.executable, package, home, folder, env=env)


def _workspace(named: str | None, start: str) -> str | None:
    """Return the workspace of a folder, None where one is to be made."""
    try:
        root = os.path.realpath(discovery.locate(named, start=start).root)
    except NotFound:
        if discovery.of_project(start) is None:
            return None
        raise
    if not discovery.is_workspace(root):
        raise NotFound(f"{root} is no workspace: make one with `synapse init {root}`", id=root)
    if not os.access(root, os.W_OK):
        raise StoreError(
            f"{root} belongs to {_owner(root)}, and this user has no right to write"
            f" in it: ask for that,"
            " or name a workspace of your own with --root",
            path=root,
        )
    return root


def _owner(path: str) -> str:
    number = os.stat(path).st_uid
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user {number}"


def _team(root: str) -> tuple[Clients, tuple[Agent, ...]]:
    """Return whom the clients' agents are here, and those of them who have to be registered."""
    declared = declared_in(root)
    registered = {name.removesuffix(".yaml") for name in _names(os.path.join(root, "agents"))}
    project = declared.project_of(root)
    missing = [
        member(getattr(declared, field), field == "lead", project)
        for field in TEAM
        if getattr(declared, field) not in registered
    ]
    return declared, tuple(missing)


def declared_in(root: str) -> Clients:
    """Return whom a workspace's synapse.yaml has the clients' agents be, without opening it."""
    settings, _ = read_settings(
        _text(os.path.join(root, "synapse.yaml")), "synapse.yaml", Settings()
    )
    return clients(dict(settings.other))


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise StoreError(f"{path} cannot be read: {error}", path=path) from error


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def make(place: Place) -> None:
    """Make the workspace and register the agents, where they are missing."""
    root = place.target.root
    if root is None or not (place.new or place.agents):
        return
    with core.init(root) as memory:
        for agent in place.agents:
            memory.register(agent)


def unmake(place: Place) -> None:
    """Remove a workspace that was made for an installation which then failed."""
    if place.new and place.target.root is not None:
        shutil.rmtree(place.target.root, ignore_errors=True)


def refuse_unmakeable(place: Place) -> None:
    """Raise StoreError where the workspace could not be made."""
    root = place.target.root
    if place.new and root is not None and not os.access(os.path.dirname(root), os.W_OK | os.X_OK):
        raise StoreError(
            f"{root} cannot be made: this user has no right to write in {os.path.dirname(root)}"
        )


# -- what git leaves out ---------------------------------------------------------------------------


def git_target(place: Place) -> Target | None:
    """Return the target under which is kept what git leaves out of a repository; None outside of
    git, and for an installation of the user's."""
    if place.tree is None or place.target.root is None:
        return None
    return place.target._replace(client=GIT, project=place.tree.main)


def tracked(place: Place, paths: Sequence[str]) -> list[str]:
    """Return which of these files git tracks, from the top of the work tree; none where git does
    not say.
    """
    if place.tree is None or not paths:
        return []
    command = ["git", "-C", place.tree.top, "ls-files", "-z", "--", *paths]
    try:
        done = subprocess.run(command, capture_output=True, timeout=GIT_WITHIN)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return list(filter(None, os.fsdecode(done.stdout).split("\0")))


def exclude_workspace(place: Place) -> list[Block]:
    """Return the change that leaves of what git leaves out the workspace alone, where that is among
    it and stays.
    """
    root, tree = place.target.root, place.tree
    if root is None or tree is None or not os.path.isdir(root):
        return []
    file = os.path.join(tree.directory, "info", "exclude")
    line = f"/{os.path.relpath(root, tree.main)}"
    return [Block(file, line, "lines")] if line in _text(file).splitlines() else []


def exclude(place: Place, paths: Sequence[str]) -> list[Block]:
    """Return the change by which git leaves out what installations made in a repository, in all of
    its work trees; those files name places of this machine. Empty where there is nothing."""
    target, tree = git_target(place), place.tree
    if target is None or tree is None:
        return []
    lines = {
        f"/{os.path.relpath(path, top)}"
        for top in (tree.top, tree.main)
        for path in paths
        if path.startswith(top + os.sep)
    }
    lines |= {block.text for block in exclude_workspace(place)}
    done = record.read(target).get(record.key_of(target))
    for written in [] if done is None else done.files.values():
        lines |= {line for piece in written.pieces for line in piece.get("text", "").splitlines()}
    file = os.path.join(tree.directory, "info", "exclude")
    return [Block(file, "\n".join(sorted(lines)), "lines")] if lines else []
