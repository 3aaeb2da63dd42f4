"""Gemini CLI's events as it sent them, its sub-agents that are calls, and what its chats say it
used.
"""

import json
import os
from pathlib import Path

import pytest

import synapse
from orchestrator.engines.protocol import Usage
from orchestrator.plugin import facts
from orchestrator.plugin.facts.event import NOTHING, Reply, read_event, reply_json
from orchestrator.plugin.hooks.answer import answer
from orchestrator.plugin.sessions.callers import agent_memory_of
from orchestrator.plugin.transcripts.transcript import child_transcript, spent
from orchestrator.runs.records import Runs
from synapse import Agent
from synapse.mcp.caller import Caller

SAMPLES = Path(__file__).parents[1] / "samples/gemini"
GEMINI = facts.load("gemini")
NAMES = sorted(path.stem for path in SAMPLES.glob("*.json"))


def sample(name, **fields):
    return {**json.loads((SAMPLES / f"{name}.json").read_text()), **fields}


@pytest.fixture
def memory(tmp_path):
    """A workspace with a critical entry that a lead and an engineer may read."""
    with synapse.init(str(tmp_path / "memory")) as memory:
        memory.register(Agent("cto", read=("*",), write=("*",)))
        memory.register(Agent("lead", role="project-lead", read=("*",), write=("*",)))
        memory.register(Agent("engineer", role="engineer", read=("*",), write=("*",)))
        memory.as_agent("cto").append(
            "Never push to main on a Friday.", "decisions/all", priority="critical"
        )
        yield memory


def told(memory, name, **fields):
    """What the client is told at an event, as an object."""
    text = answer(memory, "gemini", sample(name, **fields), os.getpid())
    return json.loads(text) if text else {}


def context(reply):
    return reply.get("hookSpecificOutput", {}).get("additionalContext", "")


def runs(memory):
    return {run["run"]: run for run in memory.store.index.current.runs(limit=20)}


@pytest.mark.parametrize("name", NAMES)
def test_every_event_that_is_listed_is_read(name):
    event = read_event(GEMINI, sample(name))
    listed = name.partition("-")[0] in GEMINI.events
    skipped = name == "BeforeAgent-again" and event is None
    assert (event is not None) == listed or skipped


def test_the_context_of_the_start_is_no_part_of_the_prompt():
    event = read_event(GEMINI, sample("BeforeAgent"))
    assert event.prompt == "do the work on a.txt"


def test_a_turn_that_we_asked_for_is_no_prompt():
    text = "This arrived while you worked. Go on unless it changes what you do"
    assert read_event(GEMINI, sample("BeforeAgent", prompt=text)) is None


def test_answers_have_the_forms_of_the_client():
    spawn = read_event(GEMINI, sample("BeforeTool-invoke_agent"))
    assert json.loads(reply_json(GEMINI, spawn, Reply(prompt="view and task"))) == {
        "hookSpecificOutput": {
            "hookEventName": "BeforeTool",
            "tool_input": {"agent_name": "generalist", "prompt": "view and task"},
        }
    }
    deny = json.loads(reply_json(GEMINI, spawn, Reply(deny="no")))
    assert deny == {"decision": "deny", "reason": "no"}
    stop = read_event(GEMINI, sample("AfterAgent"))
    assert json.loads(reply_json(GEMINI, stop, Reply(again="read"))) == {
        "decision": "deny",
        "reason": "read",
    }
    assert reply_json(GEMINI, stop, NOTHING) == ""


def test_a_subagent_begins_with_its_view_and_ends_with_its_call(memory):
    assert "Friday" in context(told(memory, "SessionStart"))
    spawn = told(memory, "BeforeTool-invoke_agent")
    given = spawn["hookSpecificOutput"]["tool_input"]
    assert given["agent_name"] == "generalist"
    assert "Friday" in given["prompt"]
    assert given["prompt"].endswith("look at a.txt")
    told(memory, "AfterTool-read_file")  # the sub-agent's
    told(memory, "AfterTool-invoke_agent", tool_input=given)
    by_agent = {run["agent"]: run for run in runs(memory).values()}
    child = by_agent["engineer"]
    assert (child["state"], child["status"], child["summary"]) == (
        "ended",
        "done",
        "child done: finding X",
    )
    assert by_agent["lead"]["state"] == "running"
    entry = memory.as_agent("lead").get(child["entry"])
    assert "finding X" in entry.body


def test_what_comes_in_a_call_is_told_to_the_subagent_that_makes_it(memory):
    told(memory, "SessionStart")
    given = told(memory, "BeforeTool-invoke_agent")["hookSpecificOutput"]["tool_input"]
    memory.as_agent("cto").append(
        "Stop using v1.", "decisions/all", priority="critical", to=("agent:engineer",)
    )
    assert "Stop using v1." in context(told(memory, "AfterTool-read_file"))
    assert "Stop using v1." not in context(told(memory, "AfterTool-invoke_agent", tool_input=given))


def test_while_several_are_at_work_nobody_is_told_in_the_place_of_another(memory):
    told(memory, "SessionStart")
    first = told(memory, "BeforeTool-invoke_agent")["hookSpecificOutput"]["tool_input"]
    asked = {"agent_name": "generalist", "prompt": "look at b.txt"}
    second = told(memory, "BeforeTool-invoke_agent", tool_input=asked)["hookSpecificOutput"][
        "tool_input"
    ]
    memory.as_agent("cto").append("Stop using v1.", "decisions/all", priority="critical")
    assert told(memory, "AfterTool-read_file") == {}
    assert "Stop using v1." in context(told(memory, "AfterTool-invoke_agent", tool_input=first))
    told(memory, "AfterTool-invoke_agent", tool_input=second)
    ended = [run for run in runs(memory).values() if run["agent"].startswith("engineer")]
    assert [run["status"] for run in ended] == ["done", "done"]
    assert {run["agent"] for run in ended} == {"engineer", "engineer-2"}


def test_a_subagent_s_memory_tools_never_act_as_the_lead(memory):
    told(memory, "SessionStart")
    agent_memories = [agent_memory_of(memory, "gemini", Caller(), os.getpid()).id]
    given = told(memory, "BeforeTool-invoke_agent")["hookSpecificOutput"]["tool_input"]
    agent_memories.append(agent_memory_of(memory, "gemini", Caller(), os.getpid()).id)
    asked = {"agent_name": "generalist", "prompt": "look at b.txt"}
    more = told(memory, "BeforeTool-invoke_agent", tool_input=asked)["hookSpecificOutput"][
        "tool_input"
    ]
    agent_memories.append(agent_memory_of(memory, "gemini", Caller(), os.getpid()).id)
    for ended in (given, more):
        told(memory, "AfterTool-invoke_agent", tool_input=ended)
    agent_memories.append(agent_memory_of(memory, "gemini", Caller(), os.getpid()).id)
    assert [agent_memory.partition("-")[0] for agent_memory in agent_memories] == [
        "lead",
        "engineer",
        "engineer",
        "lead",
    ]


def test_a_subagent_that_ran_out_of_turns_has_not_done_its_task(memory):
    told(memory, "SessionStart")
    given = told(memory, "BeforeTool-invoke_agent")["hookSpecificOutput"]["tool_input"]
    text = (
        "Subagent 'generalist' finished.\nTermination Reason: MAX_TURNS\nResult:\nAgent"
        " reached max turns limit."
    )
    told(
        memory,
        "AfterTool-invoke_agent",
        tool_input=given,
        tool_response={"llmContent": [{"text": text}]},
    )
    child = next(run for run in runs(memory).values() if run["agent"] == "engineer")
    assert (child["state"], child["status"]) == ("ended", "stopped")


def test_a_call_that_never_ends_ends_with_the_turn(memory):
    told(memory, "SessionStart")
    told(memory, "BeforeTool-invoke_agent")
    told(memory, "AfterAgent")
    child = next(run for run in runs(memory).values() if run["agent"] == "engineer")
    assert (child["state"], child["status"]) == ("ended", "stopped")
    assert Runs(memory.store).get(child["run"]) is not None


def test_what_concerns_a_file_waits_for_the_result_of_its_call(memory):
    told(memory, "SessionStart")
    memory.as_agent("cto").append("src/tariff.py rounds half up, by contract.", "projects/memory")
    read = {"file_path": "src/tariff.py"}
    assert told(memory, "BeforeTool-read_file", tool_input=read) == {}
    assert "rounds half up" in context(told(memory, "AfterTool-read_file", tool_input=read))


def test_the_first_event_of_a_session_without_a_start_gives_the_view(memory):
    assert "Friday" in context(told(memory, "BeforeAgent-acp"))


def test_usage_counts_each_reply_once():
    assert spent("gemini", str(SAMPLES / "subagent.jsonl")) == (
        Usage(28807, 33, 28416),
        3,
        "gemini-2.5-flash",
    )
    main = spent("gemini", str(SAMPLES / "session.jsonl"))
    assert (main.turns, main.model) == (8, "gemini-2.5-flash")
    assert main.usage.input_tokens > main.usage.cached_tokens > 0


def test_a_transcript_that_is_none_is_nothing(tmp_path):
    broken = tmp_path / "broken.jsonl"
    broken.write_text('{"type": "gemini", "id": 1, "tokens": 7}\n{"type": "gem')
    assert spent("gemini", str(broken)) is None
    assert spent("gemini", str(tmp_path / "missing.jsonl")) is None
    assert spent("gemini", None) is None


def test_a_subagents_transcript_is_known_by_its_prompt(tmp_path):
    parent = tmp_path / "session-1.jsonl"
    parent.write_text('{"sessionId": "s-1", "kind": "main"}\n')
    (tmp_path / "s-1").mkdir()
    (tmp_path / "s-1" / "other.jsonl").write_text(
        '{"id": "1", "type": "user", "content": [{"text": "else"}]}\n'
    )
    (tmp_path / "s-1" / "child.jsonl").write_text((SAMPLES / "subagent.jsonl").read_text())
    found = child_transcript("gemini", str(parent), "CHILD view <b>\n\nsecond child look")
    assert found == str(tmp_path / "s-1" / "child.jsonl")
    assert child_transcript("gemini", str(parent), "something else") is None
