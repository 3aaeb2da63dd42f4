"""Processes of their own: whatever is measured between processes, or in a fresh one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
READY = "ready"
PATIENCE = 300.0


def start(
    *role: str, python: str = sys.executable, module: str = "bench.worker"
) -> subprocess.Popen[str]:
    command = [python, "-m", module, *role]
    return subprocess.Popen(
        command,
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment(),
    )


def environment() -> dict[str, str]:
    """No variable of the caller's decides which workspace or agent a child has, or keeps it from
    its bytecode. The person's folder is the same: it says which lines are known.
    """
    not_theirs = ("SYNAPSE_", "PYTHONDONTWRITEBYTECODE")
    return {
        name: value
        for name, value in os.environ.items()
        if name == "SYNAPSE_HOME" or not name.startswith(not_theirs)
    }


def await_ready(child: subprocess.Popen[str]) -> None:
    assert child.stdout is not None
    if child.stdout.readline().strip() != READY:
        raise RuntimeError(f"a child of the bench did not start: {child.args!r}")


def tell(child: subprocess.Popen[str], line: str) -> None:
    assert child.stdin is not None
    child.stdin.write(f"{line}\n")
    child.stdin.flush()


def answer(child: subprocess.Popen[str]) -> Any:
    """What a child found out; it prints it as its last line."""
    try:
        out, _ = child.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        child.kill()
        raise
    if child.returncode:
        raise RuntimeError(f"a child of the bench failed: {child.args!r}")
    return json.loads(out.splitlines()[-1])


def told(*role: str, python: str = sys.executable, module: str = "bench.worker") -> Any:
    return answer(start(*role, python=python, module=module))
