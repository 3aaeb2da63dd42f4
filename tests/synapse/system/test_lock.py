import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from synapse.errors import StoreBusy, StoreError
from synapse.system.lock import Lock, hold
from synapse.testing import together

# Adds to a number in a file, so that two at once would lose one; prints how often it did.
COUNT = """
import sys
from synapse.system.lock import Lock
lock, count = Lock(sys.argv[1]), sys.argv[2]
def add():
    with open(count) as file:
        number = int(file.read())
    with open(count, "w") as file:
        file.write(str(number + 1))
for _ in range(int(sys.argv[3])):
    lock.run(add)
"""
HOLD = """
import sys, time
from synapse.system.lock import Lock
def hold():
    print("held", flush=True)
    time.sleep(60)
Lock(sys.argv[1]).run(hold)
"""
FORK = """
import os, sys, time
from synapse.system.lock import Lock
lock = Lock(sys.argv[1], patience=0.3)
lock.run(lambda: None)
read, write = os.pipe()
def hold():
    if not (child := os.fork()):
        try:
            lock.run(lambda: os.write(write, b"both"))
        except Exception as error:
            os.write(write, type(error).__name__.encode())
        os._exit(0)
    os.waitpid(child, 0)
lock.run(hold)
print(os.read(read, 100).decode(), lock.run(lambda: "again"))
"""


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "lock")


@pytest.fixture
def holder(path):
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, path], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_it_gives_back_the_section_s_value(path):
    lock = Lock(path)
    assert lock.run(lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        lock.run(lambda: 1 // 0)
    assert lock.run(lambda: "after") == "after"
    with open(path) as file:
        assert int(file.read()) == os.getpid()
    lock.close()
    lock.close()


def test_one_at_a_time_among_processes(path, tmp_path):
    count = tmp_path / "count"
    count.write_text("0")
    words = [sys.executable, "-c", COUNT, path, str(count), "150"]
    processes = [subprocess.Popen(words) for _ in range(5)]
    assert [process.wait(60) for process in processes] == [0] * 5
    assert count.read_text() == "750"


@pytest.mark.parametrize("shared", [True, False])
def test_one_at_a_time_among_threads(path, shared):
    """Whether they share the lock or each has its own."""
    locks = [Lock(path)] * 6 if shared else [Lock(path) for _ in range(6)]
    inside, most = [], []

    def section():
        inside.append(1)
        most.append(len(inside))
        time.sleep(0.0005)
        inside.pop()
        return threading.get_ident()

    def work(lock):
        return len([lock.run(section) for _ in range(30)])

    assert together(*(lambda lock=lock: work(lock) for lock in locks)) == [30] * 6
    assert set(most) == {1}


def test_errors_come_to_the_one_that_waits(path):
    """Also where the section ran in the thread that waited for the lock."""
    one, other = Lock(path), Lock(path)
    entered, leave = threading.Event(), threading.Event()

    def hold():
        entered.set()
        leave.wait(10)

    thread = threading.Thread(target=one.run, args=(hold,))
    thread.start()
    entered.wait(10)
    threading.Timer(0.1, leave.set).start()
    with pytest.raises(ZeroDivisionError):
        other.run(lambda: 1 // 0)
    thread.join()
    assert other.run(lambda: 1) == 1


def test_a_stopped_holder_is_named_and_waited_for_no_longer(path, holder):
    os.kill(holder.pid, signal.SIGSTOP)
    lock = Lock(path, patience=0.2)
    for _ in range(2):
        started = time.monotonic()
        with pytest.raises(StoreBusy) as caught:
            lock.run(lambda: "never")
        assert 0.15 < time.monotonic() - started < 20
        assert caught.value.pid == holder.pid
        assert str(holder.pid) in str(caught.value)
    done = []
    holder.kill()
    holder.wait()
    lock.patience = 5.0
    assert lock.run(lambda: done.append("mine") or "mine") == "mine"
    assert done == ["mine"]


def test_a_thread_in_a_hurry_waits_no_longer_and_the_others_do(path, holder):
    lock, others = Lock(path, patience=60.0), []
    lock.wait_for(0.1)
    with pytest.raises(StoreBusy, match=r"for over 0\.1 s"):
        lock.run(lambda: "never")
    thread = threading.Thread(target=lambda: others.append(lock.run(lambda: "mine")))
    thread.start()
    holder.kill()
    holder.wait()
    thread.join()
    lock.wait_for(None)
    assert (others, lock.run(lambda: "again")) == (["mine"], "again")


def test_what_was_given_up_never_runs(path, holder):
    lock, ran = Lock(path, patience=0.1), []
    with pytest.raises(StoreBusy):
        lock.run(lambda: ran.append("given up"))
    holder.kill()
    holder.wait()
    lock.patience = 5.0
    assert lock.run(lambda: "next") == "next"
    time.sleep(0.05)
    assert ran == []


def test_waiting_goes_on_after_descriptors_ran_out(path, holder):
    """The thread that waits cannot open the lock: its turn fails, the next one is served."""
    resource = pytest.importorskip("resource")
    lock = Lock(path, patience=5.0)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.dup(0)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
    try:
        with pytest.raises(OSError, match="open files"):
            lock.run(lambda: "never")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    threading.Timer(0.1, holder.kill).start()
    assert lock.run(lambda: "served") == "served"


def test_a_child_is_another_process(path):
    """Forked while its parent is inside: it must wait like any other."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORK, path],
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert (done.stdout, done.stderr) == ("StoreBusy again\n", "")


def test_a_lock_that_is_held_goes_to_one(tmp_path):
    path = str(tmp_path / "lock")
    held = hold(path)
    assert held is not None
    assert hold(path) is None
    os.close(held)
    again = hold(path)
    assert again is not None
    os.close(again)


def test_closing_waits_for_the_section_of_another_thread(tmp_path, path):
    """What ends behind the close would unlock, by its number, a file that was opened meanwhile."""
    lock, inside, over = Lock(path), threading.Event(), threading.Event()
    others = []

    def section():
        inside.set()
        over.wait(0.3)

    def close():
        lock.close()
        others.append(hold(str(tmp_path / "another")))
        over.set()

    writer = threading.Thread(target=lock.run, args=[section])
    writer.start()
    inside.wait()
    close()
    writer.join()
    assert hold(str(tmp_path / "another")) is None
    os.close(others[0])
    with pytest.raises(StoreError, match="was closed"):
        lock.run(section)


def test_a_section_may_close_its_own_lock(path):
    lock = Lock(path)
    lock.run(lock.close)
    with pytest.raises(StoreError, match="was closed"):
        lock.run(lock.close)
