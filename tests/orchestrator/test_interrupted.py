"""What a person interrupts is left in the middle, and goes on from its steps when somebody asks."""

import asyncio
import contextlib
import signal
import subprocess
import sys
import time

import synapse
from orchestrator import Supervisor, Task
from orchestrator.daemon import Daemon
from orchestrator.engines.scripted import Move, Scripted
from orchestrator.runs.files import steps


def calls_of(seen):
    """A CTO that gives its work to a lead, which gives it to an engineer; each then reports."""
    whom = {"boss": "lead", "lead": "eng-a"}
    name = next(name for name in ("boss", "lead", "eng-a") if f" {name}" in seen.system)
    if name == "eng-a":
        return name, None
    calls = {
        0: (("spawn_agent", {"agent": whom[name], "task": f"Part of {name}"}),),
        1: (("wait", {}),),
    }
    return name, calls.get(seen.turn)


def playing(taken):
    """The engine of that team, which notes who took which turn; the engineer works for a minute in
    its second turn."""

    def script(seen):
        name, calls = calls_of(seen)
        taken.append((name, seen.turn))
        if name == "eng-a":
            if seen.turn == 0:
                return Move("", (("busy", {}),))
            return Move("The part is done.", takes=60)
        return Move("", calls) if calls else f"{name} reports."

    return Scripted(script)


async def interrupted(here, task, after):
    """Do a task, and cancel it after so many seconds, as Ctrl-C does."""
    work = asyncio.create_task(here.supervisor.spawn(task))
    await asyncio.sleep(after)
    work.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await work


def runs_of(here):
    return {run.agent: run for run in here.supervisor.run_store.runs.all()}


def turns(here, run):
    recorded = steps.read(here.folder(run.id).lines("steps.jsonl"))
    return sum(step.kind == "turn" for step in recorded)


def test_an_interrupted_tree_goes_on_from_its_steps(world):
    """As a whole, by the same supervisor or another one; no turn that was recorded is taken
    again."""
    taken = []
    here = world(playing(taken))
    task = Task("Build it", "boss", project="web")
    here.time.run(interrupted(here, task, 30))
    left = runs_of(here)
    assert {run.state for run in left.values()} == {"running"}
    assert {run.holder for run in left.values()} == {None}
    assert here.supervisor.left == [left["boss"].id]
    before = {name: turns(here, run) for name, run in left.items()}
    assert before == {"boss": 2, "lead": 2, "eng-a": 1}
    del taken[:]
    results = here.resumed(playing(taken))
    assert {result.status for result in results} == {"done"}
    assert {result.run for result in results} == {run.id for run in left.values()}
    assert sorted(taken) == [("boss", 2), ("eng-a", 1), ("lead", 2)]


def test_the_time_that_it_was_left_is_not_its_own(world):
    taken = []
    here = world(playing(taken))
    task = Task("Part", "eng-a", project="web", timeout=100)
    here.time.run(interrupted(here, task, 30))
    here.time.run(asyncio.sleep(86_400))
    (result,) = here.resumed(playing(taken))
    assert result.status == "done"


def test_what_is_left_again_and_again_has_not_died(world):
    here = world(playing([]), attempts=2)
    task = Task("Part", "eng-a", project="web")
    here.time.run(interrupted(here, task, 30))

    async def again():
        async with here.supervisor:
            (run,) = (await here.supervisor.recover()).runs
            await asyncio.sleep(20)
            await here.supervisor._abandon("operator")
            return run.attempts

    assert [here.time.run(again()) for _ in range(4)] == [1, 1, 1, 1]


def test_an_ordinary_end_still_ends_what_runs(world):
    """Who leaves the block without waiting for a run decided that it ends."""
    here = world(playing([]))

    async def ended():
        async with here.supervisor:
            await here.supervisor.start(Task("Part", "eng-a", project="web"))
            await asyncio.sleep(30)

    here.time.run(ended())
    assert runs_of(here)["eng-a"].status == "stopped"


def test_a_daemon_goes_on_with_it_only_where_somebody_asks(tmp_path):
    """What it left itself, the next one takes; what a person left, it leaves."""
    engine = Scripted(lambda seen: Move("Done.", takes=0.2))
    with synapse.init(str(tmp_path / "ws")) as memory:
        memory.register(synapse.Agent("eng"))

        async def left(by):
            with Supervisor(memory, engine=engine) as boss:
                async with boss:
                    run = await boss.start(Task(f"Work, left by {by}", "eng"))
                    await asyncio.sleep(0.05)
                    await boss._abandon(by)
                    return run.id

        async def daemon(boss, until):
            daemon = Daemon(memory.store.root, boss)
            running = asyncio.create_task(daemon.run())
            for _ in range(200):
                if boss.run_store.known(until).status:
                    break
                await asyncio.sleep(0.05)
            daemon.down.set()
            await running
            return daemon.taken

        mine, its = asyncio.run(left("operator")), asyncio.run(left(None))
        with Supervisor(memory, engine=engine) as boss:
            assert asyncio.run(daemon(boss, its)) == [its]
            assert boss.run_store.known(mine).running
            (result,) = boss.resume(mine)
            assert (result.run, result.status) == (mine, "done")


PROGRAM = """
import sys
from orchestrator import Supervisor, Task
from orchestrator.engines.scripted import Move, Scripted

def script(seen):
    print("turn", seen.turn, flush=True)
    if seen.turn == 0:
        return Move("", (("memory_search", {"query": "x"}),))
    return Move("Done.", takes=float(sys.argv[2]))

with Supervisor(sys.argv[1], engine=Scripted(script), memory_tools="always") as boss:
    if sys.argv[3] == "run":
        boss.run(Task("Work", "eng"))
    else:
        print([result.status for result in boss.resume()])
"""


def test_ctrl_c_in_python_leaves_the_run_and_says_how_it_goes_on(tmp_path):
    root = str(tmp_path / "ws")
    with synapse.init(root) as memory:
        memory.register(synapse.Agent("eng"))
    line = [sys.executable, "-c", PROGRAM, root]
    process = subprocess.Popen(
        [*line, "60", "run"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert [process.stdout.readline() for _ in range(2)] == ["turn 0\n", "turn 1\n"]
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=20)
    assert "KeyboardInterrupt" in said
    assert "`supervisor.resume()` goes on with it" in said
    done = subprocess.run([*line, "0", "resume"], capture_output=True, text=True, timeout=30)
    assert done.stdout == "turn 1\n['done']\n", "the first turn was paid and is kept"
