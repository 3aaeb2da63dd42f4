"""Proof: that the journal's chain holds, that every file is what its line says, and mending what
can be mended.
"""

from __future__ import annotations

import hashlib  # noqa: F401  # from here on `digest` takes OpenSSL's, three times as fast on a journal
import os
import re
from collections.abc import Iterable, Iterator
from functools import partial

from synapse.errors import InvalidQuery
from synapse.log.chain import GENESIS, decode, link, split
from synapse.log.journal import Journal
from synapse.log.mirror import Mirror, block, pages, path_of
from synapse.log.settle import live_path, page_path
from synapse.model.records import Record, filings
from synapse.model.results import Problem, Report
from synapse.system.digest import sha256
from synapse.system.json import dumps

_PLACE = (
    "namespace",
    "staged",
    "kind",
    "more",
)  # what says where an entry's file stands
_HEAD = re.compile("[0-9]+:[0-9a-f]{64}")


class Proof:
    """One walk along the journal, then one through the tree."""

    def __init__(self, root: str, journal: Journal, mirror: Mirror) -> None:
        self.root = root
        self.journal = journal
        self.mirror = mirror
        self.problems: list[Problem] = []
        self.chain = GENESIS
        self.seq = self.at = 0
        self.torn: list[bytes] = []
        self.places: dict[str, tuple[Record, str]] = {}
        self.paged: set[str] = set()

    def run(self, head: str | None = None) -> Report:
        """Everything that is wrong, the first bad record first. `head` is what an earlier report
        ended with.
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
            self._found(
                "journal", "holds two histories: `synapse merge` makes them one"
            )
        for pages_left in heads:
            self._found(
                "journal",
                (
                    f"does not hold the record {pages_left[:24]}… that was its head before: it"
                    f" was cut or rewritten"
                ),
            )
        if self.torn:
            self._found(
                "journal", "ends in a torn line; the next write seals it", mendable=True
            )
        self._tree()
        return Report(tuple(self.problems), self.seq, f"{self.seq}:{self.chain}")

    def watch(self, records: Iterable[Record]) -> None:
        """Take in what somebody else reads along the journal. Of an entry only its place and its
        hash are kept.
        """
        for record in records:
            if record.kind == "entry":
                fields = {
                    name: record.fields[name]
                    for name in _PLACE
                    if name in record.fields
                }
                record = record._replace(text=None, fields=fields)
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
                    "journal",
                    f"segment {start:012d}.jsonl does not follow record {self.seq}",
                )
            with open(self.journal._path(start), "rb") as file:
                yield from file

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
        else:
            self._state(record)
        self.seq, self.chain, self.at = record.seq, chain, record.at

    def _wrong(
        self, record: Record, raw: bytes, chain: str, head: bytes, text: bytes
    ) -> str | None:
        if record.seq != self.seq + 1:
            return f"stands after record {self.seq}: lines are missing, doubled or out of order"
        if link(self.chain, head) != chain:
            return (
                "does not follow from the line before it: it, or its chain, was changed"
            )
        if (
            raw
            != b'{"chain":"'
            + chain.encode()
            + b'",'
            + head
            + (b',"text":' + text if text else b"")
            + b"}\n"
        ):
            return "is not written as a line is: its bytes were changed"
        if record.sha is not None and record.text is not None:
            if (
                sha256(record.text.encode()) != record.sha
                or dumps(record.text).encode() != text
            ):
                return "its text is not the one that was written"
        elif (record.sha is None) != (record.text is None):
            return "its text is missing, or was added"
        return None

    def _sealed(self, record: Record) -> None:
        torn = b"".join(self.torn)
        sha = sha256(torn)
        if (
            record.kind != "seal"
            or record.fields.get("bytes") != len(torn)
            or record.fields.get("sha") != sha
        ):
            self._found(
                f"the line before record {record.seq}",
                "cannot be read, and no seal names it: its bytes were changed",
            )
        self.torn = []

    def _state(self, record: Record) -> None:
        """Return where the files should be after this record."""
        fields = record.fields
        if record.kind == "entry" and record.id:
            self.places[record.id] = (
                record,
                "staged" if fields.get("staged") else "live",
            )
        elif record.kind in ("approve", "reject"):
            self._becomes(
                fields.get("entry"), "live" if record.kind == "approve" else "gone"
            )
        elif moved := filings(record):
            for id, away in moved:
                self._becomes(id, "archived" if away else "live")
        elif record.kind == "repair":
            for id in fields.get("lost", ()):
                self._becomes(id, "gone")
        elif record.kind == "void":
            self.places = {
                id: place
                for id, place in self.places.items()
                if place[0].seq != fields["seq"]
            }

    def _becomes(self, id: str | None, state: str) -> None:
        if id in self.places:
            record, _ = self.places[id]
            self.places[id] = (record, state)
            if state == "archived":
                self.paged.add(page_path(record))

    # -- the tree ----------------------------------------------------------------------------------

    def _tree(self) -> None:
        archived: dict[str, list[Record]] = {page: [] for page in self.paged}
        for record, state in self.places.values():
            if state == "archived":
                archived.setdefault(page_path(record), []).append(record)
            elif state != "gone":
                self._file(
                    record, live_path(record) if state == "live" else path_of(record)
                )
        for page, records in archived.items():
            self._page(page, records)

    def _file(self, record: Record, path: str) -> None:
        raw = self.mirror.read(path)
        if raw is None:
            self._found(path, "is missing, or is no file", mendable=True)
        elif sha256(raw) != record.sha:
            self._found(path, "was changed after it was written", mendable=True)

    def _page(self, path: str, records: list[Record]) -> None:
        raw = self.mirror.read(path, limit=1 << 40)
        if raw is None:
            if records:
                self._found(path, "is missing", mendable=True)
            return
        whole_by_id = {page.id: page.whole for page in pages(raw)}
        for record in records:
            if not whole_by_id.get(record.id or ""):
                problem = "was changed" if record.id in whole_by_id else "is missing"
                self._found(path, f"{record.id} {problem}", mendable=True)
        self._between(path, raw)

    def _between(self, path: str, raw: bytes) -> None:
        """An archive page is blocks and nothing else."""
        expected = b"".join(block(page.id, page.text) for page in pages(raw))
        if expected != raw:
            self._found(
                path,
                "has bytes between or after its entries that do not belong there",
                mendable=True,
            )


def mend(proof: Proof) -> tuple[list[str], list[str]]:
    """Put every file back as its line says; the ids whose files were put back, and those that could
    not be.
    """
    restored: list[str] = []
    lost: list[str] = []
    archived: dict[str, list[Record]] = {page: [] for page in proof.paged}
    for id, (record, state) in proof.places.items():
        if state == "archived":
            archived.setdefault(page_path(record), []).append(record)
        elif state != "gone":
            path = live_path(record) if state == "live" else path_of(record)
            text = (record.text or "").encode()
            if proof.mirror.read(path) != text:
                _replace(proof.mirror, path, text, id, restored, lost)
    for path, records in archived.items():
        proof.mirror.alone(
            partial(_repair_page, proof.mirror, path, records, restored, lost)
        )
    return restored, lost


def _repair_page(
    mirror: Mirror, path: str, records: list[Record], put: list[str], lost: list[str]
) -> None:
    """Write a page anew, with what came to it since it was proven. Whoever files entries away
    waits.
    """
    text = b"".join(
        block(record.id or "", (record.text or "").encode()) for record in records
    )
    raw = mirror.read(path, limit=1 << 40)
    old, ids = (
        {page.id: page for page in pages(raw or b"")},
        {record.id for record in records},
    )
    pages_left = [page for page in old.values() if page.whole and page.id not in ids]
    text = b"".join(block(page.id, page.text) for page in pages_left) + text
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
