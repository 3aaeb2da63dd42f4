"""The demo happens as it is told: three processes, an answer of the person, a dashboard until
Ctrl-C, and nothing left behind.
"""

import os
import pty
import re
import select
import subprocess
import sys
import time

import httpx2
import pytest

import synapse
from orchestrator import demo as team
from orchestrator.cli.work import demo
from orchestrator.reports.rows import Source, find_runs
from orchestrator.reports.sums import sums
from synapse.errors import StoreError

ROOT = os.path.abspath(os.path.join(os.path.dirname(demo.__file__), "../../.."))
STYLE = re.compile(r"\x1b\[[0-9;]*m")
COMMAND = (sys.executable, "-m", "orchestrator", "demo")


def environment(home, **more):
    """No key and no workspace; an agent's name, which changes nothing."""
    kept = {"PATH": os.environ["PATH"], "PYTHONPATH": ROOT, "SYNAPSE_AGENT": "somebody"}
    return kept | more | {"HOME": str(home), "TMPDIR": str(home), "TERM": "xterm"}


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """What the demo says where nobody is at a terminal, and the workspace that it leaves."""
    home = tmp_path_factory.mktemp("home")
    done = subprocess.run(
        [*COMMAND, "--dir", str(home / "shop")],
        cwd=home,
        env=environment(home),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout, str(home / "shop")


@pytest.mark.parametrize(
    "fact",
    [
        r"1\. .*\n  eng-api +writes \S+, critical, in api/endpoints\n +\| BREAKING: ",
        r"eng-web +was in the middle of a turn, and was told \d+ ms later",
        r"2\. .*\n  eng-web +writes \S+, critical, in blockers/webshop\n",
        r"\(nobody is at a terminal: the demo answers for you\)\n  you +write ",
        r"lead +was shown both, marked as disputed, and rules\n  lead +writes ",
        r"memory +took \d+% of the tokens of the work, and spared 1 call of a tool\n",
        r"journal +\d+ records in one chain, each as it was written",
    ],
)
def test_the_story_says(played, fact):
    assert re.search(fact, played[0])


def test_it_fits_a_screen_of_80_columns_without_colour_in_a_pipe(played):
    text, root = played
    lines = [line for line in text.split("\n") if root not in line]
    assert max(map(len, lines)) <= 80
    assert len(text.splitlines()) <= 64
    assert "\x1b" not in text
    assert len(set(re.findall(r"process (\d+):", text))) == 3


def test_what_it_tells_has_happened(played):
    _, root = played
    with synapse.open(root) as memory:
        source = Source(memory.store, root)
        runs = {run["agent"]: run for run in find_runs(source)}
        total = sums(source, "agent").all
        live = {entry.body: entry for entry in memory.as_agent("operator").read()}
        assert memory.verify().ok
        assert memory.questions() == []
    assert {run["status"] for run in runs.values()} == {"done"}
    assert len({run["holder"].partition("-")[0] for run in runs.values()}) == 3
    assert total.spared == 1
    assert 0 < total.overhead < 0.2  # their work has a real size
    assert live[demo.ANSWER].author == "operator"
    assert not {team.CURSORS, team.NUMBERS, team.QUESTION} & live.keys()
    assert live[team.RULING].author == team.LEAD


class Person:
    """Somebody at a terminal, who reads what is shown and types."""

    def __init__(self, home, *words, **more):
        self.screen, terminal = pty.openpty()
        self.process = subprocess.Popen(
            [*COMMAND, *words],
            cwd=home,
            env=environment(home, **more),
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            start_new_session=True,
            preexec_fn=take_terminal,
        )
        os.close(terminal)
        self.seen = ""

    def read(self, wanted, within=60):
        """Read on until this is shown."""
        until = time.monotonic() + within
        while not (found := re.search(wanted, self.seen)):
            assert time.monotonic() < until, self.seen
            if not select.select([self.screen], [], [], 1)[0]:
                continue
            try:
                shown = os.read(self.screen, 65_536).decode()
            except OSError:  # its process is gone
                assert re.search(wanted, self.seen), self.seen
                continue
            self.seen += STYLE.sub("", shown)
        return found

    def type(self, text):
        os.write(self.screen, text.encode())

    def end(self):
        """Press Ctrl-C; return the exit code."""
        self.type("\x03")
        code = self.process.wait(60)
        os.close(self.screen)
        return code


def take_terminal():
    """Make the terminal at standard input the one that Ctrl-C comes from."""
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def test_a_person_answers_and_looks_at_the_dashboard(tmp_path):
    person = Person(tmp_path)
    person.read(r"Your answer \(Enter: ")
    person.type("Show the street.\n")
    person.read(r"you +write ")
    person.read(r"Show the street\.[^$]*Show the street\.")
    address = person.read(r"(http://\S+)/login\?code=\S+  \(good once\)")[1]
    assert httpx2.get(f"{address}/login").status_code == 200
    assert person.end() == 0
    assert "Traceback" not in person.seen
    with pytest.raises(httpx2.ConnectError):
        httpx2.get(address)
    left = [name for name in os.listdir(tmp_path) if name.startswith("synapse-demo-")]
    assert left == []


def test_ctrl_c_ends_the_team_with_it(tmp_path):
    person = Person(tmp_path)
    pids = [person.read(rf"{agent} +process (\d+)")[1] for agent in team.TASKS]
    person.read(r"Your answer")
    assert person.end() == 130
    assert [pid for pid in pids if os.path.exists(f"/proc/{pid}/cmdline")] == []
    assert "Traceback" not in person.seen
    assert not [name for name in os.listdir(tmp_path) if name.startswith("synapse-")]


def test_without_the_server_it_says_what_to_install(tmp_path):
    (tmp_path / "fastapi.py").write_text("raise ImportError(name='fastapi')")
    person = Person(tmp_path, PYTHONPATH=f"{tmp_path}:{ROOT}")
    person.read("Your answer")
    person.type("\n")
    person.read(r"pip install '\.\[server\]'")
    assert person.process.wait(60) == 0
    os.close(person.screen)


def test_a_folder_that_is_used_is_left_alone(run, tmp_path):
    (tmp_path / "mine").write_text("mine")
    done = run("demo", "--dir", str(tmp_path))
    assert done.code == StoreError.exit_code
    assert "is not empty" in done.err
    assert os.listdir(tmp_path) == ["mine"]


def test_an_agent_that_fails_ends_the_demo():
    words = [sys.executable, "-c", "raise SystemExit('no space left')"]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    process.wait(30)
    with pytest.raises(StoreError, match="eng-web ended with 1: no space left"):
        demo._check({"eng-web": process}, time.monotonic() + 60)
    process.communicate()


def test_an_answer_that_the_memory_does_not_take_is_replaced(tmp_path, capsys):
    with team.workspace(str(tmp_path / "shop")) as memory:
        entry = memory.as_agent(team.WEB).append(
            team.QUESTION, "blockers/webshop", priority="critical", to="operator"
        )
        demo._answer(memory, entry, "x" * (4 << 20), demo.Paper(False))
        bodies = [entry.body for entry in memory.as_agent(team.WEB).read()]
    assert demo.ANSWER in bodies
    assert "not taken: " in capsys.readouterr().out
