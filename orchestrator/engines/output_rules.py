"""The rules that find text, session, usage and cost in a client's output. Pure; knows no client by
name.

A rule says which pieces of JSON it is for (`when`: path and value) and where in them the values
are. A path is keys with dots between; `*` is every value there is; `a | b` is the first of them
that is there. Later pieces override earlier ones, except where a rule says that its text continues
the earlier text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import IO, Any, NamedTuple

from orchestrator.engines.protocol import Usage

LONGEST = 16 * 1024 * 1024  # a line beyond this is no message


class Rule(NamedTuple):
    """Where things are found in a piece of output. The paths of counts are summed. `continues`: the
    text goes on from what was said; `clears`: what was said is not the answer yet.
    """

    when: Mapping[str, Any] = {}
    text: str = ""
    continues: bool = False
    clears: bool = False
    session: str = ""
    model: str = ""
    stop: str = ""
    cost: str = ""
    input: tuple[str, ...] = ()
    output: tuple[str, ...] = ()
    cached: tuple[str, ...] = ()
    written: tuple[str, ...] = ()
    blocked: str = ""
    report: str = ""
    error: str = ""


class Said(NamedTuple):
    """What was found. `understood` is how many pieces some rule was for."""

    text: str = ""
    session: str | None = None
    model: str = ""
    stop: str = ""
    usage: Usage | None = None
    blocked: str | None = None
    report: Any = None
    error: str = ""
    understood: int = 0


def lines(file: IO[bytes]) -> Iterator[Any]:
    """Yield the pieces of an output of JSON lines. Other lines between them are skipped."""
    begins = True
    while line := file.readline(LONGEST):
        ends = line.endswith(b"\n")
        if begins and line.startswith(b"{"):
            piece = _json(line)
            if piece is not None:
                yield piece
        begins = ends


def whole(file: IO[bytes]) -> Iterator[Any]:
    """Return the one piece of an output that is a JSON text, after any other output before it."""
    data = b"\n" + file.read(LONGEST)
    piece = _json(data[data.find(b"\n{") + 1 :])
    if piece is not None:
        yield piece


def understand(pieces: Iterable[Any], rules: Iterable[Rule]) -> Said:
    rules = tuple(rules)
    output = Said()
    for piece in pieces:
        for rule in rules:
            if all(_first(piece, path) == value for path, value in rule.when.items()):
                output = _apply(rule, piece, output)
    return output


def reported(said: Said) -> tuple[str, str | None]:
    """Return the summary and the blocker of a structured result, which may be the text itself."""
    report = said.report or _json(said.text.encode())
    if not isinstance(report, dict):
        return said.text, said.blocked
    blocked = report.get("blocked")
    return str(report.get("summary") or ""), str(blocked) if blocked else None


def _apply(rule: Rule, piece: Any, said: Said) -> Said:
    before = "" if rule.clears else said.text
    text = _text(piece, rule.text)
    return Said(
        text=before + text if rule.continues else text or before,
        session=_text(piece, rule.session) or said.session,
        model=_text(piece, rule.model) or said.model,
        stop=_text(piece, rule.stop) or said.stop,
        usage=_usage(piece, rule) or said.usage,
        blocked=_text(piece, rule.blocked) or said.blocked,
        report=_first(piece, rule.report) or said.report,
        error=_text(piece, rule.error) or said.error,
        understood=said.understood + 1,
    )


def _usage(piece: Any, rule: Rule) -> Usage | None:
    counts = [
        [_sum(piece, path) for path in paths]
        for paths in (rule.input, rule.output, rule.cached, rule.written)
    ]
    cost = _sum(piece, rule.cost)
    if cost is None and all(count is None for values in counts for count in values):
        return None
    sent, got, cached, written = (int(sum(count or 0 for count in values)) for values in counts)
    return Usage(sent, got, cached, written, cost)


def _text(piece: Any, path: str) -> str:
    return "\n\n".join(str(value) for value in _found(piece, path) if value not in (None, ""))


def _sum(piece: Any, path: str) -> float | None:
    counts = [
        value
        for value in _found(piece, path)
        if isinstance(value, int | float) and not isinstance(value, bool)
    ]
    return sum(counts) if counts else None


def _first(piece: Any, path: str) -> Any:
    return next(iter(_found(piece, path)), None)


def _found(piece: Any, path: str) -> list[Any]:
    """Return everything at the path, or at the first of its alternatives where there is
    anything.
    """
    for branch in path.split("|") if path else ():
        values = [piece]
        for key in branch.strip().split("."):
            values = [inner for outer in values for inner in _inside(outer, key)]
        if values:
            return values
    return []


def _inside(outer: Any, key: str) -> list[Any]:
    if isinstance(outer, dict):
        return list(outer.values()) if key == "*" else [outer[key]] if key in outer else []
    return list(outer) if key == "*" and isinstance(outer, list) else []


def _json(data: bytes) -> dict[str, Any] | None:
    try:
        piece = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return piece if isinstance(piece, dict) else None
