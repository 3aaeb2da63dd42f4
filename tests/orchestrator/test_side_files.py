"""One damaged side file stops nobody: the run whose file it is ends, everybody else works."""

import os

import pytest

from orchestrator import Supervisor, Task
from orchestrator.engines.scripted import Move, Scripted
from orchestrator.runs.files.folder import LEDGER, STEPS
from synapse.cli import doctor

BAD_LINES = ("[1,2]\n", "{\n", '{"n":"x","epoch":1,"kind":"turn"}\n', "null\n", "\udcff\n")


def done(seen):
    return "Done."


def budget_path(here):
    return os.path.join(here.mem.store.root, "runs", "spend.db")


def standing(supervisor, run):
    costs = supervisor.run_store.costs
    return {
        scope.name: costs.budget.standing(scope.name).spent
        for scope in costs._where(supervisor.run_store.known(run))
    }


def again(here, text="Once more"):
    """The result of a task under a supervisor that has yet to open anything."""

    async def all_of_it():
        async with other:
            return await other.spawn(Task(text, "eng-b"))

    with Supervisor(here.mem, engine=Scripted(done), seed=8, inline=True) as other:
        return here.time.run(all_of_it())


@pytest.mark.parametrize("line", BAD_LINES)
def test_a_damaged_line_of_a_ledger_stops_nobody(world, line):
    here = world(done)
    run = here.spawn("Work", "eng-a").run
    here.folder(run).record(LEDGER, line)
    here.supervisor.close()
    os.unlink(budget_path(here))
    assert again(here).done
    named = [f.detail for f in doctor.workspace(here.mem.store.root, here.mem)]
    if line != BAD_LINES[2]:  # that one is an object, and says nothing
        assert any(f"runs/{run}/{LEDGER} line 2" in detail for detail in named)


@pytest.mark.parametrize("damage", ["header", "middle", "cut", "no database"])
def test_a_damaged_budget_is_made_again(world, damage):
    here = world(done)
    run = here.spawn("Work", "eng-a").run
    before = standing(here.supervisor, run)
    here.supervisor.close()
    path = budget_path(here)
    size = os.path.getsize(path)
    with open(path, "r+b") as file:
        if damage == "cut":
            file.truncate(size // 2 + 100)
        elif damage == "no database":
            file.write(os.urandom(size))
        else:
            file.seek(0 if damage == "header" else 4096)
            file.write(b"\xff" * 4096)
    with Supervisor(here.mem, engine=Scripted(done), seed=9) as other:
        assert standing(other, run) == before
    assert again(here).done
    named = [f.detail for f in doctor.workspace(here.mem.store.root, here.mem)]
    assert any("spend.db.damaged was set aside" in detail for detail in named)


@pytest.mark.parametrize("line", BAD_LINES)
def test_a_damaged_line_of_steps_ends_its_run_alone(world, line):
    here = world(lambda seen: Move("never", takes=100_000))
    first = here.dies("Work", "eng-a", after=10)
    second = here.dies("Other work", "eng-b", after=10)
    here.folder(first).record(STEPS, line)
    results = {result.run: result for result in here.resumed(done)}
    assert (results[first].status, results[second].status) == ("failed", "done")
    assert "is damaged" in results[first].why
