"""Changes of files as records: which agent changed which file in which run, and how the change
begins.

The changes of one work tree stand under one key, so that whoever asks what is new there looks up
that key behind a place in the log. Nothing here reads a file. Called by the hooks of clients.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from synapse.access.writer import Writer
from synapse.index.snapshot import Snapshot
from synapse.model.records import Record
from synapse.system.tree_file import TreeFile

NEWEST = 200  # changes of one tree that are looked at


class Change(NamedTuple):
    """One change of a file: by which agent in which run, when and where in the log. `file` is the
    file's key, `sha` its digest afterwards. `head` are the change's first lines, `removed` the
    names that it took out of the file, `renamed` what some of them are called now.
    """

    seq: int
    at: int
    agent: str
    run: str
    project: str
    tree: str
    path: str
    sha: str = ""
    head: str = ""
    removed: tuple[str, ...] = ()
    renamed: tuple[tuple[str, str], ...] = ()

    @property
    def file(self) -> str:
        return f"{self.tree} {self.path}"


def write(writer: Writer, file: TreeFile, once: str, **fields: object) -> None:
    """Record that the writer's agent changed a file; `fields` say how."""
    values = {"run": writer.run, "project": writer.project(), "file": file.path, **fields}
    values = {name: value for name, value in values.items() if value}
    key = _key(file.tree_id)
    writer.write(Record.new("change", writer.id, values, key=key), once=once)


def since(snap: Snapshot, tree: str, floor: int, at: int = 0) -> Iterator[Change]:
    """Yield the newest changes in a work tree after a place in the log and since a time, in
    order.
    """
    for record in snap.keyed_since(_key(tree), floor, at, NEWEST):
        fields = record.fields
        yield Change(
            record.seq,
            record.at,
            record.by,
            str(fields.get("run") or ""),
            str(fields.get("project") or ""),
            tree,
            str(fields["file"]),
            str(fields.get("sha", "")),
            str(fields.get("head", "")),
            tuple(fields.get("removed", ())),
            tuple((old, new) for old, new in fields.get("renamed", ())),
        )


def _key(tree: str) -> str:
    return f"changes:{tree}"
