"""report.html: the Markdown of a report as one page that holds everything it needs: no script, no
network, light and dark. Text in, text out.

`pictures` decides what is drawn.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from html import escape

from markdown_it import MarkdownIt

from orchestrator.reports.page import page
from scenarios.report import markdown, pictures, summary
from scenarios.report.pictures import Picture
from scenarios.report.report import LEVELS, Report
from scenarios.report.words import percent

FIRST_CELL = re.compile(r"<tr>\n<td[^>]*>(.*?)</td>")
INTERVAL = re.compile(r"(<td[^>]*>[^<\[]+) (\[[^\]<]*\][^<]*)")


def html(report: Report) -> str:
    body = "\n".join((*_top(report), *_sections(report)))
    return page("Brain Suite: what coordination costs and saves", body)


def _sections(report: Report) -> Iterator[str]:
    """Yield the document below its title, with the pictures behind the first comparison."""
    section: list[str] = []
    _, _, _, *lines = markdown.lines(report)
    for line in (*lines, "## "):
        if line.startswith("## ") and section:
            yield rendered(section)
            if section[0] == markdown.SEEDS:
                yield from _charts(report)
            section = []
        section.append(line)


def rendered(lines: Iterable[str]) -> str:
    """Return Markdown as HTML. Our own folds alone are HTML in it, whatever else is text."""
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    pieces: list[str] = []
    text: list[str] = []
    for line in (*lines, markdown.FOLDED):
        if line != markdown.FOLDED and not markdown.FOLDS.fullmatch(line):
            text.append(line)
            continue
        pieces += [_tables(str(parser.render("\n".join(text)))), line]
        text = []
    return "".join(pieces[:-1])


def _tables(text: str) -> str:
    """Return HTML whose tables scroll where they are too wide; rows have heads, intervals are
    small."""
    text = FIRST_CELL.sub(r"<tr>\n<th scope='row'>\1</th>", text)
    text = INTERVAL.sub(r"\1<small>\2</small>", text)
    text = text.replace("<table>", "<div class='scroll'><table>")
    return text.replace("</table>", "</table></div>")


# -- the top ---------------------------------------------------------------------------------------


def _top(report: Report) -> Iterator[str]:
    level = report.table["run"]["level"]
    yield f"<header><span class='level'>{level} · {escape(LEVELS[level].partition(':')[0])}</span>"
    yield "<h1>What coordination costs, and what it saves</h1>"
    yield f"<p class='lede'>{escape(summary.sentence(report.table), quote=False)}</p>"
    tiles = (f"<li><b>{escape(value)}</b><span>{escape(what)}</span></li>"
             for value, what in _tiles(report))  # fmt: skip
    yield f"<ul class='tiles'>{''.join(tiles)}</ul></header>"


def _tiles(report: Report) -> Iterator[tuple[str, str]]:
    rows = summary.headline(report.table)
    for row in rows:
        if not row["best"] or (len(rows) > 1 and row["scenario"] != pictures.MAIN):
            continue
        best, cheapest, figures = row["best"], row["best_usd"], row["figures"]
        location = f"{row['scenario']}, {row['agents']} agents"
        for unit, name, rival in (("tokens", "tokens", best), ("usd", "dollars", cheapest)):
            comparison = row["beside"][rival][unit]
            how = "fewer" if comparison["value"] >= 0 else "more"
            value = percent(abs(comparison["value"]))
            yield value, f"{name} {how} than {rival} {summary.ends(comparison)}; {location}"
        if "co_task" in figures:
            memory = percent(figures["co_memory"]["value"])
            value = percent(figures["co_task"]["value"])
            yield value, f"all coordination ÷ task, of which memory {memory}; {location}"
    judged = [item["met"] for item in report.table["verdicts"] if item["met"] is not None]
    yield f"{sum(judged)} of {len(judged)}", "thresholds met"
    count = len(report.study.scenarios)
    yield f"{report.table['run']['runs']:,}", f"runs of {count} scenario{'s' * (count != 1)}"


# -- pictures --------------------------------------------------------------------------------------


def _charts(report: Report) -> Iterator[str]:
    yield from _figures(list(pictures.headlines(report)))
    drawn = list(pictures.of(report))
    yield "<h2>The curves</h2>"
    yield from _figures([picture for picture in drawn if picture.drawing])
    absent = "".join(
        f"<li>{escape(picture.title)}: <code>{escape(picture.missing)}</code></li>"
        for picture in drawn
        if not picture.drawing
    )
    if absent:
        yield "<p class='soft'>Left out, because their scenarios were not played:</p>"
        yield f"<ul class='soft'>{absent}</ul>"


def _figures(drawn: Sequence[Picture]) -> Iterator[str]:
    if drawn:
        yield "<div class='charts'>"
        yield from map(_figure, drawn)
        yield "</div>"


def _figure(picture: Picture) -> str:
    legend = "".join(
        f"<li><i style='background:var(--c{colour})'></i>{escape(name)}</li>"
        for name, colour in picture.legend
    )
    listed = f"<ul class='legend'>{legend}</ul>" if legend else ""
    return (
        f"<figure><h3>{escape(picture.title)}</h3>{picture.drawing}{listed}"
        f"<figcaption><p>{escape(picture.caption)}</p></figcaption></figure>"
    )
