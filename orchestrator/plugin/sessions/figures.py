"""The figures of a conversation, as the record of its run has them. Pure, but for the price list.

Called where a run of a client begins and ends.
"""

from __future__ import annotations

from typing import Any

from orchestrator.engines.protocol import Usage
from orchestrator.plugin.sessions.state import Worker
from orchestrator.plugin.transcripts.transcript import Spent
from synapse.core import Memory

CHARACTERS = 4  # of prose in a token, about


def run_figures(spending: Spent | None, worker: Worker, memory: Memory) -> dict[str, Any]:
    """Return what a run's record says of tokens: the client's own report, and what we added, kind
    by kind.
    """
    spending = _since(spending, worker.before)
    usage = spending.usage if spending else Usage(estimated=True)
    turns = spending.turns if spending else 0
    model = spending.model if spending else None
    added = worker.given // CHARACTERS
    billed = added * max(turns, 1)
    work = max(usage.input_tokens + usage.output_tokens - billed, 0)
    a_turn = max(work // max(turns, 1), 0)
    notices = {
        kind: [times, *(count // CHARACTERS for count in characters)]
        for kind, (times, *characters) in worker.notices.items()
    }
    return {
        "usage": usage._asdict(),
        "model": model,
        "turns": turns,
        "cost": _cost(usage, model, memory),
        "overhead": [billed, 0, work, added, 0, a_turn, "estimate"],
        "guide": 0,
        "notices": notices,
    }


def figures_of(spending: Spent | None) -> list[float]:
    """Return the figures of a transcript as a session's state keeps them."""
    if spending is None:
        return []
    usage = spending.usage
    return [*usage[:4], usage.cost or 0.0, spending.turns]


def _since(spending: Spent | None, before: list[float]) -> Spent | None:
    """Return what a transcript says beyond what it said before."""
    if spending is None or not before:
        return spending
    counts = zip(spending.usage[:4], before, strict=False)
    sent, output, cached, written = (max(int(now - then), 0) for now, then in counts)
    cost = spending.usage.cost
    if cost is not None:
        cost = max(cost - before[4], 0.0)
    usage = Usage(sent, output, cached, written, cost, spending.usage.estimated)
    return spending._replace(usage=usage, turns=max(spending.turns - int(before[5]), 0))


def _cost(usage: Usage, model: str | None, memory: Memory) -> float | None:
    """Return what the client says that it cost, else what it cost by the price list."""
    if usage.cost is not None or not model:
        return usage.cost
    from orchestrator.spend import prices

    own_prices = prices.declared(dict(memory.store.settings.other))
    price = prices.price(model, at=memory.store.clock(), given=own_prices)
    return prices.cost(price, usage) if price else None
