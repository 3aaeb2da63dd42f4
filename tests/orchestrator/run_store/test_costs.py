"""Where the tokens or the money of a run are limited, and what its calls are booked at."""

import os
import shutil

import pytest

from orchestrator.engines.protocol import Usage
from orchestrator.engines.scripted import Move, Scripted
from orchestrator.run_store.costs import budget_of
from orchestrator.spend.counting import Ratios
from synapse.errors import InvalidEntry

PRICES = "prices: {cheap: {input: 1, output: 10}, dear: {input: 100, output: 1000}}\n"
DAY = "day:2026-02-01"


def done(seen):
    return "Done."


class Reporting(Scripted):
    """An engine that reports this usage, of this model, at each turn."""

    name = "reporting"

    def __init__(self, usage, model="", takes_tools=True, script=done):
        super().__init__(script)
        self.usage, self.model, self.takes_tools = usage, model, takes_tools

    async def step(self, request, interrupt):
        turn = await super().step(request, interrupt)
        return turn._replace(usage=self.usage, model=self.model)


def spent(here, result):
    return here.supervisor.run_store.costs.budget.standing(f"run:{result.run}").spent


@pytest.mark.parametrize(
    ("own", "bounded"),
    [
        ({}, False),
        ({"max_tokens": 100_000}, True),
        ({"max_usd": 1.0}, True),
        ({"timeout": 60}, False),
    ],
)
def test_a_run_is_bounded_where_its_tokens_are(world, own, bounded):
    here = world(done)
    result = here.spawn("Work", "eng-a", **own)
    run = here.run(result)
    assert here.supervisor.run_store.costs.bounded(run) is bounded


def test_a_limit_that_is_misspelt_while_it_runs_begins_no_more(world):
    here = world(done)
    here.spawn("Work", "eng-a")
    with open(f"{here.mem.store.root}/synapse.yaml", "a") as file:
        file.write("limits: {run: {tokns: 5}}\n")
    here.mem.store.refresh(whole=True)
    with pytest.raises(InvalidEntry, match=r"no run begins by these settings: .*tokns"):
        here.spawn("More", "eng-a")


def test_a_root_has_depth_zero(world, cast):
    def lead(seen):
        if seen.turn:
            return seen.messages[-1].text
        return Move("", (("spawn_agent", {"agent": "eng-a", "task": "A part"}),))

    here = world(cast(lead=lead), settings="limits: {run: {depth: 0}}\n")
    result = here.spawn("Lead it", "lead")
    assert result.done
    assert "at its limit of depth" in result.text
    assert len(here.supervisor.run_store.runs.all()) == 1


def test_one_turn_is_enough_for_one_call(world):
    here = world(done)
    result = here.spawn("Work", "eng-a", max_turns=1)
    assert (result.status, spent(here, result).turns) == ("done", 1)


@pytest.mark.parametrize(("seconds", "booked"), [(3, 3.0), (-3, 0.0)])
def test_a_call_took_no_less_than_no_time(world, seconds, booked):
    """Whatever the clock does meanwhile."""

    def script(seen):
        here.time.elapsed += seconds
        return "Done."

    here = world(script)
    assert spent(here, here.spawn("Work", "eng-a")).seconds == booked


# -- usage -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("takes_tools", [True, False])
@pytest.mark.parametrize(
    ("usage", "believed"),
    [
        (Usage(500, 10), (True, True)),
        (Usage(0, 10), (True, True)),
        (Usage(500, 10, estimated=True), (False, True)),
        (Usage(0, 10, estimated=True), (False, False)),
    ],
)
def test_an_estimate_is_believed_where_we_cannot_count(world, takes_tools, usage, believed):
    """A client's own prompt is not seen here, so its estimate is nearer, where it has one."""
    here = world(Reporting(usage, takes_tools=takes_tools))
    tokens = spent(here, here.spawn("Work", "eng-a")).tokens
    assert (tokens == sum(usage[:2])) is believed[0 if takes_tools else 1]
    assert tokens > 0


def test_a_call_without_a_report_is_booked_at_our_count(world):
    here = world(Reporting(Usage()))
    assert spent(here, here.spawn("Work", "eng-a")).tokens > 100


@pytest.mark.parametrize(
    ("model", "usage", "usd"),
    [
        ("", Usage(1_000, 100), 0.002),
        ("dear", Usage(1_000, 100), 0.2),
        ("unknown", Usage(1_000, 100), 0.0),
        ("dear", Usage(1_000, 100, cost=7.0), 7.0),
        ("dear", Usage(1_000, 100, cost=0.0), 0.0),
    ],
)
def test_a_call_costs_what_its_model_costs_or_what_the_engine_says(world, model, usage, usd):
    here = world(Reporting(usage, model), settings=PRICES, model="cheap")
    result = here.spawn("Work", "eng-a")
    assert spent(here, result).usd == pytest.approx(usd)
    assert (result.cost or 0.0) == pytest.approx(usd)


@pytest.mark.parametrize(
    ("usage", "takes_tools", "name", "learnt"),
    [
        (Usage(50_000, 10), True, "reporting", True),
        (Usage(50_000, 10, estimated=True), True, "reporting", False),
        (Usage(50_000, 10), False, "reporting", False),
        (Usage(50_000, 10), True, "scripted", False),
    ],
)
def test_a_report_teaches_how_a_model_counts(world, usage, takes_tools, name, learnt):
    engine = Reporting(usage, takes_tools=takes_tools)
    engine.name = name
    here = world(engine, model="cheap", settings=PRICES)
    here.spawn("Work", "eng-a")
    ratios = Ratios(here.mem.store.root)._read()
    assert set(ratios) == ({"cheap"} if learnt else set())
    for reported, counted in ratios.values():
        assert reported == 50_000
        assert 0 < counted < 50_000


# -- what a missing file is made again from --------------------------------------------------------


def test_ledgers_of_consolidations_are_counted_and_are_no_runs(world):
    here = world(Reporting(Usage(900, 100)))
    result = here.spawn("Work", "eng-a")
    runs = here.supervisor.run_store.runs
    policy = here.supervisor.run_store.costs.policy
    root = here.mem.store.root
    for name in ("consolidation-2026-02-01", "consolidation", "other-2026-02-01"):
        shutil.copytree(f"{root}/runs/{result.run}", f"{root}/runs/{name}")
    here.supervisor.close()
    os.unlink(f"{root}/runs/spend.db")
    budget = budget_of(runs, root, policy)
    standing = budget.standing(DAY)
    budget.close()
    assert (standing.spent.tokens, standing.runs, standing.live) == (2_000, 1, 0)
