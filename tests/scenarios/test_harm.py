"""Memory can help and can harm: what agents find out goes wrong by chance, and what they read may
be false or old.
"""

import pytest

from scenarios.data import files
from scenarios.data.schema import cells
from scenarios.measure import metrics
from scenarios.play.harness import Counts, play

SEEDS = range(3)


@pytest.fixture(scope="module")
def figures():
    count, known = Counts(), {}

    def mean(name, arm, **cell):
        key = name, arm, tuple(cell.items())
        if key not in known:
            scenario = files.load(files.find(name), cell)
            runs = [
                metrics.measured(play(scenario, arm, scenario.seed + seed, count)) for seed in SEEDS
            ]
            known[key] = {
                name: sum(run.get(name, 0) for run in runs) / len(runs)
                for name in set().union(*runs)
            }
        return known[key]

    return mean


def test_what_agents_find_out_by_themselves_can_be_wrong_or_fail(figures):
    """So success is not given: not even to who is isolated."""
    small = {"n": 6, "agents": "ideal"}
    assert figures("redundant_discovery", "isolated", **small)["task_success"] == 1
    errs = figures("redundant_discovery", "isolated", err=0.4, **small)
    assert 0.1 < errs["task_success"] < 0.9
    assert errs["turns"] > figures("redundant_discovery", "isolated", **small)["turns"], (
        "what fails is tried again"
    )


def test_an_agents_first_attempt_comes_out_alike_in_every_arm():
    scenario = files.load(
        files.find("redundant_discovery"), {"n": 6, "err": 0.4, "agents": "ideal"}
    )
    count = Counts()
    used = []
    for arm in ("isolated", "placebo"):
        run = play(scenario, arm, 11, count)
        used.append([(event["agent"], event["fact"], event["ok"]) for event in run.of("action")])
    assert used[0] == used[1]


def test_a_wrong_finding_spreads_where_it_is_shared(figures):
    cell = {"n": 10, "overlap": 1.0, "common": 4, "err": 0.3, "agents": "ideal"}
    alone, shared = (
        figures("redundant_discovery", arm, **cell) for arm in ("isolated", "tool_cache")
    )
    assert shared["discoveries"] < alone["discoveries"]
    assert shared["corruption"] > 0


def test_a_wrong_note_does_harm_to_those_who_believe_it(figures):
    cell = {"n": 10, "overlap": 1.0, "agents": "ideal"}
    right = figures("redundant_discovery", "file_tail", **cell)
    wrong = figures("redundant_discovery", "file_tail", wrong_notes=0.5, **cell)
    alone = figures("redundant_discovery", "isolated", wrong_notes=0.5, **cell)
    assert right["task_success"] == 1 > wrong["task_success"]
    assert alone["task_success"] == 1, "who wrote it knows better"


@pytest.mark.parametrize("kind", ["ideal", "degraded"])
def test_who_reads_nothing_and_may_use_every_tool_never_polls(figures, kind):
    nothing = figures("redundant_discovery", "view_capsule", n=6, p_read=0.0, agents=kind)
    alone = figures("redundant_discovery", "isolated", n=6, p_read=0.0, agents=kind)
    # notes that it writes take turns of their own
    assert nothing["turns"] <= 1.35 * alone["turns"]
    unshared = figures("redundant_discovery", "no_acts", n=6, p_read=0.0, agents=kind)
    assert unshared["turns"] == alone["turns"]
    shipped = figures("redundant_discovery", "shipped", n=6, p_read=0.0, agents=kind)
    assert shipped["turns"] < alone["turns"], (
        "what answers its own call is taken in, whoever got it"
    )


def test_the_judged_cells_of_poisoned_memory_leave_no_way_of_lying_out():
    scenario = files.load(files.find("poisoned_memory"))
    ways = {event.wrong for event in scenario.happenings}
    assert {"loud", "unknown", "task"} <= ways
    judged = {
        gate.metric.removeprefix("asr_act.")
        for gate in scenario.gates
        if gate.cell == "agents=ideal"
    }
    assert ways <= judged
    assert {gate.metric for gate in scenario.gates if not gate.cell} >= {
        "success_vs_isolated",
        "success_vs_best",
    }


@pytest.mark.parametrize("name", ["stale_authority", "equal_conflict", "poisoned_memory"])
def test_believing_everything_does_harm_there(figures, name):
    """Each of these can be failed: by agents that heed no authority, or act on what was true
    once.
    """
    believing = figures(name, "file_tail", agents="ideal", heeds=0.0)
    alone = figures(name, "isolated", agents="ideal")
    # nothing goes wrong for good: who is refused looks it up
    if name == "stale_authority":
        assert figures(name, "shipped", agents="ideal")["stale_action_rate"] > 0
    else:
        assert believing["task_success"] < alone["task_success"] == 1


def test_noise_is_about_other_things_than_the_tasks(figures):
    scenario = files.load(files.find("plausible_noise"))
    known = {fact.id for fact in scenario.facts if fact.known}
    assert len(known) == 200
    assert figures("plausible_noise", "isolated", agents="ideal")["redundancy"] == 0
    assert {"agents": "ideal"} in cells(scenario)
