"""Which charts a report has, and what they are drawn from. Where its runs were not played, one says
what to play.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from scenarios.measure import findings
from scenarios.measure.findings import Table
from scenarios.measure.statistics import Interval
from scenarios.measure.study import ISOLATED, Study
from scenarios.report import charts, summary, words
from scenarios.report.charts import Bar, Frame, Measure, Point, Series
from scenarios.report.report import Report

# The page's colour of each arm; whoever is not named takes the next.
COLOURS = {
    "isolated": 0, "broadcast": 1, "manager": 2, "shared_file": 3, "view": 4, "view_capsule": 5,
    "shipped": 6,
    "placebo": 7, "capsule": 8, "oracle": 9, "native_store": 10, "off": 0, "weekly": 1,
    "nightly": 6,
}  # fmt: skip
# What tokens were for, as a stack of bars has them: work in greys, what the memory put there in
# colour.
STACK = (
    ("instructions and task", ("system", "task"), 20),
    ("what is said of memory and team", ("guide",), 7),
    ("own words before", ("history",), 21),
    ("observations", ("work_obs",), 22),
    ("replies", ("work_out",), 23),
    ("planning and retries", ("plan", "retry"), 1),
    ("view", ("view",), 6),
    ("tool schemas", ("tool_schema",), 4),
    ("search results", ("capsule",), 5),
    ("wakes", ("wake",), 2),
    ("write-back and nights", ("writeback", "consolidation"), 3),
)
MAIN = "landing_pages"
RIVALS = 21  # the colour of their bars
CURVE = ("isolated", "broadcast", "manager", "view", "view_capsule", "shipped")


class Picture(NamedTuple):
    """A chart with what it shows; without a drawing, `missing` says what has to be played for
    it.
    """

    title: str
    caption: str
    drawing: str = ""
    missing: str = ""
    legend: Sequence[tuple[str, int]] = ()


def headlines(report: Report) -> Iterator[Picture]:
    """Yield the product and every rival of each scenario, on the same seeds; the most degraded
    agents first.
    """
    for row in report.table["against"]:
        product, bars = row["product"], row["bars"]
        names = sorted(bars, key=lambda arm: (arm != product, bars[arm]["tokens"]["value"]))
        drawn = [_measure(arm, bars[arm], arm == product) for arm in names]
        seeds = f"{row['n']} seed{'s' * (row['n'] != 1)}, the same for all"
        title = f"{row['scenario']}, {row['agents']} agents"
        caption = f"Tokens, dollars and tasks done right of a run, {summary.agents(row)}; {seeds}."
        best = f"the best rival is {row['best']}" if row["best"] else summary.NO_RIVAL
        best += "" if row["best"] == row["best_usd"] else f", by dollars {row['best_usd']}"
        caption += f" Lines are 95 % intervals; {best}."
        yield Picture(title, caption, charts.measures(title, drawn, charts.thousands))


def _measure(arm: str, bar: Table, product: bool) -> Measure:
    tokens, note = bar["tokens"], f"${bar['usd']['value']:.2f} · {bar['success']:.0%}"
    colour = COLOURS["shipped"] if product else RIVALS
    return Measure(arm, tokens["value"], tokens["lo"], tokens["hi"], note, colour, product)


def of(report: Report) -> Iterator[Picture]:
    """Yield every chart; each says of what level of evidence it is."""
    level = report.table["run"]["level"]
    for draw in (_by_team, _surface, _stack, _pareto, _waits, _hops, _month, _recall):
        picture = draw(report)
        yield (
            picture._replace(caption=f"{level}. {picture.caption}") if picture.drawing else picture
        )


def _first(study: Study, holds: Callable[[str], bool], preferred: str = MAIN) -> str | None:
    """Return the scenario that a chart is about: the preferred one, else the first of which it can
    be drawn.
    """
    order = sorted(study.scenarios, key=lambda name: name != preferred)
    return next((name for name in order if holds(name)), None)


def _colour(arm: str, number: int) -> int:
    return COLOURS.get(arm, number % 11)


def _point(x: float, value: Interval, n: int) -> Point:
    return Point(x, value.value, value.lo, value.hi, n)


# -- Size of the team ------------------------------------------------------------------


def _teams(study: Study, scenario: str, arm: str) -> list[tuple[int, str]]:
    """Return the sizes of team that an arm was played with, all else being as it is in the first
    cell.
    """
    sizes = {}
    for cell in findings.surface(study, scenario):
        pairs = study.pairs(scenario, arm, ISOLATED, cell)
        if pairs and study.varied(scenario, cell) <= {"n"}:
            sizes[pairs[0][0].team] = cell
    return sorted(sizes.items())


def _by_team(report: Report) -> Picture:
    study, title = report.study, "Net saving against the size of the team"
    name = _first(
        study,
        lambda each: len(_teams(study, each, study.gated(each) or "")) > 1,
        "redundant_discovery",
    )
    if name is None:
        return Picture(title, "", missing="brain-suite run redundant_discovery")
    gated, series = study.gated(name), []
    for number, arm in enumerate(study.arms(name)):
        sizes = _teams(study, name, arm)
        if arm == ISOLATED or len(sizes) < 2:
            continue
        found = [
            _point(team, study.saving(name, arm, ISOLATED, cell), len(study.of(name, arm, cell)))
            for team, cell in sizes
        ]
        series.append(Series(arm, found, _colour(arm, number), arm == gated))
    at = [point.x for point in max(series, key=lambda each: len(each.points)).points]
    frame = Frame(
        "agents in the team",
        "tokens saved beside isolated agents",
        charts.plain,
        charts.percent,
        0.0,
        x_at=at,
    )
    caption = (
        f"{name}: 1 − tokens ÷ tokens of isolated agents, pairs of runs with the same"
        f" seed; bars are 95 % intervals."
    )
    return Picture(title, caption, charts.lines(title, frame, series))


def _surface(report: Report) -> Picture:
    study, title = report.study, "Net saving over the grid"
    name = _first(study, lambda each: _other(study, each) is not None, "redundant_discovery")
    if name is None:
        return Picture(title, "", missing="brain-suite run redundant_discovery")
    axis, arm = _other(study, name) or "", study.gated(name) or ""
    cells: dict[tuple[object, int], tuple[Interval, int]] = {}
    default = report.table["scenarios"][name]["params"].get(axis)
    for cell in _within(study, name, axis):
        pairs = study.pairs(name, arm, ISOLATED, cell)
        if pairs:
            level = dict(pairs[0][0].cell).get(axis, default)
            cells[level, pairs[0][0].team] = (study.saving(name, arm, ISOLATED, cell), len(pairs))
    caption = (
        f"{name}: net saving of {arm} by {axis} and agents. A frame: the interval lies"
        f" above 0. n in each cell."
    )
    return Picture(title, caption, _heat(axis, cells))


def _within(study: Study, name: str, other: str) -> list[str]:
    """Return the cells in which nothing differs but the team and this parameter."""
    return [
        cell for cell in findings.surface(study, name) if study.varied(name, cell) <= {"n", other}
    ]


def _other(study: Study, name: str) -> str | None:
    """Return the parameter that varies with the team in most cells; None where none does."""
    both = [study.varied(name, cell) for cell in findings.surface(study, name)]
    names = sorted({each for varied in both if "n" in varied for each in varied - {"n"}})
    if study.gated(name) is None or not names:
        return None
    return max(names, key=lambda each: len(_within(study, name, each)))


def _heat(other: str, cells: dict[tuple[object, int], tuple[Interval, int]]) -> str:
    teams = sorted({team for _, team in cells})
    rows = sorted({column for column, _ in cells}, key=lambda each: (isinstance(each, str), each))
    head = "".join(f"<th scope='col'>{team}</th>" for team in teams)
    body = ""
    for column in rows:
        data = "".join(_cell(cells.get((column, team))) for team in teams)
        body += f"<tr><th scope='row'>{column}</th>{data}</tr>"
    return (
        f"<table class='heat'><thead><tr><th>{other} ╲"
        f" agents</th>{head}</tr></thead><tbody>{body}</tbody></table>"
    )


def _cell(found: tuple[Interval, int] | None) -> str:
    if found is None:
        return "<td class='none'>–</td>"
    saving, n = found
    kind = "good" if saving.value > 0 else "bad"
    sure = " sure" if saving.lo > 0 else ""
    strength = min(round(abs(saving.value) * 100), 80)
    return (
        f"<td class='{kind}{sure}'"
        f" style='--s:{strength}%'>{words.percent(saving.value)}<small>n {n}</small></td>"
    )


# -- One scenario ----------------------------------------------------------------------


def _stack(report: Report) -> Picture:
    study, title = report.study, "What tokens were spent on"
    name = _first(
        study,
        lambda each: any("tokens.system" in study.figures(each, arm) for arm in study.arms(each)),
    )
    if name is None:
        return Picture(title, "", missing="brain-suite run landing_pages")
    bars, used = [], set[str]()
    for arm in study.arms(name):
        figures = study.figures(name, arm)
        amounts = []
        for part, labels, _ in STACK:
            value = sum(
                figures[f"tokens.{label}"].value for label in labels if f"tokens.{label}" in figures
            )
            if value:
                amounts.append((part, value))
                used.add(part)
        bars.append(Bar(arm, amounts, arm == study.gated(name)))
    colours = {part: colour for part, _, colour in STACK}
    caption = (
        f"{name}: tokens of a run, billed, by what they were for. Greys are work, colours"
        f" what sharing put there."
    )
    legend = [(part, colour) for part, _, colour in STACK if part in used]
    return Picture(
        title, caption, charts.stacked(title, bars, colours, charts.thousands), legend=legend
    )


def _pareto(report: Report) -> Picture:
    study, title = report.study, "Cost against success"
    name = _first(
        study,
        lambda each: (
            len(study.arms(each)) > 2 and "task_success" in study.figures(each, study.arms(each)[0])
        ),
    )
    if name is None:
        return Picture(title, "", missing="brain-suite run landing_pages")
    gated, state = study.gated(name), []
    for number, arm in enumerate(study.arms(name)):
        figures = study.figures(name, arm)
        if "usd" in figures and "task_success" in figures:
            point = Point(
                figures["usd"].value, figures["task_success"].value, n=len(study.of(name, arm))
            )
            state.append(Series(arm, [point], _colour(arm, number), arm == gated))
    frame = Frame(
        "dollars per run, with cache discount",
        "tasks done right",
        _dollars,
        charts.percent,
        0.9,
        1.0,
    )
    caption = f"{name}: up and to the left is better. Dollars by the list price in the ledger."
    return Picture(title, caption, charts.points(title, frame, state))


def _dollars(value: float) -> str:
    return f"${value:.2f}"


def _waits(report: Report) -> Picture:
    study, title = report.study, "How soon an agent that works has read the news"
    name = _first(
        study,
        lambda each: any(_all_waits(study, each, arm) for arm in study.arms(each)),
        "api_migration_wake",
    )
    if name is None:
        return Picture(title, "", missing="brain-suite run api_migration_wake")
    gated, series = study.gated(name), []
    last = max(wait for arm in study.arms(name) for wait in _all_waits(study, name, arm))
    for number, arm in enumerate(study.arms(name)):
        waits = _all_waits(study, name, arm)
        delivered = study.figures(name, arm).get("wake_delivery")
        if waits and delivered:
            shares = [Point(0.0, 0.0)] + [
                Point(wait, (at + 1) / len(waits) * delivered.value)
                for at, wait in enumerate(waits)
            ]
            shares.append(Point(last, delivered.value))
            series.append(Series(arm, shares, _colour(arm, number), arm == gated, stepped=True))
    frame = Frame(
        "virtual seconds after the write",
        "share of deliveries",
        charts.plain,
        charts.percent,
        0.0,
        1.0,
    )
    caption = (
        f"{name}: from the write to the first prompt that holds it, for agents that"
        f" had a session; the curve ends at the share that was delivered at all. Arms"
        " without a curve told nobody."
    )
    return Picture(title, caption, charts.lines(title, frame, series))


def _all_waits(study: Study, name: str, arm: str) -> list[float]:
    return sorted(wait for sample in study.of(name, arm) for wait in sample.waits)


def _hops(report: Report) -> Picture:
    study, title = report.study, "What is left after so many hops"

    def hops(name: str, arm: str) -> list[int]:
        figures = study.figures(name, arm)
        return sorted(
            int(name_of[9:])
            for name_of in figures
            if name_of.startswith("fidelity.") and name_of[9:].isdigit()
        )

    name = _first(
        study,
        lambda name_of: any(len(hops(name_of, arm)) > 1 for arm in study.arms(name_of)),
        "telephone",
    )
    if name is None:
        return Picture(title, "", missing="brain-suite run telephone")
    gated, series = study.gated(name), []
    for number, arm in enumerate(study.arms(name)):
        figures, n = study.figures(name, arm), len(study.of(name, arm))
        points = [_point(hop, figures[f"fidelity.{hop}"], n) for hop in hops(name, arm)]
        if points and (arm in CURVE or arm == gated):
            series.append(Series(arm, points, _colour(arm, number), arm == gated))
    at = [point.x for point in series[0].points]
    frame = Frame(
        "hops",
        "facts acted on that were exactly right",
        charts.plain,
        charts.percent,
        0.0,
        1.0,
        x_at=at,
    )
    caption = (
        f"{name}: every agent of a chain acts on what it was told and says it again."
        f" Isolated agents find out anew."
    )
    return Picture(title, caption, charts.lines(title, frame, series))


def _month(report: Report) -> Picture:
    study, title = report.study, "Thirty days of a memory"
    name = _first(
        study,
        lambda item: any(one.days for arm in study.arms(item) for one in study.of(item, arm)),
        "defrag_30_days",
    )
    if name is None:
        return Picture(title, "", missing="brain-suite run defrag_30_days")
    gated, series = study.gated(name), []
    for number, arm in enumerate(study.arms(name)):
        by_day: dict[float, list[float]] = {}
        for item in study.of(name, arm):
            for day, tokens in item.days:
                by_day.setdefault(day, []).append(tokens)
        points = [
            Point(day, sum(item) / len(item), n=len(item)) for day, item in sorted(by_day.items())
        ]
        if points:
            series.append(Series(arm, points, _colour(arm, number), arm == gated))
    frame = Frame("day", "tokens of all live entries", charts.plain, charts.thousands, 0.0)
    caption = f"{name}: the mean over runs."
    return Picture(title, caption, charts.lines(title, frame, series))


def _recall(report: Report) -> Picture:
    study, title = report.study, "How much less is shown, and what of the needed"

    def ready(name: str) -> bool:
        figures = study.figures(name, study.gated(name) or "")
        reduced = figures.get("context_reduction")
        least = reduced is not None and reduced.value > 0 and "needed_recall" in figures
        return least and len(study.arms(name)) > 2

    name = _first(study, ready, "context_explosion")
    if name is None:
        return Picture(title, "", missing="brain-suite run context_explosion")
    gated, state = study.gated(name), []
    for number, arm in enumerate(study.arms(name)):
        figures, n = study.figures(name, arm), len(study.of(name, arm))
        if "context_reduction" in figures and "needed_recall" in figures:
            point = Point(figures["context_reduction"].value, figures["needed_recall"].value, n=n)
            state.append(Series(arm, [point], _colour(arm, number), arm == gated))
    frame = Frame(
        "context that is not sent",
        "needed entries that were shown or found",
        charts.percent,
        charts.percent,
        0.0,
        1.0,
    )
    caption = (
        f"{name}: a reduction counts for nothing where what was needed is not there. Up"
        f" and to the right is better."
    )
    return Picture(title, caption, charts.points(title, frame, state))
