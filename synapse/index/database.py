"""The SQLite file of the index: opening, versions, named statements. No business logic.

An index of another version, or of another log, is dropped and built again: there are no migrations.
"""

from __future__ import annotations

import os
import sqlite3
from _thread import _local
from _weakref import ref
from collections.abc import Callable, Iterable, Mapping
from time import monotonic, sleep

from synapse.errors import IndexDamaged, StoreBusy, StoreError
from synapse.system.deadline import check_deadline
from synapse.system.plain_files import demand_file, open_file
from synapse.system.typed import TYPE_CHECKING, Any, T

if TYPE_CHECKING:
    from synapse.system.lock import Lock

VERSION = "25"
INDEX = ("schema.sql", "queries.sql", VERSION)
KEPT = 500
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
BUSY = 10.0  # seconds that a connection waits for another one's lock
_FOR_SPEED = frozenset(("meta", "tokens", "words", "long", "lanes", "swept", "taking"))
_HERE = os.path.dirname(__file__)
_LOADED: dict[str, dict[str, str]] = {}
_EMPTY: dict[tuple[str, str, str], bytes] = {}  # of each kind, as it begins in memory


def load_sql(name: str) -> dict[str, str]:
    """Return the named statements of a file, of this folder unless its path is whole; fragments are
    written into the statements that use them.
    """
    with open(os.path.join(_HERE, name), encoding="utf-8") as file:
        sections = file.read().split("\n-- ")
    texts: dict[str, dict[str, str]] = {"name": {}, "fragment": {}}
    for section in sections[1:]:
        title, _, body = section.partition("\n")
        kind, _, label = title.partition(": ")
        if kind in texts:
            texts[kind][label.strip()] = body.strip()
    statements = texts["name"]
    for label, fragment in texts["fragment"].items():
        statements = {
            name: text.replace("{" + label + "}", fragment) for name, text in statements.items()
        }
    return statements


def _statements(name: str) -> dict[str, str]:
    """Return the named statements of a file of ours, which a process reads once."""
    if name not in _LOADED:
        _LOADED[name] = load_sql(name)
    return dict(_LOADED[name])


class Act:
    """What a thread is at: its connection, how deep it is inside of a snapshot, whether it wants a
    read transaction and has one, what it counted meanwhile, and what is to be written once it has
    left.
    """

    __slots__ = (
        "__weakref__",
        "afterwards",
        "connection",
        "counts",
        "depth",
        "file",
        "held",
        "reading",
        "snapshot",
        "words",
    )

    def __init__(self) -> None:
        self.connection: sqlite3.Connection | None = None
        self.file = 0  # which of the files of this name the connection is open on
        self.depth = 0
        self.held = self.reading = self.words = False
        # the snapshot of `Index`, which the layers above know by its class
        self.snapshot: Any = None
        self.counts: list[tuple[str, Mapping[bytes, int]]] = []
        self.afterwards: list[Callable[[], object]] = []

    def __del__(self) -> None:
        self.let_go()

    def let_go(self) -> None:
        """Close the connection: its thread ended, or has nothing more to ask."""
        if self.connection is not None:
            self.connection.close()
            self.connection = None


class _Thread(_local):
    def __init__(self) -> None:
        self.act = Act()
        self.elsewhere: Act | None = None  # inside of a snapshot of a copy in memory


class Database:
    """One derived file, or one in memory: the index, unless another schema is named. Every thread
    has its own connection, which ends with it; a fork opens anew.
    """

    def __init__(
        self,
        path: str,
        kind: tuple[str, str, str] = INDEX,
        copy: sqlite3.Connection | None = None,
        wait: float = BUSY,
    ) -> None:
        self.path = path
        self.wait = wait  # seconds that a new connection waits for another one's lock
        self.kind = kind
        self.schema, queries, self.version = kind
        self.sql = _statements(queries)
        self.filled: dict[tuple[object, ...], str] = {}
        self.local = _Thread()
        self.pid = os.getpid()
        self.opened: set[ref[Act]] = set()  # of the threads that live
        self.file = 0  # how often it was set aside, or was by somebody else
        self.inode = 0  # of the file that was opened last
        self.shared = self._connect(copy) if path == ":memory:" else None
        self._ensure()

    @property
    def connection(self) -> sqlite3.Connection:
        if self.shared is not None:
            return self.shared
        if self.pid != os.getpid():
            self.pid, self.local, self.opened = os.getpid(), _Thread(), set()
        act = self.local.act
        connection = act.connection
        if connection is None or (act.file != self.file and not act.reading):
            act.let_go()
            connection = act.connection = self._connect()
            act.file = self.file
            self.opened.add(ref(act, self.opened.discard))
        return connection

    def run(self, name: str, values: object = (), **lists: Iterable[int] | str) -> sqlite3.Cursor:
        """Run a named statement; lists of integers, or SQL for such a list, take the place of
        `{name}`.
        """
        text = self._filled(name, lists) if lists else self.sql[name]
        act = self.local.act
        try:
            if act.held:
                check_deadline()
                if not act.reading:
                    self.connection.execute("begin")
                    act.reading = True
            return self.connection.execute(text, values)  # type: ignore[arg-type]
        except sqlite3.DatabaseError as error:
            raise self.failed(error) from error

    def _filled(self, name: str, lists: dict[str, Iterable[int] | str]) -> str:
        """Return the statement with its lists in it. What tuples fill is kept: an agent's reach is
        asked for all day. An empty list becomes a number that nothing has: without any, SQLite
        knows no way through an index it is told to use.
        """
        key = (
            (name, *lists.values())
            if all(isinstance(numbers, (tuple, str)) for numbers in lists.values())
            else None
        )
        text = self.filled.get(key) if key else None
        if text is None:
            text = self.sql[name]
            for label, numbers in lists.items():
                if not isinstance(numbers, str):
                    numbers = ",".join(map(str, numbers)) or "-1"
                text = text.replace("{" + label + "}", numbers)
            if key:
                if len(self.filled) >= KEPT:
                    self.filled.clear()
                self.filled[key] = text
        return text

    def release(self, act: Act) -> None:
        """End the read transaction that a snapshot began."""
        act.reading = False
        if act.connection is not None:
            try:
                act.connection.execute("commit")
            except sqlite3.DatabaseError as error:
                raise self.failed(error) from error

    def whole(self, section: Callable[[], T]) -> T:
        """Run the section in one transaction, all of it or nothing, and return what it returns."""
        run = self.connection.execute
        run("begin immediate")
        try:
            value = section()
        except BaseException:
            try:
                run("rollback")
            except sqlite3.Error:
                pass  # of a damaged file it may be gone already
            raise
        run("commit")
        return value

    def many(self, name: str, rows: list[tuple[object, ...]]) -> None:
        if rows:
            self.connection.executemany(self.sql[name], rows)

    def failed(self, error: Exception) -> StoreError:
        """Return the error as one of ours: the file is damaged, or the disk is full or
        read-only.
        """
        if isinstance(error, IndexDamaged):
            return error
        if isinstance(error, sqlite3.Error) and _code(error) in _BUSY:
            return StoreBusy(f"the index {self.path} is held by another process: {error}")
        if is_damage(error):
            return IndexDamaged(
                f"the index {self.path} was damaged ({error}): it is set aside and derived"
                f" again; ask once more",
                path=self.path,
            )
        return StoreError(f"the index {self.path} could not be used: {error}")

    def wait_for(self, seconds: float | None) -> None:
        """Have this thread wait no longer than so many seconds for another one's lock; None: as all
        others do.
        """
        wait = BUSY if seconds is None else seconds
        self.connection.execute(f"pragma busy_timeout = {int(wait * 1000)}")

    def set_aside(self) -> bool:
        """Put the damaged file out of the way, under a name that says so, and open a new one;
        whether it was this call that did. Called under the lock of those who add to the file.

        Threads that are reading in the old one end that there.
        """
        try:
            mine = os.stat(self.path).st_ino == self.inode
        except FileNotFoundError:
            mine = False
        if mine:
            set_aside_damaged(self.path, "-wal", "-shm")
        self.file += 1
        self._ensure()
        return mine

    def meta(self, key: str) -> str | None:
        row = self.run("get_meta", {"key": key}).fetchone()
        return None if row is None else row[0]

    def set_meta(self, key: str, value: str) -> None:
        self.run("set_meta", {"key": key, "value": value})

    def digest(self) -> str:
        """Return a hash of every derived row, equal for equal logs."""
        from hashlib import sha256

        run, total = self.connection.execute, sha256()
        names = [
            name
            for (name,) in run("select name from sqlite_master where type = 'table' order by name")
        ]
        for name in names:
            if name.partition("_")[0] not in _FOR_SPEED and not name.startswith("sqlite_"):
                columns = len(run(f'select * from "{name}" limit 0').description)
                order = ",".join(str(i + 1) for i in range(columns))
                cursor = run(f'select * from "{name}" order by {order}')
                while rows := cursor.fetchmany(1_000):
                    total.update(repr((name, rows)).encode())
        return total.hexdigest()

    def wipe(self) -> None:
        """Drop every table and make them again, within the transaction that is open."""
        run = self.connection.execute
        numbers = [self.meta(key) for key in ("seen", "seq")] if self._version() else []
        highest = max((int(number) for number in numbers if number), default=0)
        names = run(
            "select name from sqlite_master where type = 'table' and name not like 'sqlite_%'"
        ).fetchall()
        for (name,) in names:
            if not name.startswith("words_"):
                run(f'drop table if exists "{name}"')
        self._create()
        if highest:
            self.set_meta("seen", str(highest))

    def fold(self) -> None:
        """Fold the log of changes back into the file, as far as nobody reads an older state."""
        self.connection.execute("pragma wal_checkpoint(passive)").fetchone()

    def vacuum(self) -> None:
        """Write the file anew, without what was deleted, and empty the log of changes."""
        try:
            self.connection.execute("vacuum")
            busy, *_ = self.connection.execute("pragma wal_checkpoint(truncate)").fetchone()
        except sqlite3.Error as error:
            raise self.failed(error) from error
        if busy and self.path != ":memory:":
            raise StoreBusy(
                f"{self.path} still holds what was deleted: somebody reads in it; try again"
            )

    def let_go(self) -> None:
        """Close this thread's connection: it ends, or has nothing more to ask."""
        act = self.local.act
        self.opened.discard(ref(act))
        act.let_go()

    def close(self) -> None:
        for act in [*self.opened]:
            if (living := act()) is not None:
                living.let_go()
        if self.shared:
            self.shared.close()
        self.opened, self.local = set(), _Thread()

    def _connect(self, copy: sqlite3.Connection | None = None) -> sqlite3.Connection:
        if self.path != ":memory:":
            _make_private(self.path)
        try:
            connection = copy or sqlite3.connect(
                self.path,
                isolation_level=None,
                timeout=self.wait,
                cached_statements=256,
                check_same_thread=False,
            )
            if self.path != ":memory:":
                _keep_wal(connection, self.wait)
                # Folding the WAL back syncs twice: at SQLite's own 1,000 pages that is one small
                # commit in eighty.
                connection.execute("pragma wal_autocheckpoint = 3000")
                # Of what a first filling leaves of the WAL, no more than this is kept.
                connection.execute(f"pragma journal_size_limit = {1 << 20}")
                self.inode = os.stat(self.path).st_ino
            connection.execute("pragma synchronous = normal")
            connection.execute("pragma temp_store = memory")
            connection.execute("pragma cache_size = -16000")
            return connection
        except sqlite3.Error as error:
            if self.path != ":memory:" and os.path.exists(self.path):
                self.inode = os.stat(self.path).st_ino
            raise self.failed(error) from error

    def _ensure(self) -> None:
        """Make the tables of this version. Several processes may find an empty file at once: one
        makes them.
        """
        try:
            if self._version() == self.version:
                return
            if self.shared is not None and self.kind in _EMPTY:
                _fill(self.shared, _EMPTY[self.kind])
                return
            self.connection.execute("begin immediate")
            if self._version() != self.version:
                self.wipe()
            self.connection.execute("commit")
            # not every SQLite was built with this
            if self.shared is not None and hasattr(self.shared, "serialize"):
                _EMPTY[self.kind] = self.shared.serialize()
        except sqlite3.DatabaseError as error:
            raise self.failed(error) from error

    def _version(self) -> str | None:
        try:
            row = self.connection.execute(self.sql["get_meta"], {"key": "version"}).fetchone()
        except sqlite3.OperationalError as error:
            if "no such table" not in str(error):
                raise
            return None
        return None if row is None else row[0]

    def _create(self) -> None:
        with open(os.path.join(_HERE, self.schema), encoding="utf-8") as file:
            lines = [line.partition("--")[0] for line in file]
        statement = ""
        for line in lines:
            statement += line
            if sqlite3.complete_statement(statement):
                self.connection.execute(statement)
                statement = ""
        self.set_meta("version", self.version)


def _fill(connection: sqlite3.Connection, raw: bytes) -> None:
    """Copy a database into an empty one: to make the tables anew takes five times as long."""
    source = sqlite3.connect(":memory:")
    try:
        source.deserialize(raw)
        source.backup(connection)
    finally:
        source.close()


def open_database(
    path: str, lock: Lock | None, kind: tuple[str, str, str] = INDEX, wait: float = BUSY
) -> Database:
    """Open the file; where it is damaged, set it aside under the lock of those who add to it, and
    open a new one.
    """
    try:
        return Database(path, kind, wait=wait)
    except IndexDamaged:
        if lock is None:
            raise
        lock.run(lambda: set_aside(path, kind))
        return Database(path, kind, wait=wait)


def _make_private(path: str) -> None:
    """Make the file before SQLite does: for no more users than its folder is for, and never through
    a link. StoreError where something else is there, or beside it.
    """
    demand_file(path)
    mode = os.stat(os.path.dirname(path)).st_mode & 0o644
    try:
        os.close(open_file(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode))
    except OSError:
        pass  # it is there, or SQLite says what is wrong


def _keep_wal(connection: sqlite3.Connection, wait: float) -> None:
    """Switch the file to a write-ahead log. On a new file that several processes open at once,
    SQLite answers that it is locked without waiting: the waiting is done here.
    """
    until = monotonic() + wait
    while True:
        try:
            connection.execute("pragma journal_mode = wal")
            return
        except sqlite3.OperationalError as error:
            if _code(error) != sqlite3.SQLITE_BUSY or monotonic() > until:
                raise
            sleep(0.002)


def set_aside(path: str, kind: tuple[str, str, str]) -> None:
    """Put a file that cannot be opened out of the way, if nobody did that meanwhile."""
    try:
        Database(path, kind).close()
    except StoreError:  # damaged, or held by who had it open before
        set_aside_damaged(path, "-wal", "-shm")


def set_aside_damaged(path: str, *beside: str) -> None:
    """Rename a derived file and those beside it, under names that say why. They go first, and what
    comes again meanwhile is removed: a new file must not find them.
    """
    for end in (*beside, ""):
        if os.path.exists(path + end):
            os.replace(path + end, f"{path}.damaged{end}")
    for end in beside:
        if os.path.exists(path + end):
            os.remove(path + end)


def is_damage(error: BaseException | None) -> bool:
    """Return whether SQLite says that the file is not what it wrote: bytes of something else, or
    tables that are missing.
    """
    if not isinstance(error, sqlite3.DatabaseError):
        return False
    return _code(error) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB) or (
        isinstance(error, sqlite3.OperationalError)
        and str(error).startswith(("no such table", "no such column", "no such index"))
    )


def _code(error: sqlite3.Error) -> int:
    """Return the primary code of an error; 0 for one that SQLite did not raise itself."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF
