"""A reading of the index: the `with` statement of `Store.snapshot`, and what asks again where the
file of the index turned out to be damaged.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps

from synapse.errors import IndexDamaged
from synapse.index.database import is_damage
from synapse.system.typed import TYPE_CHECKING, Any, T

if TYPE_CHECKING:
    from synapse.index.database import Act
    from synapse.index.index import Index
    from synapse.index.snapshot import Snapshot

_WORDLESS = "the snapshot around this one is without words: open that one with them"


class Reading:
    """A `with` statement's way to a snapshot. Inside of another of the same thread it is that
    one.
    """

    __slots__ = ("act", "first", "index", "late", "words")

    def __init__(self, index: Index, *, words: bool = False, late: bool = False) -> None:
        self.index = self.first = index
        self.act: Act = index.db.local.act
        self.late = late
        self.words = words

    def __enter__(self) -> Snapshot:
        act = self.index.act
        if act.depth:
            if self.words and not act.words:
                raise RuntimeError(_WORDLESS)
            act.depth += 1
            self.act = act
            nested: Snapshot = act.snapshot
            return nested
        if not self.late or self.words:
            self.index = self.index.to_read(self.words)
        elif self.index.spare is not None:
            self.index = self.index.spare
        index = self.index
        self.act = act = index.db.local.act
        if index is not self.first:
            self.first.db.local.elsewhere = act
        # From the first statement on, one state of the file. In memory threads share a connection.
        act.held, act.words = index.db.shared is None, self.words
        act.depth = 1
        act.snapshot = snapshot = index.current
        return snapshot

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        act = self.act
        act.depth -= 1
        if act.depth:
            return
        act.held = False
        self.first.db.local.elsewhere = None
        if act.reading:
            try:
                self.index.db.release(act)
            except IndexDamaged as damaged:
                error = error or damaged
        if error and (isinstance(error, IndexDamaged) or is_damage(error)):
            act.counts = []
            self.index.renew()
            if not isinstance(error, IndexDamaged):
                raise self.index.db.failed(error) from error  # type: ignore[arg-type]
        if act.counts:
            counts, act.counts = act.counts, []
            for encoding, new in counts:
                self.index.keep_counted(encoding, new)
        if act.afterwards:
            waiting, act.afterwards = act.afterwards, []
            for write in waiting:
                write()


def asks_again(*names: str) -> Callable[[type[T]], type[T]]:
    """Make these methods of a class, which read and write nothing, ask a second time where the
    index turned out to be damaged: it was set aside, and is derived again.
    """

    def wrapped(method: Any) -> Any:
        @wraps(method)
        def asking(self: Any, *values: Any, **named: Any) -> Any:
            try:
                return method(self, *values, **named)
            except IndexDamaged:
                return method(self, *values, **named)

        return asking

    def decorated(kind: type[T]) -> type[T]:
        for name in names:
            setattr(kind, name, wrapped(getattr(kind, name)))
        return kind

    return decorated
