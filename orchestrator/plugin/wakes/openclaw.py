"""The wake of a session of OpenClaw that waits: it gets a turn, and its plugin gives it the
entries.

It goes through the gateway's own address for wakes where its configuration has one, else through a
file that our plugin in the gateway takes. Nothing is lost where it fails: the daemon tries again
until the entry was given.
"""

from __future__ import annotations

import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from orchestrator.plugin.install.files import jsonc

PORT = 18789
TAKEN_WITHIN = 3.0  # seconds; the plugin looks once a second
ANSWERED_WITHIN = 5.0
MAIN = ":main"


def wake(
    session: str, text: str, folder: str, env: Mapping[str, str], pid: int | None = None
) -> bool:
    """Ask a session's gateway for a turn with this text; return False where no gateway took it.
    `folder` is the plugin's, `session` the key of a main session such as agent:main:main.
    """
    return post(session, text, env) or drop_file(session, text, folder)


def post(session: str, text: str, env: Mapping[str, str]) -> bool:
    """Ask the gateway's /hooks/wake; False where it is not switched on or does not take it."""
    hooks, port = _address(env)
    agent = (
        session.split(":")[1] if session.startswith("agent:") and session.endswith(MAIN) else None
    )
    if not hooks or agent is None:
        return False
    path = "/" + str(hooks.get("path") or "/hooks").strip("/")
    headers = {"Authorization": f"Bearer {hooks['token']}", "Content-Type": "application/json"}
    body = json.dumps({"text": text, "mode": "now", "agentId": agent}).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}/wake", body, headers)
    try:
        with urllib.request.urlopen(request, timeout=ANSWERED_WITHIN) as answer:
            return bool(answer.status == 200)
    except (OSError, ValueError):
        return False


def drop_file(session: str, text: str, folder: str) -> bool:
    """Leave a file for the plugin; it is taken back where nobody takes it in time."""
    inbox = os.path.join(folder, "wakes")
    path = os.path.join(inbox, f"{time.time_ns()}-{uuid4().hex[:8]}.json")
    try:
        os.makedirs(inbox, mode=0o700, exist_ok=True)
        with open(f"{path}.new", "w", encoding="utf-8") as file:
            json.dump({"session": session, "text": text}, file)
        os.rename(f"{path}.new", path)
    except OSError:
        return False
    end = time.monotonic() + TAKEN_WITHIN
    while os.path.exists(path):
        if time.monotonic() > end:
            try:
                os.unlink(path)
                return False
            except FileNotFoundError:  # taken at the last moment
                return True
        time.sleep(0.05)
    return True


def _address(env: Mapping[str, str]) -> tuple[Mapping[str, Any], int]:
    """Return what the gateway's configuration says of wakes, and its port; nothing where they are
    off.
    """
    state = env.get("OPENCLAW_STATE_DIR") or os.path.join(
        env.get("HOME") or os.path.expanduser("~"), ".openclaw"
    )
    try:
        with open(
            env.get("OPENCLAW_CONFIG_PATH") or os.path.join(state, "openclaw.json"),
            encoding="utf-8",
        ) as file:
            values = jsonc.parse(file.read()).value
        hooks, gateway = values.get("hooks") or {}, values.get("gateway") or {}
        port = gateway.get("port")
        declared = port.text if isinstance(port, jsonc.Number) else str(PORT)
        port = int(env.get("OPENCLAW_GATEWAY_PORT") or declared)
        return (hooks if hooks.get("enabled") and isinstance(hooks.get("token"), str) else {}), port
    except (OSError, ValueError, AttributeError, TypeError):
        return {}, PORT
