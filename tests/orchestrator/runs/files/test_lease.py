"""Who is alive: a lock and a beat for a supervisor, the process itself for a coding client."""

import os
import subprocess
import sys

import pytest

from orchestrator.runs.files import lease
from orchestrator.runs.files.lease import Lease
from synapse.errors import StoreError


@pytest.fixture
def one(tmp_path):
    held = Lease(str(tmp_path), "one")
    yield held
    held.close()


@pytest.fixture
def other(tmp_path):
    held = Lease(str(tmp_path), "other")
    yield held
    held.close()


def test_a_lease_is_held_until_it_is_closed(tmp_path, one, other):
    assert one.lives("one") is True
    assert one.lives("other") is True
    assert lease.lives(str(tmp_path), "other") is True
    other.close()
    assert one.lives("other") is False
    assert lease.lives(str(tmp_path), "other") is False
    other.close()  # again, which changes nothing


def test_what_lies_in_runs_is_private(tmp_path, one):
    umask = os.umask(0)
    os.umask(umask)
    for path in (tmp_path / "runs", tmp_path / "runs" / ".holders"):
        assert path.stat().st_mode & 0o777 == 0o700 & ~umask
    assert os.stat(one.path).st_mode & 0o777 == 0o600 & ~umask


def test_a_closed_lease_leaves_another_ones_file_alone(one, other):
    one.close()
    with open(one.path, "w"):
        pass
    one.close()
    assert os.path.exists(one.path)


def beat_at(held, nanoseconds):
    os.pwrite(held._fd, b"%-10d\n%020d\n" % (os.getpid(), nanoseconds), 0)


def test_who_hangs_is_given_a_while_and_a_beat_clears_it(tmp_path, one, other, monkeypatch):
    now = 10**15

    def clock():
        return now

    monkeypatch.setattr(lease.time, "monotonic_ns", clock)
    beat_at(other, now)
    now += int(lease.LEASE * 1e9) - 1
    assert one.lives("other")
    assert lease.lives(str(tmp_path), "other")
    assert not one.suspects
    now += 1
    assert not lease.lives(str(tmp_path), "other")
    assert one.lives("other")  # suspected
    now += int(lease.CONFIRM * 1e9) - 1
    assert one.lives("other")
    now += 1
    assert not one.lives("other")
    beat_at(other, now - int(lease.LEASE * 1e9) - 7)  # later than the last, and too old
    assert one.lives("other")
    now += int(lease.CONFIRM * 1e9)
    assert not one.lives("other")
    beat_at(other, now)
    assert one.lives("other")
    assert not one.suspects


def test_a_client_lives_as_long_as_its_process(tmp_path, one):
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, text=True)
    name = lease.client_holder(process.pid)
    assert lease.client_pid(name) == process.pid
    assert one.lives(name) is True
    assert lease.lives(str(tmp_path), name) is True
    reused = f"{lease.CLIENT}{process.pid}-1"  # the number of a process that ended
    assert one.lives(reused) is False
    process.communicate("\n")
    assert one.lives(name) is False
    assert lease.lives(str(tmp_path), name) is False


@pytest.mark.parametrize("name", ["client-0-1", "client--5-1", "client-x-1", "client-"])
def test_a_name_of_no_process_is_of_nobody_alive(one, name):
    assert one.lives(name) is False


@pytest.mark.parametrize("name", ["one", "client-x", "7"])
def test_a_name_of_no_client_has_no_process(name):
    assert lease.client_pid(name) is None


def test_a_lease_that_cannot_be_held_is_told(tmp_path):
    (tmp_path / "runs").write_text("")
    with pytest.raises(StoreError, match="cannot be held"):
        Lease(str(tmp_path), "one")


def test_a_file_that_is_swept_away_before_it_is_locked_is_made_again(tmp_path, monkeypatch):
    path = tmp_path / "runs" / ".holders" / "one"
    lock, swept_away = lease.fcntl.flock, []

    def swept(fd, kind):
        if kind == lease.fcntl.LOCK_EX and not swept_away:
            swept_away.append(path)
            path.unlink()
        lock(fd, kind)

    monkeypatch.setattr(lease.fcntl, "flock", swept)
    held = Lease(str(tmp_path), "one")
    assert swept_away == [path]
    assert path.exists()
    held.close()
