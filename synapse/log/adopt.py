"""Adoption: files that other programs dropped into the workspace become entries, or go to
quarantine.

This module finds them, decides when they are finished, and reads them safely. Who may say what is
decided by the `admit` that it is given; what it commits goes through the log like any other record.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Collection, Generator, Iterator
from itertools import islice

from synapse.authority import MAX_BODY
from synapse.errors import InvalidEntry, SynapseError
from synapse.model import kinds
from synapse.model import namespace as ns
from synapse.model.entry import Draft, Entry
from synapse.model.records import canonical_body
from synapse.system import plain_files
from synapse.system.digest import sha256
from synapse.system.typed import NamedTuple

SETTLED = 0.2
FRESH = 2.0
ROOTS = ("entries", "messages", "knowledge")
THREADS = 300  # folders of quiet threads that one look takes in
LIVELY = 100  # those that changed last, which every look takes in
SAVED_EVERY = 5.0  # seconds
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
    plain: bool = False  # a plan.md without front matter: people go on editing it


class Rejected(NamedTuple):
    """A dropped file that can never be adopted, and why."""

    path: str
    reason: str


Admit = Callable[[Draft, Channel], Entry]
Known = Callable[[str], set[str]]


class Scanner:
    """Looks for dropped files. Folders that have not changed since the last look cost one system
    call.
    """

    def __init__(self, root: str) -> None:
        self.root = root
        self.real = os.path.realpath(root)
        self.owner = os.stat(root).st_uid
        self.plans: dict[str, int] = {}  # each plain plan.md, when it was last read
        self.seen = self._load()
        # of the threads, the next one first
        self.turns = dict.fromkeys(filter(_is_thread, self.seen))
        self.places = dict.fromkeys(folder for folder in self.seen if not _is_thread(folder))
        self.lively = dict.fromkeys(
            sorted(self.turns, key=self.seen.__getitem__)[-LIVELY:]
        )  # the last one last
        self.begun = False
        self.looked: dict[str, int] = {}  # what was read by a look that is not done yet
        self.saved, self.unsaved = 0.0, False

    def look(self, known: Known, now: float, *, whole: bool = False) -> Iterator[Drop | Rejected]:
        """Yield every finished file that the log does not know, in the folders that are due or in
        all of them. A folder with an unfinished one is looked at again, and every one that this
        look went through until `done` is called.
        """
        self.looked = {}
        waiting = list(dict.fromkeys((*ROOTS, *self.seen) if whole else self._due(now)))
        while waiting:
            folder = waiting.pop()
            changed = self._changed(folder)
            if changed is None or changed == self.seen.get(folder):
                continue
            folders, names, listed = self._strangers(folder, known if _is_place(folder) else None)
            for child in folders:
                if child not in self.seen:
                    self._add(child)
                    waiting.append(child)
            self._rouse(folder)
            settled = yield from self._files(folder, names, None, now)
            if settled and listed and now - changed / 1e9 > 0.05:
                self.looked[folder] = changed
        yield from self._edits(now)
        for inbox in self._inboxes():
            if self._changed(folder := f"inbox/{inbox}/new") is not None:
                yield from self._files(folder, self._strangers(folder)[1], inbox, now)

    def done(self, waiting: Collection[str], now: float) -> None:
        """Note that what the last look found is in the log, but for the files that wait: where
        nothing does, nothing is looked at again before it changes.
        """
        changing = {*waiting, *map(os.path.dirname, waiting)}
        for path, changed in self.looked.items():
            noted = self.plans if kinds.is_plan(path) else self.seen
            if path in noted and path not in changing:
                noted[path] = changed
                self.unsaved = True
        self.looked = {}
        if self.unsaved and not 0 <= now - self.saved < SAVED_EVERY:
            self.saved, self.unsaved = now, False
            self._save()

    def _edits(self, now: float) -> Iterator[Drop | Rejected]:
        """Yield each plain plan.md that was edited since its last read: that changes no folder."""
        for path, before in [*self.plans.items()]:
            changed = self._edited(path)
            if changed != before and (
                yield from self._files(os.path.dirname(path), ["plan.md"], None, now)
            ):
                self.looked[path] = changed

    def restart(self) -> None:
        """Look at every folder again, whatever was seen of it: the log is another one, and knows
        other files.
        """
        self.seen, self.looked = dict.fromkeys(self.seen, 0), {}
        try:
            os.unlink(os.path.join(self.root, _SEEN))
        except OSError:
            pass

    def _due(self, now: float) -> list[str]:
        """Return the folders to look at: all but those of threads, the threads that changed last,
        and of the others a part. Each has its turn within seconds, also where every look is by a
        new process.
        """
        if not self.begun:
            self.begun = True
            self._turn(int(now / SETTLED) * THREADS % max(1, len(self.turns)))
        turn = self._turn(THREADS)
        return [*ROOTS, *self.places, *self.lively, *turn]

    def _turn(self, count: int) -> list[str]:
        """Return the next of the threads, which then are the last."""
        turn = list(islice(self.turns, count))
        for folder in turn:
            del self.turns[folder]
        self.turns |= dict.fromkeys(turn)
        return turn

    def _add(self, folder: str) -> None:
        """Add a new folder as one that was not seen yet, so that one with an unfinished file is not
        forgotten.
        """
        self.seen[folder] = 0
        if _is_thread(folder):
            self.turns[folder] = None
        else:
            self.places[folder] = None

    def _rouse(self, folder: str) -> None:
        """Put a thread that changed at the end of those that are looked at every time."""
        if _is_thread(folder):
            self.lively.pop(folder, None)
            self.lively[folder] = None
            if len(self.lively) > LIVELY:
                del self.lively[next(iter(self.lively))]

    def _gone(self, folder: str) -> None:
        """Forget a folder that is none any more, and look at the one above it again: it may seem
        unchanged.
        """
        if self.seen.pop(folder, None) is not None:
            for group in (self.places, self.lively, self.turns):
                group.pop(folder, None)
            parent = os.path.dirname(folder)
            self.looked.pop(parent, None)
            if parent in self.seen:
                self.seen[parent] = 0
            self.unsaved = True

    def _strangers(
        self, folder: str, known: Known | None = None
    ) -> tuple[list[str], list[str], bool]:
        """Return the folders below, the names of the entry files that the log does not know, and
        whether the folder could be listed.

        Most names of a busy folder are known ones, so these are sorted out before any file is
        touched.
        """
        full = os.path.join(self.root, folder)
        try:
            names = (
                os.listdir(full)
                if os.path.realpath(full) == os.path.join(self.real, folder)
                else []
            )
        except OSError:
            return [], [], False  # the rest is looked at all the same
        if known and any(name.endswith(".md") for name in names):
            old = known(folder)
            names = [name for name in names if name not in old]
        names = [name for name in names if f"{folder}/{name}" not in self.seen]
        folders = {name for name in names if _is_folder(os.path.join(full, name))}
        files = (name for name in names if name.endswith(".md") and not name.startswith("."))
        inside = [f"{folder}/{name}" for name in folders]
        return inside, sorted(name for name in files if name not in folders), True

    def _files(
        self, folder: str, names: list[str], inbox: str | None, now: float
    ) -> Generator[Drop | Rejected, None, bool]:
        """Yield what these files hold; return whether all of them were finished."""
        settled = True
        for name in names:
            drop = self._read(f"{folder}/{name}", inbox, now)
            if drop is None:
                settled = False
            else:
                yield drop
        return settled

    def _read(self, path: str, inbox: str | None, now: float) -> Drop | Rejected | None:
        """Return one file: None while it may still be being written."""
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
                return Rejected(
                    path, f"it has {status.st_nlink} names (hard links); an entry has one"
                )
            if status.st_size == 0 and kinds.is_plan(path):
                return None  # somebody begins to write it
            if status.st_size > _LIMIT:
                return Rejected(
                    path, f"it has {status.st_size} bytes; an entry has at most {_LIMIT}"
                )
            raw = _read_unchanged(full, status)
        except OSError:
            return None  # gone, or not readable now: looked at again
        if raw is None:
            return None
        return self._parse(
            path, inbox, raw, Channel(inbox, status.st_uid, status.st_uid == self.owner)
        )

    def _parse(self, path: str, inbox: str | None, raw: bytes, channel: Channel) -> Drop | Rejected:
        from synapse.formats import codec

        folder = os.path.dirname(path)
        of, namespace, thread = kinds.of_folder(folder) if not inbox else ((), None, None)
        if (
            kinds.is_plan(path)
            and not inbox
            and (plain := _plain_plan(path, raw, namespace)) is not None
        ):
            self.plans.setdefault(path, 0)
            return Drop(path, channel, plain, raw.decode(), -1, plain=True)
        try:
            if namespace is not None and not (
                ns.is_namespace(namespace) if thread is None else kinds.is_thread(thread)
            ):
                raise InvalidEntry(
                    f"its folder is not a {'namespace' if thread is None else 'thread'}: {folder!r}"
                )
            parsed = codec.parse(raw, path=path, namespace=namespace)
            text = raw.decode()
            draft = threaded(parsed.draft, thread, text)
            if of and draft.kind not in of:
                raise InvalidEntry(f"{draft.kind} is no kind that stands in {folder}")
        except SynapseError as error:
            return Rejected(path, str(error).removeprefix(f"{path}: "))
        if kinds.is_plan(path) and draft.topic is None:
            draft = draft._replace(topic="plan")
        start = (
            parsed.start
            if canonical_body(text[parsed.start :]) == canonical_body(draft.body)
            else -1
        )
        return Drop(path, channel, draft, text, start)

    def _inboxes(self) -> Iterator[str]:
        try:
            names = os.listdir(os.path.join(self.root, "inbox"))
        except OSError:
            return
        yield from (name for name in sorted(names) if ns.is_component(name))

    def _changed(self, folder: str) -> int | None:
        try:
            status = os.lstat(f"{self.root}/{folder}")
        except OSError:
            self._gone(folder)
            return None
        if not stat.S_ISDIR(status.st_mode):
            self._gone(folder)
            return None
        return status.st_mtime_ns

    def _edited(self, path: str) -> int:
        """Return when a plan.md was changed last; 0 where it is gone, and is forgotten."""
        try:
            return os.lstat(f"{self.root}/{path}").st_ctime_ns
        except OSError:
            del self.plans[path]
            return 0  # and what nobody knows is no edit

    def _load(self) -> dict[str, int]:
        try:
            fd = plain_files.open_file(os.path.join(self.root, _SEEN))
            with open(fd, encoding="utf-8") as file:
                lines = (line.rstrip("\n").rpartition(" ") for line in file)
                places = {name: int(changed) for name, _, changed in lines}
                self.plans = {
                    path: changed for path, changed in places.items() if kinds.is_plan(path)
                }
                return {folder: changed for folder, changed in places.items() if _is_place(folder)}
        except (OSError, ValueError):
            return {}

    def _save(self) -> None:
        places = (item for item in self.seen.items() if _is_place(item[0]))
        pairs = [*places, *self.plans.items()]
        text = "".join(f"{folder} {changed}\n" for folder, changed in pairs)
        try:
            plain_files.replace_file(os.path.join(self.root, _SEEN), text.encode())
        except OSError:
            pass


def _plain_plan(path: str, raw: bytes, place: str | None) -> Draft | None:
    """Return the draft of a plan.md without front matter: whose it is, its owner says. None where
    it has some.
    """
    try:
        body = canonical_body(raw.decode().removeprefix("\ufeff"))
    except UnicodeDecodeError:
        return None
    if (
        not place
        or not ns.is_namespace(place)
        or not body
        or body.startswith("---")
        or "\0" in body
    ):
        return None
    return Draft(body, place, "", "important", topic="plan")


def threaded(draft: Draft, thread: str | None, text: str) -> Draft:
    """Return a dropped message with its thread: its folder's, its own, or, where it begins one, one
    that follows from its text. It is said in mail, wherever it was dropped.
    """
    if draft.kind != kinds.MESSAGE:
        return draft
    wanted_thread = draft.more.get("thread")
    if thread is not None and wanted_thread not in (None, thread):
        raise InvalidEntry(
            f"thread {wanted_thread} does not fit the place of the file, which is {thread}"
        )
    if not (wanted_thread or thread) and "parent" in draft.more:
        raise InvalidEntry("thread is missing: an answer names the thread that it is in")
    identity = thread or wanted_thread or kinds.new_thread(bytes.fromhex(sha256(text.encode())))
    return draft._replace(
        namespace=draft.namespace or kinds.MAIL, more=kinds.More({**draft.more, "thread": identity})
    )


def _is_place(folder: str) -> bool:
    """Return whether entries belong there. The name of any other folder is text that somebody else
    wrote.
    """
    return kinds.is_folder(folder)


def _is_thread(folder: str) -> bool:
    """Return whether a folder is one of thousands."""
    return folder.startswith("messages/")


def _is_folder(path: str) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False


def _read_unchanged(path: str, status: os.stat_result) -> bytes | None:
    """Return the bytes, if the file is still the one that was looked at and did not change while it
    was read.
    """
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
    kinds = (
        (stat.S_ISLNK, "symbolic link"),
        (stat.S_ISFIFO, "named pipe"),
        (stat.S_ISSOCK, "socket"),
    )
    return next((name for test, name in kinds if test(mode)), "device")
