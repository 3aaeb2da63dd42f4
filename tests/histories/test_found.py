"""What histories found, each as its few steps: a fault that is over leaves nothing behind."""

import errno
import os
import shutil

import pytest

import synapse
from synapse.log import adopt
from synapse.log.commit import Commit
from synapse.log.files import FilesLog
from synapse.log.upkeep import tree
from synapse.mail.mailbox import Mail

DROP = "from: eng\ntimestamp: 2026-02-01T08:00:00Z\nnamespace: api/x\npriority: info\n"


class Killed(BaseException):
    """The end of the process."""


@pytest.fixture
def root(tmp_path, clock, monkeypatch):
    """A workspace; whatever lies in its tree is taken in at the next look, and folders count as
    seen at once.
    """
    monkeypatch.setattr(adopt, "SETTLED", float("-inf"))
    monkeypatch.setattr(tree.time, "time", lambda real=tree.time.time: real() + 60)
    root = tmp_path / "memory"
    with synapse.init(str(root), clock=clock) as mem:
        mem.register(synapse.Agent("lead", role="cto"))
        mem.register(synapse.Agent("eng", read=["*"], write=["*"]))
        mem.register(synapse.Agent("junior", read=["*"], write=["*"], review_required=True))
    return root


def opened(root, clock):
    return synapse.open(str(root), clock=clock)


def look(mem):
    mem.store.refresh(whole=True)


def bodies(mem):
    return {entry.body for entry in mem.as_agent("lead").read(limit=None)}


def fails(code):
    def call(*args, **more):
        raise OSError(code, os.strerror(code))

    return call


def drop(root, who="eng"):
    path = root / "entries" / "api" / "x" / "dropped.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    text = DROP.replace("eng", who)
    path.write_text(f"---\n{text}---\n\ndropped\n")


def test_a_drop_waits_for_who_comes_next_if_its_adopter_dies(root, clock, monkeypatch):
    """The folder counted as seen before the file in it was taken in."""
    drop(root)

    def dies(*args, **more):
        raise Killed

    with opened(root, clock) as mem, monkeypatch.context() as patch:
        patch.setattr(Commit, "append_all", dies)
        with pytest.raises(Killed):
            look(mem)
    with opened(root, clock) as mem:
        look(mem)
        assert bodies(mem) == {"dropped"}


@pytest.mark.parametrize("name", ["fdatasync", "listdir"])
def test_a_drop_waits_for_a_disk_that_works(root, clock, monkeypatch, name):
    real = getattr(os, name)

    def call(place):
        if name == "fdatasync" or str(place).endswith("entries/api/x"):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return real(place)

    with opened(root, clock) as mem:
        look(mem)
        drop(root)
        with monkeypatch.context() as patch:
            patch.setattr(os, name, call)
            look(mem)
        look(mem)
        assert bodies(mem) == {"dropped"}


def test_a_drop_waits_for_room_in_the_queue(root, clock):
    """Also where nothing else happens in its folder."""
    path = root / "synapse.yaml"
    path.write_text(path.read_text().replace("limit: 100", "limit: 1"))
    with opened(root, clock) as mem:
        first = mem.as_agent("junior").append("first", "api/y").id
        drop(root, "junior")
        look(mem)
        assert [entry.body for entry in mem.as_agent("lead").staged()] == ["first"]
        mem.as_agent("lead").approve(first)
        look(mem)
        assert [entry.body for entry in mem.as_agent("lead").staged()] == ["dropped"]


def test_an_edit_of_an_agent_waits_for_a_disk_that_works(root, clock, monkeypatch):
    """Its file counted as read though it could not be."""
    path = root / "agents" / "eng.yaml"
    with opened(root, clock) as mem:
        look(mem)
        path.write_text(path.read_text() + "department: web\n")
        with monkeypatch.context() as patch:
            patch.setattr(FilesLog, "declared_raw", fails(errno.EIO))
            look(mem)
            assert mem.store.operator_files.complaints
        look(mem)
        declared = {agent.id: agent.department for agent in mem.agents()}
        assert declared["eng"] == "web"
        assert mem.store.operator_files.complaints == {}


@pytest.mark.parametrize("act", ["archive", "restore", "approve", "reject"])
def test_an_act_that_was_taken_back_moves_no_file(root, clock, monkeypatch, act):
    """It could not be synced, so a void follows it; `verify` asked for its files all the same."""
    with opened(root, clock) as mem:
        eng, lead = mem.as_agent("eng"), mem.as_agent("lead")
        ids = {
            "archive": eng.append("one", "api/x").id,
            "restore": eng.append("two", "api/x").id,
            "approve": mem.as_agent("junior").append("three", "api/x").id,
        }
        ids["reject"] = ids["approve"]
        eng.archive(ids["restore"])
        with monkeypatch.context() as patch:
            patch.setattr(os, "fdatasync", fails(errno.EIO))
            with pytest.raises(synapse.StoreError):
                getattr(lead, act)(ids[act])
        clock.advance("10s")
        assert mem.verify().problems == ()
        getattr(lead, act)(ids[act])
        clock.advance("10s")
        assert mem.verify().problems == ()


def test_nothing_is_written_under_the_lock_of_a_folder_that_was_replaced(root, clock):
    """By a process that had opened the lock, and no file of the journal yet."""
    early, late = opened(root, clock), opened(root, clock)
    late.as_agent("eng").append("before", "api/x")
    folder = root / "journal"
    shutil.copytree(folder, root / "copy")
    folder.rename(root / "old")
    (root / "copy").rename(folder)
    shutil.rmtree(root / "old")
    for mem in (early, late):
        with pytest.raises(synapse.errors.StoreBusy, match="try again"):
            mem.as_agent("eng").append("under another lock", "api/x")
        mem.as_agent("eng").append("again", "api/x")
        assert mem.store.log.journal.lock.stands()
        mem.close()
    with opened(root, clock) as mem:
        assert mem.verify().ok


def test_the_end_of_a_file_that_was_replaced_is_read_before_the_next(root, clock):
    """Who had it open went on with the next file, and finished nothing that stood between."""
    path = root / "journal" / "000000000001.jsonl"
    with opened(root, clock) as mem, opened(root, clock) as other:
        for each in (mem, other):
            each.as_agent("eng").append("before", "api/x")
        clock.advance("10s")
        mem.store.tree.finish()
        shutil.copyfile(path, root / "copy")
        (root / "copy").rename(path)
        late = other.as_agent("eng").append("late", "api/x")
        (root / "entries" / "api" / "x" / f"{late.id}.md").unlink()
        other.store.log.journal.segment_bytes = 1
        other.as_agent("eng").append("in the next", "api/x")
        clock.advance("10s")
        mem.store.tree.finish()
        clock.advance("10s")
        assert mem.verify().problems == ()


def test_the_folder_of_a_thread_that_comes_back_is_read_by_all(root, clock):
    """Who had it open before it went read on in the one that was removed."""
    with opened(root, clock) as mem, opened(root, clock) as other:
        eng, lead = Mail(mem.as_agent("eng")), Mail(mem.as_agent("lead"))
        first = eng.send("lead", "one")
        clock.advance("10s")
        assert other.verify().ok
        mem.as_agent("eng").archive(first.id)
        lead.reply(first.id, "two")
        clock.advance("10s")
        assert other.verify().problems == ()
        assert other.repair().mended == ()
