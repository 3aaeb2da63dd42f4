"""A writer that dies at every step of every act, and after every byte of its line: whole or absent,
and provable.

SIGKILL from outside finds few of these points. Here the process "dies" by an exception that no one
catches, at the n-th call that changes the disk; what is left behind is opened by another, two
seconds later.
"""

import errno
import os
import shutil
import time
from collections import Counter

import pytest

import synapse
from synapse.log import adopt
from synapse.log import journal as journals
from synapse.model.clock import now

CHANGING = (
    "open",
    "write",
    "pwrite",
    "ftruncate",
    "link",
    "unlink",
    "rename",
    "mkdir",
    "chmod",
    "fdatasync",
    "fsync",
)
STAFF = [
    synapse.Agent("lead", role="cto"),
    synapse.Agent("eng", read=["*"], write=["*"]),
    synapse.Agent("junior", read=["*"], write=["*"], review_required=True),
]


RECORDS = len(STAFF) + 4 + 1 + 1


class Killed(BaseException):
    """The end of the process."""


class Death:
    """Ends the process at the n-th call that changes the disk; a write may have got some bytes out
    by then.
    """

    def __init__(self, monkeypatch, at, after=None):
        self.left, self.after, self.calls = at, after, 0
        for name in CHANGING:
            if hasattr(os, name):
                monkeypatch.setattr(os, name, self._dying(name, getattr(os, name)))

    def _dying(self, name, real):
        def call(*args, **kwargs):
            if name == "open" and not args[1] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
                return real(*args, **kwargs)  # it changes nothing
            self.calls += 1
            self.left -= 1
            if self.left == 0:
                if name == "write" and self.after is not None:
                    real(args[0], bytes(args[1])[: self.after])
                raise Killed(name)
            if self.left < 0:
                raise Killed("dead already")
            return real(*args, **kwargs)

        return call


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """A workspace with something of everything, whose every record is settled."""
    root = tmp_path_factory.mktemp("torn") / "memory"
    clock = iter(range(now() - 60_000_000, now(), 1_000)).__next__
    with synapse.init(str(root), clock=clock) as memory:
        for agent in STAFF:
            memory.register(agent)
        me = memory.as_agent("eng")
        ids = [me.append(f"entry {n}", "api/endpoints", topic=f"t{n}").id for n in range(4)]
        me.archive(ids[:1])
        memory.as_agent("junior").append("to be reviewed", "api/endpoints")
    return root


def dropped(root, inbox=False):
    folder = root / ("inbox/eng/new" if inbox else "entries/api/endpoints")
    folder.mkdir(parents=True, exist_ok=True)
    front = (
        "id: syn-x\nfrom: eng\ntimestamp: 2026-02-01T00:00:00Z\nnamespace:"
        " api/endpoints\npriority: info\n"
    )
    (folder / "drop.md").write_text(f"---\n{front}---\n\ndrop\n")


def live(memory):
    return [entry.id for entry in memory.as_agent("lead").read()]


ACTS = {
    "append": lambda memory: memory.as_agent("eng").append("body", "api/endpoints"),
    "append in a new namespace": lambda memory: memory.as_agent("eng").append(
        "body", "new/name/space"
    ),
    "append once": lambda memory: memory.as_agent("eng").append("body", "api/endpoints", once="k"),
    "stage": lambda memory: memory.as_agent("junior").append("body", "api/endpoints"),
    "approve": lambda memory: memory.as_agent("lead").approve(
        memory.as_agent("lead").staged()[0].id
    ),
    "reject": lambda memory: memory.as_agent("lead").reject(memory.as_agent("lead").staged()[0].id),
    "archive": lambda memory: memory.as_agent("eng").archive(live(memory)[:2]),
    "restore": lambda memory: memory.as_agent("lead").restore(
        ["syn-" + memory.store.log.at(4).id[4:]]
    ),
    "resolve": lambda memory: memory.as_agent("eng").resolve(live(memory)[0]),
    "register": lambda memory: memory.register(synapse.Agent("new", department="backend")),
    "adopt": lambda memory: memory.store.refresh(whole=True),
    "adopt from an inbox": lambda memory: memory.store.refresh(whole=True),
}


def prepared(template, root, act):
    shutil.copytree(template, root)
    if act.startswith("adopt"):
        dropped(root, inbox="inbox" in act)
    memory = synapse.open(str(root))
    memory.store._looked = time.monotonic() + 60
    memory.store.index.catch_up()
    return memory


def counted(template, root, act):
    """How many calls the act makes, and what the log is like before and after it."""
    with prepared(template, root, act) as memory:
        before = memory.store.log.mark()
        with pytest.MonkeyPatch.context() as patch:
            death = Death(patch, 1 << 30)
            ACTS[act](memory)
        assert memory.store.log.mark() > before
        return death.calls


def die(template, root, act, at, after=None):
    """The act, ended at a call. Whether it got as far as to return."""
    memory = prepared(template, root, act)
    try:
        with pytest.MonkeyPatch.context() as patch:
            Death(patch, at, after)
            try:
                ACTS[act](memory)
            except Killed:
                return False
        return True
    finally:
        memory.close()


def survives(root, acknowledged):
    """Opened by another, the workspace proves itself, goes on, and holds what was there, and the
    act or not.
    """
    with synapse.open(str(root), clock=lambda: now() + 10_000_000) as memory:
        lead = memory.as_agent("lead")
        lead.read()
        report = memory.verify()
        assert report.problems == ()
        records = [record for record in memory.store.log.since() if record.kind != "seal"]
        entries = [record for record in records if record.kind == "entry"]
        assert len({record.id for record in entries}) == len(entries)
        bodies = Counter(lead.get(record.id).body for record in entries)
        assert bodies - Counter(("drop", "body")) == Counter(
            (*(f"entry {n}" for n in range(4)), "to be reviewed")
        )
        acts = len(records) - RECORDS
        assert acts in ((1,) if acknowledged else (0, 1))
        memory.as_agent("eng").append("and it goes on", "api/endpoints")
        assert memory.verify(report.head).problems == ()
        assert memory.rebuild().digest == memory.digest()
    return acts


@pytest.mark.parametrize("act", ACTS)
def test_a_writer_may_die_at_every_step(template, tmp_path, act, monkeypatch):
    monkeypatch.setattr(adopt, "SETTLED", -1)
    calls = counted(template, tmp_path / "counted", act)
    survived = []
    for at in range(1, calls + 2):
        root = tmp_path / f"{at}"
        acknowledged = die(template, root, act, at)
        survived.append(survives(root, acknowledged))
        shutil.rmtree(root)
    assert survived == sorted(survived), "absent before the commit, whole after it"
    assert survived[-1] == 1
    assert survived[0] == act.startswith("adopt"), "a drop is adopted by whoever comes next"


def test_a_writer_may_die_after_every_byte_of_its_line(template, tmp_path):
    """Whatever is left of the line is sealed, and never read as a record, not even if it lacks its
    end alone.
    """
    with prepared(template, tmp_path / "line", "append") as memory:
        size = memory.store.log.mark()[1]
        ACTS["append"](memory)
        length = memory.store.log.mark()[1] - size
    for after in [*range(0, length - 3, 17), *range(length - 3, length)]:
        root = tmp_path / f"{after}"
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(journals, "write_all", dying_after(after))
            memory = prepared(template, root, "append")
            with pytest.raises(Killed):
                ACTS["append"](memory)
            memory.close()
        assert survives(root, acknowledged=False) == 0
        shutil.rmtree(root)


@pytest.mark.parametrize("after", [1, 80, 200, -2, -1])
def test_whoever_seals_a_torn_line_may_die_after_every_byte_too(template, tmp_path, after):
    with (
        prepared(template, tmp_path / "torn", "append") as memory,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(journals, "write_all", dying_after(after))
        with pytest.raises(Killed):
            ACTS["append"](memory)
    calls = 0
    while calls < 400:
        root = tmp_path / f"{calls}"
        shutil.copytree(tmp_path / "torn", root)
        with prepared_at(root) as memory, pytest.MonkeyPatch.context() as patch:
            patch.setattr(journals, "write_all", dying_after(calls, over_all=True))
            try:
                ACTS["append"](memory)
            except Killed:
                done = False
            else:
                done = True
        assert survives(root, acknowledged=done) == done
        shutil.rmtree(root)
        calls += 23 if calls > 3 else 1


def prepared_at(root):
    memory = synapse.open(str(root))
    memory.store._looked = time.monotonic() + 60
    return memory


def dying_after(count, over_all=False):
    """A `write_all` that gets so many bytes out, of its one call or of all of them."""
    left = [count]

    def write_all(fd, raw):
        size = left[0] if left[0] >= 0 else len(raw) + left[0]
        os.write(fd, bytes(raw)[:size])
        left[0] -= len(raw)
        if not over_all or left[0] < 0:
            raise Killed

    return write_all


@pytest.mark.parametrize("segment", [1, 600, 1_200])
def test_writers_may_die_around_the_end_of_a_segment(template, tmp_path, segment):
    def small(root, clock=now):
        memory = synapse.open(str(root), clock=clock)
        memory.store.log.journal.segment_bytes = segment
        memory.store._looked = time.monotonic() + 60
        return memory

    root = tmp_path / "memory"
    shutil.copytree(template, root)
    acknowledged = []
    for at in range(1, 60):
        memory = small(root)
        with pytest.MonkeyPatch.context() as patch:
            Death(patch, at % 17 + 1, after=at * 29 % 600)
            try:
                acknowledged.append(memory.as_agent("eng").append(f"body {at}", "api/endpoints").id)
            except Killed:
                pass
        memory.close()
    with synapse.open(str(root), clock=lambda: now() + 10_000_000) as memory:
        shown = [entry.id for entry in memory.as_agent("eng").read()]
        assert memory.verify().problems == ()
        assert set(acknowledged) <= set(shown)
        assert len(shown) == len(set(shown))
        assert len(list((root / "journal").glob("*.jsonl"))) > 3


# -- what was undone is not done again -------------------------------------------------------------


def at(root, moment):
    memory = synapse.open(str(root), clock=lambda: moment)
    memory.as_agent("lead").read()
    return memory


def everything(memory):
    lead = memory.as_agent("lead")
    return sorted(entry.body for entry in [*lead.read(), *lead.read(archived=True), *lead.staged()])


@pytest.mark.parametrize("kind", ["written", "approved", "restored"])
def test_an_entry_filed_away_at_once_does_not_come_back(template, tmp_path, monkeypatch, kind):
    """Whoever finishes what dead writers left undone acts on records that are two seconds old: not
    on what they said then, but on where the entry is now.
    """
    monkeypatch.setattr(adopt, "SETTLED", -1)
    root, begun = shutil.copytree(template, tmp_path / "memory"), now() + 100_000_000
    with at(root, begun) as memory:
        lead = memory.as_agent("lead")
        if kind == "written":
            id = memory.as_agent("eng").append("body", "api/endpoints").id
        elif kind == "approved":
            id = lead.approve(lead.staged()[0].id).id
        else:
            id = lead.restore([entry.id for entry in lead.read(archived=True)])[0].id
        before = everything(memory)
    with at(root, begun + 1_000_000) as memory:
        memory.as_agent("lead").archive([id])
    for seconds in (2.5, 2.6, 9, 10):
        with at(root, begun + int(seconds * 1_000_000)) as memory:
            assert everything(memory) == before
            assert memory.verify().problems == ()
    assert not list(root.glob(f"*/api/endpoints/{id}.md"))


def test_files_that_are_about_to_be_filed_away_are_not_taken_for_new_ones(
    template, tmp_path, monkeypatch
):
    monkeypatch.setattr(adopt, "SETTLED", -1)
    root = shutil.copytree(template, tmp_path / "memory")
    with at(root, now()) as memory:
        before = everything(memory)
        with monkeypatch.context() as patch:
            patch.setattr(os, "unlink", lambda *_, **__: None)
            memory.as_agent("eng").archive(live(memory))
        assert everything(memory) == before
    with at(root, now() + 1) as memory:
        assert everything(memory) == before
    with at(root, now() + 10_000_000) as memory:
        assert everything(memory) == before
        assert not list(root.glob("entries/**/*.md"))


def test_a_block_of_a_page_that_was_torn_makes_room_for_the_next(template, tmp_path):
    """Wherever its writer died: what comes next would be read as the rest of its text."""
    with at(shutil.copytree(template, tmp_path / "whole"), now()) as memory:
        ids, root = live(memory)[:2], tmp_path / "whole"
        memory.as_agent("eng").archive(ids[:1])
        page = next(root.glob("archive/*.md")).name
        before = (template / "archive" / page).read_bytes()
        added = (root / "archive" / page).read_bytes().removeprefix(before)
    for after in [*range(0, len(added), 23), len(added) - 1]:
        root = shutil.copytree(template, tmp_path / f"{after}")
        with at(root, now()) as memory:
            (root / "archive" / page).write_bytes(before + added[:after])
            memory.as_agent("eng").archive(ids[1:])
            memory.as_agent("eng").archive(ids[:1])
            assert memory.verify().problems == ()
            text = (root / "archive" / page).read_bytes()
            assert text.startswith(before)
            assert text.endswith(added)
        shutil.rmtree(root)


def test_what_people_write_below_a_page_stays(template, tmp_path):
    root = shutil.copytree(template, tmp_path / "memory")
    with at(root, now()) as memory:
        page = next(root.glob("archive/*.md"))
        noted = page.read_bytes() + b"<!-- a remark, and no line end"
        page.write_bytes(noted)
        memory.as_agent("eng").archive(live(memory))
        assert page.read_bytes().startswith(noted)
        problems = memory.verify().problems
        assert [(problem.where, problem.mendable) for problem in problems] == [
            (f"archive/{page.name}", True)
        ]
        assert "between" in problems[0].what
        assert memory.repair().ok


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO], ids=errno.errorcode.get)
def test_a_file_that_could_not_be_put_is_put_when_the_disk_works(
    template, tmp_path, monkeypatch, code
):
    """Neither its writer nor the first that finished its work could: the second does."""
    root = shutil.copytree(template, tmp_path / "memory")

    def fails(*args, **more):
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patch:
        patch.setattr(os, "link", fails)
        with at(root, now()) as memory:
            memory.as_agent("eng").append("first", "api/endpoints")
            memory.as_agent("eng").append("second", "api/endpoints")
        with at(root, now() + 10_000_000) as memory:
            assert len(memory.verify().problems) == 2
    with at(root, now() + 20_000_000) as memory:
        assert memory.verify().problems == ()


def test_a_file_that_can_never_be_put_holds_up_no_other(template, tmp_path):
    root = shutil.copytree(template, tmp_path / "memory")
    with at(root, now()) as memory:
        ids = [memory.as_agent("eng").append("x", f"new/{n}").id for n in range(2)]
    shutil.rmtree(root / "entries" / "new")
    (root / "entries" / "new").mkdir()
    (root / "entries" / "new" / "0").write_text("a file in the place of a folder")
    with at(root, now() + 10_000_000) as memory:
        assert [problem.where for problem in memory.verify().problems] == [
            f"entries/new/0/{ids[0]}.md"
        ]


def test_a_page_of_the_archive_is_written_whole_where_writes_are_short(
    template, tmp_path, monkeypatch
):
    root, real = shutil.copytree(template, tmp_path / "memory"), os.write
    with at(root, now()) as memory, monkeypatch.context() as patch:
        ids = live(memory)
        patch.setattr(os, "write", lambda fd, raw: real(fd, bytes(raw)[: max(1, len(raw) // 2)]))
        memory.as_agent("eng").archive(ids)
        assert memory.verify().problems == ()


def test_what_stays_on_a_page_after_it_was_restored_is_proven_too(template, tmp_path):
    root = shutil.copytree(template, tmp_path / "memory")
    with at(root, now()) as memory:
        lead = memory.as_agent("lead")
        lead.restore([entry.id for entry in lead.read(archived=True)])
        page = next(root.glob("archive/*.md"))
        page.write_bytes(page.read_bytes().replace(b"entry 0", b"entry 9"))
        assert not memory.verify().ok
        assert memory.repair().ok
