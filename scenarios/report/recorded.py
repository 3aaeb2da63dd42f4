"""The L1 part of a report: retrieval over recorded conversations, and whether it follows from them.

`retrieval` measures; here it is put into a report beside what was played. The data stay where they
are: a report names them and holds their digest. How long a search took is left out: no two measure
the same.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from scenarios.data.conversations import BrokenConversations, read
from scenarios.measure import retrieval
from scenarios.measure.findings import Table, rounded

RETRIEVAL = "retrieval"


class BrokenData(ValueError):
    """There is nothing to be measured there; says why."""


def measured(path: str | None) -> Table:
    """Return the part of a report that the conversations of this file come to; empty without a
    file.
    """
    return {} if path is None else {RETRIEVAL: _retrieved(path)}


def missing(table: Mapping[str, Table], path: str | None) -> str | None:
    """Return the path at which the data of a report's part should lie and do not: it cannot be
    checked.
    """
    if RETRIEVAL not in table:
        return None
    source = path or table[RETRIEVAL]["data"]["path"]
    return None if os.path.exists(source) else str(source)


def again(table: Mapping[str, Table], path: str | None) -> Table:
    """Return the part of a report measured again, or as it is where its data are not there."""
    if RETRIEVAL not in table or missing(table, path):
        return dict(table)
    recorded_path = table[RETRIEVAL]["data"]["path"]
    section = _retrieved(path or recorded_path)
    return {RETRIEVAL: section | {"data": section["data"] | {"path": recorded_path}}}


def _retrieved(path: str) -> Table:
    try:
        conversations = read(path)
    except (BrokenConversations, OSError) as error:
        raise BrokenData(str(error)) from error
    with tempfile.TemporaryDirectory(prefix="retrieval-") as folder:
        found = retrieval.measure(conversations, folder)
    figures = {
        name: _interval([found[name], *found["intervals"][name]]) for name in retrieval.FIGURES
    }
    one = {name: value for name, value in found["one_workspace"].items() if name != "milliseconds"}
    data = {"path": path, "sha256": sha256(Path(path).read_bytes()).hexdigest()}
    return {
        "data": data,
        "conversations": len(conversations),
        "turns": found["turns"],
        "questions": found["questions"],
        "figures": figures,
        "by_category": _round(found["by_category"]),
        "one_workspace": _round(one),
        "units": _round(found["units"]),
    }


def _interval(ends: Sequence[float]) -> Table:
    return {name: rounded(item) for name, item in zip(("value", "lo", "hi"), ends, strict=True)}


def _round(value: Any) -> Any:
    """Return it with every number the same on every machine."""
    if isinstance(value, Mapping):
        return {name: _round(item) for name, item in value.items()}
    return rounded(value) if isinstance(value, float) else value
