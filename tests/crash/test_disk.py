"""The disk fails at every step of an append: acknowledged and whole, or an error and absent.
Nothing else, ever.

First every call that our code makes of the system is made to fail in turn; then the disk is really
full, files really may not grow or be opened, and the directory really belongs to somebody else.
"""

import errno
import os
import shutil
import subprocess
import sys
import time

import pytest

import synapse
from synapse.errors import NotFound, StoreError, SynapseError
from synapse.log import adopt
from synapse.log.journal import Journal
from synapse.model.clock import now
from tests.crash.lives import begin

NEVER = 1 << 30
NEW = "open listdir scandir mkfifo"
GROWING = "open write pwrite fdatasync fsync link rename mkdir mkfifo"
CALLS = {
    errno.EMFILE: NEW,
    errno.ENOSPC: GROWING,
    errno.EIO: f"{NEW} {GROWING} read pread fstat lstat stat ftruncate unlink chmod",
}


class Faults:
    """Makes the n-th call that can fail in this way fail; if it lasts, all from the n-th on. A
    short write takes only half, and so does the first that fails for good.
    """

    def __init__(self, patch, at, code, lasts=False, short=False):
        self.at, self.code, self.lasts, self.short, self.calls = at, code, lasts, short, 0
        for name in ["write"] if short else CALLS[code].split():
            patch.setattr(os, name, self._failing(name, getattr(os, name)))

    def _failing(self, name, real):
        def call(*args, **named):
            if not self._apt(name, args):
                return real(*args, **named)
            self.calls += 1
            if self.calls < self.at or (self.calls > self.at and not self.lasts):
                return real(*args, **named)
            half = name == "write" and self.calls == self.at and len(args[1]) // 2
            if half and (self.short or self.lasts):
                return real(args[0], bytes(args[1])[:half])
            raise OSError(self.code, os.strerror(self.code))

        return call

    def _apt(self, name, args):
        if self.short:
            return len(args[1]) > 1
        return self.code != errno.ENOSPC or name != "open" or args[1] & os.O_CREAT


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    root = tmp_path_factory.mktemp("disk") / "memory"
    clock = iter(range(now() - 60_000_000, now(), 1_000)).__next__
    with synapse.init(str(root), clock=clock) as memory:
        memory.register(synapse.Agent("eng", read=["*"], write=["*"]))
        memory.register(synapse.Agent("junior", read=["*"], write=["*"], review_required=True))
        for n in range(3):
            memory.as_agent("eng").append(f"entry {n}", "api/endpoints")
    return root


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    """Whatever lies about in the tree is adopted at the next look."""
    monkeypatch.setattr(adopt, "SETTLED", -1)


def opened(root):
    return synapse.open(str(root))


def in_new_segments(root):
    memory = synapse.open(str(root))
    memory.store.log.journal.segment_bytes = 1
    return memory


def append(memory, who="eng", namespace="api/endpoints", **more):
    return memory.as_agent(who).append("body", namespace, **more).id


ACTS = {
    "append": (opened, append),
    "append in a new namespace": (
        opened,
        lambda memory: append(memory, namespace="some/new/place"),
    ),
    "append in a new segment": (in_new_segments, append),
    "append once": (opened, lambda memory: append(memory, once="key")),
    "append to be reviewed": (opened, lambda memory: append(memory, who="junior")),
    "open and append": (None, append),
}


def warm(memory):
    """Open all that a writer has open."""
    append(memory, who="eng", namespace="warm")
    memory.as_agent("eng").read()
    memory.store._looked = memory.store._noticed = time.monotonic() + 3600


def ids(memory):
    """All that there is, as everyone sees it; what waits for review too."""
    eng = memory.as_agent("operator")
    return {entry.id: entry.body for entry in [*eng.read(), *eng.staged()]}


def attempt(root, act, at, code, **how):
    """One append with a fault in it: what was there before, the id or the error, whether the fault
    was reached.
    """
    opening, acting = ACTS[act]
    if opening:
        memory = opening(root)
        warm(memory)
        before = ids(memory)
    else:
        with synapse.open(str(root)) as other:
            memory, before = None, ids(other)
    with pytest.MonkeyPatch.context() as patch:
        faults = Faults(patch, at, code, **how)
        try:
            memory = memory or opened(root)
            result = acting(memory)
        except SynapseError as error:
            result = error
    if memory:
        memory.store._looked = memory.store._noticed = -1
    return memory, before, result, faults


def check(memory, before, result, may_be_either=False):
    """Acknowledged and whole, or an error and absent; what was there before is there in any
    case.
    """
    found = ids(memory)
    if isinstance(result, str):
        assert found == before | {result: "body"}
    else:
        assert isinstance(result, StoreError | NotFound)
        assert found == before or (may_be_either and len(found) == len(before) + 1)
    return found


def tried(template, root, act, at, code, **how):
    shutil.copytree(template, root)
    memory, before, result, faults = attempt(root, act, at, code, **how)
    either = how.get("lasts", False)
    if memory:
        check(memory, before, result, either)
        memory.close()
    with synapse.open(str(root), clock=lambda: now() + 10_000_000) as memory:
        found = check(memory, before, result, either)
        assert memory.verify().problems == ()
        after = append(memory)
        assert ids(memory) == found | {after: "body"}
        assert memory.verify().problems == ()
    shutil.rmtree(root)
    return result, faults


def every(template, folder, act, code, step=1, **how):
    """Yield what the act came to, once for each of its calls that can fail in this way, or for one
    in so many of them.

    A first run, in which nothing fails, says which calls these are: what comes before the fault is
    the same in each run.
    """
    result, faults = tried(template, folder / "whole", act, NEVER, code, **how)
    assert isinstance(result, str)
    step = step if faults.calls > FEW else 1
    hits, chosen = 0, range(1 + list(ACTS).index(act) % step, faults.calls + 1, step)
    for at in chosen:
        result, faults = tried(template, folder / f"{at}", act, at, code, **how)
        hits += faults.calls >= at
        yield result
    # a look that the clock decides may move a call
    assert hits >= 0.9 * len(chosen) > 0


# In every run, one in so many calls of an act that makes more than a few: the acts have most of
# them in common, and begin at others. In the soak each call.
FEW = 20
STEPS = [pytest.param(2, id="some"), pytest.param(1, id="each", marks=pytest.mark.soak)]


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EMFILE], ids=errno.errorcode.get)
@pytest.mark.parametrize("act", ACTS)
def test_a_call_fails(template, tmp_path, act, code, step):
    """Each of them once, or one in two."""
    results = list(every(template, tmp_path, act, code, step))
    failed = [result for result in results if isinstance(result, SynapseError)]
    assert failed or code == errno.EMFILE


@pytest.mark.parametrize("act", ACTS)
def test_a_write_is_short(template, tmp_path, act):
    """A write that takes only half is gone on with."""
    for result in every(template, tmp_path, act, errno.ENOSPC, short=True):
        assert isinstance(result, str)


@pytest.mark.parametrize("act", ACTS)
def test_the_disk_stays_full(template, tmp_path, act):
    """From some call on nothing can be written any more, not even that it could not."""
    results = list(every(template, tmp_path, act, errno.ENOSPC, lasts=True))
    assert [result for result in results if isinstance(result, SynapseError)]


def test_a_line_that_is_not_taken_back_is_found_out(template, tmp_path, monkeypatch):
    monkeypatch.setattr(Journal, "_void", lambda *_: None)
    with pytest.raises(AssertionError, match="body"):
        list(every(template, tmp_path, "append", errno.EIO))


# -- a record that was taken back ------------------------------------------------------------------


@pytest.fixture
def voided(template, tmp_path, monkeypatch):
    """A memory in which a record was written, could not be synced, and was taken back."""

    def fails(fd):
        raise OSError(errno.EIO, "Input/output error")

    root = shutil.copytree(template, tmp_path / "memory")
    with synapse.open(str(root)) as memory:
        cursor = memory.as_agent("eng").read().cursor
        with monkeypatch.context() as patch:
            patch.setattr(os, "fdatasync", fails)
            with pytest.raises(StoreError):
                memory.as_agent("eng").append(
                    "taken back", "api/endpoints", once="key", topic="t", tags=["x"]
                )
        memory.register(synapse.Agent("other", read=["*"], write=["*"]))
        yield memory, cursor


def test_what_was_taken_back_is_told_to_nobody(voided):
    memory, cursor = voided
    kinds = [record.kind for record in memory.store.log.since(cursor)]
    assert kinds == ["entry", "void", "agent"]
    other = memory.as_agent("other")
    for since in (0, cursor):
        assert "taken back" not in {event.entry.body for event in other.follow(since, timeout=0)}
    assert "taken back" not in {entry.body for entry in other.read()}
    assert "taken back" not in {hit.entry.body for hit in other.search("taken back").hits}
    for view in (other.briefing(), other.briefing(as_of=now() + 1)):
        assert "entry 0" in view.markdown()
        assert "taken back" not in view.markdown()
    assert other.unread() == 3
    with pytest.raises(NotFound):
        other.get(next(record.id for record in memory.store.log.since(cursor) if record.id))


def test_what_was_taken_back_may_be_written_again(voided):
    memory, _ = voided
    entry = memory.as_agent("eng").append("written", "api/endpoints", once="key", topic="t")
    assert memory.as_agent("other").get(entry.id).body == "written"
    assert memory.as_agent("eng").append("written", "api/endpoints", once="key").id == entry.id
    assert not memory.as_agent("other").get(entry.id).disputed
    assert memory.rebuild().digest == memory.digest()


def test_what_was_taken_back_counts_in_no_export(voided, tmp_path):
    memory, _ = voided
    for address in ("memory:", str(tmp_path / "copy")):
        copy = synapse.open(address) if address == "memory:" else synapse.init(address)
        copy.import_(list(memory.export()))
        assert copy.digest() == memory.digest()
        assert "taken back" not in {entry.body for entry in copy.as_agent("other").read()}
        assert copy.verify().problems == ()
        copy.close()
    assert "taken back" not in "".join(memory.export("A"))


# -- real limits -----------------------------------------------------------------------------------

WRITE_UNTIL_IT_FAILS = """
import os, resource, signal, sys, synapse
limit, amount, root, count = sys.argv[1:5]
errors, written = [], []
memory = synapse.open(root)
me = memory.as_agent("eng")
me.read()
if limit != "none":
    resource.setrlimit(getattr(resource, limit), (int(amount), resource.getrlimit(getattr(resource, limit))[1]))
for number in range(int(count)):
    try:
        written.append(me.append(f"{number} " + "x" * 700, f"api/n{number % 70}").id)
    except synapse.StoreError as error:
        errors.append(str(error))
        if len(errors) > 5:
            break
shown = {entry.id for entry in me.read(limit=None)}  # nobody waits for room to read
assert shown >= {*written}, {*written} - shown
print(*written)
print(errors[0] if errors else "")
"""


IN_MEMORY = "answered from the journal, in memory"


def written_until_it_fails(root, limit="none", amount=0, count=4_000, inside=()):
    command = [
        *inside,
        sys.executable,
        "-c",
        WRITE_UNTIL_IT_FAILS,
        limit,
        str(amount),
        str(root),
        str(count),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert all(line.endswith(IN_MEMORY) for line in done.stderr.splitlines())
    ids, error = done.stdout.split("\n")[:2]
    return ids.split(), error


def check_all_there(root, acknowledged):
    with synapse.open(str(root), clock=lambda: now() + 10_000_000) as memory:
        shown = [entry.id for entry in memory.as_agent("eng").read()]
        assert set(acknowledged) <= set(shown)
        assert {"entry 0", "entry 1", "entry 2"} <= {
            entry.body for entry in memory.as_agent("eng").read()
        }
        assert len(shown) == len(set(shown)) == 3 + len(acknowledged)
        assert memory.verify().problems == ()
        memory.as_agent("eng").append("and it goes on", "api/endpoints")


@pytest.mark.parametrize("limit", [40_000, 200_001, 300_000])
def test_files_may_not_grow_any_more(template, tmp_path, limit):
    root = shutil.copytree(template, tmp_path / "memory")
    ids, error = written_until_it_fails(root, "RLIMIT_FSIZE", limit)
    assert "File too large" in error or "disk" in error
    check_all_there(root, ids)


@pytest.mark.parametrize("spare", range(8))
def test_no_more_files_may_be_open(template, tmp_path, spare):
    root = shutil.copytree(template, tmp_path / "memory")
    ids, error = written_until_it_fails(root, "RLIMIT_NOFILE", 14 + spare, count=150)
    assert ids or "open files" in error
    check_all_there(root, ids)


ACT_WHERE_THE_INDEX_MAY_NOT_GROW = """
import os, resource, sys, synapse
memory = synapse.open(sys.argv[1])
eng, lead, junior = map(memory.as_agent, ("eng", "lead", "junior"))
mine, filed = eng.append("mine", "api/x"), eng.append("filed", "api/x")
waits = junior.append("waits", "api/x")
dropped = [entry.id for entry in memory.as_agent("operator").read(namespace="api/drop")]
eng.archive(filed.id)
for n in range(40):
    eng.append("x", "api/x")
    eng.read()
wal = os.path.getsize(os.path.join(sys.argv[1], ".index", "brain.db-wal"))
resource.setrlimit(resource.RLIMIT_FSIZE, (wal, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
print(mine.id, filed.id, waits.id)
act = {
    "resolve": lambda: eng.resolve(mine.id), "archive": lambda: eng.archive(mine.id)[0].archived,
    "restore": lambda: not eng.restore(filed.id)[0].archived, "approve": lambda: not lead.approve(waits.id).staged,
    "vouch": lambda: lead.vouch(*dropped).trust == "reviewed",
    "register": lambda: memory.register(synapse.Agent("new", read=["*"], write=["*"])),
}[sys.argv[2]]
assert act()
said = []
memory.store.index.say = said.append
eng.read()
print(*said)
"""


def dropped_by_a_stranger(root):
    drop = root / "entries" / "api" / "drop" / "dropped.md"
    drop.parent.mkdir(parents=True)
    drop.write_text(
        "---\nfrom: drop\ntimestamp: 2026-02-01T01:00:00Z\npriority: info\n---\n\nold\n"
    )
    os.chown(drop, 65534, -1)
    time.sleep(0.25)


@pytest.mark.parametrize("act", ["resolve", "archive", "restore", "approve", "vouch", "register"])
def test_an_act_is_no_error_once_it_is_durable(template, tmp_path, act):
    """The journal took it; that the index has no room to take it in, the next read says, and
    answers.
    """
    if act == "vouch" and os.geteuid() != 0:
        pytest.skip("only root may give a file away")
    root = shutil.copytree(template, tmp_path / "memory")
    with synapse.open(str(root)) as memory:
        memory.register(
            synapse.Agent("lead", role="project-lead", authority=80, read=["*"], write=["*"])
        )
    if act == "vouch":
        dropped_by_a_stranger(root)
    command = [sys.executable, "-c", ACT_WHERE_THE_INDEX_MAY_NOT_GROW, str(root), act]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert all(line.endswith(IN_MEMORY) for line in done.stderr.splitlines())
    assert (done.stdout + done.stderr).strip().endswith(IN_MEMORY)
    with synapse.open(str(root), clock=lambda: now() + 10_000_000) as memory:
        assert [record.kind for record in memory.audit(limit=1)] == [
            "agent" if act == "register" else act
        ]
        assert memory.verify().problems == ()


def mounted():
    """How to run something with a small file system of its own, where that is allowed."""
    if sys.platform != "linux" or os.geteuid() != 0 or not shutil.which("unshare"):
        return None
    probe = ["unshare", "--mount", "mount", "-t", "tmpfs", "-o", "size=100k", "none", "/mnt"]
    return None if subprocess.run(probe, capture_output=True, check=False).returncode else probe


@pytest.mark.skipif(mounted() is None, reason="only root may mount a small disk")
@pytest.mark.parametrize("size", [700, 1_300, 1_501])
def test_the_disk_is_really_full(template, tmp_path, size):
    disk, out = tmp_path / "disk", tmp_path / "out"
    disk.mkdir()
    script = f"""
        mount -t tmpfs -o size={size}k none "{disk}" && cp -r "{template}" "{disk}/memory" && "$@"
        code=$?; cp -r "{disk}/memory" "{out}"; exit $code"""
    inside = ("unshare", "--mount", "sh", "-c", script, "sh")
    ids, error = written_until_it_fails(disk / "memory", inside=inside)
    assert "No space left" in error or "full" in error
    assert len(ids) > 3
    check_all_there(out, ids)


# -- an unwritable directory -----------------------------------------------------------------------

AS_NOBODY = """
import importlib, os, pkgutil, sys, synapse
for module in pkgutil.walk_packages(synapse.__path__, "synapse."):  # this user may not read them later
    if "__main__" not in module.name:
        importlib.import_module(module.name)
import datetime, pwd
os.setgroups([]); os.setgid(65534); os.setuid(65534)
root, act = sys.argv[1:]
try:
    if act == "init":
        synapse.init(root)
    me = synapse.open(root).as_agent("eng")
    if act == "append":
        me.append("body", "api/endpoints")
    print(len(me.read()), len(me.search("entry").hits), me.unread(), len(me.briefing().included))
except synapse.StoreError as error:
    print("refused:", error)
"""

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may become somebody else")


def as_nobody(root, act):
    life = begin("-c", AS_NOBODY, root, act)
    out, err = life.communicate()
    assert (life.returncode, err) == (0, "")
    return out.strip()


@pytest.fixture
def seen(tmp_path):
    """A directory that anybody may reach and read."""
    for place in (tmp_path, *tmp_path.parents):
        if place.stat().st_mode & 0o005 != 0o005:
            place.chmod(0o755)
    return tmp_path


@needs_root
@pytest.mark.parametrize("act", ["init", "append"])
def test_a_directory_that_may_not_be_written_says_so(template, seen, act):
    root = seen / "new" if act == "init" else shutil.copytree(template, seen / "memory")
    said = as_nobody(root, act)
    assert said.startswith("refused:")
    assert "Permission denied" in said
    assert str(root) in said
    if act == "append":
        check_all_there(root, [])


@needs_root
def test_a_directory_that_may_not_be_entered_says_so(template, seen):
    root = shutil.copytree(template, seen / "closed" / "memory")
    (seen / "closed").chmod(0o700)
    said = as_nobody(root, "read")
    assert said.startswith("refused:")
    assert "Permission denied" in said
