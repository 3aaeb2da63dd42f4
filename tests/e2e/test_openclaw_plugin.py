"""OpenClaw with our plugin, installed as its users install it: a gateway on loopback, a model by a
script.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

import synapse
from orchestrator.engines.scripted import Move
from orchestrator.plugin.install import record
from orchestrator.plugin.wakes import openclaw
from orchestrator.runs.records import Runs
from synapse import Agent
from tests.model_server import ModelServer

pytestmark = pytest.mark.soak

RULE = "Never push to main on a Friday."
MAIN = "agent:main:main"
TIMEOUT = 180


class Claw:
    """A workspace, a gateway whose agent works in the folder beside it, and the requests that its
    model had.
    """

    def __init__(self, installed, folder, rules=(RULE,)):
        self.home, self.work = folder / "home", folder / "shop"
        self.root = self.work / "shared-memory"
        self.config = folder / "home/.openclaw/openclaw.json"
        self.env = {
            "HOME": str(self.home),
            "CI": "1",
            "PATH": os.pathsep.join((str(installed), os.environ["PATH"])),
            "TMPDIR": str(folder / "tmp"),
            "OPENCLAW_STATE_DIR": str(self.config.parent),
        }
        for place in (self.config.parent, self.work, folder / "tmp"):
            place.mkdir(parents=True)
        (self.work / "src").mkdir()
        for name in ("tariff.py", "tax.py"):
            (self.work / "src" / name).write_text("RATE = 7\n")
        self.script, self.gateway, self.port = None, None, free_port()
        self.server = ModelServer(lambda seen: self.script(seen)).start()
        self.config.write_text(json.dumps(self.configuration(), indent=2) + "\n")
        with synapse.init(str(self.root)) as memory:
            memory.register(Agent("cto", read=("*",), write=("*",)))
            memory.register(Agent("lead", role="project-lead", read=("*",), write=("*",)))
            memory.register(Agent("engineer", read=("*",), write=("*",)))
            for rule in rules:
                memory.as_agent("cto").append(rule, "decisions/all", priority="critical")

    def configuration(self):
        model = {
            "id": "scripted",
            "name": "scripted",
            "contextWindow": 200_000,
            "maxTokens": 4_096,
            "input": ["text"],
        }
        model |= {
            "reasoning": False,
            "cost": {"input": 1, "output": 2, "cacheRead": 0, "cacheWrite": 0},
        }
        provider = {
            "baseUrl": f"{self.server.url}/v1",
            "apiKey": "any",
            "api": "openai-completions",
            "models": [model],
        }
        return {
            "models": {"providers": {"here": provider}},
            "agents": {
                "defaults": {"model": {"primary": "here/scripted"}, "workspace": str(self.work)}
            },
            "gateway": {
                "mode": "local",
                "bind": "loopback",
                "port": self.port,
                "auth": {"mode": "none"},
            },
            "tools": {"toolSearch": False},
            "update": {"checkOnStart": False},
        }

    def orchestrator(self, *words):
        """Run a verb as the user would."""
        command = [sys.executable, "-m", "orchestrator", *words]
        done = subprocess.run(
            command, cwd=self.work, env=self.env, capture_output=True, text=True, timeout=TIMEOUT
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def up(self):
        """Start the gateway, and wait until it answers."""
        words = ["openclaw", "gateway", "run", "--port", str(self.port)]
        with open(self.home / "gateway.log", "w") as log:
            more = {
                "stdin": subprocess.DEVNULL,
                "stdout": log,
                "stderr": log,
                "start_new_session": True,
            }
            self.gateway = subprocess.Popen(words, cwd=self.work, env=self.env, **more)
        end = time.monotonic() + TIMEOUT
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/readyz", timeout=2).close()
                return self
            except OSError:
                assert self.gateway.poll() is None, self.log()
                assert time.monotonic() < end, self.log()
                time.sleep(0.2)

    def log(self):
        return (self.home / "gateway.log").read_text()[-3_000:]

    def down(self):
        if self.gateway is not None:
            self.gateway.send_signal(signal.SIGINT)
            try:
                self.gateway.wait(30)
            except subprocess.TimeoutExpired:
                os.killpg(self.gateway.pid, signal.SIGKILL)
        self.server.stop()

    def say(self, text, script, agent="main"):
        """Return the requests of the turn that a message begins."""
        self.script = script
        self.server.journal.clear()
        words = ["openclaw", "agent", "--agent", agent, "--message", text, "--json"]
        nothing = subprocess.DEVNULL
        done = subprocess.run(
            words,
            cwd=self.work,
            env=self.env,
            stdin=nothing,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
        )
        assert done.returncode == 0, done.stderr + done.stdout
        return self.requests()

    def requests(self):
        return [str(taken.body.get("messages")) for taken in self.server.journal]

    def write(self, body, namespace="decisions/all", **fields):
        """Write as somebody else, in a process of their own."""
        words = [f"--{name}={value}" for name, value in fields.items()]
        command = [sys.executable, "-m", "synapse", "write", "--namespace", namespace, *words, body]
        env = {**os.environ, "SYNAPSE_ROOT": str(self.root), "SYNAPSE_AGENT": "cto"}
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=TIMEOUT)
        assert done.returncode == 0, done.stderr

    def record(self, agent):
        with synapse.open(str(self.root)) as memory:
            runs = [run.id for run in Runs(memory.store).all() if run.agent == agent]
            return memory.store.index.current.run(runs[-1]) if runs else None

    def bodies(self, namespace):
        with synapse.open(str(self.root)) as memory:
            return [
                entry.body for entry in memory.as_agent("cto").read(namespace=namespace).entries
            ]


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def until(is_so):
    """Wait until something is so."""
    end = time.monotonic() + TIMEOUT
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.2)


def plugin_folder(claw):
    return Path(record.plugin_folder(str(claw.root), "openclaw", claw.env, str(claw.home)))


@pytest.fixture
def claw(installed, tmp_path):
    claw = Claw(installed, tmp_path)
    yield claw
    claw.down()


@pytest.fixture
def plugged(claw):
    claw.orchestrator("install", "openclaw")
    return claw.up()


def steps(*calls, child="", answer="All of it is done."):
    """Make a script: these calls one after the other, then the answer; what a sub-agent says at
    once.
    """
    left = list(calls)

    def script(seen):
        if child and is_child(seen):
            return child
        call = left.pop(0) if left else None
        return answer if call is None else Move("", (call() if callable(call) else call,))

    return script


READ = ("read", {"path": "src/tariff.py"})
SPAWN = ("sessions_spawn", {"task": "Raise the rate in tariff.py", "label": "engineer"})


def is_child(seen):
    return "[Subagent Task]" in seen.text


def test_a_session_has_what_a_supervised_agent_has(plugged):
    """One gateway for all of it: its start takes longer than everything that is looked at."""
    # The view, in the main session and in the sub-agent's; its completion, with what it used.
    requests = plugged.say("raise it", steps(SPAWN, child="The rate is 8 now."))
    assert RULE in requests[0]
    until(lambda: (plugged.record("engineer") or {}).get("state") == "ended")
    child = next(text for text in plugged.requests() if "[Subagent Task]" in text)
    assert RULE in child
    record = plugged.record("engineer")
    assert (record["status"], record["summary"]) == ("done", "The rate is 8 now.")
    assert record["task"] == SPAWN[1]["task"]
    assert record["usage"]["input_tokens"] > 1_000
    assert record["model"] == "scripted"
    assert any("The rate is 8 now." in body for body in plugged.bodies("status/*"))
    assert plugged.record("lead")["state"] == "running"

    # The view is in the next turn too, which has no history of it.
    until(lambda: len(plugged.requests()) > 3)
    time.sleep(1)
    assert RULE in plugged.say("and now?", steps())[0]

    # A critical of another process, in a turn that is under way.
    def reads():
        plugged.write("Stop: the rate is frozen.", priority="critical")
        return READ

    requests = plugged.say("read it", steps(reads))
    assert "the rate is frozen" not in requests[0]
    assert "the rate is frozen" in requests[1]

    # The look before an act: beside a file, and in the place of a call.
    def reads_what_is_generated():
        plugged.write("src/tax.py is generated: edit tax.toml.", "projects/shop")
        return ("read", {"path": "src/tax.py"})

    plugged.write(
        "Ask ops before a push.", "decisions/git", priority="important", when="run git push"
    )
    push = ("exec", {"command": "git push; touch pushed"})
    requests = plugged.say("push it", steps(reads_what_is_generated, push))
    assert "edit tax.toml" in requests[-1], requests[-1][-4_000:]
    assert "Ask ops before a push." in requests[-1], requests[-1][-4_000:]
    assert not (plugged.work / "pushed").exists()

    # The memory's tools.
    note = {"fact": "Tariffs round half up.", "scope": "agent"}
    plugged.say("note it", steps(("synapse__memory_remember", note)))
    with synapse.open(str(plugged.root)) as memory:
        assert len(memory.as_agent("lead").search("tariffs round half up"))

    # A session that waits is woken, and is given what came.
    plugged.server.journal.clear()
    plugged.write("The rate is free again.", priority="critical")
    folder = plugin_folder(plugged)
    assert openclaw.wake(MAIN, "Something came in the shared memory.", str(folder), plugged.env)
    until(lambda: any("The rate is free again." in text for text in plugged.requests()))

    # A blocker.
    plugged.say("raise it again", steps(SPAWN, child="Blocked: there is no schema of tariffs."))
    until(
        lambda: any(
            "there is no schema of tariffs" in body for body in plugged.bodies("blockers/*")
        )
    )

    # Without a workspace it goes on.
    plugged.root.rename(plugged.root.with_name("elsewhere"))
    assert "RATE = 7" in plugged.say("read", steps(READ))[1]


def test_an_installation_leaves_no_trace_when_it_is_taken_back(claw):
    before = claw.config.read_bytes()
    claw.orchestrator("install", "openclaw")
    assert "synapse" in claw.config.read_text()
    claw.orchestrator("uninstall", "openclaw")
    assert claw.config.read_bytes() == before


def test_a_wake_that_no_gateway_takes_is_not_one(claw):
    folder = plugin_folder(claw)
    assert not openclaw.wake(MAIN, "come", str(folder), claw.env)
    assert not list(folder.glob("wakes/*"))


def test_each_agent_of_a_gateway_has_the_memory_of_its_own_project(claw):
    """Two projects in one gateway: what a tool writes or reads is of the folder that its agent
    works in.
    """
    other = claw.work.with_name("mill")
    other.mkdir()
    values = claw.configuration()
    entries = {"main": {"workspace": str(claw.work)}, "miller": {"workspace": str(other)}}
    values["agents"]["entries"] = entries
    claw.config.write_text(json.dumps(values) + "\n")
    with synapse.init(str(other / "shared-memory")) as memory:
        memory.register(Agent("lead", role="project-lead", read=("*",), write=("*",)))
        memory.register(Agent("engineer", read=("*",), write=("*",)))
        memory.as_agent("lead").append("Millstones are cut by hand.", "projects/mill")
    claw.orchestrator("install", "openclaw", "--user")
    claw.up()
    note = {"fact": "Tariffs round half up.", "scope": "agent"}
    claw.say("note it", steps(("synapse__memory_remember", note)))
    flour = {"fact": "Flour is sold by the sack.", "scope": "agent"}
    claw.say("note it", steps(("synapse__memory_remember", flour)), agent="miller")
    roots = {"shop": str(claw.root), "mill": str(other / "shared-memory")}
    found = {}
    for name, root in roots.items():
        with synapse.open(root) as memory:
            lead = memory.as_agent("lead")
            found[name] = {word for word in ("tariffs", "flour") if len(lead.search(word))}
    assert found == {"shop": {"tariffs"}, "mill": {"flour"}}
    look = ("synapse__memory_search", {"query": "millstones"})
    assert "cut by hand" in claw.say("look", steps(look), agent="miller")[-1]
    assert "cut by hand" not in claw.say("look", steps(look))[-1]
