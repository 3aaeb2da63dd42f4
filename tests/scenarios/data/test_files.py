"""Scenario files: what is read of them, and what is refused."""

import pytest

from scenarios.data.files import BrokenScenario, find, library, load
from scenarios.data.schema import AGENTS, PARAMETERS, Draw, Size, cells, drawn_needs
from scenarios.play.world.truth import Leak, Truth, texts

WHOLE = """\
schema: brain-suite/v1
id: small
title: Small
shows: That it works.
arms: [isolated, shipped]
params: {n: 2}
facts:
  - {id: "f_{i}", count: 3, subject: "the port of host {i}", known: a, cost: {turns: 2, tokens: 900}}
agents:
  - {id: a}
  - {id: "w-{i}", count: $n}
tasks:
  - {id: "t-{i}", count: $n, agent: "w-{i}", every: 30, text: "Do {i}.", needs: ["f_{i}"], steps: {p50: 2, p90: 4}}
  - {id: last, agent: a, after: [t-*], text: Check it., needs: [f_3], steps: 1}
events:
  - {at: 60, write: f_3, by: a, supersedes: true}
gates:
  - task_success == 1
  - net_saving[n=3] <= 0
grid:
  - {n: [2, 3]}
"""


def test_a_file_becomes_a_scenario():
    made = load(WHOLE)
    assert [job.id for job in made.jobs] == ["t-1", "t-2", "last"]
    assert [job.at for job in made.jobs] == [0, 30, 0]
    assert made.jobs[0].steps == Size(2, 4)
    assert made.jobs[2].steps == Size(1, 1)
    assert [agent.id for agent in made.agents] == ["a", "w-1", "w-2"]
    assert made.fact("f_2").subject == "the port of host 2"
    assert [gate.text for gate in made.gates] == ["task_success == 1", "net_saving[n=3] <= 0"]
    assert made.happenings[0].supersedes


def test_events_may_be_repeated_and_say_what_is_no_value():
    text = WHOLE.replace(
        "  - {at: 60, write: f_3, by: a, supersedes: true}",
        "  - {at: 0, count: 3, write: 'f_{i}', by: a, says: 'Look into {subject}.'}",
    )
    made = load(text)
    assert [event.write for event in made.happenings] == ["f_1", "f_2", "f_3"]
    truth = Truth(made, made.seed)
    remarks = [text for text in texts(made, {}, truth) if text.startswith("Look")]
    assert remarks == [f"Look into the port of host {n}." for n in (1, 2, 3)]
    told = made._replace(
        happenings=(made.happenings[0]._replace(says=f"Is it {truth.now('f_1')}?"),)
    )
    with pytest.raises(Leak):
        truth.lint(texts(told, {}, truth))


def test_a_cell_sets_parameters():
    made = load(WHOLE, {"n": 3, "price": 0.5, "p_read": 0.9})
    assert len(made.jobs) == 4
    assert made.fact("f_1").cost.tokens == 450
    assert made.params["p_read"] == 0.9
    assert made.cell == {"n": 3, "price": 0.5, "p_read": 0.9}


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("schema: brain-suite/v1", "schema: brain-suite/v2", "schema: must be brain-suite/v1"),
        ("title: Small", "titel: Small", "titel is not known"),
        ("title: Small", "title: Small\nlevels: [L0, L2]", "levels is not known"),
        ("known: a", "knwon: a", "knwon is not known"),
        ("known: a", "known: b", "known by b, who is no agent"),
        ("known: a", "decided_by: b", "decided by b, who is no agent"),
        ("known: a", "also_by: a", "also_by needs decided_by, and another agent"),
        ("known: a", "decided_by: a, also_by: a", "also_by needs decided_by, and another agent"),
        (
            "[isolated, shipped]",
            "[isolated, view]",
            "shipped is missing: gates are about what ships",
        ),
        (
            "params: {n: 2}",
            "params: {n: 2, agents: tired}",
            "agents: must be one of ideal, degraded, not tired",
        ),
        ("agent: a,", "agent: b,", "there is no agent b"),
        ("needs: [f_3]", "needs: [f_9]", "needs f_9, which is no fact"),
        ("after: [t-*]", "after: [x-*]", "after x-*, which is no task"),
        ("after: [t-*]", "after: [last]", "tasks wait for each other: last"),
        ("write: f_3", "write: f_9", "no such fact or agent"),
        ("$n", "$m", "is no parameter"),
        ("task_success == 1", "task_success = 1", "is not `metric op number`"),
        ("{p50: 2, p90: 4}", "{p50: 4, p90: 2}", "must be a number, or"),
        ("every: 30", "at: soon", "soon"),
        ("count: 3", "count: 3, value: roman", "value must be one of hex, int"),
        ("count: 3", "count: 3, value: int", "an int needs low and high"),
        ('"w-{i}", count: $n', "w, count: $n", "two agents are called w"),
    ],
)
def test_what_is_wrong_is_told(old, new, problem):
    assert old in WHOLE
    with pytest.raises(BrokenScenario, match="small") as error:
        load(WHOLE.replace(old, new))
    assert problem in str(error.value)


def test_all_problems_are_told_at_once():
    with pytest.raises(BrokenScenario, match=r"titel is not known.*title is missing.*no agent b"):
        load(WHOLE.replace("title", "titel").replace("agent: a,", "agent: b,"))


def test_parameters_that_are_none_are_refused():
    with pytest.raises(BrokenScenario, match="teams is no parameter"):
        load(WHOLE, {"teams": 3})
    with pytest.raises(BrokenScenario):
        load("- a list")
    with pytest.raises(BrokenScenario, match="no scenario nowhere"):
        find("nowhere")


def test_degraded_agents_are_all_their_chances_together():
    ideal, degraded = (load(WHOLE, {"agents": kind}).params for kind in AGENTS)
    assert {name: one.value for name, one in PARAMETERS.items()} | {"n": 2} == ideal
    changed = {name: degraded[name] for name in PARAMETERS if degraded[name] != ideal[name]}
    assert changed == {"agents": "degraded", "p_read": 0.9, "tool_use": 0.6, "beside": 0.0, "claims_otherwise": 0.5,
                       "bare_queries": 1.0, "chatter": 0.3, "wrong_notes": 0.05, "heeds": 0.9}  # fmt: skip
    assert all(PARAMETERS[name].source for name in changed)
    mixed = load(WHOLE, {"agents": "degraded", "p_read": 0.0}).params
    assert (mixed["p_read"], mixed["tool_use"]) == (0.0, 0.6)
    own = load(WHOLE.replace("params: {n: 2}", "params: {n: 2, agents: degraded}"))
    assert own.params["beside"] == 0.0
    assert (
        load(
            WHOLE.replace("params: {n: 2}", "params: {n: 2, agents: degraded}"), {"agents": "ideal"}
        ).params
        == ideal
    )


@pytest.mark.parametrize("name", library())
def test_teams_are_played_by_degraded_and_by_ideal_agents(name):
    made = load(find(name))
    if made.kind == "team":
        assert made.params["agents"] == "degraded"
        assert {"agents": "ideal"} in cells(made)


def test_needs_are_drawn_by_seed():
    made = load(find("redundant_discovery"), {"n": 10, "overlap": 0.5})
    assert made.jobs[0].draws == Draw(3, "common_*", "own_*", 0.5)
    one, again, other = (drawn_needs(made, seed) for seed in (1, 1, 2))
    assert one == again != other
    own = [need for job in one.jobs for need in job.needs if need.startswith("own")]
    assert len(own) == len(set(own))
    assert all(len(set(job.needs)) == 3 for job in one.jobs)
    nobody = drawn_needs(load(find("redundant_discovery"), {"overlap": 0.0}), 1)
    assert all(need.startswith("own") for job in nobody.jobs for need in job.needs)


@pytest.mark.parametrize("name", library())
def test_what_is_shipped_can_be_read(name):
    made = load(find(name))
    assert made.id == name
    assert made.gates
    for axis in made.grid:
        for parameter, values in axis.items():
            last = values[-1] if isinstance(values, list) else values
            assert load(find(name), {parameter: last}).params[parameter] == last
