"""The identity of a file: its work tree and its path from the top of that, wherever a session's
current folder is.

Reads folders and a few of git's files, and calls no git. Nothing here reads the memory. Called by
whoever compares what agents do with files, or looks for entries about one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from synapse.system.digest import sha256
from synapse.system.discovery import work_tree
from synapse.system.typed import NamedTuple

MOST = 10_000  # files of a tree that are looked at to see whether a name is the only one
_HOST = os.uname().nodename
# folders in which nobody means a file that an entry names
_PASSED = frozenset(("node_modules", "__pycache__", "venv", "vendor", "target", "dist", "build"))
_PART = re.compile(r"[\w@+~./\[\]()-]")  # what stands in a path before a file's name


class TreeFile(NamedTuple):
    """A file: the top of its work tree and its path from there. Outside of any tree, the absolute
    path alone.
    """

    tree: str
    path: str

    @property
    def tree_id(self) -> str:
        """Return the short name of the work tree on this machine: two have never the same."""
        return tree_id(self.tree)

    @property
    def key(self) -> str:
        """Return the text that stands for the file, the same from every folder."""
        return f"{self.tree_id} {self.path}"

    @property
    def full(self) -> str:
        """Return the absolute path."""
        return os.path.join(self.tree, self.path) if self.tree else self.path


def tree_id(tree: str) -> str:
    """Return the short name of a work tree on this machine; that of no tree for an empty path."""
    return sha256(f"{_HOST}\0{tree}".encode("utf-8", "surrogateescape"))[:12]


def locate(path: str, folder: str, project: str = "") -> TreeFile:
    """Return the file that a path means in a current folder. Its work tree is git's; where there is
    none, the `project` folder, if the file lies in that.
    """
    full = os.path.realpath(os.path.join(folder, os.path.expanduser(path)))
    git = work_tree(os.path.dirname(full))
    top = git.top if git else project
    inside = os.path.relpath(full, top) if top else ".."
    if inside == ".." or inside.startswith("../"):
        return TreeFile("", full)
    return TreeFile(top, inside)


def place_of(folder: str) -> str:
    """Return the text that stands for the work tree of a folder and the branch that it is on; an
    empty one outside of git.
    """
    git = work_tree(folder)
    return f"{tree_id(git.top)} {git.head}" if git else ""


def is_named(text: str, file: TreeFile) -> bool:
    """Return whether a text names a file: by its path from the top, by its absolute path, or by the
    end of its path, where no other file of the tree has such a path.
    """
    return any(_means(name, file) for name in set(_names(text, file)))


def _names(text: str, file: TreeFile) -> Iterator[str]:
    """Yield the paths in a text that end with the name of a file."""
    name = os.path.basename(file.path)
    for match in re.finditer(rf"{re.escape(name)}(?![\w/-]|\.\w)", text):
        start = match.start()
        while start and _PART.match(text[start - 1]):
            start -= 1
        path = text[start : match.end()]
        yield from (path, path.lstrip("(["))


def _means(name: str, file: TreeFile) -> bool:
    if name.startswith(("/", "~")):
        return os.path.realpath(os.path.expanduser(name)) == file.full
    name = os.path.normpath(name)
    if name == file.path:
        return True
    if not file.path.endswith(f"/{name}"):
        return False
    if not file.tree:  # where it begins, nobody can say
        return "/" in name
    is_other = os.path.exists(os.path.join(file.tree, name))
    return not is_other and ("." in name or "/" in name) and _is_only(file, name)


def _is_only(file: TreeFile, name: str) -> bool:
    """Return whether no other file of the tree has a path that ends so. Of a tree too large to look
    through, nobody can say.
    """
    count, end = 0, f"/{name}"
    base = os.path.basename(name)
    for folder, folders, files in os.walk(file.tree):
        folders[:] = [name for name in folders if name not in _PASSED and name[0] != "."]
        count += len(files)
        if count > MOST:
            return False
        path = os.path.join(folder, base)
        if base in files and path.endswith(end) and path != file.full:
            return False
    return True
