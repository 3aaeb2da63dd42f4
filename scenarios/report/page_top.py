"""The top of a report's page: its result, what was compared, its tiles. Called by `page`."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from scenarios.measure.findings import Table
from scenarios.report import pictures, summary
from scenarios.report.html import picture_html, table
from scenarios.report.report import LEVELS, ONLY_CHANCE, Report
from scenarios.report.words import measured, percent


def top(report: Report) -> Iterator[str]:
    run = report.table["run"]
    meaning = escape(LEVELS[run["level"]].partition(":")[0])
    yield f'<header><span class="level">{run["level"]} · {meaning}</span>'
    yield "<h1>What coordination costs, and what it saves</h1>"
    yield f'<p class="lede">{escape(summary.sentence(report.table))}</p>'
    tiles = "".join(
        f"<li><b>{escape(value)}</b><span>{escape(what)}</span></li>"
        for value, what in _tiles(report)
    )
    yield f'<ul class="tiles">{tiles}</ul></header>'
    yield from _compared(report.table)
    if run["level"] == "L0":
        yield f'<p class="note">{escape(ONLY_CHANCE)}</p>'
    if source := measured(run):
        yield f'<p class="note">{escape(source)}</p>'
    drawn = list(pictures.headlines(report))
    if drawn:
        yield "<h2>The product beside its rivals, on the same seeds</h2><div class='charts'>"
        yield from map(picture_html, drawn)
        yield "</div>"
    if report.table["against"]:
        rows = [
            f"<tr><th scope='row'>{escape(name)}</th><td class='words'>{escape(agents)}</td>"
            f"{''.join(f'<td>{_saving(tile)}</td>' for tile in row)}</tr>"
            for name, agents, *row in map(summary.cells, report.table["against"])
        ]
        scenario, agents, *heads = summary.HEAD
        yield table((scenario, f"<{agents}", *heads), rows)
        yield f"<p class='soft'>{escape(summary.meant(report.table))}</p>"


def _saving(text: str) -> str:
    """Return a cell of the table, with the rival below what is saved beside it."""
    value, _, rival = text.partition("] v ")
    return f"{escape(value)}]<small>v {escape(rival)}</small>" if rival else escape(text)


def _compared(table: Table) -> Iterator[str]:
    """Yield what was compared with what: every arm, by its kind."""
    yield "<h2>What is compared with what</h2><div class='kinds'>"
    for description, arms in summary.arms(table):
        kind, _, details = description.partition(": ")
        small = f"<small>{escape(details)}</small>" if details else ""
        rows = "".join(
            f"<dt><code>{escape(arm)}</code></dt><dd>{escape(names)}</dd>" for arm, names in arms
        )
        title = escape(kind[0].upper() + kind[1:])
        yield f"<section><h3>{title}{small}</h3><dl>{rows}</dl></section>"
    yield "</div>"
    sentences = list(summary.equals(table))
    if sentences:
        yield (
            f"<ul class='plain"
            f" soft'>{''.join(f'<li>{escape(sentence)}</li>' for sentence in sentences)}</ul>"
        )


def _tiles(report: Report) -> Iterator[tuple[str, str]]:
    rows = summary.headline(report.table)
    for row in [
        item
        for item in rows
        if item["best"] and (len(rows) == 1 or item["scenario"] == pictures.MAIN)
    ]:
        best, cheapest, figures = row["best"], row["best_usd"], row["figures"]
        location = f"{row['scenario']}, {row['agents']} agents"
        for unit, rival in (("tokens", best), ("usd", cheapest)):
            comparison = row["beside"][rival][unit]
            description = (
                f"{'dollars' if unit == 'usd' else unit}"
                f" {'fewer' if comparison['value'] >= 0 else 'more'} than {rival}"
            )
            yield (
                percent(abs(comparison["value"])),
                f"{description} {summary.ends(comparison)}; {location}",
            )
        if "co_task" in figures:
            memory = percent(figures["co_memory"]["value"])
            yield (
                percent(figures["co_task"]["value"]),
                f"all coordination ÷ task, of which memory {memory}; {location}",
            )
    judged = [item["met"] for item in report.table["verdicts"] if item["met"] is not None]
    yield f"{sum(judged)} of {len(judged)}", "thresholds met"
    yield (
        f"{report.table['run']['runs']:,}",
        f"runs of {len(report.study.scenarios)} scenario{'s' * (len(report.study.scenarios) != 1)}",
    )
