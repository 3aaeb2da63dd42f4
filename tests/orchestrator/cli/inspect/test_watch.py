"""`ps --watch`: what each session and run does and last said, at a terminal and without one."""

import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import threading
from contextlib import suppress

import pytest

from orchestrator.plugin.hooks.answer import answer

LONG = "and then the next one, " * 30
STYLE = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]|\r")


@pytest.fixture
def hook(office):
    """An event of a session of Claude Code."""

    def hook(name, session="s1", **fields):
        payload = {"hook_event_name": name, "session_id": session, **fields}
        payload["cwd"] = os.path.dirname(office.memory.store.root)
        answer(office.memory, "claude-code", payload, os.getpid())

    hook("SessionStart", source="startup")
    return hook


class Watching:
    """A process that watches, and the lines that it printed so far."""

    def __init__(self, *words):
        command = [sys.executable, "-m", "orchestrator", "ps", "--watch", *words]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.lines = []
        self.grown = threading.Condition()
        self.reader = threading.Thread(target=self._read)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            with self.grown:
                self.lines.append(line.rstrip("\n"))
                self.grown.notify_all()

    def until(self, *ends):
        """Wait until a line ends with each of these; return all lines so far."""
        with self.grown:
            assert self.grown.wait_for(
                lambda: all(any(line.endswith(end) for line in self.lines) for end in ends), 60
            ), self.lines
            return list(self.lines)

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(30)
        self.reader.join(10)
        self.process.stdout.close()
        return code


def test_without_a_terminal_it_says_what_is_new(office, hook):
    hook("UserPromptSubmit", prompt=f"Fix the parser {LONG}")
    office.begin("eng-a-1", task="Draw the page")
    office.turn("eng-a-1", 1, "I look first.", [("c1", "read", {"path": "page.py"})])
    watching = Watching()
    try:
        watching.until("claude-code  at work", "said   I look first.")
        fields = {"tool_name": "Edit", "tool_input": {"file_path": "parser.py"}}
        hook("PreToolUse", tool_use_id="1", **fields)
        watching.until("does   Edit parser.py")
        hook("Stop", last_assistant_message="It parses now.")
        watching.until("claude-code  waits for its user", "said   It parses now.")
        office.end("eng-a-1")
        lines = watching.until("eng-a-1  over")
    finally:
        assert watching.end() == 0
    assert "eng-a-1  scripted  at work" in lines
    assert "eng-a-1  asked  Draw the page" in lines
    assert "eng-a-1  does   read(path='page.py')" in lines
    assert max(map(len, lines)) == 80, "what is long is cut, and nothing else"
    assert len(set(lines)) == len(lines), "nothing is said twice"


def test_as_json(office):
    office.begin("eng-a-1", task="Draw the page")
    watching = Watching("--json")
    try:
        (line,) = watching.until("}")
    finally:
        assert watching.end() == 0
    assert json.loads(line) == {
        "run": "eng-a-1",
        "engine": "scripted",
        "state": "at work",
        "asked": "Draw the page",
        "does": "",
        "said": "",
    }


def test_at_a_terminal_it_stays_in_one_place(office, hook):
    hook("UserPromptSubmit", prompt=f"Fix the parser {LONG}")
    for number in range(12):
        office.begin(f"eng-a-{number}", task=f"Task {number}")
    child, terminal = pty.fork()
    if child == 0:
        os.environ.pop("COLUMNS", None)
        os.environ["TERM"] = "xterm-256color"
        fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        words = [sys.executable, "-m", "orchestrator", "ps", "--watch"]
        os.execv(sys.executable, words)
    data = b""
    while data.count(b"Task 11") < 2:  # drawn, and drawn again over it
        data += os.read(terminal, 65_536)
    os.kill(child, signal.SIGTERM)
    with suppress(OSError):
        while os.read(terminal, 65_536):
            pass
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    first, second, *_ = data.decode().split("Task 11")
    assert "\x1b[1A" in second, "the second is drawn over the first"
    lines = STYLE.sub("", first).splitlines()
    assert max(map(len, lines)) <= 80
    assert len(lines) <= 24
    assert "Task 0" not in first, "of too many, those that began last"


def test_nobody_is_there(office):
    watching = Watching()
    try:
        (line,) = watching.until("what ran")
    finally:
        assert watching.end() == 0
    assert line.startswith("nothing runs")
