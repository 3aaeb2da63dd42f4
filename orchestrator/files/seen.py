"""The files that one conversation has seen: how each looked, and of which changes it was told.
Reads no file.

Whoever keeps a conversation keeps this of it: a client's session in its file, a run in its steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from orchestrator.files.look import Look
from synapse.view.block import Block

FILES = 200  # files that are remembered of each conversation


class Seen(NamedTuple):
    """How a conversation last saw a file: its digest, its status on the disk, and when it read or
    wrote it as it is now, else 0. `forgotten`: its context was emptied since. `watched`: it was
    read, and no change without an author was told since. `cursor` is the place in the log up
    to which entries about the file were looked for.
    """

    digest: str = ""
    status: str = ""
    read: int = 0
    forgotten: bool = False
    watched: bool = False
    cursor: int = 0


class SeenFiles:
    """What the conversation of one run knows of files. `files` are those that it has seen, by their
    keys; `looked` is the place in the log up to which changes of them were looked for. `changes`
    are the newest ones that it was told of, by file, with their runs; `marks` are the files that
    its calls may change.
    """

    def __init__(self, run: str, cursor: int = 0) -> None:
        self.run = run
        self.files: dict[str, Seen] = {}
        self.looked = cursor
        self.changes: dict[str, list[Any]] = {}
        self.marks: dict[str, Any] = {}

    def forget_files(self) -> None:
        """Note that the conversation's context was emptied."""
        self.changes = {}
        self.files = {
            key: seen._replace(forgotten=seen.read > 0, cursor=0)
            for key, seen in self.files.items()
        }

    def note_change(self, file: str, place: int, run: str) -> None:
        """Remember up to which change of a file it was told, and whose that is."""
        self.changes.pop(file, None)
        self.changes[file] = [place, run]
        for old in list(self.changes)[:-FILES]:
            del self.changes[old]

    def note_notice(self, file: str) -> None:
        """Note that a text tells of a change of a file."""

    def see(self, key: str, digest: str, status: str, read: int = 0) -> None:
        """Remember how a file looks now, and when it was read if it was; of all the newest."""
        seen = self.files.pop(key, Seen())
        if not read and seen.digest == digest:
            self.files[key] = seen._replace(status=status)
        else:
            watched = read > 0 or seen.watched
            self.files[key] = Seen(digest, status, read, False, watched, seen.cursor)
        for old in list(self.files)[:-FILES]:
            del self.files[old]


class RunFiles(SeenFiles):
    """What a run with tools of its own knows of files, as its steps have recorded it. `untold` are
    the texts of changes that it is to be told, `unread` the files of those that it was told since
    its last turn, `given` the entries whose words stand in them; `looks` are the files that its
    calls are reading, as they were before.
    """

    def __init__(self, run: str, cursor: int, recorded: Mapping[str, Any]) -> None:
        super().__init__(run, max(cursor, recorded.get("looked", 0)))
        for key, (digest, watched) in recorded.get("seen", {}).items():
            self.files[key] = Seen(digest, watched=watched)
        self.changes = dict(recorded.get("told", {}))
        self.untold: list[Block] = []
        self.unread: set[str] = set()
        self.given: list[str] = []
        self.looks: dict[str, dict[str, Look]] = {}
        self._unrecorded: dict[str, None] = {}

    def note_change(self, file: str, place: int, run: str) -> None:
        super().note_change(file, place, run)
        self._unrecorded[file] = None

    def note_notice(self, file: str) -> None:
        self.unread.add(file)

    def see(self, key: str, digest: str, status: str, read: int = 0) -> None:
        super().see(key, digest, status, read)
        self._unrecorded[key] = None

    def take_unrecorded(self) -> dict[str, Any]:
        """Return what it has come to know since this was last asked, for the run's next step."""
        keys, self._unrecorded = self._unrecorded, {}
        files = {key: self.files[key] for key in keys if key in self.files}
        return {
            "looked": self.looked,
            "seen": {key: [file.digest, file.watched] for key, file in files.items()},
            "told": {key: self.changes[key] for key in keys if key in self.changes},
        }
