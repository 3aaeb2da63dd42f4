"""The results of reads and checks: pages, hits, events, reports. Values; nothing here reads or
writes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from synapse.model.entry import Entry
from synapse.system.typed import TYPE_CHECKING, NamedTuple, T

if TYPE_CHECKING:
    from typing import overload


class Page:
    """Entries, newest first. `cursor` is how far the log had been read; `visible` counts the live
    entries that the filter lets through and that this agent may see, beyond the page's limit too.
    `matched` is the same number: what may not be seen is in no count.
    """

    __slots__ = ("_count", "_counted", "cursor", "entries")

    def __init__(self, entries: Sequence[Entry], cursor: int, count: Callable[[], int]) -> None:
        self.entries = tuple(entries)
        self.cursor = cursor
        self._count = count
        self._counted: int | None = None

    @property
    def matched(self) -> int:
        """Return how many entries match, of those that the reader may see."""
        return self.visible

    @property
    def visible(self) -> int:
        """Return how many entries the reader may see, on this page or not."""
        if self._counted is None:
            self._counted = self._count()
        return self._counted

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    if TYPE_CHECKING:

        @overload
        def __getitem__(self, place: int) -> Entry: ...

        @overload
        def __getitem__(self, place: slice) -> tuple[Entry, ...]: ...

    def __getitem__(self, place: int | slice) -> Entry | tuple[Entry, ...]:
        return self.entries[place]

    def __repr__(self) -> str:
        return f"Page({len(self.entries)} entries, cursor={self.cursor})"


class UnreadPage(Page):
    """Entries of others that a reader was not shown: what is critical first, then important, then
    info, the oldest first in each. `entries` are there whole; where a budget bounds the page,
    `pointers` follow with one line each. `left` is how many are neither: critical, important, info.
    `visible` counts all that are unread, `matched` with them those that the reader was shown.
    `foot` says all this in a line; `tokens` is the count of the whole text, where it was bounded.
    """

    __slots__ = ("_matched", "foot", "left", "pointers", "tokens")

    def __init__(
        self,
        entries: Sequence[Entry],
        pointers: Sequence[Entry],
        left: tuple[int, int, int],
        cursor: int,
        matched: int,
        foot: str,
        tokens: int | None = None,
    ) -> None:
        visible = len(entries) + len(pointers) + sum(left)
        super().__init__(entries, cursor, lambda: visible)
        self._matched = matched
        self.pointers = tuple(pointers)
        self.left = left
        self.foot = foot
        self.tokens = tokens

    @property
    def matched(self) -> int:
        return self._matched


class Hit(NamedTuple):
    """One entry found, with its score (higher is better), the part of the body that matched, on one
    line, and where in that part the words stand that were looked for (start and end of each).
    """

    entry: Entry
    score: float
    excerpt: str
    marks: tuple[tuple[int, int], ...] = ()

    @property
    def id(self) -> str:
        """Return the id of the entry that was found."""
        return self.entry.id

    @property
    def author(self) -> str:
        """Return who wrote it."""
        return self.entry.author

    @property
    def namespace(self) -> str:
        """Return where it belongs."""
        return self.entry.namespace

    @property
    def body(self) -> str:
        """Return its text."""
        return self.entry.body


class Hits(Sequence[Hit]):
    """The hits of a search, best first. `partial`: more entries match than the `ranked` ones that
    were weighed one by one, which hold most of the words. `note` says what was not searched, and
    why."""

    __slots__ = ("hits", "note", "partial", "ranked")

    def __init__(
        self, hits: Sequence[Hit] = (), partial: bool = False, ranked: int = 0, note: str = ""
    ) -> None:
        self.hits = tuple(hits)
        self.partial = partial
        self.ranked = ranked
        self.note = note

    def __len__(self) -> int:
        return len(self.hits)

    if TYPE_CHECKING:

        @overload
        def __getitem__(self, place: int) -> Hit: ...

        @overload
        def __getitem__(self, place: slice) -> tuple[Hit, ...]: ...

    def __getitem__(self, place: int | slice) -> Hit | tuple[Hit, ...]:
        return self.hits[place]

    def __repr__(self) -> str:
        return f"Hits({len(self.hits)} entries, partial={self.partial})"


class Rows(list[T]):
    """The newest rows of many. `next` is the `before` that asks for those ahead of them; None where
    there are none.
    """

    __slots__ = ("next",)

    def __init__(self, rows: Iterable[T] = (), next: str | None = None) -> None:
        super().__init__(rows)
        self.next = next


class Fate(NamedTuple):
    """Why an entry is not shown: superseded, outranked, resolved, expired, archived or rejected; by
    which entry or agent; until which microsecond, if it may come back.
    """

    reason: str
    by: str
    until: int


class Event(NamedTuple):
    """One event of a follower: an entry that is new to it, and the cursor to go on from."""

    cursor: int
    kind: str
    entry: Entry


class Problem(NamedTuple):
    """One finding of `verify`: where, what, and whether `repair` can repair it."""

    where: str
    what: str
    mendable: bool = False


class Report(NamedTuple):
    """The report of `verify`. `head` names the last record and its chain: kept elsewhere, it proves
    the end too. `mended` is what `repair` put back, `notes` what it found out of the journal.
    `compared` is the last record that signed checkpoints speak of, 0 where there was none to
    compare with, None for a log that has none."""

    problems: tuple[Problem, ...]
    records: int
    head: str
    mended: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    compared: int | None = None

    @property
    def ok(self) -> bool:
        """Return whether nothing is wrong."""
        return not self.problems


class Redacted(NamedTuple):
    """The result of `redact`: the entry, the digest of its text, the files in which it was
    overwritten, other entries that repeat it, and what stays, for the chain covers it: records with
    a part of it in their fields, and fields of its own."""

    id: str
    sha: str
    files: tuple[str, ...]
    repeated: tuple[str, ...]
    records: tuple[int, ...]
    stays: tuple[str, ...]


class Rebuilt(NamedTuple):
    """The result of `rebuild`: records taken in, the digest of all that was derived from them, and
    which files are not what was taken in."""

    records: int
    digest: str
    problems: tuple[Problem, ...] = ()


class Tainted(NamedTuple):
    """What was tainted: the number of the act (None where it is only planned), the entries that are
    shown to nobody any more, those that `may` be affected and are shown, the runs that had one of
    them in sight, the agents that were shown what was named, and the entries that are `left`, for
    they take more authority."""

    seq: int | None
    ids: tuple[str, ...]
    may: tuple[str, ...]
    runs: tuple[str, ...]
    agents: tuple[str, ...]
    left: tuple[str, ...]
