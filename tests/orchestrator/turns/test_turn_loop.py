"""The turn loop under a real supervisor: what is due next, and how each run ends."""

import asyncio

import pytest

import synapse
from orchestrator.engines.protocol import Broken, Call, ContextTooLong, Rejected, Turn, Usage
from orchestrator.engines.scripted import Move, Scripted
from orchestrator.runs.files import steps
from orchestrator.runs.files.folder import STEPS
from orchestrator.runs.task import Task
from orchestrator.tools.functions import ToolFailed, tool_of
from orchestrator.turns.turn_loop import ANSWER_WITHIN, REMINDERS

# A loop that turns for ever writes its steps for ever.
pytestmark = pytest.mark.timeout(30)


class Replies(Scripted):
    """Gives these turns, one after the other, and keeps what it was asked."""

    def __init__(self, *turns):
        super().__init__(count=len)
        self.turns = turns
        self.requests = []

    async def step(self, request, interrupt):
        self.requests.append(request)
        return self.turns[len(self.requests) - 1]


def calls(*names, **arguments):
    return Move("", tuple((name, arguments) for name in names))


def spawns(*agents):
    return Move(
        "",
        tuple(("spawn_agent", {"agent": agent, "task": f"Part of {agent}."}) for agent in agents),
    )


def recorded(here, run, kind):
    found = steps.read(here.folder(run).lines(STEPS))
    return [step.fields for step in found if step.kind == kind]


def said(here, run):
    """What was said to a model beside its prompt and the results: why, and the text."""
    return [(each["why"], each["text"]) for each in recorded(here, run, "message")]


def results(seen):
    """The results of tools that a model was given: the texts, and whether each failed."""
    return [(message.text, message.failed) for message in seen.messages if message.role == "tool"]


def lasted(here, run):
    fields = here.known(run).fields
    return round((fields["ended_at"] - here.known(run).at) / 1e6, 1)


def runs(here):
    return {run.agent: run for run in here.supervisor.run_store.runs.all()}


def standing(here):
    return here.mem.as_agent("operator").read(namespace="blockers/*")


# -- calls ---------------------------------------------------------------------------------------


def test_each_call_is_answered_once_and_in_order(world):
    made, prompts = [], []

    async def count(number: int) -> str:
        """Count."""
        made.append(number)
        return f"number {number}"

    def script(seen):
        prompts.append(seen)
        numbers = (("count", {"number": 1}), ("count", {"number": 2}))
        return Move("", numbers) if seen.turn == 0 else "Counted."

    here = world(script, tools=[count], memory_tools="never")
    result = here.spawn("Count", "eng-a")
    assert (result.status, result.text, made) == ("done", "Counted.", [1, 2])
    assert results(prompts[1]) == [("number 1", False), ("number 2", False)]
    assert [tool.name for tool in prompts[0].tools] == ["count"]
    assert [each["label"] for each in recorded(here, result.run, "result")] == ["work_obs"] * 2


def test_the_same_prompt_has_the_same_key_and_the_next_another(world):
    call = Call("call-0", "nothing", {})
    engine = Replies(Turn("", (call,), "tools", Usage(1, 1)), Turn("Done.", usage=Usage(1, 1)))
    here = world(engine)
    run = here.spawn("Work", "eng-a").run
    keys = [request.key for request in engine.requests]
    assert len({*keys}) == 2
    assert all(key.startswith(f"{run}/") for key in keys)


@pytest.mark.parametrize(("tools", "names"), [((), "none"), (("probe", "push"), "probe, push")])
def test_a_call_of_a_tool_that_there_is_not(world, tools, names):
    prompts = []

    def script(seen):
        prompts.append(seen)
        return calls("fetch") if seen.turn == 0 else "Done."

    made = [tool_of(lambda: "ok", name=name, description=name) for name in tools]
    here = world(script, tools=made, memory_tools="never")
    assert here.spawn("Work", "eng-a").done
    assert results(prompts[1]) == [(f"Error: there is no tool fetch; yours: {names}", True)]


def test_a_call_whose_arguments_cannot_be_read_is_not_carried_out(world):
    made = []

    async def push(place: str = "") -> str:
        """Push."""
        made.append(place)
        return "pushed"

    call = Call("call-0", "push", {}, "no JSON: {place")
    engine = Replies(Turn("", (call,), "tools", Usage(1, 1)), Turn("Done.", usage=Usage(1, 1)))
    here = world(engine, tools=[push])
    assert here.spawn("Work", "eng-a").done
    assert made == []
    (answer,) = (message for message in engine.requests[1].messages if message.answers)
    assert (answer.text, answer.failed) == (
        "Error: the arguments cannot be read: no JSON: {place",
        True,
    )


def test_what_a_tool_could_not_do_is_told_to_the_model(world):
    prompts = []

    async def push() -> str:
        """Push."""
        raise ToolFailed("the remote is away")

    def script(seen):
        prompts.append(seen)
        return calls("push") if seen.turn == 0 else "It could not be pushed."

    here = world(script, tools=[push])
    assert here.spawn("Work", "eng-a").text == "It could not be pushed."
    assert results(prompts[1]) == [("Error: the remote is away", True)]


def test_a_tool_that_ends_the_program_ends_its_run(world):
    async def leave() -> str:
        """Leave."""
        raise SystemExit(3)

    here = world(lambda seen: Move("On it.", (("leave", {}),)), tools=[leave])
    result = here.spawn("Work", "eng-a")
    assert (result.status, result.text, result.entry) == ("failed", "On it.", None)
    assert "SystemExit: 3" in result.why


@pytest.mark.parametrize("safe", [False, True])
def test_a_call_that_was_in_flight_at_a_crash(world, safe):
    """It is made again only if that does no harm."""
    made, given = [], []

    async def push():
        made.append("begun")
        await asyncio.sleep(50)
        made.append("ended")
        return "pushed"

    def script(seen):
        given[:] = results(seen)
        return calls("push") if seen.turn == 0 else "Done."

    tool = tool_of(push, idempotent=safe, description="Push.")
    here = world(script, tools=[tool])
    here.dies("Work", "eng-a", after=10)
    (result,) = here.resumed(script, tools=[tool])
    assert result.done
    if safe:
        assert made == ["begun", "begun", "ended"]
        assert given == [("pushed", False)]
    else:
        assert made == ["begun"]
        text = "Error: the process died while this was being carried out. Whether it took effect"
        assert given == [(f"{text} is not known; it was not repeated.", True)]


def test_only_a_call_that_is_not_safe_to_repeat_is_recorded_before_it_is_made(world):
    tools = [
        tool_of(lambda: "ok", name=name, description=name, idempotent=name == "look")
        for name in ("look", "push")
    ]
    here = world(lambda seen: calls("look", "push") if seen.turn == 0 else "Done.", tools=tools)
    run = here.spawn("Work", "eng-a").run
    assert [each["call"] for each in recorded(here, run, "call")] == ["call-0-1"]


# -- how a run ends ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "the model refused: it gave no reason"),
        ("Not this.", "the model refused: Not this."),
        ("no " * 300, f"the model refused: {'no ' * 300}"[:500]),
    ],
)
def test_a_model_that_refuses(world, text, why):
    here = world(lambda seen: Move(text, stop="refusal"))
    result = here.spawn("Work", "eng-a")
    assert (result.status, result.why) == ("refused", why)
    assert len(recorded(here, result.run, "turn")) == 1


@pytest.mark.parametrize(
    ("move", "ask", "why"),
    [
        (Move(""), "Your reply was empty.", "the model replied with nothing, 3 times"),
        (
            Move("half", stop="length"),
            "Your reply was cut at the limit",
            "its reply was cut at its limit, 3 times",
        ),
    ],
)
def test_a_reply_with_which_nothing_can_be_done_is_asked_for_twice_more(world, move, ask, why):
    here = world(lambda seen: move)
    result = here.spawn("Work", "eng-a")
    assert (result.status, result.why) == ("failed", why)
    assert len(recorded(here, result.run, "turn")) == 3
    assert [text.startswith(ask) for _, text in said(here, result.run)] == [True, True]
    assert here.mem.as_agent("boss").get(result.entry).namespace == "status/general"


def test_a_model_that_comes_to_its_senses_is_done(world):
    """Empty replies and those that were cut are counted apart."""
    moves = [Move(""), Move("half", stop="length")] * 2 + [Move("All of it.")]
    left = iter(moves)
    here = world(lambda seen: next(left))
    result = here.spawn("Work", "eng-a")
    assert (result.status, result.text) == ("done", "All of it.")
    assert [why for why, _ in said(here, result.run)] == ["empty", "length"] * 2


def test_a_model_that_was_interrupted_for_nothing_goes_on(world):
    left = iter([Move("", stop="interrupted"), Move("Done.")])
    here = world(lambda seen: next(left))
    result = here.spawn("Work", "eng-a")
    assert (result.status, result.text) == ("done", "Done.")
    assert said(here, result.run) == [
        ("interrupted", "You were interrupted. Go on with your task.")
    ]


def test_at_its_limit_a_run_is_stopped_with_what_is_known(world):
    here = world(lambda seen: Move(f"Step {seen.turn}.", (("nothing", {}),)))
    result = here.spawn("Work", "eng-a", max_turns=3)
    assert (result.status, result.text, result.entry) == ("stopped", "Step 2.", None)
    assert "at its limit of turns: 3 allowed" in result.why


def test_without_a_price_nothing_is_sent_under_a_limit_of_money(world):
    prompts = []
    engine = Scripted(lambda seen: prompts.append(seen) or "Done.")
    engine.name = "dear"
    here = world(engine, model="nobody-sells-it")
    result = here.spawn("Work", "eng-a", max_usd=1.0)
    assert (result.status, result.entry, prompts) == ("refused", None, [])
    assert "nobody-sells-it" in result.why


@pytest.mark.parametrize(
    ("error", "written"),
    [
        (Rejected("there is no key"), False),
        (ContextTooLong("300,000 tokens"), True),
        (Broken("it broke off"), True),
    ],
)
def test_an_engine_that_fails(world, error, written):
    """What is about the work is written for the others; the rest is the operator's."""

    def script(seen):
        if seen.turn == 0:
            return Move("Half of it.", (("nothing", {}),))
        raise error

    here = world(script)
    result = here.spawn("Work", "eng-a", project="web")
    assert (result.status, result.text) == ("failed", "Half of it.")
    assert result.why.startswith(type(error).__name__)
    entries = here.mem.as_agent("operator").read()
    assert [entry.id for entry in entries] == ([result.entry] if written else [])


def test_out_of_time_it_says_what_is_known(world):
    def script(seen):
        if seen.turn == 0:
            return Move("Half of it.", (("nothing", {}),))
        return Move("Never.", takes=1_000)

    here = world(script)
    result = here.spawn("Work", "eng-a", timeout=60)
    assert (result.status, result.text, result.why) == ("timeout", "Half of it.", "its time was up")
    assert lasted(here, result.run) == 60
    entry = here.mem.as_agent("boss").get(result.entry)
    assert entry.body == "Out of time: its time was up; so far: Half of it."


def test_a_timeout_of_its_engine_is_not_its_own(world):
    def script(seen):
        raise TimeoutError("the socket")

    result = world(script).spawn("Work", "eng-a", timeout=60)
    assert result.status == "failed"
    assert result.why.startswith("TimeoutError: the socket")


# -- being stopped -------------------------------------------------------------------------------


def test_a_stop_in_the_middle_of_a_turn_ends_it_with_its_reason(world):
    def script(seen):
        if seen.turn == 0:
            return Move("Half of it.", (("nothing", {}),))
        return Move("Never.", takes=1_000)

    here = world(script)

    async def stop():
        await asyncio.sleep(10)
        await here.supervisor.stop(runs(here)["eng-a"].id, "not wanted any more")

    result = here.spawn("Work", "eng-a", also=[stop()])
    assert (result.status, result.why, result.text, result.entry) == (
        "stopped",
        "not wanted any more",
        "Half of it.",
        None,
    )
    assert lasted(here, result.run) == 10


def test_after_a_stop_no_further_call_is_made(world):
    made = []

    async def push(part: int) -> str:
        """Push."""
        made.append(part)
        (run,) = here.supervisor.run_store.runs.all()
        await here.supervisor.stop(run.id, "enough")
        return "pushed"

    here = world(
        lambda seen: Move("", tuple(("push", {"part": n}) for n in range(3))), tools=[push]
    )
    result = here.spawn("Work", "eng-a")
    assert (result.status, result.why, made) == ("stopped", "enough", [0])


def test_what_is_stopped_while_nobody_holds_it_takes_no_turn(world):
    here = world(lambda seen: Move("Never.", takes=1_000))
    run = here.dies("Work", "eng-a", after=10)
    here.supervisor.run_store.runs.stop(run, "operator", "enough")
    prompts = []
    (result,) = here.resumed(lambda seen: prompts.append(seen) or "Done.")
    assert (result.status, result.why, result.entry) == ("stopped", "enough", None)
    assert prompts == []


def test_a_supervisor_that_leaves_stops_nothing(world):
    here = world(lambda seen: Move("Done.", takes=100))
    run = here.dies("Work", "eng-a", after=10)
    assert here.known(run).running
    (result,) = here.resumed(lambda seen: "Done by another.")
    assert (result.run, result.status, result.text) == (run, "done", "Done by another.")


def test_a_stale_incarnation_makes_no_call_and_leaves_no_result(world):
    """Another one goes on with the run: that one is to make the call."""
    made = []

    async def push() -> str:
        """Push."""
        made.append(here.known(runs(here)["eng-a"].id).epoch)
        return "pushed"

    def script(seen):
        (run,) = here.supervisor.run_store.runs.all()
        if run.epoch == 1:
            here.supervisor.run_store.runs.take(run, "another", 0)
        return calls("push")

    here = world(script, tools=[push])
    result = here.spawn("Work", "eng-a")
    assert result.status == "stopped"
    assert "goes on as epoch 2" in result.why
    assert made == []
    assert recorded(here, result.run, "result") == []


def test_a_call_that_fails_as_another_takes_over_leaves_no_result(world):
    async def push() -> str:
        """Push."""
        (run,) = here.supervisor.run_store.runs.all()
        here.supervisor.run_store.runs.take(run, "another", 0)
        raise ToolFailed("this is epoch 1")

    here = world(lambda seen: calls("push"), tools=[push])
    result = here.spawn("Work", "eng-a")
    assert result.status == "stopped"
    assert recorded(here, result.run, "result") == []


# -- news ----------------------------------------------------------------------------------------


def deliveries(here, state):
    """The ids that were delivered, delivery by delivery, as the log has them."""
    return [
        list(record.fields["ids"])
        for record in here.mem.store.log.since(0)
        if record.kind == "delivery" and record.fields["state"] == state
    ]


def test_what_wakes_is_told_at_once_and_acknowledged_a_turn_after_it_was_read(world):
    acknowledged = []

    def script(seen):
        acknowledged.append(len(deliveries(here, "acked")))
        return Move("", (("nothing", {}),), takes=10) if seen.turn < 5 else "Done."

    here = world(script)
    says = here.later(15, lambda: here.says("Use /v2/users"))
    run = here.spawn("Call the API", "eng-a", also=[says]).run
    (entry,) = here.mem.as_agent("boss").read(namespace="decisions/api")
    ((why, text),) = said(here, run)
    assert (why, "Use /v2/users" in text) == ("wake", True)
    assert deliveries(here, "rendered") == [[entry.id]]
    # it was told before the third turn; at the end of the fourth it counts as read, once
    assert acknowledged == [0, 0, 0, 0, 1, 1, 1]
    assert deliveries(here, "acked") == [[entry.id]]


def test_news_that_comes_with_the_last_reply_is_told_before_the_run_ends(world):
    engine = Scripted(
        lambda seen: Move("Done." if "v2" not in seen.text else "Done with v2.", takes=30)
    )
    engine.interrupt = "turn"
    here = world(engine)
    says = here.later(10, lambda: here.says("Use v2"))
    result = here.spawn("Call the API", "eng-a", also=[says])
    assert (result.status, result.text) == ("done", "Done with v2.")
    assert [why for why, _ in said(here, result.run)] == ["wake"]


def test_news_that_stands_no_more_when_it_is_told_says_nothing(world):
    def withdraws():
        entry = here.says("Use v2")
        here.mem.store.commit.archive([entry.id], "operator", "wrong")

    engine = Scripted(
        lambda seen: Move("", (("nothing", {}),), takes=10) if seen.turn < 3 else "Done."
    )
    engine.interrupt = "turn"
    here = world(engine)
    result = here.spawn("Call the API", "eng-a", also=[here.later(5, withdraws)])
    assert (result.status, said(here, result.run)) == ("done", [])


def test_the_time_from_offer_to_prompt_is_on_record_for_what_was_told_whole(world):
    engine = Scripted(
        lambda seen: Move("", (("nothing", {}),), takes=10) if seen.turn < 2 else "Done."
    )
    engine.interrupt = "turn"
    here = world(engine)
    long = "A word about the gateway. " * 100

    def says():
        here.says("Use v2")
        here.says(long, "projects/web", priority="info", to="agent:eng-a")

    run = here.spawn("Work", "eng-a", also=[here.later(5, says)]).run
    (message,) = recorded(here, run, "message")
    whole, line = (
        here.mem.as_agent("boss").read(namespace=namespace)[0].id
        for namespace in ("decisions/api", "projects/web")
    )
    assert (message["ids"], message["pointed"]) == ([whole], [line])
    (rendered,) = (
        record.fields
        for record in here.mem.store.log.since(0)
        if record.kind == "delivery" and record.fields["state"] == "rendered"
    )
    assert list(rendered["offered"]) == [whole]


def test_a_prompt_that_shows_everything_names_no_lines(world):
    here = world(lambda seen: Move("", (("nothing", {}),), takes=10) if seen.turn < 2 else "Done.")
    says = here.later(5, lambda: here.says("Use v2"))
    run = here.spawn("Work", "eng-a", also=[says]).run
    (message,) = recorded(here, run, "message")
    assert "pointed" not in message


# -- children ------------------------------------------------------------------------------------


def test_who_never_waits_is_given_the_results_twice(world, cast):
    """Then it ends with a debt, which says whose they are."""

    def lead(seen):
        told = sum(message.role == "user" for message in seen.messages) - 1
        agent = ("eng-a", "eng-b", "lead")[told]
        return spawns(agent) if seen.messages[-1].role == "user" else "All is done."

    def part(seen):
        return "A part is done."

    here = world(cast(boss=lead, eng_a=part, eng_b=part, lead=part), memory_tools="never")
    result = here.spawn("All of it", "boss", project="web")
    assert [why for why, _ in said(here, result.run)] == ["unread"] * REMINDERS
    left = runs(here)["lead"]
    assert (result.status, result.debt) == ("blocked", (left.id,))
    assert result.why == f"it left results unread: {left.id}"
    assert result.text == "All is done."


def test_results_that_were_given_are_not_given_again(world, cast):
    def lead(seen):
        return spawns("eng-a", "eng-b") if seen.turn == 0 else f"Turn {seen.turn}."

    here = world(
        cast(
            lead=lead,
            eng_a=lambda seen: "A is done.",
            eng_b=lambda seen: Move("B is done.", takes=60),
        )
    )
    result = here.spawn("All of it", "lead", project="web")
    ((why, text),) = said(here, result.run)
    assert (result.status, result.text, why) == ("done", "Turn 2.", "unread")
    assert (text.count("A is done."), text.count("B is done.")) == (1, 1)


def test_work_that_is_blocked_below_is_named_with_its_entries(world, cast):
    def lead(seen):
        if seen.turn == 0:
            return spawns("eng-a", "eng-b")
        return calls("wait") if seen.turn < 3 else "All is done."

    here = world(
        cast(
            lead=lead,
            eng_a=lambda seen: "Blocked: no key",
            eng_b=lambda seen: Move("Blocked: the disk is full", takes=5),
        ),
        memory_tools="never",
    )
    result = here.spawn("All of it", "lead", project="web")
    below = [runs(here)[name] for name in ("eng-a", "eng-b")]
    assert (result.status, result.text) == ("blocked", "All is done.")
    for run in below:
        assert f"{run.id} ({run.fields['entry']})" in result.why
    assert result.entry in [run.fields["entry"] for run in below]
    assert result.entry == result.why.split("(")[1].split(")")[0], "the first of them"


@pytest.mark.parametrize("subscribed", [False, True])
def test_a_child_that_is_blocked_is_told_once(world, cast, subscribed):
    """By the news of its entry, or by its result where it is not told of the entry."""
    prompts = []

    def lead(seen):
        prompts.append(seen)
        if seen.turn == 0:
            return spawns("eng-a")
        if seen.turn < 6:
            return Move("", (("nothing", {}),), takes=100)
        return "Blocked: eng-a has no key"

    engine = cast(lead=lead, eng_a=lambda seen: "Blocked: no key")
    engine.interrupt = "turn"
    here = world(engine, memory_tools="never")
    if not subscribed:
        here.mem.register(synapse.Agent("lead", role="project-lead", notify=()))
    result = here.spawn("All of it", "lead", project="web")
    told = said(here, result.run)
    whys = ["wake", "unread"] if subscribed else ["blocked"]
    assert [why for why, _ in told] == whys
    assert "no key" in told[0][1]
    assert result.status == "blocked"
    assert lasted(here, runs(here)["eng-a"].id) == (ANSWER_WITHIN if subscribed else 0)
    assert "no key" in prompts[2].text


# -- being blocked -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("move", "why"),
    [
        (Move("Blocked: no key"), "no key"),
        (Move("I stopped.", blocked="Blocked: no key"), "no key"),
        (Move("I stopped.", blocked="no key"), "no key"),
        (Move("Blocked: no disk", blocked="no key"), "no key"),
    ],
)
def test_by_its_words_or_by_a_structured_result_it_is_blocked(world, move, why):
    here = world(lambda seen: move)
    result = here.spawn("Work", "eng-a", project="web")
    assert (result.status, result.why, result.text) == ("blocked", why, move.text)
    assert here.mem.as_agent("boss").get(result.entry).body == f"Blocked: {why}"


@pytest.mark.parametrize(
    ("text", "why"),
    [("I stopped.", "it reported a blocker"), ("Blocked: there is no key.", "there is no key.")],
)
def test_who_reported_a_blocker_is_blocked_by_that_entry(world, text, why):
    def script(seen):
        return calls("report_blocker", text="no key") if seen.turn == 0 else text

    here = world(script)
    result = here.spawn("Work", "eng-a", project="web")
    (entry,) = standing(here)
    assert (result.status, result.why, result.entry) == ("blocked", why, entry.id)


class Office:
    """A boss that spawns an engineer with a question, and what each does then."""

    def __init__(self, world, cast, boss, engineer, **others):
        def leads(seen):
            return spawns("eng-a") if seen.turn == 0 else boss(self, seen)

        self.here = world(cast(boss=leads, eng_a=engineer, **others))

    def play(self, **options):
        self.result = self.here.spawn("All of it.", "boss", project="web", **options)
        return self

    @property
    def engineer(self):
        return runs(self.here)["eng-a"]


def asks(seen):
    return f"Blocked: which licence has the gateway, asked {seen.turn}"


def waits(office, seen):
    return calls("wait") if "(eng-a): blocked" not in seen.text else "Blocked: open"


LICENCE = "The licence of the gateway is MIT."


def answers(seen, body):
    """Return the call that answers what woke it; nothing where it did already."""
    labels = {message.label for message in seen.messages}
    if "wake" not in labels or "writeback" in labels:
        return None
    entry = {"namespace": "decisions/web", "body": body, "priority": "critical"}
    return calls("append", **entry)


def settle(here):
    """Resolve all that an engineer is blocked by."""
    for entry in standing(here):
        if entry.author == "eng-a":
            here.mem.as_agent("boss").resolve(entry.id)


def resolves(office, seen):
    """Settle whatever stands, until the engineer has ended."""
    if "(eng-a): blocked" not in seen.text:
        settle(office.here)
    return waits(office, seen)


def test_a_blocked_run_goes_on_each_time_it_is_answered_but_not_for_ever(world, cast):
    office = Office(world, cast, resolves, asks).play()
    whys = [why for why, _ in said(office.here, office.engineer.id)]
    assert whys == ["answered"] * 3
    assert office.engineer.status == "blocked"
    assert office.engineer.fields["turns"] == 4
    assert office.engineer.fields["why"].endswith("asked 3")


def test_an_answer_is_shown_and_what_was_asked_is_resolved_when_it_is_done(world, cast):
    def boss(office, seen):
        waiting = calls("wait") if "(eng-a): done" not in seen.text else "All is done."
        return answers(seen, LICENCE) or waiting

    def engineer(seen):
        return "Done with MIT." if "MIT" in seen.text else asks(seen)

    office = Office(world, cast, boss, engineer).play()
    ((why, text),) = said(office.here, office.engineer.id)
    assert (office.result.status, office.engineer.status) == ("done", "done")
    assert why == "answered"
    assert text.startswith("You said that you are blocked; this may be the answer.")
    assert LICENCE in text
    assert list(standing(office.here)) == []


def test_what_was_asked_stands_while_it_is_blocked_by_something_else(world, cast):
    """It was answered once, goes on, and is blocked again: nothing counts as settled."""

    def boss(office, seen):
        other = "The gateway: its licence is not my business."
        return answers(seen, other) or waits(office, seen)

    def engineer(seen):
        return asks(seen) if seen.turn == 0 else "Blocked: nobody will tell"

    office = Office(world, cast, boss, engineer).play()
    assert office.engineer.status == "blocked"
    bodies = {entry.body for entry in standing(office.here) if entry.author == "eng-a"}
    assert bodies == {
        "Blocked: which licence has the gateway, asked 0",
        "Blocked: nobody will tell",
    }


def test_what_it_reported_by_the_tool_is_what_has_to_be_answered(world, cast):
    """No second entry is written for it."""

    def engineer(seen):
        if seen.turn == 0:
            return calls("report_blocker", text="no key")
        return "I stopped." if seen.turn == 1 else "Done with the key."

    seen_by_boss = []

    def boss(office, seen):
        found = [entry.id for entry in standing(office.here)]
        seen_by_boss.append(len(found))
        if any(message.label == "wake" for message in seen.messages):
            if office.here.time.elapsed < 10:
                return Move("", (("nothing", {}),), takes=10)
            settle(office.here)
        return calls("wait") if "(eng-a): done" not in seen.text else "All is done."

    office = Office(world, cast, boss, engineer).play()
    assert (office.result.status, office.engineer.status) == ("done", "done")
    assert max(seen_by_boss) == 1
    assert [why for why, _ in said(office.here, office.engineer.id)] == ["answered"]


def test_it_waits_for_who_may_answer_and_no_longer_than_is_said(world, cast):
    """Here for one that has heard of it and is at work all the time."""

    def boss(office, seen):
        if "(eng-a): blocked" in seen.text or office.here.time.elapsed > 900:
            return "Blocked: open"
        return Move("", (("nothing", {}),), takes=200)

    office = Office(world, cast, boss, asks).play()
    assert office.engineer.status == "blocked"
    assert ANSWER_WITHIN <= lasted(office.here, office.engineer.id) < ANSWER_WITHIN + 1


def test_it_does_not_wait_for_one_that_waits_for_it(world, cast):
    office = Office(world, cast, waits, asks).play()
    assert (office.engineer.status, office.engineer.fields["turns"]) == ("blocked", 1)
    assert said(office.here, office.engineer.id) == []
    assert office.here.time.elapsed < 5


def test_it_does_not_wait_for_one_that_has_said_its_last_word(world, cast):
    """The boss would end, and is kept by its child alone."""

    def boss(office, seen):
        return "All is given out."

    office = Office(world, cast, boss, asks).play()
    assert office.engineer.status == "blocked"
    assert office.here.time.elapsed < 5


def test_who_was_about_to_end_and_goes_on_may_answer(world, cast):
    """It had said that it is done, was given a result, and gave out more."""

    def boss(seen):
        prompts, woken = (
            [message for message in seen.messages if message.label == label]
            for label in ("plan", "wake")
        )
        if seen.turn == 0 or (seen.messages[-1].role == "user" and not woken):
            return spawns("eng-a" if seen.turn else "eng-b")
        if not prompts or "(eng-b): done" not in seen.text:
            return "All is given out."
        if not woken:
            return Move("", (("nothing", {}),), takes=5)
        settle(here)
        return calls("wait") if "(eng-a): done" not in seen.text else "All is done."

    def engineer(seen):
        return "Done." if seen.turn else asks(seen)

    here = world(cast(boss=boss, eng_a=engineer, eng_b=lambda seen: "B is done."))
    result = here.spawn("All of it", "boss", project="web")
    assert (result.status, runs(here)["eng-a"].status) == ("done", "done")


@pytest.mark.parametrize("settles", [True, False])
def test_who_was_answered_may_answer_others(world, cast, settles):
    """What it asked is settled once it is done, and stands while its own child is blocked."""

    def boss(seen):
        if seen.turn == 0:
            return spawns("lead")
        waiting = calls("wait") if "(lead): " not in seen.text else "All is done."
        return answers(seen, LICENCE) or waiting

    def lead(seen):
        if seen.turn == 0:
            return "Blocked: which licence has the gateway"
        if seen.turn == 1:
            return spawns("eng-a")
        if "(eng-a): " in seen.text:
            return "All is done."
        if "which colour" not in seen.text:
            return Move("", (("nothing", {}),), takes=5)
        if settles:
            settle(here)
        return calls("wait")

    def engineer(seen):
        return "Done." if seen.turn else "Blocked: which colour has the page"

    here = world(cast(boss=boss, lead=lead, eng_a=engineer))
    here.spawn("All of it", "boss", project="web")
    found = {name: run.status for name, run in runs(here).items()}
    status = "done" if settles else "blocked"
    assert (found["lead"], found["eng-a"]) == (status, status)
    asked = {entry.author for entry in standing(here)}
    assert ({"lead", "eng-a"} & asked) == (set() if settles else {"lead", "eng-a"})


def test_two_that_are_blocked_do_not_wait_for_each_other(world):
    here = world(lambda seen: Move(asks(seen), takes=1))
    here.mem.register(synapse.Agent("lead-2", role="project-lead", department="web"))

    async def both():
        async with here.supervisor:
            tasks = (Task(f"Work of {name}", name, "web") for name in ("lead", "lead-2"))
            return await asyncio.gather(*map(here.supervisor.spawn, tasks))

    results = here.time.run(both())
    assert [result.status for result in results] == ["blocked"] * 2
    assert here.time.elapsed < 10


def test_who_leaves_results_unread_asks_nobody(world, cast):
    """The boss hears of its blocker, is at work, and could say nothing about it."""

    def lead(seen):
        told = sum(message.role == "user" for message in seen.messages)
        more = seen.messages[-1].role == "user" and told <= REMINDERS + 1
        return spawns(("eng-a", "eng-b", "qa")[told - 1]) if more else "All is done."

    def boss(seen):
        if seen.turn == 0:
            return spawns("lead")
        return Move("", (("nothing", {}),), takes=100) if seen.turn < 4 else "Well."

    part = {name: lambda seen: "A part is done." for name in ("eng_a", "eng_b", "qa")}
    here = world(cast(boss=boss, lead=lead, **part), memory_tools="never")
    here.mem.register(synapse.Agent("qa", department="web"))
    here.spawn("All of it", "boss", project="web")
    assert runs(here)["lead"].fields["why"].startswith("it left results unread: qa")
    assert lasted(here, runs(here)["lead"].id) < 1


def test_who_is_blocked_by_its_own_child_asks_nobody(world, cast):
    """That one has asked already, for as long as it may."""

    def lead(seen):
        return spawns("eng-a") if seen.turn == 0 else "All is done."

    def boss(seen):
        if seen.turn == 0:
            return spawns("lead")
        return Move("", (("nothing", {}),), takes=100) if seen.turn < 9 else "Well."

    here = world(cast(boss=boss, lead=lead, eng_a=asks), memory_tools="never")
    here.spawn("All of it", "boss", project="web")
    assert runs(here)["lead"].status == runs(here)["eng-a"].status == "blocked"
    lead, engineer = (lasted(here, runs(here)[name].id) for name in ("lead", "eng-a"))
    assert engineer <= lead < engineer + 1
