"""Ended runs that lose their steps and prompts after a time: which, what stays, and who says so."""

import os
import shutil
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from io import BytesIO, TextIOWrapper
from itertools import count
from pathlib import Path

import pytest

import synapse
from orchestrator import Supervisor, Task
from orchestrator.cli import main
from orchestrator.engines.scripted import Move, Scripted
from orchestrator.nightly.job import past, spend
from orchestrator.nightly.retention import kept_for, trim_runs
from orchestrator.nightly.schedule import plan_of
from orchestrator.reports.rows import Source, find_runs
from orchestrator.reports.sums import sums
from orchestrator.reports.unread import unread_runs
from orchestrator.runs.files.folder import Folder
from orchestrator.runs.files.trim import NAMES, TRIMMED
from orchestrator.spend.reservations import ledgers
from synapse.errors import InvalidEntry
from synapse.model.entry import SECOND
from synapse.model.records import Record
from synapse.model.settings import Settings
from synapse.testing import FrozenClock
from tests.crash import kill
from tests.trusted import trust

START, DAY = "2026-02-01T09:00:00Z", 24 * 3_600 * SECOND
LATER = "2026-06-01T09:00:00Z"


def play(seen):
    """A lead that gives work to an engineer, and is told of it; one who asks blocks."""
    if "which port" in seen.text:
        return "Blocked: which port?"
    leads = " lead" in seen.system.split("\n")[0]
    if leads and seen.turn == 0:
        return Move("", (("spawn_agent", {"agent": "eng", "task": "Part"}),))
    return Move("", (("wait", {}),)) if leads and seen.turn == 1 else "Built."


def filled(path, *tasks):
    """A workspace in which these were asked for."""
    with synapse.init(str(path), clock=FrozenClock(START)) as memory:
        memory.register(synapse.Agent("lead", role="project-lead"))
        memory.register(synapse.Agent("eng"))
        with Supervisor(memory, engine=Scripted(play), memory_tools="always") as boss:
            return [boss.run(Task(task, agent, project="web")) for task, agent in tasks]


def opened(path, at=LATER):
    return synapse.open(str(path), clock=FrozenClock(at))


def left(path, run):
    """The names in a run's folder that a trim removes, and those that it does not."""
    names = set(os.listdir(path / "runs" / run))
    return names & {*NAMES}, names - {*NAMES}


def declare(path, text="retention: {runs: 90d}"):
    with (path / "synapse.yaml").open("a") as file:
        file.write(f"{text}\n")
    trust(path)


def shell(path, *words):
    told = TextIOWrapper(BytesIO(), write_through=True)
    with redirect_stdout(told), redirect_stderr(told):
        main(["--root", str(path), *words])
    told.seek(0)
    return told.read()


@pytest.mark.parametrize(
    ("text", "days"), [(None, None), ("never", None), ("90d", 90), ("1d", 1), ("24h", 1)]
)
def test_without_a_number_everything_is_kept(text, days):
    settings = Settings(other=(("retention", {"runs": text}),) if text else ())
    assert kept_for(settings) == (None if days is None else days * DAY)


@pytest.mark.parametrize("block", ["90d", {}, {"runs": "0d"}, {"runs": "1h"}, {"runs": "soon"}])
def test_a_setting_that_is_not_understood_trims_nothing(block):
    with pytest.raises(InvalidEntry, match="retention: write a block such as"):
        kept_for(Settings(other=(("retention", block),)))


def test_old_runs_keep_their_sums_and_their_results(tmp_path):
    """The night says how many there were; whoever looks at one is told why its steps are gone."""
    (result,) = filled(path := tmp_path / "ws", ("Build it", "lead"))
    assert result.status == "done"
    with opened(path) as memory:
        source = Source(memory.store, str(path))
        runs = find_runs(source)
        before = sums(source, "agent"), unread_runs(source, 0)
        booked = [
            len(lines)
            for _, lines in ledgers(partial(Folder, str(path)), [_Named(run) for run in runs])
        ]
        sizes = {run["run"]: sum(map(_size(path, run), NAMES)) for run in runs}
        spend(memory, _date(memory))
        assert all(left(path, run["run"])[0] for run in runs), "nothing is trimmed unasked"
    declare(path)
    with opened(path) as memory:
        source = Source(memory.store, str(path))
        spend(memory, _date(memory))
        for run in runs:
            gone, kept = left(path, run["run"])
            assert (gone, kept) == (set(), {"ledger.jsonl", "output.md", TRIMMED})
        assert (sums(source, "agent"), unread_runs(source, 0)) == before
        again = [
            len(lines)
            for _, lines in ledgers(partial(Folder, str(path)), [_Named(run) for run in runs])
        ]
        assert again == booked
        jobs = {job.job: job for job in past(memory.store, plan_of(memory.store.settings), 1)}
        assert jobs["retention"].state == "done"
        assert dict(jobs["retention"].told) == {"runs": 2, "bytes": sum(sizes.values())}
    told = shell(path, "ps", "--all")
    assert f"{result.run} on 2026-06-01" in told
    for words in (("receipt", result.run), ("replay", result.run), ("tail", result.run)):
        assert "it was trimmed on 2026-06-01 (`retention` in synapse.yaml)" in shell(path, *words)


def test_only_trees_that_have_ended_for_long_are_trimmed(tmp_path):
    """Not one that waits for an answer, nor a run above one that goes on, nor a young one."""
    tasks = [("Build it", "eng"), ("Build more", "eng"), ("Find out which port", "eng")]
    ended, above, waits = filled(path := tmp_path / "ws", *tasks)
    assert waits.status == "blocked"
    with opened(path, "2026-02-20T09:00:00Z") as memory:
        assert trim_runs(memory.store, str(path), 90 * DAY) == (0, 0)
    with opened(path) as memory:
        _begin_below(memory, above.run)
        waiting = find_runs(Source(memory.store, str(path)), state="waiting")
        assert [run["run"] for run in waiting] == [waits.run]
        assert trim_runs(memory.store, str(path), 90 * DAY).runs == 1
        assert trim_runs(memory.store, str(path), 90 * DAY).runs == 0
    assert not left(path, ended.run)[0]
    assert left(path, waits.run)[0]
    assert left(path, above.run)[0]


def test_what_is_in_the_folder_besides_stays(tmp_path):
    """An agent that was given no other folder works there."""
    (result,) = filled(path := tmp_path / "ws", ("Build it", "eng"))
    (path / "runs" / result.run / "main.py").write_text("work")
    with opened(path) as memory:
        trim_runs(memory.store, str(path), DAY)
    assert left(path, result.run) == (set(), {"ledger.jsonl", "output.md", "main.py", TRIMMED})


def trimming(path):
    with opened(path) as memory:
        trim_runs(memory.store, path, DAY)


def test_a_trim_that_is_killed_is_finished_by_the_next(tmp_path):
    """Wherever it is killed, a folder that lacks something says so."""
    filled(whole := tmp_path / "whole", ("Build it", "lead"))
    numbers = count()

    def fresh():
        path = tmp_path / f"ws{next(numbers)}"
        shutil.copytree(whole, path)
        return (str(path),)

    killed = 0
    for _, (root,) in kill.kills(trimming, fresh, 12):
        runs = [folder for folder in (Path(root) / "runs").iterdir() if "-" in folder.name]
        runs = [run for run in runs if run.is_dir()]
        had = {run.name: left(whole, run.name)[0] for run in runs}
        partly = [run for run in runs if left(Path(root), run.name)[0] != had[run.name]]
        assert all((run / TRIMMED).exists() for run in partly)
        killed += bool(partly)
        trimming(root)
        for run in runs:
            assert left(Path(root), run.name) == (set(), {"ledger.jsonl", "output.md", TRIMMED})
    assert killed


def _begin_below(memory, run):
    """Begin a run below one that has ended, as a team does; nobody goes on with it."""
    fields = {"run": "eng-0123456789", "root": run, "parent": run, "epoch": 1, "state": "running"}
    about = {"agent": "eng", "project": "web", "depth": 1, "task": "x", "asked": {}}
    memory.store.commit.append(Record.new("run", "eng", fields | about, key="run:eng-0123456789"))


class _Named:
    def __init__(self, run):
        self.run = run["run"]


def _size(path, run):
    folder = path / "runs" / run["run"]
    return lambda name: (folder / name).stat().st_size if (folder / name).exists() else 0


def _date(memory):
    from datetime import date

    return date.fromisoformat(LATER[:10])
