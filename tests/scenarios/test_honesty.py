"""Whether the suite can be believed: against the shipped scenarios, with a few seeds each."""

import inspect
import json
import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from scenarios.data import files, schema
from scenarios.measure import metrics
from scenarios.play import harness
from scenarios.play.agents import cast, coordinator, part, worker
from scenarios.play.agents.cast import Player
from scenarios.play.agents.part import Policy
from scenarios.play.arms.catalog import ARMS
from scenarios.play.harness import Counts, Play, play
from scenarios.play.world.truth import Leak

ROOT = Path(__file__).parents[2]
HELPED = {
    "landing_pages": "shipped",
    "api_migration_wake": "view",
    "telephone": "view",
    "redundant_discovery": "view_capsule",
    "context_explosion": "view_capsule",
    "blocker_escalation": "view_capsule",
}
ASKEW = {"p_read": 0.5, "tool_use": 0.3, "beside": 0.0, "claims": False, "claims_otherwise": 0.5, "bare_queries": 1.0,
         "chatter": 0.9, "heeds": 0.0, "relay_loss": 0.5, "bell_lost": 0.0, "told_twice": 0.5}  # fmt: skip
SMALL = {"redundant_discovery": {"n": 6}, "context_explosion": {"n": 4, "entries": 60}}
KINDS = ("ideal", "degraded")


@pytest.fixture(scope="module")
def count():
    return Counts()


@pytest.fixture(scope="module")
def scenario():
    return lambda name, kind="ideal": files.load(
        files.find(name), SMALL.get(name, {}) | {"agents": kind}
    )


@pytest.fixture(scope="module")
def played(scenario, count):
    known = {}

    def run(name, arm, seed=7, kind="ideal"):
        if (name, arm, seed, kind) not in known:
            known[name, arm, seed, kind] = play(scenario(name, kind), arm, seed, count)
        return known[name, arm, seed, kind]

    return run


def figures(run, isolated=None):
    return metrics.measured(run) | metrics.compared(run, isolated)


@pytest.mark.parametrize("name", HELPED)
def test_without_the_memory_it_goes_worse(played, name):
    isolated = played(name, "isolated")
    found, base = figures(played(name, HELPED[name]), isolated), figures(isolated)
    assert found["task_success"] > base["task_success"] or found["net_saving"] > 0.05
    assert found["task_success"] >= base["task_success"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["landing_pages", "telephone", "api_migration_wake"])
def test_a_placebo_does_nothing_but_cost_its_tokens(played, name, kind):
    isolated = played(name, "isolated", kind=kind)
    placebo = played(name, "placebo", kind=kind)
    for kind in ("verdict", "discovery", "action"):
        assert [told(event) for event in placebo.of(kind)] == [
            told(event) for event in isolated.of(kind)
        ]
    view = metrics.by_label(placebo)["view"]
    assert metrics.tally(placebo)["tokens"] == metrics.tally(isolated)["tokens"] + view
    assert view > 0


def told(event):
    return {key: value for key, value in event.items() if key != "run"}


@pytest.mark.parametrize("name", ["landing_pages", "telephone"])
def test_a_value_that_is_changed_in_the_memory_changes_the_outcome(scenario, count, name):
    class Mutated(Play):
        """One in which the memory holds another value of one fact than the world."""

        def _furnish(self):
            fact = next(fact for fact in self.scenario.facts if fact.known)
            true, lie = self.truth.state, self.truth.lie(fact.id)
            self.truth.state = lambda id, *more, **named: (
                true(id, *more, value=lie) if id == fact.id else true(id, *more, **named)
            )
            super()._furnish()
            del self.truth.state

    run = Mutated(scenario(name), HELPED[name], 7, count).run()
    assert figures(run)["task_success"] < 1
    assert any(event["used"].endswith("@!") for event in run.of("action"))


def test_the_less_the_memory_holds_the_less_it_saves(scenario, count):
    whole, saved = scenario("telephone"), []
    for dropped in range(5):
        facts = [
            fact._replace(known=None) if n < dropped else fact for n, fact in enumerate(whole.facts)
        ]
        run = play(whole._replace(facts=tuple(facts)), "capsule", 7, count)
        first = [event for event in run.of("discovery") if event["agent"] == "hop-1"]
        saved.append(-len(first))
    assert saved == [0, -1, -2, -3, -4]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "name", [*HELPED, "poisoned_memory", "sequential_single", "stale_authority", "equal_conflict"]
)
def test_who_is_isolated_is_shown_no_value_that_it_did_not_find_out(played, name, kind):
    run = played(name, "isolated", kind=kind)
    coordinates = {
        event["run"] for event in run.of("spawn") if event["role"] in ("cto", "project-lead")
    }
    found = set()
    for event in run.events:
        if event["kind"] == "prompt":
            for label, versions in event["shows"].items():
                assert label == "work_obs" or (label == "plan" and event["run"] in coordinates)
                found |= {(event["run"], version) for version in versions}
        if event["kind"] == "action" and event["used"]:
            assert (event["run"], event["used"]) in found


@pytest.mark.parametrize(
    "name", [*HELPED, "contradictory_authority_wrong", "poisoned_memory", "sequential_single"]
)
def test_who_is_isolated_takes_no_heed_of_what_the_memory_is_like(played, count, name):
    assert set(ASKEW) == schema.OF_MEMORY
    run = other(name, ASKEW, count)
    assert run.events[1:] == played(name, "isolated").events[1:]


def test_the_check_for_heed_finds_some(played, count):
    assert (
        other("telephone", {"price": 2.0}, count).events[1:]
        != played("telephone", "isolated").events[1:]
    )


def other(name, cell, count):
    """The isolated run of a scenario with other parameters."""
    scenario = files.load(files.find(name), SMALL.get(name, {}) | {"agents": "ideal"} | cell)
    return play(scenario, "isolated", 7, count)


def test_the_check_for_leaks_finds_one(played):
    run = played("landing_pages", "view")
    assert any("view" in event["shows"] for event in run.of("prompt"))


@pytest.mark.parametrize("arms", [("isolated", "view"), ("broadcast", "capsule")])
def test_the_name_of_an_arm_means_nothing(scenario, count, monkeypatch, arms):
    one, other = arms
    straight = play(scenario("landing_pages"), one, 7, count)
    monkeypatch.setattr(harness, "ARMS", {other: ARMS[one], one: ARMS[other]})
    assert play(scenario("landing_pages"), other, 7, count).events[1:] == straight.events[1:]


def test_a_player_is_made_of_a_policy_and_a_seed():
    assert list(inspect.signature(Player).parameters) == ["policy", "seed"]
    player = pickle.loads(pickle.dumps(Player(Policy(), 3)))
    assert vars(player) == {"policy": Policy(), "seed": 3}
    for module in (cast, part, worker, coordinator):
        code = Path(module.__file__).read_text().split('"""', 2)[2]
        assert "synapse" not in code.replace("synapse-", "")


def test_a_value_in_a_task_is_a_leak(scenario, count):
    whole = scenario("landing_pages")
    value = Play(whole, "view", 7, count).truth.now("nav_fix")
    jobs = tuple(job._replace(text=f"{job.text} Try {value}.") for job in whole.jobs)
    with pytest.raises(Leak, match="nav_fix@0"):
        play(whole._replace(jobs=jobs), "view", 7, count)


# -- What is deleted from the product is missed ----------------------------------------

DELETED = {
    "wake": (
        "orchestrator/supervisor.py",
        "self.sessions[id].offer(News(entry, now, tier))",
        "pass",
        "api_migration_wake",
        "view",
    ),
    "view": (
        "orchestrator/prompts/receipt.py",
        "if order.worth and not view.included",
        "if order.worth or not view.included",
        "landing_pages",
        "shipped",
    ),
    "acts": (
        "orchestrator/prompts/opening.py",
        "return Opening(*fitted, context.news, context.acts)",
        "return Opening(*fitted, context.news, False)",
        "redundant_discovery",
        "shipped",
    ),
    "authority": (
        "synapse/authority.py",
        "elif rival.authority > new.authority:",
        "elif rival.authority < new.authority:",
        "blocker_two_answers",
        "view_capsule",
    ),
    "disputes": (
        "synapse/authority.py",
        'Effect(one.seq, "disputed", other.seq),',
        'Effect(one.seq, "disputed", other.seq),\n    ][:0] and [',
        "blocker_two_answers",
        "view_capsule",
    ),
    "supersedes": (
        "synapse/agent_memory.py",
        "words(supersedes),",
        "(),",
        "blocker_escalation",
        "view_capsule",
    ),
}

# under which somebody is shown nothing but the answer that wins
SEED_OF = {"authority": 26}
IDEAL = {"agents": "ideal"}
# ideal agents take what their view says for a result, and miss nothing without it
CELL_OF = {"acts": {}}


@pytest.fixture(scope="module")
def copied(tmp_path_factory):
    """The figures of a gated arm, by a copy of the product of which something was deleted."""

    def run(path, old, new, name, arm, seed, cell):
        root = tmp_path_factory.mktemp("copy")
        for package in ("synapse", "orchestrator", "prompts", "scenarios"):
            shutil.copytree(
                ROOT / package, root / package, ignore=shutil.ignore_patterns("__pycache__")
            )
        text = (root / path).read_text()
        assert text.count(old) == 1
        (root / path).write_text(text.replace(old, new))
        code = f"""
import json
from scenarios.data import files
from scenarios.measure import metrics
from scenarios.play import harness
run = harness.play(files.load(files.find({name!r}), {cell!r}), {arm!r}, {seed})
print(json.dumps(metrics.measured(run)))
"""
        env = os.environ | {"PYTHONPATH": str(root)}
        done = subprocess.run(
            [sys.executable, "-c", code],
            env=env,
            cwd=root,
            capture_output=True,
            text=True,
            timeout=90,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


def missed(found, gates):
    """Return the gates about degraded or ideal agents that one run's own figures do not pass."""
    passes = {
        "==": float.__eq__,
        ">=": float.__ge__,
        "<=": float.__le__,
        "<": float.__lt__,
        ">": float.__gt__,
    }
    own = [gate for gate in gates if gate.cell in ("", "agents=ideal") and gate.metric in found]
    return [gate.text for gate in own if not passes[gate.op](float(found[gate.metric]), gate.value)]


@pytest.mark.parametrize("what", DELETED)
def test_what_is_deleted_from_the_product_is_missed(copied, count, what):
    *_, name, arm = DELETED[what]
    cell, seed = CELL_OF.get(what, IDEAL), SEED_OF.get(what, 21)
    whole = files.load(files.find(name), cell)
    known = (
        {"co_memory <= 0.05"} if name in ("landing_pages", "redundant_discovery") else set()
    )  # as in test_gates
    assert set(missed(figures(play(whole, arm, seed, count)), whole.gates)) <= known
    assert set(missed(copied(*DELETED[what], seed, cell), whole.gates)) - known
