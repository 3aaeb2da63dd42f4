"""The contract of leases, on files and in PostgreSQL: who is alive, as another process sees it. Wrong
leases, which go by one sign alone or by a clock of their own, are shown to break it.
"""

import itertools
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psycopg
import pytest

import synapse
from orchestrator.runs.files import workspace
from orchestrator.runs.files.postgres import lease as shared
from synapse.errors import StoreError

NAMES = itertools.count()
LEASE = 1.5
HOLDER = """
import os, sys, time
shift = float(sys.argv[4])
if shift:
    wall = time.time
    time.time = lambda: wall() + shift
import synapse
from orchestrator.runs.files import workspace
with synapse.open(sys.argv[1]) as memory:
    held = workspace.hold(memory.store, sys.argv[1], sys.argv[2], float(sys.argv[3]))
    print("held", flush=True)
    while True:
        time.sleep(0.1)
        held.beat()
"""


def holds(check, within):
    """Return whether it is so at some moment of these seconds."""
    until = time.monotonic() + within
    while time.monotonic() < until:
        if check():
            return True
        time.sleep(0.05)
    return False


class Place:
    """A workspace, with processes that hold leases in it."""

    def __init__(self, path, server, kind):
        self.server, self.kind, self.path = server, kind, path
        self.processes, self.held = [], []
        self.url = server.url(f"l{os.getpid()}_{next(NAMES)}") if kind == "postgres" else None
        self.memory = self.machine("here")

    def machine(self, name):
        root = str(self.path / (name if self.url else "here"))
        return synapse.init(root, log=self.url)

    def hold(self, name, lease=LEASE):
        store = self.memory.store
        self.held.append(workspace.hold(store, store.root, name, lease))
        return self.held[-1]

    def process(self, name, shift=0):
        """Start a process that holds a lease, on a machine of its own where there are several."""
        self.machine(name).close()
        root = self.path / (name if self.url else "here")
        words = [HOLDER, root, name, LEASE, shift]
        process = subprocess.Popen(
            [sys.executable, "-c", *map(str, words)],
            stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2],
            env={**os.environ, "PGPASSWORD": "secret"},
        )  # fmt: skip
        self.processes.append(process)
        assert process.stdout.readline() == "held\n"
        return process

    def close(self):
        for process in self.processes:
            process.kill()
            process.communicate()
        for each in self.held:
            each.close()
        self.memory.close()


@pytest.fixture(params=["files", "postgres"])
def place(request, tmp_path, postgres_server):
    made = Place(tmp_path, postgres_server, request.param)
    yield made
    made.close()


@pytest.fixture
def shared_place(tmp_path, postgres_server):
    made = Place(tmp_path, postgres_server, "postgres")
    yield made
    made.close()


def test_a_lease_is_held_until_it_is_closed(place):
    one, other = place.hold("one"), place.hold("other")
    assert one.lives("one") is True
    assert one.lives("other") is True
    assert one.lives("nobody") is False
    assert workspace.lives(place.memory.store, "other") is True
    assert sorted(workspace.holders(place.memory.store)) == ["one", "other"]
    other.close()
    assert one.lives("other") is False
    assert workspace.lives(place.memory.store, "other") is False
    other.close()  # again, which changes nothing
    assert workspace.holders(place.memory.store) == ["one"]
    one.close()


def in_order(place, shift):
    """Check what a lease promises of a process whose clock is off by `shift` seconds."""
    one = place.hold("one")
    process = place.process("other", shift)
    assert not holds(lambda: not one.lives("other"), LEASE + 1), "alive, and it counts as dead"
    process.send_signal(signal.SIGSTOP)
    assert holds(lambda: not one.lives("other"), LEASE + 10), "it hangs, and counts as alive"
    process.send_signal(signal.SIGCONT)
    assert holds(lambda: one.lives("other"), 10), "it is back, and counts as dead"
    one.lease = 8.0  # so long that nothing but the crash shows
    time.sleep(max(place.server.started + one.lease + 0.5 - time.monotonic(), 0))
    process.kill()
    process.wait()
    assert holds(lambda: not one.lives("other"), 5), "its process is gone, and it counts as alive"
    one.lease = 0.0
    one.sweep()
    one.beat()
    time.sleep(0.2)
    assert workspace.holders(place.memory.store) == ["one"]


@pytest.mark.parametrize("shift", [0, 600, -600])
def test_a_crash_and_a_hang_are_seen_by_others(place, shift):
    if shift and place.kind == "files":
        pytest.skip("a machine has one clock")
    in_order(place, shift)


WRONG = {
    "the lock alone": "select not pg_try_advisory_xact_lock_shared(hashtextextended({channel}"
    " || '/' || $1, 0)) or $2::float + $3::float < 0 or $4::bool is null",
    "the beat alone": "select count(*) > 0 or $3::float < 0 or $4::bool is null from {schema}.run_holder"
    " where name = $1 and beat > clock_timestamp() - make_interval(secs => $2)",
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_lease_by_one_sign_alone_breaks_the_contract(shared_place, wrong):
    tables = shared.tables_of(shared_place.memory.store.log.database)
    quoted = {"{schema}": f'"{tables.address.schema}"', "{channel}": f"'{tables.channel}'"}
    text = WRONG[wrong]
    for name, value in quoted.items():
        text = text.replace(name, value)
    tables.sql["lives"] = text.encode()
    with pytest.raises(AssertionError, match="counts as"):
        in_order(shared_place, 0)


def test_a_beat_by_the_clock_of_its_process_breaks_the_contract(shared_place, monkeypatch):
    here = HOLDER.replace(
        "        held.beat()",
        "        with held._session.use() as c:\n"
        "            c.execute(f'update {held.database.address.schema}.run_holder set beat ="
        " to_timestamp(%s) where name = %s', (time.time(), held.name))",
    )
    monkeypatch.setitem(globals(), "HOLDER", here)
    with pytest.raises(AssertionError, match="counts as dead"):
        in_order(shared_place, -600)


def test_a_connection_that_is_cut_is_no_death(shared_place):
    one = shared_place.hold("one")
    shared_place.process("other")
    before = shared_place.server.run("select count(*) from pg_locks where locktype = 'advisory'")
    shared_place.server.run(
        "select pg_terminate_backend(pid) from pg_locks"
        " where locktype = 'advisory' and pid <> pg_backend_pid()"
    )
    assert not holds(lambda: not one.lives("other"), 1.2)
    one.beat()
    locks = "select count(*) from pg_locks where locktype = 'advisory'"
    assert holds(lambda: shared_place.server.run(locks) == before, 5)


def test_a_server_that_was_away_has_killed_nobody(tmp_path):
    from tests.postgres import Server

    place = Place(tmp_path, server := Server(), "postgres")
    try:
        one, dead = place.hold("one", lease=4.0), place.hold("dead", lease=4.0)
        dead._session.close()  # as its process does where it ends
        dead._closed = True
        place.process("other")
        server.stop()
        time.sleep(1.0)
        started = time.monotonic()
        server.start()
        assert one.lives("other")
        assert holds(lambda: not one.lives("dead"), 20)
        assert time.monotonic() - started > 4  # who beat until then is given a lease
        assert one.lives("other")
    finally:
        place.close()
        server.close()


def test_a_pool_of_connections_is_refused(shared_place, monkeypatch):
    monkeypatch.setattr(shared, "is_direct", lambda connection: False)
    with pytest.raises(StoreError, match="name the server itself"):
        shared_place.hold("one")


def test_an_older_version_does_not_hold_leases(shared_place):
    database = shared_place.memory.store.log.database
    shared.tables_of(database)
    with psycopg.connect(database.address.dsn, autocommit=True) as connection:
        connection.execute(f"update {database.address.schema}.run_about set version = 9")
    database._others.clear()
    with pytest.raises(StoreError, match="newer version"):
        shared_place.hold("one")
