"""What a person says to the agents at work: whom it reaches, how soon, and for how long."""

import json
import os

import pytest

import synapse
from orchestrator.plugin.hooks.answer import answer
from orchestrator.plugin.sessions import state
from orchestrator.plugin.wakes.watch import WokenEntries
from orchestrator.runs.files.lease import client_holder

WORDS = "Stop: the staging database is being moved"


def hook(office, session, name, client="claude-code", **fields):
    payload = {"hook_event_name": name, "session_id": session, **fields}
    payload["cwd"] = os.path.dirname(office.memory.store.root)
    text = answer(office.memory, client, payload, os.getpid())
    return json.loads(text) if text else {}


def context(given):
    return given.get("hookSpecificOutput", {}).get("additionalContext", "")


@pytest.fixture
def sessions(office):
    """Two sessions of a client: one in the middle of a turn, and one that waits."""
    for session in ("busy", "idle"):
        hook(office, session, "SessionStart", source="startup")
    hook(office, "busy", "UserPromptSubmit", prompt="Fix the parser")
    hook(office, "idle", "Stop", last_assistant_message="Hello.")
    return office


def tool(office, session):
    fields = {"tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_use_id": "1"}
    return context(hook(office, session, "PostToolUse", tool_response="ok", **fields))


def heard(done):
    return {one["agent"]: one["when"] for one in done.json["heard_by"]}


def test_it_reaches_every_session_at_its_next_event_once(sessions, run):
    done = run("say", WORDS, "--json")
    assert (done.code, done.err) == (0, "")
    assert heard(done) == {"lead": "at its next tool call", "lead-2": "at its next prompt"}
    assert WORDS in tool(sessions, "busy")
    assert WORDS not in tool(sessions, "busy")
    prompt = hook(sessions, "idle", "UserPromptSubmit", prompt="Go on")
    assert context(prompt).count(WORDS) == 1


def test_it_says_who_is_woken(sessions, run):
    folder = state.folder_of(sessions.memory.store.root)
    holder = client_holder(os.getpid())
    watcher = WokenEntries.lock(os.path.join(folder, f"{holder}.woken"))
    assert heard(run("say", WORDS, "--json"))["lead-2"] == "is woken"
    watcher.close()
    assert heard(run("say", WORDS, "--json"))["lead-2"] == "at its next prompt"


def test_it_reaches_the_runs_of_a_supervisor_and_not_those_that_are_over(office, run):
    office.begin("eng-a-1")
    office.begin("eng-b-1", "eng-b", holder="gone")
    office.end(office.begin("lead-1", "lead"), "lead")
    done = run("say", WORDS, "--json")
    assert heard(done) == {"eng-a": "in this turn"}
    assert done.json["at_next_start"] == ["cto", "eng-b", "lead"]


def test_it_says_so_in_words(office, run):
    office.begin("eng-a-1")
    done = run("say", WORDS)
    lines = done.out.splitlines()
    id = lines[0]
    assert [line.split(maxsplit=2) for line in lines[1:3]] == [
        ["agent", "with", "hears it"],
        ["eng-a", "scripted", "in this turn"],
    ]
    assert lines[3].startswith("at the next start, until ")
    assert lines[3].endswith(": cto, eng-b, lead")
    assert lines[4] == f"`synapse archive {id}` takes it back"
    entry = office.memory.as_agent("eng-b").get(id)
    assert (entry.author, entry.priority, entry.body) == ("operator", "critical", WORDS)
    assert entry.expires - entry.at == 86_400_000_000
    office.memory.as_agent("operator").archive(id)
    assert office.memory.as_agent("eng-b").read().entries == ()


def test_nobody_is_at_work(office, run):
    for number in range(20):
        office.memory.register(synapse.Agent(f"another-{number}"))
    done = run("say", WORDS)
    assert "nobody is at work now" in done.out
    assert "another-19" in done.out
    assert max(map(len, done.out.splitlines())) <= 80


@pytest.mark.parametrize("whom", ["eng-a", "team:backend", "backend", "eng-a-1", "eng-a-"])
def test_it_may_be_said_to_some(office, run, whom):
    office.begin("eng-a-1")
    office.begin("eng-b-1", "eng-b")
    done = run("say", WORDS, "--to", whom, "--json")
    assert heard(done) == {"eng-a": "in this turn"}
    assert done.json["at_next_start"] == []


def test_who_is_nobody(office, run):
    done = run("say", WORDS, "--to", "eng-c")
    assert (done.code, done.out) == (3, "")
    assert "there is no team and no agent eng-c" in done.err
    assert run("say").code == 64


def test_it_takes_standard_input(office, shell):
    done = shell("say", "-", "--json", stdin=f"{WORDS}\n")
    assert done.json["entry"]["body"] == WORDS


def test_what_is_secret_in_it_is_masked(office, run):
    done = run("say", "use ghp_" + "a1B2" * 9)
    assert "masked" in done.err
