"""Which workspace a command means: the rules in their order, from the current folder up to the top
of the project.

Reads folders and a few of git's files, and calls no git. Opens no workspace and makes none. Called
by the shell where no workspace is named, by `synapse.find`, and where an address leads nowhere.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

from synapse.errors import Conflict, NotFound, StoreError
from synapse.system import home
from synapse.system.digest import sha256
from synapse.system.plain_files import read_file
from synapse.system.typed import NamedTuple

DEFAULT = "~/shared-memory"
FOLDER = "shared-memory"
POINTER = ".synapse"
_LONGEST = 4096  # bytes of a pointer file


class Location(NamedTuple):
    """A workspace and the rule that gave it: `option`, `environment`, `inside`, `pointer`, `folder`
    or `home`. `source` is the file or folder that decided; `main` says that this lies in the main
    work tree of a linked one."""

    root: str
    rule: str
    source: str
    main: bool = False

    @property
    def reason(self) -> str:
        """Return the rule as a sentence."""
        suffix = " in the main work tree" if self.main else ""
        return {
            "option": "named by --root",
            "environment": f"named by {self.source}",
            "inside": f"the current folder lies in it{suffix}",
            "pointer": f"named by the file {self.source}{suffix}",
            "folder": f"the folder {FOLDER} in {self.source}{suffix}",
            "home": "the default outside of git work trees",
        }[self.rule]


class WayOut(NamedTuple):
    """A link or a pointer file by its `name`, the workspace to which it leads, and the top of the
    project, in which that is not."""

    name: str
    real: str
    top: str


class Route(NamedTuple):
    """The folders of one walk, from the start to its end. `top` is the top of the git work tree,
    None outside of git; `main` is that of the main work tree, where the first is linked to one."""

    folders: list[str]
    top: str | None
    main: str | None


def find(start: str | os.PathLike[str] | None = None) -> str:
    """Return the root of the workspace that a command in this folder means, by default in the
    current one: that of SYNAPSE_ROOT, else the one that is found. NotFound says where was
    looked."""
    return locate(start=start).root


def locate(
    named: str | None = None,
    *,
    start: str | os.PathLike[str] | None = None,
    defaults: tuple[str, ...] = (DEFAULT,),
) -> Location:
    """Return the workspace that is meant, and why. One that is named is taken as it is, there or
    not."""
    if named:
        return Location(os.path.expanduser(named), "option", "--root")
    if value := os.environ.get("SYNAPSE_ROOT"):
        return Location(os.path.expanduser(value), "environment", "SYNAPSE_ROOT")
    location, route = _search(_start(start))
    if location is not None:
        refuse_way_out(location)
        return location
    existing = [path for path in map(_absolute, defaults) if path and is_workspace(path)]
    if existing and route.top is None:
        return Location(existing[0], "home", existing[0])
    raise NotFound(_missing(route, existing), id=route.folders[0])


def of_project(start: str | os.PathLike[str] | None = None) -> Location | None:
    """Return the workspace of the project that this folder belongs to, None where it has none."""
    location, _ = _search(_start(start))
    return None if location is None or location.rule == "home" else location


class WorkTree(NamedTuple):
    """A git work tree. `main` is the top of the main one, itself unless it is linked to one;
    `directory` is what all linked ones share of git's own files, `head` what it has checked out: a
    branch, or a commit."""

    top: str
    main: str
    directory: str
    head: str


def work_tree(start: str | os.PathLike[str] | None = None) -> WorkTree | None:
    """Return the git work tree that a folder lies in, None outside of git."""
    folder = _start(start)
    while not (git := _git(folder))[0]:
        parent = os.path.dirname(folder)
        if parent == folder:
            return None
        folder = parent
    path = os.path.join(folder, ".git")
    directory = path if os.path.isdir(path) else _git_file(path) or path
    common = _line(os.path.join(directory, "commondir"))
    shared = os.path.realpath(os.path.join(directory, common)) if common else directory
    head = (_line(os.path.join(directory, "HEAD")) or "").removeprefix("ref: refs/heads/")
    return WorkTree(folder, git[1] or folder, shared, head)


def is_workspace(path: str) -> bool:
    """Tell whether a folder is a workspace: it has a synapse.yaml, entries or a journal."""
    for name, test in (
        ("synapse.yaml", stat.S_ISREG),
        ("entries", stat.S_ISDIR),
        ("journal", stat.S_ISDIR),
    ):
        try:
            if test(os.stat(os.path.join(path, name)).st_mode):
                return True
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise StoreError(f"{path} could not be looked at: {error.strerror}", id=path) from error
    return False


def refuse_way_out(location: Location) -> None:
    """Raise Conflict where a project's own link or pointer leads out of it, to a place that its
    author chose, unless a person accepted that very place.
    """
    way = _way_out(location)
    if way is not None and home.read(_acceptance(way.name)) != os.fsencode(way.real):
        leads = "names" if location.rule == "pointer" else "is a link, to"
        raise Conflict(
            f"{way.name} {leads} {way.real}, which is not in {way.top}: what leads out of a project"
            f" is not followed; name that place itself with --root, or accept it with"
            f" `synapse trust --place`",
            path=way.name,
        )


def refuse_link_out(root: str) -> None:
    """Raise Conflict where a workspace that is to be made is a link out of its project."""
    refuse_way_out(Location(root, "folder", os.path.dirname(root)))


def find_way_out(start: str | os.PathLike[str] | None = None) -> WayOut | None:
    """Return how the project around a folder leads to a workspace elsewhere, accepted or not."""
    location, _ = _search(_start(start))
    return None if location is None else _way_out(location)


def accept_way_out(way: WayOut) -> None:
    """Note that a person accepts that this name leads there, and nowhere else."""
    home.write(_acceptance(way.name), os.fsencode(way.real))


def _way_out(location: Location) -> WayOut | None:
    """Return how a link or a pointer leads out of its project: out of the git work tree around it,
    outside of git out of the folder that it is in. What lies in the person's home folder itself is
    no project's.
    """
    name = location.source if location.rule == "pointer" else location.root
    folder, real = os.path.dirname(name), os.path.realpath(location.root)
    is_link = location.rule == "folder" and os.path.islink(name)
    if folder == _absolute("~") or not (is_link or location.rule == "pointer"):
        return None
    tree = work_tree(folder)
    tops = (folder,) if tree is None else (tree.top, tree.main)
    if any(f"{real}{os.sep}".startswith(f"{os.path.realpath(top)}{os.sep}") for top in tops):
        return None
    return WayOut(name, real, tops[0])


def _acceptance(name: str) -> str:
    folder, base = os.path.split(name)
    path = os.path.join(os.path.realpath(folder), base)
    return f"places/{sha256(os.fsencode(path))[:32]}"


def advice(root: str) -> str:
    """Return what to do where no workspace is at an address. Nobody is told to make a second one,
    and no agent to make any."""
    nearest = _nearest()
    if nearest is not None and os.path.realpath(nearest) != os.path.realpath(root):
        return f"there is one at {nearest}: name that one, by its path or by SYNAPSE_ROOT"
    if _is_agent():
        return "ask whoever runs the team for its path, and make no other"
    return f"make one with `synapse init {root}`"


def other_than(root: str) -> str:
    """Return what to do where a second workspace was about to be made."""
    if _is_agent():
        return f"use it, from here or with --root {root}, and make no other"
    return f"to make another all the same, name its directory: `synapse init ./{FOLDER}`"


# -- the walk --------------------------------------------------------------------------------------


def _search(start: str) -> tuple[Location | None, Route]:
    """Walk up from a folder. From a linked work tree, what the same folders of the main one have
    goes before a copy that is checked out here: those who work side by side share one."""
    home, route = _absolute(DEFAULT), Route([], None, None)
    location = None
    for folder, step in _walk(start):
        if location is None:
            location, route = _look(folder, first=folder == start), step
            if location is not None and location.rule == "inside":
                return location, route
        if step.main is not None and step.top is not None:
            shared = _in_main(start, step.top, step.main)
            return (location, route) if shared is None else (shared, step)
    if location is not None:
        is_default = route.top is None and location.rule == "folder" and location.root == home
        location = location._replace(rule="home") if is_default else location
    return location, route


def _in_main(start: str, top: str, main: str) -> Location | None:
    """Return what is found along the same folders of the main work tree, None for nothing."""
    relative = os.path.relpath(start, top)
    while True:
        folder = os.path.normpath(os.path.join(main, relative))
        location = _look(folder, first=False)
        if location is not None:
            return location._replace(main=True)
        if folder == main:
            return None
        relative = os.path.dirname(relative)


def _walk(start: str) -> Iterator[tuple[str, Route]]:
    """Yield every folder to look at, with the route so far. The walk ends at the top of the git
    work tree, for a submodule at that of the project around it; outside of git at the home folder
    or `/`."""
    home, folder = _absolute("~"), start
    route = Route([], None, None)
    while True:
        route.folders.append(folder)
        top, main, goes_on = _git(folder)
        if top:
            route = route._replace(top=folder, main=main)
        yield folder, route
        parent = os.path.dirname(folder)
        is_last = (top and not goes_on) or parent == folder
        if is_last or (folder == home and route.top is None and not _in_git(parent)):
            return
        folder = parent


def _look(folder: str, first: bool) -> Location | None:
    """Return the workspace that this folder is, names or holds. A folder such as /tmp, where
    everybody may put something, is passed over unless it is the one to begin with."""
    if not first and _is_everybodys(folder):
        return None
    if _is_itself(folder):
        return Location(folder, "inside", folder)
    pointer = os.path.join(folder, POINTER)
    if os.path.lexists(pointer) and not os.path.isdir(pointer):
        return Location(_target(pointer), "pointer", pointer)
    inner = os.path.join(folder, FOLDER)
    if is_workspace(inner):
        return Location(inner, "folder", folder)
    if os.path.islink(inner) and not os.path.exists(inner):
        raise NotFound(f"{inner} is a link to nothing: correct it, or remove it", id=inner)
    return None


def _is_itself(folder: str) -> bool:
    """Tell whether a folder on the way up is a workspace. A project may well have a folder
    `entries` or `journal`, so both the settings and one of these are asked for."""
    if not os.path.isfile(os.path.join(folder, "synapse.yaml")):
        return False
    return any(os.path.isdir(os.path.join(folder, name)) for name in ("entries", "journal"))


def _target(pointer: str) -> str:
    """Return the workspace that a pointer file names. One that names none is an error: whoever
    wrote it meant one."""
    rule = "write one line, the path of the workspace, seen from the folder of the file"
    try:
        lines = read_file(pointer, _LONGEST + 1).decode().split("\n")
    except UnicodeDecodeError:
        raise NotFound(f"{pointer} is not UTF-8: {rule}", id=pointer) from None
    except OSError as error:
        raise NotFound(f"{pointer} cannot be read: {error.strerror}", id=pointer) from error
    lines = [line.strip() for line in lines if line.strip()]
    if len(lines) != 1 or "\0" in lines[0] or len(lines[0]) >= _LONGEST:
        raise NotFound(f"{pointer} names no workspace: {rule}", id=pointer)
    root = os.path.realpath(os.path.join(os.path.dirname(pointer), os.path.expanduser(lines[0])))
    if not is_workspace(root):
        raise NotFound(f"{pointer} names {root}, where no workspace is: {rule}", id=pointer)
    return root


# -- git -------------------------------------------------------------------------------------------


def _git(folder: str) -> tuple[bool, str | None, bool]:
    """Return whether the folder is the top of a work tree, the top of the main one where it is
    linked to one, and whether the walk goes on above it: a submodule is a part of the project
    around it."""
    path = os.path.join(folder, ".git")
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False, None, False
    if stat.S_ISDIR(mode):
        return os.path.exists(os.path.join(path, "HEAD")), None, False
    directory = _git_file(path)
    if directory is None:
        return True, None, False
    common = _line(os.path.join(directory, "commondir"))
    if common is not None:
        return True, _main(os.path.realpath(os.path.join(directory, common))), False
    return True, None, "modules" in directory.split(os.sep)


def _main(common: str) -> str | None:
    """Return the top of the main work tree by the directory that all linked ones share. None for a
    bare repository, unless the folder around it points to it: that is then where its work trees are
    kept."""
    parent = os.path.dirname(common)
    if os.path.basename(common) == ".git" or _git_file(os.path.join(parent, ".git")) == common:
        return parent
    return None


def _git_file(path: str) -> str | None:
    """Return the directory that a `.git` file names."""
    line = _line(path)
    if line is None or not line.startswith("gitdir:"):
        return None
    target = line.removeprefix("gitdir:").strip()
    return os.path.realpath(os.path.join(os.path.dirname(path), target))


def _line(path: str) -> str | None:
    """Return the first line of a small file of git's, None where it cannot be read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(fd, encoding="utf-8", errors="surrogateescape") as file:
            return file.read(_LONGEST).partition("\n")[0].strip() or None
    except OSError:
        return None


def _in_git(folder: str) -> bool:
    """Tell whether a folder lies in a git work tree."""
    while not _git(folder)[0]:
        parent = os.path.dirname(folder)
        if parent == folder:
            return False
        folder = parent
    return True


# -- places ----------------------------------------------------------------------------------------


def _start(start: str | os.PathLike[str] | None) -> str:
    try:
        return os.getcwd() if start is None else os.path.realpath(start)
    except FileNotFoundError:
        problem = "the current folder was deleted"
        raise NotFound(
            f"{problem}: go to another, or name the workspace with --root or SYNAPSE_ROOT"
        ) from None


def _absolute(path: str) -> str | None:
    """Return a path below the home folder, None for a user who has none."""
    path = os.path.expanduser(path)
    return os.path.normpath(path) if os.path.isabs(path) else None


def _is_everybodys(folder: str) -> bool:
    try:
        mode = os.stat(folder).st_mode
    except OSError:
        return False
    return bool(mode & stat.S_ISVTX and mode & stat.S_IWOTH)


def _is_agent() -> bool:
    return bool(os.environ.get("SYNAPSE_AGENT") or os.environ.get("SYNAPSE_RUN"))


def _nearest() -> str | None:
    """Return a workspace that somebody here may mean, whatever SYNAPSE_ROOT says; None where none
    is found."""
    try:
        location, _ = _search(_start(None))
        home = _absolute(DEFAULT)
        if location is None:
            return home if home and is_workspace(home) else None
        return location.root
    except (NotFound, StoreError):
        return None


# -- words -----------------------------------------------------------------------------------------


def _missing(route: Route, existing: list[str]) -> str:
    """Return what was looked at, which workspace there is elsewhere, and what to do."""
    start, last = route.folders[0], route.folders[-1]
    up_to = "" if last == start else f", nor in a folder above it up to {last}"
    main = f", nor in the main work tree {route.main}" if route.main else ""
    problem = "this project has no workspace" if route.top else "there is no workspace"
    text = f"{problem}: neither {FOLDER}/ nor {POINTER} is in {start}{up_to}{main}"
    top = route.main or route.top or start
    ways = f"with --root, SYNAPSE_ROOT, or its path in a file {os.path.join(top, POINTER)}"
    if existing:
        return (
            f"{text}. There is one at {existing[0]}, outside of this project: if it is"
            f" meant, name it {ways}"
        )
    if _is_agent():
        return (
            f"{text}. Ask whoever runs the team which one is meant, and name it {ways};"
            f" make no other"
        )
    return f"{text}. Name one {ways}; or make one with `synapse init {os.path.join(top, FOLDER)}`"
