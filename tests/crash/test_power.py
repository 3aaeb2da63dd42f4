"""A power cut at any moment of any act: what was acknowledged is there, once and whole, the
workspace proves itself, and goes on.

Each act is recorded (`power.Recorder`), and played back into every state that the disk may be in
after a cut. The product opens that state, and is asked for all it had acknowledged by then.
"""

import json
import os
import random
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import synapse
from orchestrator.runs.files.folder import Folder
from synapse import backup
from synapse.log import journal, operator_files, progress, redact, unite, vanished
from synapse.log.journal import Journal
from synapse.log.mirror import Mirror
from synapse.log.upkeep import tree
from synapse.model.clock import now
from tests.accepted import accept
from tests.crash.power import Recorder, files_in, is_recorded
from tests.crash.power_acts import ACTS
from tests.crash.power_check import Act
from tests.crash.power_disk import Disk

SHORT, LONG = 16, 500  # cuts of each act in every run, and in the soak
SEVERAL = ("migrate", "merge", "adopt")  # which write several lines before one sync
MORE = {"run": 40, "team": 40}  # in every run, of the acts that write most
SEED = 17
REBOOTED = "00000000-0000-0000-0000-000000000000"

AFTER = "after the cut"  # the folder of the person whose machine comes up again


class Played:
    """An act as it was recorded: its disk, and copies of the SQLite files at some moments of it."""

    def __init__(self, tmp_path, act):
        self.act, self.aside, self.copies = act, tmp_path / "copies", []
        self.root = tmp_path / "disk"
        self.root.mkdir()
        self.aside.mkdir()
        act.prepare(self.root)
        with pytest.MonkeyPatch.context() as patch:
            recorder = Recorder(self.root, patch)
            self._copy(recorder)

            def acknowledge(what):
                recorder.acknowledge(what)
                self._copy(recorder)

            with recorder:
                act.perform(self.root, acknowledge)
        self.disk = Disk(recorder)
        # what was recorded is all that was written
        recorded = self.disk.files_of(*self.disk.tree(len(self.disk.ops)))
        assert recorded == files_in(self.root)
        self.whole = act.standing(self.root)

    def _copy(self, recorder):
        """Keep the SQLite files as they are now: SQLite may leave them so, or as any before."""
        place = self.aside / str(len(self.copies))
        for path in self.root.rglob("*"):
            if not is_recorded(path.name) and path.is_file():
                to = place / path.relative_to(self.root)
                to.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, to)
        self.copies.append((len(recorder.ops), place))

    def lay(self, path, place, chance, mood=None):
        """Make a state that a cut may leave; return which inodes have which ones' place."""
        inodes = self.disk.lay(path, place, chance, mood)
        synced = self.disk.redacted(place)  # a vacuum is on the disk when it is over
        copies = [copy for at, copy in self.copies if synced <= at <= place]
        copy = chance.choice((None, *copies, copies[-1]))
        if copy is None:
            for index in list(path.rglob(".index")):
                shutil.rmtree(index)
        elif copy.exists():
            for file in copy.rglob("*"):
                to = path / file.relative_to(copy)
                if file.is_file() and to.parent.is_dir():
                    shutil.copyfile(file, to)
        return inodes


def survey(tmp_path, act, most, reboot, seed=SEED, until=None, mood=None):
    """How often what was found, over so many cuts of an act; and the first of each, told. Ends
    where one was found, if that is asked for. `mood`: all cuts leave a hole, or all another thing.
    """
    played = Played(tmp_path, act)
    reboot()
    found, told = Counter(), {}
    cuts = played.disk.holes if mood == "hole" else played.disk.cuts
    for place, key in cuts(random.Random(seed), most):
        chance = random.Random(key)
        path = tmp_path / "cut"
        shutil.rmtree(tmp_path / AFTER, ignore_errors=True)
        inodes = played.lay(path, place, chance, mood)
        for folder in filter(os.path.isdir, path.rglob("journal")):
            accept(folder.parent)  # what the person's folder knew is not what a cut is about
        for finding, why in act.findings(
            path, played.disk.acknowledged(place), played.whole, inodes
        ):
            found[finding] += 1
            told.setdefault(finding, f"{finding} at {place}, {key!r}: {why}")
        shutil.rmtree(path)
        found["cuts"] += 1
        if found[until]:
            break
    return found, told


@pytest.fixture
def reboot(monkeypatch, tmp_path):
    """The machine comes up again. What its person signed later than the cut is not there."""

    def boot():
        monkeypatch.setenv("SYNAPSE_HOME", str(tmp_path / AFTER))
        for module in (progress, vanished):
            monkeypatch.setattr(module, "boot", lambda: REBOOTED)

    return boot


# -- the checker itself ----------------------------------------------------------------------------


class Naive:
    """A log of lines whose writer forgets something."""

    def __init__(self, folder, forgets=None):
        self.folder, self.forgets = folder, forgets

    def append(self, n):
        text = f"{n} ".encode() * 600 + b"\n"
        path = self.folder / f"{n}"
        aside = self.folder / f".{n}"
        with aside.open("wb") as file:
            file.write(text)
            file.flush()
            if self.forgets != "bytes":
                os.fsync(file.fileno())
        os.rename(aside, path)
        if self.forgets != "name":
            self._sync(self.folder)

    def append_line(self, n):
        path = self.folder / "log"
        new = not path.exists()
        with path.open("ab") as file:
            file.write(f"{n} ".encode() * 600 + b"\n")
            file.flush()
            if self.forgets != "bytes":
                os.fsync(file.fileno())
        if new and self.forgets != "name":
            self._sync(self.folder)

    def move(self):
        """Keep all in another folder."""
        (self.folder / "kept").mkdir()
        self._sync(self.folder)
        for path in sorted(self.folder.glob("[0-9]")):
            (self.folder / "kept" / path.name).write_bytes(path.read_bytes())
            with (self.folder / "kept" / path.name).open("rb") as file:
                os.fsync(file.fileno())
            if self.forgets != "order":
                self._sync(self.folder / "kept")
            path.unlink()
            if self.forgets == "order":
                self._sync(self.folder)

    @staticmethod
    def _sync(folder):
        fd = os.open(folder, os.O_RDONLY)
        os.fsync(fd)
        os.close(fd)


def naive(forgets=None, lines=False, moves=False):
    def perform(root, acknowledge):
        log = Naive(root, forgets)
        for n in range(6):
            log.append_line(n) if lines else log.append(n)
            acknowledge(f"{n} " * 600)
        if moves:
            log.move()

    def findings(root, told, whole, inodes):
        held = set()
        for path in root.rglob("*"):
            if path.is_file() and not path.name.startswith("."):
                held |= {*path.read_bytes().decode().split("\n")}
        for text in told:
            if text not in held:
                yield "lost", text[:9]
        if not lines and not moves and held - {"", *whole}:
            yield "half", "a file under its name that was never whole"

    whole = [f"{n} " * 600 for n in range(6)]
    return Act(lambda root: None, perform, findings, lambda root: whole)


@pytest.mark.parametrize("moves", [False, True])
@pytest.mark.parametrize("lines", [False, True])
def test_a_careful_writer_passes(tmp_path, reboot, lines, moves):
    act = naive(None, lines, moves and not lines)
    assert survey(tmp_path, act, 200, reboot) == ({"cuts": 200}, {})


@pytest.mark.parametrize(
    ("act", "found"),
    [
        (naive("bytes", lines=True), {"lost"}),
        (naive("name", lines=True), {"lost"}),
        (naive("bytes"), {"lost", "half"}),
        (naive("name"), {"lost"}),
        (naive("order", moves=True), {"lost"}),
    ],
    ids=[
        "a log that is not synced",
        "a log whose name is not synced",
        "a rename of bytes that are not synced",
        "a rename that is not synced",
        "a move between folders out of order",
    ],
)
def test_a_careless_writer_is_found_out(tmp_path, reboot, act, found):
    assert set(survey(tmp_path, act, SHORT, reboot)[0]) == {"cuts", *found}


@pytest.mark.parametrize("left_out", ["sync", "sync_directory"])
def test_our_own_writer_with_a_sync_left_out_is_found_out(tmp_path, reboot, monkeypatch, left_out):
    monkeypatch.setattr(journal, left_out, lambda _: None)
    assert survey(tmp_path, ACTS["append"], SHORT, reboot, until="lost")[0]["lost"]


@pytest.mark.parametrize("act", ["append", "append_between"])
def test_a_sync_that_began_before_the_line_is_found_out(tmp_path, reboot, monkeypatch, act):
    """A writer that takes another one's sync for its own, and did not ask when that began."""
    write, sync = Journal._write, journal.sync

    def written_late(log, record, place, keeper):
        sync(log._fd(log.segment))
        return write(log, record, place, keeper)

    monkeypatch.setattr(Journal, "_write", written_late)
    monkeypatch.setattr(journal, "sync", nothing)
    assert survey(tmp_path, ACTS[act], SHORT, reboot, until="lost")[0]["lost"]


def nothing(*args):
    """Sync nothing."""


def unrecorded(folder, name, line, *, sync=True, record=Folder.record):
    """Record a step, and let the system put it on the disk when it likes to."""
    record(folder, name, line, sync=False)


@pytest.mark.parametrize(
    ("act", "owner", "name", "wrong", "found"),
    [
        ("run", Folder, "_sync_names", nothing, "ended"),
        ("run", Folder, "sync", nothing, "ended"),
        ("run", Folder, "record", unrecorded, "twice"),
        ("team", Folder, "record", unrecorded, "twice"),
        ("register", operator_files, "sync_directory", nothing, "lost"),
        ("backup", backup, "sync_directory", nothing, "stuck"),
        ("import", unite, "sync_directory", nothing, "lost"),
        ("redact", redact, "sync_directory", nothing, "back"),
        ("redact", Mirror, "settle", nothing, "back"),
    ],
)
def test_an_act_with_a_sync_left_out_is_found_out(
    tmp_path, reboot, monkeypatch, act, owner, name, wrong, found
):
    monkeypatch.setattr(owner, name, wrong)
    most = 4 * MORE.get(act, SHORT)  # it ends where it is found
    assert survey(tmp_path, ACTS[act], most, reboot, until=found)[0][found]


def test_bytes_are_left_at_sectors(tmp_path):
    """What was not synced may be there, or not, or in part; what was synced is."""
    with pytest.MonkeyPatch.context() as patch:
        recorder = Recorder(tmp_path, patch)
        with recorder, (tmp_path / "file").open("wb") as file:
            file.write(b"a" * 700)
            file.flush()
            os.fsync(file.fileno())
            file.write(b"b" * 1_000)
    disk, found = Disk(recorder), set()
    for n in range(300):
        names, contents = disk.tree(len(disk.ops), random.Random(n))
        files = disk.files_of(names, contents)
        if files:
            found.add(files["file"])
        else:
            found.add(None)
    whole = b"a" * 700 + b"b" * 1_000
    assert {None, whole, whole[:700], whole[:1_024], whole[:1_536]} <= found
    assert whole[:700] + b"\0" * 1_000 in found
    assert all(each is None or each.startswith(b"a" * 700) for each in found)


TRACED = """
import json, os, sys
from pathlib import Path
import pytest
from tests.crash.power import Recorder
from tests.crash.power_acts import ACTS
from tests.crash.power_check import Act
from tests.crash.power_disk import Disk
root, act = Path(sys.argv[1]), ACTS[sys.argv[2]]
act.prepare(root)
with pytest.MonkeyPatch.context() as patch:
    recorder = Recorder(root, patch)
    with recorder:
        os.write(2, b"begins")
        act.perform(root, lambda what: None)
        os.write(2, b"is over")
print(json.dumps(Disk(recorder).calls()))
"""
CALLS = {
    "write": "write pwrite64 writev pwritev sendfile copy_file_range",
    "sync": "fsync fdatasync sync_file_range syncfs",
    "name": "link linkat rename renameat renameat2 unlink unlinkat rmdir mkdir mkdirat",
}


def seen(trace, root):
    """Count the calls that the system saw between the two marks, in what is recorded."""
    count = Counter()
    kinds = {name: kind for kind, names in CALLS.items() for name in names.split()}
    for line in trace.partition('"begins"')[2].partition('"is over"')[0].splitlines():
        call = re.search(r"^\d+ +(\w+)\((.*)", line)
        if call is None or call[1] not in kinds or "= -1" in line:
            continue
        place = call[2].split(",")[0] if kinds[call[1]] != "name" else call[2]
        names = [quoted[1:-1] for quoted in re.findall(r'"[^"]*"|<[^>]*>', place)]
        if kinds[call[1]] == "sync" and names[0].endswith("/.index"):
            continue  # SQLite makes its files there
        if any(name.startswith(root) for name in names) and all(
            is_recorded(name) and ("bells" not in name or kinds[call[1]] == "name")
            for name in names
        ):
            count[kinds[call[1]]] += 1
    return dict(count)


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
@pytest.mark.parametrize("act", ["append", "mail", "register", "night", "backup"])
def test_the_system_saw_the_calls_that_were_recorded(tmp_path, act):
    root = tmp_path / "disk"
    root.mkdir()
    calls = ",".join(name for names in CALLS.values() for name in names.split())
    done = subprocess.run(
        [
            *("strace", "-f", "-y", "-e", f"trace={calls}", "-o", f"{root}.trace"),
            *(sys.executable, "-c", TRACED, str(root), act),
        ],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=120,
    )
    if done.returncode and "PTRACE" in done.stderr:
        pytest.skip("this process may not trace")
    assert done.returncode == 0, done.stderr
    assert seen(Path(f"{root}.trace").read_text(), str(root)) == json.loads(done.stdout)


# -- the product -----------------------------------------------------------------------------------


@pytest.mark.parametrize("act", ACTS)
def test_a_power_cut_takes_nothing_that_was_acknowledged(tmp_path, reboot, act):
    most = MORE.get(act, SHORT)
    found, told = survey(tmp_path, ACTS[act], most, reboot)
    assert (found, told) == ({"cuts": most}, {})


@pytest.mark.parametrize("most", [SHORT, pytest.param(LONG, marks=pytest.mark.soak)])
@pytest.mark.parametrize("act", SEVERAL)
def test_a_hole_among_lines_that_no_sync_covered_is_closed(tmp_path, reboot, act, most):
    assert survey(tmp_path, ACTS[act], most, reboot, mood="hole") == ({"cuts": most}, {})


def test_an_opener_that_leaves_the_hole_is_found_out(tmp_path, reboot, monkeypatch):
    monkeypatch.setattr(tree, "close_holes", lambda *_: True)
    found, _ = survey(tmp_path, ACTS["migrate"], LONG, reboot, until="verify", mood="hole")
    assert found["verify"]


def zeroed(root, text):
    """Take the bytes of the line that holds this text, as a disk may that breaks."""
    (path,) = root.glob("journal/*.jsonl")
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(
        b"".join(b"\0" * (len(raw) - 1) + b"\n" if text in raw else raw for raw in lines)
    )


@pytest.mark.parametrize("machine", ["went down", "is up"])
def test_zeros_in_a_line_that_was_synced_are_named_and_nothing_is_given_up(
    tmp_path, reboot, machine
):
    root = tmp_path / "memory"
    with synapse.init(str(root), clock=lambda: now() - 600_000_000) as memory:
        memory.register(synapse.Agent("eng", read=["*"], write=["*"]))
        for n in range(4):
            memory.as_agent("eng").append(f"old {n}", "api/endpoints")
    with synapse.open(str(root)) as memory:
        for n in range(4):
            memory.as_agent("eng").append(f"new {n}", "api/endpoints")
            memory.as_agent("eng").read()
    zeroed(root, b"old 1" if machine == "went down" else b"new 1")
    if machine == "went down":
        reboot()
        accept(root)
    with synapse.open(str(root)) as memory:
        memory.as_agent("eng").read()
        assert not memory.verify().ok
        assert "repair" not in {record.kind for record in memory.store.log.since(0)}


@pytest.mark.soak
@pytest.mark.parametrize("act", ACTS.values(), ids=ACTS)
def test_five_hundred_power_cuts_of_each_act(tmp_path, reboot, act, capsys, request):
    found, told = survey(tmp_path, act, LONG, reboot, random.randrange(1 << 32))
    with capsys.disabled():
        print(f"\n{request.node.callspec.id}: {dict(found)}")
    assert (found, told) == ({"cuts": LONG}, {})
