"""How figures, verdicts and break-even points are put into words, alike in every form of a report.
Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from scenarios.data.schema import PARAMETERS
from scenarios.measure.findings import Table
from scenarios.report.recorded import RETRIEVAL

MARKS = {True: "met", False: "**missed**", None: "not played"}
# Figures that are no shares: how they are written.
_PLAIN = {
    "usd": "${:.3f}", "usd_automatic": "${:.3f}", "usd_per_success": "${:.3f}",
    "seconds": "{:,.0f} s", "exposure": "{:.1f} s",
    "wake_latency": "{:.1f} s", "wake_latency_max": "{:.1f} s",
    "turns": "{:,.1f}", "growth": "{:+,.0f}", "wake_turns": "{:.2f}",
}  # fmt: skip
_COUNTS = ("tokens", "tokens_unique", "tokens_discounted", "tokens_per_success", "discoveries",
           "lost_results",
           "wake_duplicates", "lost_writes", "blockers", "answers.unequal",
           "answers.equal")  # fmt: skip


def amount(name: str, value: float) -> str:
    """Return a figure as it is read: a share in percent, tokens with commas."""
    if name in _PLAIN:
        return _PLAIN[name].format(value)
    if name in _COUNTS or name.startswith(("tokens.", "probe.")):
        return f"{value:,.0f}" if value == round(value) or abs(value) >= 100 else f"{value:,.2f}"
    return percent(value)


def percent(value: float) -> str:
    digits = 0 if abs(value) >= 0.995 or abs(value) in (0.0, 0.5) else 1
    return f"{value:.{digits}%}"


def figure(name: str, interval: Mapping[str, float] | None) -> str:
    """Return a figure with its interval, where it has any width."""
    if interval is None:
        return "–"
    value, lo, hi = (amount(name, interval[end]) for end in ("value", "lo", "hi"))
    return value if lo == hi else f"{value} [{lo}, {hi}]"


def gate(verdict: Table) -> Sequence[str]:
    """Return a verdict in cells: gate, arm, value, runs, verdict."""
    mark = MARKS[verdict["met"]] + (" (fragile)" if verdict["fragile"] else "")
    if "value" not in verdict:
        return verdict["gate"], verdict["arm"], "–", "–", f"{mark}: {verdict['why']}"
    runs = f"{verdict['runs_met']} of {verdict['n']}"
    return (verdict["gate"], verdict["arm"], figure(verdict["metric"], verdict), runs, mark)


def others(count: int) -> str:
    """Return the cells beside the one that is judged."""
    return "The other cell" if count == 1 else f"The other {count} cells"


def cells(verdicts: Iterable[Table]) -> Iterator[tuple[str, int, list[tuple[Table, Table | None]]]]:
    """Yield each other cell of a scenario's grid: its name, how many runs, and what each gate's
    figure comes to in it.
    """
    listed = list(verdicts)
    for cell in dict.fromkeys(cell for verdict in listed for cell in verdict["cells"]):
        outcomes = [(verdict, verdict["cells"].get(cell)) for verdict in listed]
        yield cell, max(outcome["n"] for _, outcome in outcomes if outcome), outcomes


def parameters(params: Mapping[str, Any]) -> str:
    """Return a scenario's own parameters; how agents read and what things cost is the same
    everywhere unless it is varied.
    """
    own = {name: value for name, value in params.items() if name not in PARAMETERS}
    return ", ".join(f"{name} {value}" for name, value in (own or params).items())


def together(warnings: Iterable[str]) -> Iterator[str]:
    """Warnings that say the same of several scenarios as one."""
    grouped: dict[str, list[str]] = {}
    for warning in warnings:
        scenario, _, text = warning.partition(": ")
        grouped.setdefault(text or warning, []).append(scenario if text else "")
    for text, scenarios in grouped.items():
        names = ", ".join(filter(None, scenarios))
        yield f"{names}: {text}" if names else text


def levels(table: Table) -> Iterator[tuple[str, str, str]]:
    """Yield the three levels of evidence: which, what it is, and whether it is in this report. None
    is ever `passed`.
    """
    run, parts_of = table["run"], table.get("recorded", {})
    played = f"played: {run['runs']:,} runs"
    yield (
        "L0",
        "scripted agents",
        played if run["level"] == "L0" else "not played: `brain-suite run ID`",
    )
    yield (
        "L1",
        "retrieval",
        retrieved(parts_of[RETRIEVAL])
        if RETRIEVAL in parts_of
        else ("not played: `brain-suite retrieval FILE`"),
    )
    live = (
        f"{played} by {', '.join(run['engines'])}"
        if run["level"] == "L2"
        else run.get("live", "not asked for")
    )
    yield "L2", "real models", live


def measured(run: Table) -> str | None:
    """Return where parameters of agents come from that were measured; None where all are
    assumed.
    """
    if "parameters" not in run:
        return None
    source, values = run["parameters"]["source"], run["parameters"]["values"]
    source_text = " ".join(
        str(source[name]) for name in ("engine", "model", "date") if name in source
    )
    figures = (
        f"{name} {percent(one['value'])}"
        + (
            f" [{percent(one['lo'])}, {percent(one['hi'])}]"
            if None not in (one["lo"], one["hi"])
            else ""
        )
        + (f" n {one['n']}" if one["n"] else "")
        for name, one in values.items()
    )
    return (
        f"Parameters of agents measured on {source_text or source}: {', '.join(figures) or 'none'}."
        " The others are assumed."
    )


def retrieved(found: Table) -> str:
    ten = figure("R@10", found["figures"]["R@10"])
    return (
        f"played: {found['questions']} questions about {found['turns']} turns: recall at 10 {ten}"
    )


def pays(each: Mapping[str, Any]) -> str:
    """Return from where on memory pays, as a sentence."""
    conditions = ", ".join(
        f"{name} {value}" for name, value in each["where"].items() if name != "n"
    )
    conditions = f" at {conditions}" if conditions else ""
    teams = ", ".join(map(str, each["teams"]))
    if each["team"] is None:
        return f"{each['arm']}{conditions}: it does not pay at any size that was played ({teams})"
    return f"{each['arm']}{conditions}: it pays from {each['team']} agents on (of {teams})"


# -- figures in a few signs, so that the arms of a scenario stand beside each other ----------------


def saved(interval: Table) -> str:
    """Return a saving and its interval, in at most 18 signs."""
    if interval["lo"] < -9.985:
        return f"{1 - interval['value']:,.0f}x as many"
    return f"{interval['value']:.0%} [{interval['lo'] * 100:.0f}, {interval['hi'] * 100:.0f}]"


def share(value: float) -> str:
    """Return a share in at most five signs, up to a hundredfold."""
    if value >= 99.995:
        return f"{value:,.0f}x"
    return f"{value:.1%}" if value < 0.9995 else f"{value:.0%}"


def dollars(value: float) -> str:
    """Return dollars in at most six signs, below a million."""
    size, unit = (1e3, "k") if value >= 999.5 else (1.0, "")
    places = 3 if value < 0.9995 else 2 if value < 9.995 else 1 if value < 99.95 else 0
    return f"${value / size:.{places}f}{unit}"


def thousands(value: float) -> str:
    """Return a number in three digits and its unit."""
    size, unit = (1e6, "M") if value >= 999_500 else (1e3, "k") if value >= 999.5 else (1.0, "")
    return f"{value / size:.3g}{unit}" if value / size < 999.5 else f"{value / size:,.0f}{unit}"
