"""Probes of a file system: links, locks, syncs and named pipes, tried out for `doctor`.

Leaves no trace.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator

NETWORK = frozenset(
    "nfs nfs3 nfs4 cifs smb smb2 smb3 smbfs afs afpfs 9p ceph fuse.ceph glusterfs"
    " fuse.glusterfs lustre ncpfs fuse.sshfs davfs fuse.davfs2 webdav drvfs virtiofs"
    " beegfs gpfs ocfs2 fuse.s3fs fuse.rclone".split()
)


def file_system_of(path: str) -> str | None:
    """Return the kind of file system that a path is on; None if the system does not say."""
    real = os.path.realpath(path)
    mounts = _linux_mounts() if sys.platform.startswith("linux") else _bsd_mounts()
    around = [
        (len(point), kind)
        for point, kind in mounts
        if real == point or real.startswith(f"{point.rstrip('/')}/")
    ]
    return max(around, default=(0, None), key=lambda pair: pair[0])[1]


def parse_mountinfo(lines: Iterable[str]) -> list[tuple[str, str]]:
    """Return mount points and kinds from /proc/self/mountinfo; later mounts hide earlier ones."""
    mounts: dict[str, str] = {}
    for line in lines:
        mount, dash, right = line.partition(" - ")
        columns = mount.split(" ")
        if dash and len(columns) > 4:
            point = (
                columns[4].encode().decode("unicode_escape") if "\\" in columns[4] else columns[4]
            )
            mounts[point] = right.split(" ", 1)[0]
    return list(mounts.items())


def parse_mount(lines: Iterable[str]) -> list[tuple[str, str]]:
    """Return mount points and kinds from the lines of macOS `mount`, such as `/dev/disk1 on /
    (apfs, local)`."""
    mounts = []
    for line in lines:
        _, on, description = line.partition(" on ")
        point, paren, options = description.rpartition(" (")
        if on and paren:
            mounts.append((point, options.split(",", 1)[0].rstrip(")\n")))
    return mounts


def _linux_mounts() -> list[tuple[str, str]]:
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
            return parse_mountinfo(file)
    except OSError:
        return []


def _bsd_mounts() -> list[tuple[str, str]]:
    try:
        done = subprocess.run(["mount"], capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.SubprocessError):
        return []
    return parse_mount(done.stdout.splitlines())


@contextlib.contextmanager
def _folder(place: str) -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix=".synapse-probe-", dir=place) as folder:
        yield folder


def linking(place: str) -> str | None:
    """Try whether a hard link refuses a name that is taken, so that no entry overwrites another."""
    with _folder(place) as folder:
        one, two = os.path.join(folder, "one"), os.path.join(folder, "two")
        for path in (one, two):
            open(path, "x").close()
        os.link(one, os.path.join(folder, "three"))
        if os.stat(one).st_nlink != 2:
            return "a hard link does not count"
        try:
            os.link(one, two)
        except FileExistsError:
            return None
        return "a link replaced a file that was there"


def locking(place: str) -> str | None:
    """Try whether two handles of a lock file exclude each other, and closing one frees it."""
    import fcntl

    with _folder(place) as folder:
        path = os.path.join(folder, "lock")
        with open(path, "w") as first, open(path) as second:
            fcntl.flock(first, fcntl.LOCK_EX | fcntl.LOCK_NB)
            try:
                fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return "two handles held one lock"
            except BlockingIOError:
                pass
            fcntl.flock(first, fcntl.LOCK_UN)
            fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return None


def syncing(place: str) -> str | None:
    """Try whether files and directories take an fsync. It cannot test that the disk obeys."""
    with _folder(place) as folder:
        with open(os.path.join(folder, "file"), "w") as file:
            file.write("probe")
            file.flush()
            os.fsync(file.fileno())
        fd = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
    return None


def named_pipes(place: str) -> str | None:
    """Try whether a named pipe can be made, which notifications need."""
    with _folder(place) as folder:
        os.mkfifo(os.path.join(folder, "pipe"))
    return None


PROBES: dict[str, Callable[[str], str | None]] = {
    "link": linking,
    "lock": locking,
    "sync": syncing,
    "notify": named_pipes,
}

# What is only faster with it: without notifications, news comes at the next look.
HELPFUL = frozenset(("notify",))
