"""Acts of the orchestrator whose power is cut: a run, alone and in a team."""

from __future__ import annotations

import synapse
from orchestrator import Supervisor, Task
from orchestrator.engines.scripted import Move, Scripted
from orchestrator.testing.virtual import VirtualTime
from synapse.errors import SynapseError
from tests.crash.power_check import STAFF, Act, findings, standing

# -- a run -----------------------------------------------------------------------------------------


class Work:
    """Agents at work, and what they were told: the lead gives work to two and waits for them, they
    call a tool in each of their turns.
    """

    def __init__(self, tell, leader):
        self.tell, self.leader = tell, leader
        self.turns = 2 if leader == "lead" else 4

    def turn(self, seen):
        name = seen.system.split()[2].strip(",")
        self.tell(("asked", name, seen.turn))
        if name == "lead":
            return self.leads(seen)
        if seen.turn == self.turns:
            return "All is done."
        wrote = {"namespace": "status/web", "body": f"{name} {seen.turn} " + "ö☃" * 300}
        done = ("work", {"who": name, "step": seen.turn})
        return Move("", (("append", wrote), done), takes=1)

    def leads(self, seen):
        parts = [{"agent": name, "task": f"Part of {name}"} for name in ("eng", "junior")]
        calls = [("spawn_agent", part) for part in parts], [("wait", {})]
        return Move("", calls[seen.turn]) if seen.turn < 2 else "All parts are done."

    def supervisor(self, memory, seed):
        def work(who: str, step: int) -> str:
            """Do one step."""
            self.tell(("worked", who, step))
            return f"did {step}" + " und möhr" * 90

        options = {"inline": True, "memory_tools": "always", "tools": [work]}
        return Supervisor(memory, engine=Scripted(self.turn), seed=seed, **options)


def hired(root):
    with synapse.init(str(root / "memory"), clock=VirtualTime()) as memory:
        for agent in STAFF:
            memory.register(agent)


def led_by(leader):
    """An act: this agent's run, from its task to its end."""

    def run(root, acknowledge):
        time = VirtualTime()
        with synapse.open(str(root / "memory"), clock=time) as memory:

            async def work():
                async with supervisor:
                    await supervisor.spawn(Task("Build it", leader, project="web"))

            with Work(acknowledge, leader).supervisor(memory, 7) as supervisor:
                time.run(work())
            acknowledge(("ended",))

    def found(root, told, whole, inodes):
        return ran(root, told, whole, inodes, leader)

    return Act(hired, run, found, standing)


def move_marks(root, inodes):
    """Let the marks of steps, which name files by their inodes, name those that have their
    place.
    """
    for path in root.rglob("steps.mark"):
        inode, space, size = path.read_text().partition(" ")
        if inode.isdigit() and int(inode) in inodes:
            path.write_text(f"{inodes[int(inode)]}{space}{size}")


def ran(root, told, whole, inodes, leader):
    """What is wrong with a run that another process goes on with: what it did is not done again,
    and it comes to its end.
    """
    move_marks(root, inodes)
    time, again = VirtualTime(), []
    time.elapsed = 600
    try:
        with synapse.open(str(root / "memory"), clock=time) as memory:

            async def rest():
                async with supervisor:
                    taken = (await supervisor.recover()).runs
                    return [await supervisor.result(run) for run in taken]

            with Work(again.append, leader).supervisor(memory, 8) as supervisor:
                results = time.run(rest())
                runs = supervisor.run_store.runs.all()
    except (SynapseError, OSError) as error:
        yield "stuck", repr(error)
        return
    yield from done_again(told, again, runs)
    for result in results:
        if result.status != "done":
            yield "ended", (result.status, result.why)
    yield from findings(root, (), whole, inodes, clock=time)


def done_again(told, again, runs):
    """What agents were told before and after the cut: no step twice, and all that was said stands.
    Of a call whose reply nobody has, one can only ask again.
    """
    last = {what[1]: what for what in told if what[0] in ("asked", "worked")}
    open_calls = {what for what in last.values() if what[0] == "asked"}
    for what in sorted({*told} & {*again} - open_calls):
        yield "twice", (what, again)
    states = {run.status for run in runs}
    if ("ended",) in told and (again or states != {"done"}):
        yield "lost", (again, states)
    if told and not runs:
        yield "lost", "the run"


RUN, TEAM = led_by("eng"), led_by("lead")
