"""A workspace's schema in PostgreSQL: its connections, its tables, and the turn of one append.

Knows lines as text, and nothing of what they say. `PgJournal` appends by it, and whoever else keeps
something beside the log has tables of its own there (`Database.tables`).
"""

from __future__ import annotations

import os
import select
import time
from _thread import RLock
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from synapse.errors import NewerProtocol, StoreBusy, StoreError
from synapse.index.database import load_sql
from synapse.log.postgres.address import Address
from synapse.model.placement import Tail
from synapse.system.typed import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import psycopg
    from psycopg import Connection
    from psycopg.pq.abc import PGconn, PGresult

VERSION = 1
STALE = "SY001"  # what the schema's function says where others appended meanwhile
_HERE = os.path.dirname(__file__)
_DEFAULTS = {
    "application_name": "synapse",
    "client_encoding": "utf8",
    "keepalives_idle": "5",
    "keepalives_interval": "2",
    "keepalives_count": "3",
    "tcp_user_timeout": "10000",
}
READERS_WAIT = 2  # seconds for a sign of the server; what it has sent so far goes on
WRITERS_WAIT = 10  # longer than the server lets a writer wait for the others
Row = tuple[str, ...]


class Result(NamedTuple):
    """The rows of a statement, as text, and its error."""

    rows: list[Row]
    error: psycopg.Error | None


class ConnectionLost(StoreBusy):
    """The connection went, or stays silent. `sent`: within a commit, so that it is not known what
    became of it.
    """

    def __init__(self, message: str, sent: bool = False) -> None:
        super().__init__(message)
        self.sent = sent


class Tables:
    """Tables of a workspace's schema, with their statements: `queries.sql` and `schema.sql` of a
    folder. Two of the statements, `made` and `about`, tell whether they are there and of which
    version.
    """

    def __init__(self, address: Address, folder: str, session: Session) -> None:
        self.address, self.session = address, session
        self.sql = self.statements(os.path.join(folder, "queries.sql"))
        with open(os.path.join(folder, "schema.sql"), encoding="utf-8") as file:
            self.schema_sql = self._filled(file.read())

    def statements(self, path: str) -> dict[str, bytes]:
        """Return the named statements of a file, about this workspace."""
        return {name: self._filled(text) for name, text in load_sql(path).items()}

    def _filled(self, text: str) -> bytes:
        text = text.replace("{schema}", f'"{self.address.schema}"')
        return text.replace("{channel}", f"'{self.channel}'").encode()

    @property
    def channel(self) -> str:
        """Return what the listeners of the workspace listen to."""
        return f"synapse_{self.address.schema}"

    def make(self, version: int) -> Row:
        """Return what `about` says, and make the tables where there are none."""
        with self.session.use() as connection:
            row = self._about(connection)
            if row is None:
                self._migrate(connection)
                row = self._about(connection)
        if row is None or int(row[0]) > version:
            raise NewerProtocol(
                f"{self.address.public} was written by a newer version: upgrade this software"
            )
        return row

    def _about(self, connection: Connection) -> Row | None:
        ((exists,),) = self.ask_on(connection, "made")
        return self.ask_on(connection, "about")[0] if exists == "t" else None

    def _migrate(self, connection: Connection) -> None:
        """Make the tables, one process at a time."""
        ((encoding,),) = connection.execute("show server_encoding").fetchall()
        if encoding != "UTF8":
            raise StoreError(
                f"{self.address.public} keeps text as {encoding}, which not every text fits: make"
                " a database with `create database … encoding 'UTF8'`"
            )
        with connection.transaction():
            connection.execute("select pg_advisory_xact_lock(hashtext(%s))", (self.channel,))
            if self._about(connection) is None:  # else another process was faster
                connection.execute(self.schema_sql)

    def ask(self, name: str, *values: object) -> list[Row]:
        """Return the rows of a statement."""
        with self.session.use() as connection:
            return self.ask_on(connection, name, *values)

    def ask_on(self, connection: Connection, name: str, *values: object) -> list[Row]:
        """Return the rows of a statement, on this connection."""
        ((rows, error),) = exchange(connection, [(self.sql[name], values)], self.session.patience)
        if error is not None:
            raise error
        return rows


class Database(Tables):
    """The schema of one workspace, asked over one connection and written over another. Other tables
    beside the log's have a third one.
    """

    def __init__(self, address: Address) -> None:
        super().__init__(address, _HERE, Session(address, READERS_WAIT))
        self.writer = Session(address, WRITERS_WAIT)
        self._beside = Session(address, WRITERS_WAIT)
        self._others: dict[str, Tables] = {}

    @property
    def quiet(self) -> float:
        """Return for how many seconds the server has said nothing."""
        return time.monotonic() - max(self.session.heard, self.writer.heard)

    def workspace(self) -> str:
        """Return the name that the workspace has for ever, and make its tables where there are
        none.
        """
        return self.make(VERSION)[1]

    def tables(self, folder: str, version: int) -> Tables:
        """Return other tables of the workspace, those of this folder, and make them where there are
        none.
        """
        if folder not in self._others:
            tables = Tables(self.address, folder, self._beside)
            tables.make(version)
            self._others[folder] = tables
        return self._others[folder]

    def blank(self, seq: int, raw: str) -> None:
        """Put a line in the place of another whose text was redacted."""
        with self.turn() as turn:
            turn.blank(seq, raw)

    @contextmanager
    def turn(self) -> Iterator[Turn]:
        """Return a turn at the log. Whatever of it is not committed at its end is taken back."""
        with self.writer.use() as connection:
            import psycopg

            turn = Turn(connection, self.sql)
            try:
                yield turn
            except psycopg.Error as error:
                if is_lost(connection, error):
                    why = unreachable(self.address, error)
                    raise ConnectionLost(why, sent=turn.sent) from error
                raise
            finally:
                if not connection.closed and connection.info.transaction_status:
                    with suppress(psycopg.Error):  # it may have been ended meanwhile
                        turn.let_go()

    def close(self) -> None:
        for session in (self.session, self.writer, self._beside):
            session.close()


class Turn:
    """One transaction that appends. `sent` says that a commit is under way."""

    def __init__(self, connection: Connection, sql: dict[str, bytes]) -> None:
        self.connection = connection
        self.sql = sql
        self.sent = False

    def append(self, tail: Tail, lines: str, attempt: str, limit: int) -> list[Row] | None:
        """Append behind this tail and commit, in one round trip; None where that was done. Else
        the turn holds the head, and these are the lines from the tail on.
        """
        self.sent = True
        opening, closing = self._opening(tail, limit), self._closing(tail, lines, attempt)
        results = self._send(*opening, *closing)
        error = _first_error(results)
        if error is None:
            return None
        if error.sqlstate != STALE:
            raise error
        self.sent = False
        return results[3].rows

    def hold(self, tail: Tail, after: int, attempt: str, limit: int) -> tuple[list[Row], str]:
        """Take the head, in one round trip; return the lines from the tail on, and the chain of the
        first line behind `after` that this attempt stored already, empty where it stored none.
        """
        results = self._send(*self._opening(tail, limit), ("attempt", after, attempt))
        error = _first_error(results)
        if error is not None:
            raise error
        stored = results[-1].rows
        return results[3].rows, stored[0][0] if stored else ""

    def commit(self, tail: Tail, lines: str, attempt: str) -> None:
        """Append behind this tail, which is the held head, and commit, in one round trip."""
        self.sent = True
        error = _first_error(self._send(("again",), *self._closing(tail, lines, attempt)))
        if error is not None:
            raise error

    def blank(self, seq: int, raw: str) -> None:
        """Put a line in the place of another, and commit, in one round trip."""
        results = self._send(("begin",), ("guard",), ("blank", seq, raw), ("commit",))
        error = _first_error(results)
        if error is not None:
            raise error

    def let_go(self) -> None:
        """Give the head back, with nothing done."""
        self._send(("rollback",))

    def _opening(self, tail: Tail, limit: int) -> list[tuple[object, ...]]:
        """Return what takes the head and reads on from the tail, as the fourth. Behind the
        savepoint a statement may fail, and the head stays.
        """
        lines = ("behind", tail.seq, limit)
        return [("begin",), ("guard",), ("lock",), lines, ("savepoint",)]

    def _closing(self, tail: Tail, lines: str, attempt: str) -> list[tuple[object, ...]]:
        return [("append", tail.seq, tail.chain, attempt, lines), ("commit",)]

    def _send(self, *steps: tuple[object, ...]) -> list[Result]:
        statements = [(self.sql[str(name)], values) for name, *values in steps]
        return exchange(self.connection, statements, WRITERS_WAIT)


def exchange(
    connection: Connection, statements: Sequence[tuple[bytes, Sequence[object]]], patience: float
) -> list[Result]:
    """Send statements together and return what came of each, in one round trip. The server passes
    over all that stand behind one that fails. One that gives no sign for so many seconds is taken
    for lost: a kernel answers for a process that stands still.

    By libpq's own calls: the driver's pipelines send each statement by itself, and a flush at their
    end, behind which a server forgets to time an idle transaction.
    """
    pq = connection.pgconn
    pq.enter_pipeline_mode()
    try:
        for text, values in statements:
            pq.send_query_params(text, [str(value).encode() for value in values])
        pq.pipeline_sync()
        while pq.flush():
            _wait(pq.socket, select.POLLIN | select.POLLOUT, patience)
            pq.consume_input()
        results = [_result(pq, patience) for _ in statements]
        _next(pq, patience)  # the end of the round trip
        pq.exit_pipeline_mode()
        return results
    except BaseException:
        connection.close()
        raise


def _result(pq: PGconn, patience: float) -> Result:
    """Return what came of the next statement."""
    import psycopg
    from psycopg.pq import DiagnosticField, ExecStatus

    result = _next(pq, patience)
    if result is None:
        raise psycopg.OperationalError(pq.error_message.decode("utf-8", "replace"))
    rows, error = list[Row](), None
    if result.status == ExecStatus.FATAL_ERROR:
        state = (result.error_field(DiagnosticField.SQLSTATE) or b"").decode()
        error = _kind(state)(result.error_message.decode("utf-8", "replace"))
        error.sqlstate = state or None
    for row in range(result.ntuples):
        cells = (result.get_value(row, column) for column in range(result.nfields))
        rows.append(tuple((cell or b"").decode() for cell in cells))
    _next(pq, patience)  # nothing more comes of it
    return Result(rows, error)


def _kind(state: str) -> type[psycopg.Error]:
    """Return the class of an error; a connection that went has no state."""
    import psycopg

    if not state:
        return psycopg.OperationalError
    try:
        return psycopg.errors.lookup(state)
    except KeyError:  # one of ours
        return psycopg.DatabaseError


def _next(pq: PGconn, patience: float) -> PGresult | None:
    while pq.is_busy():
        _wait(pq.socket, select.POLLIN, patience)
        pq.consume_input()
    return pq.get_result()


def _wait(fd: int, events: int, patience: float) -> None:
    if not _stirs(fd, events, patience):
        import psycopg

        raise psycopg.OperationalError(f"no answer for {patience:g} s")


def _stirs(fd: int, events: int, seconds: float) -> bool:
    """Return whether one of the events comes within so many seconds."""
    poll = select.poll()
    poll.register(fd, events)
    return bool(poll.poll(seconds * 1_000))


def _first_error(results: Sequence[Result]) -> psycopg.Error | None:
    return next((result.error for result in results if result.error is not None), None)


class Session:
    """One connection, made when it is first used and made anew where it was lost. Threads take it
    in turn, and a process that forked makes its own.
    """

    def __init__(self, address: Address, patience: int) -> None:
        self.address = address
        self.patience = patience
        self.connection: Connection | None = None
        self.heard = 0.0  # when the server last answered
        self.pid = os.getpid()
        self.mutex = RLock()

    @contextmanager
    def use(self) -> Iterator[Connection]:
        """Return the connection. Its errors become ours: ConnectionLost where it went, StoreBusy
        where others hold what is asked for, StoreError else.
        """
        with self.mutex:
            connection = self._open()
            import psycopg
            from psycopg import errors

            try:
                yield connection
                self.heard = time.monotonic()
            except errors.InsufficientPrivilege as error:
                raise StoreError(
                    f"{self.address.public}: {first_line(error)}: let the owner of the database"
                    f" open it once, and grant this role the use of schema {self.address.schema}"
                ) from error
            except errors.LockNotAvailable as error:
                raise StoreBusy(
                    f"another writer has held the log in {self.address.public} for over 5 s;"
                    " nothing was stored, try again"
                ) from error
            except errors.ReadOnlySqlTransaction as error:
                raise StoreError(
                    f"{self.address.public} is a standby, or read-only: name the primary in `log:`"
                ) from error
            except psycopg.Error as error:
                if is_lost(connection, error):
                    raise ConnectionLost(unreachable(self.address, error)) from error
                raise StoreError(f"{self.address.public}: {first_line(error)}") from error

    def _open(self) -> Connection:
        if self.pid != os.getpid():
            self.mutex, self.pid = RLock(), os.getpid()
            self.connection = None  # the parent's, whose socket is not closed here
        connection = self.connection
        if connection is not None and not connection.closed and _was_ended(connection):
            connection.close()
        if connection is None or connection.closed:
            connection = self.connection = connect(self.address, self.patience)
        return connection

    def close(self) -> None:
        if self.connection is not None and self.pid == os.getpid():
            self.connection.close()
            self.connection = None


def _was_ended(connection: Connection) -> bool:
    """Return whether an idle connection has something to say: that the server ended it. What is
    sent over it would be neither done nor known to be undone.
    """
    return _stirs(connection.fileno(), select.POLLIN, 0)


def connect(address: Address, patience: int) -> Connection:
    """Return a new connection, in which every statement is its own transaction."""
    try:
        import psycopg
        from psycopg.conninfo import conninfo_to_dict
    except ImportError as error:
        raise StoreError(
            "a log in PostgreSQL needs the extra `postgres`: in the clone of Synapse, python3 -m"
            " pip install '.[postgres]'"
        ) from error
    try:
        asked = conninfo_to_dict(address.dsn)
        options: dict[str, Any] = {**_DEFAULTS, "connect_timeout": patience, **asked}
        connection = psycopg.connect(**options, autocommit=True)
    except psycopg.OperationalError as error:
        raise ConnectionLost(unreachable(address, error)) from error
    except psycopg.Error as error:
        raise StoreError(f"{address.public} cannot be used: {first_line(error)}") from error
    connection.prepare_threshold = None  # a pool of connections would not know the statement
    return connection


def is_direct(connection: Connection) -> bool:
    """Return whether the server's own process answers, which a pool of connections has many of."""
    row = connection.execute("select pg_backend_pid()").fetchone()
    return row == (connection.info.backend_pid,)


def is_lost(connection: Connection, error: psycopg.Error) -> bool:
    """Return whether an error is the end of a connection, which is closed then: the server did not
    say what was wrong.
    """
    lost = connection.closed or error.sqlstate is None
    if lost:
        connection.close()
    return lost


def unreachable(address: Address, error: Exception) -> str:
    """Return why the database does not answer, and what to do."""
    why = first_line(error)
    if "password" in why or "authentication" in why:
        todo = "set PGPASSWORD, or write the password into ~/.pgpass"
    elif "does not exist" in why:
        todo = "create it, or correct the address"
    elif "no answer" in why or "timeout" in why:
        todo = "see whether its machine stands still, or the network between is cut"
    else:
        todo = "start the server, or correct the address"
    return f"{address.public} cannot be reached ({why}): {todo}"


def first_line(error: Exception) -> str:
    """Return the first line of what the driver says, which is the server's own word."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0].removeprefix("connection failed: ")
