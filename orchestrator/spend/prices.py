"""Prices of models, from genai-prices or the user's own, and the cost of a call.

The price list lies in the package and is imported on first use; nothing is ever fetched. A model
that is not on it has no price, never a guessed one. Money is in dollars, prices are per million
tokens.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from orchestrator.engines.protocol import Usage
from synapse.errors import InvalidEntry

MILLION = 1_000_000
OWN_KEYS = ("input", "output", "cached", "written", "call")


class Rate(NamedTuple):
    """Dollars per million tokens. A call with more input than `above` pays that tier's price for
    all its tokens.
    """

    base: float
    tiers: tuple[tuple[int, float], ...] = ()  # (above, price), rising

    def at(self, input_tokens: int) -> float:
        reached = [price for threshold, price in self.tiers if input_tokens > threshold]
        return reached[-1] if reached else self.base


class Price(NamedTuple):
    """What a model costs. `source` is `list` or `given`; `call` is charged for each call, whatever
    its length.
    """

    model: str
    input: Rate
    output: Rate
    cached: Rate
    written: Rate
    call: float = 0.0
    source: str = "list"


def price(
    model: str,
    provider: str | None = None,
    *,
    at: int,
    given: Mapping[str, Mapping[str, object]] | None = None,
) -> Price | None:
    """Return the price of a model at a time (microseconds); None where none is known.

    `given` are the user's own, by model, and come first. `provider` is a provider's name or the
    address of its interface: one that the list does not know has no prices there, whatever its
    models are called.
    """
    if given and model in given:
        return own(model, given[model])
    return _listed(model, provider, at)


def declared(settings: Mapping[str, object]) -> Mapping[str, Mapping[str, object]]:
    """Return the user's own prices, as synapse.yaml has them under `prices:`."""
    table = settings.get("prices") or {}
    if not isinstance(table, Mapping) or not all(
        isinstance(row, Mapping) for row in table.values()
    ):
        raise InvalidEntry(
            "prices: write a line for each model, such as my-model: {input: 3.0, output: 15.0}"
        )
    return table


def own(model: str, prices: Mapping[str, object]) -> Price:
    """Return a price that the user gives: `{"input": 3.0, "output": 15.0}`; cached and written cost
    as input, if unsaid.
    """
    unknown = sorted(set(prices) - set(OWN_KEYS))
    if unknown:
        raise InvalidEntry(
            f"the price of {model}: {', '.join(unknown)} is not one of {', '.join(OWN_KEYS)}"
        )
    if "input" not in prices or "output" not in prices:
        raise InvalidEntry(
            f"the price of {model} needs input and output, in dollars per million tokens"
        )
    rates = {key: Rate(_dollars(model, key, value)) for key, value in prices.items()}
    return Price(
        model,
        rates["input"],
        rates["output"],
        rates.get("cached", rates["input"]),
        rates.get("written", rates["input"]),
        rates["call"].base if "call" in rates else 0.0,
        "given",
    )


def cost(price: Price, usage: Usage) -> float:
    """Return the cost of a call; tokens read from the cache and written to it have their own
    prices.
    """
    fresh = max(usage.input_tokens - usage.cached_tokens - usage.written_tokens, 0)
    size = usage.input_tokens
    costs = (
        (fresh, price.input),
        (usage.cached_tokens, price.cached),
        (usage.written_tokens, price.written),
        (usage.output_tokens, price.output),
    )
    return sum(tokens * rate.at(size) for tokens, rate in costs) / MILLION + price.call


def worst(price: Price, input_tokens: int, max_tokens: int) -> float:
    """Return the most that a call can cost: nothing is read from the cache, all of it is written,
    and the reply is as long as allowed.
    """
    dearest = max(price.input.at(input_tokens), price.written.at(input_tokens))
    return (
        input_tokens * dearest + max_tokens * price.output.at(input_tokens)
    ) / MILLION + price.call


def _listed(model: str, provider: str | None, at: int) -> Price | None:
    from datetime import UTC, datetime

    import genai_prices

    provider_args = {
        "provider_api_url" if provider and "://" in provider else "provider_id": provider
    }
    moment = datetime.fromtimestamp(at / MILLION, UTC)
    try:
        calculation = genai_prices.calc_price(
            genai_prices.Usage(),
            model,
            genai_request_timestamp=moment,
            **provider_args,  # type: ignore[arg-type]
        )
    except LookupError:
        return None
    listed = calculation.model_price
    if listed.input_mtok is None or listed.output_mtok is None:
        return None
    first = _rate(listed.input_mtok)
    return Price(
        calculation.model.id,
        first,
        _rate(listed.output_mtok),
        _rate(listed.cache_read_mtok, first),
        _rate(listed.cache_write_mtok, first),
        float(_rate(listed.requests_kcount, Rate(0.0)).base) / 1_000,
    )


def _rate(found: Any, unsaid: Rate | None = None) -> Rate:
    if found is None and unsaid is not None:
        return unsaid
    tiers = getattr(found, "tiers", ())
    return Rate(
        float(getattr(found, "base", found)),
        tuple((tier.start, float(tier.price)) for tier in tiers),
    )


def _dollars(model: str, key: str, value: object) -> float:
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        number = -1.0
    if not 0 <= number < float("inf"):
        raise InvalidEntry(
            f"the price of {model}: {key} is {value!r}; write dollars per million tokens"
        )
    return number
