"""Tools that tests of a log need: a clock that stands still, drafts, threads that start at once."""

from __future__ import annotations

import json
from _thread import allocate_lock, start_new_thread
from collections.abc import Callable
from typing import Any

from synapse.model.clock import micros
from synapse.model.entry import Entry, parse_ttl
from synapse.model.records import Record


class FrozenClock:
    """A clock that stands still until it is moved. Give it wherever `clock=` is taken."""

    def __init__(self, at: int | str = "2026-02-01T09:00:00Z") -> None:
        self.at = micros(at) if isinstance(at, str) else at

    def __call__(self) -> int:
        return self.at

    def advance(self, span: str) -> int:
        """Move it forward by `90s`, `24h`, `7d` and return the new time."""
        self.at += parse_ttl(span) or 0
        return self.at

    def set(self, at: int | str) -> int:
        """Move it to any time, also back."""
        self.at = micros(at) if isinstance(at, str) else at
        return self.at


def draft_entry(
    body: str = "use /v2/users",
    namespace: str = "api/endpoints",
    author: str = "eng-a",
    **more: Any,
) -> Record:
    """Return an admitted entry on its way into a log."""
    entry = Entry("", author, "2026-02-01T09:00:00Z", namespace, "info", body, "30d", authority=60)
    return Record.new("entry", author, {}, entry._replace(**more))


def together(*tasks: Callable[[], Any]) -> list[Any]:
    """Return what each of these returned, or the exception that it raised; all run at once, in
    threads of their own."""
    results: list[Any] = [None] * len(tasks)
    gate, done = allocate_lock(), [allocate_lock() for _ in tasks]
    gate.acquire()

    def run(number: int) -> None:
        with gate:
            pass
        try:
            results[number] = tasks[number]()
        except BaseException as error:  # a result like any other: the test looks at it
            results[number] = error
        done[number].release()

    for number, lock in enumerate(done):
        lock.acquire()
        start_new_thread(run, (number,))
    gate.release()
    for lock in done:
        lock.acquire()
    return results


def refused(kind: type[BaseException], act: Callable[[], Any]) -> BaseException:
    """Return the exception of this kind that the act raises."""
    try:
        value = act()
    except kind as error:
        return error
    raise AssertionError(f"{kind.__name__} was expected, and it returned {value!r}")


def same(one: Record, other: Record) -> bool:
    """Return whether two records are equal: as JSON, because a log may give lists back for
    tuples."""
    plain = [record._replace(fields={}, sha=None) for record in (one, other)]
    return plain[0] == plain[1] and _plain(one.fields) == _plain(other.fields)


def _plain(fields: Any) -> Any:
    return json.loads(json.dumps(fields))
