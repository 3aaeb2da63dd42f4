"""The files that one conversation has seen: how each looked, and of which changes it was told.
Reads no file.

Whoever keeps a conversation keeps this of it: a client's session in its file, a run in its steps.
"""

from __future__ import annotations

from typing import Any, NamedTuple

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
