"""One machine of several on a database: MODE ROOT URL COUNTED RUNS TURNS SECONDS LEASE WRONG.
`submit` begins the runs and does them, `help` goes on with those whose machine is gone. Both end
when all have ended. A turn is a call of a tool that costs something, and is counted by the database.
WRONG names what this machine gets wrong.
"""

import asyncio
import os
import sys
import time

import psycopg

import synapse
from orchestrator import Supervisor, Task
from orchestrator.engines.scripted import Move, Scripted
from orchestrator.run_store import store as run_store
from orchestrator.runs.files.folder import Folder
from orchestrator.runs.files.postgres import lease
from orchestrator.runs.files.postgres.folder import SharedFolder
from orchestrator.runs.records import Runs
from synapse.access.writer import Writer

MODE, ROOT, URL, COUNTED, RUNS, TURNS, SECONDS, LEASE, WRONG = sys.argv[1:10]
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


def go_wrong(memory):
    if WRONG == "fence":  # neither refused, nor heard of, by who was taken over
        Writer.fence = property(lambda self: None, lambda self, value: None)
        Runs.over = lambda self, run, **known: None
    elif WRONG == "folder":  # steps in files of this machine
        for name in ("record", "sync", "write", "read", "lines", "has", "damage"):
            setattr(SharedFolder, name, getattr(Folder, name))
        run_store.demand_all_steps = lambda folder, shown: None
    elif WRONG in ("lock", "beat", "clock"):
        tables = lease.tables_of(memory.store.log.database)
        schema, channel = f'"{tables.address.schema}"', f"'{tables.channel}'"
        locked = (
            f"not pg_try_advisory_xact_lock_shared(hashtextextended({channel} || '/' || $1, 0))"
        )
        beats = f"(select count(*) > 0 from {schema}.run_holder where name = $1 and beat > "
        beats += "{now} - make_interval(secs => $2))"
        now = "clock_timestamp()" if WRONG == "beat" else f"to_timestamp({time.time() + 600})"
        text = locked if WRONG == "lock" else beats.replace("{now}", now)
        tables.sql["lives"] = (
            f"select {text} and ($2::float, $3::float, $4::bool) is not null".encode()
        )


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
        go_wrong(memory)
        options = {"engine": Scripted(script), "tools": [paid], "lease": float(LEASE)}
        with Supervisor(memory, **options) as supervisor:
            asyncio.run(work(supervisor))


main()
