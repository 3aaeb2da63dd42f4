"""How a database does that holds a log, for the doctor. Asks, and judges nothing."""

from __future__ import annotations

import os
from collections.abc import Callable

from synapse.log.postgres.database import READERS_WAIT, Database, Row, exchange
from synapse.system.typed import NamedTuple


class Transaction(NamedTuple):
    """One that is open: of which process of the server, for how long, and whether it holds the head
    of the log.
    """

    pid: int
    role: str
    machine: str
    state: str
    seconds: int
    holds: bool


class Health(NamedTuple):
    """What a database says of itself. By `ahead` microseconds our clock is ahead of its own."""

    number: int
    version: str
    direct: bool
    readonly: bool
    ahead: int
    connections: tuple[int, int]
    machines: int
    settings: dict[str, str]
    last: int
    transactions: list[Transaction]
    head_bytes: int
    bytes: int
    dead: int


def ask_health(database: Database, clock: Callable[[], int]) -> Health:
    """Return how it does; ConnectionLost where it does not answer."""
    path = os.path.join(os.path.dirname(__file__), "health.sql")
    texts = [(text, ()) for text in database.statements(path).values()]
    with database.session.use() as connection:
        begun = clock()
        results = exchange(connection, texts[:1], READERS_WAIT)
        ours = (begun + clock()) // 2
        results += exchange(connection, texts[1:], READERS_WAIT)
        for result in results:
            if result.error is not None:
                raise result.error
        (server,), settings, (head,), ((machines,),), transactions, (size,) = (
            result.rows for result in results
        )
        number, version, pid, readonly, time, used, most = server
        return Health(
            int(number),
            version,
            int(pid) == connection.info.backend_pid,
            readonly == "on",
            ours - int(time),
            (int(used), int(most)),
            int(machines),
            dict(settings),  # type: ignore[arg-type]
            int(head[0]),
            [_transaction(row) for row in transactions],
            *map(int, size),
        )


def _transaction(row: Row) -> Transaction:
    pid, role, machine, state, seconds, holds = row
    return Transaction(int(pid), role, machine, state, int(seconds), holds == "t")
