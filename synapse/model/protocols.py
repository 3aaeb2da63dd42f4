"""The protocols with more than one implementation: the log, and what embeds texts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Protocol, runtime_checkable

from synapse.model.agents import Agent
from synapse.model.records import Guard, Lost, Record
from synapse.model.settings import Settings

Clock = Callable[[], int]


@runtime_checkable
class Log(Protocol):
    """An append-only sequence of records: the truth from which everything else is derived.

    * Order is the log's own: `seq` grows by one per record. `at` is the time of its receipt, which
      steps back only behind a clock that was ahead (`model.clock.stamp`). Readers at a cursor (the
      seq they have seen) never miss a record and never get one twice.
    * `append` returns only when the record would survive the death of every process and, where the
      store can promise it, of the machine. If it raises, the record is not in the log, or is
      followed by its `void`.
    * The id of an entry is claimed by the append, unique in the workspace for ever, by any number
      of writers.
    * `append(once=KEY)` returns the first record of the same author and key instead of writing a
      second.
    * `append(unless=GUARD)` raises Conflict, and writes nothing, where the guard no longer holds;
      the decision and the write are one step. A guard may carry others of other keys (`also`): all
      of them hold, or nothing is written. `once` comes first: what is written already is returned,
      whatever the guard says.
    * `append_all` is so many appends, each under its `once`, with one turn at the lock and one
      sync. The guard, and what is written already, are decided on the log as it was before the
      first of them. Only a crash, or a disk that has no room for a void, may leave the first of
      them there without the rest.
    * `archive` and `restore` move entries between the live tree and the archive; ids, order and
      text stay.
    * Everything may be called from several threads. After `close` nothing may be called but
      `close`.
    * Failures are StoreError, StoreBusy where trying again helps, StoreCorrupt where it does not.
    """

    def append(
        self, record: Record, *, once: str | None = None, unless: Guard | None = None
    ) -> Record:
        """Commit one record and return it as stored."""

    def append_all(
        self, batch: Mapping[str, Record], *, unless: Guard | None = None
    ) -> list[Record]:
        """Commit these records, in their order, and return them as stored. The keys are what `once`
        is to each.
        """

    def get(self, id: str) -> Record:
        """Return the record that holds this id, or NotFound."""

    def at(self, seq: int) -> Record:
        """Return the record at this place, or NotFound."""

    def since(self, cursor: int = 0) -> Iterator[Record]:
        """Yield every record after the cursor, in order, as far as the log goes now."""

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

    def turn(self) -> int:
        """Return how often the log turned out to be another one than before, as far as that was
        noticed."""

    def fork(self, turn: int) -> int | None:
        """Return the last record that all logs since this turn have in common; None where that is
        not known."""

    def restart(self, floor: int, forget: bool = False) -> None:
        """Look again at what follows from the records after the floor: the log is another one from
        there on. With `forget`, what stands in the tree and not in the log was dropped there,
        whoever wrote it once.
        """

    def archive(
        self, ids: Collection[str], by: str, reason: str, unless: Guard | None = None
    ) -> Record:
        """File entries away. They stay readable under their ids."""

    def restore(
        self, ids: Collection[str], by: str, reason: str, unless: Guard | None = None
    ) -> Record:
        """Bring archived entries back, in their old order."""

    def agents(self) -> Iterable[Agent]:
        """Return the agents as the operator declares them now."""

    def settings(self) -> Settings:
        """Return the settings as the operator declares them now."""

    def register(self, agent: Agent, by: str, was: Agent | None = None) -> Record:
        """Declare an agent, or change its declaration from what it was."""

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
