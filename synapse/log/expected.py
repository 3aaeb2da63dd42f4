"""The files that the journal asks for: of each entry the place, the hash and the state of its file,
in about 200 bytes. `proof` fills it on its way along the journal and compares the tree with it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from synapse.log.mirror import live_path, path_of
from synapse.log.settle import page_path
from synapse.model.records import Record
from synapse.system.typed import NamedTuple

LIVE, STAGED, ARCHIVED, GONE, REDACTED = range(5)
_ROW = struct.Struct(">QIIB32s")


class ExpectedFile(NamedTuple):
    """The file of one entry: where it is live, where it is staged, and its page in the archive."""

    id: str
    seq: int
    state: int
    sha: bytes
    live: str
    staged: str
    page: str

    @property
    def path(self) -> str:
        return self.staged if self.state == STAGED else self.live


class ExpectedFiles:
    """Entries by id. Folders and pages are few, and each is kept once."""

    def __init__(self) -> None:
        self._rows: dict[str, bytes] = {}
        self._folders = _Numbered()
        self._pages = _Numbered()

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[ExpectedFile]:
        """Yield every entry that has a file or a place in an archive page, in the journal's
        order.
        """
        for id, row in self._rows.items():
            if row[16] not in (GONE, REDACTED):
                yield self._file(id, row)

    def redacted(self) -> Iterator[ExpectedFile]:
        """Yield every entry whose text was taken out: it has no file, whatever becomes of it."""
        return (self._file(id, row) for id, row in self._rows.items() if row[16] == REDACTED)

    def add(self, record: Record) -> None:
        id, state = record.id or "", STAGED if record.fields.get("staged") else LIVE
        live = staged = _prefix(live_path(record), id)
        if state == STAGED:
            staged = _prefix(path_of(record), id)
        folder = self._folders.number((live, staged))
        page = self._pages.number((page_path(record),))
        sha = bytes.fromhex(record.sha or "")
        self._rows[id] = _ROW.pack(record.seq, folder, page, state, sha)

    def move(self, id: str | None, state: int) -> str | None:
        """Note the state of an entry's file; return the entry's page in the archive, None for an
        entry that is not known.
        """
        row = self._rows.get(id or "")
        if row is None or id is None or row[16] == REDACTED:
            return None
        self._rows[id] = row[:16] + bytes([state]) + row[17:]
        return self._file(id, row).page

    def state(self, id: str) -> int:
        """Return the state of an entry's file; an entry that is not known has none."""
        row = self._rows.get(id)
        return GONE if row is None else row[16]

    def remove(self, seq: int) -> None:
        """Forget the entry of a record that is void."""
        number = seq.to_bytes(8, "big")
        for id in [id for id, row in self._rows.items() if row[:8] == number]:
            del self._rows[id]

    def _file(self, id: str, row: bytes) -> ExpectedFile:
        seq, folder, page, state, sha = _ROW.unpack(row)
        live, staged = (_path(prefix, id) for prefix in self._folders[folder])
        return ExpectedFile(id, seq, state, sha, live, staged, self._pages[page][0])


class _Numbered:
    """Tuples of text, each known by a number."""

    def __init__(self) -> None:
        self._values: list[tuple[str, ...]] = []
        self._numbers: dict[tuple[str, ...], int] = {}

    def __getitem__(self, number: int) -> tuple[str, ...]:
        return self._values[number]

    def number(self, value: tuple[str, ...]) -> int:
        number = self._numbers.setdefault(value, len(self._values))
        if number == len(self._values):
            self._values.append(value)
        return number


def _prefix(path: str, id: str) -> str:
    """Return the folder of a file that has the name of its entry, else the path itself."""
    return path.removesuffix(f"{id}.md") if path.endswith(f"/{id}.md") else path


def _path(prefix: str, id: str) -> str:
    return f"{prefix}{id}.md" if prefix.endswith("/") else prefix
