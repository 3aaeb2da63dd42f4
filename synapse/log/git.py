"""What git says of a workspace that lies in one of its work trees. Only asks; runs nothing that the
tree could name.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from synapse.system.plain_files import open_file

# What follows from the journal, is on its way, was set aside, or belongs to one machine. Files of
# entries are not
# committed: where entries were filed away on both sides, git takes likeness for renaming, and
# stops.
IGNORE = """\
/.index/
/entries/
/messages/
/knowledge/
/archive/
/staging/
/changelog/
/views/
/inbox/
/quarantine/
/runs/
/journal/lock
"""
# Line ends stay as they are; both sides' lines stay in the journal, where `synapse merge` makes
# them one history.
ATTRIBUTES = """\
* -text
journal/*.jsonl merge=union
"""
_PLAIN = (
    "git",
    "-c",
    "core.fsmonitor=false",
    "-c",
    "core.hooksPath=/dev/null",
    "--no-optional-locks",
)
_TIMEOUT = 10.0


def is_work_tree(root: str) -> bool:
    """Return whether a folder lies in a work tree of git, without asking git."""
    folder = os.path.realpath(root)
    while not os.path.lexists(os.path.join(folder, ".git")):
        parent = os.path.dirname(folder)
        if parent == folder:
            return False
        folder = parent
    return True


def is_committed(root: str) -> bool:
    """Return whether the journal on the disk is, byte for byte, the one of the commit that is
    checked out.
    """
    listed = _run(root, "ls-tree", "-z", "HEAD", "--", "journal/")
    if listed is None:
        return False
    committed = dict(_blobs(listed))
    if not committed and not _run(root, "rev-list", "-n", "1", "--all", "--", "journal/"):
        return False  # git never had it, so it did not take it away
    folder = os.path.join(root, "journal")
    try:
        names = [name for name in os.listdir(folder) if name.endswith(".jsonl")]
        sizes = {name: os.path.getsize(os.path.join(folder, name)) for name in names}
        present = {name for name in names if sizes[name] or name in committed}
        return present == set(committed) and all(
            _blob(os.path.join(folder, name), len(digest)) == digest
            for name, digest in committed.items()
        )
    except OSError:
        return False


def brought(root: str, files: Mapping[str, bytes]) -> set[str]:
    """Return those of these files, by their paths, that are, byte for byte, those of the commit
    that is checked out: git put them there, or they were committed as they are.
    """
    if not files or not is_work_tree(root):
        return set()
    listed = _run(root, "ls-tree", "-z", "HEAD", "--", *files) or b""
    rows = [row.partition(b"\t") for row in listed.split(b"\0") if row]
    digests = {os.fsdecode(path): head.split(b" ")[2].decode() for head, _, path in rows}
    return {
        path
        for path, raw in files.items()
        if path in digests and _digest(raw, len(digests[path])) == digests[path]
    }


def _digest(raw: bytes, length: int) -> str:
    """Return the digest that git gives to a file of these bytes."""
    from hashlib import new

    total = new("sha1" if length == 40 else "sha256", usedforsecurity=False)
    total.update(b"blob %d\0%b" % (len(raw), raw))
    return total.hexdigest()


def _blobs(listed: bytes) -> list[tuple[str, str]]:
    """Return names and digests of the segments in a listing of `ls-tree`."""
    rows = [row.partition(b"\t") for row in listed.split(b"\0") if row]
    pairs = [
        (os.path.basename(os.fsdecode(path)), head.split(b" ")[2].decode())
        for head, _, path in rows
    ]
    return [(name, digest) for name, digest in pairs if name.endswith(".jsonl")]


def _blob(path: str, length: int) -> str:
    """Return the digest that git gives to a file with these bytes."""
    from hashlib import new

    total = new("sha1" if length == 40 else "sha256", usedforsecurity=False)
    with open(open_file(path), "rb") as file:
        total.update(b"blob %d\0" % os.fstat(file.fileno()).st_size)
        while block := file.read(1 << 20):
            total.update(block)
    return total.hexdigest()


def _run(root: str, *words: str) -> bytes | None:
    """Return what a command of git prints; None where it fails or there is no git."""
    import subprocess

    environ = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    # A tree may name where its missing objects come from, and the program to fetch them with.
    environ |= {"GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": "none"}
    try:
        done = subprocess.run(
            [*_PLAIN, *words],
            cwd=root,
            env=environ,
            capture_output=True,
            timeout=_TIMEOUT,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout if done.returncode == 0 else None
