"""Machines that share a database: each is a process with a folder of its own. Runs end once, by the
machine that has them, or by another one where that is gone; what was paid is paid once.
"""

import itertools
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import psycopg
import pytest

import synapse

SCRIPT = Path(__file__).with_name("machine.py")
NAMES = itertools.count()


class Machines:
    """Machines of one workspace, and the counts of what they paid for."""

    def __init__(self, path, server, runs, turns, seconds, lease):
        self.path, self.runs, self.turns = path, runs, turns
        name = f"m{os.getpid()}_{next(NAMES)}"
        self.url = server.url(name)
        self.counted = f"{server.url()}?options=-csearch_path%3D{name}_counts"
        server.run(f"create schema {name}_counts")
        self.counts = psycopg.connect(self.counted, autocommit=True)
        self.counts.execute("create table effect (job text, n int, machine text)")
        self.about = [self.counted, *map(str, (runs, turns, seconds, lease))]
        self.processes = []

    def start(self, mode, machine=None):
        root = self.path / f"machine-{len(self.processes) if machine is None else machine}"
        process = subprocess.Popen(
            [sys.executable, SCRIPT, mode, root, self.url, *self.about],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            cwd=SCRIPT.parents[2],
        )  # fmt: skip
        self.processes.append(process)
        if process.stdout.readline() != "begun\n":
            raise AssertionError(process.stderr.read())
        return process

    def paid(self):
        return self.counts.execute("select job, n, machine from effect").fetchall()

    def until_paid(self, many):
        until = time.monotonic() + 60
        while len(self.paid()) < many:
            assert time.monotonic() < until, self.paid()
            time.sleep(0.02)

    def findings(self):
        """Return what is wrong with what the machines left, once those that live have ended."""
        wrong = []
        for process in self.processes:
            _, said = process.communicate(timeout=120)
            if process.returncode > 0:
                wrong.append(said)
        with synapse.open(self.url) as memory:
            memory.store.refresh()
            runs = memory.store.index.current.runs()
            ended = Counter(
                record.fields["run"]
                for record in memory.store.log.since(0)
                if record.kind == "run" and record.fields["state"] == "ended"
            )
        wrong += [
            f"{run['run']}: {run['status']}, {run['why']}"
            for run in runs
            if run["status"] != "done"
        ]
        wrong += [f"{run} ended {n} times" for run, n in ended.items() if n != 1]
        calls = Counter((job, n) for job, n, _ in self.paid())
        wrong += [f"call {call} was made {n} times" for call, n in calls.items() if n != 1]
        if len(ended) != self.runs:
            wrong.append(f"{len(ended)} runs ended")
        self.epochs = {run["run"]: run["epoch"] for run in runs}
        return wrong

    def close(self):
        self.counts.close()
        for process in self.processes:
            if process.poll() is None:
                process.kill()
                process.communicate()


@pytest.fixture
def machines(tmp_path, postgres_server, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    made = []

    def make(runs, turns, seconds=0.2, lease=15.0):
        made.append(Machines(tmp_path, postgres_server, runs, turns, seconds, lease))
        return made[-1]

    yield make
    for each in made:
        each.close()


def test_a_machine_leaves_the_live_runs_of_another_alone(machines):
    team = machines(runs=3, turns=8)
    team.start("submit")
    team.until_paid(3)
    team.start("help")
    assert team.findings() == []
    assert set(team.epochs.values()) == {1}
    assert {machine for _, _, machine in team.paid()} == {"machine-0"}


def test_a_run_whose_machine_is_gone_waits_for_it(machines):
    team = machines(runs=3, turns=6)
    first = team.start("submit")
    team.until_paid(3)
    first.kill()
    first.wait()
    team.start("help")
    team.start("help", machine=0)
    assert team.findings() == []
    assert {machine for _, _, machine in team.paid()} == {"machine-0"}
