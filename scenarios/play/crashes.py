"""Runs that are killed: real processes on a workspace on the disk, ended without a word and begun
again.

`play` is the one who kills and counts; `python -m scenarios.play.crashes ROOT SCENARIO SEED` is one
life of a supervisor. What was acknowledged has to be there afterwards, each once; what was spent
twice is counted. The only scenario whose ledger is not the same every time.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from random import Random
from typing import Any

import synapse
from orchestrator import Supervisor
from orchestrator.engines.protocol import Request, Turn
from orchestrator.engines.scripted import Move, Scripted, Seen
from orchestrator.runs.files import ledger as token_ledger
from orchestrator.runs.files.folder import LEDGER, STEPS, Folder
from orchestrator.runs.records import Run, Runs
from orchestrator.runs.task import Task
from orchestrator.tools.functions import UserTool, tool_of
from scenarios.data import ledger
from scenarios.data.files import find, load
from scenarios.data.schema import Scenario
from scenarios.measure import dollars
from scenarios.play.agents.cast import Player
from scenarios.play.agents.part import Policy
from scenarios.play.first_line import PRICES
from scenarios.play.harness import Counts
from scenarios.play.recorder import declared
from scenarios.play.world.task_text import read_task
from scenarios.play.world.truth import Truth, brief, filler, said, steps_of
from scenarios.play.world.world import using_of
from synapse.model.agents import OPERATOR
from synapse.system.tokens import DEFAULT

ATTEMPTS = "attempts.jsonl"
PACE = 0.01  # seconds that an agent thinks
LONGEST = 60.0
ATTEMPTED = 100  # whoever is killed before it moves is not given up here


# -- One life --------------------------------------------------------------------------


class _Counted:
    """An engine whose every call is on record before it is made, whoever dies."""

    name = "scripted"
    interrupt = "now"
    takes_tools = True

    def __init__(self, engine: Scripted, path: str) -> None:
        self._engine, self._path, self._count = engine, path, Counts()

    async def step(self, request: Request, interrupt: asyncio.Event) -> Turn:
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        tokens = self._count(request.system) + sum(
            self._count(message.text) for message in request.messages
        )
        os.write(descriptor, f"{request.key} {tokens}\n".encode())
        os.close(descriptor)
        return await self._engine.step(request, interrupt)

    async def count(self, request: Request) -> int | None:
        return None

    async def close(self) -> None:
        return None


def _tools() -> list[UserTool]:
    async def work(task: str, using: str = "") -> str:
        await asyncio.sleep(PACE)
        return filler(400)

    async def submit(task: str, using: str = "") -> str:
        return "Handed in."

    async def investigate(subject: str) -> str:
        return f"Nothing is to be found about {subject}."

    return [
        tool_of(work, idempotent=True),
        tool_of(submit, idempotent=True),
        tool_of(investigate, idempotent=True),
    ]


def _engine(plays: str, seed: int, path: str) -> _Counted:
    player = Player(Policy(plays), seed)

    def play(seen: Seen) -> Move:
        return player(seen)._replace(takes=PACE)

    return _Counted(Scripted(play), path)


async def _live(supervisor: Supervisor, scenario: Scenario, seed: int) -> None:
    """Go on with what was running, else begin; until all has ended."""
    async with supervisor:
        print("ready", flush=True)
        await supervisor.recover()
        roots = [job for job in scenario.jobs if job.given is None]
        truth, steps = Truth(scenario, seed), steps_of(scenario, seed)
        tasks = [
            Task(brief(scenario, job, steps, truth), job.agent, scenario.project, once=True)
            for job in roots
        ]
        await asyncio.gather(*(supervisor.spawn(task) for task in tasks))


def main(root: str, named: str, seed: int) -> None:
    scenario = load(find(named))
    path = os.path.join(root, ATTEMPTS)
    with synapse.open(root) as memory:
        engines = {
            f"scripted:{plays}": _engine(plays, seed, path) for plays in ("cto", "lead", "worker")
        }
        with Supervisor(
            memory, engines=engines, tools=_tools(), memory_tools="always", attempts=ATTEMPTED
        ) as supervisor:
            asyncio.run(_live(supervisor, scenario, seed))


# -- Who kills it ----------------------------------------------------------------------


def play(scenario: Scenario, named: str, arm: str, seed: int) -> ledger.Run:
    """Play a team that is killed so many times."""
    with tempfile.TemporaryDirectory(prefix="brain-suite-") as parent:
        root = os.path.join(parent, "ws")
        truth = Truth(scenario, seed)
        with synapse.init(root) as memory:
            for member in scenario.agents:
                memory.register(declared(member))
            for fact in scenario.facts:
                memory.as_agent(str(fact.known)).append(
                    truth.state(fact.id), fact.namespace, priority=fact.priority, ttl="never"
                )
        random, died = Random(f"{scenario.id} {seed} kills"), 0
        for _ in range(int(scenario.params["kills"])):
            died += not _life(root, named, seed, random.uniform(0.1, 1.2))
        _life(root, named, seed, None)
        return _recorded(scenario, arm, seed, root, truth, died)


def _life(root: str, named: str, seed: int, after: float | None) -> bool:
    """Play one life, killed so many seconds after it was ready; return whether it ended itself."""
    command = [sys.executable, "-m", "scenarios.play.crashes", root, named, str(seed)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as life:
        assert life.stdout is not None
        life.stdout.readline()
        try:
            life.wait(LONGEST if after is None else after)
        except subprocess.TimeoutExpired:
            life.kill()
            return False
    if life.returncode:
        raise RuntimeError(f"a life of {named} ended with {life.returncode}")
    return True


def _recorded(
    scenario: Scenario, arm: str, seed: int, root: str, truth: Truth, died: int
) -> ledger.Run:
    """Return what is on the disk as a run; its times are the order of events."""
    with synapse.open(root) as memory:
        runs = Runs(memory.store).all()[::-1]
        written = Counter((entry.author, entry.body) for entry in memory.as_agent(OPERATOR).read())
        ids = {record.id for record in memory.store.log.since(0) if record.kind == "entry"}
        sound = memory.verify().ok
    acknowledged = {id for run in runs for id in _acknowledged(root, run)}
    names = ("id", "agent", "needs", "acts", "makes", "hop")
    events: list[dict[str, Any]] = [
        {
            "kind": "begin",
            "format": ledger.FORMAT,
            "scenario": scenario.id,
            "digest": scenario.digest,
            "arm": arm,
            "seed": seed,
            "cell": dict(scenario.cell),
            "encoding": DEFAULT,
            "counting": "exact",
            "gated": arm == scenario.gated,
            "roster": [],
            "facts": [fact.id for fact in scenario.facts],
            "tasks": [{name: getattr(job, name) for name in names} for job in scenario.jobs],
            "prices": PRICES,
        }
    ]
    recorded = 0
    for run in runs:
        lines = token_ledger.read(Folder(root, run.id).lines(LEDGER))
        recorded += sum(line.counted for line in lines)
        events += _billed(run, lines)
    events += [{"kind": "crash", "run": None, "agent": None} for _ in range(died)]
    repeated = _repeated(root, runs)
    events.append(
        {
            "kind": "resume",
            "run": None,
            "agent": None,
            "epoch": max(run.epoch for run in runs),
            "lost": len(acknowledged - ids),
            "repeated_tokens": repeated,
            "tokens": recorded,
        }
    )
    events.append(
        {
            "kind": "probe",
            "name": "crash",
            "value": {
                "kills": died,
                "twice": sum(number - 1 for number in written.values()),
                "sound": int(sound),
            },
        }
    )
    verdicts = [_verdict(scenario, job.id, runs, root, truth) for job in scenario.jobs]
    events += verdicts
    lost = sum(run.status == "done" and not run.fields.get("entry") for run in runs)
    events.append(
        {
            "kind": "finish",
            "elapsed": len(events),
            "tasks": len(verdicts),
            "lost_results": lost,
            "ok": sum(bool(verdict["ok"]) for verdict in verdicts),
        }
    )
    listed = [{"kind": event.pop("kind"), "t": at} | event for at, event in enumerate(events)]
    dollars.book(listed)
    return ledger.Run(listed)


def _acknowledged(root: str, run: Run) -> list[str]:
    """Return the entries of which an agent was told that they are stored."""
    texts = [json.loads(line).get("text") or "" for line in Folder(root, run.id).lines(STEPS)]
    return [text.split()[2] for text in texts if text.startswith("Stored as ")]


def _repeated(root: str, runs: list[Run]) -> int:
    """Return the tokens that were sent in vain: of calls whose reply nobody was left to record. A
    call has the same key however often it is made, and the calls of a run are recorded in order.
    """
    attempts: dict[str, dict[str, list[int]]] = {run.id: {} for run in runs}
    with open(os.path.join(root, ATTEMPTS), encoding="utf-8") as file:
        for line in file:
            key, tokens = line.split()
            attempts[key.partition("/")[0]].setdefault(key, []).append(int(tokens))
    repeated = 0
    for run in runs:
        recorded = len(token_ledger.read(Folder(root, run.id).lines(LEDGER)))
        for number, sizes in enumerate(attempts[run.id].values()):
            repeated += sum(sizes) - (sizes[-1] if number < recorded else 0)
    return repeated


def _billed(run: Run, lines: list[token_ledger.Line]) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = [
        {
            "kind": "spawn",
            "run": run.id,
            "agent": run.agent,
            "role": str(run.fields["role"]),
            "parent": run.parent,
            "task": read_task(run.task.text).name,
            "tools": [],
            "budget": 0,
            "view_tokens": 0,
            "ids": [],
            "live_entries": 0,
            "live_tokens": 0,
            "needs": [],
            "available": [],
        }
    ]
    for line in lines:
        fields = {"run": run.id, "agent": run.agent, "step": line.step}
        sent = [[segment.label, segment.tokens, int(segment.first)] for segment in line.sent]
        got = [[segment.label, segment.tokens] for segment in line.got]
        events.append({"kind": "prompt", **fields, "segments": sent, "ids": [], "shows": {}})
        events.append(
            {
                "kind": "completion",
                **fields,
                "segments": got,
                "stop": line.stop,
                "calls": [],
                "interrupted": line.stop == "interrupted",
            }
        )
    return [
        *events,
        {
            "kind": "end",
            "run": run.id,
            "agent": run.agent,
            "status": run.status,
            "turns": len(lines),
        },
    ]


def _verdict(
    scenario: Scenario, task: str, runs: list[Run], root: str, truth: Truth
) -> dict[str, Any]:
    """Return whether a task was done with the right values, by what its run handed in."""
    job = scenario.job(task)
    mine = [run for run in runs if read_task(run.task.text).name == task]
    ok = len(mine) == 1 and mine[0].status == "done"
    if ok and job.needs:
        turns = [
            json.loads(line).get("turn") or {} for line in Folder(root, mine[0].id).lines(STEPS)
        ]
        using = [
            using_of(str(call["arguments"].get("using", "")))
            for turn in turns
            for call in turn.get("calls", ())
            if call["name"] == "submit"
        ]
        needed = {said(truth.facts[need].subject): truth.now(need) for need in job.needs}
        ok = bool(using) and using[-1] == needed
    why = "right" if ok else f"{len(mine)} runs, {', '.join(str(run.status) for run in mine)}"
    return {
        "kind": "verdict",
        "task": task,
        "agent": job.agent,
        "run": mine[0].id if mine else None,
        "ok": ok,
        "why": why,
    }


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
