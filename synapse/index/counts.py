"""Token counts that were made once: kept with the index, and the latest in memory. `Index` is one
of these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from synapse.index.database import Act, Database
from synapse.system.typed import TYPE_CHECKING

if TYPE_CHECKING:
    from synapse.system.tokens import Tokens

COUNTED = 8_192  # token counts of each encoding that are kept in memory


class TokenCounts:
    """The counts of texts, by their digests, in each encoding."""

    db: Database
    if TYPE_CHECKING:
        twice: Callable[[Callable[[], object]], object]
        _whole: Callable[[Callable[[], object]], object]

        @property
        def act(self) -> Act: ...

    def __init__(self) -> None:
        self.counts: dict[str, dict[bytes, int]] = {}

    def tokens(self, encoding: str, *, quick: bool = False, keep: bool = True) -> Tokens:
        """Return what counts tokens in an encoding. New counts are kept, each under a digest of its
        text, unless they are not to be: of sealed texts none is.
        """
        from synapse.system.tokens import Tokens

        keeps = partial(self.keep_tokens, encoding) if keep else lambda _: None
        return Tokens(encoding, partial(self.token_counts, encoding), keeps, quick=quick)

    def token_counts(self, encoding: str, digests: Sequence[bytes]) -> Mapping[bytes, int]:
        counts = self.counts.setdefault(encoding, {})
        result = {digest: counts[digest] for digest in digests if digest in counts}
        unknown = [digest for digest in digests if digest not in result]
        for start in range(0, len(unknown), 500):
            batch = unknown[start : start + 500]
            marks = ",".join("?" * len(batch))
            text = self.db.sql["token_counts"].replace("{digests}", marks)
            result.update(self.db.connection.execute(text, (encoding, *batch)).fetchall())
        if unknown:
            if len(counts) > COUNTED:
                # another thread may be reading the old one
                counts = self.counts[encoding] = {}
            counts.update(result)
        return result

    def keep_tokens(self, encoding: str, counts: Mapping[bytes, int]) -> None:
        """Keep counts that were made; those of a snapshot are written when it is left."""
        act = self.act
        if act.depth:
            self.counts.setdefault(encoding, {}).update(counts)
            act.counts.append((encoding, counts))
            return
        rows: list[tuple[object, ...]] = [(digest, encoding, n) for digest, n in counts.items()]
        keep = partial(self.db.many, "keep_token", rows)
        self.twice(partial(self._whole, keep))
