"""The program that a client's hook starts: `PYTHON -I -S hook.py CLIENT [--more | --away] [--root
DIR]`.

It reads an event from standard input and prints the client's answer. The daemon of the workspace is
asked, where one is up; else this process answers. Whatever goes wrong here: nothing is printed, a
line goes to the log, and the exit code is 0, so that the client goes on.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PACKAGES = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LARGEST = 8 << 20  # bytes of an event
READ_WITHIN = 5.0  # seconds
DAEMON_WITHIN = 2.0  # for the daemon to take it up
BEGUN_WITHIN = 1.5  # after which it takes it up no more: this process answers
ANSWER_WITHIN = 20.0
LONGEST_PATH = 100  # bytes that the path of a socket may have everywhere
MORE_WITHIN = 3.0
WAIT = "wait"
WAIT_WITHIN = 10.0
WAIT_EACH = 0.3
LONGEST_LOG = 1 << 20  # bytes
SHELLS = ("sh", "bash", "dash", "zsh", "fish", "ksh", "busybox")


def main(words: list[str]) -> None:
    """Answer one event; the exit code is always 0."""
    began, client = time.monotonic(), words[0] if words else ""
    root = None
    try:
        # A run of our own supervisor gets its memory from that.
        if not os.environ.get("SYNAPSE_RUN"):
            payload = read_payload(sys.stdin.fileno())
            root = find_workspace(words, payload)
            if root is not None:
                sys.stdout.write(answer_in(words, root, client, payload))
                sys.stdout.flush()
    except BaseException as error:
        log_error(root, client, error, began)
    finish()


def answer_in(words: list[str], root: str, client: str, payload: dict[str, Any]) -> str:
    """Return what this hook prints for an event in a workspace."""
    pid = client_process()
    if "--away" in words:
        detach()
    # The variable is taken out of the environment: this process acts for the operator.
    identity = os.environ.pop("SYNAPSE_AGENT", "")
    if "--more" in words:
        return second_answer(root, client, payload)
    request = {"client": client, "payload": payload, "pid": pid, "identity": identity}
    return answer_or_wait(root, request)


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


def find_workspace(words: list[str], payload: dict[str, Any]) -> str | None:
    """Return the workspace of the event's folder; None where there is none."""
    if "--root" in words:
        return words[words.index("--root") + 1]
    sys.path.insert(0, PACKAGES)
    from synapse.errors import NotFound
    from synapse.system.discovery import locate

    folder = payload.get("cwd")
    start = folder if isinstance(folder, str) and os.path.isdir(folder) else None
    try:
        return os.path.realpath(locate(start=start, defaults=()).root)
    except NotFound:
        return None


def answer_or_wait(root: str, request: dict[str, Any]) -> str:
    """Return the answer. While another agent makes the same call, wait some time for its result."""
    end = time.monotonic() + WAIT_WITHIN
    text = answer_event(root, request)
    while text == WAIT:
        time.sleep(WAIT_EACH)
        request["payload"]["synapse_waited"] = time.monotonic() > end
        text = answer_event(root, request)
    return text


def answer_event(root: str, request: dict[str, Any]) -> str:
    """Return the daemon's answer, or this process' own."""
    try:
        until = time.monotonic() + BEGUN_WITHIN
        return ask_daemon(root, {"do": "hook", "until": until, **request})
    except (OSError, ValueError, KeyError):
        return answer_here(root, **request)


def ask_daemon(root: str, request: dict[str, Any]) -> str:
    """Return the daemon's answer; OSError where no daemon is up."""
    path = os.path.join(root, "runs", ".daemon.sock")
    if os.path.islink(path):
        raise OSError(f"{path} is a link, and it may lead anywhere")
    if len(os.fsencode(path)) > LONGEST_PATH:
        os.chdir(os.path.dirname(path))
        path = os.path.basename(path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(DAEMON_WITHIN)
        connection.connect(path)
        connection.sendall(json.dumps(request).encode() + b"\n")
        with connection.makefile("r", encoding="utf-8") as lines:
            receipt = json.loads(lines.readline())
            # Where this fails, the daemon has given nothing, and this process can answer.
            if "begun" not in receipt:
                raise ValueError("the daemon does not answer this")
            connection.settimeout(ANSWER_WITHIN)
            reply = json.loads(lines.readline())
    return str(reply["answer"])


def answer_here(
    root: str, client: str, payload: dict[str, Any], pid: int, identity: str
) -> str:
    """Return the answer that this process makes, with the packages of this interpreter."""
    import gc
    import site

    gc.disable()  # this process ends before there is enough to tidy up
    site.main()
    if PACKAGES not in sys.path:
        sys.path.insert(0, PACKAGES)
    import synapse
    from orchestrator.plugin.hooks.answer import answer

    with synapse.open(root) as memory:
        return answer(memory, client, payload, pid, identity)


def second_answer(root: str, client: str, payload: dict[str, Any]) -> str:
    """Return the text that the first hook of a start had no room for, once it is there."""
    sys.path.insert(0, PACKAGES)
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


def log_error(
    root: str | None, client: str, error: BaseException, began: float
) -> None:
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
