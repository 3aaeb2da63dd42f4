"""The daemon: one per workspace, for its user alone, taking over what dead supervisors left."""

import os
import signal
import socket
import stat
import subprocess
import sys
import time

import pytest

import synapse
from orchestrator import Supervisor
from orchestrator.daemon import is_up
from orchestrator.engines.scripted import Scripted
from orchestrator.plugin.daemon import _bound, ask
from orchestrator.plugin.hook import daemon_file
from orchestrator.run_store.recovery import recover
from orchestrator.runs.files.folder import Folder

SERVE = """
import asyncio, sys, synapse
from orchestrator import Supervisor
from orchestrator.daemon import Daemon
from orchestrator.engines.scripted import Move, Scripted
def script(seen):
    return Move("", (("read", {}),), takes=0.05) if seen.turn < 12 else "Counted to twelve."
async def main(boss):
    await Daemon(sys.argv[1], boss).run()
with synapse.open(sys.argv[1]) as memory, Supervisor(memory, engine=Scripted(script)) as boss:
    asyncio.run(main(boss))
"""
RUN = """
import sys, synapse
from orchestrator import Supervisor, Task
from orchestrator.engines.scripted import Move, Scripted
def script(seen):
    return Move("", (("read", {}),), takes=0.05)
with synapse.open(sys.argv[1]) as memory:
    with Supervisor(memory, engine=Scripted(script), memory_tools="always") as boss:
        boss.run(Task("Count to twelve", "eng-a"))
"""


@pytest.fixture(params=["ws", "a" * 60 + "/" + "b" * 60], ids=["short", "long"])
def root(tmp_path, request):
    path = str(tmp_path / request.param)
    with synapse.init(path) as memory:
        memory.register(synapse.Agent("eng-a"))
    return path


@pytest.fixture
def start():
    begun = []

    def start(code, root):
        begun.append(subprocess.Popen([sys.executable, "-c", code, root]))
        return begun[-1]

    yield start
    for process in begun:
        process.kill()
        process.wait(10)


def until(what, seconds=10.0):
    end = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < end
        time.sleep(0.02)
    return found


def answers(root):
    def look():
        try:
            return ask(root, "status")
        except synapse.NotFound:
            return None

    return look


def test_one_daemon_that_its_user_alone_may_ask(root, start):
    assert not is_up(root)
    daemon = start(SERVE, root)
    assert until(answers(root))["pid"] == daemon.pid
    assert is_up(root)
    assert stat.S_IMODE(os.stat(daemon_file(root, "sock")).st_mode) == 0o600
    second = subprocess.run(
        [sys.executable, "-c", SERVE, root], capture_output=True, text=True, timeout=30, check=False
    )
    assert "a daemon is up in this workspace already" in second.stderr
    assert ask(root, "down")["pid"] == daemon.pid
    assert daemon.wait(10) == 0
    assert not is_up(root)
    assert not os.path.exists(daemon_file(root, "sock"))


def test_its_socket_has_a_name_only_while_it_listens(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    begins, seen = socket.socket.listen, []

    def listen(self, *backlog):
        seen.append(os.listdir())
        begins(self, *backlog)

    monkeypatch.setattr(socket.socket, "listen", listen)
    for _ in range(2):  # the second one in the place of the dead first
        with _bound("sock"), socket.socket(socket.AF_UNIX) as line:
            line.connect("sock")  # nobody accepts yet, and nobody is refused
        assert os.listdir() == ["sock"]
    assert seen[0] == ["sock.new"]


def test_a_daemon_that_was_killed_leaves_no_hindrance(root, start):
    start(SERVE, root)
    until(answers(root))
    daemon = start(SERVE, root)
    assert daemon.wait(10) != 0
    os.kill(ask(root, "status")["pid"], signal.SIGKILL)
    until(lambda: not is_up(root))
    with pytest.raises(synapse.NotFound, match="orchestrator up"):
        ask(root, "status")
    again = start(SERVE, root)
    assert until(answers(root))["pid"] == again.pid


def test_whoever_asks_nonsense_is_not_answered(tmp_path, start):
    root = str(tmp_path / "w")
    synapse.init(root).close()
    start(SERVE, root)
    until(answers(root))
    for words in (b"nonsense\n", b"[]\n", b"\xff" * 100_000 + b"\n"):
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(5)
            line.connect(os.path.relpath(daemon_file(root, "sock")))
            try:
                line.sendall(words)
                assert line.recv(10) == b""
            except ConnectionError:
                pass
    assert ask(root, "status")["runs"] == []


def test_it_goes_on_with_what_a_dead_supervisor_left(tmp_path, start):
    root = str(tmp_path / "w")
    with synapse.init(root) as memory:
        memory.register(synapse.Agent("eng-a"))
        query = memory.store.index.current

        def run():
            memory.store.index.catch_up()
            return next(iter(query.runs()), None)

        worker = start(RUN, root)
        start(SERVE, root)
        until(answers(root))
        until(lambda: run() and len([*Folder(root, run()["run"]).lines("steps.jsonl")]) > 4)
        worker.kill()
        killed = time.monotonic()
        until(lambda: run()["epoch"] == 2, 30)
        assert time.monotonic() - killed < 10
        assert until(lambda: run()["state"] == "ended")
        assert (run()["status"], run()["summary"]) == ("done", "Counted to twelve.")
        assert ask(root, "down")["taken"] == [run()["run"]]


def test_what_it_held_is_left_for_the_next(tmp_path, start):
    root = str(tmp_path / "w")
    with synapse.init(root) as memory:
        memory.register(synapse.Agent("eng-a"))
        worker = start(RUN, root)
        daemon = start(SERVE.replace("12", "10_000"), root)
        until(answers(root))
        time.sleep(0.5)
        worker.kill()
        until(lambda: ask(root, "status")["runs"])
        ask(root, "down")
        assert daemon.wait(10) == 0
        memory.store.index.catch_up()
        (run,) = memory.store.index.current.runs()
        assert run["state"] == "running"
        with Supervisor(memory, engine=Scripted()) as supervisor:
            assert [taken.id for taken in recover(supervisor.run_store).runs] == [run["run"]]


DROPPED = (
    "---\nfrom: eng-a\ntimestamp: 2026-02-01T00:00:00Z\nnamespace: {}\npriority: info\n---\n\n{}\n"
)


def test_what_is_dropped_is_adopted_while_the_daemon_is_up(root, start):
    """Nobody reads: the journal alone is looked at."""
    start(SERVE, root)
    until(answers(root))
    place, box = f"{root}/entries/status/eng-a", f"{root}/inbox/eng-a/new"
    for folder in (place, box, f"{root}/entries/projects/shop"):
        os.makedirs(folder, exist_ok=True)
    for path, text in (
        (f"{place}/one.md", DROPPED.format("status/eng-a", "dropped into entries")),
        (f"{box}/two.md", DROPPED.format("status/eng-a", "dropped into the inbox")),
        (f"{root}/entries/projects/shop/plan.md", "# Plan without front matter"),
    ):
        with open(f"{path}.tmp", "w") as file:
            file.write(text)
        os.rename(f"{path}.tmp", path)
    for words in ("dropped into entries", "dropped into the inbox", "# Plan without front matter"):
        until(lambda words=words: words in journal(root))


def journal(root):
    folder = f"{root}/journal"
    texts = []
    for name in sorted(os.listdir(folder)):
        if name.endswith(".jsonl"):
            with open(f"{folder}/{name}") as file:
                texts.append(file.read())
    return "".join(texts)
