"""Entries: by filters, newest first, or by the words that they hold, best first."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any
from urllib.parse import urlencode

from fastapi import Request, Response
from markupsafe import Markup

from synapse.agent_memory import AgentMemory
from synapse.errors import InvalidEntry, InvalidQuery
from synapse.model.entry import PRIORITIES, Entry
from synapse.model.results import Hit
from synapse.server.callers import Reader
from synapse.server.pages.frame import frame_of
from synapse.server.pages.route import pages
from synapse.system.quoting import one_line
from synapse.system.typed import NamedTuple

router = pages()
PAGE, FARTHEST = 50, 20  # entries of a page; pages that are turned to one after another
FILTERS = ("priority", "namespace", "author", "tag", "since")


class Found(NamedTuple):
    """What a question found: entries with what of them matched, how many there are in all (None
    where that is not counted), whether there are more, and what is to be said of it.
    """

    rows: Sequence[tuple[Entry, Markup | None]]
    total: int | None = None
    more: bool = False
    note: str = ""


@router.get("/entries/count")
def count(request: Request, memory: Reader) -> Response:
    """Tell how many entries the filters let through: a part, for some are counted one by one."""
    filters, _, archived = _asked(request)
    page = memory.read(**_filters(filters, archived), limit=1)
    return frame_of(request).answer(request, "count.html", total=page.visible)


@router.get("/entries")
def entries(request: Request, memory: Reader) -> Response:
    """Show the entries that the filters let through."""
    filters, question, archived = _asked(request)
    number = _page_number(request.query_params.get("page", "1"))
    error = ""
    try:
        result = (_search if question else _read)(memory, question, filters, archived, number)
    except (InvalidQuery, InvalidEntry) as refused:
        result, error = Found([]), str(refused)
    return frame_of(request).answer(
        request,
        "entries.html",
        found=result,
        error=error,
        asked=filters,
        words=question,
        archived=archived,
        number=number,
        last=number >= FARTHEST,
        filtered=bool(question or archived or any(filters.values())),
        priorities=PRIORITIES,
        turned=partial(_turned, {**filters, "q": question, "archived": archived and "1"}),
    )


def _turned(asked: dict[str, Any], number: int) -> str:
    """Return the question of another page with the same filters."""
    filters = {name: value for name, value in asked.items() if value}
    return urlencode({**filters, "page": number})


def _asked(request: Request) -> tuple[dict[str, str], str, bool]:
    """Return the filters, the words, and whether archived entries are meant."""
    query = request.query_params
    filters = {name: query.get(name, "").strip() for name in FILTERS}
    return filters, query.get("q", "").strip(), query.get("archived") == "1"


def _page_number(text: str) -> int:
    plain = text.isascii() and text.isdigit() and len(text) < 6
    return min(max(int(text), 1), FARTHEST) if plain else 1


def _filters(asked: dict[str, str], archived: bool) -> dict[str, Any]:
    chosen = {name: value or None for name, value in asked.items()}
    return {**chosen, "archived": archived}


def _read(
    memory: AgentMemory, words: str, asked: dict[str, str], archived: bool, number: int
) -> Found:
    page = memory.read(**_filters(asked, archived), limit=number * PAGE + 1)
    rows = page.entries[(number - 1) * PAGE : number * PAGE]
    quick = not (asked["author"] or asked["tag"] or archived)
    total = page.visible if quick else None
    return Found([(entry, None) for entry in rows], total, len(page) > number * PAGE)


def _search(
    memory: AgentMemory, words: str, asked: dict[str, str], archived: bool, number: int
) -> Found:
    hits = memory.search(words, **_filters(asked, archived), limit=min(number * PAGE + 1, 1_000))
    hits_here = hits[(number - 1) * PAGE : number * PAGE]
    note = hits.note
    if hits.partial:
        note = f"more match; the {hits.ranked:,} with most of the words were weighed. {note}"
    rows = [(hit.entry, _excerpt(hit)) for hit in hits_here]
    return Found(rows, None, len(hits) > number * PAGE, note.strip())


def _excerpt(hit: Hit) -> Markup:
    """Return what matched, with the words that were looked for marked."""
    text, last = Markup(), 0
    for start, end in hit.marks:
        text += Markup("{}<mark>{}</mark>").format(
            one_line(hit.excerpt[last:start]), one_line(hit.excerpt[start:end])
        )
        last = end
    return text + one_line(hit.excerpt[last:])
