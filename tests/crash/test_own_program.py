"""After SIGKILL: runs whose tools or key nobody else has wait for their own program, and are gone
on with by it. Real processes, a program of a user's, the shell and the daemon; the provider is a
server on loopback.
"""

import json
import os
import signal
import time

import pytest

import synapse
from orchestrator.engines.scripted import Move
from orchestrator.plugin.daemon import ask
from orchestrator.plugin.hook import daemon_file
from tests.crash.lives import begin
from tests.model_server import ModelServer

PROGRAM = """
import os, sys, time
from pathlib import Path
import synapse
from orchestrator import Supervisor, Task
from orchestrator.tools import tool_of

def slow(page: str) -> str:
    "Look at a page, which takes its time."
    with Path("calls").open("a") as file:
        file.write(page + chr(10))
    time.sleep(float(os.environ["PACE"]))
    return page + " is fine"

if __name__ == "__main__":
    tools = [tool_of(slow, "repeatable" in sys.argv)] if "tools" in sys.argv else []
    about = {"engine": "openai", "model": "gpt-5", "tools": tools, "memory_tools": "always"}
    with synapse.open("ws") as memory, Supervisor(memory, **about) as boss:
        task = Task("Look at all pages", "lead", project="web")
        results = boss.resume() if "resume" in sys.argv else [boss.run(task)]
        print(*(f"{result.status} {result.text}" for result in results), sep=chr(10))
"""
LINE = "waits for its own program: tool slow(page)"


def play(seen):
    """A lead that has two engineers look at a page each; without a tool for it they think about it
    for long.
    """
    if "lead" in seen.system.split("\n")[0]:
        if seen.turn == 0:
            tasks = (("eng-a", "Look at page a"), ("eng-b", "Look at page b"))
            return Move(
                "", tuple(("spawn_agent", {"agent": who, "task": text}) for who, text in tasks)
            )
        return (
            Move("", (("wait", {}),))
            if seen.turn == 1
            else f"Looked: {seen.text.count('is fine')} fine"
        )
    if seen.turn == 0 and any(tool.name == "slow" for tool in seen.tools):
        return Move("", (("slow", {"page": seen.text.partition("Look at page ")[2][:1]}),))
    return Move(
        next(
            (f"{line[2:]}" for line in seen.text.split("\n") if line.endswith("is fine")),
            "It is fine",
        )
    )


class Place:
    """A folder with a workspace, the program, and a provider for whoever has the key."""

    def __init__(self, path, server):
        self.path, self.root, self.server = path, str(path / "ws"), server
        self.processes = []
        (path / "shop.py").write_text(PROGRAM)
        with synapse.init(self.root) as memory:
            memory.register(synapse.Agent("lead", role="project-lead"))
            memory.register(synapse.Agent("eng-a"))
            memory.register(synapse.Agent("eng-b"))

    def env(self, key=True, pace=0.0):
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("ANTHROPIC_", "OPENAI_"))
        }
        about = {
            "OPENAI_BASE_URL": f"{self.server.url}/v1",
            "PACE": str(pace),
            "HOME": str(self.path),
            "COLUMNS": "80",
        }
        return kept | about | ({"OPENAI_API_KEY": "secret-of-mine"} if key else {})

    def starts(self, *words, **env):
        self.processes.append(begin(*words, cwd=self.path, env=self.env(**env)))
        return self.processes[-1]

    def program(self, *words, **env):
        process = self.starts("shop.py", *words, **env)
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        return out

    def orchestrator(self, *words, **env):
        process = self.starts("-m", "orchestrator", "--root", "ws", *words, **env)
        out, err = process.communicate(timeout=60)
        return process.returncode, out, err

    def ps(self, **env):
        """The newest first; what was running."""
        return json.loads(self.orchestrator("ps", "--all", "--json", **env)[1])["runs"]

    def dies(self, *words, when, **env):
        """The program, killed as soon as this is so."""
        process = self.starts("shop.py", *words, **env)
        until(when, process)
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=10)

    def calls(self):
        path = self.path / "calls"
        return sorted(path.read_text().split()) if path.exists() else []


def until(what, process=None, seconds=30.0):
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end
        assert process is None or process.poll() is None, process.communicate()
        time.sleep(0.02)


@pytest.fixture
def place(tmp_path):
    with ModelServer(play) as server:
        place = Place(tmp_path, server)
        yield place
        for process in place.processes:
            process.kill()
            process.communicate(timeout=10)


def both_called(place):
    return lambda: place.calls() == ["a", "b"]


def findings(place):
    """Whatever is wrong with runs that were to be left alone."""
    with synapse.open(place.root) as memory:
        records = [each.fields for each in memory.store.log.since(0) if each.kind == "run"]
        bodies = [entry.body for entry in memory.as_agent("operator").read()]
    begun = [fields for fields in records if fields["epoch"] == 1 and fields["state"] == "running"]
    changed = [fields["run"] for fields in records if fields not in begun]
    steps = "".join(path.read_text() for path in (place.path / "ws" / "runs").glob("*/steps.jsonl"))
    problems = [f"{run} was taken over, or ended" for run in changed]
    problems += [f"an entry says {body!r}" for body in bodies]
    problems += ["a model was told that there is no tool"] if "there is no tool" in steps else []
    return problems


def test_runs_are_left_to_the_program_that_has_their_tools(place):
    place.dies("tools", "repeatable", when=both_called(place), pace=60)
    asked = len(place.server.journal)
    code, out, err = place.orchestrator("resume")
    assert (code, err.splitlines()[-1].startswith("start their own program again")) == (9, True)
    assert len(out.splitlines()) == 3
    assert all(line.endswith(LINE) for line in out.splitlines())
    assert findings(place) == []
    assert {run["state"] for run in place.ps()} == {"orphaned"}
    assert {run["waits"] for run in place.ps()} == {LINE}
    assert len(place.server.journal) == asked  # nothing was paid for
    assert place.program("tools", "repeatable") == "done Looked: 2 fine\n"
    assert place.calls() == ["a", "a", "b", "b"]  # the calls in flight, again
    assert len(place.server.journal) == asked + 3  # each goes on from its last step
    assert {(run["state"], run["epoch"], run["attempts"]) for run in place.ps()} == {("done", 2, 2)}


def test_the_daemon_leaves_them_too_and_says_so_once(place):
    place.dies("tools", when=both_called(place), pace=60)
    daemon = place.starts("-m", "orchestrator", "--root", "ws", "up")
    until(lambda: os.path.exists(daemon_file(place.root, "sock")), daemon)
    until(lambda: len(ask(place.root, "status")["left"]) == 3, daemon)
    time.sleep(2)  # four looks
    assert findings(place) == []
    told = place.orchestrator("status")[1].splitlines()
    assert len(told) == 4
    assert all(line.endswith(LINE) for line in told[1:])
    assert place.program("tools", "resume").splitlines()[-1].startswith("done ")
    assert ask(place.root, "down")["taken"] == []
    _, err = daemon.communicate(timeout=20)
    assert err.count(LINE) == 3
    assert place.calls() == ["a", "b"]  # calls that may not be repeated
    steps = "".join(
        path.read_text() for path in (place.path / "ws" / "runs").glob("eng-*/steps.jsonl")
    )
    assert steps.count("it was not repeated") == 2


def test_the_shell_goes_on_with_the_tools_that_it_is_given(place):
    place.dies("tools", when=both_called(place), pace=60)
    code, out, _ = place.orchestrator("resume", "--tool", "shop:slow", "--quiet")
    assert (code, out.count(": done; ")) == (0, 3)
    assert "there is no tool" not in "".join(
        path.read_text() for path in (place.path / "ws").glob("runs/*/steps.jsonl")
    )


def test_the_same_work_says_who_it_waits_for(place):
    """Asked of a program without the tool, it neither waits for ever nor is begun, and paid for,
    anew.
    """
    place.dies("tools", when=both_called(place), pace=60)
    process = place.starts("shop.py")
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert LINE in err
    assert findings(place) == []


@pytest.mark.parametrize("verb", ["resume", "up"])
def test_runs_are_left_to_whoever_has_the_key(place, verb):
    place.server.script = lambda seen: Move(play(seen).text, play(seen).calls, takes=60)
    place.dies(when=lambda: place.server.journal)
    place.server.script = play
    line = "waits for its own program: key OPENAI_API_KEY"
    if verb == "resume":
        code, out, _ = place.orchestrator("resume", key=False)
        assert (code, out.splitlines()[0].endswith(line)) == (9, True)
    else:
        daemon = place.starts("-m", "orchestrator", "--root", "ws", "up", key=False)
        until(lambda: os.path.exists(daemon_file(place.root, "sock")), daemon)
        until(lambda: ask(place.root, "status")["left"], daemon)
        ask(place.root, "down")
        assert daemon.communicate(timeout=20)[1].count(line) == 1
    assert findings(place) == []
    (run,) = place.ps(key=False)
    assert (run["state"], run["waits"]) == ("orphaned", line)
    assert "waits" not in place.ps()[0]  # here is the key
    assert not [
        path
        for path in (place.path / "ws").rglob("*")
        if path.is_file() and b"secret-of-mine" in path.read_bytes()
    ]
    code, out, _ = place.orchestrator("resume", "--quiet")
    assert (code, out.count(": done; ")) == (0, 1)


def test_a_process_that_ends_them_is_found_out(place):
    """The checker, held against what a process without the tool did before."""
    place.dies("tools", when=both_called(place), pace=60)
    code = (
        "import synapse\nfrom orchestrator import Supervisor\nfrom orchestrator.runs import requirements\n"
        "requirements.lacking = lambda needed, offer: ()\n"
        "with synapse.open('ws') as memory, Supervisor(memory) as boss:\n    boss.resume()\n"
    )
    process = place.starts("-c", code)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    wrong = findings(place)
    assert any("taken over" in each for each in wrong)
    assert any("an entry says" in each for each in wrong)
