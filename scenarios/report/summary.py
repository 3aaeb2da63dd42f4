"""What a report begins with, in words: the one sentence of its result, what was compared with what,
and a row for each scenario. What it says stands in the report already; every form of a report says
it alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from scenarios.data.schema import DEGRADED, PARAMETERS
from scenarios.measure import dollars
from scenarios.measure.findings import Table
from scenarios.report.words import amount, percent

KINDS: Mapping[str, str] = {
    "product": "the product, as it ships",
    "rival": "rivals: other ways to share what is known",
    "control": "controls: nothing is shared, or everything is known",
    "ablation": "ablations: the product with a part of it changed; no result of the product",
}
HEAD = (
    "scenario",
    "agents",
    "tokens",
    "dollars",
    "done right",
    "found twice",
    "needed shown",
    "all ÷ task",
    "memory ÷ task",
)
NO_RIVAL = "no rival does as many tasks"
MEANT = (
    "Tokens and dollars: how many fewer the product takes than the best rival, seed"
    " by seed, with the 95 % interval; the best is the rival that takes the fewest of"
    " those that do their tasks. Done right: tasks of the product v that rival. Found"
    " twice: of what was found out, the share that memory held already. Needed shown:"
    " of what was needed and held, the share that was shown. All ÷ task: tokens of all"
    " coordination beside those of the work; memory ÷ task: memory's part of it."
)


def arms(table: Table) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Return each kind of arm in words, with the arms of that kind and what each is."""
    listed: dict[str, dict[str, str]] = {kind: {} for kind in KINDS}
    for scenario in table["scenarios"].values():
        for arm, kind in scenario.get("kinds", {}).items():
            away = scenario["missing"].get(arm)
            listed[kind][arm] = (
                f"{scenario['arms'][arm]} (not played: {away})" if away else scenario["arms"][arm]
            )
    for kind, description in KINDS.items():
        if listed[kind]:
            yield description, list(listed[kind].items())


def order(scenario: Table, played: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Return the arms that were played by their kind: the product, its rivals, controls,
    ablations.
    """
    kinds = scenario.get("kinds", {})
    groups = [
        (kind, [arm for arm in played if kinds.get(arm, "ablation") == kind]) for kind in KINDS
    ]
    return [(kind, group) for kind, group in groups if group]


def headline(table: Table) -> list[Table]:
    """Return a row of each scenario, with the most degraded agents that it was played with."""
    rows: dict[str, Table] = {}
    for row in table["against"]:
        rows.setdefault(row["scenario"], row)
    return list(rows.values())


def sentence(table: Table) -> str:
    """Return the result in one sentence."""
    rows = headline(table)
    if not rows:
        kinds = {
            kind
            for scenario in table["scenarios"].values()
            for kind in scenario.get("kinds", {}).values()
        }
        if "product" not in kinds:
            return "The product was not played: nothing here says what it saves."
        return "The product was held against no rival: nothing here says how it does beside others."
    if len(rows) == 1:
        return _of_one(rows[0])
    return _of_several(rows)


def _of_several(rows: Sequence[Table]) -> str:
    kept_rows = [row for row in rows if row["best"]]
    alone = [row["scenario"] for row in rows if not row["best"]]
    none = f"in {', '.join(alone)} no rival does as many tasks right" if alone else ""
    if not kept_rows:
        return (
            f"No rival does as many tasks right as {rows[0]['product']}, {_agents(rows)}:"
            f" {', '.join(alone)}."
        )
    saved = [(float(row["beside"][row["best"]]["tokens"]["value"]), row) for row in kept_rows]
    usd = [float(row["beside"][row["best_usd"]]["usd"]["value"]) for row in kept_rows]
    fewer = sum(value > 0 for value, _ in saved)
    (most, best), (least, worst) = (which(saved, key=_value) for which in (max, min))
    lost = [row for row in kept_rows if not row["beside"][row["best"]]["no_worse"]]
    names = ", ".join(f"{row['scenario']} ({_success(row, row['best'])})" for row in lost)
    return (
        f"{best['product']} takes fewer tokens than the best rival in {fewer} of"
        f" {len(kept_rows)} scenarios, {_agents(rows)}: from {_more_or_less(most)}"
        f" ({best['scenario']}, {best['best']}) to {_more_or_less(least)}"
        f" ({worst['scenario']}, {worst['best']}); dollars from"
        f" {_more_or_less(max(usd))} to {_more_or_less(min(usd))}; tasks done right: "
        f"{f'fewer in {names}' if lost else 'no fewer in any'}{f'; {none}' if none else ''}."
    )


def _value(pair: tuple[float, Table]) -> float:
    return pair[0]


def _of_one(row: Table) -> str:
    best, cheapest = row["best"], row["best_usd"]
    if best is None:
        most = max(bar["success"] for arm, bar in row["bars"].items() if arm != row["product"])
        ours = percent(row["bars"][row["product"]]["success"])
        return (
            f"No rival does as many tasks right as {row['product']}, {_agents([row])}:"
            f" {ours} v {percent(most)} at most; {_runs(row)}."
        )
    tokens, usd = row["beside"][best]["tokens"], row["beside"][cheapest]["usd"]
    by = (
        f"the best rival ({best})"
        if best == cheapest
        else f"the best rivals ({best}; {cheapest} by dollars)"
    )
    return (
        f"{row['product']} takes {_more_or_less(tokens['value'])} tokens {ends(tokens)} and"
        f" {_more_or_less(usd['value'])} dollars {ends(usd)} than {by},"
        f" {_agents([row])}; tasks done right: {_success(row, best)}; {_runs(row)}."
    )


def _runs(row: Table) -> str:
    return f"{row['n']} run{'s' * (row['n'] != 1)} of each, the same seeds"


def agents(row: Table) -> str:
    """Return what agents a row was played with, in words."""
    return f"with {row['agents']} agents"


def _agents(rows: Sequence[Table]) -> str:
    lacks = {tuple(row["lacks"].items()) for row in rows}
    if lacks == {()}:
        return "with ideal agents"
    if len(lacks) == 1:
        return f"with agents as degraded as {_parameters(rows[0]['lacks'])}"
    return "with degraded agents where they were played"


def _parameters(lacks: Mapping[str, object]) -> str:
    return ", ".join(f"{name} {value}" for name, value in lacks.items())


def _more_or_less(value: float) -> str:
    return f"{abs(value):.0%} {'fewer' if value >= 0 else 'more'}".replace("%", " %")


def ends(interval: Table) -> str:
    """Return the interval of a saving, or of its opposite, as it stands in the sentence."""
    if interval["value"] >= 0:
        return _between(interval)
    return f"[{-interval['hi'] * 100:.0f}, {-interval['lo'] * 100:.0f}]"


def _between(interval: Table) -> str:
    return f"[{interval['lo'] * 100:.0f}, {interval['hi'] * 100:.0f}]"


def _success(row: Table, rival: str) -> str:
    ours, theirs = (row["bars"][arm]["success"] for arm in (row["product"], rival))
    return f"{percent(ours)} v {percent(theirs)}"


def cells(row: Table) -> Sequence[str]:
    """Return a row of the table in cells, under `HEAD`."""
    best, cheapest = row["best"], row["best_usd"]
    figures = [
        amount(name, row["figures"][name]["value"]) if name in row["figures"] else "–"
        for name in ("redundancy", "needed_recall", "co_task", "co_memory")
    ]
    agents = f"{row['agents']} (n {row['n']})"
    if best is None:
        return row["scenario"], agents, NO_RIVAL, NO_RIVAL, "–", *figures
    return (
        row["scenario"],
        agents,
        f"{_saved(row['beside'][best]['tokens'])} v {best}",
        f"{_saved(row['beside'][cheapest]['usd'])} v {cheapest}",
        _success(row, best),
        *figures,
    )


def meant(table: Table) -> str:
    """Return what the columns of the table mean, and how degraded its agents were."""
    lacks = {
        _parameters(row["lacks"]): None for row in table["against"] if row["agents"] == DEGRADED
    }
    return f"{MEANT} Degraded agents: {'; '.join(lacks)}; {_sources()}." if lacks else MEANT


def _sources() -> str:
    """Return where the values of degraded agents come from, in words."""
    return "; ".join(
        dict.fromkeys(one.source for one in PARAMETERS.values() if one.degraded is not None)
    )


def _saved(interval: Table) -> str:
    return f"{interval['value'] * 100:+.0f} % {_between(interval)}"


def equals(table: Table) -> Iterator[str]:
    """Return which arms came out equal, and where, in words."""
    cells: dict[tuple[str, ...], dict[str, None]] = {}
    for row in table["equal"]:
        cells.setdefault(tuple(row["arms"]), {})[row["scenario"]] = None
    for arms, places in cells.items():
        yield f"{_listed(arms)} came out equal, run by run, in {', '.join(places)}."


def _listed(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"


def overhead(row: Table) -> str:
    """Return what coordination took, in words: all of it beside the task, memory's part, single
    runs.
    """
    figures, runs = row["figures"], row["runs"]
    if "co_task" not in figures:
        return ""
    return (
        f"{row['scenario']}: all coordination ÷ task"
        f" {percent(figures['co_task']['value'])} (single runs"
        f" {percent(runs['co_task']['least'])} to {percent(runs['co_task']['most'])}),"
        f" of which memory {percent(figures['co_memory']['value'])}"
        f" ({percent(runs['co_memory']['least'])} to"
        f" {percent(runs['co_memory']['most'])})"
    )


def price_list() -> Iterator[str]:
    """Return how dollars are made, a line for each model of a cache."""
    for name, prices in dollars.MODELS.items():
        figure = "usd" if name == dollars.DEFAULT else f"usd_{name}"
        yield (
            f"{figure} ({name}): per million tokens ${prices.input:g} input,"
            f" ${prices.written:g} written to the cache, ${prices.cached:g} read from"
            f" it, ${prices.output:g} output; an entry lives {prices.lifetime // 60}"
            f" minutes of virtual time after its last use, from {prices.least:,} tokens"
            f" on; {prices.source}."
        )
