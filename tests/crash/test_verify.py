"""One changed byte anywhere makes `verify` fail; so do cutting, deleting, reordering and doubling.
`repair` mends the files, and never the journal.
"""

import os
import re
import shutil
import subprocess
import sys
import threading
import time

import pytest

import synapse
from synapse.integrity import repair
from synapse.log.mirror import block
from synapse.log.proof import Proof
from synapse.log.upkeep.tree import Tree
from synapse.model.clock import now
from synapse.model.entry import SECOND
from synapse.system.lock import Lock
from synapse.testing import FrozenClock

FLIPS = (0x01, 0x20, 0x80, 0xFF)
COARSE = (0x01, 0x20)


def grown(root, clock):
    """A small workspace with something of every class of file; nothing in it is left to do."""
    with synapse.init(str(root), clock=clock) as memory:
        memory.register(synapse.Agent("lead", role="cto"))
        memory.register(synapse.Agent("eng", read=["*"], write=["*"], teams=["core"]))
        memory.register(synapse.Agent("junior", read=["*"], write=["*"], review_required=True))
        eng, lead, junior = map(memory.as_agent, ("eng", "lead", "junior"))
        ids = [
            eng.append(f"body {n} — ü", "api/endpoints", tags=["a"], topic=f"t{n}").id
            for n in range(5)
        ]
        eng.archive(ids[:2], "done")
        lead.restore(ids[:1])
        lead.approve(junior.append("let me", "api/endpoints").id)
        junior.append("let me, too", "api/endpoints")
        eng.resolve(ids[2], note="it is")
        clock.advance("1m")
        eng.read(mark=True)
    clock.advance("1m")
    return root


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    clock = FrozenClock()
    root = grown(tmp_path_factory.mktemp("verify") / "memory", clock)
    with synapse.open(str(root), clock=clock) as memory:
        assert memory.verify().ok
    return root, clock


@pytest.fixture
def root(template, tmp_path):
    return shutil.copytree(template[0], tmp_path / "memory")


@pytest.fixture
def memory(root, template):
    with synapse.open(str(root), clock=template[1]) as memory:
        memory.store.refresh(whole=True)
        assert memory.verify().ok
        yield memory


def covered(root):
    """Every file that `verify` answers for."""
    tops = ("journal", "entries", "archive", "staging", "agents")
    return sorted(
        (root / "synapse.yaml", *(path for top in tops for path in (root / top).rglob("*.*")))
    )


def flipped(memory, path, changes):
    """Return which of these changes of one byte (offset, bits) went unseen."""
    raw, unseen = path.read_bytes(), []
    fd = os.open(path, os.O_WRONLY)
    for offset, flip in changes:
        os.pwrite(fd, bytes([raw[offset] ^ flip]), offset)
        if memory.verify().ok:
            unseen.append((path.name, offset, flip))
        os.pwrite(fd, raw[offset : offset + 1], offset)
    os.close(fd)
    assert memory.verify().ok
    return unseen


def every_byte(path, flips):
    """Return the changes of each byte of a file, in all of these ways."""
    return [(offset, flip) for offset in range(path.stat().st_size) for flip in flips]


def some_bytes(path):
    """Return fewer changes: each byte of a page in one of two ways; of the journal, each byte of
    its first line and of its last, and every thirteenth between.
    """
    raw = path.read_bytes()
    first, last = raw.find(b"\n") + 1, raw.rfind(b"\n", 0, -1) + 1
    return [
        (offset, COARSE[offset % 2])
        for offset in range(len(raw))
        if path.suffix != ".jsonl" or not first <= offset < last or offset % 13 == 0
    ]


def test_a_changed_byte_is_seen(memory, root):
    """Wherever it is in a page, and in every line of the journal."""
    kinds = {path.relative_to(root).parts[0] for path in covered(root)}
    assert kinds == {"journal", "entries", "archive", "staging", "agents", "synapse.yaml"}
    for path in covered(root):
        assert flipped(memory, path, some_bytes(path)) == []


@pytest.mark.parametrize(
    ("owner", "check", "place"),
    [
        (Proof, "_file", "entries"),
        (Proof, "_file", "staging"),
        (Proof, "_page", "archive"),
        (repair, "_undeclared", "agents"),
    ],
)
def test_a_verify_that_leaves_out_a_check_is_found_out(
    memory, root, monkeypatch, owner, check, place
):
    monkeypatch.setattr(owner, check, lambda *_: ())
    paths = [path for path in covered(root) if path.parent.is_relative_to(root / place)]
    assert flipped(memory, paths[0], some_bytes(paths[0])) != []


def test_a_verify_that_leaves_out_the_chain_is_found_out(memory, root, monkeypatch):
    """By a change in a text: other changes make a record that no writer could have written."""
    monkeypatch.setattr(Proof, "_wrong", lambda *_: None)
    path = journal(root)
    texts = [found.span(1) for found in re.finditer(rb'"text":"(.*?)"', path.read_bytes())]
    changes = [
        (offset, flip)
        for offset, flip in some_bytes(path)
        if any(start <= offset < end for start, end in texts)
    ]
    assert flipped(memory, path, changes) != []


@pytest.mark.soak
def test_a_changed_byte_is_seen_whatever_it_becomes(memory, root):
    """Every byte of every file, in ten ways."""
    total = 0
    for path in covered(root):
        changes = every_byte(path, (*FLIPS, 0x02, 0x04, 0x08, 0x10, 0x40, 0x7F))
        assert flipped(memory, path, changes) == []
        total += len(changes)
    print(f"{total} changes of one byte, 0 unseen")


def test_the_first_bad_record_is_named(memory, root):
    path = root / "journal" / "000000000001.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    for number, line in enumerate(lines, 1):
        path.write_bytes(
            b"".join(
                [*lines[: number - 1], line.replace(b'"kind":"', b'"kind":"x'), *lines[number:]]
            )
        )
        first = memory.verify().problems[0]
        assert first.where.startswith(f"record {number} ")
        assert f"line {number} " in first.what
    path.write_bytes(b"".join(lines))


# -- the journal -----------------------------------------------------------------------------------


def journal(root):
    return root / "journal" / "000000000001.jsonl"


def check_seen(memory, path, raw, head=None):
    path.write_bytes(raw)
    assert not memory.verify(head).ok


def test_a_cut_journal_is_seen(memory, root):
    """Wherever it is cut: within a line by itself, between lines by the index or a head kept
    elsewhere. At each place around the ends of lines, and at every eleventh within one.
    """
    raw = journal(root).read_bytes()
    ends = {0, len(raw), *(at + 1 for at, byte in enumerate(raw) if byte == 10)}
    near = {end + by for end in ends for by in (-2, -1, 0, 1)}
    cut_at(memory, root, sorted(near & {*range(len(raw))} | {*range(0, len(raw), 11)}))


@pytest.mark.soak
def test_a_journal_that_is_cut_anywhere_is_seen(memory, root):
    cut_at(memory, root, range(len(journal(root).read_bytes())))


def cut_at(memory, root, sizes):
    """Check that a journal of any of these sizes is seen."""
    path = journal(root)
    raw, head = path.read_bytes(), memory.verify().head
    for size in sizes:
        check_seen(memory, path, raw[:size])
        if size and raw[size - 1 : size] == b"\n":
            assert not memory.verify(head).ok
    path.write_bytes(raw)
    assert memory.verify(head).ok


def test_a_journal_cut_between_lines_is_seen_without_an_index_by_a_kept_head(root, template):
    path, heads = journal(root), []
    lines = path.read_bytes().splitlines(keepends=True)
    for count in range(len(lines) + 1):
        path.write_bytes(b"".join(lines[:count]))
        shutil.rmtree(root / ".index")
        with synapse.open(str(root), clock=template[1]) as memory:
            heads.append(memory.verify().head)
            assert all(
                memory.verify(head).problems[:1] == memory.verify().problems[:1] for head in heads
            )
            assert count == len(lines) or not memory.verify(f"{len(lines)}:{'0' * 64}").ok


def test_lines_deleted_doubled_or_moved_are_seen(memory, root):
    path = journal(root)
    lines = path.read_bytes().splitlines(keepends=True)
    for at in range(len(lines)):
        check_seen(memory, path, b"".join(lines[:at] + lines[at + 1 :]))
        check_seen(memory, path, b"".join(lines[: at + 1] + lines[at:]))
        check_seen(memory, path, b"".join([*lines, lines[at]]))
        if at:
            check_seen(
                memory,
                path,
                b"".join([*lines[: at - 1], lines[at], lines[at - 1], *lines[at + 1 :]]),
            )
            check_seen(memory, path, b"".join([lines[at], *lines[:at], *lines[at + 1 :]]))
    check_seen(memory, path, b"")
    path.unlink()
    assert not memory.verify().ok


def test_a_line_put_in_between_is_seen(memory, root):
    path = journal(root)
    lines = path.read_bytes().splitlines(keepends=True)
    for at in range(len(lines) + 1):
        for text in (b"{}\n", b"\n", b"x\n", b'{"seq":1}\n'):
            check_seen(memory, path, b"".join([*lines[:at], text, *lines[at:]]))


def test_a_journal_written_anew_is_seen_by_a_kept_head(memory, root, template, tmp_path):
    head = memory.verify().head
    other = grown(tmp_path / "other", FrozenClock("2026-02-01T09:00:01Z"))
    shutil.copy(journal(other), journal(root))
    assert not memory.verify(head).ok


def test_a_missing_or_misnamed_segment_is_seen(tmp_path):
    clock = FrozenClock()
    with synapse.init(str(tmp_path / "memory"), clock=clock) as memory:
        memory.store.log.journal.segment_bytes = 900
        memory.register(synapse.Agent("eng", read=["*"], write=["*"]))
        for n in range(9):
            memory.as_agent("eng").append(f"{n}", "api/endpoints")
        head = memory.verify().head
    segments = sorted((tmp_path / "memory" / "journal").glob("*.jsonl"))
    assert len(segments) > 3
    shutil.rmtree(tmp_path / "memory" / ".index")
    for segment in segments:
        for moved in (
            segment.with_suffix(".gone"),
            segment.with_name(f"{int(segment.stem) + 1:012d}.jsonl"),
        ):
            if moved.exists():
                continue
            segment.rename(moved)
            with synapse.open(str(tmp_path / "memory"), clock=clock) as memory:
                assert not memory.verify(head).ok
                assert segment == segments[-1] or not memory.verify().ok
            (tmp_path / "memory" / "journal" / segment.name).unlink(missing_ok=True)
            moved.rename(segment)
    with synapse.open(str(tmp_path / "memory"), clock=clock) as memory:
        assert memory.verify(head).ok


# -- files -----------------------------------------------------------------------------------------


def mendable(root):
    return [path for path in covered(root) if path.parts[-2] != "agents" and path.suffix == ".md"]


HARM = {
    "deleted": lambda path: path.unlink(),
    "cut": lambda path: os.truncate(path, path.stat().st_size - 1),
    "emptied": lambda path: path.write_text(""),
    "appended to": lambda path: path.write_bytes(path.read_bytes() + b"x"),
    "a link to itself": lambda path: path.unlink() or path.symlink_to(path),
    "a link to a copy": lambda path: (
        path.rename(path.with_suffix(".old")),
        path.symlink_to(path.with_suffix(".old")),
    ),
    "a pipe": lambda path: path.unlink() or os.mkfifo(path),
}


@pytest.mark.parametrize("harm", HARM)
@pytest.mark.parametrize("cold", [False, True])
def test_repair_puts_files_back(root, template, harm, cold):
    files = {path: path.read_bytes() for path in mendable(root)}
    with synapse.open(str(root), clock=template[1]) as memory:
        before = (
            memory.digest(),
            {entry.id: entry.body for entry in memory.as_agent("lead").read()},
        )
    for path, raw in files.items():
        HARM[harm](path)
        with synapse.open(str(root), clock=template[1]) as memory:
            report = memory.verify()
            assert not report.ok
            assert all(problem.mendable for problem in report.problems)
            assert any(str(path.relative_to(root)) in problem.where for problem in report.problems)
            if cold:
                memory.as_agent("lead").read()
            assert memory.repair().problems == ()
            assert {entry.id: entry.body for entry in memory.as_agent("lead").read()} == before[1]
        assert path.read_bytes() == raw or path.parent.name == "archive", (
            "a page is made of what is archived now"
        )
        assert not path.is_symlink()
        path.with_suffix(".old").unlink(missing_ok=True)


def test_repair_records_what_it_did(memory, root):
    path = mendable(root)[-1]
    path.write_text("something else")
    memory.repair()
    assert memory.audit(limit=1)[0].kind == "repair"
    count = memory.verify().records
    assert memory.repair().ok
    assert memory.verify().records == count, "nothing to do, nothing to record"


def test_what_cannot_be_put_back_is_recorded_as_lost(memory, root):
    path = next(
        path
        for path in mendable(root)
        if path.parts[-4] == "entries" or path.parts[-3] == "entries"
    )
    path.unlink()
    (path / "in the way").mkdir(parents=True)
    memory.repair()
    act = memory.audit(limit=1)[0]
    assert (act.kind, act.fields["lost"]) == ("repair", [path.stem])


def test_repair_waits_for_who_adds_to_a_page(memory, root):
    """An archive page is written anew with what others filed away meanwhile, not with what was
    proven before.
    """
    memory.store.refresh(whole=True)  # so that nothing else waits for the lock
    page = next((root / "archive").iterdir())
    page.write_bytes(page.read_bytes().replace(b"body", b"b0dy"))
    opened = threading.Event()
    late = block("syn-2026-02-01-99", b"filed away meanwhile")

    def add():
        with page.open("ab") as file:
            opened.set()
            time.sleep(0.3)
            file.write(late)

    lock = Lock(str(root / "journal" / "lock"))
    other = threading.Thread(target=lock.run, args=(add,))
    other.start()
    assert opened.wait(5)
    assert memory.repair().ok
    other.join(5)
    lock.close()
    assert late in page.read_bytes()
    assert b"b0dy" not in page.read_bytes()


def test_repair_changes_no_line_that_it_cannot_prove(memory, root):
    path = journal(root)
    raw = path.read_bytes()
    changed = raw.replace(b'"kind":"archive"', b'"kind":"restore"')
    path.write_bytes(changed)
    assert not memory.repair().ok
    assert path.read_bytes().startswith(changed)


_DIES_UNPLACED = """
import os, sys
import synapse
from synapse.log.upkeep.tree import Tree
Tree._follow = lambda tree, records: os.kill(os.getpid(), 9)
with synapse.open(sys.argv[1]) as memory:
    memory.as_agent("eng").append("no file yet", "api/endpoints")
"""


def killed_unplaced(root):
    command = [sys.executable, "-c", _DIES_UNPLACED, str(root)]
    assert subprocess.run(command, timeout=60).returncode == -9


def test_what_killed_writers_left_is_finished_not_reported(tmp_path):
    root = tmp_path / "memory"
    with synapse.init(str(root)) as memory:
        memory.register(synapse.Agent("eng", read=["*"], write=["*"]))
        memory.as_agent("eng").append("first", "api/endpoints")
    for _ in range(3):
        killed_unplaced(root)
    with synapse.open(str(root)) as memory:
        assert memory.verify().problems == ()
        assert len(list((root / "entries").rglob("*.md"))) == 4


def test_a_slow_proof_finishes_what_was_young_when_it_began(tmp_path, monkeypatch):
    """The entry is too young to be finished when the proof begins, and old enough at its end."""
    root, late, run = tmp_path / "memory", [0], Proof.run

    def slow(proof, head=None):
        late[0] += 3 * SECOND
        return run(proof, head)

    with synapse.init(str(root)) as memory:
        memory.register(synapse.Agent("eng", read=["*"], write=["*"]))
    killed_unplaced(root)
    monkeypatch.setattr(Proof, "run", slow)
    with synapse.open(str(root), clock=lambda: now() + late[0]) as memory:
        assert memory.verify().problems == ()


def test_a_verify_that_does_not_finish_is_found_out(tmp_path, monkeypatch):
    root = tmp_path / "memory"
    with synapse.init(str(root)) as memory:
        memory.register(synapse.Agent("eng", read=["*"], write=["*"]))
    killed_unplaced(root)
    monkeypatch.setattr(Tree, "place_missing", lambda tree: None)
    with synapse.open(str(root)) as memory:
        assert [problem.what for problem in memory.verify().problems]
