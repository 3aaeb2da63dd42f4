"""A supervisor killed at any moment: every run ends once, nothing that was acknowledged is lost or written twice."""

import random
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import synapse

SCRIPT = Path(__file__).with_name("supervised.py")
ENGINEERS = ("eng-a", "eng-b", "eng-c")


def workspace(root):
    with synapse.init(str(root)) as memory:
        memory.register(synapse.Agent("lead", role="project-lead"))
        for name in ENGINEERS:
            memory.register(synapse.Agent(name))
    return root


def live(root, log, after):
    """A life of a supervisor; killed so many seconds after it began, unless it came to its end. How it ended."""
    command = [sys.executable, str(SCRIPT), str(root), str(log)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as life:
        began = life.stdout.readline()
        try:
            out, err = life.communicate(timeout=after)
        except subprocess.TimeoutExpired:
            life.send_signal(signal.SIGKILL)
            life.communicate()
            return None
    assert life.returncode == 0, began + err
    return out.strip()


def story(root, log, seed, lives):
    """One team's work, through as many deaths as come before its end; the deaths."""
    rng = random.Random(seed)
    workspace(root)
    deaths = 0
    for _ in range(lives):
        if live(root, log, rng.uniform(0.0, 0.7)) is not None:
            return deaths
        deaths += 1
    assert live(root, log, 60) is not None, "it never came to its end"
    return deaths


def findings(root, log):
    """All that is wrong with what the supervisors left."""
    with synapse.open(str(root)) as memory:
        memory.store.fresh()
        runs = memory.store.index.query.runs()
        ended = Counter(
            record.fields["run"]
            for record in memory.store.log.since(0)
            if record.kind == "run" and record.fields["state"] == "ended"
        )
        bodies = Counter(entry.body for entry in memory.as_agent("operator").read(namespace="status/web"))
        wrong = [f"{run['run']} is {run['state']}" for run in runs if run["state"] != "ended"]
        wrong += [f"{run['run']} ended {ended[run['run']]} times" for run in runs if ended[run["run"]] != 1]
        wrong += [f"{agent} ran {n} times" for agent, n in Counter(run["agent"] for run in runs).items() if n != 1]
        wrong += [f"{len(runs)} runs"] if len(runs) != 4 else []
        expected = [f"{name} step {turn}" for name in ENGINEERS for turn in range(3)]
        wrong += [f"{body!r} was written {bodies[body]} times" for body in expected if bodies[body] != 1]
        done = Counter(body.split(" (")[0] for body in bodies.elements() if body.startswith("Done:"))
        wrong += [f"{body!r} was written {n} times" for body, n in done.items() if n != 1]
        wrong += [f"only {len(done)} results"] if len(done) != 4 else []
        if not memory.verify().ok:
            wrong.append("the journal does not verify")
    keys = Counter(log.read_text().split()) if log.exists() else Counter()
    wrong += [f"the user's tool was called {n} times with {key}" for key, n in keys.items() if n != 1]
    return wrong


def test_a_team_survives_its_supervisors(tmp_path):
    deaths = story(tmp_path / "ws", tmp_path / "log", 1, 6)
    assert findings(tmp_path / "ws", tmp_path / "log") == []
    assert deaths


@pytest.mark.soak
def test_a_team_survives_two_hundred_deaths(tmp_path):
    deaths, n = 0, 0
    while deaths < 200:
        deaths += story(tmp_path / f"ws{n}", tmp_path / f"log{n}", n, 3)
        assert findings(tmp_path / f"ws{n}", tmp_path / f"log{n}") == [], n
        n += 1
    print(f"{deaths} deaths of {n} teams: every run ended once, nothing lost, nothing twice")
