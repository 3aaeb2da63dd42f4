"""What a client's hook costs: the CPU time of the whole process up to its answer, alone and with
the daemon, beside that of an empty Python; our own work in it; and the MCP server until it has said
which tools there are.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from typing import Any

import orchestrator.plugin
from bench.figures import Beside, Goal, Row, Timing
from bench.ground import Ground
from orchestrator.plugin.hook import daemon_file
from orchestrator.plugin.hooks.answer import answer

PROGRAMS = os.path.dirname(orchestrator.plugin.__file__)
HOOK, MCP = (os.path.join(PROGRAMS, name) for name in ("hook.py", "mcp.py"))
CLIENT = "claude-code"
ROUNDS = 20
PATIENCE = 30.0
OWN = (Goal("p95", 15e-3),)
DAEMON = (Goal("p50", 40e-3),)
ALONE = (Goal("p95", 90e-3),)
OPENED = (Goal("p50", 300e-3),)
RENDERS = ("SessionStart", "UserPromptSubmit")  # events that are answered with a text
# while this is set, no hook starts a daemon
NO_DAEMON = {"CI": "1"}
ABOUT = {"protocolVersion": "2025-11-25", "capabilities": {}}
ABOUT["clientInfo"] = {"name": "bench", "version": "1"}
OPENING = b"".join(
    json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"
    for message in (
        {"id": 1, "method": "initialize", "params": ABOUT},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/list"},
    )
)


def hooks(ground: Ground) -> Iterator[Row]:
    """The events of a session's turn, some of each: a start, a prompt, a read, a command before and
    after, a stop.
    """
    folder = os.path.dirname(ground.root)
    with ground.open(frozen=False) as mem:
        own = Timing(
            _timed(lambda event=event: answer(mem, CLIENT, event, os.getpid()))
            for event in _turn(folder, "own")
        )
        yield Row(
            "hook: our own work",
            ground.size,
            own.values("p95"),
            None,
            OWN,
            "in a process that has the memory open",
        )
    ground.close()
    bare = Timing(_cpu([sys.executable, "-c", "pass"], b"") for _ in range(ROUNDS))
    beside = Beside("an empty Python", bare.p50)
    for name, of in _alone(ground, folder).items():
        yield Row(f"hook alone: {name}", ground.size, of.values("p95"), beside, ALONE)
    asked = Timing(_hooked(ground, event) for event in _with_daemon(ground, folder))
    what = "hook that asks the daemon"
    yield Row(what, ground.size, asked.values("p95"), beside, DAEMON)
    server = [sys.executable, "-P", MCP, CLIENT, "--root", ground.root]
    opened = Timing(_cpu(server, OPENING) for _ in range(ROUNDS))
    what = "MCP server until its tools are listed"
    yield Row(what, ground.size, opened.values("p95"), beside, OPENED)


def _alone(ground: Ground, folder: str) -> dict[str, Timing]:
    """Return what hooks take that no daemon answers, those that render and the others."""
    took: dict[bool, list[float]] = {True: [], False: []}
    for event in _turn(folder, "alone"):
        took[event["hook_event_name"] in RENDERS].append(_hooked(ground, event))
    return {"a call, a stop": Timing(took[False]), "a start, a prompt": Timing(took[True])}


def _with_daemon(ground: Ground, folder: str) -> Iterator[dict[str, Any]]:
    """Yield the events of a session while a daemon is up."""
    words = [sys.executable, "-m", "orchestrator", "--root", ground.root, "up"]
    words += ["--engine", "scripted"]
    up = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _await(daemon_file(ground.root, "sock"))
        yield from _turn(folder, "daemon")
    finally:
        up.terminate()
        up.wait(PATIENCE)


def _turn(folder: str, session: str) -> Iterator[dict[str, Any]]:
    """Yield the events of a session of many turns."""
    common = {"session_id": session, "cwd": folder}
    call: dict[str, Any]
    for n in range(ROUNDS):
        yield common | {"hook_event_name": "SessionStart", "source": "startup"}
        yield common | {
            "hook_event_name": "UserPromptSubmit",
            "prompt": f"Check page {n} at every width",
        }
        for tool, arguments in (
            ("Read", {"file_path": f"{folder}/page{n}.py"}),
            ("Bash", {"command": "make test"}),
        ):
            call = {"tool_name": tool, "tool_input": arguments, "tool_use_id": f"{tool}-{n}"}
            yield common | {"hook_event_name": "PreToolUse", **call}
            yield common | {"hook_event_name": "PostToolUse", **call, "tool_response": "as it was"}
        yield common | {
            "hook_event_name": "Stop",
            "last_assistant_message": f"Page {n} is checked.",
        }


def _hooked(ground: Ground, event: Mapping[str, Any]) -> float:
    words = [sys.executable, "-I", "-S", HOOK, CLIENT, "--root", ground.root]
    return _cpu(words, json.dumps(event).encode())


def _cpu(words: list[str], text: bytes) -> float:
    """Return the seconds of CPU that a process takes, its system's with them."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    env = os.environ | NO_DAEMON
    subprocess.run(words, input=text, stdout=subprocess.DEVNULL, env=env, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _timed(act: Any) -> float:
    start = time.perf_counter()
    act()
    return time.perf_counter() - start


def _await(path: str) -> None:
    end = time.monotonic() + PATIENCE
    while not os.path.exists(path) and time.monotonic() < end:
        time.sleep(0.05)
