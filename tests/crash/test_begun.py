"""SIGKILL of a backup and of a restore at their calls of the system, with a reader behind each: a
restore is whole or did not begin, and nothing is left of a killed backup.
"""

import os
import shutil

import pytest

import synapse
from synapse import backup
from synapse.cli import main
from synapse.log.begun import Begun
from tests.crash import kill


def restore(root, snapshot):
    with synapse.open(root) as memory:
        backup.restore(memory.store, snapshot)


def take(root, directory):
    with synapse.open(root) as memory:
        backup.take(memory.store, directory, keep=1)


@pytest.fixture
def root(root):
    (root / "team.yaml").write_text("task: none\n")
    return root


def held(root):
    """All that somebody who opens a workspace finds there."""
    with synapse.open(str(root)) as memory:
        memory.store.refresh()
        report = memory.verify()
        reader = memory.as_agent("eng-b") if "eng-b" in memory.store.agents.all() else None
        bodies = sorted(entry.body for entry in reader.read(limit=None)) if reader else []
        acts = [record.kind for record in memory.store.log.since(0)]
        agents = sorted(agent.id for agent in memory.agents())
    team = (root / "team.yaml").exists()
    return {"ok": report.ok, "bodies": bodies, "acts": acts, "agents": agents, "team": team}


def restores(root, tmp_path, most):
    """Yield what is wrong after each kill of a restore, and at last how many there were."""
    with synapse.open(str(root)) as memory:
        snapshot = backup.take(memory.store, str(tmp_path / "snapshots")).path
    whole, target, count = held(root), tmp_path / "restored", 0

    def fresh():
        shutil.rmtree(target, ignore_errors=True)
        synapse.init(str(target)).close()
        return target, snapshot

    fresh()
    empty = held(target)
    for at, _ in kill.kills(restore, fresh, most):
        found, count = held(target), count + 1
        if found not in (whole, empty):
            yield at, found
        if Begun(str(target)).names():
            yield at, "not finished"
    yield count


@pytest.mark.parametrize("most", kill.POINTS)
def test_a_killed_restore_is_whole_or_did_not_begin(root, tmp_path, most):
    *wrong, count = restores(root, tmp_path, most)
    assert wrong == []
    assert count > 5


def test_a_restore_that_nobody_finishes_is_found_out(root, tmp_path, monkeypatch):
    monkeypatch.setattr(Begun, "finish", lambda self, finishes: [])
    *wrong, _ = restores(root, tmp_path, 12)
    assert wrong != []


@pytest.mark.parametrize("most", kill.POINTS)
def test_nothing_is_left_of_a_killed_backup(root, tmp_path, most):
    directory, left, count = tmp_path / "snapshots", [], 0
    for at, _ in kill.kills(take, lambda: (root, directory), most):
        with synapse.open(str(root)) as memory:
            taken, count = backup.take(memory.store, str(directory), keep=1), count + 1
        left += [(at, name) for name in os.listdir(directory) if name not in taken.path]
    assert left == []
    assert count > 5


def test_a_backup_that_is_being_written_stays(root, tmp_path, monkeypatch):
    directory = tmp_path / "snapshots"
    check = backup.check

    def meanwhile(path):
        if os.path.basename(path).startswith("."):
            kill.calls(take, root, directory)
            assert os.path.isdir(path)
        return check(path)

    monkeypatch.setattr(backup, "check", meanwhile)
    with synapse.open(str(root)) as memory:
        backup.take(memory.store, str(directory))
    assert len(os.listdir(directory)) == 2


def test_the_doctor_names_what_cannot_be_finished(root, capsys):
    begun = root / ".index/begun"
    begun.mkdir(exist_ok=True)
    (begun / "restore.json").write_text('{"path": "/nowhere"}')
    for name in os.listdir(root / "journal"):
        if name.endswith(".jsonl"):
            os.truncate(root / "journal" / name, 0)
    assert main(["--root", str(root), "doctor"]) == 6
    assert "restore is not finished" in capsys.readouterr().out
    os.unlink(begun / "restore.json")
    main(["--root", str(root), "doctor"])
    assert "not finished" not in capsys.readouterr().out
