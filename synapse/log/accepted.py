"""Which lines of a journal count: those that were written here or by this person, and those that
the person accepted. All others are foreign, however they came.

A line is known by its imprint, a digest of its chain and its fields, wherever it lies: a copy, a
branch that is checked out and a restored snapshot hold lines that are known. Two files hold
imprints, 16 bytes each. One lies in the person's folder, named by the first line of the journal.
The other, `.index/own`, says what was written at this place, by other users of the machine and from
containers too; it is believed where it begins with inode and time of the file beside it
(`.index/place`), which differ in whatever is handed over. The person's file says besides which
authors are accepted for what is to come. The journal asks here; nothing else decides this.
"""

from __future__ import annotations

import json
import os
import sys
from _thread import RLock
from collections.abc import Callable, Collection, Iterable, Mapping

from synapse.errors import StoreError, SynapseError
from synapse.log import git
from synapse.log.begun import Begun
from synapse.log.chain import decode, imprint, is_whole, seq_of
from synapse.log.damage import has_text
from synapse.log.imprints import END, SIZE, Imprints
from synapse.log.progress import boot
from synapse.model.agents import OPERATOR
from synapse.model.entry import SEALED
from synapse.model.records import Record, entry_of
from synapse.system import home
from synapse.system.digest import blake2b
from synapse.system.plain_files import open_file, read_file, replace_file
from synapse.system.typed import Any, NamedTuple, TypeAlias

FOREIGN_WORKSPACE = (
    "this workspace came from elsewhere, and nobody accepted its text: `synapse trust --text` shows"
    " what it says, and asks"
)
# by these the operator acts: they are accepted one by one, never for what is to come
RULES = frozenset(("agent", "settings", "key", "redact", "repair"))
# besides the templates in `prompts/`: who takes part, with which engine and what it is told
INSTRUCTIONS = ("team.yaml",)
WAITING_FILE = (
    "it was written elsewhere, and what it says waits: `synapse trust --text` shows it, and asks"
)
KeyFields: TypeAlias = Mapping[str, Any]  # a public key, as its record has it
_OWN, _PLACE, _INDEX = ".index/own", ".index/place", ".index/brain.db"


class Decision(NamedTuple):
    """The authors that a person accepted for what is to come, and the public keys, by their ids."""

    authors: frozenset[str] = frozenset()
    keys: Mapping[str, KeyFields] = {}


class Accepted:
    """The imprints of one workspace's journal that are known to this user."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.imprints: set[bytes] = set()
        self.first = b""  # the imprint of the first line, where there is one
        self.name = ""  # of the person's file, which it has from that
        self.own: Imprints | None = None
        self.person: Imprints | None = None
        self._known = False
        self.mutex = RLock()
        self._reopen()

    @property
    def placed(self) -> bool:
        """Say whether what lies in `.index` was made at this place."""
        return self.own is not None

    @property
    def known(self) -> bool:
        """Say whether anything of the journal counts, or there is nothing yet: its first line is
        known, or the person decided about it.
        """
        if not self._known:
            first = self._first()
            if not first:
                return True  # which may change with the next line
            counts = self._begins(first) or self.holds(first) or self._decision() is not None
            self._known = counts or (not self.placed and bool(self._seen_before()))
        return self._known

    def settle(
        self, alone: Callable[[Callable[[], None]], None], lines: Callable[[], Iterable[bytes]]
    ) -> None:
        """Note that this is where the workspace lies, if that is not noted yet. `alone` runs a
        section under the lock of the journal; `lines` are those of the journal, asked for only
        where an index of an older version was made here.
        """
        if not self.placed:
            alone(lambda: self._settle(lines))

    # -- lines -------------------------------------------------------------------------------------

    def note(self, raw: bytes) -> None:
        """Note a line that is about to be written here. StoreError where neither file takes it, or
        the person's has no room for it: the line would be foreign to who opens the workspace next,
        or without the other file.
        """
        with self.mutex:
            mark = imprint(raw)
            self._name(mark)
            if not self.add((mark,)) or (self.person is not None and self.person.full):
                raise StoreError(
                    "nothing was written: neither .index/own nor the folder of this person takes"
                    " the note that it was written here"
                )

    def add(self, imprints: Collection[bytes], strict: bool = False) -> bool:
        """Note that lines count, and return whether one of the files has it. What cannot be kept in
        one stands in the other; a `strict` caller needs the person's.
        """
        with self.mutex:
            self.imprints.update(imprints)
            raw = b"".join(imprints)
            placed = self.own is not None and self.own.add(raw)
            self._name()
            stored = self.person is not None and self.person.add(raw)
        if strict and raw and not stored:
            folder = os.path.join(home.operator_home(), "journals")
            raise StoreError(f"{folder} cannot be written, so nothing was accepted")
        return placed or stored

    def takes(self, raw: bytes, record: Record) -> bool:
        """Return whether a line counts. One of an author that is accepted for what comes is noted
        as such.
        """
        mark = imprint(raw)
        if self.holds(mark):
            return True
        if not self._believed(raw, record):
            return False
        self.add((mark,))
        return True

    def holds(self, mark: bytes) -> bool:
        """Return whether an imprint is known; the files are read as far as that needs."""
        if mark in self.imprints:
            return True
        with self.mutex:
            self._name()
            files = [file for file in (self.own, self.person) if file is not None]
            for whole in (False, True):
                for file in files:
                    if file.read(self.imprints, whole) and mark in self.imprints:
                        return True
        return mark in self.imprints

    def holds_file(self, path: str, raw: bytes) -> bool:
        """Return whether a file of the operator's, or one that was dropped, is known as it is."""
        return self.holds(_of_file(path, raw))

    def note_file(self, path: str, raw: bytes) -> None:
        """Note that a file counts as it is."""
        mark = _of_file(path, raw)
        if not self.holds(mark):
            self.add((mark,))

    def takes_file(self, path: str, raw: bytes, note: bool = True) -> bool:
        """Return whether a file counts as it is: it is known, or a person wrote it here and git did
        not bring it. It is noted then.
        """
        if self.holds_file(path, raw):
            return True
        if not self.known or git.brought(self.root, {path: raw}):
            return False
        if note:
            self.note_file(path, raw)
        return True

    def forget(self) -> None:
        """Look at the beginning of the journal again: its files are others."""
        self.first, self.name, self._known = b"", "", False

    def close(self) -> None:
        """Close the files. Idempotent."""
        for file in (self.own, self.person):
            if file is not None:
                file.close()

    # -- what the person decided -------------------------------------------------------------------

    @property
    def decision(self) -> Decision:
        """Return whom the person accepted for what is to come."""
        return self._decision() or Decision()

    def accept(
        self,
        imprints: Collection[bytes],
        authors: Iterable[str],
        keys: Iterable[KeyFields] = (),
        ended: Collection[str] = (),
    ) -> None:
        """Note that these count, and these authors and keys for what is to come; keys that are
        `ended` prove nothing from then on, and their owner's name alone still does not.
        """
        self.add(imprints, strict=True)
        before = self.decision
        names = before.authors | {*authors} - {OPERATOR}
        by_id = {**before.keys, **{key["id"]: dict(key) for key in keys}}
        by_id |= {id: {**by_id[id], "ended": True} for id in ended if id in by_id}
        text = json.dumps({"authors": sorted(names), "keys": by_id})
        home.write(self._decisions(), f"{text}\n".encode())
        self._known = False

    def accept_all(self, lines: Iterable[bytes]) -> None:
        """Note that these count, which are to be the whole journal."""
        imprints = list(map(imprint, lines))
        if imprints:
            with self.mutex:
                self._name(imprints[0])
                self.add(imprints, strict=True)

    def _decisions(self) -> str:
        self._name()
        return f"journals/{self.name}.json"

    def _decision(self) -> Decision | None:
        """Return what the person decided; None where nothing was."""
        self._name()
        raw = home.read(self._decisions()) if self.name else None
        try:
            if raw is None:
                return None
            got = json.loads(raw)
            return Decision(frozenset(got["authors"]), dict(got.get("keys", {})))
        except (ValueError, TypeError, KeyError):
            return None

    def _believed(self, raw: bytes, record: Record) -> bool:
        """Return whether a record is by an author who is accepted for what comes, and by none of
        the rules by which the operator acts. Of one with an accepted key, only what it signed is.
        """
        if record.kind in RULES:
            return False
        authors, keys = self.decision
        names = {record.by, record.fields.get("author", record.by)}
        own = [key for key in keys.values() if key["owner"] in names]
        if not own:
            return names <= authors
        whole = decode(raw) or record  # it may have come without its text
        return any(is_signed(whole, key) for key in own if "ended" not in key)

    # -- the files ---------------------------------------------------------------------------------

    def _begins(self, first: bytes) -> bool:
        """Return whether the first line is among the first imprints of a file: every command asks,
        and reads no more.
        """
        with self.mutex:
            self._name()
            files = [file for file in (self.own, self.person) if file is not None]
            return any(file.begins(first) for file in files)

    def _first(self) -> bytes:
        """Return the imprint of the first line; empty where there is none."""
        if not self.first:
            try:
                start = min(self._segments(), default="")
                self.first = _first_of(start) if start else b""
            except FileNotFoundError:
                pass
            except OSError as error:
                raise StoreError(f"the journal could not be read: {error}") from error
        return self.first

    def _segments(self) -> list[str]:
        """Return the paths of the journal's files."""
        folder = os.path.join(self.root, "journal")
        names = os.listdir(folder) if os.path.isdir(folder) else []
        return [
            os.path.join(folder, name)
            for name in names
            if name.endswith(".jsonl") and name[:-6].isdigit()
        ]

    def _name(self, first: bytes = b"") -> None:
        """Find the person's file, by the first line of the journal or the one that becomes it."""
        if self.name:
            return
        self.name = (self._first() or first).hex()
        if self.name:
            if self.person is not None:
                self.person.close()
            self.person = _persons(self.name)
            if not self.first and self.own is not None:
                self._carry_over()

    def _carry_over(self) -> None:
        """Keep with the person's what this place knew before there was a line."""
        early = set[bytes]()
        if self.person is not None and self.own is not None and not self.person.read_at(1, 0):
            self.own.read(early, True)
            if early and len(early) * SIZE <= END:
                self.person.add(b"".join(early))

    def _reopen(self) -> None:
        """Open what was noted at this place, if it was."""
        witness = _witness(self.root)
        path = os.path.join(self.root, _OWN)
        file = Imprints(path, start=SIZE)
        self.own = file if witness and file.read_at(SIZE, 0) == witness else None
        if self.own is None:
            file.close()

    def _settle(self, lines: Callable[[], Iterable[bytes]]) -> None:
        self._reopen()
        if self.placed:
            return  # another process was faster
        before = self._seen_before()
        raws = lines() if before or self._segments() else ()  # to read an empty one would make it
        marks = ((seq_of(raw), imprint(raw)) for raw in raws)
        imprints = [mark for seq, mark in marks if 0 < seq <= before or self.holds(mark)]
        if before:
            imprints += self._files()
        else:
            for end in ("", "-wal", "-shm", "-journal"):
                _remove(os.path.join(self.root, _INDEX + end))
            for name in Begun(self.root).names():  # by whoever handed it over
                _remove(os.path.join(self.root, ".index", "begun", name))
        try:
            os.makedirs(os.path.join(self.root, ".index"), 0o700, exist_ok=True)
            path = os.path.join(self.root, _PLACE)
            _remove(path)
            mode = os.stat(os.path.dirname(path)).st_mode & 0o644
            os.close(open_file(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode))
            raw = _witness(self.root) + b"".join(imprints)
            replace_file(os.path.join(self.root, _OWN), raw, mode)
        except OSError:
            return  # the person's file says enough for this user
        self._reopen()
        if imprints:
            self.add(imprints)

    def _files(self) -> list[bytes]:
        """Return the imprints of the operator's files as they are."""
        paths = ["synapse.yaml", *INSTRUCTIONS, *listed(self.root, "agents")]
        imprints = []
        for path in (*paths, *listed(self.root, "prompts")):
            try:
                imprints.append(_of_file(path, read_file(os.path.join(self.root, path))))
            except OSError:
                continue
        return imprints

    def _seen_before(self) -> int:
        """Return how many records an index of a version that kept no imprints had taken in here: it
        names this run of the machine, which nobody elsewhere knows.
        """
        path = os.path.join(self.root, _INDEX)
        if os.path.lexists(os.path.join(self.root, _OWN)) or not os.path.isfile(path):
            return 0
        import sqlite3

        try:
            with open(open_file(path), "rb"):  # no link is followed
                connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=1)
            try:
                rows = dict(connection.execute("select key, value from meta"))
            finally:
                connection.close()
            current = json.loads(rows["reached"])[3] == boot() != "-"
            # an index may be behind: only git could have brought what it has not seen
            count = int(rows["seq"]) if git.is_work_tree(self.root) else sys.maxsize
            return count if current else 0
        except (sqlite3.Error, OSError, ValueError, KeyError, IndexError, TypeError):
            return 0


def is_signed(record: Record, key: KeyFields) -> bool:
    """Return whether a record is an entry that the owner of this public key wrote and signed with
    it. Nothing is where the package that tells is not installed.
    """
    if record.kind != "entry" or not has_text(record):
        return False
    if {record.by, record.fields.get("author", record.by)} != {key["owner"]}:
        return False
    from synapse import crypto

    entry = entry_of(record)
    try:
        public, header = crypto.from_fields(key), crypto.header(entry)
        if entry.scope in SEALED:
            crypto.check(entry.body, header, public)
        else:
            crypto.verify(entry.signature or "", entry.body, header, public)
    except (SynapseError, ValueError, KeyError, TypeError):
        return False
    return True


def listed(root: str, folder: str) -> list[str]:
    """Return the paths of what lies in a folder of a workspace."""
    try:
        return [f"{folder}/{name}" for name in sorted(os.listdir(os.path.join(root, folder)))]
    except OSError:
        return []


def counts(root: str, path: str, raw: bytes) -> bool:
    """Return whether a file of a workspace that tells agents what to do counts as it is. That of no
    workspace is whose program names it.
    """
    if not os.path.isdir(os.path.join(root, "journal")):
        return True
    accepted = Accepted(root)
    try:
        return accepted.takes_file(path, raw)
    finally:
        accepted.close()


def persons_own(lines: Iterable[bytes]) -> list[bytes]:
    """Return the imprints of those of these lines that the person wrote or accepted, in whichever
    workspace: they are another one's, or a snapshot's or an export's.
    """
    imprints = [imprint(raw) for raw in lines if is_whole(raw)]
    marks = set[bytes]()
    if imprints:
        file = _persons(imprints[0].hex())
        file.read(marks, whole=True)
        file.close()
    return [mark for mark in imprints if mark in marks]


def _persons(name: str) -> Imprints:
    return Imprints(os.path.join(home.operator_home(), "journals", name), persons=True)


def _witness(root: str) -> bytes:
    """Return inode and time of the file that says where a workspace lies. Who hands over a
    repository chooses neither; who hands over an archive, the time alone.
    """
    try:
        status = os.lstat(os.path.join(root, _PLACE))
    except OSError:
        return b""
    number = status.st_ino & (1 << 64) - 1
    return number.to_bytes(8, "big") + (status.st_mtime_ns & (1 << 64) - 1).to_bytes(8, "big")


def _first_of(path: str) -> bytes:
    """Return the imprint of the first whole line of a file."""
    with open(open_file(path), "rb") as file:
        return next((imprint(raw) for raw in file if raw.endswith(b"\n") and seq_of(raw)), b"")


def _of_file(path: str, raw: bytes) -> bytes:
    text = b"file\0%b\0%b" % (path.encode("utf-8", "surrogateescape"), raw)
    return blake2b(text, digest_size=SIZE).digest()


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass
