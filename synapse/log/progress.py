"""The mark of how far the tree of files is known to follow the journal: `.index/placed`."""

from __future__ import annotations

import os

from synapse.system import plain_files
from synapse.system.typed import NamedTuple

PLACED = ".index/placed"
ANEW = "anew"  # in the place of what names a run of the machine: every file is to be compared


class Progress(NamedTuple):
    """The last record whose files are known to stand, its time, and the run of the machine in which
    that was seen.
    """

    seq: int = 0
    at: int = 0
    boot: str = ""

    @classmethod
    def read(cls, root: str) -> Progress:
        """Return the mark of a workspace, the first one where there is none."""
        try:
            text = plain_files.read_file(os.path.join(root, PLACED), 200).decode()
            seq, at, boot = text.split(" ")
            return cls(int(seq), int(at), boot)
        except (OSError, ValueError):
            return cls()

    def note(self, root: str) -> None:
        """Keep this mark. One that cannot be kept costs time later, and no file."""
        text = f"{self.seq} {self.at} {self.boot}"
        try:
            plain_files.replace_file(os.path.join(root, PLACED), text.encode())
        except OSError:
            pass


def restart(root: str, floor: int) -> None:
    """Note that files after the floor are to be compared with their records: the journal is another
    one from there on, and its tree is yet to follow.
    """
    Progress(min(floor, Progress.read(root).seq), 0, ANEW).note(root)


def lags(root: str) -> bool:
    """Return whether the tree is yet to follow a journal that is another one than before."""
    return Progress.read(root).boot == ANEW


def boot() -> str:
    """Return what names this run of the machine; where the system has no name for it, one that
    never changes.
    """
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read(64).strip()
    except OSError:
        return "-"
