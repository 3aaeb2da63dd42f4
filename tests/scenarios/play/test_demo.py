"""The demo tells a story that happened: three processes, what they were told, what they were
refused.
"""

import os
import pty
import queue
import re
import subprocess
import sys
from pathlib import Path

import pytest

import synapse
from scenarios.play import demo

ROOT = Path(__file__).parents[3]
ESCAPE = "\x1b"


def perform(*args, **env):
    clean = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith("SYNAPSE_")
    }
    return subprocess.run(
        [sys.executable, "-m", "scenarios.play.demo", *map(str, args)],
        cwd=ROOT,
        env=clean | env,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("demo") / "team"


@pytest.fixture(scope="module")
def told(home):
    done = perform("--dir", home, SYNAPSE_RUN="run-1", SYNAPSE_AGENT="somebody")
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_the_story_is_told_in_order(told):
    headings = re.findall(r"^(\d)\. ", told, re.MULTILINE)
    assert headings == ["1", "2", "3", "4", "5"]
    ids = re.findall(r"writes (syn-\S+),", told)
    assert len(ids) == 8
    assert ids == sorted(set(ids))


@pytest.mark.parametrize(
    "fact",
    [
        r"eng-backend +writes \S+, critical, in api/endpoints\n +\| BREAKING: ",
        (
            r"eng-frontend +hears of it \d+\.\d ms after the log did; its briefing:\n +\|"
            r" # Shared memory for eng-frontend"
        ),
        r"\(\d+ tokens, of 2000 allowed\)",
        r"eng-frontend +writes \S+, critical, in blockers/webshop",
        r"cto +hears of it \d+\.\d ms after the log did, and decides",
        r"cto +resolves \S+; blockers left: 0",
        r"\| (\S+), disputed by (\S+)\n +\| \2, disputed by \1\n",
        r"cto +writes (\S+), important, in projects/webshop\n.*\n +\(live on this topic now: \1\)",
        (
            r"agent eng-frontend may not write in api/endpoints; it may in\n? +\|?"
            r" +ui/\*, status/frontend"
        ),
        r"verify +12 records in one chain, every file is as it was written",
        r"cto \d+, eng-backend\s+\d+, eng-frontend \d+",
    ],
)
def test_the_story_says(told, fact):
    assert re.search(fact, told)


def test_it_fits_a_screen_and_has_no_colour_in_a_pipe(told, home):
    lines = told.split("\n")
    assert len(lines) <= 60
    assert [line for line in lines if len(line) > 80 and str(home) not in line] == []
    assert ESCAPE not in told


def test_three_processes_took_part(told):
    pids = re.findall(r"pid (\d+)", told)
    assert len(set(pids)) == 3


def test_what_it_leaves_is_what_it_told(told, home):
    assert str(home) in told
    with synapse.open(str(home)) as memory:
        assert memory.verify().ok
        for entry in memory.as_agent("operator").read():
            assert entry.body in (
                home / f"entries/{entry.namespace}/{entry.id}.md"
            ).read_text(encoding="utf-8")
            assert entry.id in told


def test_it_refuses_a_directory_in_use(told, home):
    before = sorted(home.rglob("*.md"))
    done = perform("--dir", home)
    assert done.returncode == 2
    assert "is not empty" in done.stderr
    assert sorted(home.rglob("*.md")) == before


def test_it_fails_loudly_where_nothing_can_happen(tmp_path):
    (tmp_path / "file").write_text("in the way")
    done = perform("--dir", tmp_path / "file" / "team")
    assert done.returncode == 1
    assert "this did not happen" in done.stderr
    assert "Traceback" not in done.stderr


def test_it_can_leave_nothing(tmp_path):
    done = perform("--dir", tmp_path / "team", "--no-keep")
    assert (done.returncode, done.stderr) == (0, "")
    assert list(tmp_path.iterdir()) == []


def test_broken_promises_are_found(tmp_path, capsys):
    """A story in which nothing went as promised, in a workspace whose files were changed."""
    with synapse.init(str(tmp_path)) as memory:
        for agent in demo.TEAM:
            memory.register(agent)
        entry = memory.as_agent(demo.BACKEND).append(
            "BREAKING", "api/endpoints", priority="critical"
        )
    path = tmp_path / f"entries/api/endpoints/{entry.id}.md"
    path.write_text(path.read_text().replace("BREAKING", "nothing to see"))
    reports = queue.Queue()
    for agent in demo.TEAM:
        reports.put(demo.Report(agent.id, pid=os.getpid()))
    for step in ("announced", "told", "blocked", "resolved", "disputed", "ruled"):
        reports.put(demo.Report(step, entry, seen=(entry,)))
    broken = demo.prove(str(tmp_path), demo.Story(reports), demo.Paper(colour=False))
    assert len(broken) >= 6
    assert "the journal and every file are sound" in broken
    assert "DAMAGED" in capsys.readouterr().out


def test_a_failed_agent_breaks_the_story():
    reports = queue.Queue()
    reports.put(demo.Report("failed", text="cto: StoreError: no space left"))
    with pytest.raises(demo.Broken, match="no space left"):
        demo.Story(reports).of("announced")


def test_colour_is_for_terminals_only(tmp_path, capsys):
    controller, terminal = pty.openpty()
    with os.fdopen(terminal, "w") as screen, open(tmp_path / "file", "w") as file:
        assert demo.coloured(screen, {})
        assert not demo.coloured(screen, {"NO_COLOR": "1"})
        assert not demo.coloured(screen, {"TERM": "dumb"})
        assert not demo.coloured(file, {})
    os.close(controller)
    demo.Paper(colour=True).says(demo.LEAD, "rules")
    assert ESCAPE in capsys.readouterr().out
    demo.Paper(colour=False).says(demo.LEAD, "rules")
    assert ESCAPE not in capsys.readouterr().out
