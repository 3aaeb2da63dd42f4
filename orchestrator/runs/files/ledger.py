"""The token ledger: one line of JSON for each call of a model, and the figures that follow from the
lines. Pure but for the file.

A line holds no wall time, process, path or random id, so that the same work gives the same bytes.
Every figure about a run is a function of its lines; anyone can compute it again.

{"run", "step", "agent", "model", "encoding", "counting", "in": [[label, tokens, first], ...],
 "out": [[label, tokens], ...], "usage": {...} | null, "cost": dollars | null, "stop"}

`first` is 1 where these tokens are sent for the first time in the run. The label `guide` is for the
system text about the memory and the team; `system` is for the rest of it. `counting` says how the
tokens were counted: `exact` in the encoding, `bound` or `estimate`. `usage` is the provider's own
report. `stop` is how the reply ended; `lost` where none came, and `unanswered` where the process
died before one came: there `usage` is an estimate, the request as it was counted and no output.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple

from orchestrator.engines.protocol import LABELS, Usage
from synapse.system.json import dumps

# What memory and coordination put into a run, and what is left without them.
COORDINATION = ("guide", "view", "tool_schema", "capsule", "wake", "writeback", "consolidation")
PLANNING = ("plan",)
WORK = tuple(label for label in LABELS if label not in (*COORDINATION, *PLANNING))

COUNTING = ("exact", "bound", "estimate")  # how tokens are counted, the best first
LOST, UNANSWERED = "lost", "unanswered"  # how calls end whose reply nobody has


class Segment(NamedTuple):
    """A stretch of a prompt, or of a reply, and what it is for."""

    label: str
    tokens: int
    first: bool = True


class Line(NamedTuple):
    """One call of a model."""

    run: str
    step: int
    agent: str
    model: str
    encoding: str
    counting: str
    sent: tuple[Segment, ...]
    got: tuple[Segment, ...]
    usage: Usage | None = None
    cost: float | None = None
    stop: str = "done"

    @property
    def counted(self) -> int:
        return sum(segment.tokens for segment in self.sent)

    @property
    def answered(self) -> bool:
        return self.stop not in (LOST, UNANSWERED)


class Unanswered(NamedTuple):
    """The calls whose reply nobody has: how many, and what they took, by our own estimate."""

    calls: int = 0
    tokens: int = 0
    cost: float | None = None


class Overhead(NamedTuple):
    """What coordination took, beside the work. Billed: each time it was sent; unique: once.
    `counting` is the least exact that its lines were counted with.
    """

    coordination: int
    planning: int
    work: int
    coordination_unique: int
    planning_unique: int
    work_unique: int
    counting: str = "exact"

    @property
    def billed(self) -> float:
        """Return coordination ÷ work, as billed: the project's headline figure."""
        return self.coordination / self.work if self.work else 0.0

    @property
    def unique(self) -> float:
        return self.coordination_unique / self.work_unique if self.work_unique else 0.0


def dump(line: Line) -> str:
    """Return the line as text, with its newline."""
    fields = {
        "run": line.run,
        "step": line.step,
        "agent": line.agent,
        "model": line.model,
        "encoding": line.encoding,
        "counting": line.counting,
        "in": [[segment.label, segment.tokens, int(segment.first)] for segment in line.sent],
        "out": [[segment.label, segment.tokens] for segment in line.got],
        "usage": None if line.usage is None else line.usage._asdict(),
        "cost": line.cost,
        "stop": line.stop,
    }
    return dumps(fields) + "\n"


def load(text: str) -> Line:
    fields = json.loads(text)
    return Line(
        run=fields["run"],
        step=fields["step"],
        agent=fields["agent"],
        model=fields["model"],
        encoding=fields["encoding"],
        counting=fields["counting"],
        sent=tuple(Segment(label, tokens, bool(first)) for label, tokens, first in fields["in"]),
        got=tuple(Segment(label, tokens) for label, tokens in fields["out"]),
        usage=None if fields["usage"] is None else Usage(**fields["usage"]),
        cost=fields["cost"],
        stop=fields["stop"],
    )


def read(lines: Iterable[str]) -> list[Line]:
    """Return every complete line, once; the last one may still be being written. A line names its
    step, so an equal line is the same call: a process that hung between a reply and its booking may
    book again what its successor had repaired, and where one that was taken for dead says how its
    call ended after all, that holds. A damaged line is left out: `synapse doctor` names it, and it
    stops nobody.
    """
    loaded = []
    for text in dict.fromkeys(lines):
        if text.endswith("\n"):
            with suppress(ValueError, KeyError, TypeError):
                loaded.append(load(text))
    ended = {line.step for line in loaded if line.stop != UNANSWERED}
    return [line for line in loaded if line.stop != UNANSWERED or line.step not in ended]


def by_label(lines: Iterable[Line], *, unique: bool = False) -> dict[str, int]:
    """Return the tokens of each label, replies included; each sending counted, or each token
    once.
    """
    totals: Counter[str] = Counter()
    for line in lines:
        for segment in line.sent:
            if segment.first or not unique:
                totals[segment.label] += segment.tokens
        for segment in line.got:
            totals[segment.label] += segment.tokens
    return {label: totals[label] for label in LABELS if label in totals}


def overhead(lines: Iterable[Line]) -> Overhead:
    lines = list(lines)
    sums = [
        sum(tokens.get(label, 0) for label in labels)
        for tokens in (by_label(lines), by_label(lines, unique=True))
        for labels in (COORDINATION, PLANNING, WORK)
    ]
    counting = max((line.counting for line in lines), key=COUNTING.index, default="exact")
    return Overhead._make((*sums, counting))


def spent(lines: Iterable[Line]) -> tuple[Usage, float | None]:
    """Return the usage and the cost of all lines. Usage is the provider's report, or our own
    estimate where it reported nothing; the cost is None where no line has a price.
    """
    usage, costs = Usage(), []
    for line in lines:
        usage += used(line)
        if line.cost is not None:
            costs.append(line.cost)
    return usage, sum(costs) if costs else None


def unanswered(lines: Iterable[Line]) -> Unanswered:
    """Return how many calls of these nobody answered, and what they took."""
    own = [line for line in lines if not line.answered]
    usage, cost = spent(own)
    return Unanswered(len(own), usage.input_tokens + usage.output_tokens, cost)


def used(line: Line) -> Usage:
    """Return the usage of one call, as its provider reported it, else as we counted it."""
    counted = line.counted, sum(segment.tokens for segment in line.got)
    return line.usage if line.usage is not None else Usage(*counted, estimated=any(counted))
