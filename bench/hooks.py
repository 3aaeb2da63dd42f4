"""A client's hook: the whole process up to its answer, alone and with the daemon, and our own work
in it.
"""

from __future__ import annotations

import json
import os
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

HOOK = os.path.join(os.path.dirname(orchestrator.plugin.__file__), "hook.py")
CLIENT = "claude-code"
ROUNDS = 40
PATIENCE = 30.0
OWN = (Goal("p95", 15e-3),)
DAEMON = (Goal("p95", 60e-3),)
ALONE = (Goal("p95", 120e-3),)


def hooks(ground: Ground) -> Iterator[Row]:
    """The events of a session's turn, some of each: a start, a prompt, a read, a command before and
    after, a stop.
    """
    folder = os.path.dirname(ground.root)
    with ground.open(frozen=False) as mem:
        own = Timing(
            _timed(lambda event=event: answer(mem, CLIENT, event, os.getpid()))
            for event in _turn(folder, "own")
        )  # type: ignore[misc]
        yield Row(
            "hook: our own work",
            ground.size,
            own.values("p95"),
            None,
            OWN,
            "in a process that has the memory open",
        )
    ground.close()
    bare = Timing(
        _timed(lambda: _run([sys.executable, "-I", "-S", "-c", ""], b""))
        for _ in range(ROUNDS)
    )
    beside = Beside("an empty Python", bare.p50)
    alone = Timing(_hooked(ground, event) for event in _turn(folder, "alone"))
    yield Row("hook: a process alone", ground.size, alone.values("p95"), beside, ALONE)
    words = [
        sys.executable,
        "-m",
        "orchestrator",
        "--root",
        ground.root,
        "up",
        "--engine",
        "scripted",
    ]
    up = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _await(daemon_file(ground.root, "sock"))
        asked = Timing(_hooked(ground, event) for event in _turn(folder, "daemon"))
        yield Row(
            "hook: a process that asks the daemon",
            ground.size,
            asked.values("p95"),
            beside,
            DAEMON,
        )
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
            call = {
                "tool_name": tool,
                "tool_input": arguments,
                "tool_use_id": f"{tool}-{n}",
            }
            yield common | {"hook_event_name": "PreToolUse", **call}
            yield common | {
                "hook_event_name": "PostToolUse",
                **call,
                "tool_response": "as it was",
            }
        yield common | {
            "hook_event_name": "Stop",
            "last_assistant_message": f"Page {n} is checked.",
        }


def _hooked(ground: Ground, event: Mapping[str, Any]) -> float:
    words = [sys.executable, "-I", "-S", HOOK, CLIENT, "--root", ground.root]
    return _timed(lambda: _run(words, json.dumps(event).encode()))


def _run(words: list[str], text: bytes) -> None:
    subprocess.run(words, input=text, stdout=subprocess.DEVNULL, check=True)


def _timed(act: Any) -> float:
    start = time.perf_counter()
    act()
    return time.perf_counter() - start


def _await(path: str) -> None:
    end = time.monotonic() + PATIENCE
    while not os.path.exists(path) and time.monotonic() < end:
        time.sleep(0.05)
