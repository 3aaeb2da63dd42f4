"""The wake of a session of Codex that waits for its user: the text starts a turn of it. Called by
the daemon.

A session at work needs no wake: its hooks give it the news at its next call, and at its end. Codex
queues the text (`codex queue`); whoever holds the session takes it at once, the window or the
background server.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping

from orchestrator.plugin.wakes.client_process import command_line

WITHIN = 30.0  # seconds for the text to be queued
SERVER = "--managed-daemon"  # what the background server is started with
SOCKET = os.path.join("app-server-control", "app-server-control.sock")
CONNECTED = "03"  # the state of a connection in /proc/net/unix


def wake(
    session: str, text: str, folder: str, env: Mapping[str, str], pid: int | None = None
) -> bool:
    """Return whether a session that waits was given the text.

    `env` is the environment that Codex runs in (PATH, HOME, CODEX_HOME); `pid` the process that ran
    the session's hooks. No session is woken that nobody would see: a one-shot `codex exec`, which
    is at work or over, or one whose window was closed while the background server holds it.
    """
    if not session or not text.strip() or not _is_watched(pid, env):
        return False
    program = shutil.which("codex", path=env.get("PATH"))
    if program is None:
        return False
    try:
        done = subprocess.run(
            [program, "queue", f"--thread={session}", f"--message={text}"],
            cwd=folder if os.path.isdir(folder) else None,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=WITHIN,
            check=False,
        )
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def _is_watched(pid: int | None, env: Mapping[str, str]) -> bool:
    """Tell whether somebody would see the session's next turn; where that cannot be known, yes."""
    if pid is None:
        return True
    command = command_line(pid)
    if command is None:
        return not os.path.isdir("/proc/self")
    if SERVER in command:
        return _has_windows(env)
    return not any(argument in ("exec", "e", "review") for argument in command[1:])


def _has_windows(env: Mapping[str, str]) -> bool:
    """Tell whether a window is connected to the background server."""
    home = env.get("CODEX_HOME") or os.path.join(env.get("HOME", ""), ".codex")
    path = os.path.realpath(os.path.join(home, SOCKET))
    try:
        with open("/proc/net/unix", encoding="utf-8", errors="replace") as file:
            rows = [line.split() for line in file]
    except OSError:
        return True
    return any(len(row) > 7 and row[5] == CONNECTED and row[7] == path for row in rows)
