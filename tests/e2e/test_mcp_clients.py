"""The real clients and `synapse mcp`: the main agent and a sub-agent of each write through it,
once, and what they say of a call is what `synapse.mcp.caller` takes it for.
"""

import json
import os
import re
import subprocess
import sys

import pytest

import synapse
from orchestrator.engines.scripted import Move
from synapse import Agent
from synapse.mcp.caller import Caller

pytestmark = pytest.mark.soak

# What each client calls our tool, and its tool that spawns a sub-agent with what that takes.
APPEND = re.compile(r"^(mcp__synapse__|mcp_synapse_)append$")
SPAWNS = {
    "Agent": {
        "description": "x",
        "prompt": "CHILD",
        "subagent_type": "general-purpose",
        "run_in_background": False,
    },
    "multi_agent_v1__spawn_agent": {"message": "CHILD", "agent_type": "default"},
    "invoke_agent": {"agent_name": "generalist", "prompt": "CHILD"},
}
WAIT = "multi_agent_v1__wait_agent"
LINES = {
    "claude-code": ("claude", "-p", "PARENT", "--output-format", "json", "--model", "claude-sonnet-4-5", "--mcp-config",
                    "{home}/mcp.json", "--strict-mcp-config", "--allowedTools", "mcp__synapse", "Agent"),
    "codex": ("codex", "exec", "--json", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "-m",
              "gpt-5", "PARENT"),
    "gemini": ("gemini", "-m", "gemini-2.5-flash", "-p", "PARENT", "-o", "stream-json", "--yolo"),
}  # fmt: skip
# of its call, its session
TELLS = {"claude-code": (True, True), "codex": (True, True), "gemini": (False, False)}


def plays(seen):
    """A model that writes as the main agent, spawns one that writes too, waits for it, and says so.
    Codex asks before a slow server's tools are there: then it lets time pass.
    """
    names = {tool.name for tool in seen.tools}
    child = "CHILD" in seen.text and "PARENT" not in seen.text
    append = next(filter(APPEND.match, names), None)
    spawn = next((name for name in SPAWNS if name in names), None)
    step = seen.turn - sum(
        "WAITED" in message.text for message in seen.messages if message.role == "tool"
    )
    if (not child and "PARENT" not in seen.text) or step > 2 or (child and step):
        return "Said."
    if step == 0:
        if append is None and "exec_command" in names:
            return Move("", (("exec_command", {"cmd": "sleep 2; echo WAITED"}),))
        given = {"namespace": "api/x", "body": "child" if child else "parent"}
        return Move("", ((append or "mcp__synapse__append", given),))
    if step == 1 and spawn:
        return Move("", ((spawn, SPAWNS[spawn]),))
    thread = re.search(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", seen.messages[-1].text)
    return (
        Move("", ((WAIT, {"targets": [thread[0]], "timeout_ms": 20_000}),))
        if WAIT in names and thread
        else "Said."
    )


@pytest.fixture
def root(tmp_path):
    with synapse.init(tmp_path / "ws") as memory:
        memory.register(Agent("eng", read=["api/*"], write=["api/*"]))
    return tmp_path / "ws"


def listen_in(root, tmp_path):
    """A server's command that keeps what its client sends, and the folder where."""
    kept, script = tmp_path / "kept", tmp_path / "listen-in"
    kept.mkdir()
    program = f"{sys.executable} -m synapse.cli --root {root} mcp --agent eng"
    script.write_text(
        f'#!/bin/sh\necho "$CLAUDE_CODE_SESSION_ID" > {kept}/$$.session\ntee'
        f" {kept}/$$.in | {program}\n"
    )
    script.chmod(0o755)
    return str(script), kept


def configure(name, home, server):
    if name == "claude-code":
        (home / "mcp.json").write_text(
            json.dumps({"mcpServers": {"synapse": {"command": server, "args": []}}})
        )
    elif name == "codex":
        with (home / ".codex/config.toml").open("a") as file:
            file.write(
                f"[mcp_servers.synapse]\ncommand ="
                f' "{server}"\ndefault_tools_approval_mode = "approve"\n'
            )
    else:
        path = home / ".gemini/settings.json"
        more = {"mcpServers": {"synapse": {"command": server, "args": [], "trust": True}}}
        path.write_text(json.dumps(json.loads(path.read_text()) | more))


@pytest.mark.parametrize("name", LINES)
def test_a_client_writes_through_the_server(client, root, tmp_path, name):
    engine, place, _ = client(name, plays)
    home = tmp_path / "home"
    server, kept = listen_in(root, tmp_path)
    configure(name, home, server)
    words = [word.format(home=home) for word in LINES[name]]
    env = {**engine.env, "GEMINI_CLI_TRUST_WORKSPACE": "true"}
    done = subprocess.run(
        words, cwd=place.folder, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120,
        process_group=0,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2_000:]
    with synapse.open(root) as memory:
        assert sorted(entry.body for entry in memory.as_agent("eng").read()) == ["child", "parent"]
    calls = []
    for path in kept.glob("*.in"):
        session = path.with_suffix(".session").read_text().strip()
        for line in path.read_text().splitlines():
            asked = json.loads(line)
            if asked.get("method") == "tools/call":
                calls.append(Caller(meta=asked["params"]["_meta"], started=session))
    assert [(call.call is not None, bool(call.session)) for call in calls] == [TELLS[name]] * 2
    assert not [pid for pid in filter(str.isdigit, os.listdir("/proc")) if serves(pid, root)]


def serves(pid, root):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return f"--root\0{root}\0mcp".encode() in file.read()
    except OSError:
        return False
