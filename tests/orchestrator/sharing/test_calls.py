"""What the supervisor does at the moment of a shared tool's call: one call serves the whole
team.
"""

import asyncio
import json
import os
import threading

import pytest

import synapse
from orchestrator.cli.frame.describe import describe_result
from orchestrator.engines.scripted import Move, Scripted
from orchestrator.prompts.opening import Context
from orchestrator.runs.files import steps
from orchestrator.runs.task import Task
from orchestrator.sharing.findings import digests
from orchestrator.spend.counting import Counter
from orchestrator.tools.functions import Partial, Shares, ToolFailed, tool_of
from synapse.errors import InvalidEntry
from synapse.model.entry import SECOND

SUBJECT = "the retry limit of service 3"
FOUND = "The retry limit of service 3 is 57."


class Digging:
    """A tool that finds something out in so many calls of each run, and counts them."""

    def __init__(self, calls=1, seconds=5.0, text=FOUND):
        self.calls, self.seconds, self.text = calls, seconds, text
        self.made = []

    def tool(self, shares=True, **more):
        async def investigate(subject: str, idempotency_key: str) -> str:
            run = idempotency_key.split("/")[0]
            self.made.append(run)
            await asyncio.sleep(self.seconds)
            if self.made.count(run) % self.calls:
                return Partial("Not found yet.")
            if isinstance(self.text, Exception):
                raise self.text
            return self.text() if callable(self.text) else self.text

        return tool_of(investigate, shares=shares, **more)


def digs(*subjects, until=FOUND, most=12, pause=1.0):
    """A script that asks until it has an answer, then says what it was told."""
    subjects = subjects or (SUBJECT,)

    def play(seen):
        answers = [message.text for message in seen.messages if message.role == "tool"]
        if seen.turn < most and not (answers and until in answers[-1]):
            subject = subjects[min(seen.turn, len(subjects) - 1)]
            return Move("", (("investigate", {"subject": subject}),), takes=pause)
        return Move("\n".join(answers) or "nothing")

    return play


def crowd(here, names, *, apart=0.0, project="web", **more):
    """The results of agents that are given the same task, one after the other."""

    async def all_of_it():
        async with here.supervisor:

            async def one(at, name):
                await asyncio.sleep(at * apart)
                return await here.supervisor.spawn(
                    Task(f"Look into it, {name}", name, project, **more)
                )

            return await asyncio.gather(*(one(at, name) for at, name in enumerate(names)))

    return here.time.run(all_of_it())


def shares(here, result):
    return here.run(result).fields.get("shares", {})


def results(here, namespace="status/web"):
    page = here.mem.as_agent("operator").read(namespace=namespace, limit=None)
    return [entry for entry in page if entry.topic]


def claims(here):
    return [record.fields for record in here.mem.store.log.since(0) if record.kind == "claim"]


@pytest.fixture
def ground(world):
    def made(digging, script=None, tools=None, **more):
        tools = [digging.tool()] if tools is None else tools
        return world(Scripted(script or digs()), tools=tools, memory_tools="never", **more)

    return made


NAMES = [f"eng-{n:02}" for n in range(20)]


def engineers(here, names=NAMES, **more):
    for name in names:
        here.mem.register(synapse.Agent(name, **more))
    return names


# -- one call for all ------------------------------------------------------------------------------


def test_one_call_serves_twenty_agents_at_once(ground):
    digging = Digging()
    here = ground(digging)
    found = crowd(here, engineers(here))
    assert len(digging.made) == 1
    assert all(FOUND in result.text for result in found)
    (entry,) = results(here)
    assert entry.body == f"investigate(subject={SUBJECT}): {FOUND}"
    counted = [shares(here, result) for result in found]
    assert counted.count({"made": 1}) == 1
    assert counted.count({"given": 1, "waited": 1}) == 19


def test_one_agent_works_at_it_in_several_calls_and_the_others_wait_without_a_turn(ground):
    digging = Digging(calls=5)
    here = ground(digging)
    found = crowd(here, engineers(here), apart=0.1)
    assert digging.made == [found[0].run] * 5
    turns = [here.run(result).fields["turns"] for result in found]
    assert turns == [6] + [2] * 19
    assert len(results(here)) == 1


def test_what_is_given_says_whose_it_is_and_how_to_have_it_anew(ground):
    here = ground(Digging())
    one, two = crowd(here, ["eng-a", "eng-b"], apart=60)
    (entry,) = results(here)
    assert entry.run == one.run
    assert two.text.splitlines() == [
        "Not called: the memory has it, written by eng-a 55 s ago.",
        f"- status/web {entry.id} (eng-a, authority 60, 09:00Z)",
        f"  > investigate(subject={SUBJECT}): {FOUND}",
        "Call this once more to do it yourself.",
    ]
    assert "capsule" in here.labels(two)
    assert "capsule" not in here.labels(one)
    assert shares(here, two) == {"given": 1}


def test_the_same_thing_in_other_words_of_case_and_spacing_is_the_same(ground):
    digging = Digging()
    here = ground(digging, digs("The Retry  limit of service 3."))
    crowd(here, ["eng-a"])
    here.supervisor.engines["scripted"].script = digs()
    crowd(here, ["eng-b"])
    assert len(digging.made) == 1


def test_nothing_is_shared_of_a_tool_that_does_not_say_so(ground):
    digging = Digging()
    here = ground(digging, tools=[digging.tool(shares=False)])
    crowd(here, ["eng-a", "eng-b"])
    assert len(digging.made) == 2
    assert (results(here), claims(here)) == ([], [])


def test_nothing_is_looked_up_where_the_policy_says_so(ground):
    digging = Digging()
    here = ground(digging, context=lambda agent, task, agent_memory, plan: Context(acts=False))
    crowd(here, ["eng-a", "eng-b"])
    assert len(digging.made) == 2
    assert (results(here), claims(here)) == ([], [])


def test_the_settings_share_a_tool_and_take_it_back(ground):
    digging = Digging()
    said = "tools:\n  investigate: {shares: true, lifetime: 2h}\n"
    here = ground(digging, tools=[digging.tool(shares=False)], settings=said)
    crowd(here, ["eng-a", "eng-b"])
    assert len(digging.made) == 1
    assert results(here)[0].ttl == "2h"
    other = Digging()
    here = ground(other, settings="tools:\n  investigate: {shares: false}\n")
    crowd(here, ["eng-a", "eng-b"])
    assert len(other.made) == 2


def test_settings_that_cannot_be_meant_begin_no_run(ground):
    with pytest.raises(InvalidEntry, match="write true, false or whole"):
        ground(Digging(), settings="tools:\n  investigate: {shares: perhaps}\n")


@pytest.mark.parametrize("is_of_task", [True, False])
def test_files_that_name_no_argument_begin_no_run(ground, is_of_task):
    tools = {"investigate": {"files": ["subjct"]}}
    here = ground(
        Digging(), settings="" if is_of_task else "tools: {investigate: {files: [subjct]}}\n"
    )
    more = {"tools": tools} if is_of_task else {}
    with pytest.raises(InvalidEntry, match="investigate: files names subjct; it takes subject"):
        here.spawn("Look into it", "eng-a", "web", **more)
    assert here.supervisor.run_store.runs.all() == []


# -- asking for the call itself --------------------------------------------------------------------


def test_called_once_more_it_is_made(ground):
    digging = Digging()
    here = ground(digging, digs(until="never", most=3))
    one, two = crowd(here, ["eng-a", "eng-b"], apart=600)
    assert digging.made == [one.run] * 3 + [two.run] * 2
    assert shares(here, two) == {"given": 1, "made": 2}
    assert len(results(here)) == 1, "the same text is not written again"


def test_another_result_takes_the_place_of_the_first_without_a_dispute(ground):
    texts = iter([FOUND, FOUND.replace("57", "58")])
    here = ground(Digging(text=lambda: next(texts)), digs(until="58", most=3))
    here.supervisor.engines["scripted"].script = digs()
    crowd(here, ["eng-a"])
    here.supervisor.engines["scripted"].script = digs(until="58", most=3)
    (two,) = crowd(here, ["eng-b"])
    (entry,) = results(here)
    assert ("58" in entry.body, entry.disputed, entry.author) == (True, (), "eng-b")
    assert shares(here, two) == {"given": 1, "made": 1}


def test_a_call_that_gives_two_agents_different_results_is_not_shared(ground):
    """It says so, and is shared again once another agent gets the same."""
    texts = iter(["for a", "for b", "for b once more", "for b once more", "no"])
    digging = Digging(text=lambda: next(texts))
    here = ground(digging, digs(until="for"))
    crowd(here, ["eng-a"])
    here.supervisor.engines["scripted"].script = digs(until="for b", most=2)
    (two,) = crowd(here, ["eng-b"])  # is given the first one, and asks once more
    assert digging.made.count(two.run) == 1
    (entry,) = results(here)
    assert entry.body.startswith(f"investigate(subject={SUBJECT}), unlike syn-")
    assert entry.body.endswith(
        " of eng-a, so that nobody is given it until another agent gets the same: for b"
    )
    here.supervisor.engines["scripted"].script = digs(until="for")
    for agent, given in (("boss", False), ("lead", False), ("eng-a", True)):
        (result,) = crowd(here, [agent])
        assert ("Not called" in result.text) is given
    assert results(here)[0].body.endswith("): for b once more")


def test_what_its_server_says_writes_is_not_shared_whatever_is_declared(ground):
    digging = Digging()
    tool = digging.tool()._replace(writes=True)
    here = ground(digging, tools=[tool], settings="tools: {investigate: {}}\n")
    crowd(here, ["eng-a", "eng-b"])
    assert len(digging.made) == 2
    assert (results(here), claims(here)) == ([], [])


def test_who_failed_shares_nothing_and_holds_nobody_up(ground):
    texts = iter([ToolFailed("no way"), FOUND])

    def found():
        text = next(texts)
        if isinstance(text, Exception):
            raise text
        return text

    digging = Digging(text=found)
    here = ground(digging, digs(most=1))
    one, two = crowd(here, ["eng-a", "eng-b"], apart=1)
    assert "no way" in one.text
    assert FOUND in two.text
    assert digging.made == [one.run, two.run]
    assert len(results(here)) == 1


def test_who_waited_for_a_call_that_fails_waits_for_no_other(ground):
    digging = Digging(seconds=10.0, text=ToolFailed("down"))
    here = ground(digging, digs(most=1))
    found = crowd(here, engineers(here))
    assert len(digging.made) == len(found)
    assert all("down" in result.text for result in found)
    assert here.time.elapsed < 30, "two calls in a row, not twenty"


def test_two_calls_of_one_turn_are_given_the_same(ground):
    """The second was written before the first was answered: it asks for nothing anew."""
    digging = Digging()
    here = ground(digging)
    crowd(here, ["eng-a"])

    def twice(seen):
        return "Done." if seen.turn else Move("", (("investigate", {"subject": SUBJECT}),) * 2)

    here.supervisor.engines["scripted"].script = twice
    (two,) = crowd(here, ["eng-b"])
    assert len(digging.made) == 1
    assert shares(here, two) == {"given": 2}


# -- an entry instead of a call --------------------------------------------------------------------


def test_an_entry_that_has_what_a_call_asks_for_is_given(ground):
    digging = Digging()
    here = ground(digging)
    body = "The retry limit of service 3 is 570."
    here.mem.as_agent("boss").append(body, "projects/web")
    here.supervisor.engines["scripted"].script = digs(until=body)
    (result,) = crowd(here, ["eng-a"])
    assert f"  > {body}" in result.text
    assert digging.made == []


@pytest.mark.parametrize("known", ["an entry", "a result"])
@pytest.mark.parametrize(("wrote", "made"), [("570 was refused.", 1), ("57 was refused.", 0)])
def test_who_used_a_value_and_asks_all_the_same_makes_the_call(ground, known, wrote, made):
    """It was shown the value and does not believe it: told it again, it would lose a turn."""
    value = FOUND.replace("57", "570")
    digging = Digging(text=value)
    here = ground(digging, digs(until=value))
    if known == "an entry":
        here.mem.as_agent("boss").append(value, "projects/web")
    else:
        crowd(here, ["eng-a"])
    call = ("investigate", {"subject": SUBJECT})
    here.supervisor.engines["scripted"].script = lambda seen: (
        Move("done") if seen.turn else Move(wrote, (call,), takes=1.0)
    )
    (last,) = crowd(here, ["eng-b"])
    assert digging.made.count(last.run) == made
    assert shares(here, last) == {"made" if made else "given": 1}


@pytest.mark.parametrize(
    ("author", "priority", "given"), [("eng-a", "important", "57"), ("boss", "info", "58")]
)
def test_what_a_tool_gave_comes_before_what_equals_note_of_it(ground, author, priority, given):
    here = ground(Digging())
    crowd(here, ["eng-a"])
    note = FOUND.replace("57", "58")
    here.mem.as_agent(author).append(note, "projects/web", priority=priority)
    here.supervisor.engines["scripted"].script = digs(until="Not called", most=2)
    (third,) = crowd(here, ["eng-b"])
    assert f"The retry limit of service 3 is {given}." in third.text


WHOLE = "Which service is it: service 3. What is its retry limit in seconds?"


@pytest.mark.parametrize(
    ("subject", "body", "more"),
    [
        (WHOLE, "The service 3 team meets in Berlin; which service is next, nobody knows.", {}),
        (SUBJECT, "I am looking into the retry limit of service 3, nothing known so far.", {}),
        (SUBJECT, "Alice shall ask on Monday for the retry limit of service 3.", {}),
        (
            SUBJECT,
            "When deploying to staging watch the retry limit of service 3.",
            {"when": "run deploy"},
        ),
        (SUBJECT, "The retry limit of service 5 is 9.", {}),
    ],
)
def test_an_entry_that_answers_something_else_is_not_given(ground, subject, body, more):
    digging = Digging()
    here = ground(digging, digs(subject))
    here.mem.as_agent("boss").append(body, "projects/web", **more)
    (result,) = crowd(here, ["eng-a"])
    assert digging.made == [result.run]
    assert body not in result.text


def test_a_number_among_the_arguments_has_to_be_in_an_entry(ground):
    asked = []

    def limit(service: int, what: str) -> str:
        """Look a limit up."""
        asked.append(service)
        return f"It is {service}00."

    def play(seen):
        return (
            "Done." if seen.turn else Move("", (("limit", {"service": 3, "what": "retry limit"}),))
        )

    here = ground(None, play, [tool_of(limit, shares=True)])
    here.mem.as_agent("boss").append("The retry limit of service 5 is 9.", "projects/web")
    crowd(here, ["eng-a"])
    assert asked == [3]


def test_what_is_critical_is_told_whole_though_a_call_asks_for_it(ground):
    """It comes while another call goes on, and one of the same turn asks for what stands in it."""
    stop = "From now on nobody may write to the ledger."
    body = "\n".join(
        (FOUND, *(f"A line, number {n}, about nothing at all." for n in range(60)), stop)
    )

    async def slow() -> str:
        """Take a while."""
        await asyncio.sleep(10)
        return "ok"

    def play(seen):
        calls = (("slow", {}), ("investigate", {"subject": SUBJECT}))
        return (
            Move("", calls) if seen.turn == 0 else Move("", calls[:1]) if seen.turn < 3 else "Done."
        )

    here = ground(None, play, [tool_of(slow), Digging().tool()])
    run = here.spawn(
        "Do it", "eng-a", project="web", also=[here.later(5, lambda: here.says(body))]
    ).run
    recorded = steps.read(here.folder(run).lines("steps.jsonl"))
    assert (
        sum(stop in step.fields["text"] for step in recorded if step.kind in ("message", "result"))
        == 1
    )


# -- waiting ---------------------------------------------------------------------------------------


def test_who_comes_to_no_end_is_named_and_a_second_call_is_made(ground):
    digging = Digging(calls=100, seconds=50.0)
    here = ground(digging, digs(most=8))
    one, two = crowd(here, ["eng-a", "eng-b"], apart=1)
    said = two.text.splitlines()[0]
    assert said.startswith(
        f"Not called: eng-a (run {one.run}) is at this and has no result after 120 s."
    )
    assert digging.made.count(two.run) == 7
    assert shares(here, two) == {"busy": 1, "waited": 1}


def test_the_end_of_a_run_lets_the_next_one_begin(ground):
    """A holder that ends without a result, with the claim in its hand."""
    digging = Digging(calls=3)

    def play(seen):
        if "eng-a" in seen.system.split("\n")[0] and seen.turn == 1:
            return "I give up."
        return digs()(seen)

    here = ground(digging, play)
    found = crowd(here, ["eng-a", "eng-b", "boss"], apart=1)
    assert [digging.made.count(result.run) for result in found] == [1, 3, 0]
    assert all(FOUND in result.text for result in found[1:])


def test_two_that_wait_for_each_other_do_not(ground):
    digging = Digging(calls=2, seconds=1.0)

    def play(seen):
        mine, other = ("a", "b") if "eng-a" in seen.system.split("\n")[0] else ("b", "a")
        asks = [mine, other, other, mine]
        if seen.turn < len(asks):
            return Move("", (("investigate", {"subject": asks[seen.turn]}),), takes=1)
        return "Done."

    here = ground(digging, play)
    found = crowd(here, ["eng-a", "eng-b"])
    assert [result.status for result in found] == ["done", "done"]
    assert here.time.elapsed < 60


def test_nobody_waits_for_its_own_family(ground):
    """The lead is at it, spawns an engineer that wants the same, and waits for it."""
    digging = Digging(calls=3, seconds=1.0)

    def play(seen):
        if "lead" not in seen.system.split("\n")[0]:
            return digs()(seen)
        calls = [
            ("investigate", {"subject": SUBJECT}),
            ("spawn_agent", {"agent": "eng-a", "task": "The same"}),
            ("wait", {}),
        ]
        return Move("", (calls[seen.turn],)) if seen.turn < 3 else "All done."

    here = ground(digging, play)
    result = here.spawn("Look", "lead", "web")
    assert result.status == "done"
    assert here.time.elapsed < 30


def test_a_run_that_is_stopped_while_it_waits_ends_at_once(ground):
    digging = Digging(calls=50, seconds=10.0)
    here = ground(digging)

    async def all_of_it():
        async with here.supervisor:
            one = await here.supervisor.start(Task("Look", "eng-a", "web"))
            await asyncio.sleep(2)
            two = await here.supervisor.start(Task("Look too", "eng-b", "web"))
            await asyncio.sleep(5)
            await here.supervisor.stop(two.id)
            ended = await here.supervisor.result(two)
            await here.supervisor.stop(one.id)
            return ended, here.time.elapsed

    ended, at = here.time.run(all_of_it())
    assert ended.status == "stopped"
    assert at < 30


# -- who may read ----------------------------------------------------------------------------------


def test_who_may_not_read_the_result_makes_its_own_call(ground):
    digging = Digging()
    here = ground(digging)
    here.mem.register(synapse.Agent("stranger", read=("api/*",), write=("status/elsewhere/*",)))
    crowd(here, ["eng-a"])
    (other,) = crowd(here, ["stranger"], project="elsewhere")
    assert len(digging.made) == 2
    assert shares(here, other) == {"made": 1}


def test_who_may_not_read_the_result_does_not_wait_for_it(ground):
    digging = Digging(seconds=50)
    here = ground(digging)
    here.mem.register(synapse.Agent("stranger", read=("api/*",), write=("status/elsewhere/*",)))

    async def all_of_it():
        async with here.supervisor:
            one = await here.supervisor.start(Task("Look", "eng-a", "web"))
            await asyncio.sleep(2)
            two = await here.supervisor.spawn(Task("Look too", "stranger", "elsewhere"))
            await here.supervisor.result(one)
            return two

    two = here.time.run(all_of_it())
    assert len(digging.made) == 2
    assert shares(here, two) == {"made": 1}


def test_who_needs_review_gets_results_and_shares_none(ground):
    digging = Digging()
    here = ground(digging)
    here.mem.register(synapse.Agent("junior", review_required=True))
    crowd(here, ["junior"])
    assert (results(here), claims(here)) == ([], [])
    crowd(here, ["eng-a"])
    (third,) = crowd(here, ["junior"])
    assert len(digging.made) == 2
    assert shares(here, third) == {"given": 1}


def test_an_entry_that_only_looks_like_a_result_is_none(ground):
    """An agent writes under the topic; the tool's word is the tool's."""
    digging = Digging()
    here = ground(digging)
    lie = f"investigate(subject={SUBJECT}): The retry limit of service 3 is 13."
    here.mem.as_agent("eng-b").append(lie, "status/web", topic=f"investigate: subject={SUBJECT}")
    (result,) = crowd(here, ["eng-a"])
    assert len(digging.made) == 1
    assert "13" not in result.text


# -- growing stale ---------------------------------------------------------------------------------


def test_a_result_holds_until_something_changes(ground):
    digging = Digging()
    here = ground(digging)
    crowd(here, ["eng-a"])
    here.time.elapsed += 3 * 86_400
    (two,) = crowd(here, ["eng-b"])
    assert digging.made.count(two.run) == 0
    assert "written by eng-a 72 h ago" in two.text
    assert results(here)[0].ttl == "7d"


def test_a_report_does_not_say_again_what_a_tool_gave(ground):
    """Here it says it wrongly; all of what the run said lies in its folder."""
    retold = "Part 1 is done. The retry limit of service 3 is 75. The port is 8080."

    def play(seen):
        if seen.turn:
            return Move(retold)
        return Move("", (("investigate", {"subject": SUBJECT}),))

    here = ground(Digging(), play)
    for agent in ("eng-a", "eng-b"):  # who made the call, and who was given its result
        (result,) = crowd(here, [agent])
        assert result.text == retold
        page = here.mem.as_agent("operator").read(namespace="status/web", limit=None)
        bodies = [entry.body for entry in page if entry.author == agent]
        assert "Done: Part 1 is done. The port is 8080." in bodies
        assert "75" not in "".join(bodies)
    assert here.folder(result.run).read("output.md") == retold


def test_a_result_is_stale_at_the_end_of_its_lifetime(ground):
    digging = Digging()
    here = ground(digging, tools=[digging.tool(Shares("30m"))])
    crowd(here, ["eng-a"])
    here.time.elapsed += 1_900
    (two,) = crowd(here, ["eng-b"])
    assert len(digging.made) == 2
    assert shares(here, two) == {"made": 1, "stale": 1}


def test_a_result_is_stale_once_a_file_that_it_read_has_changed(ground, tmp_path):
    path, made = tmp_path / "Notes.txt", []
    path.write_text("one")

    async def investigate(subject: str) -> str:
        made.append(subject)
        return path.read_text()

    tool = tool_of(investigate, shares=Shares(files=("subject",)))
    here = ground(None, digs(str(path), until="", most=1), [tool])
    assert "one" in crowd(here, ["eng-a"])[0].text
    assert "Not called" in crowd(here, ["eng-b"])[0].text
    path.write_text("two")
    (third,) = crowd(here, ["boss"])
    assert third.text == "two"
    assert shares(here, third) == {"made": 1, "stale": 1}
    assert [entry.author for entry in results(here)] == ["boss"]
    path.write_text("six")
    (fourth,) = crowd(here, ["lead"])
    assert fourth.text == "six", "a lower authority replaces it as well"
    assert [entry.author for entry in results(here)] == ["lead"]
    assert "Not called" in crowd(here, ["eng-a"])[0].text
    path.unlink()
    (last,) = crowd(here, ["eng-b"])
    assert "Error" in last.text, "without the file, it is called"
    assert len(made) == 4


def test_the_same_path_in_two_work_trees_is_not_the_same_file(ground, tmp_path, monkeypatch):
    """Also where it has the same text there: what else a tool reads beside it may differ."""
    made = []

    async def investigate(subject: str) -> str:
        made.append(os.getcwd())
        return f"{os.path.basename(os.getcwd())} it is."

    tool = tool_of(investigate, shares=Shares(files=("subject",)))
    here = ground(None, digs("notes.txt", until="", most=1), [tool])
    texts = []
    for tree, agent in (("one", "eng-a"), ("two", "eng-b"), ("one", "boss")):
        (tmp_path / tree).mkdir(exist_ok=True)
        (tmp_path / tree / "notes.txt").write_text("the same")
        monkeypatch.chdir(tmp_path / tree)
        texts.append(crowd(here, [agent])[0].text)
    assert texts[:2] == ["one it is.", "two it is."]
    assert "one it is." in texts[2]
    assert len(made) == 2
    assert all(not entry.disputed for entry in results(here))


def test_a_result_of_another_branch_is_not_this_calls_own(ground, tmp_path, monkeypatch):
    """A tool may read the work tree and say nothing of files."""
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    digging = Digging(seconds=0, text=lambda: (tmp_path / ".git/HEAD").read_text().strip())
    here = ground(None, digs(until="", most=1), [digging.tool()])
    texts = []
    for head, agent in (
        ("main", "eng-a"),
        ("main", "eng-b"),
        ("topic", "boss"),
        ("topic", "eng-a"),
    ):
        (tmp_path / ".git/HEAD").write_text(f"ref: refs/heads/{head}\n")
        texts.append(crowd(here, [agent])[0].text)
    assert [text.count("refs/heads/main") for text in texts] == [1, 1, 0, 0]
    assert [text.count("refs/heads/topic") for text in texts] == [0, 0, 1, 1]
    assert len(digging.made) == 2
    assert all(not entry.disputed for entry in results(here))


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_is_no_plain_file_holds_nobody_up_and_shares_nothing(ground, tmp_path, make):
    path, read = tmp_path / "pipe", []
    make(path)
    thread = threading.Thread(target=lambda: read.append(digests((str(path),))), daemon=True)
    thread.start()
    thread.join(5)
    assert read == [None], "a pipe without a writer would be waited for, on the memory's thread"
    digging = Digging()
    here = ground(digging, digs(str(path)), [digging.tool(Shares(files=("subject",)))])
    crowd(here, ["eng-a", "eng-b"])
    assert len(digging.made) == 2
    assert (results(here), claims(here)) == ([], [])


def test_a_file_that_changes_meanwhile_shares_nothing(ground, tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("one")

    async def investigate(subject: str) -> str:
        text = path.read_text()
        path.write_text(text + "!")
        return text

    tool = tool_of(investigate, shares=Shares(files=("subject",)))
    here = ground(None, digs(str(path), until="", most=1), [tool])
    assert [each.text for each in (*crowd(here, ["eng-a"]), *crowd(here, ["eng-b"]))] == [
        "one",
        "one!",
    ]
    assert results(here) == []


def test_a_result_is_stale_once_an_entry_takes_its_place(ground):
    digging = Digging()
    here = ground(digging)
    crowd(here, ["eng-a"])
    (entry,) = results(here)
    lead = here.mem.as_agent("lead")
    lead.append("It was raised to 60 today.", "status/web", supersedes=entry.id)
    (two,) = crowd(here, ["eng-b"])
    assert shares(here, two) == {"made": 1, "stale": 1}


@pytest.mark.parametrize("author", ["lead", "eng-b"])
def test_a_result_is_stale_once_its_equals_say_otherwise(ground, author):
    digging = Digging()
    here = ground(digging)
    crowd(here, ["eng-a"])
    (entry,) = results(here)
    mem = here.mem
    mem.register(mem.store.agents.all()[author]._replace(projects=("web",)))
    mem.as_agent(author).append("It is 60 by now.", "status/web", topic=entry.topic)
    (three,) = crowd(here, ["boss"])
    assert shares(here, three) == {"made": 1, "stale": 1}


@pytest.mark.parametrize(
    ("settings", "made"), [("", 1), ("tools: {investigate: {shares: false}}\n", 1)]
)
def test_a_task_says_what_tools_share_for_its_tree(ground, settings, made):
    """As a team.yaml does; it comes before synapse.yaml and what the tool says itself."""
    digging = Digging()
    plain = digging.tool()._replace(shares=None)
    here = ground(digging, tools=[plain], settings=settings)
    crowd(here, ["eng-a", "eng-b"], apart=60, tools={"investigate": {"shares": True}})
    assert len(digging.made) == made
    crowd(here, ["boss"])
    assert len(digging.made) == made + 1, "another task says nothing of it"


def test_news_of_what_it_is_finding_out_is_told_while_it_does(ground):
    """Also where its task has no word of it."""
    digging = Digging(calls=4)
    here = ground(digging, digs(most=9))
    said = []

    def says():
        said.append(here.mem.as_agent("boss").append(f"For now: {FOUND}", "projects/web"))

    result = here.spawn("Look around", "eng-a", project="web", also=[here.later(9, says)])
    recorded = steps.read(here.folder(result.run).lines("steps.jsonl"))
    told = [step.fields["ids"] for step in recorded if step.kind == "message"]
    assert told == [[said[0].id]]


# -- long results ----------------------------------------------------------------------------------


LONG = "Nothing much is to be said here.\n" * 90 + FOUND + "\nAnd nothing there.\n" * 90


def test_a_long_result_is_given_condensed_and_lies_whole_in_the_runs_folder(ground):
    digging = Digging(text=LONG)
    here = ground(digging)
    one, two = crowd(here, ["eng-a", "eng-b"], apart=60)
    (entry,) = results(here)
    assert FOUND in two.text
    assert len(two.text) < 600
    where = entry.evidence.removeprefix("runs/")
    assert here.supervisor.run_store.folder(here.run(one)).path.endswith(where.partition("/")[0])
    with open(f"{here.mem.store.root}/runs/{where}", encoding="utf-8") as file:
        assert file.read() == LONG


def test_a_long_result_is_given_whole_where_that_is_declared(ground):
    digging = Digging(text=LONG)
    here = ground(digging, tools=[digging.tool("whole")])
    _, two = crowd(here, ["eng-a", "eng-b"], apart=60)
    assert (
        "".join(f"  > {line}\n" if line else "  >\n" for line in LONG.strip().split("\n")[1:])
        in two.text
    )


def test_what_a_given_result_spared_is_counted_in_tokens(ground):
    """All calls that it took who found it, less what stands in their place."""
    digging = Digging(calls=3, text=LONG)
    here = ground(digging)
    one, two = crowd(here, ["eng-a", "eng-b"], apart=60)
    count = Counter().count
    taken = 2 * count("Not found yet.") + count(LONG)
    assert (one.spared_tokens, two.spared_tokens) == (0, taken - count(two.text))
    assert here.run(two).fields["spared_tokens"] == two.spared_tokens > 1_000
    assert f"1 call of shared tools ({two.spared_tokens:,} tokens)" in describe_result(two)


# -- the record ------------------------------------------------------------------------------------


def test_no_claim_outlives_its_work(ground):
    here = ground(Digging(calls=3))
    crowd(here, ["eng-a", "eng-b"], apart=1)
    taken = claims(here)
    assert taken[0]["work"] == f"investigate: subject={SUBJECT}"
    assert taken[-1].get("end") is True
    assert taken[0]["until"] - here.time() < 11 * 60 * SECOND


def test_the_end_of_a_run_says_what_was_shared(ground, capsys):
    here = ground(Digging())
    _, two = crowd(here, ["eng-a", "eng-b"], apart=60)
    recorded = steps.read(here.folder(two.run).lines("steps.jsonl"))
    (step,) = (step for step in recorded if step.kind == "result")
    assert step.fields["act"]["counts"] == ["given"]
    assert json.loads(json.dumps(shares(here, two))) == {"given": 1}


def test_threads_and_real_time_share_too(tmp_path):
    """Two supervisors of one workspace, not inline: the second looks until the first has it."""
    from orchestrator import Supervisor

    digging = Digging(seconds=2.0)
    with synapse.init(str(tmp_path / "ws")) as mem, synapse.open(str(tmp_path / "ws")) as other:
        for name in ("eng-a", "eng-b"):
            mem.register(synapse.Agent(name))

        async def all_of_it(one, two):
            async with one, two:
                first = asyncio.create_task(one.spawn(Task("Look", "eng-a", "web")))
                while not digging.made:  # the first is at it
                    await asyncio.sleep(0.01)
                return await asyncio.gather(first, two.spawn(Task("Look too", "eng-b", "web")))

        options = {"tools": [digging.tool()], "memory_tools": "never"}
        play = Scripted(digs(pause=0.0))
        with (
            Supervisor(mem, engine=play, **options) as one,
            Supervisor(other, engine=play, **options) as two,
        ):
            found = asyncio.run(all_of_it(one, two))
            assert two.run_store.known(found[1].run).fields["shares"] == {"given": 1, "waited": 1}
    assert digging.made == [found[0].run]
    assert all(FOUND in result.text for result in found)
