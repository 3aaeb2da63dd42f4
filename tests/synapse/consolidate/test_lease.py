"""Leaders: a dead one is followed at once on its own machine, and nobody else is taken for dead."""

import os
import shutil
import signal
import time

import pytest

import synapse
from synapse.consolidate import claim, finish, lapsed, reach, run_nightly
from synapse.consolidate.lease import FOLDER, is_dead
from synapse.consolidate.nightly import LEASE
from synapse.model.records import Record
from synapse.testing import FrozenClock

TODAY = "2026-02-03"
KEY = f"night:{TODAY}"


@pytest.fixture
def root(tmp_path):
    synapse.init(str(tmp_path / "shared"), clock=FrozenClock()).close()
    return str(tmp_path / "shared")


def opened(root):
    return synapse.open(root, clock=FrozenClock())


def leading(root, then):
    """A process that has begun a night; its pid."""
    told, tell = os.pipe()
    child = os.fork()
    if not child:
        with opened(root) as mem:
            reach(mem, claim(mem, "night", TODAY, mem.store.clock()), "archive", mem.store.clock())
            os.write(tell, b"!")
            then()
        os._exit(0)
    assert os.read(told, 1) == b"!"
    os.close(told)
    os.close(tell)
    return child


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def files(root):
    return os.listdir(os.path.join(root, FOLDER))


def test_a_leader_that_was_killed_is_followed_at_once(root):
    os.waitpid(leading(root, die), 0)
    with opened(root) as mem:
        phases = []
        assert run_nightly(mem, TODAY, mem.store.clock(), phases.append).ran
        assert phases == ["archive", "enforce", "changelog", "metrics"]
        assert not run_nightly(mem, TODAY, mem.store.clock()).ran
    assert files(root) == []


def test_so_is_one_that_leaves_without_a_word(root):
    os.waitpid(leading(root, lambda: None), 0)
    with opened(root) as mem:
        assert run_nightly(mem, TODAY, mem.store.clock()).ran


def test_a_leader_that_hangs_has_its_lease(root):
    child = leading(root, lambda: time.sleep(600))
    try:
        os.kill(child, signal.SIGSTOP)
        with opened(root) as mem:
            assert not run_nightly(mem, TODAY, mem.store.clock() + LEASE - 1).ran
            assert not lapsed(
                mem.store, KEY, mem.store.index.keyed(KEY)[-1].fields, mem.store.clock()
            )
            assert run_nightly(mem, TODAY, mem.store.clock() + LEASE).ran
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert files(root) == []


def test_of_another_machine_nothing_is_known(root):
    os.waitpid(leading(root, die), 0)
    with opened(root) as mem:
        last = mem.store.index.keyed(KEY)[-1].fields
        assert is_dead(mem.store, KEY, last)
        elsewhere = last | {"holder": "elsewhere:" + last["holder"].rpartition(":")[2]}
        mem.store.commit.append(Record.new("night", "consolidator", elsewhere, key=KEY))
        assert not run_nightly(mem, TODAY, mem.store.clock()).ran
        assert run_nightly(mem, TODAY, mem.store.clock() + LEASE).ran


def test_where_its_file_is_lost_the_lease_decides(root):
    os.waitpid(leading(root, die), 0)
    shutil.rmtree(os.path.join(root, ".index"))
    with opened(root) as mem:
        assert not run_nightly(mem, TODAY, mem.store.clock()).ran
        assert run_nightly(mem, TODAY, mem.store.clock() + LEASE).ran


def test_a_night_that_fails_is_for_others_to_go_on_with(root):
    def fail(phase):
        if phase == "enforce":
            raise OSError("no space left on device")

    with opened(root) as mem, opened(root) as other:
        with pytest.raises(OSError, match="no space"):
            run_nightly(mem, TODAY, mem.store.clock(), fail)
        phases = []
        assert run_nightly(other, TODAY, mem.store.clock(), phases.append).ran
        assert phases == ["enforce", "changelog", "metrics"]


def test_a_leader_of_this_process_is_there_until_it_is_done(root):
    with opened(root) as mem, opened(root) as other:
        right = claim(mem, "night", TODAY, mem.store.clock())
        for each in (mem, other):
            assert claim(each, "night", TODAY, mem.store.clock()) is None
        finish(mem, right)
        assert files(root) == []
        assert claim(other, "night", TODAY, mem.store.clock(), again=True)
