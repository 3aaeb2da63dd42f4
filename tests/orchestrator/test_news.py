"""What comes while an agent works and concerns it stands behind its tools' results, once; nothing
else does.
"""

import asyncio

import pytest

from orchestrator.engines.scripted import Move
from orchestrator.prompts.opening import Context
from orchestrator.runs.files import steps
from orchestrator.runs.task import Task
from orchestrator.sessions.wake import AT_ONCE, LONG, TALK

TASK = (
    "Write client 2 of the users endpoint.\nNeeds: the version of the users endpoint; the"
    " retry limit of service 3"
)
SAID = "The version of the users endpoint is v7."


@pytest.fixture
def working(world):
    """A run of ten turns, ten seconds each, during which these things are said; the world, the run
    and what it was told, message by message.
    """

    def play(*acts, task=TASK, turns=10, furnished=None, **options):
        def script(seen):
            return "Done." if seen.turn >= turns else Move("", (("busy", {}),), takes=10)

        here = world(script, **{"memory_tools": "never"} | options)
        if furnished:
            furnished(here)
        also = [here.later(5 + 10 * n, lambda act=act: act(here)) for n, act in enumerate(acts)]
        result = here.spawn(task, "eng-a", project="web", also=also)
        folder = here.supervisor.run_store.folder(here.supervisor.run_store.known(result.run))
        recorded = steps.read(folder.lines("steps.jsonl"))
        return (here, result, [step.fields for step in recorded if step.kind == "message"])

    return play


def messages(here, run):
    recorded = steps.read(here.folder(run).lines("steps.jsonl"))
    return [step.fields["text"] for step in recorded if step.kind == "message"]


def says(body, namespace="projects/web", **more):
    return lambda here: here.mem.as_agent("boss").append(body, namespace, **more)


def test_what_concerns_the_task_is_told_beside_the_next_turn(working):
    here, result, told = working(
        says(SAID), says("The header was rendered again."), says("Lunch is at noon.")
    )
    assert [(each["label"], each["why"], len(each["ids"])) for each in told] == [
        ("wake", "wake", 1)
    ]
    assert told[0]["text"].count(SAID) == 1
    assert result.done
    turns = here.supervisor.run_store.known(result.run).fields["turns"]
    assert turns == 11, "no turn is taken for it"
    assert here.mem.as_agent("eng-a").unread() == 2, "what was told is read, the rest is not"


def test_of_two_that_sound_alike_the_one_that_is_needed(working):
    *_, told = working(
        says("The retry limit of service 5 is 9."), says("The retry limit of service 3 is 4.")
    )
    assert [text["text"].count("is 4.") for text in told] == [1]
    assert "is 9." not in told[0]["text"]


def test_nothing_is_told_twice(working):
    """Neither what the prompt showed, nor the same once more, nor one's own."""
    entries = []

    def known(here):
        entries.append(says(SAID, priority="important")(here))

    def again(here):
        with here.mem.store.snapshot() as snap:
            (run,) = snap.runs(state="running")
        here.mem.as_agent("eng-a", run["run"], run["epoch"]).append(
            "The version of the users endpoint is v9.", "status/web"
        )

    *_, told = working(lambda here: here.mem.as_agent("boss").vouch, again, furnished=known)
    assert told == []


@pytest.mark.parametrize("priority", ["info", "critical"])
def test_what_a_person_writes_in_its_name_is_told(working, priority):
    *_, told = working(
        lambda here: here.mem.as_agent("eng-a").append(SAID, "status/web", priority=priority)
    )
    assert [each["text"].count(SAID) for each in told] == [1]


def test_what_the_operator_says_to_all_is_told_in_any_words(working):
    *_, told = working(lambda here: here.mem.tell("all", "Tea?", priority="info"))
    assert [each["text"].count("Tea?") for each in told] == [1]


def test_what_replaces_what_was_shown_is_worth_a_turn(working):
    """Also where it comes when the run would end, and in other words."""
    entries = []

    def known(here):
        entries.append(says("Use v1 there.", "decisions/api", priority="critical")(here))

    def corrects(here):
        says("No more.", "decisions/api", supersedes=entries[0].id, priority="info")(here)

    *_, told = working(corrects, turns=0, furnished=known)
    assert told == []  # it had ended before
    *_, told = working(*[lambda here: None] * 2, corrects, turns=3, furnished=known)
    assert [("No more." in each["text"]) for each in told] == [True]


def test_what_is_said_to_the_agent_itself_is_worth_a_turn(working):
    *_, told = working(says("A word about something else.", to="agent:eng-a"))
    assert ["about something else" in each["text"] for each in told] == [True]


@pytest.mark.parametrize(
    "act",
    [
        says(SAID, to="agent:eng-b"),
        lambda here: here.mem.as_agent("eng-b").append(SAID, "agents/eng-b"),
    ],
)
def test_what_it_may_not_read_it_is_not_told(working, act):
    *_, told = working(act)
    assert told == []


def test_a_long_one_is_a_line_and_stays_unread(working):
    long = f"{SAID} " + "And so on. " * (LONG // 10)
    here, _, told = working(says(long))
    assert [(each["ids"], len(each["pointed"])) for each in told] == [([], 1)]
    assert len(told[0]["text"]) < LONG
    assert here.mem.as_agent("eng-a").unread() == 1


def test_many_at_once_come_over_several_turns(working):
    def many(here):
        for n in range(2 * AT_ONCE + 3):
            says(f"{SAID} ({n})")(here)

    *_, told = working(many)
    assert [len(each["ids"]) for each in told] == [AT_ONCE, AT_ONCE, 3]
    ids = [id for each in told for id in each["ids"]]
    assert len({*ids}) == len(ids)


def test_a_policy_may_tell_of_nothing_but_what_wakes(working):
    def alone(agent, task, agent_memory, plan):
        return Context((), news=False)

    *_, told = working(
        says(SAID), says("Stop.", "decisions/api", priority="critical"), context=alone
    )
    assert ["Stop." in each["text"] for each in told] == [True]
    assert SAID not in told[0]["text"]


@pytest.mark.parametrize("result", ["HTTP 500: use users_v2", "nothing"])
def test_what_is_important_is_told_though_a_result_has_its_words(world, result):
    """A figure and a name that stand in a tool's result say nothing of what was decided."""

    def script(seen):
        return "Done." if seen.turn >= 4 else Move("", (("probe", {}),), takes=10)

    def probe() -> str:
        """Look."""
        return result

    here = world(script, tools=[probe], memory_tools="never")
    bodies = [
        "The retry limit of service 3 is 500.",
        "Never call the users_v2 endpoint of the gateway any more.",
    ]
    also = [
        here.later(15, lambda body=body: says(body, priority="important")(here)) for body in bodies
    ]
    task = "Set the retry limit of service 3.\nCall the users endpoint of the gateway."
    run = here.spawn(task, "eng-a", project="web", also=also).run
    assert [all(body in text for body in bodies) for text in messages(here, run)] == [True]


def test_news_that_no_longer_stands_is_not_told(working):
    """Superseded or filed away before the turn that it would be told beside."""
    entries = []

    def says_one(here):
        entries.append(says(SAID)(here))

    def supersedes(here):
        says_one(here)
        says("The version of the users endpoint is v8.", supersedes=entries[-1].id)(here)

    def archives(here):
        says_one(here)
        here.mem.store.commit.archive([entries[-1].id], "operator", "wrong")

    *_, told = working(supersedes)
    assert ["v7" in each["text"] for each in told] == [False], "v8 is told alone"
    *_, told = working(archives)
    assert told == []


@pytest.mark.parametrize("addressed", ["agent:eng-a", "all"])
def test_large_news_comes_as_lines_and_a_few_at_a_time(working, addressed):
    def many(here):
        for n in range(40):
            here.mem.as_agent("eng-b").append(
                f"{SAID} {n} " + "word " * 3_000, "status/web", to=addressed
            )

    *_, told = working(many)
    assert told != []
    assert all(len(each["pointed"]) <= AT_ONCE and len(each["text"]) < LONG * 2 for each in told)


# -- two that answer each other --------------------------------------------------------


@pytest.mark.parametrize("pace", [0, 30])
def test_two_that_thank_each_other_come_to_an_end(world, cast, pace):
    """By their words alone they would go on as long as their turns last, at whatever pace."""

    def thanks(other):
        def script(seen):
            if seen.turn and seen.messages[-1].label != "wake":
                return "Done."
            body = f"Thanks, noted {seen.turn}."
            return Move(
                "",
                (("append", {"namespace": "status/web", "body": body, "to": f"agent:{other}"}),),
                takes=pace,
            )

        return script

    here = world(cast(eng_a=thanks("eng-b"), eng_b=thanks("eng-a")))

    async def all_of_it():
        async with here.supervisor:
            tasks = (
                Task(f"Work of {name}", name, "web", max_turns=300) for name in ("eng-a", "eng-b")
            )
            return await asyncio.gather(*map(here.supervisor.spawn, tasks))

    results = here.time.run(all_of_it())
    assert [result.status for result in results] == ["done", "done"]
    assert all(here.run(result).fields["turns"] <= TALK + 3 for result in results)


@pytest.mark.parametrize(("author", "count"), [("boss", TALK + 5), ("eng-b", TALK)])
def test_who_has_more_authority_is_heard_out(working, author, count):
    """The others have so many words to one run; what is over waits for a later view."""

    def word(n):
        return lambda here: here.mem.as_agent(author).append(
            f"Word {n}.", "status/web", to="agent:eng-a"
        )

    here, _, told = working(*map(word, range(TALK + 5)), turns=TALK + 8)
    assert sum(len(each["ids"]) for each in told) == count
    assert here.mem.as_agent("eng-a").unread() == TALK + 5 - count


# -- an answer to what blocks ----------------------------------------------------------

QUESTION = "Blocked: part 1 needs a decision on the licence of the gateway"
ANSWER = "The licence of the gateway is MIT."


def play(world, cast, supervisor, engineer, **options):
    """A boss that gives work to an engineer; the world, and the runs by their agents."""

    def leads(seen):
        spawn = ("spawn_agent", {"agent": "eng-a", "task": "Build part 1 of the gateway."})
        if seen.turn == 0:
            return Move("", (spawn,))
        return supervisor(seen, sum(message.label == "wake" for message in seen.messages))

    here = world(cast(boss=leads, eng_a=engineer), **options)
    result = here.spawn("Have the gateway built.", "boss", project="gateway")
    return (here, result, {run.agent: run for run in here.supervisor.run_store.runs.all()})


def blockers(here):
    return here.mem.as_agent("operator").read(namespace="blockers/*")


def decides(seen, heard):
    """Write the decision when it hears of the question; then wait for what comes of it."""
    if heard and not any(
        "syn-" in message.text and message.label == "writeback" for message in seen.messages
    ):
        return Move(
            "",
            (
                (
                    "append",
                    {"namespace": "decisions/gateway", "body": ANSWER, "priority": "critical"},
                ),
            ),
        )
    return Move("", (("wait", {}),)) if "(eng-a): done" not in seen.text else "All is done."


def waits(seen, heard):
    """Do nothing about it."""
    return (
        Move("", (("wait", {}),))
        if "(eng-a): blocked" not in seen.text
        else "Blocked: the licence is open"
    )


def asks(seen):
    return "Done: built with MIT." if "MIT" in seen.text else QUESTION


def test_a_blocked_run_goes_on_once_it_is_answered(world, cast):
    here, _, runs = play(world, cast, decides, asks)
    assert {name: run.status for name, run in runs.items()} == {"boss": "done", "eng-a": "done"}
    assert runs["eng-a"].fields["turns"] == 2, "it neither polled nor began anew"
    assert list(blockers(here)) == [], "it is done, and what blocked it is resolved"


def test_who_has_heard_and_goes_on_waiting_gives_no_answer(world, cast):
    here, _, runs = play(world, cast, waits, asks)
    assert {name: run.status for name, run in runs.items()} == {
        "boss": "blocked",
        "eng-a": "blocked",
    }
    assert [entry.id for entry in blockers(here) if QUESTION in entry.body] == [
        runs["eng-a"].fields["entry"]
    ]
    assert here.time.elapsed < 5, "nobody waited for what will not come"


def test_what_is_no_answer_does_not_end_the_waiting(world, cast):
    """News of something else, then nothing: it is blocked as it was, after one turn."""

    def says_other(seen, heard):
        if heard == 1 and "append" not in str([message.calls for message in seen.messages]):
            return Move(
                "",
                (
                    (
                        "append",
                        {"namespace": "decisions/x", "body": "Lunch.", "priority": "important"},
                    ),
                ),
            )
        return waits(seen, heard)

    *_, runs = play(world, cast, says_other, asks)
    assert (runs["eng-a"].status, runs["eng-a"].fields["turns"]) == ("blocked", 1)


def test_a_blocker_that_is_resolved_lets_it_go_on(world, cast):
    def resolves(seen, heard):
        if heard and "(eng-a): done" not in seen.text:
            for entry in blockers(here[0]):
                here[0].mem.as_agent("boss").resolve(entry.id)
        return Move("", (("wait", {}),)) if "(eng-a): done" not in seen.text else "All is done."

    def engineer(seen):
        return "Done: I could." if "is resolved" in seen.text else QUESTION

    here = []

    def built(*args, **options):
        here.append(world(*args, **options))
        return here[0]

    *_, runs = play(built, cast, resolves, engineer)
    assert {name: run.status for name, run in runs.items()} == {"boss": "done", "eng-a": "done"}


def test_what_blocks_is_not_called_resolved_while_it_stands(world, cast):
    """What shares the question's name and says nothing new may be the answer; it is shown, not
    judged.
    """
    question = "Blocked: what is the retry limit of service_x, GATEWAY_LICENCE"
    note = "Nobody knows the GATEWAY_LICENCE yet: the GATEWAY_LICENCE stays open."

    def notes(seen, heard):
        if heard == 1 and "append" not in str([message.calls for message in seen.messages]):
            return Move(
                "",
                (("append", {"namespace": "projects/gateway", "body": note, "priority": "info"}),),
                takes=5,
            )
        return waits(seen, heard) if heard < 4 and seen.turn < 12 else "Done."

    def engineer(seen):
        return "Done: I went on." if seen.turn else question

    def leads(seen):
        spawn = ("spawn_agent", {"agent": "eng-a", "task": "Find the GATEWAY_LICENCE."})
        return (
            notes(seen, sum(m.label == "wake" for m in seen.messages))
            if seen.turn
            else Move("", (spawn,))
        )

    here = world(cast(boss=leads, eng_a=engineer))
    here.spawn("Have the gateway built.", "boss", project="gateway")
    (run,) = (run for run in here.supervisor.run_store.runs.all() if run.agent == "eng-a")
    (text,) = messages(here, run.id)
    assert (note in text, "resolved" in text) == (True, False)


def test_an_answer_that_does_not_help_ends_it(world, cast):
    """The same question is not asked once more while it stands."""

    def decides_again(seen, heard):
        said = sum(call.name == "append" for message in seen.messages for call in message.calls)
        if heard > said:
            body = f"The licence of the gateway is open, part {said}."
            return Move(
                "",
                (
                    (
                        "append",
                        {"namespace": "decisions/gateway", "body": body, "priority": "critical"},
                    ),
                ),
            )
        return waits(seen, heard)

    *_, runs = play(world, cast, decides_again, lambda seen: QUESTION)
    assert (runs["eng-a"].status, runs["eng-a"].fields["turns"]) == ("blocked", 2)


def test_alone_it_ends_at_once(world):
    here = world(lambda seen: QUESTION)
    assert (
        here.spawn("Build part 1 of the gateway.", "eng-a", project="gateway").status == "blocked"
    )
    assert here.time.elapsed < 1
