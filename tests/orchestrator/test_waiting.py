"""A tree that only a person can move waits, and goes on from its steps once it is answered."""

import asyncio
import os
import sys

import pytest
from mcp import Client, StdioServerParameters, stdio_client

import synapse
from orchestrator import Supervisor
from orchestrator.engines.scripted import Move, Scripted
from orchestrator.reports.rows import Source, find_run
from orchestrator.runs.files import steps
from orchestrator.waiting.answers import answer
from orchestrator.waiting.questions import questions_of
from synapse.errors import Conflict

ANSWER = "The key is in the vault under web"


def team(taken, parts=("eng-a",), lead_asks=False, same=False):
    """The engine of a CTO, a lead and engineers, of which each is blocked until it is told the
    key; who took which turn is noted in `taken`."""

    def script(seen):
        names = ("boss", "lead", "eng-a", "eng-b")
        name = next(name for name in names if f" {name}" in seen.system.split("\n")[0])
        taken.append((name, seen.turn))
        told = seen.messages[-1].text
        if name.startswith("eng"):
            if seen.turn == 0:
                return Move("", (("busy", {}),))
            if ANSWER in told:
                return f"Done with {name}'s part."
            return "Blocked: no key" if same or name == "eng-a" else "Blocked: the disk is full"
        whom = ("lead",) if name == "boss" else parts
        if seen.turn == 0:
            calls = [("spawn_agent", {"agent": one, "task": "Part"}) for one in whom]
            return Move("", tuple(calls))
        if "Done with" in told or "reports" in told:
            return f"{name} reports."
        if lead_asks and name == "lead" and seen.turn > 1:
            return "Blocked: an engineer has no key"
        return Move("", (("wait", {}),)) if seen.turn < 2 else "It is blocked below."

    return Scripted(script)


class Waiting:
    """A world with a tree that waits, in a workspace that others may open."""

    def __init__(self, world, **options):
        self.taken = []
        self.engine = team(self.taken, **options)
        self.here = world(self.engine, memory_tools="never")
        self.mem = self.here.mem
        self.source = Source(self.mem.store, self.mem.store.root)
        self.result = self.here.spawn("Build it", "boss", project="web")

    def runs(self):
        return {run.agent: run for run in self.here.supervisor.run_store.runs.all()}

    def questions(self):
        return questions_of(self.source, find_run(self.source, self.result.run))

    def goes_on(self, engine=None):
        """The results by agent of what another supervisor goes on with, and who took turns: none
        of them once more."""
        before = [*self.taken]
        results = self.here.resumed(engine or self.engine, memory_tools="never")
        fresh = self.taken[len(before) :]
        assert set(fresh).isdisjoint(before)
        assert len(set(fresh)) == len(fresh)
        names = sorted(name for name, _ in fresh)
        return {self.here.run(one).agent: one for one in results}, names


@pytest.fixture
def waiting(world):
    return lambda **options: Waiting(world, **options)


def test_a_tree_that_only_a_person_can_move_waits(waiting):
    """It is blocked, and rests: nobody holds it, no limit counts it, no turn is taken."""
    it = waiting()
    assert (it.result.status, it.result.waiting) == ("blocked", True)
    runs = it.runs()
    assert [runs[name].state for name in ("boss", "lead", "eng-a")] == ["waiting", "ended", "ended"]
    assert [(one.agent, one.text) for one in it.questions()] == [("eng-a", "no key")]
    assert it.here.supervisor.run_store.costs.budget.lease_names() == set()
    assert it.goes_on() == ({}, [])
    assert it.runs()["boss"].state == "waiting"


def test_an_answer_lets_the_same_tree_go_on_from_its_steps(waiting):
    """The run that was blocked and those above it, each from its last step: no turn is taken
    again, and what each says is its own in the end."""
    it = waiting()
    before = {name: run.id for name, run in it.runs().items()}
    given = answer(it.mem, it.source, it.result.run, ANSWER)
    assert given.run == it.result.run
    assert it.mem.as_agent("boss").fate(given.entry)[:2] == ("resolved", "operator")
    results, taken = it.goes_on()
    assert taken == ["boss", "eng-a", "lead"]
    assert {name: one.run for name, one in results.items()} == before
    assert {one.status for one in results.values()} == {"done"}
    assert results["boss"].text == "boss reports."
    done = {
        entry.author: entry.body
        for entry in it.mem.as_agent("operator").read(namespace="status/web")
    }
    assert done["eng-a"] == "Done: Done with eng-a's part."
    assert done["boss"] == "Done: boss reports."
    assert it.mem.as_agent("operator").read(namespace="blockers/*").visible == 0


@pytest.mark.parametrize("how", ["tell", "resolve", "supersede"])
def test_every_way_to_answer_leads_to_the_same_end(waiting, how):
    it = waiting()
    (question,) = it.questions()
    if how == "tell":
        it.mem.tell("eng-a", ANSWER, re=question.entry.id)
    elif how == "resolve":
        it.mem.as_agent("operator").resolve(question.entry.id, ANSWER)
    else:
        it.mem.as_agent("boss").append(ANSWER, "blockers/web", supersedes=question.entry.id)
    results, taken = it.goes_on()
    assert set(taken) == {"boss", "eng-a", "lead"}
    assert results["boss"].done


async def over_mcp(root, *calls):
    """Return the names of the operator's tools, and the answers to calls of them."""
    words = ["-m", "synapse.cli", "--root", root, "mcp", "--agent", "operator"]
    env = {name: value for name, value in os.environ.items() if name != "SYNAPSE_RUN"}
    server = StdioServerParameters(command=sys.executable, args=words, env=env)
    async with Client(stdio_client(server), read_timeout_seconds=60) as me:
        names = {tool.name for tool in (await me.list_tools()).tools}
        results = [await me.call_tool(name, arguments) for name, arguments in calls]
        return names, [result.content[0].text for result in results]


def test_a_person_answers_over_mcp(waiting):
    it = waiting()
    (question,) = it.questions()
    reply = ("answer", {"to": question.entry.id, "text": ANSWER})
    calls = [("waiting", {}), reply, reply, ("waiting", {})]
    names, said = asyncio.run(over_mcp(it.mem.store.root, *calls))
    assert {"waiting", "answer", "append"} <= names
    assert f"- blocked {question.entry.id} {it.result.run} (eng-a, " in said[0]
    assert "  > no key\n" in said[0]
    assert said[1].startswith(f"Answered {question.entry.id} with syn-")
    assert it.result.run in said[1]
    assert said[2].startswith("Error: nobody waits for an answer")
    assert question.entry.id not in said[3]
    results, taken = it.goes_on()
    assert set(taken) == {"boss", "eng-a", "lead"}
    assert results["boss"].done


@pytest.mark.parametrize("act", ["archive", "expire"])
def test_that_a_question_is_filed_away_answers_nothing(waiting, act):
    it = waiting()
    (question,) = it.questions()
    if act == "archive":
        it.mem.as_agent("operator").archive(question.entry.id)
    else:
        it.here.time.run(asyncio.sleep(8 * 86_400))
    assert it.goes_on() == ({}, [])
    assert [one.entry.id for one in it.questions()] == [question.entry.id]
    answer(it.mem, it.source, it.result.run, ANSWER)
    assert it.goes_on()[0]["boss"].done


def test_two_that_ask_the_same_are_answered_at_once(waiting):
    it = waiting(parts=("eng-a", "eng-b"), same=True)
    (question,) = it.questions()
    assert {run["agent"] for run in question.runs} == {"eng-a", "eng-b"}
    answer(it.mem, it.source, it.result.run, ANSWER)
    it.goes_on()
    assert {run.status for run in it.runs().values()} == {"done"}


def test_what_a_lead_says_once_more_is_asked_once(waiting):
    it = waiting(lead_asks=True)
    (question,) = it.questions()
    assert question.agent == "eng-a"
    answer(it.mem, it.source, question.entry.id, ANSWER)
    results, taken = it.goes_on()
    assert taken == ["boss", "eng-a", "lead"]
    assert results["boss"].done
    assert it.mem.as_agent("operator").read(namespace="blockers/*").visible == 0


def test_of_two_questions_each_is_answered(waiting):
    """A run with several refuses one answer for all; the tree goes on with what is answered."""
    it = waiting(parts=("eng-a", "eng-b"))
    first, second = it.questions()
    with pytest.raises(Conflict, match="answer each") as refused:
        answer(it.mem, it.source, it.result.run, ANSWER)
    assert refused.value.details["entries"] == [first.entry.id, second.entry.id]
    answer(it.mem, it.source, first.entry.id, ANSWER)
    it.goes_on()
    runs = it.runs()
    assert runs[first.agent].status == "done"
    assert runs["boss"].state == "waiting"
    assert [one.entry.id for one in it.questions()] == [second.entry.id]
    answer(it.mem, it.source, it.result.run, ANSWER)
    it.goes_on()
    assert {run.status for run in it.runs().values()} == {"done"}


def test_who_is_blocked_again_waits_again(waiting):
    """With a question of its own each time, and no turn in between."""
    it = waiting()
    for n in range(5):
        answer(it.mem, it.source, it.result.run, f"Look on shelf {n}")
        results, _ = it.goes_on()
        assert results["boss"].waiting
    asked = [one.entry.id for one in it.questions()]
    answer(it.mem, it.source, asked[0], ANSWER)
    assert it.goes_on()[0]["boss"].done
    assert it.runs()["eng-a"].fields["answers"] == 6


def test_who_was_answered_already_is_not_answered_again(waiting):
    it = waiting()
    (question,) = it.questions()
    answer(it.mem, it.source, question.entry.id, ANSWER)
    for name in (question.entry.id, it.result.run):
        with pytest.raises(Conflict, match=r"waits for no answer|nobody waits"):
            answer(it.mem, it.source, name, ANSWER)
    it.goes_on()
    with pytest.raises(Conflict, match="it is done"):
        answer(it.mem, it.source, it.result.run, ANSWER)


def test_the_time_that_it_waited_is_not_its_own(waiting):
    it = waiting()
    it.here.time.run(asyncio.sleep(5 * 86_400))
    answer(it.mem, it.source, it.result.run, ANSWER)
    assert it.goes_on()[0]["boss"].done


def test_whoever_dies_in_between_leaves_a_tree_that_goes_on(waiting):
    """The lowest run is opened first: wherever it breaks off, the rest is found again."""
    it = waiting()
    answer(it.mem, it.source, it.result.run, ANSWER)
    store = it.here.supervisor.run_store
    reopen, opened = store.runs.reopen, []

    def dies(run, holder, **more):
        if opened:
            raise RuntimeError("killed")
        opened.append(run.agent)
        return reopen(run, holder, **more)

    store.runs.reopen = dies
    with pytest.raises(RuntimeError):
        it.here.time.run(it.here.supervisor.recover())
    assert opened == ["eng-a"]
    store.lease.close()
    it.goes_on()
    it.goes_on()
    assert {run.status for run in it.runs().values()} == {"done"}


def test_two_that_would_go_on_are_one(waiting):
    """Of two supervisors one goes on; the other takes no turn."""
    it = waiting()
    answer(it.mem, it.source, it.result.run, ANSWER)
    before = len(it.taken)

    async def both():
        async with one, two:
            first, second = await asyncio.gather(one.recover(), two.recover())
            runs = first.runs + second.runs
            for run in runs:
                await (one if run in first.runs else two).result(run)
            return runs

    engines = {"engine": it.engine, "inline": True, "memory_tools": "never"}
    with Supervisor(it.mem, **engines) as one, Supervisor(it.mem, **engines) as two:
        began = [(run.agent, run.epoch, run.holder) for run in it.here.time.run(both())]
        files = os.listdir(os.path.dirname(one.run_store.lease.path))
        assert len(began) == 3, (began, files, one.run_store.lease.lives(began[-1][2]))
    names = sorted(name for name, _ in it.taken[before:])
    assert names == ["boss", "eng-a", "lead"]


def test_whoever_lacks_what_it_needs_leaves_it(waiting):
    it = waiting()
    answer(it.mem, it.source, it.result.run, ANSWER)

    async def looks():
        async with other:
            return await other.recover()

    with Supervisor(it.mem, engine="scripted", inline=True) as other:
        recovery = it.here.time.run(looks())
    assert recovery.runs == []
    assert "its own program" in recovery.waiting[it.result.run]
    assert it.goes_on()[0]["boss"].done


def test_a_lead_that_settles_it_itself_is_done_and_nothing_waits(world, cast):
    """As before: who is above and at work answers, and no blocked run is opened again."""

    def lead(found):
        asked = here.mem.as_agent("operator").read(namespace="blockers/web")
        if found.turn == 2:
            note = {"namespace": "blockers/web", "body": "Done by hand"}
            (blocker,) = asked
            return Move("", (("append", note | {"supersedes": blocker.id}),))
        calls = {0: (("spawn_agent", {"agent": "eng-a", "task": "Part"}),), 1: (("wait", {}),)}
        return Move("", calls[found.turn]) if found.turn in calls else "All is done."

    here = world(cast(lead=lead, eng_a=lambda found: "Blocked: no key"))
    here.mem.register(synapse.Agent("lead", role="project-lead", notify=()))
    result = here.spawn("Both", "lead", project="web")
    assert (result.status, result.waiting) == ("done", False)
    assert here.resumed(lambda seen: "never") == []


def test_a_run_that_left_results_unread_does_not_wait(world):
    """There is no question that somebody could answer."""

    def script(seen):
        if " boss" in seen.system.split("\n")[0] and seen.turn == 0:
            return Move("", (("spawn_agent", {"agent": "eng-a", "task": "x"}),))
        return "ok"

    here = world(script)
    result = here.spawn("Work", "eng-a", project="web")
    assert not result.waiting


def test_what_an_answered_run_is_told_is_recorded_once(waiting):
    it = waiting()
    (question,) = it.questions()
    it.mem.as_agent("operator").resolve(question.entry.id, ANSWER)
    it.goes_on()
    lines = it.here.folder(it.runs()["eng-a"].id).lines("steps.jsonl")
    told = [
        step.fields["text"]
        for step in steps.read(lines)
        if step.kind == "message" and step.fields["why"] == "answer"
    ]
    assert told == [
        f"What blocked you is resolved. Go on with your task.\nThe operator notes: {ANSWER}"
    ]
