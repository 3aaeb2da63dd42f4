"""What a context policy would have cost in recorded runs of real teams, and how much of what was later used it would
have shown. Counterfactual: a run is not played again, and nothing is said about how it would have ended.

A step's *dependency* is a specific (a name of several words, a figure, an identifier, an address) that its message
uses, that an earlier message held, and that the task did not. *Availability* is the share of them in the context that
a policy delivers to whoever wrote the message; *cost* is the tokens of task, role prompt and that context, over all
steps, beside what sending everything costs. Steps of tools and browsers read nothing and count as neither.
"""

from __future__ import annotations

import ast
import json
import random
import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from synapse.condense import Said, Shape, condense, lines, specifics, words
from synapse.tokens import Tokens

RESAMPLES = 2_000
QUARTERS = 4
_OUTPUT = re.compile(r"(?:surfer|terminal|browser|executor|tool)$", re.IGNORECASE)
_ADDRESSED = re.compile(r"\(-> (\w+)\)")


class Trace(NamedTuple):
    """A recorded run: its task, what each role was told to be, and what was said."""

    name: str
    task: str
    roles: dict[str, str]
    said: tuple[Said, ...]


# What an agent is given when it is about to speak: from the trace and the number of messages before.
Policy = Callable[[Trace, int], Sequence[str]]


class Step(NamedTuple):
    """One message of an agent, with what it depended on."""

    at: int
    fixed: int
    everything: int
    needs: frozenset[str]
    rare: frozenset[str]


class Score(NamedTuple):
    """What a policy came to in one run. `found` of `needed` by the quarter of the run; `rare` counts rare words."""

    cost: int
    everything: int
    found: tuple[int, ...]
    needed: tuple[int, ...]
    rare: tuple[int, int]


# -- traces ----------------------------------------------------------------------------------------


class BrokenTraces(ValueError):
    """There is nothing to be replayed there; says why."""


def load(folder: str | Path) -> dict[str, list[Trace]]:
    """The traces below a folder, by the folder that holds them. Each is a JSON object with a `history`; those in which
    no agent says anything are left out."""
    found: dict[str, list[Trace]] = {}
    for path in sorted(Path(folder).rglob("*.json"), key=lambda path: (str(path.parent), path.stem.zfill(9))):
        try:
            value = json.loads(path.read_text(encoding="utf-8"))
            trace = _trace(path.stem, value) if isinstance(value, dict) and value.get("history") else None
        except (ValueError, TypeError, AttributeError, LookupError) as error:
            raise BrokenTraces(f"{path}: is no recorded run: {type(error).__name__}: {error}") from error
        if trace is not None and any(steps(trace)):
            found.setdefault(path.parent.name, []).append(trace)
    if not found:
        what = "JSON objects with a `history` in which somebody answers"
        raise BrokenTraces(f"{folder}: no recorded runs there: {what}")
    return found


def _trace(name: str, value: dict[str, Any]) -> Trace:
    said = [(str(each.get("name") or each["role"]), str(each["content"] or "")) for each in value["history"]]
    return Trace(
        name, said[0][1], _roles(value.get("system_prompt")), tuple(Said(*each, _prints(each[0])) for each in said)
    )


def _roles(value: object) -> dict[str, str]:
    if isinstance(value, str):
        try:
            value = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            return {}
    return {str(key): str(text) for key, text in value.items()} if isinstance(value, dict) else {}


def _prints(author: str) -> bool:
    return "->" not in author and bool(_OUTPUT.search(author))


def steps(trace: Trace) -> Iterator[Step]:
    """The messages of agents after the task, each with what it used of earlier ones."""
    given, held, everything = specifics_of(trace.task), frozenset[str](), 0
    seen: dict[str, int] = {}
    for at, each in enumerate(trace.said):
        named, spoken = specifics_of(each.text), words(each.text)
        if at and not each.output:
            fixed = tokens(trace.task) + tokens(trace.roles.get(each.author, ""))
            rare = frozenset(word for word in spoken if len(word) > 4 and 0 < seen.get(word, 0) < 3)
            yield Step(at, fixed, everything, (named & held) - given, rare - words(trace.task))
        if at:
            held |= named
            everything += tokens(each.text)
            for word in spoken:
                seen[word] = seen.get(word, 0) + 1


@lru_cache(65_536)
def specifics_of(text: str) -> frozenset[str]:
    return frozenset[str]().union(specifics(text), *(specifics(line) for line in lines(text)))


_COUNTS = Tokens()


@lru_cache(1 << 18)
def tokens(text: str) -> int:
    return _COUNTS.count(text) if text else 0


# -- policies --------------------------------------------------------------------------------------


def everything(trace: Trace, at: int) -> Sequence[str]:
    return [each.text for each in trace.said[1:at]]


def own(trace: Trace, at: int) -> Sequence[str]:
    return [each.text for each in trace.said[1:at] if each.author == trace.said[at].author]


def own_and_addressed(trace: Trace, at: int) -> Sequence[str]:
    me = trace.said[at].author.split(" ")[0]
    past = trace.said[1:at]
    return [
        each.text
        for place, each in enumerate(past)
        if each.author.split(" ")[0] == me
        or place == len(past) - 1
        or any(name == me for name in _ADDRESSED.findall(each.author))
    ]


def last(count: int) -> Policy:
    return lambda trace, at: [each.text for each in trace.said[max(1, at - count) : at]]


def condensed(shape: Shape) -> Policy:
    return lambda trace, at: condense(trace.said[1:at], trace.task, tokens, shape).pieces


SHIPPED = Shape()
EVERYTHING = "everything"
WINDOWS = (1, 2, 3, 4, 5, 6, 8, 12, 16)
SHAPES = (
    Shape(1, 400, 150, 0), Shape(1, 800, 300, 0), Shape(2, 800, 300, 0), Shape(2, 1_500, 600, 0), SHIPPED,
    Shape(4, 1_500, 600, 1_024), Shape(5, 3_000, 1_000, 2_048), Shape(8, 6_000, 1_500, 2_048),
    Shape(12, 12_000, 3_000, 4_096), Shape(16, 12_000, 3_000, 4_096),
)  # fmt: skip


def policies() -> dict[str, Policy]:
    found: dict[str, Policy] = {EVERYTHING: everything, "own": own, "own and addressed": own_and_addressed}
    found |= {f"last {count}": last(count) for count in WINDOWS}
    found["last 1, capsule of 2 kB"] = condensed(Shape(1, 1 << 30, 0, 2_048))
    return found | {_named(shape): condensed(shape) for shape in SHAPES}


def _named(shape: Shape) -> str:
    name = f"condensed {shape.window}/{shape.output}/{shape.specifics}/{shape.capsule}"
    return f"{name} shipped" if shape == SHIPPED else name


SHIPPED_NAME = _named(SHIPPED)


# -- scores ----------------------------------------------------------------------------------------


def score(trace: Trace, policy: Policy, taken: Sequence[Step]) -> Score:
    cost, found, needed, rare = 0, [0] * QUARTERS, [0] * QUARTERS, [0, 0]
    for step in taken:
        pieces = policy(trace, step.at)
        cost += step.fixed + sum(map(tokens, pieces))
        quarter = step.at * QUARTERS // len(trace.said)
        held = "\n".join(pieces)
        found[quarter] += sum(name in held for name in step.needs)
        needed[quarter] += len(step.needs)
        spoken = words(held)
        rare = [rare[0] + len(step.rare & spoken), rare[1] + len(step.rare)]
    return Score(
        cost, sum(step.fixed + step.everything for step in taken), tuple(found), tuple(needed), (rare[0], rare[1])
    )


def summary(scores: Sequence[Score], seed: int = 1) -> dict[str, Any]:
    """Cost beside sending everything, and availability: `macro` the mean over runs, `micro` over dependencies."""
    return {
        "runs": len(scores),
        "cost": _with_interval(scores, _cost, seed),
        "cost_mean_of_runs": fmean(each.cost / max(each.everything, 1) for each in scores),
        "availability": _with_interval(scores, _macro, seed),
        "availability_micro": _share([sum(each.found) for each in scores], [sum(each.needed) for each in scores]),
        "availability_by_quarter": [
            _share([each.found[at] for each in scores], [each.needed[at] for each in scores]) for at in range(QUARTERS)
        ],
        "rare_words": _share([each.rare[0] for each in scores], [each.rare[1] for each in scores]),
    }


def _cost(scores: Sequence[Score]) -> float:
    return sum(each.cost for each in scores) / max(sum(each.everything for each in scores), 1)


def _macro(scores: Sequence[Score]) -> float:
    shares = [sum(each.found) / sum(each.needed) for each in scores if sum(each.needed)]
    return fmean(shares) if shares else 1.0


def _share(found: Sequence[int], of: Sequence[int]) -> float:
    return sum(found) / sum(of) if sum(of) else 1.0


def _with_interval(scores: Sequence[Score], value: Callable[[Sequence[Score]], float], seed: int) -> list[float]:
    """The value, and the ends of its 95 % bootstrap interval over runs."""
    draw = random.Random(seed)
    drawn = sorted(value(draw.choices(scores, k=len(scores))) for _ in range(RESAMPLES))
    return [value(scores), drawn[round(RESAMPLES * 0.025)], drawn[round(RESAMPLES * 0.975) - 1]]


def replayed(traces: Sequence[Trace]) -> dict[str, dict[str, Any]]:
    """Every policy's summary over these traces."""
    held = [(trace, list(steps(trace))) for trace in traces]
    return {
        name: summary([score(trace, policy, found) for trace, found in held]) for name, policy in policies().items()
    }


def above(table: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """At each window's cost: what the best condensed context that costs no more makes available. By quarters of the
    curve, from the cheapest window to the dearest."""
    windows = [
        (each["cost"][0], each["availability"][0], name)
        for name, each in table.items()
        if name.startswith("last") and "," not in name
    ]
    ours = [(each["cost"][0], each["availability"][0]) for name, each in table.items() if name.startswith("condensed")]
    windows.sort()
    low, high = windows[0][0], windows[-1][0]
    found = []
    for cost, available, name in windows:
        quarter = min(int((cost - low) / (high - low) * QUARTERS), QUARTERS - 1) + 1 if high > low else 1
        best = max((share for price, share in ours if price <= cost), default=None)
        found.append({"window": name, "quarter": quarter, "cost": cost, "availability": available, "condensed": best})
    return found


# -- the command -----------------------------------------------------------------------------------


def report(folder: str | Path) -> dict[str, Any]:
    """Tables and comparisons of every kind of trace below a folder."""
    found = load(folder)
    tables = {kind: replayed(traces) for kind, traces in found.items()}
    return {
        "level": "L1",
        "tokenizer": "o200k_base",
        "shipped": SHIPPED._asdict(),
        "policies": tables,
        "above_the_window": {kind: above(table) for kind, table in tables.items()},
    }


def table(found: dict[str, Any]) -> Iterator[str]:
    """The report in lines of at most 80 columns."""
    yield "L1, replay: what each policy would have sent, and what it would have shown of"
    yield "what was used later. Counterfactual cost; no run is played again."
    for kind, rows in found["policies"].items():
        yield f"\n{kind}: {next(iter(rows.values()))['runs']} runs"
        yield f"{'policy':32} {'cost [95 %]':>19} {'avail.':>7} {'[95 %]':>11} {'rare':>5}"
        for name, row in sorted(rows.items(), key=lambda item: item[1]["cost"][0]):
            cost, low, high = row["cost"]
            share, least, most = row["availability"]
            yield (
                f"{name[:32]:32} {cost:.3f} [{low:.3f},{high:.3f}] {share:7.3f} [{least:.2f},{most:.2f}]"
                f" {row['rare_words']:5.2f}"
            )
        yield "\nbeside a window of the same cost:"
        for row in found["above_the_window"][kind]:
            best = "–" if row["condensed"] is None else f"{row['condensed']:.3f}"
            beside = f"{row['cost']:.3f}  {row['availability']:.3f} -> {best}"
            yield f"  quarter {row['quarter']}: {row['window']:8} {beside}"
        yield "\navailable by the quarter of the run:"
        for name in (SHIPPED_NAME, "last 4", "last 5"):
            yield f"  {name:32}" + "".join(f" {share:.3f}" for share in rows[name]["availability_by_quarter"])
