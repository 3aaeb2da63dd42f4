"""The live demo: its team does what it is shown for, and it ends without a trace."""

import os
import re
import signal
import subprocess
import sys

import httpx2
import pytest

import synapse
from orchestrator.cli import main as orchestrator
from orchestrator.reports.lanes import lanes
from orchestrator.reports.rows import Source, find_runs, run_rows
from orchestrator.server.drawing import draw

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(__file__))))


def start(tmp_path, *words, **more):
    line = [sys.executable, "-u", "-m", "scenarios.play.live_demo", "--port", "0"]
    kept = {name: os.environ[name] for name in ("PATH",)}
    env = kept | more | {"HOME": str(tmp_path / "home"), "TMPDIR": str(tmp_path)}
    return subprocess.Popen(
        [*line, *words], cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True
    )


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """The workspace in which the team has worked, a hundred times as fast."""
    tmp_path = tmp_path_factory.mktemp("demo")
    home = str(tmp_path / "shop")
    browser = tmp_path / "browser"  # which notes what it is to show
    browser.write_text(f'echo "$1" > {tmp_path}/opened')
    words = ("--dir", home, "--pace", "0.01", "--no-stay")
    process = start(tmp_path, *words, BROWSER=f"sh {browser} %s")
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 0, out
    assert "your browser shows it" in out
    address = re.search(r" at (http://\S+)", out)[1]
    opened = (tmp_path / "opened").read_text()
    assert opened.startswith(f"{address}/login?code=")
    return home


def test_the_team_does_what_it_is_shown_for(played):
    with synapse.open(played) as memory, memory.store.snapshot() as snap:
        runs = {run["agent"]: run for run in snap.runs()}
    assert {name: run["status"] for name, run in runs.items()} == {
        "lead": "done",
        "eng-api": "done",
        "eng-web": "done",
        "qa": "done",
        "writer": "blocked",
    }
    assert all(run["cost"] > 0 for run in runs.values())
    assert runs["eng-web"]["parent"] == runs["lead"]["run"]


def test_its_lanes_have_the_times_of_their_steps(played):
    with synapse.open(played) as memory:
        source = Source(memory.store, played)
        rows = run_rows(source, find_runs(source))
        drawn = draw(lanes(source, rows))
    assert len(drawn.lanes) == 5
    assert all(one.timed for one in drawn.lanes)
    for one in drawn.lanes:
        assert all(one.x <= box.x <= one.x + one.width for box in one.boxes)


def test_a_question_waits_for_a_person(played, capsys):
    assert orchestrator(["--root", played, "questions"]) == 0
    assert "e-mail address" in capsys.readouterr().out


def test_ctrl_c_ends_it_and_leaves_nothing(tmp_path):
    process = start(tmp_path)
    address = re.search(r" at (http://\S+)", process.stdout.readline())[1]
    assert re.search(r"/login\?code=\S+  \(good once\)", process.stdout.readline())
    assert httpx2.get(f"{address}/login").status_code == 200
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "Traceback" not in out
    with pytest.raises(httpx2.ConnectError):
        httpx2.get(address)
    left = [name for name in os.listdir(tmp_path) if name.startswith("synapse-demo-")]
    assert left == []


def test_a_folder_that_is_used_is_left_alone(tmp_path):
    (tmp_path / "mine").write_text("mine")
    process = start(tmp_path, "--dir", str(tmp_path))
    process.communicate(timeout=60)
    assert process.returncode == 2
    assert (tmp_path / "mine").read_text() == "mine"
