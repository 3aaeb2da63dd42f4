"""Adoption: files that other programs dropped into the workspace become entries, or go to quarantine.

This module finds them, decides when they are finished, and reads them safely. Who may say what is decided by the
`admit` that it is given; what it commits goes through the log like any other record.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Generator, Iterator

from synapse import kinds
from synapse import namespace as ns
from synapse.authority import MAX_BODY
from synapse.digest import sha256
from synapse.entry import Draft, Entry
from synapse.errors import InvalidEntry, SynapseError
from synapse.records import canonical_body
from synapse.typed import NamedTuple

SETTLED = 0.2
FRESH = 2.0
ROOTS = ("entries", "messages", "knowledge")
THREADS = 1_000  # folders of threads that one look takes in
_LIMIT = MAX_BODY + (64 << 10)
_SEEN = ".index/seen"


class Channel(NamedTuple):
    """How a file came: through whose inbox, if any, and which user of the machine owns it."""

    inbox: str | None
    uid: int
    owner: bool


class Drop(NamedTuple):
    """A dropped file, read and understood but not yet admitted."""

    path: str
    channel: Channel
    draft: Draft
    text: str
    start: int


class Rejected(NamedTuple):
    """A dropped file that can never be adopted, and why."""

    path: str
    reason: str


Admit = Callable[[Draft, Channel], Entry]
Known = Callable[[str], set[str]]


class Scanner:
    """Looks for dropped files. Folders that have not changed since the last look cost one system call."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.real = os.path.realpath(root)
        self.owner = os.stat(root).st_uid
        self.seen = self._load()

    def look(self, known: Known, now: float) -> Iterator[Drop | Rejected]:
        """Every finished file that the log does not know. A folder with an unfinished one is looked at again."""
        before = dict(self.seen)
        waiting = list(dict.fromkeys(ROOTS) | self._due(before, now))
        while waiting:
            folder = waiting.pop()
            changed = self._changed(folder)
            if changed is None or changed == self.seen.get(folder):
                continue
            below, names = self._strangers(folder, known if _is_place(folder) else None)
            for found in below:
                if found not in self.seen:
                    self.seen[found] = 0  # or a new folder with an unfinished file would be forgotten
                    waiting.append(found)
            if (yield from self._files(folder, names, None, now)) and now - changed / 1e9 > 0.05:
                self.seen[folder] = changed
        for inbox in self._inboxes():
            if self._changed(folder := f"inbox/{inbox}/new") is not None:
                yield from self._files(folder, self._strangers(folder)[1], inbox, now)
        if self.seen != before:
            self._save()

    def _due(self, seen: dict[str, int], now: float) -> dict[str, int]:
        """The folders to look at. Of thousands of threads a part: each has its turn within seconds."""
        threads = [folder for folder in seen if folder.startswith("messages/")]
        if len(threads) <= THREADS:
            return seen
        start = int(now / SETTLED) * THREADS % len(threads)
        skipped = {*threads} - {*(threads + threads)[start : start + THREADS]}
        return {folder: changed for folder, changed in seen.items() if folder not in skipped}

    def _strangers(self, folder: str, known: Known | None = None) -> tuple[list[str], list[str]]:
        """The folders below, and the names of the entry files that the log does not know.

        Most names of a busy folder are known ones, so these are sorted out before any file is touched.
        """
        full = os.path.join(self.root, folder)
        try:
            names = os.listdir(full) if os.path.realpath(full) == os.path.join(self.real, folder) else []
        except OSError:
            return [], []  # somebody's own; the rest is looked at all the same
        if known and any(name.endswith(".md") for name in names):
            old = known(folder)
            names = [name for name in names if name not in old]
        below = {name for name in names if _is_folder(os.path.join(full, name))}
        files = (name for name in names if name.endswith(".md") and not name.startswith("."))
        return [f"{folder}/{name}" for name in below], sorted(name for name in files if name not in below)

    def _files(
        self, folder: str, names: list[str], inbox: str | None, now: float
    ) -> Generator[Drop | Rejected, None, bool]:
        """What these files hold; whether all of them were finished."""
        settled = True
        for name in names:
            found = self._read(f"{folder}/{name}", inbox, now)
            if found is None:
                settled = False
            else:
                yield found
        return settled

    def _read(self, path: str, inbox: str | None, now: float) -> Drop | Rejected | None:
        """One file: None while it may still be being written."""
        full = os.path.join(self.root, path)
        try:
            path.encode()
        except UnicodeEncodeError:
            return Rejected(path, "its name is not UTF-8")
        try:
            status = os.lstat(full)
            if not stat.S_ISREG(status.st_mode):
                return Rejected(path, f"it is not a file but a {_kind(status.st_mode)}")
            if now - status.st_ctime < SETTLED and now >= status.st_ctime - FRESH:
                return None
            if status.st_nlink > 1:
                return Rejected(path, f"it has {status.st_nlink} names (hard links); an entry has one")
            if status.st_size > _LIMIT:
                return Rejected(path, f"it has {status.st_size} bytes; an entry has at most {_LIMIT}")
            raw = _read_unchanged(full, status)
        except OSError:
            return None  # gone, or not readable now: looked at again
        if raw is None:
            return None
        return self._parse(path, inbox, raw, Channel(inbox, status.st_uid, status.st_uid == self.owner))

    def _parse(self, path: str, inbox: str | None, raw: bytes, channel: Channel) -> Drop | Rejected:
        from synapse import codec

        folder = os.path.dirname(path)
        of, place, thread = kinds.of_folder(folder) if not inbox else ((), None, None)
        try:
            if place is not None and not (ns.is_namespace(place) if thread is None else kinds.is_thread(thread)):
                raise InvalidEntry(f"its folder is not a {'namespace' if thread is None else 'thread'}: {folder!r}")
            parsed = codec.parse(raw, path=path, namespace=place)
            text = raw.decode()
            draft = threaded(parsed.draft, thread, text)
            if of and draft.kind not in of:
                raise InvalidEntry(f"{draft.kind} is no kind that stands in {folder}")
        except SynapseError as error:
            return Rejected(path, str(error).removeprefix(f"{path}: "))
        if place and place.startswith("projects/") and path.endswith("/plan.md") and draft.topic is None:
            draft = draft._replace(topic="plan")
        start = parsed.start if canonical_body(text[parsed.start :]) == canonical_body(draft.body) else -1
        return Drop(path, channel, draft, text, start)

    def _inboxes(self) -> Iterator[str]:
        try:
            names = os.listdir(os.path.join(self.root, "inbox"))
        except OSError:
            return
        yield from (name for name in sorted(names) if ns.is_component(name))

    def _changed(self, folder: str) -> int | None:
        try:
            status = os.lstat(os.path.join(self.root, folder))
        except OSError:
            self.seen.pop(folder, None)
            return None
        return status.st_mtime_ns if stat.S_ISDIR(status.st_mode) else None

    def _load(self) -> dict[str, int]:
        try:
            with open(os.path.join(self.root, _SEEN)) as file:
                pairs = (line.rstrip("\n").rpartition(" ") for line in file)
                return {folder: int(changed) for folder, _, changed in pairs if _is_place(folder)}
        except (OSError, ValueError):
            return {}

    def _save(self) -> None:
        path = os.path.join(self.root, _SEEN)
        try:
            with open(f"{path}.{os.getpid()}", "w") as file:
                pairs = ((folder, changed) for folder, changed in self.seen.items() if _is_place(folder))
                file.writelines(f"{folder} {changed}\n" for folder, changed in pairs)
            os.rename(f"{path}.{os.getpid()}", path)
        except OSError:
            pass


def threaded(draft: Draft, thread: str | None, text: str) -> Draft:
    """A dropped message with its thread: its folder's, its own, or, where it begins one, one that follows from its
    text. It is said in mail, wherever it was dropped."""
    if draft.kind != kinds.MESSAGE:
        return draft
    named = draft.more.get("thread")
    if thread is not None and named not in (None, thread):
        raise InvalidEntry(f"thread {named} does not fit the place of the file, which is {thread}")
    if not (named or thread) and "parent" in draft.more:
        raise InvalidEntry("thread is missing: an answer names the thread that it is in")
    found = thread or named or kinds.new_thread(bytes.fromhex(sha256(text.encode())))
    return draft._replace(namespace=draft.namespace or kinds.MAIL, more=kinds.More({**draft.more, "thread": found}))


def _is_place(folder: str) -> bool:
    """Whether entries belong there. The name of any other folder is text that somebody else wrote."""
    return kinds.is_folder(folder)


def _is_folder(path: str) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False


def _read_unchanged(path: str, status: os.stat_result) -> bytes | None:
    """The bytes, if the file is still the one that was looked at and did not change while it was read."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        raw = os.read(fd, _LIMIT + 1)
        after = os.fstat(fd)
    finally:
        os.close(fd)
    same = (after.st_ino, after.st_size, after.st_ctime_ns) == (
        status.st_ino,
        status.st_size,
        status.st_ctime_ns,
    )
    return raw if same and len(raw) == after.st_size else None


def _kind(mode: int) -> str:
    kinds = ((stat.S_ISLNK, "symbolic link"), (stat.S_ISFIFO, "named pipe"), (stat.S_ISSOCK, "socket"))
    return next((name for test, name in kinds if test(mode)), "device")
