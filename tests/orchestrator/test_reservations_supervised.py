"""Runs under one limit: what calls in flight reserve makes others wait, and ends nobody."""

import asyncio

import pytest

from orchestrator import Task
from orchestrator.engines.protocol import Unavailable, Usage
from orchestrator.engines.scripted import Move, Scripted
from orchestrator.spend.limits import LimitReached

RUNS = 8
# two calls in flight: each reserves its prompt and 8,192 tokens of reply
TOKENS = 20_000
LIMIT = f"limits: {{day: {{tokens: {TOKENS}}}}}\n"


class Frugal(Scripted):
    """A turn takes a second and 1,000 tokens."""

    name = "frugal"

    def __init__(self):
        super().__init__(lambda seen: Move("Done.", takes=1.0), count=lambda text: 0)

    async def step(self, request, interrupt):
        turn = await super().step(request, interrupt)
        return turn._replace(usage=Usage(900, 100, cost=0.0))


class Silent(Frugal):
    """Takes a request, and nobody learns what became of it."""

    async def step(self, request, interrupt):
        await super().step(request, interrupt)
        raise Unavailable("no answer in time", sent=True)


def together(here, runs):
    async def all_of_it():
        async with here.supervisor:
            tasks = [Task(f"Part {n}", "eng-a") for n in range(runs)]
            return await asyncio.gather(*map(here.supervisor.spawn, tasks))

    return here.time.run(all_of_it())


def spent(here):
    budget = here.supervisor.run_store.costs.budget
    scope = next(name for name in budget_scopes(here) if name.startswith("day"))
    return budget.standing(scope)


def budget_scopes(here):
    run = here.supervisor.run_store.runs.all()[0]
    return [scope.name for scope in here.supervisor.run_store.costs._where(run)]


def test_who_has_no_room_waits_for_what_is_given_back(world):
    here = world(Frugal(), settings=LIMIT)
    results = together(here, RUNS)
    assert [result.status for result in results] == ["done"] * RUNS
    day = spent(here)
    assert (day.spent.tokens, day.reserved.tokens) == (RUNS * 1_000, 0)


def test_who_does_not_wait_is_found(world, monkeypatch):
    monkeypatch.setattr(LimitReached, "waits", False)
    here = world(Frugal(), settings=LIMIT)
    statuses = [result.status for result in together(here, RUNS)]
    assert statuses.count("stopped") >= RUNS - 2


def test_who_does_not_fit_alone_is_stopped(world):
    here = world(Frugal(), settings=LIMIT)
    results = together(here, 24)
    statuses = [result.status for result in results]
    assert set(statuses) == {"done", "stopped"}
    day = spent(here)
    assert day.spent.tokens <= TOKENS
    assert day.reserved.tokens == 0
    assert statuses.count("done") * 1_000 == day.spent.tokens
    # the next call would not have fitted, whoever was in flight
    assert day.spent.tokens + 1_000 + 8_192 > TOKENS


@pytest.mark.parametrize("engine", [Silent])
def test_a_request_that_nobody_answered_is_booked(world, engine):
    here = world(engine(), settings=LIMIT.replace(str(TOKENS), "100000"))
    (result,) = together(here, 1)
    assert result.status == "failed"
    day = spent(here)
    assert day.spent.turns == 1
    assert day.reserved.tokens == 0
