"""Agents that always spawn three children, and then three more: each of the limits, alone, is what
holds them.
"""

import asyncio

import pytest

from orchestrator.engines.protocol import Usage
from orchestrator.engines.scripted import Move, Scripted
from orchestrator.run_store.costs import Costs

FREE = "none"
BOUNDS = {"children": 5, "live": 5, "turns": 20, "tokens": 20_000, "usd": 0.3, "seconds": 7.0}
CASES = [(level, limit) for level in ("run", "tree", "department", "day") for limit in BOUNDS]
ALL = 43  # runs, and 57 turns, of a family that nothing holds


class Breeder(Scripted):
    """A turn takes a second, 1,000 tokens and a cent."""

    name = "breeder"

    def __init__(self):
        super().__init__(self.play, count=lambda text: 0)
        self.turns = 0

    def play(self, seen):
        generation = seen.text.count("<")
        if generation < 2 and seen.turn < 2:
            task = "<" * (generation + 1)
            calls = [
                ("spawn_agent", {"agent": "lead", "task": f"{task} {self.turns} {n}"})
                for n in range(3)
            ]
            return Move("", tuple(calls), takes=1.0)
        return (
            Move("", (("wait", {}),), takes=1.0)
            if generation < 2 and seen.turn == 2
            else Move("Done.", takes=1.0)
        )

    async def step(self, request, interrupt):
        self.turns += 1
        turn = await super().step(request, interrupt)
        return turn._replace(usage=Usage(900, 100, cost=0.01))


def settings(level=None, **limits):
    """All limits off but these; and a price, ten times what a turn costs at most."""
    found = {each: dict.fromkeys(("depth", *BOUNDS), FREE) for each in ("run", "tree", "day")}
    found["department"] = {}
    if level:
        found[level].update(limits)
    lines = [f"  {name}: {_flow(bounds)}" for name, bounds in found.items() if name != "department"]
    lines.append(f"  department: {{web: {_flow(found['department'])}}}")
    return "\n".join(["prices: {made-up: {input: 1, output: 10}}", "limits:", *lines, ""])


def _flow(bounds):
    return "{" + ", ".join(f"{key}: {bound}" for key, bound in bounds.items()) + "}"


def scope(level, run):
    return {"run": f"run:{run.id}", "tree": f"tree:{run.root}", "department": "department:web"}.get(
        level, "day:2026-02-01"
    )


def bred(world, text, **task):
    here = world(Breeder(), settings=text, model="made-up")
    budget, most = here.supervisor.run_store.costs.budget, {}

    async def watch():
        await asyncio.sleep(0.5)
        while here.supervisor._lives:
            alive = here.supervisor.run_store.runs.all(state="running")
            names = {scope(level, run) for run in alive for level in ("run", "tree", "department")}
            standing = {name: budget.standing(name).live for name in names}
            standing["day:2026-02-01"] = budget.standing("workspace").live
            most.update({name: max(most.get(name, 0), live) for name, live in standing.items()})
            await asyncio.sleep(0.5)

    result = here.spawn("Breed", "lead", project="web", also=[watch()], **task)
    return here, result, most


def overruns(here, level, limit, most):
    """By how much each scope of this level is over its bound, beyond what was in flight."""
    budget, bound = here.supervisor.run_store.costs.budget, BOUNDS[limit]
    over = {}
    for name in {scope(level, run) for run in here.supervisor.run_store.runs.all()}:
        standing = budget.standing(name)
        taken = {"children": standing.runs, "live": most.get(name, 0)}.get(limit)
        taken = getattr(standing.spent, limit) if taken is None else taken
        in_flight = most.get(name, 0) + 1 if limit == "seconds" else 0
        if taken > bound + in_flight + 1e-9:
            over[name] = taken
    return over


def told(here, limit):
    """How often a limit was named, to a model or as the reason of an end."""
    runs = here.supervisor.run_store.runs.all()
    steps = "".join(here.folder(run.id).read("steps.jsonl") for run in runs)
    whys = "".join(run.fields["why"] for run in runs)
    return (steps + whys).count(f"at its limit of {limit}") + whys.count("its time was up") * (
        limit == "seconds"
    )


def test_where_nothing_holds_them(world):
    here, result, most = bred(world, settings())
    assert result.done
    assert len(here.supervisor.run_store.runs.all()) == ALL
    for level, limit in CASES:
        if (level, limit) not in (
            ("run", "turns"),
            ("run", "seconds"),
            ("run", "usd"),
            ("run", "tokens"),
        ):
            assert overruns(here, level, limit, most), (level, limit)


@pytest.mark.parametrize(("level", "limit"), CASES)
def test_each_limit_alone(world, level, limit):
    bound = (
        {"turns": 3, "usd": 0.1, "tokens": 8_900, "seconds": 3.5}.get(limit)
        if level == "run"
        else None
    )
    bound = bound or BOUNDS[limit]
    here, _, most = bred(world, settings(level, **{limit: bound}))
    runs = here.supervisor.run_store.runs.all()
    assert all(not run.running for run in runs)
    assert len(runs) < ALL or (level == "run" and limit in ("turns", "usd", "tokens", "seconds"))
    assert told(here, limit), {(run.status, run.fields["why"]) for run in runs}
    assert overruns(here, level, limit, most) == {}
    assert here.supervisor.run_store.costs.budget.standing("workspace").live == 0


def test_depth_alone(world):
    here, result, _ = bred(world, settings("run", depth=1))
    assert result.done
    assert {run.depth for run in here.supervisor.run_store.runs.all()} == {0, 1}
    assert told(here, "depth")


@pytest.mark.parametrize("limit", ["turns", "tokens", "usd"])
def test_who_asks_nobody_is_found_out(world, monkeypatch, limit):
    where = Costs._where
    monkeypatch.setattr(
        Costs,
        "_where",
        lambda self, run: tuple(
            each._replace(limits=type(each.limits)()) for each in where(self, run)
        ),
    )
    here, *_ = bred(world, settings("tree", **{limit: BOUNDS[limit] / 20}))
    spent = here.supervisor.run_store.costs.budget.standing(
        f"tree:{here.supervisor.run_store.runs.all()[-1].root}"
    ).spent
    assert getattr(spent, limit) > BOUNDS[limit] / 20
