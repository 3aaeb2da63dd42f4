"""A team, and a world under virtual time for it to work in."""

import asyncio
import json

import pytest

import synapse
from orchestrator import Supervisor, Task
from orchestrator.engines.scripted import Scripted
from orchestrator.testing.virtual import VirtualTime

TEAM = (
    synapse.Agent("boss", role="cto"),
    synapse.Agent("lead", role="project-lead", department="web"),
    synapse.Agent("eng-a", department="web"),
    synapse.Agent("eng-b", department="web"),
)


class World:
    """A workspace under virtual time, and a supervisor in it."""

    def __init__(self, root, engine, settings="", **options):
        self.time = VirtualTime()
        synapse.init(str(root), clock=self.time).close()
        with (root / "synapse.yaml").open("a") as file:
            file.write(settings)
        self.mem = synapse.open(str(root), clock=self.time)
        for agent in TEAM:
            self.mem.register(agent)
        options = {"seed": 7, "inline": True, "memory_tools": "always"} | options
        self.supervisor = Supervisor(self.mem, engine=engine, **options)

    def spawn(self, *args, also=(), **more):
        """The result of a task, with other things going on beside it."""

        async def all_of_it():
            async with self.supervisor:
                beside = [asyncio.create_task(each) for each in also]
                result = await self.supervisor.spawn(Task(*args, **more))
                await asyncio.gather(*beside)
                return result

        return self.time.run(all_of_it())

    async def later(self, seconds, act):
        await asyncio.sleep(seconds)
        act()

    def says(self, body, namespace="decisions/api", priority="critical", **more):
        return self.mem.as_agent("boss").append(body, namespace, priority=priority, **more)

    def dies(self, *args, after, **more):
        """Begin a task, and let the supervisor die in the middle of it; the run."""

        async def some_of_it():
            async with self.supervisor:
                run = await self.supervisor.start(Task(*args, **more))
                await asyncio.sleep(after)
                await self.supervisor._abandon()
                return run.id

        run = self.time.run(some_of_it())
        self.supervisor.run_store.lease.close()
        return run

    def resumed(self, engine, **options):
        """The results of what another supervisor goes on with."""
        engine = engine if hasattr(engine, "step") else Scripted(engine)

        async def rest_of_it():
            async with other:
                taken = (await other.recover()).runs
                await other._hear()  # nobody is there to hear yet
                return [await other.result(run) for run in taken]

        with Supervisor(self.mem, engine=engine, seed=8, inline=True, **options) as other:
            return self.time.run(rest_of_it())

    def known(self, run):
        return self.supervisor.run_store.known(run)

    def run(self, result):
        return self.known(result.run)

    def folder(self, run):
        return self.supervisor.run_store.folder(self.known(run))

    def labels(self, result):
        lines = self.folder(result.run).lines("ledger.jsonl")
        return [segment[0] for line in lines for segment in json.loads(line)["in"]]


@pytest.fixture
def world(tmp_path):
    made = []

    def make(engine, **options):
        made.append(
            World(
                tmp_path / f"ws{len(made)}",
                engine if hasattr(engine, "step") else Scripted(engine),
                **options,
            )
        )
        return made[-1]

    yield make
    for each in made:
        each.supervisor.close()
        each.mem.close()


@pytest.fixture
def team():
    return TEAM


@pytest.fixture
def cast():
    """One engine that plays each agent by its own script; it finds out whom from the prompt."""

    def made(**scripts):
        def script(seen):
            for name, play in scripts.items():
                if f" {name.replace('_', '-')}" in seen.system.split("\n")[0]:
                    return play(seen)
            return "Nothing to say."

        return Scripted(script)

    return made
