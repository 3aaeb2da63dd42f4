"""Somebody stands still with a lock, the disk is full, or the journal lost its last line: whoever
reads is answered all the same, by what the journal holds.
"""

import json
import os
import signal
import subprocess
import sys
import time
from datetime import date

import pytest

import synapse
from synapse.consolidate.nightly import run_nightly
from synapse.index import readable
from synapse.index.index import Index
from synapse.model.clock import now
from tests.crash import kill
from tests.crash.conftest import STAYS

HANGS = 25  # seconds; a reader that waited for the lock's own patience took 60 and more
HOLDERS = {
    "index": "import fcntl; f = open(root + '/.index/brain.db.lock', 'r+');"
    " fcntl.flock(f, fcntl.LOCK_EX)",
    "journal": "import fcntl; f = open(root + '/journal/lock', 'r+'); fcntl.flock(f, fcntl.LOCK_EX)",
    "write": "import sqlite3; f = sqlite3.connect(root + '/.index/brain.db', isolation_level=None);"
    " f.execute('begin immediate')",
    "file": "import sqlite3; f = sqlite3.connect(root + '/.index/brain.db', isolation_level=None);"
    " f.execute('pragma locking_mode = exclusive'); f.execute('begin exclusive');"
    " f.execute('create table held(x)')",
}
HOLD = "import sys, time; root = sys.argv[1]; {}; print('held', flush=True); time.sleep(600)"
ALL = str(len(STAYS) + 2)  # entries
READERS = {
    "read": ["read", "--agent", "eng-b"],
    "unread": ["unread", "--agent", "eng-b"],
    "search": ["search", "--agent", "eng-b", "heron"],
    "view": ["view", "--agent", "eng-b"],
}


@pytest.fixture
def root(root):
    with synapse.open(str(root)) as memory:
        memory.as_agent("eng-a").append("The heron is blue.", "decisions/y")
        memory.as_agent("eng-b").search("heron")
    return str(root)


class Holding:
    """Hold it in another process, which does nothing else."""

    def __init__(self, root, what):
        self.root, self.what = root, what

    def __enter__(self):
        words = [sys.executable, "-c", HOLD.format(HOLDERS[self.what]), self.root]
        self.life = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        assert self.life.stdout.readline() == "held\n"
        return self.life

    def __exit__(self, *_):
        self.life.kill()
        self.life.communicate()


def line_behind(root):
    """Append what no index has: the last line of another copy of the journal."""
    program = (
        "import sys, synapse\n"
        "from synapse.index.index import Index\n"
        "memory = synapse.open(sys.argv[1])\n"
        "Index.take_in = lambda self: None\n"
        "memory.as_agent('eng-a').append('The heron is grey.', 'decisions/z')\n"
    )
    subprocess.run([sys.executable, "-c", program, root], check=True, timeout=HANGS)


def asked(root, *args):
    """What a reader in a process of its own is answered, and how long it took."""
    start = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "synapse", "--root", root, *args],
        capture_output=True,
        text=True,
        timeout=HANGS,
        check=False,
    )
    return done, time.monotonic() - start


def unanswered(root):
    """Yield the readers that were not answered, or not by all that the journal holds."""
    for name, args in READERS.items():
        try:
            done, took = asked(root, *args)
        except subprocess.TimeoutExpired:
            yield name, "hangs"
            continue
        print(f"{name} {took:.2f} s: {done.stderr.strip()}")
        if done.returncode or (
            done.stdout.strip() != ALL and "The heron is grey." not in done.stdout
        ):
            yield name, done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("what", HOLDERS)
def test_a_reader_is_answered_while_somebody_stands_still(root, what):
    line_behind(root)
    with Holding(root, what):
        assert list(unanswered(root)) == []
    done, _ = asked(root, "read", "--agent", "eng-a")
    assert done.returncode == 0
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("what", "name"),
    {"index": "brain.db.lock", "journal": "journal/lock", "write": ".index/brain.db"}.items(),
)
def test_the_doctor_names_who_holds_what(root, what, name):
    line_behind(root)
    with Holding(root, what) as life:
        os.kill(life.pid, signal.SIGSTOP)
        done, took = asked(root, "doctor")
    print(f"doctor {took:.2f} s\n{done.stdout}")
    (line,) = (line for line in done.stdout.splitlines() if "stands still" in line)
    assert name in line
    assert f"kill -CONT {life.pid}" in line
    assert "this is a bug" not in done.stdout + done.stderr


def test_the_doctor_says_nothing_of_locks_that_are_free(root):
    done, _ = asked(root, "doctor")
    assert "locks" in done.stdout
    assert "stands still" not in done.stdout


def test_a_reader_is_answered_where_the_index_is_first_made(root):
    line_behind(root)
    for name in os.listdir(f"{root}/.index"):
        if name.startswith("brain.db"):
            os.unlink(f"{root}/.index/{name}")
    with Holding(root, "write"):
        assert list(unanswered(root)) == []


def test_it_is_said_once(root):
    line_behind(root)
    said = []
    with Holding(root, "index") as life, synapse.open(root) as memory:
        memory.store.index.say = said.append
        for _ in range(3):
            bodies = [entry.body for entry in memory.as_agent("eng-b").read()]
            assert "The heron is grey." in bodies
        assert len(said) == 1
        assert str(life.pid) in said[0] or "held" in said[0]
    with synapse.open(root) as memory:
        assert len(memory.as_agent("eng-b").read(limit=None)) == int(ALL)


def test_a_long_life_goes_back_to_the_file(root):
    with synapse.open(root) as memory:
        reader = memory.as_agent("eng-b")
        line_behind(root)
        with Holding(root, "index"):
            assert len(reader.read(limit=None)) == int(ALL)
            assert memory.store.index.spare is not None
        line_behind(root)
        assert len(reader.read(limit=None)) == int(ALL) + 1
        for _ in range(100):  # who waited in vain lets go of the lock first
            if memory.store.index.spare is None:
                return
            time.sleep(0.1)
            line_behind(root)
            reader.read(limit=None)
        raise AssertionError("it answers in memory for ever")


def test_a_journal_that_lost_its_last_line_is_answered_as_it_was_seen(root):
    line_behind(root)
    asked(root, "read", "--agent", "eng-b")
    (segment,) = (
        os.path.join(root, "journal", n)
        for n in os.listdir(f"{root}/journal")
        if n.endswith("jsonl")
    )
    with open(segment, "rb") as file:
        raw = file.read()
    os.truncate(segment, raw[:-1].rfind(b"\n") + 1)
    for args in READERS.values():
        done, _ = asked(root, *args)
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip() == ALL or "The heron is grey." in done.stdout
        assert "lost" in done.stderr
    done, _ = asked(root, "write", "--from", "eng-a", "--namespace", "decisions/y", "more")
    assert done.returncode != 0


@pytest.mark.parametrize("most", [5, pytest.param(25, marks=pytest.mark.soak)])
def test_a_journal_whose_end_is_cut_anywhere_is_answered(root, most):
    line_behind(root)
    kill.calls(read, root)  # the index has seen it
    (path,) = (f"{root}/journal/{name}" for name in os.listdir(f"{root}/journal") if "0" in name)
    with open(path, "rb") as file:
        raw = file.read()
    last = len(raw) - raw[:-1].rfind(b"\n") - 1
    slowest = (0, 0)
    for cut in kill.points(last, most):
        os.truncate(path, len(raw) - cut)
        asking = kill.begun(read, root)
        out, err = asking.communicate(HANGS)
        assert asking.returncode == 0, (cut, err)
        bodies, _, *took = json.loads(out.splitlines()[0])
        assert {*bodies} >= {*STAYS, "The heron is blue."}, cut
        slowest = max(slowest, tuple(took))
        with open(path, "r+b") as file:
            file.write(raw)
    print(f"slowest reader, of it the processor, in seconds: {slowest}")


def test_a_reader_that_waits_is_found_out(root, monkeypatch):
    monkeypatch.setattr(readable, "READERS_WAIT", 600)
    line_behind(root)
    with Holding(root, "index"), synapse.open(root) as memory:
        memory.store.index.lock.patience = 0.5
        reader = memory.as_agent("eng-b")
        monkeypatch.setattr(Index, "to_read", lambda self, words: self.take_in() or self)
        with pytest.raises(synapse.StoreError):
            reader.read()


# -- whoever holds something stands still at any of its calls --------------------------------------


def write(root):
    with synapse.open(root) as memory:
        memory.as_agent("eng-a").append("The heron is green.", "decisions/y")


def night(root):
    with synapse.open(root) as memory:
        another = date.fromordinal(735_000 + memory.store.log.last()).isoformat()
        run_nightly(memory, another, now())


def first_index(root):
    for name in os.listdir(f"{root}/.index"):
        if name.startswith("brain.db"):
            os.unlink(f"{root}/.index/{name}")
    with synapse.open(root) as memory:
        memory.as_agent("eng-a").read()


def read(root):
    """Say what is read, and how long that took, of the processor too."""
    start = time.monotonic()
    with synapse.open(root) as memory:
        me = memory.as_agent("eng-b")
        bodies = [entry.body for entry in me.read(limit=None)]
        hits = len(me.search("heron").hits)
        me.briefing().markdown()
    print(json.dumps([bodies, hits, time.monotonic() - start, time.process_time()]))


def read_patiently(root):
    """Wait for the index's lock as writers do."""
    readable.READERS_WAIT = 600
    Index.to_read = lambda self, words: self.take_in() or self
    read(root)


def stands_still(life):
    """Wait until it has stopped; False where it came to its end."""
    while life.poll() is None:
        with open(f"/proc/{life.pid}/stat") as file:
            if file.read().rpartition(")")[2].split()[0] == "T":
                return True
        time.sleep(0.005)
    return False


def unread(root, work, most, reader=read, patience=HANGS):
    """Yield what a reader was not told while the work stood still at so many of its calls, and at
    last how often it did and how long a reader took at most.
    """
    calls = f"{kill.CALLS} flock pread stat"
    slowest, stood = (0, 0), 0
    for at in kill.points(kill.calls(work, root, names=calls), most):
        life = kill.begun(work, root, at=at, act=kill.STOP, names=calls)
        stopped = stands_still(life)
        asking = kill.begun(reader, root)
        try:
            out, err = asking.communicate(timeout=patience)
            bodies, hits, *took = json.loads(out.splitlines()[0])
            slowest, stood = max(slowest, tuple(took)), stood + stopped
            if not {*bodies} >= {*STAYS, "The heron is blue."} or not hits:
                yield at, bodies, err
        except subprocess.TimeoutExpired:
            yield at, "hangs"
        finally:
            for process in (asking, life):
                process.kill()
                process.communicate(HANGS)
    yield stood, slowest


@pytest.mark.skipif(sys.platform != "linux", reason="it is seen in /proc whether one stands still")
@pytest.mark.parametrize("most", [5, pytest.param(25, marks=pytest.mark.soak)])
@pytest.mark.parametrize("work", [write, night, first_index], ids=lambda work: work.__name__)
def test_a_reader_is_answered_wherever_a_writer_stands_still(root, work, most):
    *wrong, (stood, slowest) = unread(root, work, most)
    print(f"stood still {stood} times; slowest reader, of it the processor, in seconds: {slowest}")
    assert wrong == []
    assert stood >= most - 2


def test_a_reader_that_waits_for_who_stands_still_is_found_out(root):
    wrong = unread(root, first_index, kill.NEVER, read_patiently, patience=5)
    assert any(what == "hangs" for _, what, *_ in wrong)  # where it stands still with the lock
