"""A supervisor's life for the checks of shared tools: three agents want the same two things, until
each has them.

`--die LABEL N` and what it counts are those of `supervised.py`. `--wrong WAY` makes it one that
gets something wrong.
"""

import argparse
import asyncio
import os
from pathlib import Path

from supervised import Death

import synapse
from orchestrator import Supervisor, Task
from orchestrator.engines.scripted import Move, Scripted
from orchestrator.sharing import findings
from orchestrator.sharing.calls import Sharing
from orchestrator.sharing.findings import Findings
from orchestrator.tools.functions import Partial, tool_of
from synapse.access import claims
from synapse.access.writer import Writer

SUBJECTS = ("the retry limit", "the time limit")
AGENTS = ("eng-a", "eng-b", "eng-c")
TURNS = 12


def value(subject):
    return f"{subject.capitalize()} is {len(subject)}."


def play(seen):
    """Ask for the one, then for the other, until each is found; then say both."""
    answers = [message.text for message in seen.messages if message.role == "tool"]
    left = [
        subject for subject in SUBJECTS if not any(value(subject) in answer for answer in answers)
    ]
    if left and seen.turn < TURNS:
        return Move("", (("investigate", {"subject": left[0]}),))
    return " ".join(answers)


def wrong(way):
    if way == "blind":  # looks at nothing, and writes without a key
        Findings._results = lambda self, act, agent: []
        write = Writer.write
        Writer.write = lambda self, pending, once=None, unless=None: write(
            self,
            pending,
            once=f"{once}{os.urandom(4).hex()}" if pending.key and once else once,
            unless=unless,
        )
    elif way == "claims":  # holds the work in the agent's name, not in the run's
        take = claims.take
        claims.take = lambda writer, *args, **more: take(
            Writer(writer.store, writer.id), *args, **more
        )
    elif way == "deaf":  # is told of nothing that came of a call
        findings._instead_of_call = lambda entry, more="": "It is known."
        Findings._is_fresh = lambda self, result: True
        Sharing._look_up = told_again(Sharing._look_up)


def told_again(looked):
    """Gives the same result for ever, whatever was told before."""

    async def looks(self, session, *args):
        session.conversation = session.conversation._replace(acts={})
        return await looked(self, session, *args)

    return looks


def main(root, log):
    async def investigate(subject: str, idempotency_key: str) -> str:
        """Find something out, in two calls."""
        with Path(log).open("a") as file:
            file.write(f"{subject}\t{idempotency_key}\n")
        run = idempotency_key.split("/")[0]
        calls = {
            line
            for line in Path(log).read_text().splitlines()
            if line.startswith(f"{subject}\t{run}/")
        }
        return value(subject) if len(calls) > 1 else Partial("Not found yet.")

    async def live(supervisor):
        async with supervisor:
            print("begun", flush=True)
            await supervisor.recover()
            for name in AGENTS:
                if supervisor.run_store.runs.get(f"{name}-0000000000") is None:
                    await supervisor.start(
                        Task(f"Both, {name}", name, project="web"), id=f"{name}-0000000000"
                    )
            for name in AGENTS:
                await supervisor.result(supervisor.run_store.known(f"{name}-0000000000"))
            print("done", flush=True)

    with synapse.open(root) as memory:
        tools = [tool_of(investigate, shares=True)]
        options = {"engine": Scripted(play, count=len), "tools": tools, "memory_tools": "never"}
        supervisor = Supervisor(memory, attempts=1_000, **options)
        death.haunts(memory)
        asyncio.run(live(supervisor))
        supervisor.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("paths", nargs=2)
    parser.add_argument("--die", nargs="+", default=["never", "0"])
    parser.add_argument("--wrong")
    args = parser.parse_args()
    *label, n = args.die
    death = Death(" ".join(label), int(n))
    wrong(args.wrong)
    main(*args.paths)
