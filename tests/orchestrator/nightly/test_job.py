"""One night for each local date, whoever asks and whoever dies; then a snapshot of what it left."""

import os
import signal
import subprocess
import sys
import time
from datetime import UTC, date, datetime, timedelta

import pytest

import synapse
from orchestrator.nightly.job import NIGHTLY, Snapshots, nightly, past, snapshots_of, spend
from orchestrator.nightly.schedule import plan_of
from synapse import backup
from synapse.consolidate import claim, reach, run_nightly
from synapse.errors import InvalidEntry
from synapse.model.settings import Settings
from synapse.testing import FrozenClock
from tests.trusted import trust

TODAY = date(2026, 2, 1)
MINUTE = 60_000_000


@pytest.fixture
def moment():
    return FrozenClock(int(datetime(2026, 2, 1, 9, tzinfo=UTC).timestamp()) * 1_000_000)


@pytest.fixture
def mem(tmp_path, moment):
    with synapse.init(str(tmp_path / "w"), clock=moment) as mem:
        with open(f"{mem.store.root}/synapse.yaml", "a") as file:
            file.write(
                f"schedule: {{zone: Europe/Berlin}}\nbackup: {{dir: {tmp_path}/kept, keep: 2}}\n"
            )
        trust(mem.store.root)
        mem.register(synapse.Agent("eng-a", write=("api/*",), read=("api/*",)))
        me = mem.as_agent("eng-a")
        me.append("newer", "api/x", supersedes=me.append("older", "api/x").id)
        yield mem


def states(mem, days=1):
    return [
        (each.job, each.date, each.state)
        for each in past(mem.store, plan_of(mem.store.settings), days)
    ]


def test_a_night_then_a_snapshot_once(mem, moment, tmp_path):
    moment.advance("1m")
    assert spend(mem, TODAY)
    ends = mem.verify().records
    assert states(mem) == [("night", "2026-02-01", "done"), ("backup", "2026-02-01", "done")]
    (kept,) = backup.listed(str(tmp_path / "kept"))
    assert kept.records == ends - 1
    assert spend(mem, TODAY)
    assert mem.verify().records == ends
    with synapse.init(str(tmp_path / "copy"), clock=moment) as copy:
        backup.restore(copy.store, kept.path)
        assert copy.verify(kept.head).ok
        assert [e.body for e in copy.as_agent("eng-a").read()] == ["newer"]


def test_what_a_night_left_is_restored_to_the_same(mem, moment, tmp_path):
    """The drill: a snapshot, a new workspace from it, its index from nothing."""
    moment.advance("1m")
    assert spend(mem, TODAY)
    taken = backup.take(mem.store, str(tmp_path / "drill"), None)
    with synapse.init(str(tmp_path / "copy"), clock=moment) as copy:
        backup.restore(copy.store, taken.path)
        assert copy.rebuild().digest == copy.digest() == mem.digest()
        assert copy.verify(taken.head).ok
        me = copy.as_agent("eng-a")
        assert [e.body for e in me.read(archived=True)] == ["older"]
        assert [e.body for e in me.read()] == ["newer"]
        assert not run_nightly(copy, "2026-02-01", moment()).ran


def test_somebody_else_is_at_it_and_then_is_gone(mem, moment):
    right = claim(mem, NIGHTLY, "2026-02-01", moment())
    reach(mem, right, "merge", moment())
    assert not spend(mem, TODAY)
    assert states(mem) == [("night", "2026-02-01", "running")]
    moment.advance("31m")
    assert states(mem) == [("night", "2026-02-01", "lapsed")]
    assert spend(mem, TODAY)
    night, _ = past(mem.store, plan_of(mem.store.settings), 1)
    phases = [
        each.fields.get("phase")
        for each in map(mem.store.log.at, range(1, mem.verify().records + 1))
    ]
    assert phases.count("scan") == 0
    assert (night.state, night.told["acts"]) == ("done", 1)


def test_dates_without_a_night_are_told(mem, moment):
    moment.advance("3d")
    spend(mem, date(2026, 2, 3))
    told = [
        (each.date, each.state)
        for each in past(mem.store, plan_of(mem.store.settings), 9, (NIGHTLY,))
    ]
    assert told == [("2026-02-04", "missed"), ("2026-02-03", "done"), ("2026-02-02", "missed")]


def test_what_a_workspace_may_say():
    def said(**declared):
        return snapshots_of(Settings(other=(("backup", declared),)))

    assert snapshots_of(Settings()) is None
    assert said(dir="/srv/kept") == Snapshots("/srv/kept")
    assert said(dir="~/kept", keep=3) == Snapshots(os.path.expanduser("~/kept"), 3)
    for wrong in (
        {"dir": "kept"},
        {"keep": 3},
        {"dir": "/x", "keep": 0},
        {"dir": "/x", "keep": "all"},
        {"to": "/x"},
    ):
        with pytest.raises(InvalidEntry, match="backup"):
            said(**wrong)
    assert nightly("/w", plan_of(Settings(other=(("schedule", {"defrag": "off"}),)))) == []


# -- real processes --------------------------------------------------------------------


@pytest.fixture
def root(tmp_path):
    path = str(tmp_path / "w")
    with synapse.init(path) as mem:
        mem.register(synapse.Agent("eng-a", write=("api/*",), read=("api/*",)))
        me = mem.as_agent("eng-a")
        for _ in range(20):
            me.append("newer", "api/x", supersedes=me.append("older", "api/x").id)
    return path


@pytest.fixture
def start(root):
    begun = []

    def start(*words):
        words = words or ("-m", "orchestrator.nightly.job", root, TODAY.isoformat())
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        begun.append(subprocess.Popen([sys.executable, *words], text=True, **pipes))
        return begun[-1]

    yield start
    for process in begun:
        process.kill()
        process.wait(10)
        for pipe in (process.stdin, process.stdout):
            pipe.close()


def ran(mem):
    """Who began a night of that date, in their order."""
    mem.store.index.catch_up()
    records = [mem.store.log.at(each.seq) for each in mem.store.index.keyed(f"night:{TODAY}")]
    return list(dict.fromkeys(each.fields["epoch"] for each in records)), [
        each.fields["state"] for each in records
    ]


def test_five_processes_race_for_a_date_and_one_runs_it(root, start):
    racers = [start() for _ in range(5)]
    codes = sorted(process.wait(60) for process in racers)
    assert set(codes) <= {0, 75}
    assert 0 in codes
    with synapse.open(root) as mem:
        epochs, found = ran(mem)
        assert epochs == [1]
        assert found.count("done") == 1
        archived = [each for each in mem.audit() if each.kind == "archive"]
        assert sum(len(each.fields["ids"]) for each in archived) == 20


HANG = """
import sys, time, synapse
from synapse.consolidate import run_nightly
def hang(phase):
    if phase == "archive":
        print("there", flush=True)
        time.sleep(60)
with synapse.open(sys.argv[1]) as mem:
    run_nightly(mem, "2026-02-01", mem.store.clock(), hang)
"""
SLEEP = """
import sys, time
from orchestrator.nightly import job as nightly
nightly.spend = lambda mem, on: time.sleep(60)
nightly.main(sys.argv[1], "2026-02-01")
"""


def test_a_leader_killed_in_the_middle_is_followed_from_where_it_was(root, start):
    leader = start("-c", HANG, root)
    assert leader.stdout.readline() == "there\n"
    leader.send_signal(signal.SIGKILL)
    assert start().wait(60) == 0
    with synapse.open(root) as mem:
        epochs, found = ran(mem)
        assert epochs == [1, 2]
        assert found.count("done") == 1
        phases = [
            record.fields.get("phase")
            for record in mem.store.log.since(0)
            if record.kind == "night"
        ]
        assert (phases.count("scan"), phases.count("merge")) == (1, 1)
        assert spend(mem, TODAY)
        assert ran(mem) == (epochs, found)


def test_it_ends_with_whoever_began_it(root, start):
    process = start("-c", SLEEP, root)
    time.sleep(1)
    assert process.poll() is None
    process.stdin.close()
    assert process.wait(5) == 6


DAEMON = """
import asyncio, sys, synapse
from orchestrator import Supervisor
from orchestrator.daemon import Daemon
from orchestrator.nightly.job import nightly
from orchestrator.nightly.schedule import Alarm, plan_of, zone_of
async def main(boss, mem):
    plan = plan_of(mem.store.settings)
    alarm = Alarm(nightly(sys.argv[1], plan), zone_of(plan.zone), mem.store.clock, print)
    await Daemon(sys.argv[1], boss, alarm).run()
with synapse.open(sys.argv[1]) as memory, Supervisor(memory) as boss:
    asyncio.run(main(boss, memory))
"""


def test_a_daemon_runs_the_night_that_is_due_and_answers_meanwhile(root, start):
    from orchestrator.plugin.daemon import ask

    start("-c", DAEMON, root)
    with synapse.open(root) as mem:
        plan, end, slowest = plan_of(mem.store.settings), time.monotonic() + 20, 0.0
        while not (found := past(mem.store, plan, 1, (NIGHTLY,))) or found[0].state != "done":
            assert time.monotonic() < end
            begun = time.monotonic()
            try:
                ask(root, "status")
                slowest = max(slowest, time.monotonic() - begun)
            except synapse.NotFound:
                pass
            time.sleep(0.02)
        assert slowest < 1
        assert date.fromisoformat(found[0].date) >= datetime.now(UTC).date() - timedelta(1)
    ask(root, "down")


@pytest.mark.parametrize(("old", "new"), [("dir:", "dri:"), ("backup:", "backups:")])
def test_a_misspelt_backup_is_told_once_the_night_is_done(mem, old, new):
    path = f"{mem.store.root}/synapse.yaml"
    with open(path) as file:
        text = file.read()
    with open(path, "w") as file:
        file.write(text.replace(old, new))
    mem.store.refresh(whole=True)
    with pytest.raises(InvalidEntry, match="did you mean"):
        spend(mem, TODAY)
    assert states(mem) == [(NIGHTLY, "2026-02-01", "done")]
