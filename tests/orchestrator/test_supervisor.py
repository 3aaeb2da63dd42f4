"""The supervisor with scripted agents: what a run is, from its prompt to its entry."""

import asyncio
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import synapse
from orchestrator import Supervisor, Task
from orchestrator.engines.protocol import Rejected
from orchestrator.engines.scripted import Move, Scripted
from orchestrator.sessions.wake import LATE, NOW, NewsFeed, Reader
from orchestrator.testing.virtual import VirtualTime


@pytest.fixture
def mem(tmp_path, team):
    with synapse.init(str(tmp_path / "ws")) as memory:
        for agent in team:
            memory.register(agent)
        yield memory


def test_a_run_writes_back_what_came_of_it(mem):
    with Supervisor(
        mem, engine=Scripted(lambda seen: "The page is fixed.\n\nDetails follow.")
    ) as supervisor:
        result = supervisor.run(Task("Fix the page", "eng-a", project="web"))
    assert (result.status, result.text) == ("done", "The page is fixed.\n\nDetails follow.")
    entry = mem.as_agent("boss").get(result.entry)
    assert entry.namespace == "status/web"
    assert entry.body.startswith("Done: The page is fixed.")
    assert entry.evidence == f"runs/{result.run}/output.md"
    assert result.usage.input_tokens > 0
    assert Path(mem.store.root, "runs", result.run, "output.md").read_text() == result.text


def test_the_view_is_in_the_prompt(mem):
    mem.as_agent("boss").append("Use /v2/users", "decisions/api", priority="critical")
    seen = []
    with Supervisor(mem, engine=Scripted(lambda found: seen.append(found) or "ok")) as supervisor:
        supervisor.run(Task("Call the API", "eng-a"))
    assert "Use /v2/users" in seen[0].messages[0].text
    assert "## Your Task\n" in seen[0].messages[-1].text
    assert "Call the API" in seen[0].messages[-1].text


def test_an_agent_that_nobody_registered_is_refused(mem):
    with Supervisor(mem) as supervisor, pytest.raises(synapse.NotFound, match="nobody"):
        supervisor.run(Task("x", "nobody"))


def test_a_team_under_virtual_time_is_the_same_twice(tmp_path, team, cast):
    def play(root):
        time = VirtualTime()
        with synapse.init(root, clock=time) as memory:
            for agent in team:
                memory.register(agent)
            engine = cast(
                lead=lead,
                eng_a=lambda seen: Move("A is done.", takes=0),
                eng_b=lambda seen: "B is done.",
            )
            with Supervisor(
                memory, engine=engine, seed=7, inline=True, memory_tools="always"
            ) as supervisor:
                result = time.run(supervisor.spawn(Task("Do both", "lead", project="web")))
            folder = Path(root) / "runs"
            return result, {
                path.parent.name: path.read_text() for path in sorted(folder.glob("*/ledger.jsonl"))
            }

    def lead(seen):
        if seen.turn == 0:
            asked = [
                ("spawn_agent", {"agent": name, "task": f"Part of {name}"})
                for name in ("eng-a", "eng-b")
            ]
            return Move("Two parts.", tuple(asked))
        if seen.turn == 1:
            return Move("", (("wait", {}),))
        return "Both are done."

    first, ledgers = play(str(tmp_path / "one"))
    again, others = play(str(tmp_path / "two"))
    assert first.status == "done", first
    assert len(ledgers) == 3
    assert ledgers == others
    assert first == again
    for text in ledgers.values():
        assert all(json.loads(line) for line in text.splitlines())


# -- what happens to a run -------------------------------------------------------------


def test_what_is_critical_interrupts_a_running_agent(world):
    def script(seen):
        if any(message.label == "wake" for message in seen.messages):
            return "I use v2 now."
        return Move("I use v1.", takes=600)

    here = world(script)
    result = here.spawn(
        "Call the API", "eng-a", also=[here.later(10, lambda: here.says("Use /v2/users"))]
    )
    assert result.text == "I use v2 now."
    assert here.time.elapsed < 20
    entry = here.mem.as_agent("boss").read(namespace="decisions/api")[0]
    states = [each["state"] for each in here.mem.store.index.current.deliveries(entry=entry.id)]
    assert states == ["rendered"]
    assert here.labels(result).count("wake") == 1


def test_news_says_what_it_is_in_dispute_with(world):
    """Two of equal authority, each otherwise, while an agent works: it is told so at once, not at
    its next session.
    """

    def script(seen):
        told = [message.text for message in seen.messages if message.label == "wake"]
        return told[1] if len(told) == 2 else Move("I go on.", takes=600)

    here = world(script)
    here.mem.register(synapse.Agent("boss-2", role="cto"))
    other = here.mem.as_agent("boss-2")
    says = [
        here.later(10, lambda: here.says("The port is 81", topic="port")),
        here.later(
            20,
            lambda: other.append(
                "The port is 82", "decisions/api", priority="critical", topic="port"
            ),
        ),
    ]
    result = here.spawn("Open the port", "eng-a", also=says)
    newer, older = here.mem.as_agent("boss").read(namespace="decisions/api", limit=2)
    assert f"disputed with {older.id})" in result.text
    assert newer.id in result.text


def test_news_that_comes_while_it_finishes_is_still_heard(world):
    engine = Scripted(lambda seen: Move(f"Turn {seen.turn}", takes=30 if seen.turn == 0 else 0))
    engine.interrupt = "turn"
    here = world(engine)
    result = here.spawn("Work", "eng-a", also=[here.later(10, lambda: here.says("Stop using v1"))])
    assert (result.status, result.text) == ("done", "Turn 1")


def test_what_the_prompt_showed_wakes_nobody(world):
    here = world(lambda seen: Move(f"Turn {seen.turn}", takes=5))
    here.says("Use /v2/users")
    result = here.spawn("Work", "eng-a")
    assert result.text == "Turn 0"
    assert "wake" not in here.labels(result)


def test_news_is_acknowledged_a_turn_later(world):
    def script(seen):
        if seen.turn < 3:
            return Move("", (("read", {}),), takes=10)
        return "done"

    here = world(script)
    here.spawn("Work", "eng-a", also=[here.later(5, lambda: here.says("Use /v2/users"))])
    entry = here.mem.as_agent("boss").read(namespace="decisions/api")[0]
    states = {each["state"] for each in here.mem.store.index.current.deliveries(entry=entry.id)}
    assert states == {"rendered", "acked"}


def test_one_author_cannot_wake_everybody_for_ever(world):
    def script(seen):
        turns.append(" ".join(message.text for message in seen.messages))
        return Move("", (("read", {}),), takes=1) if seen.turn < 30 else "done"

    async def flood():
        for n in range(40):
            await asyncio.sleep(0.5)
            here.says(f"Critical {n}")

    turns = []
    here = world(script)
    result = here.spawn("Work", "eng-a", also=[flood()])
    woken = here.mem.store.index.current.deliveries(run=result.run)
    assert len({each["entry"] for each in woken}) == 40
    assert {n for n in range(40) if f"Critical {n}" in turns[-1]} == set(range(40))
    held = here.mem.store.index.current.deliveries(agent="operator")
    assert {each["state"] for each in held} == {"held"}
    assert len(held) == 30


def test_the_eleventh_critical_of_a_minute_is_told_before_the_run_ends(world):
    def script(seen):
        text = " ".join(message.text for message in seen.messages)
        heard.append([n for n in range(14) if f"Critical {n}." in text])
        return Move("done", takes=30)

    async def burst():
        await asyncio.sleep(1)
        for n in range(14):
            here.says(f"Critical {n}.")

    heard = []
    here = world(script)
    assert here.spawn("Work", "eng-a", also=[burst()]).status == "done"
    assert heard[0] == []
    assert heard[-1] == list(range(14))


def test_what_is_over_the_quota_interrupts_nobody(mem):
    boss, reader = mem.as_agent("boss"), Reader(mem.store.agents.get("eng-a"))
    feed = NewsFeed(mem.store)
    for n in range(14):
        boss.append(f"Critical {n}.", "decisions/api", priority="critical")
    tiers = [soon for _, _, soon in feed.news({"run-1": reader})]
    assert tiers == [NOW] * 10 + [LATE] * 4
    assert len(feed.held) == 4


def test_a_run_that_takes_too_long_is_written_as_such(world):
    here = world(lambda seen: Move("never", takes=10_000))
    result = here.spawn("Work", "eng-a", timeout=60)
    assert result.status == "timeout"
    assert here.mem.as_agent("boss").get(result.entry).body.startswith("Out of time: ")


def test_a_run_that_is_stopped_before_it_can_hear_ends(mem):
    async def play(supervisor):
        async with supervisor:
            run = await supervisor.start(Task("Work", "eng-a"))
            supervisor.run_store.runs.stop(run.id, "operator", "enough")
            return await supervisor.result(run)

    with Supervisor(
        mem, engine=Scripted(lambda seen: Move("never", takes=60)), inline=True
    ) as supervisor:
        result = asyncio.run(asyncio.wait_for(play(supervisor), 20))
    assert (result.status, result.why, result.usage.input_tokens) == ("stopped", "enough", 0)


def test_of_supervisors_that_begin_the_same_work_one_does(mem):
    together = threading.Barrier(4, timeout=20)

    def begin(_):
        with (
            synapse.open(mem.store.root) as own,
            Supervisor(own, engine=Scripted(lambda seen: Move("ok", takes=0.2))) as supervisor,
        ):
            together.wait()
            return supervisor.run(Task("The very same", "eng-a", once=True))

    with ThreadPoolExecutor(4) as crew:
        results = list(crew.map(begin, range(4)))
    assert {result.status for result in results} == {"done"}
    assert len({result.run for result in results}) == 1
    assert sum(not result.repeated for result in results) == 1


def test_a_race_that_was_lost_counts_as_no_child(world):
    """The same work, begun by another in the moment between looking and beginning: it is one child
    of its parent.
    """
    here = world(lambda seen: "Done.")
    budget = here.supervisor.run_store.costs.budget
    agent = here.supervisor.run_store.agent("eng-a")
    parent = here.known(here.spawn("Lead it", "lead").run)
    task = Task("The very same", "eng-a", once=True)
    here.time.elapsed += 3_600
    admit = budget.admit
    about = (here.supervisor.engine_pool.for_task, here.supervisor.engine_pool.defaults(None))

    def beaten(run, holder, where):
        budget.admit = admit
        here.supervisor.run_store.admission.admit(task, parent, "eng-a-first", *about)
        admit(run, holder, where)

    budget.admit = beaten
    run, repeated = here.supervisor.run_store.admission.admit(task, parent, "eng-a-second", *about)
    assert (run.id, repeated, agent.id) == ("eng-a-first", True, run.agent)
    assert (budget.standing(f"run:{parent.id}").runs, budget.standing(f"run:{parent.id}").live) == (
        1,
        1,
    )
    assert budget.standing("department:web").runs == 2  # the lead and its child


def test_a_task_that_a_limit_does_not_let_begin_is_refused(world):
    calls = []
    here = world(lambda seen: calls.append(1) or "Done.", settings="limits: {day: {children: 1}}\n")
    assert here.spawn("The first", "eng-a").done
    result = here.spawn("The second", "eng-b")
    assert (result.status, result.run, result.done, len(calls)) == ("refused", "", False, 1)
    assert "at its limit of children: 1 allowed" in result.why
    assert len(here.supervisor.run_store.runs.all()) == 1


def test_a_child_does_not_inherit_its_parents_model(world, cast):
    here = world(
        cast(lead=spawning("eng-a", waits=True), **{"eng-a": lambda seen: "Done."}), model="usual"
    )
    here.mem.register(synapse.Agent("eng-b", department="web", model="own"))
    result = here.spawn("Lead it", "lead", model="dear")
    models = {run.agent: run.fields["model"] for run in here.supervisor.run_store.runs.all()}
    assert (result.status, models) == ("done", {"lead": "dear", "eng-a": "usual"})
    assert here.run(here.spawn("Work", "eng-b")).fields["model"] == "own"
    assert here.run(here.spawn("Work again", "eng-b", model="mine")).fields["model"] == "mine"


def test_a_run_can_be_stopped_by_anybody(world):
    here = world(lambda seen: Move("never", takes=10_000))
    stop = here.later(
        5,
        lambda: [
            here.supervisor.run_store.runs.stop(run.id, "operator", "enough") for run in running()
        ],
    )

    def running():
        return here.supervisor.run_store.runs.all(state="running")

    result = here.spawn("Work", "eng-a", also=[stop])
    assert (result.status, result.why, result.entry) == ("stopped", "enough", None)
    assert (here.run(result).status, here.run(result).fields["why"]) == ("stopped", "enough")
    assert len(here.mem.as_agent("operator").read()) == 0


@pytest.mark.parametrize(
    ("move", "status", "why"),
    [
        (Move("I will not", stop="refusal"), "refused", "the model refused"),
        (Move(""), "failed", "replied with nothing"),
        (Move("half", stop="length"), "failed", "cut at its limit"),
    ],
)
def test_a_model_that_does_not_answer(world, move, status, why):
    here = world(lambda seen: move)
    result = here.spawn("Work", "eng-a")
    assert result.status == status
    assert why in result.why
    assert here.mem.as_agent("boss").get(result.entry).namespace == "status/general"


def test_what_is_the_operators_is_no_entry(world):
    """A limit, a stop, an engine that is not set up: the run and its result say so, and nobody
    else's prompt."""

    def rejects(seen):
        raise Rejected("there is no key: set MY_KEY")

    ends = [
        (world(rejects).spawn, {}, "failed", "Rejected: there is no key: set MY_KEY"),
        (
            world(lambda seen: Move("half", (("read", {}),))).spawn,
            {"max_turns": 1},
            "stopped",
            "at its limit of turns",
        ),
    ]
    for spawn, more, status, why in ends:
        here = spawn.__self__
        result = spawn("Work", "eng-a", project="web", **more)
        assert (result.status, result.entry) == (status, None)
        assert why in result.why
        assert (here.run(result).status, here.run(result).fields["why"]) == (status, result.why)
        assert len(here.mem.as_agent("operator").read()) == 0


@pytest.mark.parametrize(
    "wrong",
    [{"memory_tools": "sometimes"}, {"view_budget": "much"}, {"view_budget": -1}, {"max_usd": "1"}],
)
def test_a_wrong_option_begins_nothing(world, wrong):
    here = world(lambda seen: "Done.")
    with pytest.raises(synapse.SynapseError, match=next(iter(wrong))):
        here.spawn("Work", "eng-a", **wrong)
    assert here.supervisor.run_store.runs.all() == []


def test_a_supervisor_with_a_wrong_option_is_refused(mem):
    with pytest.raises(synapse.InvalidQuery, match="'sometimes' is not one of auto, always, never"):
        Supervisor(mem, memory_tools="sometimes")


def test_the_same_work_is_not_done_twice(world):
    calls = []
    here = world(lambda seen: calls.append(1) or "Done once.")
    first = here.spawn("Fix  the page", "eng-a", project="web")
    once = {"project": "web", "once": True}
    again = here.spawn("fix the page", "eng-a", **once)
    assert (again.run, again.text) == (first.run, "Done once.")
    assert again.repeated.startswith(f"an earlier result: {first.run} did it ")
    assert len(calls) == 1
    other = here.spawn("fix the page", "eng-a", project="web")
    assert other.run != first.run
    here.time.elapsed += 3_600
    late = here.spawn("fix the page", "eng-a", **once)
    assert late.run not in (first.run, other.run)


def test_what_failed_may_be_tried_again(world):
    replies = iter(["", "", "", "Fine."])
    here = world(lambda seen: next(replies))
    assert here.spawn("Work", "eng-a").status == "failed"
    assert here.spawn("Work", "eng-a").status == "done"


# -- parents and children --------------------------------------------------------------


def spawning(*agents, then="All done.", waits=False):
    """A lead that spawns these agents, waits for them or not, and says that all is done."""

    def script(seen):
        if seen.turn == 0:
            return Move(
                "",
                tuple(("spawn_agent", {"agent": name, "task": f"Part {name}"}) for name in agents),
            )
        if seen.turn == 1 and waits:
            return Move("", (("wait", {}),))
        return then

    return script


def test_results_that_nobody_waited_for_are_told(world, cast):
    seen = []

    def lead(found):
        seen.append(found)
        return spawning("eng-a")(found)

    here = world(cast(lead=lead, eng_a=lambda found: "A is done."))
    result = here.spawn("Both", "lead", project="web")
    assert result.status == "done"
    assert "A is done." in seen[-1].messages[-1].text
    assert seen[-1].messages[-1].label == "plan"


def test_a_lead_hears_its_children_once(world, cast):
    seen = []

    def lead(found):
        seen.append(found)
        return spawning("eng-a", "eng-b", waits=True)(found)

    here = world(
        cast(
            lead=lead,
            eng_a=lambda found: "A is done.",
            eng_b=lambda found: Move("B is done.", takes=60),
        )
    )
    result = here.spawn("Both", "lead", project="web")
    assert result.status == "done"
    assert seen[-1].text.count("A is done.") == 1
    assert seen[-1].text.count("B is done.") == 1
    children = here.supervisor.run_store.runs.children(result.run)
    assert {child.agent for child in children} == {"eng-a", "eng-b"}


def test_a_lead_hears_of_a_child_whose_engine_is_not_set_up(world, cast):
    def rejects(found):
        raise Rejected("there is no key: set MY_KEY")

    here = world(
        cast(lead=spawning("eng-a", waits=True, then="It could not begin."), eng_a=rejects)
    )
    result = here.spawn("Both", "lead", project="web")
    steps = "".join(here.folder(result.run).lines("steps.jsonl"))
    assert "(eng-a): failed" in steps
    assert "there is no key: set MY_KEY" in steps
    assert [entry.author for entry in here.mem.as_agent("operator").read()] == ["lead"]


def test_a_spawn_beyond_its_limit_is_told_to_the_model(world, cast):
    from orchestrator.spend.limits import Limits

    seen = []

    def lead(found):
        seen.append(found)
        return spawning("eng-a", "eng-b")(found)

    here = world(cast(lead=lead, eng_a=lambda found: "A is done."), limits=Limits(children=1))
    assert here.spawn("Both", "lead").status == "done"
    assert (
        "at its limit of children: 1 allowed, 1 taken, 1 asked for; give out no more: do the rest"
        in seen[-1].text
    )
    assert "synapse.yaml" not in seen[-1].text


# -- another process goes on -----------------------------------------------------------


def test_what_was_running_is_gone_on_with(world):
    def script(seen):
        if seen.turn == 0:
            return Move("", (("append", {"namespace": "status/web", "body": "step one"}),))
        return Move("All done.", takes=100)

    here = world(script)
    run = here.dies("Work", "eng-a", project="web", after=10)
    assert here.known(run).running
    (result,) = here.resumed(script)
    assert (result.run, result.status, result.text) == (run, "done", "All done.")
    bodies = [entry.body for entry in here.mem.as_agent("operator").read(namespace="status/web")]
    assert bodies.count("step one") == 1
    assert sum(body.startswith("Done:") for body in bodies) == 1
    assert here.known(run).epoch == 2
