"""What is new for an agent: the entries that it was not shown, whole or as pointers, within a token
budget.

Nothing here marks anything: whoever shows a page notes what of it was shown (`Writer.shown`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from synapse.errors import InvalidQuery, OverBudget
from synapse.index.snapshot import Filter, Snapshot
from synapse.model.agents import Agent
from synapse.model.entry import PRIORITIES, Entry
from synapse.model.kinds import MAIL
from synapse.model.results import UnreadPage
from synapse.store import Store
from synapse.system.tokens import DEFAULT
from synapse.system.typed import Any
from synapse.view.block import pointer, whole

_LEAST = 16  # tokens: no entry takes fewer, whole or as a pointer
_BATCH = 16
Opened = Callable[[Iterable[Entry]], list[Entry]]
Weigh = Callable[[Iterable[str]], list[int]]


def unread(
    store: Store, agent: Agent, wanted: Filter, budget: int | None, opened: Opened
) -> UnreadPage:
    """Return what the agent was not shown, of what the filter lets through, the most urgent first.

    Within a budget there are whole entries up to the first for which there is no room left, then
    pointers. An entry that is too large for an empty page is a pointer, and keeps no other one out.
    """
    if wanted.archived:
        raise InvalidQuery("what is archived is not among the news: leave out archived, or unread")
    if any(glob.split("/")[0] == MAIL for glob in wanted.namespaces):
        raise InvalidQuery(
            "messages are not counted here: `synapse inbox` shows those that are unread"
        )
    with store.snapshot() as snap:
        return _unread(store, snap, agent, wanted, budget, opened)


def _unread(
    store: Store, snap: Snapshot, agent: Agent, query: Filter, budget: int | None, opened: Opened
) -> UnreadPage:
    now, cursor = store.clock(), snap.cursor
    if budget is not None:
        most = max(budget, 0) // _LEAST + 1
        query = query._replace(limit=most if query.limit is None else min(query.limit, most))
    rows, counts = snap.unread_rows(agent, query, now)

    def load(rows: Sequence[Any]) -> list[Entry]:
        return opened(snap.load(rows, now=now, reach=snap.names.reach(agent)))

    matched = snap.count(agent, query, now)

    def page(
        entries: Sequence[Entry], pointers: Sequence[Entry] = (), tokens: int | None = None
    ) -> UnreadPage:
        priorities = [entry.priority for entry in (*entries, *pointers)]
        remaining = [
            count - priorities.count(name) for name, count in zip(PRIORITIES, counts, strict=True)
        ]
        foot = _foot(agent, len(entries), sum(counts), matched, cursor, remaining)
        return UnreadPage(
            entries,
            pointers,
            (remaining[0], remaining[1], remaining[2]),
            cursor,
            matched,
            foot,
            tokens,
        )

    if budget is None:
        return page(load(rows))
    weigh = store.index.tokens(DEFAULT).count_all
    total = sum(counts)
    (reserved,) = weigh([_shape(_foot(agent, total, total, matched, cursor, counts))])
    if reserved > budget:
        message = f"the last line alone takes {reserved} tokens, and the budget is {budget}"
        raise OverBudget(message, needed=reserved, budget=budget)
    batches = (load(rows[start : start + _BATCH]) for start in range(0, len(rows), _BATCH))
    entries, pointers, used = _fit(batches, weigh, budget - reserved)
    fitted = page(entries, pointers)
    (last,) = weigh([_shape(fitted.foot)])
    return page(entries, pointers, used + last)


def render(page: UnreadPage) -> str:
    """Return the text of a page, in the form of a view: entries, pointers, the last line."""
    blocks = [*map(whole, page.entries), *map(pointer, page.pointers)]
    return "".join([*(block.text for block in blocks), page.foot])


def _fit(
    batches: Iterable[Sequence[Entry]], weigh: Weigh, room: int
) -> tuple[list[Entry], list[Entry], int]:
    """Return the entries that fit whole, those that fit as pointers behind them, and what both
    take.
    """
    entries: list[Entry] = []
    overflow: list[Entry] = []
    remaining, full = room, False
    for batch in batches:
        for entry, cost in zip(batch, weigh(whole(entry).text for entry in batch), strict=True):
            full = full or remaining < cost <= room
            if full or cost > room:
                overflow.append(entry)
            else:
                entries.append(entry)
                remaining -= cost
        if full and len(overflow) * _LEAST > remaining:
            break
    pointers: list[Entry] = []
    for entry, cost in zip(overflow, weigh(pointer(entry).text for entry in overflow), strict=True):
        if cost > remaining:
            break
        pointers.append(entry)
        remaining -= cost
    return entries, pointers, room - remaining


def _foot(
    agent: Agent, shown: int, total: int, matched: int, cursor: int, left: Sequence[int]
) -> str:
    """Return the last line: how much is unread, and how to get what is not on the page."""
    line = f"-- {shown} of {total} unread, {matched} matching; cursor {cursor}"
    if any(left):
        critical, important, info = left
        command = f"synapse read --agent {agent.id} --unread --limit 0"
        line += (
            f"; left out: {critical} critical, {important} important, {info} info; all of"
            f" it: `{command}`"
        )
    return f"{line}\n"


def _shape(line: str) -> str:
    """Return the line with zeros for digits: a number's count depends on its length alone, so few
    counts are stored.
    """
    return re.sub(r"\d", "0", line)
