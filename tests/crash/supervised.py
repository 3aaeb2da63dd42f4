"""A supervisor's life for the kill checks: go on with what was running, else begin the team's task,
until it ends.

`--die LABEL N` ends it without a word at the Nth time that it is about to do something durable, or
has just done it: `before result 3`, `after run 1`, `any 17`. `--wrong WAY` makes it a supervisor
that gets something wrong. `--watch` is one that begins nothing: it takes over what it finds
abandoned, as the daemon does, and notes each look. `--hang NAME` stops it in the middle, with the
lock of this name in its hand.
"""

import argparse
import asyncio
import json
import os
import signal
import threading
import time
from collections import Counter
from pathlib import Path

import synapse
from orchestrator import Supervisor, Task
from orchestrator import supervisor as supervisors
from orchestrator.engines.scripted import Move, Scripted
from orchestrator.run_store import recovery
from orchestrator.run_store import store as run_store
from orchestrator.runs.files import lease
from orchestrator.runs.files.folder import LEDGER, STEPS, Folder
from orchestrator.runs.records import Runs
from orchestrator.tools.functions import tool_of
from orchestrator.turns.turn_loop import TurnLoop
from synapse.access.writer import Writer
from synapse.errors import StoreBusy
from synapse.system.lock import Lock

ROOT_RUN = "lead-0000000000"
ENGINEERS = ("eng-a", "eng-b", "eng-c")
TURNS = 3


def play(seen):
    """The lead spawns everybody and waits; an engineer writes, calls the user's tool, and
    reports.
    """
    if "lead" in seen.system.split("\n")[0]:
        if seen.turn == 0:
            return Move(
                "",
                tuple(
                    ("spawn_agent", {"agent": name, "task": f"Part of {name}"})
                    for name in ENGINEERS
                ),
            )
        if seen.turn == 1:
            return Move("", (("wait", {}),))
        return "All parts are done."
    if seen.turn < TURNS:
        wrote = {"namespace": "status/web", "body": f"{_name(seen)} step {seen.turn}"}
        return Move(
            f"Step {seen.turn}", (("append", wrote), ("work", {"step": seen.turn})), takes=args.pace
        )
    return f"{_name(seen)} is done."


def _name(seen):
    return seen.system.split()[2].strip(",")


class Death:
    """What is durable, counted; and the end of this process where it was asked for."""

    def __init__(self, label, n):
        self.label, self.n, self.counts = label, n, Counter()

    def comes(self, label):
        self.counts.update((label, "any"))
        if self.counts[self.label] == self.n and self.label in (label, "any"):
            os.kill(os.getpid(), signal.SIGKILL)

    def around(self, act, name):
        def acts(*args, **more):
            self.comes(f"before {name(*args)}")
            did = act(*args, **more)
            self.comes(f"after {name(*args)}")
            return did

        return acts

    def haunts(self, memory):
        commit = memory.store.commit
        commit.append = self.around(commit.append, lambda pending, **_: pending.kind)
        Folder.record = self.around(Folder.record, _recorded)
        Folder.write = self.around(Folder.write, lambda folder, name, text: name)


def _recorded(folder, name, line):
    return json.loads(line)["kind"] if name == STEPS else name


def keyless(self, handler, call):
    """Calls a tool without saying that it is the same call as before the crash."""
    return handler.call(call, os.urandom(8).hex())


def forgetful(folder):
    """Begins anew what was running, as if nothing had been recorded."""
    for name in (STEPS, LEDGER):
        if folder.has(name):
            folder.write(name, "")


def wrong(way):
    if way == "keys":
        TurnLoop._carry_out = keyless
    elif way == "steps":
        recovery._repair = forgetful
        run_store.demand_all_steps = lambda folder, shown: None
    elif way == "evidence":
        run_store.demand_all_steps = lambda folder, shown: None
    elif way == "ledger":
        recovery._repair = lambda folder: None
    elif way == "fence":
        Writer.fence = property(lambda self: None, lambda self, value: None)
        Runs.over = lambda self, run, **known: None


def hangs(name, log):
    """Stops with this lock in its hand, once the user's tool has been called."""
    run = Lock.run

    def runs(lock, section):
        def held():
            if os.path.basename(lock.path) == name and Path(log).exists():
                # this thread, before it goes on
                signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)
            return section()

        return run(lock, held)

    Lock.run = runs


async def looked(supervisor, log):
    """What a look for the abandoned found; noted with when it began and ended. A lock that is held
    for too long is no reason to give up.
    """
    began, taken = time.time(), []
    try:
        taken = (await supervisor.recover()).runs
    except StoreBusy as busy:
        print(f"busy: {busy.pid}", flush=True)
    with Path(f"{log}.looks").open("a") as file:
        file.write(f"{began} {time.time()} {len(taken)}\n")
    return taken


def main(root, log):
    def work(step: int, idempotency_key: str) -> str:
        """Do something that must not happen twice."""
        with Path(log).open("a") as file:
            file.write(f"{idempotency_key}\n")
        return f"worked {step}"

    async def live(memory, supervisor):
        async with supervisor:
            print("begun", flush=True)
            while args.watch and not await looked(supervisor, log):
                await asyncio.sleep(0.5)
            await supervisor.recover()
            if supervisor.run_store.runs.get(ROOT_RUN) is None:
                await supervisor.start(Task("The whole", "lead", project="web"), id=ROOT_RUN)
            result = await supervisor.result(supervisor.run_store.known(ROOT_RUN))
            print(f"{result.status} {result.why}".strip(), flush=True)

    with synapse.open(root) as memory:
        options = {
            "engine": Scripted(play, count=len),
            "tools": [tool_of(work)],
            "memory_tools": "always",
        }
        supervisor = Supervisor(memory, attempts=1_000, lease=args.lease, **options)
        death.haunts(memory)
        asyncio.run(live(memory, supervisor))
        supervisor.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("paths", nargs=2)
    parser.add_argument("--die", nargs="+", default=["never", "0"])
    parser.add_argument("--wrong")
    parser.add_argument("--hang")
    parser.add_argument("--hasty", action="store_true")
    parser.add_argument("--watch", action="store_true")
    parser.add_argument("--pace", type=float, default=0.005)
    parser.add_argument("--lease", type=float, default=15.0)
    args = parser.parse_args()
    *label, n = args.die
    death = Death(" ".join(label), int(n))
    wrong(args.wrong)
    if args.hasty:  # believes what it sees at first
        lease.CONFIRM = 0.0
        supervisors.CONFIRM = 0.0
    if args.hang:
        hangs(args.hang, args.paths[1])
    main(*args.paths)
