"""What conversations paid: tokens by their kinds, and dollars at the list prices. Called by
`figures`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from orchestrator.audit.conversations import Conversation, Turn
from orchestrator.spend import prices
from orchestrator.spend.prices import MILLION, Price
from synapse.model.entry import SECOND

DAY = 86_400 * SECOND


class Paid(NamedTuple):
    """Tokens that were sent anew, read from the provider's cache, written to it, and answered; the
    dollars for them, and how many of the tokens have no known price.
    """

    turns: int = 0
    fresh: int = 0
    cached: int = 0
    written: int = 0
    output: int = 0
    usd: float = 0.0
    unpriced: int = 0

    @property
    def tokens(self) -> int:
        return self.fresh + self.cached + self.written + self.output

    def plus(self, other: Paid) -> Paid:
        return Paid._make(a + b for a, b in zip(self, other, strict=True))


class PriceList:
    """The prices of models by the day, each looked up once."""

    def __init__(self, given: Mapping[str, Mapping[str, object]] | None = None) -> None:
        self.given = given
        self._known: dict[tuple[str, int], Price | None] = {}

    def of(self, model: str, at: int) -> Price | None:
        """Return the price of a model on a day; None where none is known."""
        key = (model, at // DAY)
        if key not in self._known:
            price = prices.price(model, at=at, given=self.given) if model else None
            self._known[key] = price
        return self._known[key]

    def paid(self, turn: Turn) -> Paid:
        """Return what a reply took."""
        usage = turn.usage
        price = self.of(turn.model, turn.at) if usage.cost is None else None
        cost = usage.cost if price is None else prices.cost(price, usage)
        fresh = max(usage.input_tokens - usage.cached_tokens - usage.written_tokens, 0)
        kinds = (fresh, usage.cached_tokens, usage.written_tokens, usage.output_tokens)
        return Paid(1, *kinds, cost or 0.0, sum(kinds) if cost is None else 0)

    def carry(self, conversation: Conversation, tokens: int, turns: int, at: int) -> float:
        """Return the dollars that a result took: once sent anew, or written to the cache where the
        conversation uses one, and read from there at each further turn.
        """
        price = self.of(main_model(conversation), at)
        if price is None or not turns:
            return 0.0
        writes = any(turn.usage.written_tokens for turn in conversation.turns.values())
        first = price.written if writes else price.input
        return tokens * (first.base + (turns - 1) * price.cached.base) / MILLION


def main_model(conversation: Conversation) -> str:
    """Return the model that answered most of a conversation."""
    models = Counter(turn.model for turn in conversation.turns.values())
    return models.most_common(1)[0][0] if models else ""


def total(found: Iterable[Paid]) -> Paid:
    """Return the sum."""
    result = Paid()
    for paid in found:
        result = result.plus(paid)
    return result


def group(
    conversations: Iterable[Conversation],
    price_list: PriceList,
    name: Callable[[Conversation, Turn], str],
) -> dict[str, Paid]:
    """Return what was paid under each name, the dearest first."""
    sums: dict[str, Paid] = defaultdict(Paid)
    for conversation in conversations:
        for turn in conversation.turns.values():
            key = name(conversation, turn)
            sums[key] = sums[key].plus(price_list.paid(turn))
    return dict(sorted(sums.items(), key=lambda item: (-item[1].usd, -item[1].tokens, item[0])))
