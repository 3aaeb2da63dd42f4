"""The wait of one client's session: it ends with what wakes it, once for an entry, or with its client."""

import os
import subprocess
import sys
from threading import Timer

import pytest

from orchestrator.plugin.sessions import state
from orchestrator.plugin.wakes import watch
from orchestrator.plugin.wakes.client_process import ClientEnd
from orchestrator.plugin.wakes.watch import MOST, WAKES, Watch, WokenEntries

CLIENT = "claude-code"


@pytest.fixture
def idle(client):
    """A session of this process that waits for its user."""
    client("SessionStart", source="startup")
    client("Stop", last_assistant_message="Hello.")
    return client


@pytest.fixture
def child():
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield process
    process.kill()
    process.wait()
    process.stdin.close()


def rule(memory):
    return memory.as_agent("boss").append("Stop.", "decisions/x", priority="critical")


def test_an_idle_session_is_woken_once_for_an_entry(idle, memory, child, capsys, monkeypatch):
    monkeypatch.setattr(watch, "SETTLE", 0.0)
    entry, end = rule(memory), ClientEnd(child.pid)
    assert Watch(memory, CLIENT, os.getpid(), end, "rewake").wait() == WAKES
    said = capsys.readouterr()
    assert entry.id in said.err
    assert said.out == ""
    Timer(0.5, child.kill).start()
    assert Watch(memory, CLIENT, os.getpid(), end, "rewake").wait() == 0
    assert capsys.readouterr() == ("", "")


def test_a_monitor_says_what_comes_and_ends_with_its_client(idle, memory, child, capsys):
    Timer(0.5, child.kill).start()
    entry = rule(memory)
    assert Watch(memory, CLIENT, os.getpid(), ClientEnd(child.pid), "monitor").wait() == 0
    said = capsys.readouterr()
    assert entry.id in said.out
    assert said.err == ""


def test_another_client_and_a_second_watcher_wait_for_nothing(idle, memory, child, capsys):
    rule(memory)
    other = Watch(memory, CLIENT, child.pid, ClientEnd(child.pid), "monitor")
    folder = state.folder_of(memory.store.root)
    held = WokenEntries.lock(os.path.join(folder, f"{other.holder}.woken"))
    assert other.wait() == 0
    held.close()
    Timer(0.5, child.kill).start()
    assert other.wait() == 0
    assert capsys.readouterr() == ("", "")


def test_what_was_woken_for_is_remembered_and_bounded(tmp_path):
    path = str(tmp_path / "clients" / "a.woken")
    woken = WokenEntries.lock(path)
    assert WokenEntries.lock(path) is None
    assert not woken.is_recent()
    woken.add(f"syn-{n}" for n in range(MOST + 3))
    assert woken.is_recent()
    woken.close()
    again = WokenEntries.lock(path)
    assert again.ids == [f"syn-{n}" for n in range(3, MOST + 3)]
    again.close()


@pytest.mark.parametrize("text", ["", "[]", "{", '{"ids": 3}', '{"at": "late"}'])
def test_a_file_of_what_was_woken_for_may_be_broken(tmp_path, text):
    (tmp_path / "a.woken").write_text(text)
    woken = WokenEntries.lock(str(tmp_path / "a.woken"))
    assert (woken.ids, woken.at) == ([], 0.0)
    woken.close()
