"""What recorded runs and conversations come to (L1), as a report holds it, and whether it follows from the data.

`replay` and `retrieval` measure; here it is put into a report beside what was played. The data stay where they are: a
report names them and holds their digest. How long a search took is left out: no two measure the same.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from scenarios import replay, retrieval
from scenarios.findings import Table, rounded

REPLAY, RETRIEVAL = PARTS = "replay", "retrieval"
OPTIONS = {REPLAY: "--traces DIR", RETRIEVAL: "--retrieval FILE"}
WINDOW = "last "


class BrokenData(ValueError):
    """There is nothing to be measured there; says why."""


class Where(NamedTuple):
    """Where recorded runs and conversations lie; None: not asked for."""

    traces: str | None = None
    talks: str | None = None

    def of(self, part: str) -> str | None:
        return self.traces if part == REPLAY else self.talks


def measured(where: Where, tell: Callable[[str], object] = lambda _: None) -> Table:
    """Each part that is asked for."""
    return {part: _measure(part, path, tell) for part in PARTS if (path := where.of(part)) is not None}


def _measure(part: str, path: str, tell: Callable[[str], object] = lambda _: None) -> Table:
    tell(f"{part} of {path}")
    return _replayed(path) if part == REPLAY else _retrieved(path)


def missing(told: Mapping[str, Table], where: Where) -> list[str]:
    """The parts of a report whose data are not there: they cannot be checked."""
    return [part for part in told if not os.path.exists(where.of(part) or told[part]["data"]["path"])]


def again(told: Mapping[str, Table], where: Where) -> Table:
    """Each part of a report, from its data where they are there; a part without them as it was told."""
    away = missing(told, where)
    found = {}
    for part, table in told.items():
        path = where.of(part) or table["data"]["path"]
        found[part] = table if part in away else _measure(part, path)
        found[part] = found[part] | {"data": found[part]["data"] | {"path": table["data"]["path"]}}
    return found


# -- Recorded runs -----------------------------------------------------------------------------------------------------


def _replayed(folder: str) -> Table:
    try:
        found = replay.report(folder)
    except replay.BrokenTraces as error:
        raise BrokenData(str(error)) from error
    kinds = {kind: _kind(rows, found["above_the_window"][kind]) for kind, rows in found["policies"].items()}
    return {"data": _data(folder), "tokenizer": found["tokenizer"], "shipped": replay.SHIPPED_NAME, "kinds": kinds}


def _kind(rows: Mapping[str, Table], above: Sequence[Table]) -> Table:
    runs = {row["runs"] for row in rows.values()}
    policies = {
        name: {key: _interval(value) if key in ("cost", "availability") else _round(value)
               for key, value in row.items() if key != "runs"}
        for name, row in rows.items()
    }  # fmt: skip
    return {"runs": runs.pop(), "policies": policies, "above_the_window": [_round(each) for each in above]}


def to_beat(kind: Table, shipped: str) -> tuple[str, float] | None:
    """The window that makes most available among those that cost no more than the policy that ships."""
    rows = kind["policies"]
    limit = rows[shipped]["cost"]["value"]
    windows = [(rows[name]["availability"]["value"], name) for name in windows_of(kind)
               if rows[name]["cost"]["value"] <= limit]  # fmt: skip
    return max(((name, value) for value, name in windows), key=lambda each: each[1], default=None)


def windows_of(kind: Table) -> list[str]:
    """The policies that send the last messages and nothing else."""
    return [name for name in kind["policies"] if name.startswith(WINDOW) and "," not in name]


# -- Recorded conversations --------------------------------------------------------------------------------------------


def _retrieved(path: str) -> Table:
    try:
        conversations = retrieval.read(path)
    except retrieval.BrokenConversations as error:
        raise BrokenData(str(error)) from error
    with tempfile.TemporaryDirectory(prefix="retrieval-") as place:
        found = retrieval.measure(conversations, place)
    figures = {name: _interval([found[name], *found["intervals"][name]]) for name in retrieval.FIGURES}
    one = {name: value for name, value in found["one_workspace"].items() if name != "milliseconds"}
    return {
        "data": _data(path), "conversations": len(conversations), "turns": found["turns"],
        "questions": found["questions"], "figures": figures, "by_category": _round(found["by_category"]),
        "one_workspace": _round(one),
    }  # fmt: skip


# -- Pieces ------------------------------------------------------------------------------------------------------------


def _data(path: str) -> Table:
    """Where the data lie, as it was said, and the digest of every file that counts."""
    digest = sha256()
    files = sorted(Path(path).rglob("*.json")) if os.path.isdir(path) else [Path(path)]
    for file in files:
        name = file.relative_to(path).as_posix() if file != Path(path) else ""
        digest.update(f"{name}\n{sha256(file.read_bytes()).hexdigest()}\n".encode())
    return {"path": path, "sha256": digest.hexdigest()}


def _interval(ends: Sequence[float]) -> Table:
    return {name: rounded(each) for name, each in zip(("value", "lo", "hi"), ends, strict=True)}


def _round(value: Any) -> Any:
    """Every number of it, the same on every machine."""
    if isinstance(value, Mapping):
        return {name: _round(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_round(each) for each in value]
    return rounded(value) if isinstance(value, float) else value
