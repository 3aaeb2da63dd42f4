"""Waiting for a turn, or for a bell, where the system runs out of something."""

import os
import resource
import subprocess
import sys
import time

import pytest

from synapse.errors import StoreBusy
from synapse.system.lock import Lock
from synapse.system.signal import NotificationPipe, notify

HOLD = """
import sys, time
from synapse.system.lock import Lock
def hold():
    print("held", flush=True)
    time.sleep(60)
Lock(sys.argv[1]).run(hold)
"""


@pytest.fixture
def holder(tmp_path):
    """A process that has the lock and keeps it."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, tmp_path / "lock"], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def tasks():
    """How many threads this process has, those included that Python has no name for."""
    return len(os.listdir("/proc/self/task")) if os.path.isdir("/proc/self/task") else 0


def test_a_closed_lock_leaves_no_thread_behind(tmp_path, holder):
    before = tasks()
    for _ in range(5):
        lock = Lock(str(tmp_path / "lock"), patience=0.05)
        with pytest.raises(StoreBusy):
            lock.run(lambda: None)
        lock.close()
    holder.kill()
    holder.wait()
    time.sleep(0.3)
    assert tasks() <= before


def test_a_lock_that_cannot_be_signed_is_let_go_all_the_same(tmp_path, monkeypatch):
    """On a full disk not even the holder's number can be written."""
    lock = Lock(str(tmp_path / "lock"))
    other = Lock(str(tmp_path / "lock"), patience=0.1)

    def full(*args):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        assert lock.run(lambda: 4) == 4
    assert other.run(lambda: 5) == 5
    lock.close()
    other.close()


def test_many_open_files_do_not_silence_a_bell(tmp_path):
    """`select` knows descriptors up to 1023; a follower in a large server has later ones."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard not in (-1, resource.RLIM_INFINITY) and hard < 1_200:
        pytest.skip("this process may not open so many")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 1_200), hard))
    read, write = os.pipe()
    fds = [os.dup(read) for _ in range(1_100)]
    try:
        bell = NotificationPipe(str(tmp_path / "bells"))
        notify(str(tmp_path / "bells"))
        assert bell.wait(1)
        assert not bell.wait(0)
        bell.close()
    finally:
        for fd in (*fds, read, write):
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_ringing_writes_into_no_file(tmp_path):
    """A file under another name of which a bell stands there keeps its first byte."""
    (tmp_path / "bells").mkdir()
    (tmp_path / "victim").write_text("text")
    os.link(tmp_path / "victim", tmp_path / "bells" / "1-x")
    assert notify(str(tmp_path / "bells")) == 0
    assert (tmp_path / "victim").read_text() == "text"
