import json
import signal
import subprocess
import sys
import threading
import time

import pytest


def test_unread_prints_the_number_alone(wrote, run):
    wrote(), wrote()
    assert run("unread", "--agent", "eng-frontend").out == "2\n"
    assert run("unread", "--agent", "eng-backend").out == "0\n"
    assert json.loads(run("unread", "--agent", "eng-frontend", "--json").out) == {
        "agent": "eng-frontend",
        "unread": 2,
    }


def test_unread_wants_to_know_whose(team, run, monkeypatch):
    done = run("unread")
    assert done.code == 64
    assert "missing --agent AGENT" in done.err
    monkeypatch.setenv("SYNAPSE_AGENT", "eng-frontend")
    assert run("unread").out == "0\n"


def test_watch_prints_one_line_an_event(wrote, run):
    first, second = wrote("first\nand more"), wrote("second", "--priority", "critical")
    done = run("watch", "--agent", "eng-frontend", "--since", "0", "--timeout", "0")
    lines = done.out.splitlines()
    assert done.code == 0
    assert len(lines) == 2
    assert lines[0].endswith(f" entry {first} info api/endpoints eng-backend: first")
    assert lines[1].endswith(f" entry {second} critical api/endpoints eng-backend: second")
    assert lines[0].split()[0].isdigit()


def test_watch_goes_on_from_a_cursor(wrote, run):
    wrote("first"), wrote("second")
    watch = ("watch", "--json", "--timeout", "0", "--since")
    events = [json.loads(line) for line in run(*watch, "0").out.splitlines()]
    assert [event["entry"]["body"] for event in events] == ["first", "second"]
    rest = run(*watch, events[0]["cursor"]).out.splitlines()
    assert [json.loads(line)["entry"]["body"] for line in rest] == ["second"]
    assert run(*watch, events[1]["cursor"]).out == ""


def test_watch_tells_an_agent_only_what_it_may_see(wrote, run):
    (
        wrote("for the lead", "--to", "agent:pl-brain"),
        wrote("for all"),
        wrote("urgent", "--priority", "critical"),
    )
    watch = ("watch", "--since", "0", "--timeout", "0", "--json", "--agent")

    def bodies(*more):
        return [json.loads(line)["entry"]["body"] for line in run(*watch, *more).out.splitlines()]

    assert bodies("eng-frontend") == ["for all", "urgent"]
    assert bodies("eng-backend") == []
    assert bodies("pl-brain", "--count", "1") == ["for the lead"]
    assert bodies("pl-brain", "--critical") == ["urgent"]


def start(*words):
    return subprocess.Popen(
        [sys.executable, "-m", "synapse.cli", "watch", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )


def follow(wrote, watcher):
    """The first line of a watcher that has just been started: writes until it hears."""
    heard = []
    reader = threading.Thread(target=lambda: heard.append(watcher.stdout.readline()))
    reader.start()
    until = time.monotonic() + 20
    while reader.is_alive() and time.monotonic() < until:
        wrote("ring")
        reader.join(0.2)
    reader.join(5)
    return heard[0]


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_watch_flushes_and_ends_cleanly_when_told_to(wrote, how):
    watcher = start("--agent", "eng-frontend", "--json")
    assert json.loads(follow(wrote, watcher))["entry"]["body"] == "ring"
    watcher.send_signal(how)
    _, err = watcher.communicate(timeout=10)
    assert (watcher.returncode, err) == (0, "")


def test_watch_ends_cleanly_when_nobody_reads_any_more(wrote):
    watcher = start("--agent", "eng-frontend")
    follow(wrote, watcher)
    watcher.stdout.close()
    wrote("into the void")
    assert watcher.wait(timeout=10) == 0
    assert watcher.stderr.read() == ""
    watcher.stderr.close()


def test_watch_notices_an_abandoned_pipe_without_an_event(wrote):
    watcher = start("--agent", "eng-frontend")
    follow(wrote, watcher)
    watcher.stdout.close()
    assert watcher.wait(timeout=15) == 0
    watcher.stderr.close()


def test_watch_restores_the_signals_of_its_host(team, run):
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGALRM)
    timer = signal.setitimer(signal.ITIMER_REAL, 1000)
    try:
        run("watch", "--timeout", "0")
        assert signal.getitimer(signal.ITIMER_REAL)[0] > 900
    finally:
        signal.setitimer(signal.ITIMER_REAL, *timer)
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGALRM)) == before


def test_count_of_one_waits_for_one(wrote):
    watcher = start("--agent", "eng-frontend", "--count", "1")
    line = follow(wrote, watcher)
    assert line.split()[1] == "entry"
    assert watcher.wait(timeout=10) == 0
    watcher.stdout.close()
    watcher.stderr.close()


def test_watch_begins_at_a_time(wrote, run):
    id = wrote("since yesterday")
    for since in ("yesterday", "1h", "0"):
        assert (
            id
            in run(
                "watch",
                "--agent",
                "eng-frontend",
                "--since",
                since,
                "--count",
                "1",
                "--timeout",
                "9",
            ).out
        )
    assert run("watch", "--since", "2099-01-01", "--timeout", "0.1").out == ""
    assert run("watch", "--since", "soon", "--timeout", "0.1").code == 64
