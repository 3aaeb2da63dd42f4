"""Two reports beside each other: what became worse. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from scenarios.data.schema import OF_MEMORY

TOLERANCE = 0.02  # of a share, or of the figure itself: less is no change
# The figures that have a good side: 1 where more is better, -1 where less is.
BETTER: Mapping[str, int] = {
    "task_success": 1, "success": 1, "net_saving": 1, "saving_vs_broadcast": 1,
    "saving_vs_best": 1, "usd_vs_best": 1, "success_vs_isolated": 1, "success_vs_best": 1,
    "needed_recall": 1,
    "context_reduction": 1, "fidelity": 1, "fidelity.8": 1, "wake_delivery": 1, "wake_precision": 1,
    "seen_before_work": 1, "memory_participation": 1, "fact_retention": 1, "tokens": -1,
    "co_memory": -1, "co_task": -1,
    "redundancy": -1, "stale_after_delivery": -1, "wake_latency": -1, "wake_turns": -1,
    "wake_duplicates": -1,
    "lost_results": -1, "asr_act": -1, "asr_view": -1, "false_positives": -1, "lost_writes": -1,
    "repeated_share": -1,
    "tokens_per_success": -1, "usd_per_success": -1, "corruption": -1,
}  # fmt: skip
SHARES = (
    "tokens",
    "tokens_per_success",
    "usd_per_success",
    "wake_latency",
    "wake_turns",
)  # judged by their own size


class Change(NamedTuple):
    """A figure of both reports, or a gate; `worse` where it has to be looked at."""

    what: str
    before: float | str
    after: float | str
    worse: bool

    @property
    def line(self) -> str:
        return (
            f"{'WORSE' if self.worse else 'better':<7}{self.what}: {_short(self.before)}"
            f" -> {_short(self.after)}"
        )


def changes(
    before: Mapping[str, Any], after: Mapping[str, Any], tolerance: float = TOLERANCE
) -> Iterator[Change]:
    """Yield figures that moved beyond their interval and the tolerance, and gates that changed."""
    yield from _gates(before, after)
    for key, figures in before["metrics"].items():
        later = after["metrics"].get(key)
        if later is None:
            if not _stands_for(key, after):
                yield Change(key, "played", "not played", True)
            continue
        for name, old in figures.items():
            if name not in BETTER:
                continue
            if name not in later:
                yield Change(f"{key} {name}", old["value"], "not measured", True)
            elif change := _moved(f"{key} {name}", name, old, later[name]["value"], tolerance):
                yield change


def _stands_for(key: str, after: Mapping[str, Any]) -> bool:
    """Return whether other runs of isolated agents stand for these: the cells differ only in
    memory.
    """
    name, _, cell = key.partition("@")
    varied = {setting.partition("=")[0] for setting in cell.split(",")}
    return (
        name.rpartition("/")[2] == "isolated" and varied <= OF_MEMORY and name in after["metrics"]
    )


def _moved(
    what: str, name: str, old: Mapping[str, float], new: float, tolerance: float
) -> Change | None:
    least = tolerance * (abs(old["value"]) if name in SHARES else 1.0)
    if old["lo"] <= new <= old["hi"] or abs(new - old["value"]) <= least:
        return None
    return Change(what, old["value"], new, (new - old["value"]) * BETTER[name] < 0)


def _gates(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Change]:
    now = {(verdict["scenario"], verdict["gate"]): verdict["met"] for verdict in after["verdicts"]}
    words = {True: "met", False: "missed", None: "not played"}
    for verdict in before["verdicts"]:
        is_met = now.get((verdict["scenario"], verdict["gate"]))
        if is_met != verdict["met"]:
            name = f"{verdict['scenario']}: {verdict['gate']}"
            yield Change(
                name,
                words[verdict["met"]],
                words[is_met],
                verdict["met"] is True or is_met is False,
            )


def _short(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.4g}"
