"""Pieces of HTML that every part of a report's page uses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from scenarios.measure.findings import Table
from scenarios.report.pictures import Picture
from scenarios.report.words import amount, figure

HEADS = {
    "tokens": "tokens", "net_saving": "saved", "task_success": "done right", "co_memory": "C ÷ W",
    "co_plan": "P ÷ W",
    "co_task": "(C+P) ÷ W", "co_total": "(C+P) ÷ T", "co_ref": "(C+P) ÷ W iso.",
    "co_memory_unique": "C ÷ W, unique",
    "usd": "dollars", "usd_automatic": "dollars, automatic cache", "usd_saving": "dollars saved",
    "tokens_per_success": "tokens per task", "redundancy": "found twice", "needed_recall": "recall",
    "view_recall": "recall, view", "context_reduction": "not sent", "stale_after_delivery": "stale",
    "wake_latency": "wake",
}  # fmt: skip


ABOUT = {
    "retrieval": (
        "search in recorded conversations: how much of the evidence for a question is found"
    )
}


def table(head: Sequence[str], rows: Iterable[str], kind: str = "") -> str:
    """Return a table that scrolls where it is too wide. What begins with `<` heads a column of
    words.
    """
    cells = ""
    for column in head:
        kind_of_cell = " class=words" if column.startswith("<") else ""
        cells += f"<th scope='col'{kind_of_cell}>{escape(column.lstrip('<'))}</th>"
    table = f"<table class='{kind}'>" if kind else "<table>"
    body = "".join(rows)
    return (
        f"<div class='scroll'>{table}<thead><tr>{cells}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
    )


def head(name: str) -> str:
    return HEADS.get(name, name.replace("_", " "))


def value_cell(name: str, row: Table) -> str:
    if name not in row:
        return "–"
    return f"{escape(amount(name, row[name]['value']))}{_ends(name, row[name])}"


def _ends(name: str, interval: Table) -> str:
    between = interval_text(name, interval)
    return f"<small>{between}</small>" if between else ""


def interval_text(name: str, interval: Table) -> str:
    lo, hi = amount(name, interval["lo"]), amount(name, interval["hi"])
    return f"[{escape(lo)}, {escape(hi)}]" if lo != hi else ""


def pair(each: Table) -> str:
    worse = "<span class='met'>yes</span>" if each["no_worse"] else "<span class='missed'>no</span>"
    fragile = (
        f"<span class='fragile'>{escape(', '.join(each['flips']))}</span>"
        if each["flips"]
        else "no"
    )
    p = "&lt; 0.001" if each["p_holm"] < 0.001 else f"{each['p_holm']:.3f}"
    saved = figure("net_saving", each["saving"])
    return (
        f"<tr><th"
        f" scope='row'>{escape(each['arm'])}</th><td>{each['n']}</td><td>{saved}</td><td>{p}</td>"
        f"<td>{each['success_difference'] * 100:+.1f}"
        f" points</td><td>{worse}</td><td>{fragile}</td></tr>"
    )


def code(text: str) -> str:
    """Return a text as HTML, what stands in back quotes as code."""
    return "".join(
        f"<code>{escape(piece)}</code>" if at % 2 else escape(piece)
        for at, piece in enumerate(text.split("`"))
    )


def picture_html(picture: Picture) -> str:
    legend = "".join(
        f"<li><i style='background:var(--c{colour})'></i>{escape(name)}</li>"
        for name, colour in picture.legend
    )
    listed = f"<ul class='legend'>{legend}</ul>" if legend else ""
    return (
        f"<figure><h3>{escape(picture.title)}</h3>{picture.drawing}{listed}"
        f"<figcaption><p>{escape(picture.caption)}</p></figcaption></figure>"
    )
