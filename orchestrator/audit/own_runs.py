"""The steps of a run of ours: `runs/RUN/steps.jsonl`, with the times beside it. Called by
`sources`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from orchestrator.audit.step import Step, mapping
from orchestrator.runs.files import ledger
from orchestrator.runs.files.steps import KINDS

Times = Mapping[tuple[int, int], int]


def is_own(row: Mapping[str, Any]) -> bool:
    """Tell whether a row is a step of a run."""
    return row.get("kind") in KINDS and {"n", "epoch"} <= row.keys()


def steps(
    rows: Iterable[Mapping[str, Any]], name: str, folder: str, times: Times
) -> Iterator[Step]:
    """Yield the steps of a run; `folder` is that of its workspace, and its calls begin there."""
    calls: dict[str, tuple[str, Mapping[str, Any]]] = {}
    at, text = 0, ""
    for row in rows:
        n, epoch = row.get("n"), row.get("epoch")
        at = max(at, times.get((n, epoch), 0) if isinstance(n, int) else 0)  # type: ignore[arg-type]
        step = Step("", at, name, folder)
        if row.get("kind") == "prompt":
            yield step._replace(kind="start")
            yield step._replace(kind="prompt", text=str(row.get("task") or ""))
        elif row.get("kind") == "turn":
            turn = mapping(row.get("turn"))
            yield from _turn(row, step._replace(kind="turn", id=f"{name} {n}"))
            text = str(turn.get("text") or "")
            yield step._replace(kind="said", text=text)
            for call in map(mapping, turn.get("calls") or ()):
                id = str(call.get("id"))
                calls[id] = str(call.get("name")), mapping(call.get("arguments"))
                tool, arguments = calls[id]
                yield step._replace(kind="call", id=id, tool=tool, arguments=arguments)
        elif row.get("kind") == "result" and str(row.get("call")) in calls:
            id = str(row["call"])
            tool, arguments = calls.pop(id)
            yield step._replace(
                kind="result",
                id=id,
                tool=tool,
                arguments=arguments,
                text=str(row.get("text") or ""),
                failed=bool(row.get("failed")),
            )
    yield Step("end", at, name, folder, text=text)


def _turn(row: Mapping[str, Any], step: Step) -> Iterator[Step]:
    try:
        line = ledger.load(str(row.get("ledger")))
    except (ValueError, KeyError, TypeError):
        return  # a damaged line stops nobody
    usage = ledger.used(line)._replace(cost=line.cost)
    yield step._replace(usage=usage, model=line.model)
