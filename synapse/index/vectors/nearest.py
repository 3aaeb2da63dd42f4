"""The vectors of one model in memory, and which of them are nearest to another: every one is
compared, in numpy.
"""

from __future__ import annotations

from collections.abc import Sequence

from synapse.errors import EmbedderError

try:
    import numpy as np
except ImportError as error:
    raise EmbedderError(
        "semantic search needs numpy, which is not installed: pip install numpy"
    ) from error

from synapse.system.typed import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sqlite3 import Cursor

AT_ONCE = 10_000


class Rows:
    """Vectors of unit length, each with its entry's seq. Only grows: who takes rows out makes a new
    one.
    """

    def __init__(self, dimension: int, dropped: int) -> None:
        self.dropped = dropped
        self.last = 0
        self.count = 0
        self.matrix = np.empty((0, dimension), np.float32)
        self.seqs = np.empty(0, np.int64)

    def extend(self, rows: Cursor) -> None:
        """Take in rows of number, seq and vector, in order."""
        while batch := rows.fetchmany(AT_ONCE):
            numbers, seqs, vectors = zip(*batch, strict=True)
            block = np.frombuffer(b"".join(vectors), "<f2").reshape(len(batch), -1)
            self._room(self.count + len(batch))
            self.matrix[self.count : self.count + len(batch)] = block
            self.seqs[self.count : self.count + len(batch)] = seqs
            self.count += len(batch)
            self.last = numbers[-1]

    def _room(self, count: int) -> None:
        """Grow by halves, so that many small additions do not copy it all each time."""
        if count > len(self.seqs):
            grown = max(count, len(self.seqs) * 3 // 2)
            matrix = np.empty((grown, self.matrix.shape[1]), np.float32)
            seqs = np.empty(grown, np.int64)
            matrix[: self.count] = self.matrix[: self.count]
            seqs[: self.count] = self.seqs[: self.count]
            self.matrix, self.seqs = matrix, seqs

    def nearest(self, vector: Sequence[float], count: int) -> list[tuple[float, int]]:
        """Return cosine and seq of the nearest entries, the nearest first, of equals the newest;
        the best part of each.
        """
        total, seqs = self.count, self.seqs
        scores: Any = self.matrix[:total] @ np.asarray(vector, np.float32)
        places = np.arange(total)
        if total > count:
            places = np.argpartition(scores, total - count)[total - count :]
        ordered = places[np.lexsort((-seqs[places], -scores[places]))]
        best: dict[int, float] = {}
        for seq, score in zip(seqs[ordered].tolist(), scores[ordered].tolist(), strict=True):
            best.setdefault(seq, score)
        return [(score, seq) for seq, score in best.items()]
