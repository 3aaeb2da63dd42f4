"""The plugin's programs as the doctor starts them: the hook on a workspace that is thrown away, the
MCP server for the list of its tools.

Nothing is written in the user's own workspace, and no run begins there. Called by `checks`.
"""

from __future__ import annotations

import json
import os
import select
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from orchestrator.plugin.facts import Facts
from orchestrator.plugin.install.change import Target
from synapse import core
from synapse.model.agents import Agent

TIMES = 5
WITHIN = 20.0  # seconds
ENTRIES, WORDS = 24, 300  # more than any client takes at a start
PROTOCOL = "2025-11-25"
_NONSENSE = "SynapseDoctor"


class Trial(NamedTuple):
    """How a program did: the median of its times, what it printed, and what was wrong."""

    milliseconds: float
    answers: tuple[str, ...]
    problem: str = ""


def try_start(target: Target, client_facts: Facts) -> Trial:
    """Return how the hook answers the start of a session, alone, with much to say."""
    with tempfile.TemporaryDirectory(prefix="synapse-doctor-") as folder:
        root = os.path.join(folder, "shared-memory")
        fill_workspace(root)
        command = [
            target.python,
            "-I",
            "-S",
            os.path.join(target.package, "hook.py"),
            target.client,
            "--root",
            root,
        ]
        name = next(
            event
            for event, event_facts in client_facts.events.items()
            if event_facts.name == "start"
        )
        payloads = [payload(client_facts, name, folder, number) for number in range(TIMES)]
        trial = run_hook(command, payloads, target.env, folder)
        if trial.problem:
            return trial
        if not all("synapse-doctor" in answer for answer in trial.answers):
            return trial._replace(
                problem=f"a start was answered without the memory{last_fault(root)}"
            )
        return trial


def try_unknown_event(target: Target, client_facts: Facts) -> Trial:
    """Return how the installed hook answers an event that it knows nothing of: with nothing."""
    trial = run_hook(
        [target.hook],
        [payload(client_facts, _NONSENSE, target.project, 0)] * TIMES,
        target.env,
        target.project,
    )
    if not trial.problem and any(trial.answers):
        return trial._replace(problem="an event that means nothing was answered")
    return trial


def fill_workspace(root: str) -> None:
    """Make a workspace with more entries than a client takes at a start."""
    with core.init(root) as memory:
        memory.register(Agent("lead", role="project-lead"))
        memory.register(Agent("engineer"))
        agent_memory = memory.as_agent("engineer")
        for number in range(ENTRIES):
            text = (
                f"synapse-doctor {number}: "
                + "what was found here is written at some length. " * (WORDS // 10)
            )
            agent_memory.append(text, namespace="blockers/doctor", priority="critical")


def payload(client_facts: Facts, name: str, folder: str, number: int) -> str:
    """Return an event as the client would send it."""
    fields = {
        "event": name,
        "session": f"synapse-doctor-{os.getpid()}-{number}",
        "cwd": folder,
        "source": "startup",
    }
    values: dict[str, Any] = {}
    for field, value in fields.items():
        if field in client_facts.fields:
            *parents, last = client_facts.fields[field].split(".")
            inner = values
            for key in parents:
                inner = inner.setdefault(key, {})
            inner[last] = value
    return json.dumps(values)


def run_hook(
    command: Sequence[str], payloads: Sequence[str], env: Mapping[str, str], folder: str
) -> Trial:
    """Return how a program answers these events, one after another."""
    env = {name: value for name, value in env.items() if not name.startswith("SYNAPSE_")} | {
        "CI": "1"
    }  # no daemon is started for this
    times, answers = [], []
    for text in payloads:
        began = time.perf_counter()
        try:
            done = subprocess.run(
                command,
                input=text.encode(),
                env=env,
                cwd=folder,
                capture_output=True,
                timeout=WITHIN,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return Trial(0.0, (), f"{command[0]} did not run: {error}")
        times.append((time.perf_counter() - began) * 1000)
        if done.returncode:
            return Trial(
                0.0,
                (),
                (
                    f"{command[0]} ended with {done.returncode}:"
                    f" {done.stderr.decode(errors='replace')[-200:]}"
                ),
            )
        answers.append(done.stdout.decode(errors="replace"))
    return Trial(statistics.median(times), tuple(answers))


def last_fault(root: str) -> str:
    """Return the last line of a workspace's log of hooks."""
    try:
        with open(
            os.path.join(root, "runs", ".hooks.log"), encoding="utf-8", errors="replace"
        ) as file:
            return ": " + file.read().strip().splitlines()[-1]
    except (OSError, IndexError):
        return ""


def longest(client_facts: Facts, answers: Sequence[str]) -> int:
    """Return the length of the longest text in answers, as the client counts it."""
    return max(
        (client_facts.length(text) for answer in answers for text in _texts(json.loads(answer))),
        default=0,
    )


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts(item)


# -- the MCP server --------------------------------------------------------------------------------


def list_tools(target: Target) -> list[dict[str, Any]] | str:
    """Return the tools of the installed MCP server, or what went wrong with it."""
    try:
        with _server(target) as process:
            params = {
                "protocolVersion": PROTOCOL,
                "capabilities": {},
                "clientInfo": {"name": "doctor", "version": "1"},
            }
            _call(process, 1, "initialize", params)
            _send(process, {"jsonrpc": "2.0", "method": "notifications/initialized"})
            listed = _call(process, 2, "tools/list", {})
            return list(listed["tools"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        return str(error)


@contextmanager
def _server(target: Target) -> Iterator[subprocess.Popen[bytes]]:
    folder = target.project if os.path.isdir(target.project) else target.home
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            [target.mcp],
            cwd=folder,
            env=dict(target.env),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
        )
        try:
            yield process
        except EOFError:
            errors.seek(0)
            lines = errors.read().decode(errors="replace").strip().splitlines()
            raise ValueError(
                f"the server ended: {lines[-1] if lines else 'it said nothing'}"
            ) from None
        finally:
            process.kill()
            process.communicate()


def _send(process: subprocess.Popen[bytes], message: Mapping[str, Any]) -> None:
    assert process.stdin is not None
    try:
        process.stdin.write(json.dumps(message).encode() + b"\n")
        process.stdin.flush()
    except BrokenPipeError:
        raise EOFError from None


def _call(
    process: subprocess.Popen[bytes], number: int, method: str, params: Mapping[str, Any]
) -> dict[str, Any]:
    _send(process, {"jsonrpc": "2.0", "id": number, "method": method, "params": params})
    assert process.stdout is not None
    end, buffer = time.monotonic() + WITHIN, b""
    while time.monotonic() < end:
        if not select.select([process.stdout], [], [], 0.2)[0]:
            continue
        chunk = os.read(process.stdout.fileno(), 1 << 16)
        if not chunk:
            raise EOFError
        buffer += chunk
        *lines, buffer = buffer.split(b"\n")
        for line in lines:
            answer = json.loads(line)
            if answer.get("id") == number:
                if "error" in answer:
                    raise ValueError(f"{method}: {answer['error'].get('message')}")
                return dict(answer["result"])
    raise ValueError(f"{method} was not answered in {WITHIN:.0f} s")
