"""Figures from ledgers that are written by hand, small enough to be computed in the head."""

import pytest

from scenarios.data.ledger import Run
from scenarios.measure import metrics
from scenarios.measure.meanings import meaning


def ledger(*events, arm="view", tasks=()):
    """A run of these events, in their order."""
    begin = {
        "kind": "begin",
        "t": 0,
        "arm": arm,
        "seed": 1,
        "cell": {},
        "tasks": list(tasks),
        "scenario": "s",
    }
    finish = {
        "kind": "finish",
        "t": 99_000,
        "elapsed": 99_000,
        "tasks": 1,
        "ok": 1,
        "lost_results": 0,
    }
    return Run([begin, *events, finish])


def spawn(run="a-1", agent="a", role="engineer", **more):
    found = {
        "kind": "spawn",
        "t": 0,
        "run": run,
        "agent": agent,
        "role": role,
        "ids": [],
        "needs": [],
        "available": [],
    }
    return found | {"view_tokens": 0, "live_tokens": 0} | more


def prompt(*segments, run="a-1", agent="a", step=1, t=1_000, **more):
    found = {
        "kind": "prompt",
        "t": t,
        "run": run,
        "agent": agent,
        "step": step,
        "segments": list(segments),
    }
    return found | {"ids": [], "shows": {}} | more


def reply(*segments, run="a-1", agent="a", step=1, t=2_000, interrupted=False):
    found = {
        "kind": "completion",
        "t": t,
        "run": run,
        "agent": agent,
        "step": step,
        "segments": list(segments),
    }
    return found | {"interrupted": interrupted, "cost": 0.5, "stop": "done", "calls": []}


def fact(version, t=0):
    return {
        "kind": "fact",
        "t": t,
        "fact": version.split("@")[0],
        "version": version,
        "value": "x",
        "known": False,
    }


def action(used, t, ok=False, stale=False, agent="a", hop=None):
    found = {
        "kind": "action",
        "t": t,
        "run": "a-1",
        "agent": agent,
        "task": "t",
        "fact": "f",
        "used": used,
    }
    return found | {"ok": ok, "stale": stale, "asserted": used is not None, "hop": hop}


def write(id, t, to=(), facts=(), source="agent", agent="w"):
    found = {
        "kind": "write",
        "t": t,
        "id": id,
        "agent": agent,
        "facts": list(facts),
        "source": source,
    }
    return found | {"for": list(to), "supersedes": [], "namespace": "status/x"}


def test_tokens_are_sorted_by_what_they_are_for():
    run = ledger(
        spawn(),
        spawn("l-1", "l", "project-lead"),
        prompt(["system", 100, 1], ["view", 20, 1]),
        reply(["work_out", 30]),
        prompt(
            ["system", 100, 0],
            ["view", 20, 0],
            ["history", 30, 0],
            ["work_obs", 50, 1],
            step=2,
            t=3_000,
        ),
        reply(["work_out", 10], ["writeback", 5], step=2, t=4_000),
        prompt(["system", 40, 1], ["view", 10, 1], run="l-1", agent="l"),
        reply(["plan", 6], run="l-1", agent="l"),
        {
            "kind": "relay",
            "t": 5_000,
            "agent": "a",
            "read": 3,
            "wrote": 1,
            "kept": [],
            "lost": [],
            "changed": [],
        },
        {"kind": "consolidate", "t": 6_000, "tokens": 2, "tokens_before": 100, "tokens_after": 80},
    )
    found = metrics.tally(run)
    assert (found["work"], found["memory"], found["planning"]) == (320, 57, 50)
    assert (found["work_unique"], found["memory_unique"], found["planning_unique"]) == (190, 37, 50)
    assert found["work_discounted"] == pytest.approx(190 + 13)
    figures = metrics.measured(run)
    assert figures["co_memory"] == 57 / 320
    assert figures["co_task"] == 107 / 320
    assert figures["co_total"] == 107 / 427
    assert figures["tokens"] == 427
    assert figures["usd"] == pytest.approx(
        ((370 + 3) * 3 + (51 + 1) * 15 + 2 * 3) / 1e6
    )  # too short for a cache
    assert figures["tokens.work_obs"] == 50


def test_a_turn_that_news_cut_short_is_what_waking_cost():
    cut = ledger(spawn(), prompt(["system", 100, 1]), reply(["work_out", 7], interrupted=True))
    assert metrics.tally(cut)["memory"] == 107
    assert metrics.tally(cut).get("work", 0) == 0


def test_arms_are_compared_by_all_their_tokens():
    big = ledger(spawn(), prompt(["system", 400, 1]), reply(["work_out", 100]), arm="isolated")
    small = ledger(spawn(), prompt(["system", 200, 1], ["view", 40, 1]), reply(["work_out", 10]))
    found = metrics.compared(small, big, big)
    assert found["net_saving"] == found["saving_vs_broadcast"] == 1 - 250 / 500
    assert found["co_ref"] == 40 / 500
    assert metrics.compared(small, None) == {}


def test_what_is_found_out_again_is_redundant():
    def dig(fact, t, known, concurrent=False):
        about = {
            "fact": fact,
            "known": known,
            "concurrent": concurrent,
            "tokens": 100,
            "began": t,
            "turns": 1,
        }
        return {"kind": "discovery", "t": t, "run": "a-1", "agent": "a", "stale": False} | about

    run = ledger(
        fact("f@0"),
        fact("g@0"),
        fact("f@1", 3_500),
        spawn(),
        prompt(["system", 1_000, 1]),
        reply(),
        dig("f", 2_000, False),
        dig("f", 3_000, False, True),
        dig("f", 4_000, False),
        dig("g", 4_000, True),
    )
    found = metrics.measured(run)
    assert (found["discoveries"], found["redundancy"], found["concurrent"]) == (4, 0.25, 0.25)
    # the second of f@0, and g, which was known; not that of f@1
    assert found["duplicate_work"] == 0.5
    assert found["redundant_token_share"] == 0.1


def test_recall_is_of_what_the_memory_held():
    run = ledger(
        fact("f@0"),
        fact("g@0"),
        fact("h@0"),
        spawn(
            needs=["f", "g", "h"], available=["f", "g"], view_tokens=25, live_tokens=100, ids=["e1"]
        ),
        prompt(["view", 25, 1], shows={"view": ["f@0", "x@0"]}),
        {"kind": "tool_call", "t": 2_000, "run": "a-1", "agent": "a", "call": "c", "tool": "work"},
        prompt(["capsule", 25, 1], t=3_000, step=2, shows={"capsule": ["g@0"]}),
        tasks=[{"id": "other", "makes": "g"}, {"id": "first", "makes": "f"}],
    )
    found = metrics.measured(run)
    assert (found["view_recall"], found["needed_recall"], found["view_precision"]) == (
        0.5,
        1.0,
        0.5,
    )
    assert found["context_reduction"] == 0.75
    assert found["seen_before_work"] == 0.5


@pytest.mark.parametrize(("label", "stale"), [("capsule", 1.0), ("view", 0.0)])
def test_what_was_given_and_is_not_so_any_more_is_counted(label, stale):
    """Of acts on a value of before, those that a search or a shared result gave."""
    run = ledger(
        fact("f@0"),
        spawn(),
        prompt([label, 1, 1], shows={label: ["f@0"]}, t=1_000),
        fact("f@1", 2_000),
        action("f@0", 2_500, stale=True),
    )
    assert metrics.measured(run)["stale_given"] == stale


def test_actions_are_judged_by_the_value_of_then():
    run = ledger(
        fact("f@0"),
        spawn(),
        prompt(["view", 1, 1], shows={"view": ["f@0"]}, t=1_000),
        action("f@0", 1_500, ok=True, hop=1),
        fact("f@1", 2_000),
        action("f@0", 2_500, stale=True, hop=2),
        prompt(["wake", 1, 1], shows={"wake": ["f@1"]}, t=3_000, step=2),
        action("f@1", 3_500, ok=True, hop=2),
        action("f@?", 3_600, hop=2),
    )
    found = metrics.measured(run)
    assert (found["stale_action_rate"], found["stale_after_delivery"]) == (0.25, 0.0)
    assert (found["fidelity"], found["corruption"]) == (0.5, 0.5)
    assert (found["fidelity.1"], found["fidelity.2"]) == (1.0, pytest.approx(1 / 3))
    assert found["exposure"] == 1.0


def test_wakes_are_timed_to_the_prompt_that_holds_them():
    def shown(id, agent, t, via="wake"):
        return {
            "kind": "wake_rendered",
            "t": t,
            "id": id,
            "agent": agent,
            "run": f"{agent}-1",
            "via": via,
        }

    run = ledger(
        spawn(needs=["f"]),
        spawn("b-1", "b"),
        prompt(["system", 1, 1], t=0),
        prompt(["system", 1, 1], t=0, run="b-1", agent="b"),
        write("e1", 2_000, to=["a", "b", "gone"], facts=["f@0"]),
        prompt(["system", 1, 1], t=3_000, step=2),
        shown("e1", "a", 4_000),
        prompt(["wake", 1, 1], t=4_000, step=3),
        prompt(["system", 1, 1], t=9_000, run="b-1", agent="b", step=2),
        {"kind": "duplicate_wake", "t": 9_500, "id": "e1", "agent": "a", "run": "a-1"},
        reply(t=9_500, step=3),
        fact("f@0"),
    )
    found = metrics.measured(run)
    assert (found["wake_latency"], found["wake_turns"]) == (2.0, 2)
    assert found["wake_delivery"] == 0.5
    assert (found["wake_duplicates"], found["wake_precision"]) == (1, 1.0)


def test_blockers_are_timed_until_they_are_replaced():
    blocker = {"namespace": "blockers/x"}
    run = ledger(
        write("b1", 1_000) | blocker,
        write("b2", 2_000) | blocker,
        write("d", 5_000) | {"supersedes": ["b1"]},
    )
    found = metrics.measured(run)
    assert (found["blockers"], found["blockers_resolved"], found["blocker_mttr"]) == (2, 0.5, 4.0)


def test_who_takes_part_reads_and_writes():
    run = ledger(
        spawn(ids=["e1"]),
        spawn("b-1", "b"),
        prompt(["wake", 1, 1], run="b-1", agent="b", ids=["e2"]),
        write("e3", 5_000, agent="a", source="writeback"),
        write("e4", 5_000, agent="b", source="scenario"),
    )
    assert metrics.measured(run)["memory_participation"] == 0.5


def test_every_figure_has_a_meaning():
    run = ledger(
        fact("f@0"),
        spawn(needs=["f"], available=["f"], live_tokens=1),
        prompt(["system", 1, 1]),
        reply(["work_out", 1]),
        action("f@0", 1, ok=True, hop=1),
        write("e", 1, to=["a"]),
        {"kind": "probe", "t": 1, "name": "growth", "value": {"slope": 2}},
        {
            "kind": "resume",
            "t": 1,
            "lost": 0,
            "repeated_tokens": 1,
            "tokens": 10,
            "run": "a-1",
            "agent": "a",
        },
        {
            "kind": "poison",
            "t": 1,
            "legit": False,
            "stored": True,
            "shown": True,
            "quoted": True,
            "acted": False,
            "way": "plain",
        },
        {"kind": "poison", "t": 1, "legit": True, "blocked": False},
        {"kind": "verdict", "t": 1, "ok": True, "task": "t"},
    )
    found = metrics.measured(run) | metrics.compared(run, run, run)
    for name in found:
        assert meaning(name)
    assert meaning("co_task_unique") == "(C + P) ÷ W, each token once"
    with pytest.raises(KeyError):
        meaning("nonsense")
    assert found["probe.growth.slope"] == 2
    assert (found["asr_stored"], found["asr_view"], found["asr_act"], found["false_positives"]) == (
        1,
        0,
        0,
        0,
    )
    assert (found["lost_writes"], found["repeated_share"]) == (0, 0.1)


def test_growth_is_the_median_slope():
    def day(n, tokens):
        return {
            "kind": "probe",
            "t": n,
            "name": "day",
            "value": {"day": n, "live": 1, "tokens": tokens},
        }

    asked = {"kind": "probe", "t": 4, "name": "queries", "value": {"before": 4, "after": 3}}
    night = {"kind": "consolidate", "t": 3, "tokens": 0, "tokens_before": 100, "tokens_after": 80}
    found = metrics.measured(ledger(day(1, 100), day(2, 200), day(3, 300), night, asked))
    assert (found["growth"], found["fact_retention"], found["compression"]) == (100, 0.75, 0.8)


def answer(version, t, authority, agent="w"):
    found = {
        "kind": "answer",
        "t": t,
        "id": version,
        "agent": agent,
        "fact": "f",
        "version": version,
    }
    return found | {"authority": authority}


def shows(*versions, t, disputed=()):
    return prompt(t=t, shows={"view": list(versions)}) | (
        {"disputed": list(disputed)} if disputed else {}
    )


def test_the_answer_of_higher_authority_is_the_one_to_act_on():
    both = answer("f@0", 5_000, 80), answer("f@!", 3_000, 60)
    found = metrics.measured(
        ledger(
            fact("f@0"),
            action("f@!", 4_000),  # there was but one answer
            *sorted(both, key=lambda each: each["t"]),
            action("f@!", 5_500),  # it was shown neither since
            shows("f@!", t=6_000),
            action("f@!", 6_500),
            shows("f@0", t=7_000),
            action("f@0", 7_500),
        )
    )
    assert (found["answers.unequal"], found["answers.higher"]) == (2, 0.5)
    assert (found["answers.equal"], "answers.told" in found) == (0, False)


def test_of_equals_the_reader_is_to_be_told():
    found = metrics.measured(
        ledger(
            fact("f@0"),
            answer("f@0", 3_000, 80),
            answer("f@!", 4_000, 80),
            shows("f@!", t=5_000),
            action("f@!", 6_000),
            shows("f@0", "f@!", t=7_000, disputed=["f@0", "f@!"]),
            action("f@0", 8_000),
        )
    )
    assert (found["answers.equal"], found["answers.told"], found["answers.newest"]) == (2, 0.5, 0.5)
    assert (found["answers.unequal"], "answers.higher" in found) == (0, False)


def test_where_nobody_contradicts_anybody_no_answers_are_counted():
    assert not any(
        name.startswith("answers")
        for name in metrics.measured(ledger(fact("f@0"), action("f@0", 1_000)))
    )
