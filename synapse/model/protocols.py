"""The protocols with more than one implementation: the log, and what embeds texts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol, runtime_checkable

from synapse.model.agents import Agent
from synapse.model.placement import Decide, Keeper
from synapse.model.records import Lost, Record
from synapse.model.settings import Settings

Clock = Callable[[], int]


@runtime_checkable
class Log(Protocol):
    """An append-only sequence of records: the truth from which everything else is derived.

    * Order is the log's own: `seq` grows by one per record. `at` is the time of its receipt, which
      steps back only behind a clock that was ahead (`model.clock.stamp`). Readers at a cursor (the
      seq they have seen) never miss a record and never get one twice.
    * `write` returns only when its records would survive the death of every process and, where the
      store can promise it, of the machine. If it raises, no record of it is in the log, or each is
      followed by its `void`. Only a crash, or a disk that has no room for a void, may leave the
      first of them there without the rest.
    * A record is placed, and written, in one step: nobody writes between what `place` decides and
      the line. `Commit` decides ids, `once` and guards there.
    * Everything may be called from several threads. After `close` nothing may be called but
      `close`.
    * Failures are StoreError, StoreBusy where trying again helps, StoreCorrupt where it does not.
    """

    def write(
        self, records: Iterable[Record], decide: Decide, keeper: Keeper
    ) -> list[tuple[Record, bool]]:
        """Write these records, in their order, each as `place` returns it for the tail and the time
        at hand; return them as stored, each with whether it is new. One that `place` returns with
        a place of its own was there before, and is not written.
        """

    def occupied(self, path: str) -> bool:
        """Return whether a file of this name stands beside the log, so that no entry's file can."""

    def at(self, seq: int) -> Record:
        """Return the record at this place, or NotFound."""

    def these(self, seqs: Iterable[int]) -> Iterator[Record]:
        """Yield the records at these places, each behind the one before."""

    def since(self, cursor: int = 0, texts: bool = True) -> Iterator[Record]:
        """Yield every record after the cursor, in order, as far as the log goes now; without
        their texts where these are not asked for.
        """

    def batch(self, cursor: int, limit: int, after: str = "") -> tuple[list[Record], str]:
        """Return so many records after the cursor, and the proof of the last of them. `after` is
        that of the one before."""

    @property
    def forked(self) -> bool:
        """Return whether it holds two histories that nobody has merged; only one of them is
        read."""

    def proof(self, seq: int) -> str:
        """Return the proof of the record at this place; empty where there is none."""

    def holds(self, proof: str) -> bool:
        """Return whether the log still has the record of this proof where it was, and so all that
        came before it."""

    def last(self) -> int:
        """Return the seq of the last record that there is."""

    def mark(self) -> tuple[int, int]:
        """Return a value that grows whenever the log does. Cheap enough to ask before every
        read."""

    @property
    def doubts(self) -> int:
        """Return a number that grows whenever something other than an append may have happened to
        the log. Ask it after `mark`, as cheaply."""

    @property
    def damaged(self) -> set[int]:
        """Return the records that `batch` passed over, because their lines are not what was
        written; whoever keeps the numbers clears it."""

    def boot(self) -> str:
        """Return the name of this run of the machine; `-` where nothing does."""

    def explain(self, lost: Lost) -> str:
        """Return why it is right that the log ends before what was derived from it. StoreCorrupt
        where it is not."""

    def restart(self, floor: int, forget: bool = False) -> None:
        """Look again at what follows from the records after the floor: the log is another one from
        there on. With `forget`, what stands in the tree and not in the log was dropped there,
        whoever wrote it once.
        """

    def agents(self) -> Iterable[Agent]:
        """Return the agents as the operator declares them now."""

    def settings(self) -> Settings:
        """Return the settings as the operator declares them now."""

    def declare(self, agent: Agent) -> str | None:
        """Keep the declaration of an agent beside the log; return the digest of its file, if it has
        one.
        """

    def close(self) -> None:
        """Release every resource. Idempotent."""


class Embedder(Protocol):
    """Makes vectors of texts, near to each other where the texts mean nearly the same.

    * `name` says which model this is, and no two models have one name: vectors are compared within
      a name only.
    * All vectors of a name are of one dimension. They need not be of unit length.
    * Of a text that is too long the beginning counts. A model that was trained on questions and
      answers may treat a `query` in another way than a text that is kept.
    * Failures are EmbedderError: its class Refused where this text will never be embedded.
    """

    @property
    def name(self) -> str:
        """Return the model's name, the same for ever."""

    def embed(self, texts: Sequence[str], *, query: bool = False) -> Sequence[Sequence[float]]:
        """Return one vector for each text, in their order."""

    def close(self) -> None:
        """Release every resource. Idempotent; a later call may take them again."""
