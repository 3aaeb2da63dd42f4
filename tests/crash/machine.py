"""One machine of several on a database: MODE ROOT URL RUNS TURNS SECONDS [LEASE]. `submit` begins
the runs and does them, `help` goes on with those whose machine is gone. Both end when all have
ended. A turn is a call of a tool that costs something, and is counted by the database.
"""

import asyncio
import os
import sys
import time

import psycopg

import synapse
from orchestrator import Supervisor, Task
from orchestrator.engines.scripted import Move, Scripted

MODE, ROOT, URL, COUNTED, RUNS, TURNS, SECONDS, LEASE = sys.argv[1:9]
COUNTS = psycopg.connect(COUNTED, autocommit=True)


def paid(job: str, n: int) -> str:
    """Do something that costs. job: the name of the task. n: which turn."""
    time.sleep(float(SECONDS))
    COUNTS.execute(
        "insert into effect (job, n, machine) values (%s, %s, %s)", (job, n, os.path.basename(ROOT))
    )
    return "paid"


def script(seen):
    job = next(word for word in seen.text.split() if word.startswith("job-")).strip(".")
    if seen.turn < int(TURNS):
        return Move("", (("paid", {"job": job, "n": seen.turn}),))
    return Move(f"Finished {job}")


async def work(supervisor):
    async with supervisor:
        if MODE == "submit":
            for number in range(int(RUNS)):
                task = Task(f"Do job-{number}.", agent=f"eng-{number % 4}", project="p")
                await supervisor.start(task)
        print("begun", flush=True)
        while True:
            runs = await supervisor.memory_thread(supervisor.run_store.runs.all)
            if len(runs) == int(RUNS) and not any(run.running for run in runs):
                return
            await supervisor.recover()
            await asyncio.sleep(0.1)


def main():
    with synapse.init(ROOT, log=URL) as memory:
        if MODE == "submit":
            for number in range(4):
                memory.register(synapse.Agent(f"eng-{number}", role="engineer"))
        options = {"engine": Scripted(script), "tools": [paid], "lease": float(LEASE)}
        with Supervisor(memory, **options) as supervisor:
            asyncio.run(work(supervisor))


main()
