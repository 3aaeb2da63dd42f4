"""Importing and the shell's hot verbs load nothing that they do not use."""

import importlib.util
import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from orchestrator.plugin.sessions import state

HEAVY = {
    "anthropic",
    "mcp",
    "mcp_types",
    "pydantic",
    "uvicorn",
    "openai",
    "tiktoken",
    "jinja2",
    "apscheduler",
    "starlette",
    "yaml",
    "frontmatter",
    "rich",
}
HEAVY |= {"dataclasses", "inspect", "pathlib", "typing", "hashlib"}
SLOW = {"asyncio", "concurrent", "logging", "ssl", "subprocess", "importlib.metadata"}


def python(*args, cwd, input=None):
    env = {
        key: value
        for key, value in os.environ.items()
        if key == "SYNAPSE_HOME" or not key.startswith(("SYNAPSE_", "PYTHON"))
    }
    done = subprocess.run(
        [sys.executable, *args],
        cwd=cwd,
        env=env,
        input=input,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done


def imported(*args, cwd, input=None):
    """Top-level modules loaded by a run, beyond those of an empty one."""
    return _loaded(*args, cwd=cwd, input=input) - _loaded("-c", "pass", cwd=cwd)


def _loaded(*args, cwd, input=None):
    told = python("-X", "importtime", *args, cwd=cwd, input=input).stderr.splitlines()
    names = (line.rpartition("|")[2].strip() for line in told if line.startswith("import time:"))
    return {name.split(".")[0] for name in names}


def third_party(name):
    if name == "synapse":
        return False
    try:
        spec = importlib.util.find_spec(name)
    except ValueError:
        return False
    sites = {Path(sysconfig.get_path(kind)).resolve() for kind in ("purelib", "platlib")}
    origin = Path(spec.origin).resolve() if spec and spec.has_location else None
    return origin is not None and any(origin.is_relative_to(site) for site in sites)


@pytest.fixture
def workspace(tmp_path):
    root = tmp_path / "shared-memory"
    cli = ("-m", "synapse.cli", "--root", str(root))
    python(*cli, "init", cwd=tmp_path)
    globs = ("--read", "api/*", "--write", "api/*")
    python(*cli, "register", "--id", "eng-backend", "--role", "engineer", *globs, cwd=tmp_path)
    python(
        *cli,
        "write",
        "--from",
        "eng-backend",
        "--namespace",
        "api/endpoints",
        "use /v1/users",
        cwd=tmp_path,
    )
    return root


def test_an_mcp_session_opens_without_the_sdk(workspace):
    about = {"protocolVersion": "2025-11-25", "capabilities": {}}
    about["clientInfo"] = {"name": "client", "version": "1"}
    asked = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
        {"jsonrpc": "2.0", "id": 3, "method": "resources/list"},
    ]
    text = "".join(json.dumps(message) + "\n" for message in asked)
    words = ("-m", "synapse.cli", "--root", str(workspace), "mcp", "--agent", "eng-backend")
    names = imported(*words, cwd=workspace.parent, input=text)
    assert "synapse" in names
    assert {name for name in names if third_party(name)} == set()


def test_the_check_knows_third_party_from_ours(tmp_path):
    assert third_party("yaml")
    assert not third_party("json")
    assert not third_party("synapse")
    assert "yaml" in imported("-c", "import yaml", cwd=tmp_path)


def test_import_synapse_is_light(tmp_path):
    code = (
        "import sys; old = set(sys.modules); import synapse; print(*sorted(set(sys.modules) - old))"
    )
    new = {name.split(".")[0] for name in python("-c", code, cwd=tmp_path).stdout.split()}
    assert new & HEAVY == set()


@pytest.mark.parametrize(
    "verb",
    [
        ("write", "--from", "eng-backend", "--namespace", "api/endpoints", "use /v2/users"),
        ("read", "--agent", "eng-backend"),
        ("read", "--agent", "eng-backend", "--json"),
        ("unread", "--agent", "eng-backend"),
        ("watch", "--since", "0", "--count", "1", "--timeout", "30"),
    ],
    ids=" ".join,
)
def test_hot_verbs_import_nothing_heavy(workspace, verb):
    names = imported("-m", "synapse.cli", "--root", str(workspace), *verb, cwd=workspace.parent)
    assert "synapse" in names
    assert {name for name in names if third_party(name)} == set()
    assert names & HEAVY == set()


def test_a_hook_that_answers_by_itself_loads_what_it_needs(workspace):
    hook = Path(__file__).parents[1] / "orchestrator/plugin/hook.py"
    folder = workspace.parent

    def words(name, **fields):
        event = {"session_id": "s1", "cwd": str(folder), "hook_event_name": name}
        event |= {"tool_use_id": "c1", "tool_input": {"file_path": f"{folder}/a.py"}}
        text = json.dumps(event | {"tool_name": "Read"} | fields)
        return ("-I", "-S", str(hook), "claude-code"), {"cwd": folder, "input": text}

    events = {
        "SessionStart": {"source": "startup"},
        "UserPromptSubmit": {"prompt": "Which users endpoint is it?"},
        "PreToolUse": {},
        "PostToolUse": {"tool_response": "text"},
        "Stop": {"last_assistant_message": "It is /v1/users."},
    }
    for name, fields in events.items():
        command, options = words(name, **fields)
        names = imported(*command, **options)
        assert "orchestrator" in names
        assert {name for name in names if third_party(name)} | names & {"site"} == set()
        own = {"typing", "hashlib"} if name == "Stop" else {"typing"}  # it may write an entry
        assert names & (HEAVY | SLOW) - own == set()
    assert list(Path(state.folder_of(str(workspace))).glob("*.json"))
