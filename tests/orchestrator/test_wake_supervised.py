"""What is critical, by whatever way it comes, reaches every session that it is for: in the next
prompt, once.
"""

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

import synapse
from orchestrator import Supervisor, Task, supervisor
from orchestrator.engines.scripted import Move, Scripted
from orchestrator.runs.files.folder import STEPS
from orchestrator.sessions import wake
from synapse.errors import NotFound, StoreError
from synapse.model.records import Record

LISTENERS = ("eng-a", "eng-b", "eng-c")
AGENTS = (
    synapse.Agent("boss", role="cto"),
    *(synapse.Agent(name) for name in (*LISTENERS, "idle")),
    synapse.Agent("outsider", read=("status/elsewhere",)),
    synapse.Agent("deaf", notify=()),
)
DROPPED = """---
id: {id}
from: boss
timestamp: 2026-02-01T09:00:00Z
namespace: decisions/api
priority: critical
---
{body}
"""
BY_LIBRARY = """
import sys, synapse
with synapse.open(sys.argv[1]) as memory:
    memory.as_agent(sys.argv[2]).append(sys.argv[3], "blockers/web", priority="critical")
"""


def tick() -> str:
    """Let some time pass."""
    return "tick"


def thinking(seconds):
    def script(seen):
        return (
            "Heard the end." if "THE END" in seen.text else Move("", (("tick", {}),), takes=seconds)
        )

    return Scripted(script, count=len)


class Silent:
    """A listener that never calls: nothing but the look before each turn is left."""

    def __init__(self, store, called):
        pass

    def close(self):
        pass


class Office:
    """A supervisor in a thread of its own, with sessions that go on until they hear of the end."""

    def __init__(self, root, takes=0.05):
        self.root, self.takes = str(root), takes
        with synapse.init(self.root) as memory:
            for agent in AGENTS:
                memory.register(agent)
        self.memory = synapse.open(self.root)
        self.start(resume=False)

    def start(self, resume):
        self.boss = Supervisor(
            self.memory, engine=thinking(self.takes), tools=[tick], memory_tools="never"
        )
        self.failure = None
        self.thread = threading.Thread(target=self._live, args=(resume,), daemon=True)
        self.thread.start()
        until(lambda: len(self.runs("running")) == 5 and len(self.boss.sessions) == 5)

    def _live(self, resume):
        try:
            asyncio.run(self._all(resume))
        except BaseException as error:
            self.failure = error

    async def _all(self, resume):
        self.loop, self.dies = asyncio.get_running_loop(), asyncio.Event()
        async with self.boss:
            if resume:
                await self.boss.recover()
            else:
                for name in (*LISTENERS, "outsider", "deaf"):
                    await self.boss.start(Task(f"Work of {name}", name, max_turns=10_000))
            ended = asyncio.gather(*self.boss._lives.values(), return_exceptions=True)
            await asyncio.wait(
                (asyncio.ensure_future(self.dies.wait()), ended), return_when="FIRST_COMPLETED"
            )
            await self.boss._abandon()

    def restart(self):
        # all of its runs have ended, and it with them
        with contextlib.suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self.dies.set)
        self.thread.join(10)
        self.boss.close()
        self.start(resume=True)

    def close(self):
        # all of its runs have ended, and it with them
        with contextlib.suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self.dies.set)
        self.thread.join(10)
        self.boss.close()
        self.memory.close()
        assert self.failure is None

    def runs(self, state):
        with synapse.open(self.root) as memory:
            memory.store.index.catch_up()
            return memory.store.index.current.runs(state=state)

    def prompts(self, agent):
        """All that was said to an agent besides its tools' results: its first prompt, and what came
        after.
        """
        (path,) = Path(self.root, "runs").glob(f"{agent}-*/{STEPS}")
        lines = [json.loads(line) for line in path.read_text().split("\n")[:-1]]
        return [
            line.get("memory", "") + line.get("text", "")
            for line in lines
            if line["kind"] in ("prompt", "message")
        ]

    def heard(self, agent, body):
        return sum(text.count(body) for text in self.prompts(agent))

    def by_library(self, author, body):
        subprocess.run(
            [sys.executable, "-c", BY_LIBRARY, self.root, author, body], check=True, timeout=30
        )

    def by_shell(self, body):
        words = [
            "write",
            "--root",
            self.root,
            "--from",
            "boss",
            "--namespace",
            "decisions/api",
            "--priority",
            "critical",
        ]
        subprocess.run(
            [sys.executable, "-m", "synapse", *words, body],
            check=True,
            timeout=30,
            capture_output=True,
        )

    def by_file(self, body):
        folder = Path(self.root, "entries", "decisions", "api")
        folder.mkdir(parents=True, exist_ok=True)
        aside = folder / ".dropped.tmp"
        aside.write_text(DROPPED.format(id="syn-2026-02-01-900", body=body))
        os.rename(aside, folder / "dropped.md")


def until(what, seconds=15.0):
    end = time.monotonic() + seconds
    while True:
        try:
            if what():
                return
        except (NotFound, ValueError):
            pass
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.fixture(params=["bells", "no bells"])
def office(tmp_path, request, monkeypatch):
    if request.param == "no bells":
        monkeypatch.setattr(supervisor, "Listener", Silent)
    office = Office(tmp_path / "ws")
    yield office
    office.close()


def test_every_way_reaches_everybody_once(office):
    ways = {
        "By the library.": lambda: office.by_library("boss", "By the library."),
        "By the shell.": lambda: office.by_shell("By the shell."),
        "By a file.": lambda: office.by_file("By a file."),
        "In its name.": lambda: office.by_library("eng-a", "In its name."),
    }
    for body, write in ways.items():
        write()
        until(lambda body=body: all(office.heard(name, body) for name in LISTENERS))
    office.restart()
    office.by_library("boss", "After the restart.")
    until(lambda: all(office.heard(name, "After the restart.") for name in LISTENERS))
    office.by_library("boss", "THE END")
    until(lambda: len(office.runs("running")) == 2)
    for body in (*ways, "After the restart.", "THE END"):
        times = [office.heard(name, body) for name in (*LISTENERS, "outsider", "deaf")]
        assert times == [1] * len(LISTENERS) + [0, 0], body
    with Supervisor(
        office.memory, engine=Scripted(lambda seen: "Done."), memory_tools="never"
    ) as late:
        assert late.run(Task("Look at what there is", "idle", view_budget=600)).done
    assert all(office.heard("idle", body) == 1 for body in (*ways, "After the restart.", "THE END"))


def test_what_comes_before_the_first_turn(tmp_path):
    """Written when the prompt is made already, and the session is not there yet."""
    root = str(tmp_path / "ws")
    prompts = []
    with synapse.init(root) as memory:
        for agent in AGENTS:
            memory.register(agent)
        engine = Scripted(lambda seen: prompts.append(seen.text) or "Done.", count=len)
        with Supervisor(memory, engine=engine, memory_tools="never") as boss:
            furnish = boss.run_store.prepare_session

            def furnished(*about):
                made = furnish(*about)
                memory.as_agent("boss").append("In between.", "decisions/api", priority="critical")
                return made

            boss.run_store.prepare_session = furnished
            assert boss.run(Task("Work", "eng-a")).done
    assert [text.count("In between.") for text in prompts] == [1]


def test_all_calls_end_at_a_stop(tmp_path):
    """Asked for by another process, of agents that would think for a minute."""
    office = Office(tmp_path / "ws", takes=60.0)
    try:
        stop = [
            sys.executable,
            "-m",
            "orchestrator",
            "stop",
            "--all",
            "--root",
            office.root,
            "--reason",
            "enough",
        ]
        subprocess.run(stop, check=True, timeout=30, capture_output=True)
        until(lambda: not office.boss.sessions, 10)
        ended = office.runs("ended")
        assert {(run["status"], run["why"]) for run in ended} == {("stopped", "enough")}
        assert len(ended) == 5
    finally:
        office.close()


def listening(memory):
    for agent in AGENTS:
        memory.register(agent)
    run = SimpleNamespace(id="eng-a-1", agent="eng-a", project="general")
    return [SimpleNamespace(run=run, reader=wake.Reader)]


def test_what_is_written_while_it_begins_to_listen_is_heard(monkeypatch):
    with synapse.open("memory:") as memory:
        running, follower = listening(memory), wake.Follower

        def meanwhile(*given):
            monkeypatch.undo()
            memory.as_agent("boss").append("Stop using v1.", "decisions/api", priority="critical")
            return follower(*given)

        monkeypatch.setattr(wake, "Follower", meanwhile)
        with Supervisor(memory, inline=True) as boss:
            assert [run for run, _, _ in boss.run_store.deliveries.changes(running).news] == [
                "eng-a-1"
            ]
            assert boss.run_store.deliveries.changes(running).news == []


def test_what_was_heard_before_a_look_failed_is_told_by_the_next():
    class Unreadable:
        def __getattr__(self, name):
            return getattr(memory.store, name)

        def entry(self, id):
            boss.run_store.deliveries.feed._follower.store = memory.store
            raise StoreError("the journal cannot be read: Input/output error")

    with synapse.open("memory:") as memory, Supervisor(memory, inline=True) as boss:
        running = listening(memory)
        later = memory.as_agent("boss").append("Later.", "decisions/api")
        told = memory.as_agent("boss").append(
            "Stop using v1.", "decisions/api", priority="critical"
        )
        memory.store.commit.append(Record.new("vouch", "operator", {"entry": later.id}))
        boss.run_store.deliveries.feed._follower.store = Unreadable()
        with pytest.raises(StoreError):
            boss.run_store.deliveries.changes(running)
        assert [
            (run, entry.id) for run, entry, _ in boss.run_store.deliveries.changes(running).news
        ] == [("eng-a-1", told.id)]
        assert boss.run_store.deliveries.changes(running).news == []
