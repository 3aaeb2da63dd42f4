"""A supervisor's life for the kill checks: go on with what was running, else begin the team's task, until it ends."""

import asyncio
import sys
from pathlib import Path

import synapse
from orchestrator import Supervisor, Task
from orchestrator.engines.scripted import Move, Scripted
from orchestrator.tools import tool_of

ROOT_RUN = "lead-0000000000"
ENGINEERS = ("eng-a", "eng-b", "eng-c")
TURNS = 3


def play(seen):
    """The lead spawns everybody and waits; an engineer writes, calls the user's tool, and reports."""
    if "lead" in seen.system.split("\n")[0]:
        if seen.turn == 0:
            return Move("", tuple(("spawn_agent", {"agent": name, "task": f"Part of {name}"}) for name in ENGINEERS))
        if seen.turn == 1:
            return Move("", (("wait", {}),))
        return "All parts are done."
    if seen.turn < TURNS:
        wrote = {"namespace": "status/web", "body": f"{_name(seen)} step {seen.turn}"}
        return Move(f"Step {seen.turn}", (("append", wrote), ("work", {"step": seen.turn})), takes=0.005)
    return f"{_name(seen)} is done."


def _name(seen):
    return seen.system.split()[2].strip(",")


def main(root, log):
    def work(step: int, idempotency_key: str) -> str:
        """Do something that must not happen twice."""
        with Path(log).open("a") as file:
            file.write(f"{idempotency_key}\n")
        return f"worked {step}"

    async def live(memory, boss):
        async with boss:
            print("begun", flush=True)
            await boss.resume()
            if boss.books.runs.get(ROOT_RUN) is None:
                await boss.start(Task("The whole", "lead", project="web"), id=ROOT_RUN)
            result = await boss.result(boss.books.known(ROOT_RUN))
            print(result.status, flush=True)

    with synapse.open(root) as memory:
        options = {"engine": Scripted(play, count=len), "tools": [tool_of(work)], "memory_tools": "always"}
        boss = Supervisor(memory, attempts=1_000, **options)
        asyncio.run(live(memory, boss))
        boss.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
