"""At the acknowledgement, everything that an entry depends on has been synced.

SIGKILL cannot show a missing fsync. So every call that writes or syncs is recorded (the functions
of `os`, through which all of our writing goes; and, where there is strace, the calls of the system
themselves), and at each acknowledgement the checker asks: is every byte of the entry's line on the
disk, and every name on the way to it?
"""

import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from threading import Event, Thread, current_thread

import pytest

import synapse
from synapse.log import journal
from synapse.log.journal import Journal
from synapse.testing import together
from tests.synapse.webhooks.conftest import Running, declare, receiver, root, wait_for

__all__ = ["receiver", "root"]  # fixtures


def key(fd):
    status = os.fstat(fd)
    return status.st_dev, status.st_ino


class Recorder:
    """What would be left after a power cut: per file the bytes that were synced, per directory the
    names.
    """

    def __init__(self, patch):
        self.synced, self.unsynced = {}, {}
        for name in ("open", "mkdir", "link", "rename", "fsync", "fdatasync"):
            patch.setattr(os, name, getattr(self, name)(getattr(os, name)))

    def open(self, real):
        def call(path, flags, mode=0o777, *, dir_fd=None):
            new = bool(flags & os.O_CREAT) and not exists(path, dir_fd)
            fd = real(path, flags, mode, dir_fd=dir_fd)
            if new:
                self._named(path, dir_fd)
            return fd

        return call

    def mkdir(self, real):
        def call(path, mode=0o777, *, dir_fd=None):
            real(path, mode, dir_fd=dir_fd)
            self._named(path, dir_fd)

        return call

    def link(self, real):
        def call(src, dst, *, src_dir_fd=None, dst_dir_fd=None, follow_symlinks=True):
            real(
                src,
                dst,
                src_dir_fd=src_dir_fd,
                dst_dir_fd=dst_dir_fd,
                follow_symlinks=follow_symlinks,
            )
            self._named(dst, dst_dir_fd)

        return call

    def rename(self, real):
        def call(src, dst, *, src_dir_fd=None, dst_dir_fd=None):
            real(src, dst, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)
            self._named(dst, dst_dir_fd)

        return call

    def fsync(self, real):
        def call(fd):
            status = os.fstat(fd)
            before = {(status.st_dev, status.st_ino): status.st_size}
            names = set(self.unsynced.get(key(fd), ()))
            real(fd)
            for file, size in before.items():
                self.synced[file] = max(size, self.synced.get(file, 0))
                self.unsynced[file] = self.unsynced.get(file, set()) - names

        return call

    fdatasync = fsync

    def _named(self, path, dir_fd):
        folder, name = os.path.split(os.fspath(path))
        status = os.stat(folder or ".", dir_fd=dir_fd)
        self.unsynced.setdefault((status.st_dev, status.st_ino), set()).add(name)

    def missing(self, root, id):
        """What of an entry's line a power cut would take now."""
        for path in sorted(Path(root, "journal").glob("*.jsonl")):
            raw = path.read_bytes()
            found = re.search(rb'^.*"id":"%s".*\n' % id.encode(), raw, re.MULTILINE)
            if found is None:
                continue
            status = path.stat()
            lost = max(0, found.end() - self.synced.get((status.st_dev, status.st_ino), 0))
            problems = [f"{lost} bytes"] if lost else []
            for place in (
                path,
                *itertools.takewhile(lambda p: p != Path(root).parent, path.parents),
            ):
                above = place.parent.stat()
                if place.name in self.unsynced.get((above.st_dev, above.st_ino), ()):
                    problems.append(f"the name {place.name}")
            return problems
        return ["the whole line"]


def exists(path, dir_fd):
    try:
        os.lstat(path, dir_fd=dir_fd)
    except FileNotFoundError:
        return False
    return True


def workspace(root):
    memory = synapse.init(str(root))
    for name in ("eng-a", "eng-b", "eng-c", "eng-d"):
        memory.register(synapse.Agent(name, read=["*"], write=["*"]))
    return memory


def write(memory, recorder, name, count):
    """The problems at each acknowledgement."""
    found = []
    for number in range(count):
        namespace = f"new/{name}/n{number}" if number % 5 == 0 else "api/endpoints"
        entry = memory.as_agent(name).append("x" * (number * 37 % 900 + 1), namespace)
        found += recorder.missing(memory.store.root, entry.id)
    return found


@pytest.mark.parametrize("segment", [64 << 20, 2_000, 1])
def test_an_acknowledged_line_is_synced(tmp_path, monkeypatch, segment):
    recorder = Recorder(monkeypatch)
    with workspace(tmp_path / "deep" / "memory") as memory:
        memory.store.log.journal.segment_bytes = segment
        assert write(memory, recorder, "eng-a", 30) == []


def test_an_acknowledged_line_is_synced_when_writers_share_the_sync(tmp_path, monkeypatch):
    recorder = Recorder(monkeypatch)
    with workspace(tmp_path / "memory") as memory:
        memory.store.log.journal.segment_bytes = 10_000
        tasks = [
            lambda name=agent.id: write(memory, recorder, name, 20) for agent in memory.agents()
        ]
        assert together(*tasks) == [[], [], [], []]


def slow(real):
    """A disk on which writers meet at their syncs."""

    def call(fd):
        time.sleep(0.005)
        real(fd)

    return call


def acted_on(memory, recorder, patch, *tasks):
    """What of a line was not on the disk yet when others were told of it or its file got its name,
    and when its writer was answered.
    """
    found, root, place = [], memory.store.root, memory.store.log.mirror.place

    def told(records):
        for record in records:
            found.extend(recorder.missing(root, record.id) if record.kind == "entry" else [])

    def placed(path, *args, **options):
        found.extend(recorder.missing(root, Path(path).stem))
        return place(path, *args, **options)

    patch.setattr(memory.store.log.mirror, "place", placed)
    memory.store.commit.followers.insert(0, told)
    answers = together(*tasks)
    return found, [problem for answer in answers for problem in answer]


def test_nobody_is_told_of_a_line_before_it_is_synced(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fdatasync", slow(os.fdatasync))
    recorder = Recorder(monkeypatch)
    with workspace(tmp_path / "memory") as memory:
        tasks = [
            lambda name=agent.id: write(memory, recorder, name, 8) for agent in memory.agents()
        ]
        assert acted_on(memory, recorder, monkeypatch, *tasks) == ([], [])


def test_a_writer_that_joins_a_sync_under_way_is_found_out(tmp_path, monkeypatch):
    """The sync that it waits for began before its line was written."""
    recorder, sync = Recorder(monkeypatch), journal.sync
    begun, joined, over = Event(), Event(), Event()

    def shared(fd):
        if begun.is_set():
            joined.set()
            over.wait(30)
            return
        sync(fd)  # what it covers is decided where it begins
        begun.set()
        joined.wait(30)
        over.set()

    def second():
        begun.wait(30)
        return write(memory, recorder, "eng-b", 1)

    with workspace(tmp_path / "memory") as memory:
        monkeypatch.setattr(journal, "sync", shared)
        first = partial(write, memory, recorder, "eng-a", 1)
        told, answered = acted_on(memory, recorder, monkeypatch, first, second)
        assert told
        assert answered


def sent_unsynced(root, receiver, monkeypatch):
    """What was not on the disk of an entry that a webhook was sent for, whose writer is held up
    before its sync.
    """
    declare(root, receiver.url)
    recorder, sync, held = Recorder(monkeypatch), journal.sync, Event()

    def write():
        with synapse.open(str(root)) as other:
            other.as_agent("eng").append("text", "api/x", priority="important")

    writer = Thread(target=write)

    def late(fd):
        if current_thread() is writer:
            held.wait(30)
        sync(fd)

    monkeypatch.setattr(journal, "sync", late)
    with synapse.open(str(root)) as memory, Running(memory.store) as running:
        assert wait_for(lambda: running.sender.outboxes)
        writer.start()
        try:
            assert wait_for(lambda: receiver.taken)
            (_, body, _) = receiver.taken[0]
            return recorder.missing(str(root), json.loads(body)["data"]["id"])
        finally:
            held.set()
            writer.join()


def test_what_leaves_the_machine_is_on_its_disk(root, receiver, monkeypatch):
    assert sent_unsynced(root, receiver, monkeypatch) == []


def test_a_sender_that_does_not_ask_for_the_sync_is_found_out(root, receiver, monkeypatch):
    monkeypatch.setattr(Journal, "sync", lambda log: None)
    assert sent_unsynced(root, receiver, monkeypatch) != []


def test_every_act_is_synced(tmp_path, monkeypatch):
    recorder = Recorder(monkeypatch)
    with workspace(tmp_path / "memory") as memory:
        memory.register(synapse.Agent("lead", role="cto"))
        memory.register(synapse.Agent("junior", read=["*"], write=["*"], review_required=True))
        lead, eng = memory.as_agent("lead"), memory.as_agent("eng-a")
        ids = [eng.append(f"{n}", "api/endpoints").id for n in range(3)]
        staged = [memory.as_agent("junior").append(f"{n}", "api/endpoints").id for n in range(2)]
        acts = [
            lambda: lead.approve(staged[0]),
            lambda: lead.reject(staged[1]),
            lambda: eng.archive(ids[:2]),
            lambda: eng.restore(ids[:1]),
            lambda: eng.resolve(ids[2]),
            lambda: eng.read(mark=True),
            lambda: memory.register(synapse.Agent("new")),
        ]
        for act in acts:
            act()
            segment = max((tmp_path / "memory" / "journal").glob("*.jsonl")).stat()
            assert recorder.synced[segment.st_dev, segment.st_ino] == segment.st_size


_DIES_UNSYNCED = """
import os, sys
import synapse
with synapse.open(sys.argv[1]) as memory:
    memory.agents()
    os.fdatasync = lambda fd: os._exit(9)
    memory.as_agent("eng-a").append("once", "api/endpoints", once="key")
"""


def retried(root):
    """Return what a power cut would take after a retry, whose first writer died unsynced."""
    workspace(root).close()
    command = [sys.executable, "-c", _DIES_UNSYNCED, str(root)]
    assert subprocess.run(command, timeout=60).returncode == 9
    with pytest.MonkeyPatch.context() as patch:
        recorder = Recorder(patch)
        with synapse.open(str(root)) as memory:
            eng = memory.as_agent("eng-a")
            entry = eng.append("once", "api/endpoints", once="key")
            return recorder.missing(str(root), entry.id)


def test_what_once_finds_is_synced_before_it_is_acknowledged(tmp_path):
    assert retried(tmp_path / "memory") == []


def test_a_once_that_trusts_what_it_finds_is_caught(tmp_path, monkeypatch):
    append = Journal.append

    def trusting(journal, records, decide, keeper):
        place = decide()

        def found(*values):
            placed = place(*values)
            if placed.seq:
                monkeypatch.setattr("synapse.log.journal.sync", lambda fd: None)
            return placed

        return append(journal, records, lambda: found, keeper)

    monkeypatch.setattr(Journal, "append", trusting)
    assert retried(tmp_path / "memory") != []


def careless(root, recorder):
    """The naive writer: a file per entry, written and closed."""
    folder = Path(root, "journal")
    folder.mkdir(parents=True)
    found = []
    for number in range(5):
        fd = os.open(folder / f"{number}.jsonl", os.O_WRONLY | os.O_CREAT)
        os.write(fd, b'{"id":"syn-%d"}\n' % number)
        os.close(fd)
        found += recorder.missing(root, f"syn-{number}")
    return found


def test_the_checker_catches_a_writer_that_does_not_sync(tmp_path, monkeypatch):
    recorder = Recorder(monkeypatch)
    assert "15 bytes" in careless(tmp_path / "naive", recorder)
    assert "the name 0.jsonl" in careless(tmp_path / "again", recorder)


@pytest.mark.parametrize("left_out", ["fdatasync", "fsync"])
def test_the_checker_catches_our_own_writer_with_a_sync_left_out(tmp_path, monkeypatch, left_out):
    recorder = Recorder(monkeypatch)
    monkeypatch.setattr(os, left_out, lambda fd: None)
    with workspace(tmp_path / "memory") as memory:
        assert write(memory, recorder, "eng-a", 2) != []


# -- the same, as the system sees it ---------------------------------------------------------------

PROGRAM = """
import sys, synapse
with synapse.init(sys.argv[1]) as memory:
    memory.register(synapse.Agent("eng", read=["*"], write=["*"]))
    memory.store.log.journal.segment_bytes = 2_000
    for number in range(20):
        memory.as_agent("eng").append("x" * (number * 97 % 900), "api/endpoints") if number else None
        sys.stderr.write("acknowledged\\n")
"""


def unsynced(trace):
    """How often something was acknowledged while bytes, or names, of the journal were not
    synced.
    """
    dirty, bad, acknowledged = set(), 0, 0
    for line in trace.splitlines():
        call = re.search(r"^\d+ +(\w+)\(([^<]*)(?:<([^>]*)>)?", line)
        if call is None or "= -1" in line:
            continue
        name, path = call[1], call[3] or ""
        if (
            name == "openat"
            and "O_CREAT" in line
            and (made := re.search(r"= \d+<(.*/journal)/[^/]*\.jsonl>", line))
        ):
            dirty.add(made[1])
        elif name in ("write", "pwrite64", "writev") and path.endswith(".jsonl"):
            dirty.add(path)
        elif name in ("fsync", "fdatasync"):
            dirty.discard(path)
        elif name == "write" and '"acknowledged' in line:
            acknowledged += 1
            bad += bool(dirty)
    return acknowledged, bad


def traced(root, program):
    command = ["strace", "-f", "-y", "-e", "trace=openat,write,pwrite64,writev,fsync,fdatasync"]
    done = subprocess.run(
        [*command, "-o", f"{root}.trace", sys.executable, "-c", program, str(root)],
        capture_output=True,
        timeout=120,
    )
    return done.returncode, unsynced(Path(f"{root}.trace").read_text())


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
def test_the_system_s_own_calls_say_the_same(tmp_path):
    code, seen = traced(tmp_path / "memory", PROGRAM)
    if code and seen == (0, 0):
        pytest.skip("this process may not trace")
    assert (code, seen) == (0, (20, 0))
    careless = "import os\nos.fdatasync = os.fsync = lambda fd: None\n" + PROGRAM
    assert traced(tmp_path / "careless", careless) == (0, (20, 20))
