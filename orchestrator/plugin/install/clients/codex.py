"""The installation for Codex: its hooks, its MCP server, and the checks of its doctor.

In a project both go into `.codex/`, for the user into `$CODEX_HOME`. The hooks run once the user
has trusted them in Codex; nothing here does that for the user.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

from orchestrator.engines.clients import WRITTEN
from orchestrator.plugin import facts
from orchestrator.plugin.install.assets import assets, fill_template, programs
from orchestrator.plugin.install.change import Block, Change, Json, Target
from synapse.system.findings import Finding

HOOKS, CONFIG = "hooks.json", "config.toml"
# that a hook may take; Codex allows a session's last no more than 3
SECONDS, LAST_SECONDS = 10, 3
WITHIN = 20.0  # seconds for Codex to say what it knows of its hooks
MCP = """\
[mcp_servers.synapse]
command = "@MCP@"
default_tools_approval_mode = "approve"
"""


def plan(target: Target) -> list[Change]:
    """Return what an installation changes: our programs, the hooks, the MCP server."""
    folder = os.path.join(target.project, ".codex")
    if target.user:
        folder = _home(target)
    return [
        *programs(target),
        *assets(target),
        Json(os.path.join(folder, HOOKS), {"hooks": hooks(target)}, target.folder),
        Block(os.path.join(folder, CONFIG), fill_template(target, MCP, json_strings=True), "toml"),
    ]


def hooks(target: Target) -> dict[str, Any]:
    """Return the hooks of each event, as `hooks.json` has them."""
    groups: dict[str, Any] = {}
    client_facts = facts.load("codex")
    for name, event_facts in client_facts.events.items():
        seconds = LAST_SECONDS if event_facts.name == "end" else SECONDS
        hook: dict[str, Any] = {
            "type": "command",
            "command": shlex.quote(target.hook),
            "timeout": seconds,
        }
        if limit := client_facts.raw["events"][name].get("limit"):
            hook["additionalContextLimit"] = limit
        group: dict[str, Any] = {"matcher": event_facts.matcher} if event_facts.matcher else {}
        groups[name] = [{**group, "hooks": [hook]}]
    return groups


def notes(target: Target) -> list[str]:
    """Return what the user has to do, and to know."""
    untrusted = "" if target.user else ", or in a folder that codex does not trust,"
    return [
        "At its next start codex asks about new hooks: choose `Trust all`.",
        f"Until then{untrusted} it skips them without a word (`codex exec` too).",
    ]


def examine(target: Target) -> list[Finding]:
    """Return whether Codex will run the hooks, and where its shells may write."""
    return [*_trust(target), *_sandbox(target)]


def _home(target: Target) -> str:
    return target.config("CODEX_HOME", ".codex")


# -- the doctor ------------------------------------------------------------------------------------


def _trust(target: Target) -> Iterator[Finding]:
    """Yield what Codex says of our hooks: that it knows all of them, and which it will run."""
    if shutil.which("codex", path=target.env.get("PATH")) is None:
        return
    hooks = _known_hooks(target)
    if hooks is None:
        yield Finding(
            "hooks trusted",
            "warn",
            "codex did not say what it knows of its hooks",
            "try /hooks in codex",
        )
        return
    ours = [hook for hook in hooks if target.folder in str(hook.get("command"))]
    missing = len(facts.load("codex").events) - len(ours)
    waiting = [hook for hook in ours if hook.get("trustStatus") not in ("trusted", "managed")]
    off = [hook for hook in ours if not hook.get("enabled", True)]
    if missing > 0:
        detail = f"codex finds {len(ours)} of our hooks, {missing} are missing"
        mend = (
            f"start codex in {target.project} and trust the folder; else: orchestrator"
            f" install codex"
        )
        yield Finding("hooks found", "fail", detail, mend)
    if waiting:
        detail = f"{len(waiting)} of {len(ours)} hooks wait for your consent: codex skips them"
        yield Finding(
            "hooks trusted", "fail", detail, "start codex, and choose `Trust all`; later: /hooks"
        )
    elif ours:
        yield Finding("hooks trusted", "ok", f"codex trusts all {len(ours)} hooks")
    if off:
        yield Finding(
            "hooks enabled",
            "fail",
            f"{len(off)} hooks are turned off",
            "turn them on with /hooks in codex",
        )


def _known_hooks(target: Target) -> list[Mapping[str, Any]] | None:
    """Return the hooks that Codex knows for the project; None where it does not answer."""
    params = {
        "clientInfo": {"name": "synapse", "version": "0"},
        "capabilities": {"experimentalApi": True},
    }
    requests = (
        {"id": 0, "method": "initialize", "params": params},
        {"method": "initialized"},
        {"id": 1, "method": "hooks/list", "params": {"cwds": [target.project]}},
    )
    text = "".join(f"{json.dumps(request)}\n" for request in requests)
    answer = _conversation(["codex", "app-server"], text, target)
    entries = answer.get("result", {}).get("data", []) if answer else None
    if entries is None:
        return None
    return [hook for entry in entries for hook in entry.get("hooks", ())]


def _conversation(command: list[str], text: str, target: Target) -> dict[str, Any] | None:
    """Return the answer to the request with the id 1, from a program that is ended then."""
    try:
        program = subprocess.Popen(
            ["timeout", f"{WITHIN:g}", *command] if shutil.which("timeout") else command,
            cwd=target.project,
            env=dict(target.env),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
    except OSError:
        return None
    with program:
        assert program.stdin is not None
        assert program.stdout is not None
        try:
            program.stdin.write(text)
            program.stdin.flush()
            for line in program.stdout:
                answer = json.loads(line)
                if answer.get("id") == 1 and "method" not in answer:
                    return dict(answer)
        except (OSError, ValueError):
            return None
        finally:
            program.terminate()
    return None


def _sandbox(target: Target) -> Iterator[Finding]:
    """Yield whether the shells of a session may write to the workspace. Hooks and MCP tools always
    may.
    """
    config = _config(target)
    if config.get("features", {}).get("hooks") is False:
        yield Finding(
            "hooks on", "fail", "features.hooks is false in config.toml", "remove that line"
        )
    if target.root is None or config.get("sandbox_mode") == "danger-full-access":
        return
    roots = [target.project, *config.get("sandbox_workspace_write", {}).get("writable_roots", [])]
    root = os.path.realpath(target.root)
    needed = [os.path.join(root, name) for name in WRITTEN]
    if all(any(_within(folder, writable) for writable in roots) for folder in needed):
        yield Finding(
            "shells", "ok", "shells may write to the workspace in the sandbox mode workspace-write"
        )
        return
    line = f"[sandbox_workspace_write] writable_roots = {json.dumps(needed)}"
    detail = "codex keeps its shells from writing to the workspace; its memory tools are not kept"
    yield Finding("shells", "warn", detail, f"in {os.path.join(_home(target), CONFIG)}: {line}")


def _within(folder: str, writable: str) -> bool:
    real = os.path.realpath(writable)
    return os.path.commonpath((folder, real)) == real


def _config(target: Target) -> dict[str, Any]:
    """Return the user's configuration; nothing where it cannot be read."""
    try:
        with open(os.path.join(_home(target), CONFIG), "rb") as file:
            return tomllib.load(file)
    except (OSError, tomllib.TOMLDecodeError):
        return {}
