"""The exact cost of a prompt with a provider's prompt cache in between, for the model server.

Marked prompts (Anthropic): what is read is the longest prefix that ended at some earlier request's
mark, looked for up to 20 blocks before each mark; what is written goes up to the last mark. Others
are cached by themselves, at each block, and read in steps of 128 tokens. Prefixes below the minimum
are not cached. Nothing expires.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from hashlib import blake2b
from threading import Lock

from scenarios.provider.formats import Block, Used

LOOK_BACK = 20
STEP = 128


class PromptCache:
    """The prefixes that were sent before, for each model. Safe to use from several threads."""

    def __init__(self, count: Callable[[str], int], minimum: int) -> None:
        self._count = lru_cache(maxsize=8_192)(count)
        self._minimum = minimum
        self._known: set[bytes] = set()
        self._lock = Lock()

    def count(self, blocks: Sequence[Block]) -> int:
        return sum(self._count(block.text) for block in blocks)

    def use(self, model: str, blocks: Sequence[Block], reply: str, *, marked: bool) -> Used:
        totals, prefixes = self._prefixes(model, blocks)
        everywhere = range(len(blocks))
        ends = [
            at
            for at in everywhere
            if totals[at] >= self._minimum and (blocks[at].mark or not marked)
        ]
        near = {at for end in ends for at in range(max(end - LOOK_BACK + 1, 0), end + 1)}
        with self._lock:
            read = max((totals[at] for at in near if prefixes[at] in self._known), default=0)
            self._known.update(prefixes[at] for at in ends)
        if not marked:
            read -= read % STEP
        written = totals[ends[-1]] - read if marked and ends else 0
        sent = totals[-1] if totals else 0
        return Used(sent - read - written, read, written, self._count(reply))

    def _prefixes(self, model: str, blocks: Sequence[Block]) -> tuple[list[int], list[bytes]]:
        totals, prefixes, total = [], [], 0
        digest = blake2b(model.encode(), digest_size=16)
        for block in blocks:
            total += self._count(block.text)
            digest.update(
                f"\0{block.kind}\0".encode() + block.text.encode("utf-8", "surrogatepass")
            )
            totals.append(total)
            prefixes.append(digest.digest())
        return totals, prefixes
