"""What the records of sessions come to: figures of each session, and what the plugin makes of them.

Pure: everything here is a function of the records, so that anybody can make it again. `wrong` says
where the client's own files and the requests do not say the same.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from scenarios.measure.statistics import Interval, interval

WITHOUT, PLUGIN = "without", "plugin"
SIDE, LEAD = "side", "lead"
RUN = "run"  # the tag of what is written when a run ends

Record = Mapping[str, Any]
Key = tuple[str, str, int]


class Figures(NamedTuple):
    """One session. Tokens are those of all requests, each time that they were sent; `hooks` are
    those of them that hooks put there; `first` is the first request of the lead.
    """

    requests: int
    tokens: int
    first: int
    hooks: int
    usd: float
    calls: int
    reads: int
    read_twice: int
    fetched_twice: int
    completions: int
    miscounted: int
    right: float


ABOUT = {
    "requests": "requests to the model",
    "tokens": "tokens in all requests",
    "first": "tokens in the lead's first",
    "hooks": "tokens by hooks, of all",
    "usd": "dollars (the client says)",
    "calls": "calls of tools",
    "reads": "files read",
    "read_twice": "files read twice",
    "fetched_twice": "pages looked up twice",
    "completions": "completions in the memory",
    "miscounted": "runs with a wrong usage",
    "right": "tasks done right, of 2",
}


class Row(NamedTuple):
    """A figure in one cell: without and with the plugin, and the difference, seed by seed."""

    figure: str
    without: Interval
    plugin: Interval
    difference: Interval


def sessions(records: Iterable[Record]) -> dict[Key, list[Record]]:
    """Return the records of each session, by cell, arm and seed."""
    result: dict[Key, list[Record]] = {}
    key: Key | None = None
    for record in records:
        if record["kind"] == "session":
            key = (record["cell"], record["arm"], record["seed"])
            if key in result:
                raise ValueError(f"the session {key} is there twice")
            result[key] = []
        if key is None:
            raise ValueError("the records do not begin with a session")
        result[key].append(record)
    return result


def figures(session: Sequence[Record]) -> Figures:
    """Return the figures of one session."""
    requests, calls = _of(session, "request"), _of(session, "call")
    read, fetched = _by_agent(calls, "Read"), _by_agent(calls, "WebFetch")
    return Figures(
        requests=len(requests),
        tokens=sum(request["tokens"] for request in requests),
        first=next((request["tokens"] for request in requests if request["agent"] == LEAD), 0),
        hooks=sum(request["hooks"] for request in requests),
        usd=sum(result["usd"] for result in _of(session, "result")),
        calls=len(calls),
        reads=len(read),
        read_twice=_twice(read),
        fetched_twice=_twice(fetched),
        completions=sum(RUN in entry["tags"] for entry in _of(session, "entry")),
        miscounted=_miscounted(session),
        right=float(sum(verdict["ok"] for verdict in _of(session, "verdict"))),
    )


def _by_agent(calls: Sequence[Record], tool: str) -> set[tuple[str, str]]:
    """Return what a tool was called for, by each agent; not what a hook answered in its place."""
    return {
        (call["subject"], call["agent"])
        for call in calls
        if call["tool"] == tool and not call["denied"]
    }


def _twice(pairs: set[tuple[str, str]]) -> int:
    """Return how many of these another agent had done as well."""
    return len(pairs) - len({subject for subject, _ in pairs})


def _miscounted(session: Sequence[Record]) -> int:
    """Return how many runs of the memory have another usage than the transcript of any
    conversation.
    """
    tokens = [line["tokens"] for line in _of(session, "transcript")]
    missing = 0
    for run in _of(session, "run"):
        if run["tokens"] in tokens:
            tokens.remove(run["tokens"])
        else:
            missing += 1
    return missing


def wrong(session: Sequence[Record]) -> Iterator[str]:
    """Yield what the witnesses of a session do not agree on."""
    requests, sent = _of(session, "request"), dict[str, int]()
    for request in requests:
        sent[request["agent"]] = sent.get(request["agent"], 0) + request["tokens"]
    own = {line["agent"]: line["tokens"] for line in _of(session, "transcript")}
    for agent in sorted((sent.keys() | own.keys()) - {SIDE}):
        if sent.get(agent) != own.get(agent):
            yield (
                f"{agent}: {sent.get(agent)} tokens in the requests, {own.get(agent)} by"
                f" its transcript"
            )
    for result in _of(session, "result"):
        total = result["fresh"] + result["cached"] + result["written"]
        if total != sum(sent.values()):
            yield f"{sum(sent.values())} tokens in the requests, {total} by the client's report"


def table(records: Iterable[Record]) -> dict[str, list[Row]]:
    """Return the rows of each cell, over the seeds that both arms have."""
    by_key = {key: figures(session) for key, session in sessions(records).items()}
    cells: dict[str, list[Row]] = {}
    for cell in dict.fromkeys(key[0] for key in by_key):
        seeds = sorted({seed for at, arm, seed in by_key if at == cell and arm == WITHOUT})
        seeds = [seed for seed in seeds if (cell, PLUGIN, seed) in by_key]
        if seeds:
            cells[cell] = [_row(name, cell, seeds, by_key) for name in Figures._fields]
    return cells


def _row(name: str, cell: str, seeds: Sequence[int], by_key: Mapping[Key, Figures]) -> Row:
    ours = [float(getattr(by_key[cell, PLUGIN, seed], name)) for seed in seeds]
    theirs = [float(getattr(by_key[cell, WITHOUT, seed], name)) for seed in seeds]
    gaps = [one - theirs_of for one, theirs_of in zip(ours, theirs, strict=True)]
    return Row(name, interval(theirs), interval(ours), interval(gaps))


def lines(records: Sequence[Record], about: Mapping[str, str]) -> Iterator[str]:
    """Yield the table as people read it, no line longer than 80 columns."""
    heads = [record for record in records if record["kind"] == "session"]
    first = heads[0]
    yield (
        f"{first['client']} {first['version']}, {len(heads)} sessions, tokens in"
        f" {first['encoding']}"
    )
    for cell, rows in table(records).items():
        runs = sum(head["cell"] == cell and head["arm"] == PLUGIN for head in heads)
        yield ""
        yield f"{cell} (n {runs}): {about.get(cell, '')}"[:80]
        yield f"  {'':<26}{'without':>10}{'plugin':>10}{'change':>11}  95 % interval"
        for row in rows:
            yield _line(row)
    if problems := [
        f"{key}: {line}" for key, session in sessions(records).items() for line in wrong(session)
    ]:
        yield ""
        yield "the witnesses do not agree:"
        for problem in problems:
            yield from textwrap.wrap(problem, 80, subsequent_indent="  ")


def _line(row: Row) -> str:
    places = {"usd": 3, "tokens": 0, "first": 0, "hooks": 0}.get(row.figure, 1)
    without, plugin, change = (f"{value.value:,.{places}f}" for value in row[1:])
    sign = "+" if row.difference.value > 0 else ""
    ends = f"[{row.difference.lo:,.{places}f}, {row.difference.hi:,.{places}f}]"
    return f"  {ABOUT[row.figure]:<26}{without:>10}{plugin:>10}{sign + change:>11}  {ends}"


def values(records: Iterable[Record]) -> dict[str, Any]:
    """Return the table as JSON has it, rounded so that it is the same on every machine."""
    return {
        cell: {
            row.figure: {
                name: [round(end, 6) for end in value]
                for name, value in zip(("without", "plugin", "change"), row[1:], strict=True)
            }
            for row in rows
        }
        for cell, rows in table(records).items()
    }


def _of(session: Sequence[Record], kind: str) -> list[Record]:
    return [record for record in session if record["kind"] == kind]
