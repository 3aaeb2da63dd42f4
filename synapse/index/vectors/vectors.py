"""The vectors of texts: one file beside the index, a set of rows for each model, never compared
across models.

Like the index it is derived, and may be deleted at any time. Embeds nothing itself, and decides
nothing about who may read: what is near is passed through the read gate by whoever asks.
"""

from __future__ import annotations

import os
import sqlite3
from _thread import RLock, allocate_lock
from array import array
from collections.abc import Callable, Collection, Mapping, Sequence
from math import isfinite, sqrt
from struct import pack

from synapse.errors import EmbedderError
from synapse.index.database import Database, open_database
from synapse.system.lock import Lock
from synapse.system.typed import TYPE_CHECKING, NamedTuple, T

if TYPE_CHECKING:
    from synapse.index.vectors.nearest import Rows

VERSION = "1"
_HERE = os.path.dirname(__file__)
KIND = (f"{_HERE}/schema.sql", f"{_HERE}/queries.sql", VERSION)


class Model(NamedTuple):
    """One model's set: how far the log has been gone through for it, and when that last began at
    its beginning.
    """

    num: int
    dimension: int
    reached: int
    filed: int


class Row(NamedTuple):
    """The vector of a part of an entry's text, or none where the embedder refused it."""

    seq: int
    part: int
    digest: bytes
    vector: Sequence[float] | None


class Vectors:
    """The file, and what of it is in memory. One process at a time adds to it."""

    def __init__(self, path: str, db: Database | None = None) -> None:
        self.lock = None if path == ":memory:" else Lock(f"{path}.lock")
        self.db = db or open_database(path, self.lock, KIND)
        self.mutex = RLock()
        self.loading = allocate_lock()
        self.loaded: dict[str, Rows] = {}

    def alone(self, section: Callable[[], T]) -> T:
        """Run it while no other thread or process adds anything. StoreBusy where one has for too
        long.
        """
        with self.mutex:
            try:
                return section() if self.lock is None else self.lock.run(section)
            except (sqlite3.Error, OSError) as error:
                raise self.db.failed(error) from error

    # -- one model's -------------------------------------------------------------------------------

    def model(self, name: str) -> Model | None:
        row = self.db.run("model", {"name": name}).fetchone()
        return None if row is None else Model(*row)

    def models(self) -> list[tuple[str, int, int, int]]:
        """Name, dimension, entries and place reached of every model that has vectors here."""
        return self.db.run("models").fetchall()

    def amounts(self, name: str) -> tuple[int, int]:
        """Return how many entries have been gone through for a model, and how many of those the
        embedder refused.
        """
        model = self.model(name)
        return (0, 0) if model is None else self.db.run("amounts", {"model": model.num}).fetchone()

    def missing(self, name: str, floor: int, top: int, wanted: Mapping[int, bytes]) -> list[int]:
        """Return which of the wanted seqs of a stretch have no vectors yet, in order. What is not
        wanted there any more leaves every model's set; what was embedded from another text leaves
        this one's.
        """
        model, stretch = self.model(name), {"floor": floor, "top": top}
        stored = {seq for (seq,) in self.db.run("seqs", stretch)}
        self._drop("drop_seqs", stored - wanted.keys())
        if model is None:
            return sorted(wanted)
        digests = dict(self.db.run("known", {**stretch, "model": model.num}).fetchall())
        changed = {
            seq for seq, digest in digests.items() if seq in wanted and wanted[seq] != digest
        }
        self._drop("drop_of_model", changed, model=model.num)
        return sorted(wanted.keys() - (digests.keys() - changed))

    def put(self, name: str, rows: Sequence[Row], reached: int) -> None:
        """Keep these rows and note how far the log has been gone through: both, or neither."""
        widths = {len(row.vector) for row in rows if row.vector is not None}
        self.db.whole(lambda: self._put(name, rows, widths, reached))

    def rewind(self, name: str, horizon: int) -> None:
        """Let the whole log be gone through again for a model, as it stands now. What is there
        already stays.
        """
        self.db.run("rewind", {"name": name, "filed": horizon})

    def turn(self, name: str) -> int:
        """Return which of the logs that there were one after the other, as after a checkout, was
        gone through.
        """
        return int(self.db.meta(f"turn:{name}") or 0)

    def note_turn(self, name: str, turn: int) -> None:
        self.db.set_meta(f"turn:{name}", str(turn))

    def nearest(self, name: str, vector: Sequence[float], count: int) -> list[tuple[float, int]]:
        """Return the entries nearest to a vector: cosine and seq, the nearest first."""
        from synapse.index.vectors.nearest import Rows

        model = self.model(name)
        if model is None:
            return []
        if len(vector) != model.dimension:
            raise _other(name, model.dimension, len(vector))
        with self.loading:
            rows = self.loaded.get(name)
            if rows is None or rows.dropped != self._dropped():
                rows = self.loaded[name] = Rows(model.dimension, self._dropped())
            rows.extend(self.db.run("since", {"model": model.num, "num": rows.last}))
        return rows.nearest(unit(vector), count)

    def close(self) -> None:
        self.db.close()
        if self.lock is not None:
            self.lock.close()

    # -- below -------------------------------------------------------------------------------------

    def _put(self, name: str, rows: Sequence[Row], widths: Collection[int], reached: int) -> None:
        model = self.model(name)
        for width in widths:
            if model is None:
                self.db.run("put_model", {"name": name, "dimension": width})
                model = self.model(name)
            if model is not None and model.dimension != width:
                raise _other(name, model.dimension, width)
        if model is None:
            return  # nothing has been embedded yet, so there is nothing to note
        values: list[tuple[object, ...]] = [
            (
                model.num,
                row.seq,
                row.part,
                row.digest,
                None if row.vector is None else halves(row.vector),
            )
            for row in rows
        ]
        self.db.many("put_vector", values)
        self.db.run("reach", {"model": model.num, "reached": reached})

    def _drop(self, statement: str, seqs: Collection[int], **values: int) -> None:
        if seqs:
            self.db.whole(lambda: self._dropped_now(statement, seqs, values))

    def _dropped_now(self, statement: str, seqs: Collection[int], values: dict[str, int]) -> None:
        self.db.run(statement, values, seqs=sorted(seqs))
        self.db.set_meta("dropped", str(self._dropped() + 1))

    def _dropped(self) -> int:
        """Return how often something was taken out: whoever holds rows in memory then reads them
        anew.
        """
        return int(self.db.meta("dropped") or 0)


def unit(vector: Sequence[float]) -> array[float]:
    """Return the vector at length one. EmbedderError where it has none."""
    length = sqrt(sum(number * number for number in vector))
    if not isfinite(length) or length == 0:
        raise EmbedderError("the embedder gave a vector without a direction")
    return array("f", [number / length for number in vector])


def halves(vector: Sequence[float]) -> bytes:
    """Return the vector at length one in half-precision floats: cosines are off by a
    ten-thousandth, in half the space.
    """
    return pack(f"<{len(vector)}e", *unit(vector))


def _other(name: str, before: int, now: int) -> EmbedderError:
    return EmbedderError(
        f"{name} gives {now} numbers a text and gave {before} before: another model"
        f" under the same name; delete .index/vectors.db to have everything embedded"
        " anew",
        model=name,
    )


def path_beside(index: str) -> str:
    """Return where the vectors of an index are."""
    return index if index == ":memory:" else os.path.join(os.path.dirname(index), "vectors.db")
