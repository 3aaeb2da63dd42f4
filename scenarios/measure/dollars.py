"""Dollars of a run: a price list, a model of the provider's cache, and what each call costs by
them. Pure; reads events of the ledger and nothing else.

A conversation only grows, so the prompt of a call is the beginning of the next one's. What a
provider's cache holds of it is read at the price `cached`; the rest of a prompt is put there at the
price `written`, or costs `input` where the prompt is shorter than `least` tokens, which no cache
takes. An entry is gone `lifetime` seconds of virtual time after it was last written or read: then
all of the prompt is written anew. A cache is the run's own: nothing is shared between runs, though
a provider may hold the same system text for several. Replies cost `output`. What a manager reads
and writes, and what a night takes, has no conversation: it costs `input` and `output`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from scenarios.data.ledger import Event, Run

MILLION = 1e6


class Prices(NamedTuple):
    """Dollars per million tokens, and how the cache behaves. `source` says where they come from."""

    input: float
    cached: float
    written: float
    output: float
    lifetime: int
    least: int
    source: str


# Both have the same prices of tokens, so that they differ in the cache alone. The first is `usd`.
MODELS: Mapping[str, Prices] = {
    "explicit": Prices(
        3.0, 0.3, 3.75, 15.0, 300, 1_024,
        (
            "list prices of Claude Sonnet 4.5 with its 5-minute cache: writing costs 1.25"
            " x input, reading 0.1 x"
        ),
    ),
    "automatic": Prices(
        3.0, 0.3, 3.0, 15.0, 300, 1_024,
        (
            "the same prices with a cache that fills by itself, as OpenAI's does: writing"
            " costs no more than input"
        ),
    ),
}  # fmt: skip
DEFAULT = next(iter(MODELS))


class Cost(NamedTuple):
    """One call: tokens of its prompt that were read from the cache, written to it, and neither."""

    read: int
    written: int
    fresh: int
    said: int

    def dollars(self, prices: Prices) -> float:
        amounts = (
            self.read * prices.cached,
            self.written * prices.written,
            self.fresh * prices.input,
            self.said * prices.output,
        )
        return sum(amounts) / MILLION


class _Held(NamedTuple):
    """How much of a run's conversation the cache holds, and until when (milliseconds)."""

    tokens: int = 0
    until: int = 0


def in_ledger() -> dict[str, dict[str, Any]]:
    """Return the price list as the line `begin` of a ledger holds it."""
    return {name: prices._asdict() for name, prices in MODELS.items()}


def prices_of(begin: Event) -> Mapping[str, Prices]:
    """Return the prices that a run was played at, by the name of their model."""
    listed = begin.get("prices", {})
    return {name: Prices(**listed[name]) if name in listed else MODELS[name] for name in MODELS}


def calls(events: Iterable[Event], prices: Prices) -> Iterator[tuple[Event, Cost]]:
    """Return each completion with what its call cost; prompts and completions in their order."""
    caches: dict[str, _Held] = {}
    open_calls: dict[tuple[str, int], Cost] = {}
    for event in events:
        if event["kind"] == "prompt":
            size = sum(tokens for _, tokens, _ in event["segments"])
            before = caches.get(event["run"], _Held())
            read = min(before.tokens, size) if event["t"] <= before.until else 0
            cached = size if size >= prices.least else 0
            caches[event["run"]] = _Held(cached, event["t"] + prices.lifetime * 1_000)
            open_calls[event["run"], event["step"]] = Cost(
                read, size - read if cached else 0, 0 if cached else size - read, 0
            )
        elif event["kind"] == "completion":
            segments = sum(tokens for _, tokens, *_ in event["segments"])
            cost = open_calls.pop((event["run"], event["step"]), Cost(0, 0, 0, 0))
            yield event, cost._replace(said=segments)


def book(events: Iterable[dict[str, Any]]) -> None:
    """Put to each completion what its call cost by the default prices."""
    prices = MODELS[DEFAULT]
    for event, cost in calls(events, prices):
        dollars = round(cost.dollars(prices), 9)
        event.update(cached=cost.read, written=cost.written, cost=dollars)  # type: ignore[attr-defined]


def spent(run: Run) -> dict[str, float]:
    """Return the dollars of a run: `usd` by the default prices, `usd_NAME` by each other model's.
    Of a real model, what its provider reported.
    """
    if run.begin.get("engine"):
        return {"usd": sum(event["cost"] for event in run.of("completion"))}
    listed = prices_of(run.begin)
    return {
        "usd" if name == DEFAULT else f"usd_{name}": _all(run, prices)
        for name, prices in listed.items()
    }


def _all(run: Run, prices: Prices) -> float:
    total = sum(cost.dollars(prices) for _, cost in calls(run.of("prompt", "completion"), prices))
    for relay in run.of("relay"):
        cached = relay.get("cached", 0)
        total += Cost(cached, 0, relay["read"] - cached, relay["wrote"]).dollars(prices)
    for event in run.of("consolidate"):
        total += Cost(0, 0, event["tokens"], 0).dollars(prices)
    return total
