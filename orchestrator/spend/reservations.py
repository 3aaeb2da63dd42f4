"""The budget of a workspace: what all its runs have spent and reserved, asked before each call and
each spawn.

One SQLite file serves all supervisors of a machine; where the log is in a database, tables beside
it serve those of all machines. They are derived: the ledgers say what was spent, and new ones are
filled from them. Every question is decided under one lock, in all scopes or in none, by the same
statements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from math import ceil
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from orchestrator.runs.files.folder import LEDGER, Folder
from orchestrator.runs.files.ledger import Line, read, used
from orchestrator.spend.accounts import Accounts, FileAccounts, Statements
from orchestrator.spend.limits import DEFAULTS, Amount, Policy, Scope, reached, scopes
from synapse.errors import StoreError

if TYPE_CHECKING:
    from synapse.log.postgres.database import Database

T = TypeVar("T")
_BILLION, _MILLION = 1_000_000_000, 1_000_000
_SPENT = "select turns, tokens, nanos, micros, runs from spent where scope = ?"
_RESERVED = """select cast(coalesce(sum(turns), 0) as bigint),
    cast(coalesce(sum(tokens), 0) as bigint), cast(coalesce(sum(nanos), 0) as bigint),
    cast(coalesce(sum(micros), 0) as bigint)
    from held join call on call.id = held.call where held.scope = ?"""
_LIVE = "select count(*) from live where scope = ? and run <> ?"
_ADD = """insert into spent values (?, ?, ?, ?, ?, ?) on conflict (scope) do update set
    turns = spent.turns + excluded.turns, tokens = spent.tokens + excluded.tokens,
    nanos = spent.nanos + excluded.nanos,
    micros = spent.micros + excluded.micros, runs = spent.runs + excluded.runs"""
_CALL = """insert into call (run, holder, turns, tokens, nanos, micros, line)
    values (?, ?, ?, ?, ?, ?, ?) returning id"""
_ENTER = """insert into live values (?, ?, ?)
    on conflict (scope, run) do update set holder = excluded.holder"""
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
        database: Database | None = None,
    ) -> None:
        self.policy, self.refill, self.book = policy, refill, book
        self.accounts: Accounts
        if database is None:
            self.accounts = FileAccounts(path)
        else:
            from orchestrator.spend.postgres.accounts import SharedAccounts

            self.accounts = SharedAccounts(database)
        self._decide(lambda db: None)

    def reserve(
        self, run: str, lease_name: str, scopes: Iterable[Scope], asked: Amount, line: str = ""
    ) -> Reservation:
        """Set aside what a call may take, in every scope, or LimitReached: then nothing is. `line`
        is booked should nobody report the end of the call.
        """
        scopes, amounts = tuple(scopes), _whole(asked)

        def decide(db: Statements) -> Reservation:
            for scope in scopes:
                _check_amount(db, scope, amounts)
            ((call,),) = db.rows(_CALL, run, lease_name, *amounts, line)
            db.each("insert into held values (?, ?)", [(scope.name, call) for scope in scopes])
            return Reservation(call, run, asked)

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

        def decide(db: Statements) -> None:
            for scope in scopes:
                _check_spawn(db, scope, run)
            db.each(_ADD, [(scope.name, 0, 0, 0, 0, 1) for scope in scopes])
            _enter(db, run, lease_name, scopes)

        self._decide(decide)

    def withdraw(self, run: str, scopes: Iterable[Scope]) -> None:
        """Uncount a run that was admitted and did not begin after all."""
        scopes = tuple(scopes)

        def decide(db: Statements) -> None:
            db.rows("delete from live where run = ?", run)
            db.each(_ADD, [(scope.name, 0, 0, 0, 0, -1) for scope in scopes])

        self._decide(decide)

    def recover(self, run: str, lease_name: str, scopes: Iterable[Scope]) -> None:
        """Count a run as this supervisor's, and its calls in flight at what was reserved for them;
        book these. No limit is asked: the run was admitted before.
        """
        scopes = tuple(scopes)

        def decide(db: Statements) -> None:
            self._settle_all(db, "run = ?", run)
            db.rows("delete from live where run = ?", run)
            _enter(db, run, lease_name, scopes)

        self._decide(decide)

    def leave(self, run: str, lease_name: str) -> None:
        """Count a run as ended, and its calls in flight at what was reserved for them; book these.
        Where another supervisor goes on with it, nothing changes.
        """

        def decide(db: Statements) -> None:
            self._settle_all(db, "run = ? and holder = ?", run, lease_name)
            db.rows("delete from live where run = ? and holder = ?", run, lease_name)

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

        def decide(db: Statements) -> None:
            self._settle_all(db, "holder = ?", lease_name)
            db.rows("delete from live where holder = ?", lease_name)

        self._decide(decide)

    def standing(self, scope: str) -> Standing:
        def decide(db: Statements) -> Standing:
            *spent, runs = _spent(db, scope)
            live = _live(db, scope, "")
            return Standing(_amount(spent), _amount(_reserved(db, scope)), runs, live)

        return self._decide(decide)

    def lease_names(self) -> set[str]:
        """Return the name in the lease of every supervisor that something is counted for."""
        names = "select holder from live union select holder from call"
        return self._decide(lambda db: {name for (name,) in db.rows(names)})

    def close(self) -> None:
        self.accounts.close()

    def _settle_all(self, db: Statements, where: str, *values: str | int) -> None:
        """Settle calls whose end nobody will report at what was reserved for them, and book them:
        they may have been made. Whoever dies before this is committed books them again, and an
        equal line of a ledger counts once. A ledger that cannot be written stops nobody.
        """
        calls = db.rows(
            f"select id, run, line, turns, tokens, nanos, micros from call where {where}", *values
        )
        for call, run, line, *amounts in calls:
            if line:
                with suppress(StoreError):
                    self.book(run, line)
            _settle(db, call, (amounts[0], amounts[1], amounts[2], amounts[3]))

    def _decide(self, decide: Callable[[Statements], T]) -> T:
        """Run one transaction, alone among all, and return its result."""
        return self.accounts.decide(decide, self._fill)

    def _fill(self, db: Statements) -> None:
        for past, lines in self.refill():
            _remember(db, self.policy, past, lines)


def of_line(line: Line, seconds: float = 0.0) -> Amount:
    """Return the amount of a call by its ledger line: the provider's count, or ours where it gave
    none.
    """
    usage = used(line)
    return Amount(1, usage.input_tokens + usage.output_tokens, line.cost or 0.0, seconds)


def book(folder_of: Callable[[str], Folder], run: str, line: str) -> None:
    """Add a line to the ledger of a run, as far as its folder is there."""
    folder = folder_of(run)
    if folder.exists:
        folder.record(LEDGER, line, sync=False)


def ledgers(
    folder_of: Callable[[str], Folder], runs: Iterable[Past]
) -> Iterator[tuple[Past, list[Line]]]:
    """Yield each run with its ledger's lines: a missing budget is filled from these."""
    for past in runs:
        yield past, read(folder_of(past.run).lines(LEDGER))


def _check_amount(db: Statements, scope: Scope, wanted: _Whole) -> None:
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


def _check_spawn(db: Statements, scope: Scope, run: str) -> None:
    children, live = scope.limits.children, scope.limits.live
    if children is not None and (started := _spent(db, scope.name)[4]) >= children:
        raise reached(scope.name, "children", children, spent=started, asked=1)
    if live is not None and (alive := _live(db, scope.name, run)) >= live:
        raise reached(scope.name, "live", live, spent=alive, asked=1)


def _enter(db: Statements, run: str, lease_name: str, where: Iterable[Scope]) -> None:
    db.each(_ENTER, [(scope.name, run, lease_name) for scope in where])


def _settle(db: Statements, call: int, used: _Whole | None) -> bool:
    """Count what a call took, or nothing, in the place of its reservation."""
    names = [name for (name,) in db.rows("select scope from held where call = ?", call)]
    if used is not None:
        db.each(_ADD, [(name, *used, 0) for name in names])
    db.rows("delete from held where call = ?", call)
    db.rows("delete from call where id = ?", call)
    return bool(names)


def _remember(db: Statements, policy: Policy, past: Past, lines: Iterable[Line]) -> None:
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
        db.each(_ADD, [(scope.name, *_whole(of_line(line)), 0) for scope in run_scopes])
    if past.spawned:
        db.each(_ADD, [(scope.name, 0, 0, 0, 0, 1) for scope in parent_scopes])
    if past.lease_name is not None:
        _enter(db, past.run, past.lease_name, parent_scopes)


def _spent(db: Statements, scope: str) -> tuple[int, int, int, int, int]:
    found: list[tuple[int, int, int, int, int]] = db.rows(_SPENT, scope)
    return found[0] if found else (0, 0, 0, 0, 0)


def _live(db: Statements, scope: str, run: str) -> int:
    """Return how many runs are alive, without this one."""
    ((alive,),) = db.rows(_LIVE, scope, run)
    return int(alive)


def _reserved(db: Statements, scope: str) -> _Whole:
    reserved: list[_Whole] = db.rows(_RESERVED, scope)
    return reserved[0]


def _whole(amount: Amount) -> _Whole:
    """Return the amount in whole units, which add up exactly; a fraction counts as one more."""
    nanos = ceil(round(amount.usd * _BILLION, 3))
    return amount.turns, amount.tokens, nanos, ceil(round(amount.seconds * _MILLION, 3))


def _amount(whole: Iterable[int]) -> Amount:
    turns, tokens, nanos, micros = tuple(whole)[:4]
    return Amount(turns, tokens, nanos / _BILLION, micros / _MILLION)
