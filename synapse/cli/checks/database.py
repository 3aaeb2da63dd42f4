"""The database that commits a journal, for `synapse doctor`: whether it answers, how it is set, who
holds it up, and how far this machine's copy is. It is waited for no longer than by a reader.
"""

from __future__ import annotations

from collections.abc import Iterator

from synapse.system.findings import Finding, some
from synapse.system.typed import TYPE_CHECKING

if TYPE_CHECKING:
    from synapse.core import Memory
    from synapse.log.postgres.health import Health, Transaction

LEAST = 150_000  # PostgreSQL 15, as it counts
MOST = 0.8  # of the connections that a server takes
HELD = 2  # seconds; an append holds the head for milliseconds
LONG = 60
APART = 5_000_000  # microseconds between two clocks
HEAD_BYTES = 1 << 20  # of a table that has one row
DEAD = 10_000  # rows
LOSES = "what was acknowledged may be lost with the server's power"
UNSAFE = {
    ("fsync", "off"): f"fsync is off: {LOSES}; `alter system reset fsync`, then restart it",
    ("full_page_writes", "off"): (
        f"full_page_writes is off: {LOSES}; `alter system reset full_page_writes`, then reload it"
    ),
    ("autovacuum", "off"): (
        "autovacuum is off, and each append leaves a dead row: `alter system reset autovacuum`,"
        " then reload it"
    ),
    ("synchronous_commit", "off"): (
        "synchronous_commit is off: appends turn it on for themselves, and nobody else does;"
        " `alter role … reset synchronous_commit`"
    ),
}


def database(root: str, memory: Memory) -> Iterator[Finding]:
    """Check the database, where the workspace has one."""
    from synapse.errors import StoreBusy
    from synapse.log.files import FilesLog
    from synapse.log.postgres.database import ConnectionLost
    from synapse.log.postgres.health import ask_health
    from synapse.log.postgres.journal import PgJournal

    journal = memory.store.log.journal if isinstance(memory.store.log, FilesLog) else None
    if not isinstance(journal, PgJournal):
        return
    try:
        if isinstance(journal.away, ConnectionLost):
            raise journal.away  # nobody waits for it twice
        health = ask_health(journal.database, memory.store.clock)
    except StoreBusy as error:
        detail = f"{error}; until then reads come from this machine's copy, and nothing is written"
        yield Finding("database", "fail", detail)
        return
    address = journal.database.address
    yield from _server(address.public, health)
    yield from _transactions(health.transactions)
    yield from _tables(address.schema, health)
    yield from _clock(health.ahead)
    yield from _copy(health.last, health.last - journal.reached())


def _server(public: str, health: Health) -> Iterator[Finding]:
    problems = [text for pair, text in UNSAFE.items() if pair in health.settings.items()]
    used, most = health.connections
    if used > MOST * most:
        problems.append(f"{used} of {most} connections are used: raise max_connections")
    if not health.direct:
        problems.append(
            f"{public} answers through a pool of connections: what other machines write is seen at"
            " the next look; name the server itself in `log:`"
        )
    if health.number < LEAST:
        text = f"it is PostgreSQL {health.version}, and 15 or later is needed: upgrade it"
        yield Finding("database", "fail", text)
    elif health.readonly:
        text = f"{public} is a standby, or read-only: name the primary in `log:`"
        yield Finding("database", "fail", text)
    else:
        machines = "1 machine is" if health.machines == 1 else f"{health.machines} machines are"
        text = f"PostgreSQL {health.version} answers at {public}; {machines} connected"
        yield Finding("database", "ok", text)
    yield from some("database", "warn", problems, "")


def _transactions(transactions: list[Transaction]) -> Iterator[Finding]:
    """Check that nobody holds the head, which stops every writer, or what vacuum would free."""
    for each in transactions:
        who = f"process {each.pid} of {each.role} at {each.machine} ({each.state})"
        ends = f"`select pg_terminate_backend({each.pid})` ends it"
        if each.holds and each.seconds >= HELD:
            text = f"{who} has held the log for {each.seconds} s: nobody can write; {ends}"
            yield Finding("transactions", "fail", text)
        elif each.seconds >= LONG:
            text = f"{who} has a transaction open for {each.seconds} s, and tables grow; {ends}"
            yield Finding("transactions", "warn", text)


def _tables(schema: str, health: Health) -> Iterator[Finding]:
    problems = []
    if health.head_bytes > HEAD_BYTES:
        text = f"the row of the log's head takes {health.head_bytes >> 10} KB"
        problems.append(f"{text}: `vacuum full {schema}.head`")
    if health.dead > max(DEAD, health.last // 5):
        problems.append(f"{health.dead} rows of the log are dead: `vacuum {schema}.line`")
    yield from some("bloat", "warn", problems, "")
    if not problems:
        yield Finding("bloat", "ok", f"{health.last} records take {health.bytes >> 20} MB there")


def _clock(ahead: int) -> Iterator[Finding]:
    if abs(ahead) > APART:
        how = "ahead of" if ahead > 0 else "behind"
        text = f"this machine's clock is {abs(ahead) / 1e6:.0f} s {how} the database's"
        yield Finding("clock", "warn", f"{text}: `timedatectl` shows whether it is set by a server")


def _copy(last: int, lacks: int) -> Iterator[Finding]:
    if lacks > 0:
        text = f"this machine's copy lacks {lacks} of {last} records: `locks` and `disk` say why"
        yield Finding("copy", "warn", text)
    else:
        yield Finding("copy", "ok", "this machine has every record of the database")
