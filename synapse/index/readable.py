"""Readers who do not wait: while the file of the index is held by another process, or has no room,
they are answered by a copy in memory. `Index` is one of these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial

from synapse.errors import NewerProtocol, StoreBusy, StoreCorrupt, StoreError
from synapse.index.database import Act, Database
from synapse.system.lock import Lock
from synapse.system.typed import TYPE_CHECKING, Any, T

if TYPE_CHECKING:
    from typing import Self

READERS_WAIT = 1.0  # seconds


class Readable:
    """What an index does for a reader whose turn does not come."""

    if TYPE_CHECKING:
        db: Database
        lock: Lock | None
        log: Any
        mutex: Any
        say: Callable[[str], object]
        place: tuple[int, int]
        doubts: int
        take_in: Callable[[], None]
        fill_words: Callable[[], None]
        refresh: Callable[[object], object]
        in_memory: Callable[[Any, str, float], Self]
        keep_tokens: Callable[[str, Mapping[bytes, int]], None]

    def __init__(self) -> None:
        self.spare: Self | None = None  # answers in memory while the file is held
        self.held_by = ""  # who did not let go of the file while a reader waited
        self.notice = ""  # why the file was not asked

    @property
    def act(self) -> Act:
        """Return what this thread is at: inside of a snapshot of this index, or of its spare."""
        local = self.db.local
        return local.elsewhere or local.act

    def to_read(self, words: bool) -> Self:
        """Return the index to ask, in step with the log: this one, or a copy in memory where its
        file is held, or the disk is full, for longer than a reader waits. Where the log lost what
        was seen of it, this one answers as it stands.
        """
        in_step = self.log.mark() == self.place and self.log.doubts == self.doubts
        self.pass_on()
        if in_step and not words and self.spare is None:
            return self
        try:
            self.within(READERS_WAIT, partial(self._catch_up_with, words))
        except StoreCorrupt as error:
            if "seen" not in error.details:
                raise
            self._tell(str(error))
            self.refresh(None)
            if words:
                self.within(READERS_WAIT, self.fill_words)
        except StoreError as error:
            if self.lock is None or isinstance(error, NewerProtocol):
                raise
            self._tell(f"{self.held_by or error}; answered from the journal, in memory")
            return self._copy(words)
        return self

    def pass_on(self) -> None:
        """Say what the log has to say."""
        for note in self.log.notes():
            self.say(note)

    def within(self, seconds: float, section: Callable[[], T]) -> T:
        """Run the section, and wait no longer than this for who holds the file; not at all where
        the last who did waited in vain.
        """
        if self.lock is None:
            return section()
        usual = self.lock.hurry_of_thread()
        with self.lock.waits_at_most(0 if self.held_by else seconds):
            self.db.wait_for(self.lock.hurry_of_thread())
            try:
                result = section()
                self.held_by = ""
                return result
            except StoreBusy as error:
                self.held_by = self.held_by or str(error)
                raise
            finally:
                self.db.wait_for(usual)

    def _catch_up_with(self, words: bool) -> None:
        self.take_in()
        if words:
            self.fill_words()

    def keep_counted(self, encoding: str, counts: Mapping[bytes, int]) -> None:
        """Keep counts that a reader made, unless it would have to wait for that."""
        with suppress(StoreError):
            self.within(0.05, partial(self.keep_tokens, encoding, counts))

    def _copy(self, words: bool) -> Self:
        with self.mutex:
            if self.spare is None:
                self.spare = self.in_memory(self.log, self.db.path, READERS_WAIT / 4)
                self.spare.say = self.say
            spare = self.spare
        return spare.to_read(words)

    def _tell(self, why: str) -> None:
        """Say once why the file is not asked."""
        if not self.notice:
            self.notice = why
            self.say(why)
