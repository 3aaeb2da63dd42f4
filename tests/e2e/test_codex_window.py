"""The windows of Codex: hooks wait for their user's consent, and what wakes a session that waits
for its user.
"""

import fcntl
import json
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import termios
import time

import pytest

from orchestrator.engines.scripted import Move
from orchestrator.plugin.install.clients import codex as install_codex
from orchestrator.plugin.wakes import codex as wakes_codex

pytestmark = pytest.mark.soak

MODEL = "gpt-5"
NOTE = "The login endpoint is /v2/login."


# Of what a terminal is sent: a character, or a command's numbers and its kind; titles and the like
# are neither.
PIECES = re.compile(
    r"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|([^\x1b])|\x1b\[([0-9;?<>=]*)[ -/]*([@-~])|\x1b[^\[\]]"
)


class Window:
    """An interactive session in a terminal of its own, which answers what Codex asks a terminal."""

    ANSWERS = ((b"\x1b[6n", b"\x1b[1;1R"), (b"\x1b[c", b"\x1b[?62;c"), (b"\x1b[?u", b"\x1b[?0u"))

    def __init__(self, codex, *words):
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.chdir(codex.work)
            os.execvpe("codex", ["codex", "--model", MODEL, *words], codex.env)
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        self.output = b""

    def until(self, seen, seconds=30):
        """Whether this comes true of what stands in the window, without its spaces, or
        elsewhere.
        """
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if seen(self.text()):
                return True
            self._read()
        return False

    def text(self):
        """What stands in the window: Codex draws only what has changed."""
        rows, row, column = {}, 1, 1
        for text, numbers, kind in PIECES.findall(self.output.decode("utf-8", "replace")):
            values = (
                [int(number or 1) for number in numbers.split(";")]
                if numbers.strip("0123456789;") == ""
                else [1]
            )
            if text == "\r" or text == "\n":
                row, column = (row, 1) if text == "\r" else (row + 1, column)
            elif text:
                rows[row, column] = text
                column += 1
            elif not kind:
                continue
            elif kind in "Hf":
                row, column = values[0], (values[1:] or [1])[0]
            elif kind == "G":
                column = values[0]
            elif kind == "C":
                column += values[0]
            elif kind in "JK":
                rows = {
                    at: rows[at]
                    for at in rows
                    if at < (row, column) or (kind == "K" and at[0] > row)
                }
        return "".join(rows[at] for at in sorted(rows) if rows[at].strip())

    def _read(self):
        if not select.select([self.terminal], [], [], 0.1)[0]:
            return
        try:
            part = os.read(self.terminal, 1 << 16)
        except OSError:  # it has ended
            part = b""
        if not part:
            time.sleep(0.1)
        self.output += part
        for asked, answer in self.ANSWERS:
            if asked in part:
                os.write(self.terminal, answer)

    def type(self, text):
        os.write(self.terminal, text.encode())
        self.until(lambda _: False, 1)
        os.write(self.terminal, b"\r")

    def close(self):
        """End it as its user does, else by force."""
        self.type("/quit")
        if not self.until(lambda _: os.waitpid(self.pid, os.WNOHANG)[0] == self.pid, 10):
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.terminal)


@pytest.fixture
def server(codex_project):
    """Makes a project whose windows share Codex's background server; the server is stopped at the
    end.
    """
    made = []

    def make(script):
        made.append(codex_project(script))
        return made[0]

    yield make
    for codex in made:
        codex.run("codex", "app-server", "daemon", "stop", check=False)
        folder = codex.codex_home / "app-server-daemon"
        for path in folder.glob("*.pid"):
            try:
                os.kill(json.loads(path.read_text())["pid"], signal.SIGTERM)
            except (OSError, ValueError, KeyError):
                pass
        # a copy of the program
        shutil.rmtree(codex.codex_home / "packages", ignore_errors=True)


def verdicts(codex):
    return {finding.check: finding.verdict for finding in install_codex.examine(codex.target())}


def heard(codex, text):
    return lambda _: any(text in json.dumps(body["input"]) for body in codex.requests)


def test_a_window_asks_for_consent_and_is_woken_while_it_is_open(server):
    codex = server(lambda seen: f"Said after {seen.turn}.")
    codex.write("decisions/login", NOTE, priority="important")
    assert verdicts(codex) == {"hooks trusted": "fail", "shells": "ok"}
    window = Window(codex)
    assert window.until(lambda text: "Hooksneedreview" in text)
    while "Hooksneedreview" in window.text():
        window.until(lambda _: False, 2)  # what is typed too early is lost
        window.type("2")  # trust all
        window.until(lambda text: "Hooksneedreview" not in text, 5)
    window.until(lambda _: verdicts(codex)["hooks trusted"] == "ok")
    assert verdicts(codex) == {"hooks trusted": "ok", "shells": "ok"}
    window.type("hello there")
    assert window.until(lambda text: "Saidafter0" in text)
    asked = [
        json.dumps(body["input"])
        for body in codex.requests
        if "hello there" in json.dumps(body["input"])
    ]
    # another request asks for a title of the session
    assert any(NOTE in text for text in asked)
    session, pid = codex.lead()
    assert wakes_codex.wake(session, "WAKE: read this", str(codex.work), codex.env, pid)
    assert window.until(heard(codex, "WAKE: read this"))
    window.until(lambda text: "Saidafter1" in text)
    window.close()
    assert not wakes_codex.wake(session, "WAKE: nobody is here", str(codex.work), codex.env, pid)
    assert not heard(codex, "nobody is here")("")


def test_a_window_with_a_server_of_its_own_is_woken(codex_project):
    codex = codex_project(lambda seen: f"Said after {seen.turn}.")
    window = Window(codex, "--no-daemon", "--dangerously-bypass-hook-trust")
    window.until(lambda _: False, 3)
    window.type("hello there")
    assert window.until(lambda text: "Saidafter0" in text)
    session, pid = codex.lead()
    assert wakes_codex.wake(session, "WAKE: read this", str(codex.work), codex.env, pid)
    assert window.until(heard(codex, "WAKE: read this"))
    window.close()
    assert not wakes_codex.wake(session, "WAKE: nobody is here", str(codex.work), codex.env, pid)


def until(seen, seconds=30):
    end = time.monotonic() + seconds
    while not seen():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.fixture
def up():
    """Starts the daemon of a project's workspace; it is stopped at the end."""
    daemons = []

    def start(codex):
        words = ["orchestrator", "up", "--engine", "scripted"]
        daemons.append(
            subprocess.Popen(words, cwd=codex.work, env=codex.env, stdin=-3, stdout=-3, stderr=-3)
        )
        files = codex.home / ".local/state/synapse/daemons"
        return lambda: any(files.glob("*.sock"))

    yield start
    for daemon in daemons:
        daemon.terminate()
        daemon.wait(20)


@pytest.mark.parametrize("starter", ["a person", "a hook"])
def test_a_critical_wakes_a_window_that_waits_for_its_user(codex_project, up, starter):
    codex = codex_project(lambda seen: f"Said after {seen.turn}.")
    if starter == "a person":
        is_up = up(codex)
        until(is_up)
    else:
        del codex.env["CI"]
    window = Window(codex, "--no-daemon", "--dangerously-bypass-hook-trust")
    window.until(lambda _: False, 3)
    window.type("hello there")
    assert window.until(lambda text: "Saidafter0" in text)
    window.until(lambda _: False, 3)  # another request asks for a title of the session
    asked = len(codex.requests)
    codex.write("decisions/login", NOTE)
    # who waits costs nothing
    assert not window.until(lambda _: len(codex.requests) > asked, 5)
    codex.write("decisions/login", "STOP using /v1: it is gone.", priority="critical")
    assert window.until(heard(codex, "STOP using /v1"), 60)
    scope = json.loads(codex.run("orchestrator", "status", "--json").stdout)["scope"]
    assert scope == ("workspace" if starter == "a person" else "sessions")
    window.close()
    codex.run("orchestrator", "down")


def test_a_one_shot_session_is_not_woken(codex_project):
    woken = []

    def script(seen):
        if seen.turn == 1:
            session, pid = codex.lead()
            woken.append(wakes_codex.wake(session, "WAKE", str(codex.work), codex.env, pid))
        return Move("", (("exec_command", {"cmd": "true"}),)) if seen.turn < 2 else "Done."

    codex = codex_project(script)
    codex.codex(MODEL)
    assert woken == [False]
    assert not heard(codex, "WAKE")("")
