"""The program that a client's hook starts: `PYTHON -I -S hook.py CLIENT [--more | --away] [--root
DIR]`.

It reads an event from standard input and prints the client's answer. The daemon of the workspace is
asked, where one is up; else this process answers, and starts the daemon for the hooks that follow.
Whatever goes wrong here: nothing is printed, a line goes to the log, and the exit code is 0, so
that the client goes on. Where the daemon's files lie is decided here, for the daemon too.
"""

from __future__ import annotations

import json
import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from importlib.machinery import ModuleSpec
    from typing import Any

PACKAGES = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LARGEST = 8 << 20  # bytes of an event
READ_WITHIN = 5.0  # seconds
DAEMON_WITHIN = 0.25  # for the daemon to take it up
BEGUN_WITHIN = 0.2  # after which it takes it up no more: this process answers
ANSWER_WITHIN = 20.0
# for who holds the log or the index, which are asked for twice; less once that was too short
UNLOCKED_WITHIN, AT_ONCE = 0.1, 0.005
START_AGAIN = 60.0  # seconds after which a daemon that died is started once more
LONGEST_PATH = 100  # bytes that the path of a socket may have everywhere
LOCK = 3  # the descriptor by which a daemon has the lock that the hook took for it
MORE_WITHIN = 3.0
LONGEST_LOG = 1 << 20  # bytes
SHELLS = ("sh", "bash", "dash", "zsh", "fish", "ksh", "busybox")


def main(words: list[str]) -> None:
    """Answer one event; the exit code is always 0."""
    began, client = time.monotonic(), words[0] if words else ""
    root = None
    try:
        # A run of our own supervisor gets its memory from that, and of us what changed in files.
        run = os.environ.pop("SYNAPSE_RUN", "")
        if not (run and "--more" in words):
            payload = read_payload(sys.stdin.fileno())
            root = find_workspace(words, payload, run)
            if root is not None:
                text, is_alone = answer_in(words, root, client, payload, run)
                sys.stdout.write(text)
                sys.stdout.flush()
                if is_alone and "--away" not in words and not run:
                    start_daemon(root)
    except BaseException as error:
        log_error(root, client, error, began)
    finish()


def answer_in(
    words: list[str], root: str, client: str, payload: dict[str, Any], run: str
) -> tuple[str, bool]:
    """Return what this hook prints for an event in a workspace, and whether no daemon answered."""
    pid = client_process()
    if "--away" in words:
        detach()
    # The variable is taken out of the environment: this process acts for the operator.
    identity = os.environ.pop("SYNAPSE_AGENT", "")
    if "--more" in words:
        return second_answer(root, client, payload), False
    request = {"client": client, "payload": payload, "pid": pid, "identity": identity, "run": run}
    return answer_event(root, request)


def finish() -> None:
    """End at once: tidying up the interpreter would only take time."""
    try:
        sys.stdout.flush()
    except OSError:
        pass
    os._exit(0)


def detach() -> None:
    """Go on in a process of its own: a client that ends does not wait for its hooks, and kills
    them.
    """
    if os.fork():
        os._exit(0)
    os.setsid()
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)


def read_payload(descriptor: int) -> dict[str, Any]:
    """Return the event as JSON has it, read within a time and a size."""
    import select

    end, chunks, size = time.monotonic() + READ_WITHIN, [], 0
    while True:
        seconds = max(end - time.monotonic(), 0)
        ready, _, _ = select.select([descriptor], [], [], seconds)
        if not ready:
            raise TimeoutError("the event did not come to its end")
        chunk = os.read(descriptor, 1 << 16)
        if not chunk:
            break
        chunks.append(chunk)
        size += len(chunk)
        if size > LARGEST:
            raise ValueError(f"the event has more than {LARGEST} bytes")
    payload = json.loads(b"".join(chunks).decode("utf-8", "replace"))
    if not isinstance(payload, dict):
        raise ValueError("the event is no JSON object")
    return payload


def find_workspace(words: list[str], payload: dict[str, Any], run: str = "") -> str | None:
    """Return the workspace of a run, else that of the event's folder; None where there is none."""
    if run:
        return os.environ.get("SYNAPSE_ROOT")
    if "--root" in words:
        return words[words.index("--root") + 1]
    add_packages()
    from synapse.errors import NotFound
    from synapse.system.discovery import locate

    folder = payload.get("cwd")
    start = folder if isinstance(folder, str) and os.path.isdir(folder) else None
    try:
        return os.path.realpath(locate(start=start, defaults=()).root)
    except NotFound:
        return None


def answer_event(root: str, request: dict[str, Any]) -> tuple[str, bool]:
    """Return the daemon's answer, or this process' own, and whether it is its own."""
    try:
        until = time.monotonic() + BEGUN_WITHIN
        order = {"do": "hook", "until": until, "code": PACKAGES, **request}
        return ask_daemon(root, order), False
    except (OSError, ValueError, KeyError):
        return answer_here(root, **request), True


def ask_daemon(root: str, request: dict[str, Any]) -> str:
    """Return the daemon's answer; OSError where no daemon is up, or where it was too late for an
    earlier hook and has not been back since.
    """
    path, busy = daemon_file(root, "sock"), daemon_file(root, "busy")
    if not os.path.exists(path) or os.path.exists(busy):
        raise OSError("no daemon is up, or it is stopped, or at something long")
    import socket

    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(DAEMON_WITHIN)
        try:
            connect(connection, path)
            connection.sendall(json.dumps(request).encode() + b"\n")
            lines = connection.makefile("r", encoding="utf-8")
            receipt = json.loads(lines.readline())
        except TimeoutError:
            mark(busy)
            raise
        # Where this fails, the daemon has given nothing, and this process can answer.
        if "begun" not in receipt:
            raise ValueError("the daemon does not answer this")
        connection.settimeout(ANSWER_WITHIN)
        return str(json.loads(lines.readline())["answer"])


def connect(connection: socket.socket, path: str) -> None:
    """Connect to a socket, by a path that may be longer than one of a socket can be."""
    if len(os.fsencode(path)) > LONGEST_PATH:
        os.chdir(os.path.dirname(path))
        path = os.path.basename(path)
    connection.connect(path)


def daemon_file(root: str, kind: str) -> str:
    """Return a file of a workspace's daemon, among the user's own: `sock`, `lock`, `busy`, which a
    hook leaves that asked in vain, or `locked`, which one leaves that could not write. The name is
    that of the workspace's folder on its disk, so that every path to it leads to one daemon.
    OSError where there is no workspace.
    """
    state = os.environ.get("XDG_STATE_HOME", "")
    if not os.path.isabs(state):
        state = os.path.expanduser("~/.local/state")
    folder = os.stat(root)
    name = f"{folder.st_dev:x}-{folder.st_ino:x}.{kind}"
    return os.path.join(state, "synapse", "daemons", name)


def hold_daemon(root: str) -> int | None:
    """Return the lock of the workspace's daemon as it is held, until it is closed or this process
    ends; None where there is a daemon.
    """
    import fcntl

    path = daemon_file(root, "lock")
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(lock).st_nlink:  # else its holder has just removed it
            return lock
    except BlockingIOError:
        pass
    os.close(lock)
    return None


def start_daemon(root: str) -> None:
    """Start the daemon of a workspace in the background, where none is up. Nobody waits for it, and
    it has nothing open that somebody could wait for. None is started where nobody would end it
    (a continuous integration, a user without a home), nor soon after one that died.
    """
    if os.environ.get("CI", "") not in ("", "0", "false") or not os.environ.get("HOME"):
        return
    lock = hold_daemon(root) if os.access(root, os.W_OK) else None
    if lock is None:
        return
    status = os.fstat(lock)
    if status.st_size and time.time() - status.st_mtime < START_AGAIN:
        return
    if os.fork():
        return
    os.setsid()
    os.pwrite(lock, b"%d" % os.getpid(), 0)  # the time of this is that of the start
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)
    os.dup2(lock, LOCK)
    os.set_inheritable(LOCK, True)
    os.closerange(LOCK + 1, 1 << 16)
    os.chdir("/")
    program = os.path.join(PACKAGES, "orchestrator", "plugin", "serve.py")
    os.execv(sys.executable, [sys.executable, "-I", program, root])


def answer_here(
    root: str, client: str, payload: dict[str, Any], pid: int, identity: str, run: str
) -> str:
    """Return the answer that this process makes, with the packages of this interpreter."""
    import gc

    gc.disable()  # this process ends before there is enough to tidy up
    add_packages()
    import synapse
    from orchestrator.plugin.hooks.answer import answer, answer_unwritten
    from synapse.errors import StoreBusy
    from synapse.hurry import hurried, is_free

    fields = client, payload, pid, identity, run
    began, locked = time.monotonic(), daemon_file(root, "locked")
    was_locked = os.path.exists(locked)
    seconds = AT_ONCE if was_locked else UNLOCKED_WITHIN
    try:
        with synapse.open(root) as memory, hurried(memory.store, seconds):
            memory.store.index.say = quiet  # a client shows what a hook says there as its error
            text = answer(memory, *fields)
            if was_locked and is_free(memory.store):
                unmark(locked)
            return text
    except StoreBusy as error:
        if not was_locked:
            log_error(root, client, error, began)
            mark(locked)
    unwritten = answer_unwritten(root, *fields)
    if unwritten is None:
        detach()
        with synapse.open(root) as memory:
            memory.store.index.say = quiet
            answer(memory, *fields, late=True)
    return unwritten or ""


def quiet(text: str) -> None:
    """Say nothing of the index: `synapse doctor` does."""


def add_packages() -> None:
    """Let this process import our packages, and those of its interpreter once one is asked for."""
    if PACKAGES not in sys.path:
        sys.path.append(PACKAGES)
        sys.meta_path.append(SitePackages())


class SitePackages:
    """Finds the packages of this interpreter. Where they lie is looked up at the first that is
    asked for: most hooks need none, and it takes a tenth of their time.
    """

    def find_spec(self, *module: Any) -> ModuleSpec | None:
        """Return where a module lies that is neither ours nor Python's; None where it is not."""
        sys.meta_path.remove(self)
        import site

        site.main()
        specs = (finder.find_spec(*module) for finder in sys.meta_path)
        return next(filter(None, specs), None)


def mark(path: str) -> None:
    """Leave a file for the next hooks, if it can be written."""
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError:
        pass


def unmark(path: str) -> None:
    """Take such a file away, unless another hook did."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass


def second_answer(root: str, client: str, payload: dict[str, Any]) -> str:
    """Return the text that the first hook of a start had no room for, once it is there."""
    add_packages()
    from orchestrator.plugin.facts import load
    from orchestrator.plugin.facts.event import read_event
    from orchestrator.plugin.hooks.answer import more_path

    event = read_event(load(client), payload)
    if event is None:
        return ""
    path, end = more_path(root, event), time.monotonic() + MORE_WITHIN
    while time.monotonic() < end:
        try:
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            with open(os.open(path, flags), encoding="utf-8") as file:
                text = file.read()
            os.unlink(path)
            return text
        except FileNotFoundError:
            time.sleep(0.01)
    return ""


def client_process() -> int:
    """Return the process of the client: the first above this one that is no shell."""
    pid = os.getppid()
    for _ in range(4):
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
                text = file.read()
        except OSError:
            return pid
        name = text[text.index("(") + 1 : text.rindex(")")]
        fields = text[text.rindex(")") + 2 :].split()
        if name not in SHELLS:
            return pid
        pid = int(fields[1])
    return pid


def log_error(root: str | None, client: str, error: BaseException, began: float) -> None:
    """Add a line to the log that says what went wrong, if the log can be written."""
    message = " ".join(str(error).split())
    try:
        from synapse.privacy.secrets import mask

        message = mask(message)[:500]
    except ImportError:  # it is not installed where this runs
        message = message[:100]
    try:
        path = os.path.join(root, "runs", ".hooks.log") if root else ""
        if not os.access(os.path.dirname(path), os.W_OK):
            base = os.environ.get("XDG_STATE_HOME")
            base = base or os.path.expanduser("~/.local/state")
            path = os.path.join(base, "synapse", "hooks.log")
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        size = os.path.getsize(path) if os.path.exists(path) else 0
        moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        milliseconds = int((time.monotonic() - began) * 1000)
        kind = type(error).__name__
        # No link is followed: a workspace may come from somebody else.
        flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        flags |= os.O_TRUNC if size > LONGEST_LOG else os.O_APPEND
        log = os.open(path, flags, 0o644)
        with open(log, "w", encoding="utf-8", errors="replace") as file:
            file.write(f"{moment} {client} {milliseconds} ms {kind}: {message}\n")
    except OSError:
        pass


if __name__ == "__main__":
    main(sys.argv[1:])
