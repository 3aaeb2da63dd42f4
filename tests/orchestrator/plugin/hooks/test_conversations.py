"""What a conversation has is its own: what an earlier one of the same agent was shown, it does not
know, nor what stood in its context before that was emptied.
"""

import os

import pytest

import synapse
from orchestrator.plugin.hooks.context import FLOOR
from orchestrator.plugin.sessions import state
from orchestrator.runs.records import Runs
from tests.orchestrator.plugin.conftest import Client, context
from tests.orchestrator.plugin.hooks.test_respond import runs, send, shown, write

DECIDED = [f"Decided, number {n}: pages use the nav of team {n}." for n in range(4)]


@pytest.fixture
def decided(memory):
    """Return the ids of a critical entry and of four decisions, by somebody else."""
    ids = [write(memory, "Call /v2/users, never /v1.").id]
    return ids + [write(memory, text, priority="important").id for text in DECIDED]


def start(client, source="startup"):
    given = client("SessionStart", source=source)
    return shown(context(given) + given["more"])


def test_each_of_three_sessions_in_a_row_is_told_what_was_decided(memory, decided):
    folder = os.path.dirname(memory.store.root)
    for name in ("s1", "s2", "s3"):
        client = Client(memory, folder, name)
        assert sorted(start(client)) == sorted(decided)
        client("SessionEnd", reason="exit")
    assert [run.agent for run in Runs(memory.store).all()] == ["lead"] * 3
    assert memory.as_agent("lead").unread() == 0, "marks of delivery stay"


def test_each_of_two_sub_agents_of_a_type_is_told_what_was_decided(client, decided):
    client("SessionStart", source="startup")
    for agent in ("a1", "a2"):
        given = client.spawn(agent, f"Look at page {agent}")
        assert {*decided} <= {*shown(context(given) + given["more"])}
        client("SubagentStop", agent, last_assistant_message="Looked.")


@pytest.mark.parametrize("how", ["a start", "a call"])
def test_a_sub_agent_that_goes_on_after_its_end_is_told_the_news_alone(
    client, memory, decided, how
):
    client("SessionStart", source="startup")
    given = client.spawn("a1", "Look at the nav")
    assert {*decided} <= {*shown(context(given) + given["more"])}
    client("SubagentStop", "a1", last_assistant_message="The nav has 2 teams.")
    later = write(memory, "The nav is frozen.", priority="critical").id
    if how == "a start":
        again = client("SubagentStart", "a1")
        told = context(again) + again["more"]
    else:
        told = context(client.tool("Read", {"file_path": "nav.py"}, "a1")[1])
    assert shown(told) == [later]
    assert "The nav has 2 teams." not in told
    assert client.tool("Read", {"file_path": "nav.py"}, "a1") == ({}, {})
    client("SubagentStop", "a1", last_assistant_message="It is frozen.")
    assert [run.state for run in Runs(memory.store).all() if run.parent] == ["ended"] * 2
    assert {*decided} <= {*shown(context(client.spawn("a2", "Look at the nav")))}


def test_what_is_addressed_to_an_agent_is_told_in_each_of_its_conversations(client, memory):
    memory.register(synapse.Agent("engineer", role="engineer"))
    id = write(memory, "Use tabs.", priority="important", to="agent:engineer").id
    client("SessionStart", source="startup")
    for agent in ("a1", "a2"):
        assert id in shown(context(client.spawn(agent, "Write a page")))
        client("SubagentStop", agent, last_assistant_message="Written.")


@pytest.mark.parametrize("source", ["clear", "compact"])
def test_an_emptied_conversation_is_told_all_of_it_again(client, decided, source):
    assert sorted(start(client)) == sorted(decided)
    assert start(client, "resume") == [], "its transcript has it"
    assert sorted(start(client, source)) == sorted(decided)
    assert client("UserPromptSubmit", prompt="Which nav has team 2?") == {}


def test_a_prompt_gives_what_its_words_find_and_does_not_repeat(client, memory):
    """Neither what the conversation was told nor what it wrote itself."""
    client("SessionStart", source="startup")
    told = write(memory, DECIDED[2], priority="important").id
    write(memory, "Lunch is at noon.", priority="important")
    own = memory.as_agent("lead", runs(memory)["lead"].id, 1)
    own.append("The nav of team 7 is dark.", "decisions/nav", priority="critical")
    ask = {"prompt": "Find the nav of team 2"}
    assert shown(context(client("UserPromptSubmit", **ask))) == [told]
    assert client("UserPromptSubmit", **ask) == {}
    assert client("UserPromptSubmit", prompt="The nav of team 7?") == {}


def test_what_a_conversation_wrote_before_it_was_emptied_is_told_to_it(client, memory):
    client("SessionStart", source="startup")
    own = memory.as_agent("lead", runs(memory)["lead"].id, 1)
    id = own.append("Use the dark nav.", "decisions/nav", priority="important").id
    assert start(client, "resume") == []
    assert start(client, "compact") == [id]
    assert start(client, "resume") == []
    assert start(client, "clear") == [id]


def test_a_resumed_conversation_has_what_it_wrote_itself(client, memory):
    client("SessionStart", source="startup")
    own = memory.as_agent("lead", runs(memory)["lead"].id, 1)
    own.append("Use the dark nav.", "decisions/nav", priority="important")
    client("SessionEnd", reason="exit")
    assert start(client, "resume") == []
    assert len(runs(memory)) == 1


def test_an_emptied_conversation_is_told_of_a_file_again(client, memory):
    client("SessionStart", source="startup")
    text = "api/users.py: the cache must be cleared by hand."
    write(memory, text, "decisions/notes", "info")
    read = ("Read", {"file_path": f"{client.folder}/api/users.py"})
    assert text in context(client.tool(*read)[0])
    assert client.tool(*read)[0] == {}
    start(client, "compact")
    assert text in context(client.tool(*read)[0])


def test_what_is_important_has_a_floor_at_a_start_whatever_it_saves(client, memory):
    """A long decision stands whole, and all of a good many that are shorter."""
    long = write(memory, "Decided. " + "It holds for each page. " * 60, priority="info")
    assert start(client) == [], "info that long would never save what it costs"
    ids = [
        write(memory, f"{n}: {'It holds for each page. ' * 16}", priority="important").id
        for n in range(3)
    ]
    longest = write(memory, long.body, priority="important").id
    other = Client(memory, client.folder, "s2")
    assert sorted(start(other)) == sorted([*ids, longest])
    for n in range(40):
        write(memory, f"More, {n}: {'It holds. ' * 24}", priority="important")
    given = Client(memory, client.folder, "s3")("SessionStart", source="startup")
    text = context(given) + given["more"]
    assert 0.5 * FLOOR * 4 < len(text) < 1.5 * FLOOR * 4
    assert "More, 39:" in text


def test_a_conversation_that_its_transcript_says_is_summarised_is_told_again(memory, tmp_path):
    """Gemini compresses in the middle of a turn, and tells of it in its chat alone."""
    path = tmp_path / "chat.jsonl"
    first = '{"$set":{"messages":[{"content":[{"text":"%s"}]}]}}\n'
    path.write_text(first % "This is the Gemini CLI.")
    ids = [write(memory, text, priority="important").id for text in DECIDED]

    def say(name, **fields):
        given = send(memory, name, "gemini", transcript=str(path), **fields)
        return sorted(shown(given.context))

    assert say("start", source="startup") == sorted(ids)
    assert say("prompt", prompt="Go on") == []
    for name, fields in (("after", {"tool": "run_shell_command"}), ("prompt", {})):
        with path.open("a") as file:
            file.write('{"id":"1","content":[{"text":"About a <state_snapshot>"}]}\n')
            file.write(first % "<state_snapshot>It was said.</state_snapshot>")
        assert say(name, **fields) == sorted(ids)
        assert say(name, **fields) == []
    say("end")
    assert say("start", source="resume") == []
    assert say("prompt", prompt="Go on") == [], "its summaries of before are known"


# -- An emptied conversation goes on under another id ----------------------------------


@pytest.mark.parametrize("told", ["before", "after"])
def test_an_emptied_conversation_keeps_its_agent_under_another_id(client, memory, told):
    """Claude Code tells of the end of the first while it begins the second, Codex later."""
    client("SessionStart", source="startup")
    client.spawn("a1", "Look at it")
    if told == "before":
        client("SessionEnd", reason="clear")
    other = Client(memory, client.folder, "s2")
    other("SessionStart", source="clear")
    assert sorted(runs(memory, state="running")) == ["lead"]
    if told == "after":
        client("SessionEnd", reason="clear")
    assert sorted(runs(memory, state="running")) == ["lead"]
    path = state.path_of(memory.store.root, "claude-code", "s2")
    assert state.load(path).workers[state.MAIN].agent == "lead"


def test_where_a_process_has_several_sessions_none_is_ended_for_another(client, memory):
    for name in ("s1", "s2"):
        Client(memory, client.folder, name)("SessionStart", source="startup")
    Client(memory, client.folder, "s3")("SessionStart", source="clear")
    assert sorted(runs(memory, state="running")) == ["lead", "lead-2", "lead-3"]


# -- A client's own agents ---------------------------------------------------------------


def test_a_sub_agent_that_never_began_leaves_nothing(client, memory):
    """Claude Code says so of the writer of its summaries, at each compaction."""
    client("SessionStart", source="startup")
    given = client(
        "SubagentStop",
        "a4361bd8209b8f026",
        agent_type="",
        last_assistant_message="<analysis>The user asked for more.</analysis>",
    )
    assert given == {}
    assert [run.agent for run in Runs(memory.store).all()] == ["lead"]
    assert not list(memory.as_agent("operator").read())


# -- What was done, and what is worked at ------------------------------------------------


ASKED = "Find out which limit the users endpoint has"
DONE = "The limit is 17 a minute."


def spawned(client, prompt):
    given, _ = client.tool("Agent", {"prompt": prompt, "subagent_type": "general-purpose"})
    return context(given)


def turn(client, prompt, message=None):
    """Have a session be asked something, do it, and report it."""
    client("UserPromptSubmit", prompt=prompt)
    client.tool("Edit", {"file_path": f"{client.folder}/a.py"})
    if message:
        client("Stop", last_assistant_message=message)


@pytest.mark.parametrize("then", [None, "Change the colour of the nav"])
def test_what_a_session_reported_is_done_and_its_result_is_named(client, memory, then):
    """Whatever it is asked next; that, it is at work on."""
    other = Client(memory, client.folder, "s2")
    turn(other, ASKED, DONE)
    if then:
        turn(other, then)
    client("SessionStart", source="startup")
    given = spawned(client, ASKED)
    assert "is at work" not in given
    assert given.count("has done the same") == 1
    assert DONE in given
    assert spawned(client, ASKED) == "", "it is said once"
    if then:
        assert "lead is at work on the same" in spawned(client, then)


def test_what_a_session_is_at_work_on_is_not_done(client, memory):
    other = Client(memory, client.folder, "s2")
    turn(other, "Change the colour of the nav", "It is red.")
    turn(other, ASKED)
    client("SessionStart", source="startup")
    assert "lead is at work on the same" in spawned(client, ASKED)
    other("Stop", last_assistant_message=DONE)
    assert "has done the same" in spawned(client, ASKED)


def test_what_a_session_talked_of_it_neither_did_nor_does(client, memory):
    other = Client(memory, client.folder, "s2")
    other("UserPromptSubmit", prompt=ASKED)
    other("Stop", last_assistant_message="Which endpoint?")
    client("SessionStart", source="startup")
    assert spawned(client, ASKED) == ""


def test_what_a_session_did_is_known_when_it_has_ended(client, memory):
    other = Client(memory, client.folder, "s2")
    turn(other, ASKED, DONE)
    other("SessionEnd", reason="exit")
    client("SessionStart", source="startup")
    assert "has done the same" in spawned(client, ASKED)


def test_a_blocked_turn_is_not_done(client, memory):
    other = Client(memory, client.folder, "s2")
    turn(other, ASKED, "Blocked: there is no such endpoint.")
    client("SessionStart", source="startup")
    assert "has done the same" not in spawned(client, ASKED)


def test_a_run_of_a_supervisor_is_at_work_by_its_own_record(client, memory):
    client("SessionStart", source="startup")
    client.spawn("a1", ASKED)
    os.unlink(state.path_of(memory.store.root, "claude-code", "s1"))
    other = Client(memory, client.folder, "s2")
    other("SessionStart", source="startup")
    assert "engineer is at work on the same" in spawned(other, ASKED)
