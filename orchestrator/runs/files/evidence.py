"""Evidence of how far a run had come, beside its steps: the log, its ledger, and a mark.

Whoever goes on with a run that another process began asks here first. A run whose steps are not
all there, or are a copy, is not gone on with: what it did would be done again. The mark,
`runs/{run}/steps.mark`, holds two numbers: the inode of `steps.jsonl`, which a copy does not share,
and the length that it had when a step was last synced.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from orchestrator.runs.files.folder import LEDGER, STEPS, Folder
from orchestrator.runs.files.ledger import LOST, UNANSWERED
from synapse.errors import StoreCorrupt

UNPAID = "its ledger names {} that they do not"
NONE = "there are none, and the log holds what its prompt showed"


def demand_all_steps(folder: Folder, shown: bool) -> None:
    """Raise StoreCorrupt where a run had come further than its steps say. `shown`: the log holds
    what its prompt showed.
    """
    missing = _missing(folder, shown)
    if missing:
        raise StoreCorrupt(
            f"the steps of this run are not all known ({missing}), so what it did since is not done"
            f" again; {folder.path} holds what is left"
        )


def _missing(folder: Folder, shown: bool) -> str:
    """Return why the steps cannot be all, or nothing."""
    if not folder.has(STEPS):
        return NONE if shown or any(True for _ in folder.lines(LEDGER)) else ""
    lines = list(folder.lines(STEPS))
    if damage := folder.damage(lines):
        return damage
    if shown and not lines:
        return NONE
    booked = set(_ledger_lines(lines))
    unknown = [
        line
        for line in folder.lines(LEDGER)
        if line not in booked and _object(line).get("stop", LOST) not in (LOST, UNANSWERED)
    ]
    calls = "a call" if len(unknown) == 1 else f"{len(unknown)} calls"
    return UNPAID.format(calls) if unknown else ""


def _ledger_lines(lines: Iterable[str]) -> Iterator[str]:
    """Yield the ledger line of every turn, whichever incarnation recorded it."""
    for line in lines:
        fields = _object(line)
        if fields.get("kind") == "turn":
            yield str(fields.get("ledger"))


def _object(line: str) -> dict[str, object]:
    try:
        value = json.loads(line)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
