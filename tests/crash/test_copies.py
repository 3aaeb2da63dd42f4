"""A run whose steps are missing, or are a copy, is not done again: not one of its tool calls."""

import os
import shutil
import subprocess
from collections import Counter

import pytest

import synapse
from orchestrator.runs.files.folder import LEDGER, MARK, STEPS, Folder
from synapse import backup
from tests.crash.test_supervisor_kill import live, workspace

ENGINEERS = ("eng-a", "eng-b", "eng-c")


@pytest.fixture
def dead(tmp_path):
    """A workspace whose supervisor died in the middle of its team's work; and the log of calls."""
    root, log = workspace(tmp_path / "team"), tmp_path / "calls"
    assert live(root, log, "--die", "after", "result", "9") is None
    assert log.exists()
    return root, log


def runs_of(root):
    with synapse.open(str(root)) as memory:
        memory.store.refresh()
        return {run["agent"]: run for run in memory.store.index.current.runs()}


def furthest(root):
    """The folder of the engineer's run that had come furthest."""
    runs = [run for agent, run in runs_of(root).items() if agent in ENGINEERS]
    folders = [Folder(str(root), run["run"]) for run in runs if run["state"] == "running"]
    return max(folders, key=lambda folder: len([*folder.lines(STEPS)]))


def repeated(*logs):
    keys = Counter(key for log in logs for key in log.read_text().split())
    return [key for key, times in keys.items() if times > 1]


def without_folder(folder):
    shutil.rmtree(folder.path)


def without_steps(folder):
    os.unlink(os.path.join(folder.path, STEPS))


def without_steps_and_ledger(folder):
    without_steps(folder)
    os.unlink(os.path.join(folder.path, LEDGER))


def emptied(folder):
    os.truncate(os.path.join(folder.path, STEPS), 0)


def marked_steps(folder):
    """The lines that the mark counts: something may have been done by each. A kill may have left
    another whole one behind them, by which nothing was done.
    """
    with open(os.path.join(folder.path, MARK), encoding="utf-8") as file:
        length = int(file.read().split()[1])
    with open(os.path.join(folder.path, STEPS), "rb") as file:
        return file.read(length).splitlines(keepends=True)


def cut(lines, marked=True):
    """Cut off the last lines that the mark counts, in place."""

    def damage(folder):
        rest = b"".join(marked_steps(folder)[:-lines])
        os.truncate(os.path.join(folder.path, STEPS), len(rest))
        if not marked:
            os.unlink(os.path.join(folder.path, MARK))

    return damage


def torn(folder):
    """Cut into the last line that the mark counts."""
    length = len(b"".join(marked_steps(folder)))
    os.truncate(os.path.join(folder.path, STEPS), length - 20)


def replaced(folder):
    """Put an older state of the steps there, as a restored file is."""
    path = os.path.join(folder.path, STEPS)
    older = b"".join(marked_steps(folder)[:-1])
    os.unlink(path)
    with open(path, "wb") as file:
        file.write(older)


DAMAGES = {
    "no folder": without_folder,
    "no steps": without_steps,
    "neither steps nor ledger": without_steps_and_ledger,
    "emptied": emptied,
    "one line less": cut(1),
    "two lines less": cut(2),
    "five lines less": cut(5),
    "a turn less, and no mark": cut(5, marked=False),
    "torn": torn,
    "replaced": replaced,
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_run_whose_steps_are_missing_ends_as_failed(dead, name):
    root, log = dead
    folder = furthest(root)
    DAMAGES[name](folder)
    assert live(root, log) is not None
    assert repeated(log) == []
    runs = {run["run"]: run for run in runs_of(root).values()}
    damaged = runs.pop(os.path.basename(folder.path))
    assert damaged["status"] == "failed"
    assert "are not all known" in damaged["why"]
    assert {run["state"] for run in runs.values()} == {"ended"}
    others = [run["status"] for run in runs.values() if run["agent"] in ENGINEERS]
    assert others == ["done", "done"]


def test_a_supervisor_that_takes_missing_steps_for_none_is_found(dead, tmp_path):
    root, log = dead
    without_steps(furthest(root))
    assert live(root, log, "--wrong", "evidence") is not None
    assert repeated(log) != []


def test_a_copy_leaves_running_runs_to_the_original(dead, tmp_path):
    root, log = dead
    copy, copied_log = tmp_path / "copy", tmp_path / "copied calls"
    subprocess.run(["cp", "-a", root, copy], check=True)
    copied_log.touch()
    assert live(copy, copied_log) is not None
    assert live(root, log).startswith("done")
    assert repeated(log, copied_log) == []
    assert {run["status"] for run in runs_of(root).values()} == {"done"}
    copied = runs_of(copy).values()
    assert {run["state"] for run in copied} == {"ended"}
    assert [run["run"] for run in copied if "they are a copy" in (run["why"] or "")] != []


def test_a_restored_snapshot_leaves_its_runs_undone(dead, tmp_path):
    root, log = dead
    restored, restored_log = tmp_path / "restored", tmp_path / "restored calls"
    with synapse.open(str(root)) as memory:
        snapshot = backup.take(memory.store, str(tmp_path / "snapshots"))
    with synapse.init(str(restored)) as memory:
        backup.restore(memory.store, snapshot.path)
    restored_log.touch()
    assert live(restored, restored_log) is not None
    assert live(root, log).startswith("done")
    assert repeated(log, restored_log) == []
    ended = runs_of(restored).values()
    assert {run["state"] for run in ended} == {"ended"}
    assert "failed" in {run["status"] for run in ended}


def test_a_workspace_that_is_moved_goes_on(dead, tmp_path):
    root, log = dead
    moved = tmp_path / "moved"
    os.rename(root, moved)
    assert live(moved, log).startswith("done")
    assert repeated(log) == []
    assert {run["status"] for run in runs_of(moved).values()} == {"done"}
