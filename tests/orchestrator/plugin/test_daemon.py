"""The daemon that a client's hook starts: one for a workspace, in nobody's way, gone in time."""

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

import pytest

import synapse
from orchestrator.plugin import daemon, hook
from orchestrator.plugin.daemon import Code, SessionDaemon, ask, is_up
from orchestrator.plugin.hook import PACKAGES, daemon_file
from tests.orchestrator.plugin.conftest import Client, context

HOOK = os.path.abspath(hook.__file__)


@pytest.fixture
def folder(memory, monkeypatch):
    """A project whose first hook may start a daemon, which ends with the test."""
    memory.as_agent("boss").append("Call /v2/users.", "decisions/api", priority="critical")
    folder = os.path.dirname(memory.store.root)
    monkeypatch.setenv("XDG_STATE_HOME", f"{folder}/state")
    monkeypatch.setenv("HOME", folder)
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.chdir(folder)  # a hook, which is a process, goes to a socket of a long path
    yield folder
    for pid in processes(memory.store.root):
        os.kill(pid, signal.SIGKILL)


def processes(root):
    """Return the daemons that hooks started for a workspace, as the system lists them."""
    words = [b"serve.py", os.fsencode(root)]
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if len(command) > 3 and [command[2].rpartition(b"/")[2], command[3]] == words:
            found.append(int(path.parent.name))
    return found


def run(folder, name="SessionStart", env=None, **fields):
    """Return what the hook prints, as a client that waits for the end of its output has it."""
    event = {"session_id": "s1", "cwd": folder, "hook_event_name": name, **fields}
    done = subprocess.run(
        [sys.executable, "-I", "-S", HOOK, "claude-code"],
        input=json.dumps(event).encode(), capture_output=True, timeout=60, cwd=folder,
        env=dict(os.environ) if env is None else env,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout.decode()


def until(what, seconds=30.0):
    end = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < end
        time.sleep(0.02)
    return found


def answers(root):
    try:
        return ask(root, "status")
    except synapse.NotFound:
        return None


def test_the_first_hook_starts_it_and_the_next_is_answered_by_it(folder, memory):
    root = memory.store.root
    assert "Call /v2/users." in context(json.loads(run(folder)))
    status = until(lambda: answers(root))
    assert (processes(root), status["scope"]) == ([status["pid"]], "sessions")
    given = run(folder, "SubagentStart", agent_id="a1", agent_type="general-purpose")
    assert "Call /v2/users." in context(json.loads(given))
    assert ask(root, "status")["hooks"] == 1
    status = os.stat(daemon_file(root, "sock"))
    assert status.st_mode & 0o777 == 0o600
    # nothing of it lies in the repository, and it sits in nobody's folder
    assert not list(Path(folder, "shared-memory").rglob("*daemon*"))
    assert os.readlink(f"/proc/{processes(root)[0]}/cwd") == "/"


def test_of_many_first_hooks_one_starts_it(folder, memory):
    with ThreadPoolExecutor(8) as pool:
        given = list(pool.map(lambda n: run(folder, session_id=f"s{n}"), range(8)))
    assert all("Call /v2/users." in context(json.loads(text)) for text in given)
    until(lambda: answers(memory.store.root))
    assert len(processes(memory.store.root)) == 1


@pytest.mark.parametrize("without", ["CI", "HOME", "--away", "died"])
def test_none_is_started_where_nobody_would_want_it(folder, memory, without):
    env = dict(os.environ)
    if without == "CI":
        env["CI"] = "true"
    if without == "HOME":
        del env["HOME"]
    if without == "died":
        lock = Path(daemon_file(memory.store.root, "lock"))
        lock.parent.mkdir(parents=True)
        lock.write_text("17")  # what a daemon leaves that was killed just now
    words = {"session_id": "s1", "cwd": folder, "hook_event_name": "SessionStart"}
    command = [sys.executable, "-I", "-S", HOOK, "claude-code"]
    command += ["--away"] if without == "--away" else []
    subprocess.run(command, input=json.dumps(words).encode(), cwd=folder, env=env, timeout=60)
    time.sleep(1)
    assert processes(memory.store.root) == []


def test_it_goes_down_with_its_workspace_and_leaves_nothing(folder, memory):
    root = memory.store.root
    run(folder)
    until(lambda: answers(root))
    memory.close()
    shutil.rmtree(root)
    until(lambda: not processes(root))
    assert not os.path.exists(root)
    assert list(Path(folder, "state").rglob("*.*")) == []


def test_it_is_seen_and_ended_by_the_shell_and_makes_room_for_a_persons(folder, memory):
    root = memory.store.root

    def orchestrator(*words):
        command = [sys.executable, "-m", "orchestrator", "--root", root, *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=60)

    run(folder)
    (pid,) = until(lambda: answers(root) and processes(root))
    assert f"up as process {pid}" in orchestrator("status").stdout
    assert "for the sessions of clients alone" in orchestrator("status").stdout
    assert "no process yet" in orchestrator("schedule").stdout  # it runs no job
    assert orchestrator("down").returncode == 0
    assert not is_up(root)
    until(lambda: not processes(root))
    run(folder, "PostToolUse", tool_name="Bash", tool_input={}, tool_response="x")
    until(lambda: answers(root))
    try:
        assert orchestrator("up", "--detach", "--engine", "scripted").returncode == 0
        assert ask(root, "status")["scope"] == "workspace"
        until(lambda: not processes(root))
        run(folder)
        assert ask(root, "status")["hooks"] == 1
    finally:
        orchestrator("down")


def test_a_stopped_daemon_is_asked_once_and_again_when_it_goes_on(folder, memory):
    root = memory.store.root
    run(folder)
    (pid,) = until(lambda: answers(root) and processes(root))
    busy = daemon_file(root, "busy")
    os.kill(pid, signal.SIGSTOP)
    try:
        assert "Call /v2/users." in context(json.loads(run(folder, source="clear")))
        assert os.path.exists(busy)
        assert "Call /v2/users." in context(json.loads(run(folder, source="clear")))
        assert processes(root) == [pid]
    finally:
        os.kill(pid, signal.SIGCONT)
    until(lambda: not os.path.exists(busy))
    # on a busy machine the daemon may be too late for one more hook, which then answers by itself
    until(lambda: run(folder) is not None and ask(root, "status")["hooks"] == 1)


def test_one_that_was_too_late_is_not_asked_meanwhile(folder, memory):
    root = memory.store.root
    sock, busy = daemon_file(root, "sock"), daemon_file(root, "busy")
    os.makedirs(os.path.dirname(sock))
    Path(busy).touch()
    with socket.socket(socket.AF_UNIX) as server:
        with daemon._short(sock) as near:
            server.bind(near)
        server.listen()
        server.setblocking(False)
        lock = hook.hold_daemon(root)  # it lives
        assert "Call /v2/users." in context(json.loads(run(folder)))
        with pytest.raises(BlockingIOError):
            server.accept()
        os.close(lock)


async def seen(memory, act=None):
    """Run a daemon in this process until it ends by itself, or the act is over."""
    served = SessionDaemon(memory)
    up = asyncio.create_task(served.run())
    if act is not None:
        while not os.path.exists(served.socket):
            await asyncio.sleep(0.01)
        await asyncio.to_thread(act, served)
        served.down.set()
    await asyncio.wait_for(up, 30)


@pytest.mark.parametrize("client", ["claude-code", "codex"])
def test_it_ends_when_nobody_asks_unless_a_session_is_woken_from_here(
    folder, memory, monkeypatch, client
):
    monkeypatch.setattr(daemon, "IDLE", 0.2)
    Client(memory, folder)("SessionStart")
    for run in daemon.Runs(memory.store).all(state="running"):
        monkeypatch.setattr(daemon, "has_module", lambda name: client == "codex")
        assert run.fields["engine"] == "claude-code"
    if client == "codex":
        with pytest.raises(TimeoutError):
            asyncio.run(asyncio.wait_for(seen(memory), 3))
    else:
        asyncio.run(seen(memory))


def test_after_an_upgrade_it_answers_no_hook_and_makes_room(folder, memory, monkeypatch):
    monkeypatch.setattr(hook, "DAEMON_WITHIN", 20)  # however busy the machine is

    def act(served):
        event = {"session_id": "s1", "cwd": folder, "hook_event_name": "SessionStart"}
        order = {"do": "hook", "until": time.monotonic() + 30, "client": "claude-code"}
        order |= {"payload": event, "pid": os.getpid(), "identity": ""}
        assert "Call" in hook.ask_daemon(memory.store.root, order | {"code": PACKAGES})
        for age, is_down in ((0, False), (hook.START_AGAIN + 1, True)):
            served.began = time.monotonic() - age
            with pytest.raises(ValueError, match="Expecting value"):
                hook.ask_daemon(memory.store.root, order | {"code": "/other"})
            assert served.down.is_set() == is_down

    asyncio.run(seen(memory, act))


def test_code_that_was_replaced_is_noticed(tmp_path, monkeypatch):
    module = ModuleType("orchestrator.replaced")
    module.__file__ = str(tmp_path / "replaced.py")
    Path(module.__file__).touch()
    monkeypatch.setitem(sys.modules, module.__name__, module)
    code = Code()
    assert code.is_current()
    os.utime(module.__file__, ns=(1, 1))
    assert not code.is_current()
