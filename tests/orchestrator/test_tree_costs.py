"""What a task took with all below it: in its result, as in the reports; and what a ceiling on money
says that leaves no room for a first call."""

import pytest

from orchestrator.engines.protocol import Usage
from orchestrator.engines.scripted import Move, Scripted
from orchestrator.reports.rows import Source
from orchestrator.reports.trees import trees
from orchestrator.runs.task import Result, Task, Tree, check
from orchestrator.team import Team
from synapse.errors import InvalidEntry

PRICED = "prices: {dear: {input: 1.0, output: 10.0}}\n"


class Priced(Scripted):
    """A script whose turns cost what they say: a cent, 100 tokens."""

    name = "priced"

    async def step(self, request, interrupt):
        turn = await super().step(request, interrupt)
        return turn._replace(usage=Usage(90, 10, cost=0.01))


def play(seen):
    """The boss gives to the lead, who gives to two engineers."""
    gives = {"boss": (("lead", "Lead it"),), "lead": (("eng-a", "A part"), ("eng-b", "B part"))}
    who = seen.system.split("\n")[0]
    jobs = next((jobs for name, jobs in gives.items() if f" {name}" in who), ())
    if not jobs or seen.turn > 1:
        return "Done."
    if seen.turn:
        return Move("", (("wait", {}),))
    calls = [("spawn_agent", {"agent": agent, "task": task}) for agent, task in jobs]
    return Move("", calls)


def test_a_result_has_what_all_below_it_took(world):
    here = world(Priced(play))
    result = here.spawn("Ship it", "boss")
    assert result.status == "done"
    assert (result.usage, result.cost) == (Usage(270, 30, cost=0.03), pytest.approx(0.03))
    assert result.tree.runs == 4
    assert result.tree.usage.input_tokens == 8 * 90
    assert result.tree.cost == pytest.approx(0.08)
    shown = result.fields()["tree"]
    assert (shown["runs"], shown["usage"]["output_tokens"]) == (4, 80)
    (top,) = trees(Source(here.mem.store, here.mem.store.root))
    assert (top.runs, top.tokens, top.cost) == (4, 800, pytest.approx(0.08))
    again = here.spawn("Ship it", "boss", once=True)
    assert again == result._replace(repeated=again.repeated)


def test_a_run_below_has_its_own_tree(world):
    here = world(Priced(play))
    here.spawn("Ship it", "boss")
    store = here.supervisor.run_store
    by_agent = {run.agent: store.result(run).tree for run in store.runs.all()}
    assert {agent: tree.runs for agent, tree in by_agent.items()} == {
        "boss": 4,
        "lead": 3,
        "eng-a": 1,
        "eng-b": 1,
    }
    assert by_agent["lead"].cost == pytest.approx(0.05)


def test_what_still_runs_counts_as_far_as_it_is(world):
    """The boss ends in a hurry: its ceiling holds while the runs below it are at work."""

    def hurried(seen):
        if " boss" in seen.system.split("\n")[0]:
            return play(seen)._replace(takes=1.0) if not seen.turn else Move("x", takes=9)
        return Move("", (("read", {"namespace": "status/*"}),), takes=1.0)

    here = world(Priced(hurried))
    result = here.spawn("Ship it", "boss", timeout=5)
    assert result.status == "timeout"
    assert (result.tree.runs, result.tree.cost > result.cost) == (2, True)


def test_a_result_without_a_run_took_nothing():
    assert Result("refused", "", "").tree == Tree() == sum([], start=Tree())
    assert Tree(1, Usage(1), None) + Tree(2, Usage(2), 0.5) == Tree(3, Usage(3), 0.5)


def test_a_ceiling_says_that_the_longest_reply_is_reserved(world):
    here = world(Priced(play), settings=PRICED)
    result = here.spawn("Ship it", "eng-a", model="dear", max_usd=0.02)
    assert (result.status, result.tree.cost) == ("stopped", None)
    assert "$0.02 allowed, $0 taken" in result.why
    assert "which is the reserve for a prompt of" in result.why
    assert "the longest reply, 8,192 tokens" in result.why
    assert "(max_reply, --max-reply)" in result.why
    assert "or give the task more (max_usd)" in result.why


def test_a_shorter_longest_reply_lets_it_begin(world):
    asked = []

    class Asked(Priced):
        async def step(self, request, interrupt):
            asked.append(request.max_tokens)
            return await super().step(request, interrupt)

    here = world(Asked(play), settings=PRICED, model="dear")
    assert here.spawn("Ship it", "lead", max_usd=0.09, max_reply=500).done
    assert asked == [500] * 5, "what it spawns has no longer replies"


def test_a_team_says_how_long_its_replies_are(world):
    """Each task of it, also where a plan drives the work; what it took is in its report."""
    asked = []

    class Asked(Priced):
        async def step(self, request, interrupt):
            asked.append(request.max_tokens)
            return await super().step(request, interrupt)

    def plan(seen):
        return "- [eng-a] Do it" if "Plan this project" in seen.text else "Done."

    here = world(Asked(plan), settings=PRICED, model="dear")
    team = Team("lead", ("eng-a",), max_reply=700, max_usd=1.0)
    report = here.time.run(team.run(here.supervisor, "Build it", "web"))
    assert (report.status, asked) == ("done", [700] * 3)
    assert (report.tree.runs, report.tree.cost) == (3, pytest.approx(0.03))


@pytest.mark.parametrize("reply", [0, -1])
def test_a_reply_has_a_token(reply):
    with pytest.raises(InvalidEntry, match="max_reply"):
        check(Task("Work", "eng", max_reply=reply))
