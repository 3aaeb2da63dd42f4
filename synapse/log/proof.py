"""Proof: that the journal's chain holds, that every file is what its line says, and mending what
can be mended.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from functools import partial
from hashlib import sha256 as hash_of

from synapse.errors import InvalidQuery
from synapse.log.chain import decode, is_redacted, quoted, split
from synapse.log.damage import is_changed
from synapse.log.expected import ARCHIVED, GONE, LIVE, REDACTED, ExpectedFile, ExpectedFiles
from synapse.log.journal import Journal
from synapse.log.mirror import Mirror, block, pages, unplaced
from synapse.model.placement import GENESIS
from synapse.model.records import Record, filings, set_aside
from synapse.model.results import Problem, Report
from synapse.system.plain_files import open_file

_VOIDABLE = 100  # so many acts later none is taken back
_HEAD = re.compile("[0-9]+:[0-9a-f]{64}")


class Proof:
    """One walk along the journal, then one through the tree."""

    def __init__(self, root: str, journal: Journal, mirror: Mirror) -> None:
        self.root = root
        self.journal = journal
        self.accepted = journal.accepted  # what does not count has no files, and no effect
        self.mirror = mirror
        self.problems: list[Problem] = []
        self.chain = GENESIS
        self.seq = self.at = 0
        self.torn: list[bytes] = []
        self.expected = ExpectedFiles()
        # states before the last acts
        self.before: dict[int, list[tuple[str, int]]] = {}
        self.paged: set[str] = set()
        self.place = (0, 0)  # where the line begins
        self.placed: list[tuple[tuple[int, int], Problem]] = []  # what is wrong where
        self.blank: dict[str, str] = {}  # entries without their text: its digest
        self.redacted: set[tuple[str, str]] = set()  # what was redacted, by its record
        self.keyed = False  # whether an entry says of itself that it is signed
        self.given_up: set[tuple[int, int, str]] = set()
        self.aside: dict[int, Problem] = {}  # of each record that is none of its kind
        # paths of files and pages that are not as expected
        self.wrong: set[str] = set()

    def run(self, head: str | None = None) -> Report:
        """Return a report of everything that is wrong, the first bad record first. `head` is the
        end of an earlier report.
        """
        if head and not _HEAD.fullmatch(head):
            raise InvalidQuery(
                f"head {head!r} is none: it is the number and the hash that `verify`"
                f" ends with, N:HASH"
            )
        heads = {head} - {f"0:{GENESIS}"} if head else set()
        for number, raw in enumerate(self._lines(), 1):
            self._line(number, raw)
            heads.discard(f"{self.seq}:{self.chain}")
        if self.journal.view is not None:
            self._found("journal", "holds two histories: `synapse merge` makes them one")
        for pages_left in heads:
            self._found(
                "journal",
                (
                    f"does not hold the record {pages_left[:24]}… that was its head before: it"
                    f" was cut or rewritten"
                ),
            )
        if self.torn and is_changed(b"".join(self.torn)):
            self._found("journal", "ends in a line whose bytes were changed")
        elif self.torn:
            self._found("journal", "ends in a torn line; the next write seals it", mendable=True)
        if self.given_up:
            self._give_up()
        self._redacted()
        self._tree()
        return Report(tuple(self.problems), self.seq, f"{self.seq}:{self.chain}")

    def _give_up(self) -> None:
        """Report no line that a `repair` record gives up, as long as its bytes are those that were
        given up.
        """
        for stretch in self.journal.stretches():
            first, last = stretch.seqs.start, stretch.seqs.stop - 1
            if (first, last, hash_of(stretch.raw).hexdigest()) in self.given_up:
                start = (stretch.segment, stretch.start)
                end = (stretch.segment, stretch.start + len(stretch.raw))
                own = {id(problem) for at, problem in self.placed if start <= at <= end}
                self.problems = [problem for problem in self.problems if id(problem) not in own]

    def _redacted(self) -> None:
        """Compare the texts that are not there with the acts that took them out."""
        for id, sha in self.blank.items():
            if (id, sha) not in self.redacted:
                self._found(id, "its text is missing, and nobody redacted it")
        for id, sha in sorted(self.redacted):
            if self.blank.get(id) != sha:
                why = "was redacted, and its text is still there: redact it again"
                self._found(id, why)

    def watch(self, records: Iterable[Record]) -> None:
        """Take in what somebody else reads along the journal."""
        for record in records:
            self._state(record)

    def stands(self) -> bool:
        """Return whether every file is what the records say that came by."""
        self._tree()
        return not self.problems

    def _found(self, where: str, what: str, mendable: bool = False) -> None:
        self.problems.append(Problem(where, what, mendable))

    # -- the journal -------------------------------------------------------------------------------

    def _lines(self) -> Iterator[bytes]:
        if self.journal.view is not None:
            yield from self.journal.lines()
            return
        for start in self.journal._list():
            if start != self.seq + 1:
                self._found(
                    "journal", f"segment {start:012d}.jsonl does not follow record {self.seq}"
                )
            offset = 0
            with open(open_file(self.journal._path(start)), "rb") as file:
                for raw in file:
                    self.place = (start, offset)
                    yield raw
                    offset += len(raw)

    def _line(self, number: int, raw: bytes) -> None:
        record = decode(raw) if raw.endswith(b"\n") else None
        if record is None:
            self.torn.append(raw)
            return
        chain, head, text = split(raw)
        if self.torn:
            self._sealed(record)
        problem = self._wrong(record, raw, chain, head, text)
        if problem:
            self._found(
                f"record {record.seq} ({record.id or record.kind})",
                f"{problem} (line {number} of the journal)",
            )
            self.placed.append((self.place, self.problems[-1]))
        elif why := set_aside(record):
            where = f"record {record.seq} ({record.kind})"
            self._found(where, f"{why} (line {number} of the journal)")
            self.aside[record.seq] = self.problems[-1]
        elif why := unplaced(record):
            # its line is as it was written: no other takes its place
            self._found(f"record {record.seq} ({record.id or record.kind})", why)
        elif self.accepted is None or self.accepted.takes(raw, record):
            self._state(record)
        self.seq, self.chain, self.at = record.seq, chain, record.at

    def _wrong(
        self, record: Record, raw: bytes, chain: str, head: bytes, text: bytes
    ) -> str | None:
        if record.seq != self.seq + 1:
            return f"stands after record {self.seq}: lines are missing, doubled or out of order"
        if hash_of(self.chain.encode() + head).hexdigest() != chain:
            return "does not follow from the line before it: it, or its chain, was changed"
        if not (raw.startswith(b'{"chain":"') and raw[74:76] == b'",' and raw.endswith(b"}\n")):
            return "is not written as a line is: its bytes were changed"
        if record.sha is not None and record.text is not None:
            if (
                hash_of(record.text.encode()).hexdigest() != record.sha
                or quoted(record.text) != text
            ):
                return "its text is not the one that was written"
        elif record.sha is not None and is_redacted(raw):
            self.blank[record.id or ""] = record.sha
        elif (record.sha is None) != (record.text is None):
            return "its text is missing, or was added"
        return None

    def _sealed(self, record: Record) -> None:
        torn = b"".join(self.torn)
        sha = hash_of(torn).hexdigest()
        if (
            record.kind != "seal"
            or record.fields.get("bytes") != len(torn)
            or record.fields.get("sha") != sha
        ):
            self._found(
                f"the line before record {record.seq}",
                "cannot be read, and no seal names it: its bytes were changed",
            )
            self.placed.append((self.place, self.problems[-1]))
        self.torn = []

    def _state(self, record: Record) -> None:
        """Note where files should be after this record."""
        fields = record.fields
        if record.kind == "entry" and record.id:
            self.expected.add(record)
            self.keyed = self.keyed or fields.get("trust") == "keyed"
        elif record.kind in ("approve", "reject"):
            state = LIVE if record.kind == "approve" else GONE
            self._move(record.seq, [(str(fields.get("entry")), state)])
        elif moved := filings(record):
            states = [(id, ARCHIVED if away else LIVE) for id, away in moved]
            self._move(record.seq, states)
        elif record.kind == "repair":
            for seq in fields.get("aside", ()):
                problem = self.aside.pop(seq, None)
                self.problems = [other for other in self.problems if other is not problem]
            lines = fields.get("lines", ())
            self.given_up |= {(first, last, sha) for first, last, sha in lines}
            self._move(record.seq, [(id, GONE) for id in fields.get("lost", ())])
        elif record.kind == "redact":
            self.redacted.add((str(fields.get("entry")), str(fields.get("sha"))))
            self.expected.move(str(fields.get("entry")), REDACTED)
        elif record.kind == "void":
            self.expected.remove(fields["seq"])
            for id, state in self.before.pop(fields["seq"], ()):
                self.expected.move(id, state)

    def _move(self, seq: int, states: list[tuple[str, int]]) -> None:
        """Note the states of files after an act, and for a while those before it: its void, which
        follows at once, takes it back.
        """
        ids = {id for id, _ in states}
        self.before[seq] = [(id, self.expected.state(id)) for id in ids]
        if len(self.before) > _VOIDABLE:
            del self.before[next(iter(self.before))]
        for id, state in states:
            page = self.expected.move(id, state)
            if state == ARCHIVED and page:
                self.paged.add(page)

    # -- the tree ----------------------------------------------------------------------------------

    def _tree(self) -> None:
        archived: dict[str, list[ExpectedFile]] = {page: [] for page in self.paged}
        for file in self.expected:
            if file.state == ARCHIVED:
                archived.setdefault(file.page, []).append(file)
            else:
                self._file(file)
        for page, files in archived.items():
            self._page(page, files)
        for file in self.expected.redacted():
            self._redacted_file(file)

    def _redacted_file(self, file: ExpectedFile) -> None:
        paths = [path for path in {file.live, file.staged} if self.mirror.exists(path)]
        raw = self.mirror.read(file.page, limit=1 << 40) or b""
        if file.id.encode() in raw and any(page.id == file.id for page in pages(raw)):
            paths.append(file.page)
        for path in paths:
            self._found(path, f"holds {file.id}, which was redacted: redact it again")

    def _file(self, file: ExpectedFile) -> None:
        raw = self.mirror.read(file.path)
        if raw is None:
            self._differs(file.path, "is missing, or is no file")
        elif hash_of(raw).digest() != file.sha:
            self._differs(file.path, "was changed after it was written")

    def _page(self, path: str, files: list[ExpectedFile]) -> None:
        raw = self.mirror.read(path, limit=1 << 40)
        if raw is None:
            if files:
                self._differs(path, "is missing")
            return
        whole_by_id = {page.id: page.whole for page in pages(raw)}
        for file in files:
            if not whole_by_id.get(file.id):
                problem = "was changed" if file.id in whole_by_id else "is missing"
                self._differs(path, f"{file.id} {problem}")
        # an archive page is blocks and nothing else
        expected = b"".join(block(page.id, page.text) for page in pages(raw))
        if expected != raw:
            self._differs(path, "has bytes between or after its entries that do not belong there")

    def _differs(self, path: str, problem: str) -> None:
        self.wrong.add(path)
        self._found(path, problem, mendable=True)

    def texts(self, files: Iterable[ExpectedFile]) -> dict[str, bytes]:
        """Return the text of each of these entries, by id, from a second walk along the journal."""
        hashes = {file.id: file.sha for file in files}
        texts: dict[str, bytes] = {}
        for raw in self.journal.lines() if hashes else ():
            record = decode(raw)
            if record is None or record.kind != "entry" or record.text is None:
                continue
            text = record.text.encode()
            if record.id in hashes and hash_of(text).digest() == hashes[record.id]:
                texts[record.id] = text
        return texts


def mend(proof: Proof) -> tuple[list[str], list[str]]:
    """Put every file back as its line says; the ids whose files were put back, and those that could
    not be.
    """
    restored: list[str] = []
    lost: list[str] = []
    archived: dict[str, list[ExpectedFile]] = {
        page: [] for page in sorted(proof.paged & proof.wrong)
    }
    files: list[ExpectedFile] = []
    for file in proof.expected:
        if file.state != ARCHIVED and file.path in proof.wrong:
            files.append(file)
        elif file.state == ARCHIVED and file.page in proof.wrong:
            archived.setdefault(file.page, []).append(file)
    texts = proof.texts([*files, *(file for page in archived.values() for file in page)])
    for file in files:
        text = texts.get(file.id)
        if text is None:
            lost.append(file.id)
        elif proof.mirror.read(file.path) != text:
            _replace(proof.mirror, file.path, text, file.id, restored, lost)
    for path, members in archived.items():
        own = {file.id: texts[file.id] for file in members if file.id in texts}
        proof.mirror.alone(partial(_repair_page, proof.mirror, path, own, restored, lost))
    return restored, lost


def _repair_page(
    mirror: Mirror, path: str, texts: dict[str, bytes], put: list[str], lost: list[str]
) -> None:
    """Write a page anew, with what came to it since it was proven. Whoever files entries away
    waits.
    """
    raw = mirror.read(path, limit=1 << 40)
    old = {page.id: page for page in pages(raw or b"")}
    later = [page for page in old.values() if page.whole and page.id not in texts]
    text = b"".join(block(page.id, page.text) for page in later)
    text += b"".join(block(id, entry) for id, entry in texts.items())
    if raw != text and (raw or text):
        _replace(mirror, path, text, path, put, lost)


def _replace(
    mirror: Mirror, path: str, text: bytes, name: str, put: list[str], lost: list[str]
) -> None:
    try:
        if os.path.isdir(os.path.join(mirror.root, path)):
            raise IsADirectoryError(path)
        mirror.place(path, text, replace=True)
        put.append(name)
    except OSError:
        lost.append(name)
