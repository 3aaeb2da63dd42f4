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
from synapse.model.agents import Agent
from tests.crash.killed import KILLED
from tests.crash.lives import begin

CALLS = "open rename unlink link fsync fdatasync write mkdir"
RESTORE = KILLED + (
    "import synapse\nfrom synapse import backup\n"
    f"kill_at(sys.argv[1], '{CALLS}')\n"
    "with synapse.open(sys.argv[2]) as memory: backup.restore(memory.store, sys.argv[3])\n"
)
TAKE = KILLED + (
    "import synapse\nfrom synapse import backup\n"
    f"kill_at(sys.argv[1], '{CALLS}')\n"
    "with synapse.open(sys.argv[2]) as memory: backup.take(memory.store, sys.argv[3], keep=1)\n"
)
NEVER = 1 << 30
LONG, SHORT = 1, 13  # calls from one kill to the next
AGENTS = ("eng-a", "eng-b", "eng-c")


@pytest.fixture
def root(tmp_path):
    root = tmp_path / "ws"
    with synapse.init(str(root)) as memory:
        for id in AGENTS:
            memory.register(Agent(id, "engineer", read=("*",), write=("*",)))
        for n in range(20):
            memory.as_agent("eng-a").append(f"It stays: {n}.", "decisions/y")
    (root / "team.yaml").write_text("task: none\n")
    return root


def killed(program, call, *args):
    life = begin("-c", program, call, *(str(arg) for arg in args))
    life.communicate(timeout=60)
    assert life.returncode in (0, -9)
    return life.returncode


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


def restores(root, tmp_path, step):
    """Yield what is wrong after each so many-th call of a restore, and at last how often it was
    killed.
    """
    with synapse.open(str(root)) as memory:
        snapshot = backup.take(memory.store, str(tmp_path / "snapshots")).path
    whole, target = held(root), tmp_path / "restored"
    for kills, call in enumerate(range(0, NEVER, step)):
        synapse.init(str(target)).close()
        empty = held(target)
        code = killed(RESTORE, call, target, snapshot)
        found = held(target)
        if found != whole and (code == 0 or found != empty):
            yield call, found
        if Begun(str(target)).names():
            yield call, "not finished"
        shutil.rmtree(target)
        if code == 0:
            yield kills
            return


def test_a_killed_restore_is_whole_or_did_not_begin(root, tmp_path):
    *wrong, kills = restores(root, tmp_path, SHORT)
    assert wrong == []
    assert kills > 5


@pytest.mark.soak
def test_a_restore_killed_at_every_call(root, tmp_path, capsys):
    *wrong, kills = restores(root, tmp_path, LONG)
    with capsys.disabled():
        print(f"\nkilled at {kills} calls")
    assert wrong == []
    assert kills > 50


def test_a_restore_that_nobody_finishes_is_found_out(root, tmp_path, monkeypatch):
    monkeypatch.setattr(Begun, "finish", lambda self, finishes: [])
    *wrong, _ = restores(root, tmp_path, SHORT)
    assert wrong != []


def backups(root, tmp_path, step):
    """Yield what a killed backup left that the next one did not remove; at last how often it was
    killed.
    """
    directory = tmp_path / "snapshots"
    for kills, call in enumerate(range(0, NEVER, step)):
        code = killed(TAKE, call, root, directory)
        with synapse.open(str(root)) as memory:
            taken = backup.take(memory.store, str(directory), keep=1)
            if [os.path.basename(taken.path)] != os.listdir(directory):
                yield call, os.listdir(directory)
        if code == 0:
            yield kills
            return


def test_nothing_is_left_of_a_killed_backup(root, tmp_path):
    *wrong, kills = backups(root, tmp_path, SHORT)
    assert wrong == []
    assert kills > 5


@pytest.mark.soak
def test_a_backup_killed_at_every_call(root, tmp_path, capsys):
    *wrong, kills = backups(root, tmp_path, LONG)
    with capsys.disabled():
        print(f"\nkilled at {kills} calls")
    assert wrong == []
    assert kills > 50


def test_a_backup_that_is_being_written_stays(root, tmp_path, monkeypatch):
    directory = tmp_path / "snapshots"
    check = backup.check

    def meanwhile(path):
        if os.path.basename(path).startswith("."):
            life = begin("-c", TAKE, NEVER, root, directory)
            life.communicate(timeout=60)
            assert life.returncode == 0
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
