"""The state of a client's session between its hooks: a file in the person's own folder, held by a
lock. In a workspace a stranger may have put some.

Every hook is a process of its own, and several run at once. Nothing here reads the memory; where a
file is lost, an entry may be given once more. Called by everything that knows of sessions.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from orchestrator.files.seen import Seen, SeenFiles
from synapse.errors import StoreBusy, StoreError
from synapse.privacy.secrets import mask_json
from synapse.system import home, plain_files
from synapse.system.digest import sha256

T = TypeVar("T")
EARLIER = os.path.join("runs", ".clients")  # in the workspace, where older versions kept it
MAIN = ""  # the key of the main conversation; a sub-agent's is the client's id of it
LONGEST = 4_000  # characters that are remembered of what a conversation was asked
MOST = 400  # ids, keys and calls that are remembered of each worker
WAIT = 5.0  # seconds for the other hooks of the session, which come one after the other
DONE = 5  # tasks that are remembered of each worker, with what came of them
ENDED = 50  # sub-agents at their end that are remembered of a session
STALE = 7 * 86_400  # seconds after which the file of a session that nobody touched goes


class Worker(SeenFiles):
    """One conversation of a session, main or a sub-agent's: its run, and what it was given. `due`
    are entries that it is to be told and was not yet; `told` are keys of what it was told once;
    `about` is what it was asked last, `done` what of that is done, each with its entry; `later` are
    texts that the event they were for could not take; `forgot` is the place in the log up to which
    it has forgotten what it wrote; `acts` counts what it did since it last ended a turn; `does` and
    `said` are its last call and its last message. `notices` says of each kind of text that it was
    given how many there were, of how many characters, and how long the files are that it need not
    read again, and those of them that it did.
    """

    def __init__(
        self, agent: str, run: str, epoch: int, type: str | None = None, cursor: int = 0
    ) -> None:
        super().__init__(run, cursor)
        self.agent = agent
        self.epoch = epoch
        self.type = type
        self.cursor = cursor
        self.forgot = 0
        self.seen: list[str] = []
        self.due: list[str] = []
        self.told: list[str] = []
        self.about: list[str] = []
        self.done: list[list[str]] = []
        self.busy = False  # whether it is in the middle of a turn
        self.later: list[str] = []
        self.opened = False  # whether it was given its view
        self.acts = 0
        self.does = ""
        self.said = ""
        self.turns = 0
        self.given = 0  # characters that it was given
        self.notices: dict[str, list[int]] = {}
        self.transcript: str | None = None
        self.summaries = 0  # that have replaced it, by its transcript
        self.over = False  # whether its run was ended here
        # what its transcript said when its run began: a usage, and turns
        self.before: list[float] = []

    def add(self, name: str, values: Iterator[str] | list[str] | tuple[str, ...]) -> None:
        """Remember these in one of the lists, the newest of them."""
        present = getattr(self, name)
        setattr(
            self, name, [*present, *(value for value in values if value not in present)][-MOST:]
        )

    def notice(self, kind: str, text: str, named: int = 0, again: int = 0) -> None:
        """Count a text that it was given."""
        counts = self.notices.get(kind, [0, 0, 0, 0])
        more = [text != "", len(text), named, again]
        if any(more):
            self.notices[kind] = [count + one for count, one in zip(counts, more, strict=True)]

    def finish(self, entry: str | None) -> None:
        """Note that a turn has ended, and the entry that tells what came of it."""
        self.busy = False
        if entry is not None:
            self.done = [*self.done, *([task, entry] for task in self.about)][-DONE:]

    def forget(self, cursor: int) -> None:
        """Forget what it was shown and wrote up to a place in the log: its context was emptied."""
        self.forgot, self.seen, self.told = cursor, [], []
        self.forget_files()


class ClientSession:
    """One session of a client: its workers by the client's ids, spawns whose child has not begun
    yet, and whose call each of the newest calls is. `fired` are the times of each event's last;
    `trees` are the work trees of its files, by their short names.
    """

    def __init__(self, client: str, session: str) -> None:
        self.client, self.session = client, session
        self.cwd = ""
        self.holder = ""
        self.host = ""  # the machine of its client
        self.workers: dict[str, Worker] = {}
        self.spawns: list[dict[str, str]] = []
        self.calls: dict[str, str] = {}
        self.fired: dict[str, float] = {}
        self.trees: dict[str, str] = {}

    def forget(self, key: str) -> None:
        """Keep of a sub-agent that has ended only whose run it was and what it was given, and that
        of the newest of them.
        """
        worker = self.workers[key]
        if key != MAIN:
            ended_worker = self.workers[key] = Worker(
                worker.agent, worker.run, worker.epoch, worker.type, worker.cursor
            )
            ended_worker.over = True
            ended_worker.seen, ended_worker.opened = worker.seen, worker.opened
        ended = [name for name, peer in self.workers.items() if peer.over]
        for name in ended[:-ENDED]:
            del self.workers[name]

    def note_call(self, call: str, worker: str) -> None:
        """Remember whose call this is, the newest of them."""
        self.calls[call] = worker
        for old in list(self.calls)[:-MOST]:
            del self.calls[old]


def folder_of(root: str) -> str:
    """Return the folder of a workspace's sessions: the person's, by the real path of the workspace,
    as keys and trust are.
    """
    name = sha256(os.fsencode(os.path.realpath(root)))[:32]
    return os.path.join(home.operator_home(), "clients", name)


def path_of(root: str, client: str, session: str) -> str:
    """Return the file of a session."""
    return os.path.join(folder_of(root), f"{client}-{sha256(session.encode())[:16]}.json")


@contextmanager
def hold_session(root: str, client: str, session: str) -> Iterator[ClientSession]:
    """Yield what is known of a session while no other hook has it; keep it afterwards."""
    with _hold(path_of(root, client, session), client, session) as session_state:
        yield session_state


@contextmanager
def hold_run(root: str, client: str, session: str) -> Iterator[ClientSession]:
    """Yield what is known of a session that works for a run of a supervisor: it is none of those
    that are stored, which end, sleep and are woken.
    """
    with _hold(f"{path_of(root, client, session)}.run", client, session) as session_state:
        yield session_state


@contextmanager
def _hold(path: str, client: str, session: str) -> Iterator[ClientSession]:
    with hold_lock(f"{path}.lock"):
        session_state = load(path) or ClientSession(client, session)
        yield session_state
        _store(path, session_state)


@contextmanager
def hold_lock(path: str) -> Iterator[None]:
    """Hold a lock file. StoreBusy where somebody else does for longer than a hook may take."""
    make_folder(os.path.dirname(path))
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise StoreError(f"{path} cannot be made: {error}") from error
    try:
        end = time.monotonic() + WAIT
        while not _try_lock(descriptor):
            if time.monotonic() > end:
                raise StoreBusy(f"{path} is held by another hook of the session")
            time.sleep(0.005)
        yield
    finally:
        os.close(descriptor)


def make_folder(path: str) -> None:
    """Make the folder of what is kept; StoreError where it cannot be made."""
    try:
        home.make_folder(path)
    except OSError as error:
        raise StoreError(f"{path} cannot be made: {error}") from error


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def load(path: str) -> ClientSession | None:
    """Return what a file holds; None where there is none, or it is no such file."""
    try:
        values = json.loads(plain_files.read_file(path))
        session = _fill(ClientSession(values["client"], values["session"]), values)
        workers = values["workers"].items()
        session.workers = {
            key: _fill(Worker(fields["agent"], fields["run"], fields["epoch"]), fields)
            for key, fields in workers
        }
        for worker in session.workers.values():
            worker.files = {key: Seen(*values) for key, values in worker.files.items()}
        return session
    except (OSError, ValueError, TypeError, AttributeError, KeyError):
        return None


def stored_sessions(root: str) -> Iterator[tuple[str, ClientSession]]:
    """Yield the sessions that files tell of, with the file of each."""
    folder = folder_of(root)
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return
    for name in names:
        if name.endswith(".json"):
            path = os.path.join(folder, name)
            if (session := load(path)) is not None:
                yield path, session


def remove_stale(root: str) -> None:
    """Remove the files of sessions that nobody touched for long, those of older versions too."""
    for folder in (folder_of(root), os.path.join(root, EARLIER)):
        for name in os.listdir(folder) if os.path.isdir(folder) else ():
            path = os.path.join(folder, name)
            try:
                if time.time() - os.stat(path).st_mtime > STALE:
                    os.unlink(path)
            except OSError:
                pass


def _fill(made: T, values: dict[str, Any]) -> T:
    """Return a new value with the fields that a file has of it; those of other versions are left
    out.
    """
    attributes = vars(made)
    attributes.update(
        {
            name: value
            for name, value in values.items()
            if isinstance(value, type(attributes.get(name, made)))
        }
    )
    attributes.update(
        {name: value for name, value in values.items() if attributes.get(name, made) is None}
    )
    return made


def _store(path: str, session: ClientSession) -> None:
    try:
        text = json.dumps(vars(session), default=vars)
        plain_files.replace_file(path, mask_json(text).encode())
    except OSError as error:
        raise StoreError(f"{path} cannot be written: {error}") from error
