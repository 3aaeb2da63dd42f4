"""Verbs that print tables, at a terminal of 80 columns: no escape is spelled out, no line is
longer.
"""

import os
import pty
import re
import struct
import sys
from contextlib import suppress

import pytest

import synapse
from orchestrator.cli.frame.grid import grid
from orchestrator.cli.inspect.runs import HEADERS, NUMBERS

STYLE = re.compile(r"\x1b\[[0-9;]*m|\x1b\[[0-9]*[JK]|\r")
LONG = "a text that is longer than any terminal is wide, " * 3
VERBS = {
    "orchestrator": (
        "schedule", "ps --all", "tree", "tail run-a", "stats", "stats --by agent", "wakes", "unread", "inbox",
    ),
    "synapse": (
        "agents", "stats", "reputation", "audit", "log", "recent", "what-did eng-a", "read", "search text", "doctor",
        "defrag --plan",
    ),
}  # fmt: skip


def shown_at_a_terminal(program, *words):
    """Return what a command prints at a terminal of 80 columns."""
    import fcntl
    import termios

    child, terminal = pty.fork()
    if child == 0:
        os.environ.pop("COLUMNS", None)
        os.environ["TERM"] = "xterm-256color"
        fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        os.execv(sys.executable, [sys.executable, "-m", program, *words])
    data = b""
    with suppress(OSError):  # the end of a terminal whose last process is gone
        while block := os.read(terminal, 65_536):
            data += block
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, data
    return data.decode()


def problems(shown):
    """Return what is wrong with an output for a terminal of 80 columns."""
    lines = STYLE.sub("", shown).splitlines()
    wide = [f"{len(line)} columns: {line}" for line in lines if len(line) > 80]
    return wide + [f"an escape is spelled out: {line}" for line in lines if "\\x1b" in line]


def test_the_check_sees_what_is_wrong():
    assert problems("\x1b[1mdate\x1b[0m  job\n") == []
    assert len(problems("\\x1b[1mdate\n" + "x" * 81)) == 2


@pytest.fixture
def workspace(office, run):
    memory = office.memory
    office.begin("run-a", agent="eng-a", task=LONG)
    office.prompt("run-a")
    office.turn("run-a", 1, LONG)
    office.end("run-a", summary=LONG)
    memory.register(synapse.Agent("eng-c", read=("*",), write=("*",)))
    me = memory.as_agent("eng-c")
    me.append(LONG, "blockers/web", priority="critical")
    me.append(LONG, "projects/web", to="operator")
    assert run("schedule", "--run").code == 0
    return memory.store.root


@pytest.mark.parametrize(
    ("program", "line"), [(program, line) for program in VERBS for line in VERBS[program]]
)
def test_a_table_fits_a_terminal(program, line, workspace):
    shown = shown_at_a_terminal(program, *line.split())
    assert shown.strip()
    assert problems(shown) == []


def test_the_record_of_a_night_is_no_python(workspace, run):
    line = run("schedule").out.splitlines()[2]
    assert "entries 2" in line
    assert "namespaces 2" in line
    assert "[" not in line


@pytest.mark.parametrize("time", ["0.3 s", "12.4 s", "1 min 20 s", "12 h 40 min"])
def test_a_table_of_long_figures_fits_a_terminal(time, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    figures = ["12", "1,234,567", "$0.0012", time]
    shown = grid(HEADERS, [["run-2026-02-01-0001", "running", *figures, LONG]], NUMBERS)
    assert problems(shown) == []
    assert all(figure in shown for figure in figures)
