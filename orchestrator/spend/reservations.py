"""The budget of a workspace: what all its runs have spent and reserved, asked before each call and
each spawn.

One SQLite file, `runs/spend.db`, serves all supervisors; in memory there is none. It is derived:
the ledgers say what was spent, and a missing file is filled from them. So nothing here waits for
the disk, and a crash of the machine costs time, never truth. Every question is decided under one
lock, in all scopes or in none.
"""

from __future__ import annotations

import os
import sqlite3
from _thread import allocate_lock
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from math import ceil
from typing import NamedTuple, TypeVar

from orchestrator.runs.files.folder import LEDGER, Folder
from orchestrator.runs.files.ledger import Line, read, used
from orchestrator.spend.limits import DEFAULTS, Amount, Policy, Scope, reached, scopes
from synapse.errors import StoreError
from synapse.index.database import set_aside_damaged
from synapse.system.lock import Lock
from synapse.system.plain_files import demand_file

T = TypeVar("T")
_BILLION, _MILLION = 1_000_000_000, 1_000_000
_TABLES = """
create table spent (
    scope text primary key, turns int, tokens int, nanos int, micros int, runs int
) without rowid;
create table call (
    id integer primary key autoincrement, run text, holder text,
    turns int, tokens int, nanos int, micros int, line text
);
create table held (scope text, call int, primary key (scope, call)) without rowid;
create table live (scope text, run text, holder text, primary key (scope, run)) without rowid;
create index call_run on call (run);
create index held_call on held (call);
create index live_run on live (run);
"""
_SPENT = "select turns, tokens, nanos, micros, runs from spent where scope = ?"
_RESERVED = """select coalesce(sum(turns), 0), coalesce(sum(tokens), 0), coalesce(sum(nanos), 0),
    coalesce(sum(micros), 0) from held join call on call.id = held.call where held.scope = ?"""
_LIVE = "select count(*) from live where scope = ? and run <> ?"
_ADD = """insert into spent values (?, ?, ?, ?, ?, ?) on conflict (scope) do update set
    turns = turns + excluded.turns, tokens = tokens + excluded.tokens,
    nanos = nanos + excluded.nanos,
    micros = micros + excluded.micros, runs = runs + excluded.runs"""
_CALL_COLUMNS = "select name from pragma_table_info('call')"
_MEASURES = ("turns", "tokens", "usd", "seconds")
# turns, tokens, billionths of a dollar, millionths of a second
_Whole = tuple[int, int, int, int]


class Reservation(NamedTuple):
    """What a call may take, set aside in its scopes until it is settled or released."""

    id: int
    run: str
    asked: Amount


class Standing(NamedTuple):
    """How a scope stands."""

    spent: Amount
    reserved: Amount
    runs: int
    live: int


class Past(NamedTuple):
    """A run as its record tells it: what a missing file is made again from. `lease_name` while it
    is running; what was not `spawned` is no run, and counts by its calls alone.
    """

    run: str
    parent: str | None
    root: str
    department: str | None
    at: int
    lease_name: str | None = None
    spawned: bool = True


class Budget:
    """The budget of a workspace, for any number of threads and processes.

    `refill` gives, where the file is missing, the runs of the workspace with their ledgers' lines.
    `book` is given each call whose end nobody will report: the run, and its line for the ledger.
    """

    def __init__(
        self,
        path: str = ":memory:",
        *,
        policy: Policy = DEFAULTS,
        refill: Callable[[], Iterable[tuple[Past, Iterable[Line]]]] = tuple,
        book: Callable[[str, str], None] = lambda run, line: None,
    ) -> None:
        self.path, self.policy, self.refill, self.book = path, policy, refill, book
        self._lock = None if path == ":memory:" else _lock(path)
        self._mutex = allocate_lock()
        self._opened: tuple[int, int | None] | None = None
        self._connection: sqlite3.Connection | None = None
        self._decide(lambda run: None)

    def reserve(
        self, run: str, lease_name: str, scopes: Iterable[Scope], asked: Amount, line: str = ""
    ) -> Reservation:
        """Set aside what a call may take, in every scope, or LimitReached: then nothing is. `line`
        is booked should nobody report the end of the call.
        """
        scopes, amounts = tuple(scopes), _whole(asked)

        def decide(db: sqlite3.Connection) -> Reservation:
            for scope in scopes:
                _check_amount(db, scope, amounts)
            row = (run, lease_name, *amounts, line)
            call = db.execute(
                (
                    "insert into call (run, holder, turns, tokens, nanos, micros, line) values"
                    " (?, ?, ?, ?, ?, ?, ?)"
                ),
                row,
            ).lastrowid
            db.executemany(
                "insert into held values (?, ?)", [(scope.name, call) for scope in scopes]
            )
            return Reservation(call or 0, run, asked)

        return self._decide(decide)

    def settle(self, reservation: Reservation, used: Amount) -> bool:
        """Count the amount of a call. Return False where a recovery has counted it at what was
        reserved: it stays so.
        """
        return self._decide(lambda db: _settle(db, reservation.id, _whole(used)))

    def give_up(self, reservation: Reservation) -> None:
        """Count a call of which nobody knows whether it was answered at what was reserved for it,
        and book it.
        """
        self._decide(lambda db: self._settle_all(db, "id = ?", reservation.id))

    def release(self, reservation: Reservation) -> bool:
        """Give back the reservation of a call that was never made."""
        return self._decide(lambda db: _settle(db, reservation.id, None))

    def admit(self, run: str, lease_name: str, scopes: Iterable[Scope]) -> None:
        """Count a spawn and the run as alive, in every scope, or LimitReached. It stays counted,
        unless withdrawn.
        """
        scopes = tuple(scopes)

        def decide(db: sqlite3.Connection) -> None:
            for scope in scopes:
                _check_spawn(db, scope, run)
            db.executemany(_ADD, [(scope.name, 0, 0, 0, 0, 1) for scope in scopes])
            _enter(db, run, lease_name, scopes)

        self._decide(decide)

    def withdraw(self, run: str, scopes: Iterable[Scope]) -> None:
        """Uncount a run that was admitted and did not begin after all."""
        scopes = tuple(scopes)

        def decide(db: sqlite3.Connection) -> None:
            db.execute("delete from live where run = ?", (run,))
            db.executemany(_ADD, [(scope.name, 0, 0, 0, 0, -1) for scope in scopes])

        self._decide(decide)

    def recover(self, run: str, lease_name: str, scopes: Iterable[Scope]) -> None:
        """Count a run as this supervisor's, and its calls in flight at what was reserved for them;
        book these. No limit is asked: the run was admitted before.
        """
        scopes = tuple(scopes)

        def decide(db: sqlite3.Connection) -> None:
            self._settle_all(db, "run = ?", run)
            db.execute("delete from live where run = ?", (run,))
            _enter(db, run, lease_name, scopes)

        self._decide(decide)

    def leave(self, run: str, lease_name: str) -> None:
        """Count a run as ended, and its calls in flight at what was reserved for them; book these.
        Where another supervisor goes on with it, nothing changes.
        """

        def decide(db: sqlite3.Connection) -> None:
            self._settle_all(db, "run = ? and holder = ?", run, lease_name)
            db.execute("delete from live where run = ? and holder = ?", (run, lease_name))

        self._decide(decide)

    def release_dead(self, lives: Callable[[str], bool]) -> None:
        """Do so for every supervisor that lives no more, by the name in its lease."""
        for name in self.lease_names():
            if not lives(name):
                self.release_all(name)

    def release_all(self, lease_name: str) -> None:
        """Count the runs of a dead supervisor as alive no more, and its calls in flight at what was
        reserved for them; book these.
        """

        def decide(db: sqlite3.Connection) -> None:
            self._settle_all(db, "holder = ?", lease_name)
            db.execute("delete from live where holder = ?", (lease_name,))

        self._decide(decide)

    def standing(self, scope: str) -> Standing:
        def decide(db: sqlite3.Connection) -> Standing:
            *spent, runs = _spent(db, scope)
            live = db.execute(_LIVE, (scope, "")).fetchone()[0]
            return Standing(_amount(spent), _amount(_reserved(db, scope)), runs, live)

        return self._decide(decide)

    def lease_names(self) -> set[str]:
        """Return the name in the lease of every supervisor that something is counted for."""
        names = "select holder from live union select holder from call"
        return self._decide(lambda db: {name for (name,) in db.execute(names)})

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = self._opened = None
        if self._lock is not None:
            self._lock.close()

    def _settle_all(self, db: sqlite3.Connection, where: str, *values: str | int) -> None:
        """Settle calls whose end nobody will report at what was reserved for them, and book them:
        they may have been made. Whoever dies before this is committed books them again, and an
        equal line of a ledger counts once. A ledger that cannot be written stops nobody.
        """
        calls = db.execute(
            f"select id, run, line, turns, tokens, nanos, micros from call where {where}", values
        ).fetchall()
        for call, run, line, *amounts in calls:
            if line:
                with suppress(StoreError):
                    self.book(run, line)
            _settle(db, call, (amounts[0], amounts[1], amounts[2], amounts[3]))

    def _decide(self, decide: Callable[[sqlite3.Connection], T]) -> T:
        """Run one transaction, alone among all threads and processes, and return its result."""

        def section() -> T:
            try:
                try:
                    return self._transaction(decide)
                except sqlite3.DatabaseError as error:
                    if type(error) is not sqlite3.DatabaseError or self._lock is None:
                        raise
                    # it is damaged, and derived: made again from the ledgers
                    if self._connection is not None:
                        self._connection.close()
                    self._connection = self._opened = None
                    set_aside_damaged(self.path, "-journal")
                    return self._transaction(decide)
            except sqlite3.Error as error:
                raise StoreError(
                    f"{self.path} cannot be used: {error}; delete it, it is derived"
                ) from error

        if self._lock is not None:
            return self._lock.run(section)
        with self._mutex:
            return section()

    def _transaction(self, decide: Callable[[sqlite3.Connection], T]) -> T:
        db = self._current()
        db.execute("begin immediate")
        try:
            outcome = decide(db)
        except BaseException:
            db.execute("rollback")
            raise
        db.execute("commit")
        return outcome

    def _current(self) -> sqlite3.Connection:
        """Return the connection. It is opened again after a fork, and where another process deleted
        or replaced the file.
        """
        identity = (os.getpid(), self._inode()) if self._lock else None
        if self._connection is None or identity != self._opened:
            if self._lock:
                demand_file(self.path)
            self._connection = sqlite3.connect(
                self.path, isolation_level=None, check_same_thread=False
            )
            self._connection.execute("pragma synchronous = off")
            self._connection.execute("pragma journal_mode = truncate")
            self._fill(self._connection)
            self._opened = (os.getpid(), self._inode()) if self._lock else identity
        return self._connection

    def _fill(self, db: sqlite3.Connection) -> None:
        if db.execute("select 1 from sqlite_master where name = 'live_run'").fetchone():
            if ("line",) not in db.execute(_CALL_COLUMNS).fetchall():  # of an earlier version
                db.execute("alter table call add column line text")
            return
        db.execute("begin immediate")
        for statement in _TABLES.split(";"):
            db.execute(statement)
        for past, lines in self.refill():
            _remember(db, self.policy, past, lines)
        db.execute("commit")

    def _inode(self) -> int | None:
        try:
            return os.stat(self.path).st_ino
        except OSError:
            return None


def of_line(line: Line, seconds: float = 0.0) -> Amount:
    """Return the amount of a call by its ledger line: the provider's count, or ours where it gave
    none.
    """
    usage = used(line)
    return Amount(1, usage.input_tokens + usage.output_tokens, line.cost or 0.0, seconds)


def book(root: str, run: str, line: str) -> None:
    """Add a line to the ledger of a run, as far as its folder is there."""
    folder = Folder(root, run)
    if os.path.isdir(folder.path):
        folder.record(LEDGER, line, sync=False)


def ledgers(root: str, runs: Iterable[Past]) -> Iterator[tuple[Past, list[Line]]]:
    """Yield each run with its ledger's lines: a missing budget is filled from these."""
    for past in runs:
        yield past, read(Folder(root, past.run).lines(LEDGER))


def _lock(path: str) -> Lock:
    try:
        os.makedirs(os.path.dirname(path) or ".", mode=0o700, exist_ok=True)
        return Lock(f"{path}.lock")
    except OSError as error:
        raise StoreError(f"{path} cannot be used: {error}") from error


def _check_amount(db: sqlite3.Connection, scope: Scope, wanted: _Whole) -> None:
    usd, seconds = scope.limits.usd, scope.limits.seconds
    bounds = (
        scope.limits.turns,
        scope.limits.tokens,
        None if usd is None else round(usd * _BILLION),
        None if seconds is None else round(seconds * _MILLION),
    )
    if all(bound is None for bound in bounds):
        return
    spent, reserved = _spent(db, scope.name), _reserved(db, scope.name)
    for index, bound in enumerate(bounds):
        if bound is not None and spent[index] + reserved[index] + wanted[index] > bound:
            name = _MEASURES[index]
            totals = [_amount(amounts)[index] for amounts in (spent, reserved, wanted)]
            raise reached(
                scope.name,
                name,
                getattr(scope.limits, name),
                spent=totals[0],
                reserved=totals[1],
                asked=totals[2],
            )


def _check_spawn(db: sqlite3.Connection, scope: Scope, run: str) -> None:
    children, live = scope.limits.children, scope.limits.live
    if children is not None and (started := _spent(db, scope.name)[4]) >= children:
        raise reached(scope.name, "children", children, spent=started, asked=1)
    if live is not None and (alive := db.execute(_LIVE, (scope.name, run)).fetchone()[0]) >= live:
        raise reached(scope.name, "live", live, spent=alive, asked=1)


def _enter(db: sqlite3.Connection, run: str, lease_name: str, where: Iterable[Scope]) -> None:
    db.executemany(
        "insert or replace into live values (?, ?, ?)",
        [(scope.name, run, lease_name) for scope in where],
    )


def _settle(db: sqlite3.Connection, call: int, used: _Whole | None) -> bool:
    """Count what a call took, or nothing, in the place of its reservation."""
    names = [name for (name,) in db.execute("select scope from held where call = ?", (call,))]
    if used is not None:
        db.executemany(_ADD, [(name, *used, 0) for name in names])
    db.execute("delete from held where call = ?", (call,))
    db.execute("delete from call where id = ?", (call,))
    return bool(names)


def _remember(db: sqlite3.Connection, policy: Policy, past: Past, lines: Iterable[Line]) -> None:
    """Count a run's ledger lines in the scopes of that run, all of them on the day when it
    began.
    """
    run_scopes = scopes(
        policy, run=past.run, root=past.root, department=past.department, at=past.at
    )
    parent_scopes = scopes(
        policy, run=past.parent, root=past.root, department=past.department, at=past.at
    )
    for line in lines:
        db.executemany(_ADD, [(scope.name, *_whole(of_line(line)), 0) for scope in run_scopes])
    if past.spawned:
        db.executemany(_ADD, [(scope.name, 0, 0, 0, 0, 1) for scope in parent_scopes])
    if past.lease_name is not None:
        _enter(db, past.run, past.lease_name, parent_scopes)


def _spent(db: sqlite3.Connection, scope: str) -> tuple[int, int, int, int, int]:
    row: tuple[int, int, int, int, int] | None = db.execute(_SPENT, (scope,)).fetchone()
    return row or (0, 0, 0, 0, 0)


def _reserved(db: sqlite3.Connection, scope: str) -> _Whole:
    row: _Whole = db.execute(_RESERVED, (scope,)).fetchone()
    return row


def _whole(amount: Amount) -> _Whole:
    """Return the amount in whole units, which add up exactly; a fraction counts as one more."""
    nanos = ceil(round(amount.usd * _BILLION, 3))
    return amount.turns, amount.tokens, nanos, ceil(round(amount.seconds * _MILLION, 3))


def _amount(whole: Iterable[int]) -> Amount:
    turns, tokens, nanos, micros = tuple(whole)[:4]
    return Amount(turns, tokens, nanos / _BILLION, micros / _MILLION)
