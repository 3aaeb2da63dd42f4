import json
import os
import threading
import time
from pathlib import Path

import pytest

import synapse
from synapse import backup
from synapse.errors import Conflict, Forbidden, InvalidQuery, NotFound, StoreCorrupt
from synapse.model.agents import Agent


@pytest.fixture
def mem(tmp_path):
    with synapse.init(str(tmp_path / "team")) as mem:
        with open(f"{mem.store.root}/synapse.yaml", "a") as file:
            file.write("limits: {day: {usd: 20.0}}  # ours\n")
        with open(f"{mem.store.root}/team.yaml", "w") as file:
            file.write("cto: cto\n")
        mem.register(Agent("eng-a", read=("api/*",), write=("api/*",)))
        mem.register(Agent("gone"))
        me = mem.as_agent("eng-a")
        first = me.append("Grüße\n\n---\nnot: front matter", "api/x", topic="t")
        me.append("newer", "api/x", supersedes=first.id)
        me.archive(me.append("filed away", "api/x").id)
        os.unlink(f"{mem.store.root}/agents/gone.yaml")
        mem.store.refresh(whole=True)
        yield mem


def copy_of(path, to):
    """A new workspace with what a snapshot holds."""
    mem = synapse.init(str(to))
    backup.restore(mem.store, path)
    return mem


def test_a_restored_workspace_is_the_same(mem, tmp_path):
    with open(f"{mem.store.root}/agents/eng-a.yaml", "a") as file:
        file.write("# by hand\n")
    mem.store.refresh(whole=True)
    taken = backup.take(mem.store, str(tmp_path / "snapshots"))
    assert taken == backup.check(taken.path)
    assert taken.head == mem.verify().head
    with copy_of(taken.path, tmp_path / "copy") as copy:
        assert copy.digest() == mem.digest()
        assert copy.rebuild().digest == mem.digest()
        assert [*copy.export()] == [*mem.export()]
        assert copy.verify(taken.head).ok
        assert copy.agents() == mem.agents()
        assert [e.body for e in copy.as_agent("eng-a").read()] == ["newer"]
        for name in ("synapse.yaml", "team.yaml", "agents/eng-a.yaml"):
            with (
                open(f"{mem.store.root}/{name}") as one,
                open(f"{copy.store.root}/{name}") as other,
            ):
                assert one.read() == other.read()
        assert copy.as_agent("eng-a").append("goes on", "api/x").seq == taken.records + 1
        assert copy.store.settings == mem.store.settings


def test_a_snapshot_taken_while_others_write(mem, tmp_path):
    """Every one is a beginning of the log, and restores to a state that verifies."""
    over = threading.Event()

    def write():
        me = mem.as_agent("eng-a")
        while not over.is_set():
            me.append("more", "api/x")
            mem.register(Agent("eng-b", projects=[f"p{os.urandom(2).hex()}"]))

    writers = [threading.Thread(target=write) for _ in range(3)]
    for each in writers:
        each.start()
    try:
        taken = []
        for _ in range(3):
            while taken and len([*mem.export()]) <= taken[-1].records:
                time.sleep(0.001)
            taken.append(backup.take(mem.store, str(tmp_path / "snapshots")))
    finally:
        over.set()
        for each in writers:
            each.join(10)
    log = [*mem.export()]
    assert taken[0].records < taken[-1].records
    for n, each in enumerate(taken):
        with copy_of(each.path, tmp_path / f"copy-{n}") as copy:
            assert [*copy.export()] == log[: each.records]
            digest = copy.digest()
            assert copy.rebuild().digest == digest
            assert copy.verify(each.head).ok


def test_nothing_old_is_removed_unless_told(mem, tmp_path):
    place = str(tmp_path / "snapshots")
    paths = [backup.take(mem.store, place).path for _ in range(3)]
    with synapse.init(str(tmp_path / "other")) as other:
        other.register(Agent("eng-z"))
        foreign = backup.take(other.store, place).path
    os.mkdir(f"{place}/mine")
    assert [each.path for each in backup.listed(place)] == [*paths, foreign]
    last = backup.take(mem.store, place, keep=2).path
    assert [each.path for each in backup.listed(place)] == [paths[2], foreign, last]
    assert os.path.isdir(f"{place}/mine")
    with pytest.raises(InvalidQuery):
        backup.take(mem.store, place, keep=0)


@pytest.mark.parametrize("name", ["log.jsonl", "files/team.yaml", "manifest.json"])
def test_damage_is_found(mem, tmp_path, name):
    path = backup.take(mem.store, str(tmp_path / "snapshots")).path
    with open(f"{path}/{name}", "r+b") as file:
        file.seek(-3, os.SEEK_END)
        file.write(b"??")
    with pytest.raises(StoreCorrupt):
        backup.check(path)
    with synapse.init(str(tmp_path / "copy")) as copy:
        with pytest.raises(StoreCorrupt):
            backup.restore(copy.store, path)
        assert copy.store.log.mark()[1] == 0


def test_a_log_that_was_cut_is_found(mem, tmp_path):
    path = backup.take(mem.store, str(tmp_path / "snapshots")).path
    with open(f"{path}/log.jsonl") as file:
        lines = file.readlines()
    with open(f"{path}/log.jsonl", "w") as file:
        file.writelines(lines[:-1])
    with pytest.raises(StoreCorrupt, match=r"log\.jsonl"):
        backup.check(path)


def test_a_snapshot_names_no_file_outside_of_it(mem, tmp_path):
    path = backup.take(mem.store, str(tmp_path / "snapshots")).path
    with open(f"{path}/manifest.json") as file:
        told = json.load(file)
    told["files"]["../../out"] = "0" * 64
    with open(f"{path}/manifest.json", "w") as file:
        json.dump(told, file)
    with pytest.raises(StoreCorrupt, match="outside"):
        backup.check(path)


def test_where_it_does_not_belong_nothing_happens(mem, tmp_path, monkeypatch):
    with pytest.raises(InvalidQuery, match="itself"):
        backup.take(mem.store, f"{mem.store.root}/snapshots")
    with pytest.raises(NotFound):
        backup.check(str(tmp_path))
    path = backup.take(mem.store, str(tmp_path / "snapshots")).path
    with pytest.raises(Conflict):
        backup.restore(mem.store, path)
    monkeypatch.setenv("SYNAPSE_RUN", "r")
    monkeypatch.setenv("SYNAPSE_AGENT", "eng-a")
    with pytest.raises(Forbidden):
        backup.take(mem.store, str(tmp_path / "snapshots"))
    assert len(os.listdir(tmp_path / "snapshots")) == 1


def test_a_snapshot_is_no_workspace_and_says_how_it_is_restored(tmp_path):
    root = str(tmp_path / "snapshots")
    with synapse.init(str(tmp_path / "ws")) as memory:
        memory.register(synapse.Agent("a", role="cto"))
        memory.as_agent("a").append("kept", "api/x")
        path = backup.take(memory.store, root).path
    before = sorted(str(each) for each in Path(path).rglob("*"))
    for place in (path, f"{path}/files"):
        with pytest.raises(synapse.NotFound, match=r"import .*snapshots/.* restore it"):
            synapse.open(place)
    assert sorted(str(each) for each in Path(path).rglob("*")) == before
