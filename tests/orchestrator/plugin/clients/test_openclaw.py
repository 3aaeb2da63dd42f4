"""OpenClaw's events in our own form, what its plugin notes of usage, its installation and its
wakes.
"""

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

import synapse
from orchestrator.engines.protocol import Usage
from orchestrator.plugin import facts
from orchestrator.plugin.hooks.answer import answer
from orchestrator.plugin.install.change import Json, Target
from orchestrator.plugin.install.clients.openclaw import config, notes, plan
from orchestrator.plugin.transcripts.transcript import spent
from orchestrator.plugin.wakes import openclaw
from synapse import Agent

SAMPLES = Path(__file__).parents[1] / "samples/openclaw"
MAIN = "agent:main:main"
CHILD = "agent:main:subagent:9c892371"


@pytest.fixture
def memory(tmp_path):
    with synapse.init(str(tmp_path / "memory")) as memory:
        memory.register(Agent("cto", read=("*",), write=("*",)))
        memory.register(Agent("lead", role="project-lead", read=("*",), write=("*",)))
        memory.register(Agent("engineer", read=("*",), write=("*",)))
        memory.as_agent("cto").append(
            "Never push to main on a Friday.", "decisions/all", priority="critical"
        )
        yield memory


def told(memory, name, **fields):
    """What the plugin is told at an event."""
    text = answer(
        memory, "openclaw", {"event": name, "session": MAIN, "cwd": "/work", **fields}, os.getpid()
    )
    return json.loads(text) if text else {}


def test_each_event_is_answered_in_our_own_form(memory, tmp_path):
    usage = str(SAMPLES / "usage.jsonl")
    assert "Friday" in told(memory, "start", source="startup")["context"]
    assert (
        told(memory, "before", tool="sessions_spawn", arguments={"task": "Raise it"}, call="c1")
        == {}
    )
    assert (
        "Friday"
        in told(memory, "agent-start", agent=CHILD, type="engineer", prompt="Raise it")["context"]
    )
    memory.as_agent("cto").append("Stop using v1.", "decisions/all", priority="critical")
    read = {
        "agent": CHILD,
        "type": "engineer",
        "tool": "read",
        "arguments": {"path": "a.py"},
        "call": "c2",
    }
    assert "Stop using v1." in told(memory, "after", **read, result="A = 1")["context"]
    assert told(memory, "agent-stop", agent=CHILD, message="It is 8 now.", transcript=usage) == {}
    assert "Stop using v1." in told(memory, "stop", message="All done.")["again"]
    assert told(memory, "stop", message="All done.", going_on=True) == {}
    runs = {run["agent"]: run for run in memory.store.index.current.runs(limit=9)}
    assert (runs["engineer"]["status"], runs["engineer"]["summary"]) == ("done", "It is 8 now.")
    assert runs["engineer"]["usage"]["input_tokens"] == 18_710 - 5
    assert runs["lead"]["state"] == "running"
    assert told(memory, "end") == {}


def test_what_is_for_the_moment_before_a_call_stands_in_its_place(memory):
    told(memory, "start")
    memory.as_agent("cto").append(
        "Ask ops.", "decisions/git", priority="important", when="run git push"
    )
    push = {"tool": "exec", "arguments": {"command": "git push"}, "call": "c1"}
    assert "Ask ops." in told(memory, "before", **push)["deny"]
    assert told(memory, "before", **push | {"call": "c2"}) == {}


def test_a_patch_names_its_files():
    tool = facts.load("openclaw").tool("apply_patch")
    assert (tool.kind, tool.subject) == ("edit", "input")


def test_usage_is_of_each_reply_once():
    assert spent("openclaw", str(SAMPLES / "usage.jsonl")) == (
        Usage(18_705, 5, 18_560, 0, 0.000155),
        1,
        "scripted",
    )


def target(tmp_path, **env):
    folder = str(tmp_path / "memory/runs/.plugins/openclaw")
    package = str(Path(facts.FOLDER).parent)
    root, project = str(tmp_path / "memory"), str(tmp_path)
    return Target(
        "openclaw",
        root,
        project,
        False,
        "/usr/bin/python3",
        package,
        str(tmp_path),
        folder,
        env=env,
    )


def test_a_plan_has_the_plugin_and_the_memory_tools(tmp_path):
    changes = plan(target(tmp_path))
    names = {os.path.basename(change.path) for change in changes}
    assert {
        "hook",
        "mcp",
        "index.js",
        "package.json",
        "openclaw.plugin.json",
        "settings.json",
        "tools.json",
    } < names
    merged = next(change for change in changes if isinstance(change, Json))
    assert merged.path == str(tmp_path / ".openclaw/openclaw.json")
    assert merged.members["plugins"]["load"]["paths"] == [target(tmp_path).folder]
    assert "mcp" not in merged.members, "a server there is one for all projects"
    files = {os.path.basename(change.path): change.text for change in changes if change != merged}
    offered = [f"synapse__{tool['name']}" for tool in json.loads(files["tools.json"])]
    assert json.loads(files["openclaw.plugin.json"])["contracts"]["tools"] == offered
    assert "synapse__memory_search" in offered
    settings = next(change for change in changes if change.path.endswith("settings.json"))
    assert json.loads(settings.text)["root"] == str(tmp_path / "memory")
    assert len(notes(target(tmp_path))) <= 3


def test_the_configuration_is_where_the_environment_says(tmp_path):
    assert config(target(tmp_path, OPENCLAW_STATE_DIR="/state")) == "/state/openclaw.json"
    assert config(target(tmp_path, OPENCLAW_CONFIG_PATH="/own.json")) == "/own.json"


class Gateway(BaseHTTPRequestHandler):
    """Takes wakes as the gateway's address does."""

    def do_POST(self):
        text = self.rfile.read(int(self.headers["content-length"]))
        self.server.asked.append((self.path, self.headers["authorization"], json.loads(text)))
        self.send_response(self.server.status)
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture
def gateway(tmp_path):
    server = HTTPServer(("127.0.0.1", 0), Gateway)
    server.asked, server.status = [], 200
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    hooks = {"enabled": True, "token": "secret", "path": "/hooks"}
    (tmp_path / ".openclaw").mkdir()
    values = {"hooks": hooks, "gateway": {"port": server.server_port}}
    (tmp_path / ".openclaw/openclaw.json").write_text(json.dumps(values))
    yield server
    server.shutdown()
    server.server_close()


def test_a_gateway_that_takes_wakes_is_asked(gateway, tmp_path):
    assert openclaw.wake(MAIN, "come", str(tmp_path), {"HOME": str(tmp_path)})
    body = {"text": "come", "mode": "now", "agentId": "main"}
    assert gateway.asked == [("/hooks/wake", "Bearer secret", body)]


def test_a_gateway_that_refuses_is_no_wake(gateway, tmp_path, monkeypatch):
    gateway.status = 503
    monkeypatch.setattr(openclaw, "TAKEN_WITHIN", 0.1)
    assert not openclaw.wake(MAIN, "come", str(tmp_path), {"HOME": str(tmp_path)})


def test_a_file_that_is_taken_is_a_wake(tmp_path):
    def takes():
        while not (files := list((tmp_path / "wakes").glob("*.json"))):
            time.sleep(0.01)
        read.append(json.loads(files[0].read_text()))
        files[0].unlink()

    read = []
    taker = threading.Thread(target=takes)
    taker.start()
    assert openclaw.wake(MAIN, "come", str(tmp_path), {"HOME": str(tmp_path)})
    taker.join()
    assert read == [{"session": MAIN, "text": "come"}]


def test_a_file_that_nobody_takes_is_taken_back(tmp_path, monkeypatch):
    monkeypatch.setattr(openclaw, "TAKEN_WITHIN", 0.1)
    assert not openclaw.wake(MAIN, "come", str(tmp_path), {"HOME": str(tmp_path)})
    assert not list((tmp_path / "wakes").iterdir())


# -- the plugin's own program ----------------------------------------------------------

FRAME = (
    "[Subagent Context] You are a subagent. Complete the current [Subagent Task];"
    " inherited conversation is background context, not your assignment.\n\n"
)
GATEWAY = """
import plugin from "./index.js";
const handlers = {};
const on = (name, handler) => (handlers[name] = handler);
plugin.register({ on, registerAgentToolResultMiddleware() {}, registerTool() {} });
const context = { sessionKey: "agent:main:subagent:1", sessionId: "1", runId: "1", agentId: "main" };
await handlers.before_prompt_build({ prompt: process.argv[2] }, context);
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="OpenClaw runs on Node")
@pytest.mark.parametrize(
    ("prompt", "task"),
    [
        (f"{FRAME}[Subagent Task]\n\nRaise the rate\nin tariff.py\n\nBegin. Execute the"
         " assigned task to completion.", "Raise the rate\nin tariff.py"),
        (f"{FRAME}[Subagent Task]\n\nAn older one\n\nBegin. Execute the assigned task to"
         f" completion.\n\n{FRAME}[Subagent Task]\n\nRaise it", "Raise it"),
        (f"{FRAME}[Subagent Task]\n\nSay what a [Subagent Task] is", "Say what a [Subagent Task] is"),
        ("Raise it", "Raise it"),
    ],
)  # fmt: skip
def test_a_sub_agents_task_is_what_stands_below_the_last_heading(tmp_path, prompt, task):
    plugin = Path(facts.FOLDER).parent / "assets/openclaw"
    shutil.copy(plugin / "index.js", tmp_path)
    shutil.copy(plugin / "package.json", tmp_path)
    (tmp_path / "gateway.mjs").write_text(GATEWAY)
    hook = tmp_path / "hook"
    hook.write_text(f'#!/bin/sh\ncat >> "{tmp_path}/events"\n')
    hook.chmod(0o700)
    settings = {"hook": str(hook), "folder": str(tmp_path), "root": ""}
    (tmp_path / "settings.json").write_text(json.dumps(settings))
    command = ["node", str(tmp_path / "gateway.mjs"), prompt]
    subprocess.run(command, check=True, timeout=60, cwd=tmp_path)
    event = json.loads((tmp_path / "events").read_text())
    assert (event["event"], event["prompt"]) == ("agent-start", task)


CALLS = """
import plugin from "./index.js";
let toolsOf;
const registerTool = (factory) => (toolsOf = factory);
plugin.register({ on() {}, registerAgentToolResultMiddleware() {}, registerTool });
const { servers } = globalThis[Symbol.for("synapse.openclaw")];
const answers = [];
for (const [workspaceDir, sessionKey, name, args] of JSON.parse(process.argv[2])) {
  const tool = toolsOf({ workspaceDir, sessionKey }).find((each) => each.name === name);
  if (args === null) servers.get(workspaceDir).end();
  else answers.push(await tool.execute(`call${answers.length}`, args).then(
    (result) => result.content[0].text, (error) => `failed: ${error.message}`));
}
console.log(JSON.stringify(answers));
"""


def called(place, calls):
    """Return what tools of an installed plugin answer, each called in a folder and a session."""
    for change in plan(place._replace(python=sys.executable)):
        if not isinstance(change, Json):
            os.makedirs(os.path.dirname(change.path), exist_ok=True)
            Path(change.path).write_text(change.text)
            os.chmod(change.path, change.mode)
    (Path(place.folder) / "calls.mjs").write_text(CALLS)
    command = ["node", os.path.join(place.folder, "calls.mjs"), json.dumps(calls)]
    done = subprocess.run(command, check=True, timeout=120, capture_output=True, text=True)
    return json.loads(done.stdout)


@pytest.mark.skipif(shutil.which("node") is None, reason="OpenClaw runs on Node")
def test_tools_are_of_the_memory_of_the_folder_that_an_agent_works_in(tmp_path):
    places = {name: str(tmp_path / name) for name in ("shop", "mill", "nowhere")}
    for name in ("shop", "mill"):
        with synapse.init(f"{places[name]}/shared-memory") as memory:
            memory.register(Agent("lead", role="project-lead", read=("*",), write=("*",)))
    os.mkdir(places["nowhere"])
    write, look = "synapse__append", "synapse__memory_search"
    entry = {"namespace": "projects/x", "body": "Tariffs round half up."}
    answers = called(
        target(tmp_path)._replace(root=None, user=True),
        [
            (places["shop"], "agent:main:main", write, entry),
            (places["shop"], "agent:main:main", look, {"query": "tariffs"}),
            (places["mill"], "agent:miller:main", look, {"query": "tariffs"}),
            (places["nowhere"], "agent:lost:main", look, {"query": "tariffs"}),
            (places["shop"], "agent:main:main", look, None),  # its process ends
            (places["shop"], "agent:main:main", look, {"query": "half up"}),
        ],
    )
    assert "round half up" in answers[1]
    assert "round half up" not in answers[2]
    assert answers[3].startswith("failed: Error: no workspace is in")
    assert "round half up" in answers[4]


@pytest.mark.skipif(shutil.which("node") is None, reason="OpenClaw runs on Node")
def test_a_sub_agents_tools_write_as_the_sub_agent(memory, tmp_path):
    told(memory, "start", source="startup")
    told(memory, "before", tool="sessions_spawn", arguments={"task": "Raise it"}, call="c1")
    told(memory, "agent-start", agent=CHILD, type="engineer", prompt="Raise it")
    entry = {"namespace": "projects/x", "body": "The rate is 8."}
    calls = [(str(tmp_path), key, "synapse__append", entry) for key in (CHILD, MAIN)]
    called(target(tmp_path), calls)
    entries = memory.as_agent("cto").read(namespace="projects/x").entries
    assert {entry.author for entry in entries} == {"engineer", "lead"}
