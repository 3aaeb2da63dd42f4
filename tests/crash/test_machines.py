"""Machines that share a database: each is a process with a folder of its own. Runs end once, by the
machine that has them, or by another one where that is gone; what was paid is paid once.
"""

import itertools
import os
import random
import signal
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
        self.path, self.runs, self.turns, self.lease = path, runs, turns, lease
        name = f"m{os.getpid()}_{next(NAMES)}"
        self.url = server.url(name)
        self.counted = f"{server.url()}?options=-csearch_path%3D{name}_counts"
        server.run(f"create schema {name}_counts")
        self.counts = psycopg.connect(self.counted, autocommit=True)
        self.counts.execute("create table effect (job text, n int, machine text)")
        self.about = [self.counted, *map(str, (runs, turns, seconds, lease))]
        self.processes = []

    def start(self, mode, machine=None, wrong=""):
        root = self.path / f"machine-{len(self.processes) if machine is None else machine}"
        process = subprocess.Popen(
            [sys.executable, SCRIPT, mode, root, self.url, *self.about, wrong],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            cwd=SCRIPT.parents[2],
        )  # fmt: skip
        self.processes.append(process)
        if process.stdout.readline() != "begun\n":
            raise AssertionError(process.stderr.read())
        return process

    def paid(self):
        return self.counts.execute("select job, n, machine from effect").fetchall()

    def until_paid(self, many, by=""):
        """Wait until so many calls are paid, by this machine where one is named."""
        until = time.monotonic() + 60
        while sum(by in (machine, "") for _, _, machine in self.paid()) < many:
            assert time.monotonic() < until, self.paid()
            time.sleep(0.02)

    def findings(self, patience=120):
        """Return what is wrong with what the machines left, once those that live have ended, or
        after so many seconds.
        """
        wrong = []
        until = time.monotonic() + patience
        for process in self.processes:
            try:
                _, said = process.communicate(timeout=max(until - time.monotonic(), 0.1))
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
                continue
            if process.returncode > 0:
                wrong.append(said)
        with synapse.open(self.url) as memory:
            memory.store.refresh()
            runs = memory.store.index.current.runs()
            self.refused = [r for r in memory.store.log.since(0) if r.kind == "refused"]
            ended = Counter(
                record.fields["run"]
                for record in memory.store.log.since(0)
                if record.kind == "run" and record.fields["state"] == "ended"
            )
        wrong += [
            f"{run['run']}: {run.get('status')}, {run.get('why')}"
            for run in runs
            if run.get("status") != "done"
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


def test_another_machine_goes_on_with_the_runs_of_one_that_died(machines):
    """From the last recorded step: within two seconds, where nothing else slows it down, and long
    before the lease.
    """
    team = machines(runs=4, turns=8, lease=300.0)
    first = team.start("submit")
    team.start("help")
    team.until_paid(6)
    first.kill()
    first.wait()
    assert team.findings() == []
    assert {machine for _, _, machine in team.paid()} == {"machine-0", "machine-1"}
    assert set(team.epochs.values()) == {2}


def hung(team, wrong=""):
    """One of two machines hangs for longer than its lease, and comes back while the other works."""
    first = team.start("submit", wrong=wrong)
    team.start("help", wrong=wrong)
    team.until_paid(4)
    first.send_signal(signal.SIGSTOP)
    team.until_paid(4, by="machine-1")
    first.send_signal(signal.SIGCONT)
    return team.findings(120)


def test_who_hangs_is_taken_over_and_its_late_writes_are_refused(machines):
    team = machines(runs=4, turns=15, lease=3.0)
    assert hung(team) == []
    assert set(team.epochs.values()) == {2}
    assert {machine for _, _, machine in team.paid()} == {"machine-0", "machine-1"}


def test_without_a_fence_calls_are_paid_twice(machines):
    assert any("was made 2 times" in each for each in hung(machines(4, 15, lease=3.0), "fence"))


def test_steps_on_one_machine_are_done_again_by_another(machines):
    team = machines(runs=4, turns=15, lease=3.0)
    assert any("was made 2 times" in each for each in hung(team, "folder"))


def test_by_the_lock_alone_nobody_goes_on_for_who_hangs(machines):
    team = machines(runs=2, turns=10, lease=3.0)
    first = team.start("submit", wrong="lock")
    team.start("help", wrong="lock")
    team.until_paid(2)
    first.send_signal(signal.SIGSTOP)
    assert "0 runs ended" in team.findings(15)


def test_by_the_beat_alone_a_crash_costs_a_lease(machines):
    team = machines(runs=2, turns=10, lease=300.0)
    first = team.start("submit", wrong="beat")
    team.start("help", wrong="beat")
    team.until_paid(2)
    first.kill()
    assert "0 runs ended" in team.findings(15)


def test_by_a_clock_of_its_own_a_machine_takes_what_lives(machines):
    team = machines(runs=2, turns=10)
    team.start("submit")
    team.start("help", wrong="clock")
    team.findings()
    assert set(team.epochs.values()) != {1}


@pytest.mark.soak
def test_three_machines_die_and_hang(machines):
    """Again and again: 24 runs of 10 turns."""
    team = machines(runs=24, turns=10, seconds=0.1, lease=6.0)
    chance = random.Random(5)
    alive = [team.start("submit"), team.start("help"), team.start("help")]
    until = time.monotonic() + 150
    while time.monotonic() < until and any(each.poll() is None for each in alive):
        time.sleep(chance.uniform(2, 5))
        one = chance.randrange(3)
        if chance.random() < 0.3:
            alive[one].send_signal(signal.SIGSTOP)
            time.sleep(9)
            alive[one].send_signal(signal.SIGCONT)
        elif alive[one].poll() is None:
            alive[one].kill()
            alive[one].wait()
            alive[one] = team.start("help")
    assert team.findings(300) == []
