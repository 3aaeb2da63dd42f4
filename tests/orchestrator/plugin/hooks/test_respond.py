"""What a client's conversations are given, and what they leave: the policy, on Claude Code's form
of events.
"""

import errno
import json
import os
import re
import subprocess
import threading

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import given as given_by
from hypothesis import strategies as st

import synapse
from orchestrator.plugin.facts import load
from orchestrator.plugin.facts.event import NOTHING, Event
from orchestrator.plugin.hooks.answer import answer
from orchestrator.plugin.hooks.context import RECALLED, Context
from orchestrator.plugin.hooks.respond import respond
from orchestrator.plugin.sessions import state
from orchestrator.plugin.sessions.runs import ClientRuns
from orchestrator.plugin.sessions.sweep import sweep
from orchestrator.prompts.templates import BrokenTemplate
from orchestrator.runs.records import Runs
from synapse.model.entry import SECOND
from synapse.system import lock
from tests.orchestrator.plugin.conftest import Client, context, denied

ID = re.compile(r"syn-\d{4}-\d\d-\d\d-\d{3,}")
CAP = 10_000
ROOM = 3_000  # characters of what is critical that any start has room for


def shown(text):
    """Return the ids of the entries that stand in a text whole."""
    lines = text.splitlines()
    return [
        ID.search(line)[0]
        for line in lines
        if line.startswith("- ") and ", authority " in line and " > " not in line
    ]


def runs(memory, **wanted):
    return {run.agent: run for run in Runs(memory.store).all(**wanted)}


def write(memory, text, where="decisions/api", priority="critical", by="boss", **more):
    return memory.as_agent(by).append(text, where, priority=priority, **more)


# -- who is who ------------------------------------------------------------------------------------


def test_a_session_and_its_sub_agents_are_runs(client, memory):
    client("SessionStart", source="startup")
    client.spawn("a1", "Fix the parser")
    client.spawn("a2", "Write the docs")
    found = runs(memory, state="running")
    assert sorted(found) == ["engineer", "engineer-2", "lead"]
    assert found["engineer"].parent == found["engineer-2"].parent == found["lead"].id
    assert (found["engineer"].task.text, found["engineer-2"].task.text) == (
        "Fix the parser",
        "Write the docs",
    )
    assert {run.project for run in found.values()} == {"shop"}


def test_a_session_is_called_by_what_it_is_first_asked(client, memory):
    client("SessionStart", source="startup")
    for prompt in ("Fix the parser", "And the lexer"):
        client("UserPromptSubmit", prompt=prompt)
    run = runs(memory)["lead"]
    assert (run.task.text, run.running, run.epoch) == ("Fix the parser", True, 1)
    client("SessionEnd", reason="exit")
    assert runs(memory)["lead"].task.text == "Fix the parser"


def test_a_name_is_free_again_when_its_conversation_has_ended(client, memory):
    client("SessionStart", source="startup")
    for agent in ("a1", "a2", "a3"):
        client.spawn(agent, f"Task of {agent}")
        client("SubagentStop", agent, last_assistant_message="It is done.")
    assert sorted({agent.id for agent in memory.agents()}) == ["boss", "engineer", "lead"]


def test_a_type_is_the_agent_of_its_name_or_the_one_that_is_named(client, memory):
    memory.register(synapse.Agent("reviewer", role="engineer"))
    memory.register(synapse.Agent("scout", role="specialist"))
    path = os.path.join(memory.store.root, "synapse.yaml")
    with open(path, "a", encoding="utf-8") as file:
        file.write("clients:\n  agents: {Explore: scout}\n  project: web\n")
    memory.store.refresh(whole=True)
    client("SessionStart", source="startup")
    client.spawn("a1", "Look at it", "plugin:reviewer")
    client.spawn("a2", "Find it", "Explore")
    found = runs(memory, state="running")
    assert sorted(found) == ["lead", "reviewer", "scout"]
    assert found["scout"].project == "web"


@pytest.mark.parametrize("type", ["boss", "lead", "lead-2"])
def test_a_type_alone_gives_no_authority_of_a_lead(client, memory, type):
    Client(memory, client.folder, "other")("SessionStart", source="startup")
    client("SessionStart", source="startup")
    client.spawn("a1", "Look at it", type)
    assert sorted(runs(memory, state="running")) == ["engineer", "lead", "lead-2"]


@pytest.mark.parametrize("name", ["nobody", "operator", "Not A Name"])
def test_the_environment_makes_no_agents(client, memory, name):
    payload = {
        "hook_event_name": "SessionStart",
        "session_id": "s1",
        "cwd": client.folder,
        "source": "startup",
    }
    answer(memory, "claude-code", payload, os.getpid(), name)
    assert sorted(agent.id for agent in memory.agents()) == ["boss", "lead"]
    assert list(runs(memory, state="running")) == ["lead"]


def test_a_fault_behind_a_beginning_begins_nobody_again(client, memory):
    write(memory, "Call /v2/users.", "decisions/x")
    folder = os.path.join(memory.store.root, "prompts")
    os.mkdir(folder)
    path = os.path.join(folder, "client.md.j2")
    with open(path, "w", encoding="utf-8") as file:
        file.write("{{ nothing }}")
    for _ in range(3):
        with pytest.raises(BrokenTemplate):
            client("UserPromptSubmit", prompt="What is up?")
        with pytest.raises(BrokenTemplate):
            client("SubagentStart", "a1")
    os.unlink(path)
    client("UserPromptSubmit", prompt="What is up?")
    client("PostToolUse", "a1", tool_name="Bash", tool_input={}, tool_response="x")
    assert sorted(agent.id for agent in memory.agents()) == ["boss", "engineer", "lead"]
    assert sorted(run.agent for run in Runs(memory.store).all()) == ["engineer", "lead"]


def test_a_session_whose_file_was_lost_leaves_no_run_behind(client, memory):
    process = subprocess.Popen(["sleep", "60"])
    payload = {
        "hook_event_name": "SessionStart",
        "session_id": "s1",
        "cwd": client.folder,
        "source": "startup",
    }
    answer(memory, "claude-code", payload, process.pid)
    os.unlink(state.path_of(memory.store.root, "claude-code", "s1"))
    assert sweep(memory) == []
    process.kill()
    process.wait()
    assert len(sweep(memory)) == 1
    assert {run.status for run in Runs(memory.store).all()} == {"stopped"}


def test_what_is_kept_of_a_session_stays_small(client, memory):
    client("SessionStart", source="startup")
    path = state.path_of(memory.store.root, "claude-code", "s1")
    client.before("Agent", {"prompt": "Do it. " * 100_000, "subagent_type": "general-purpose"})
    client("SubagentStart", "long")
    assert os.path.getsize(path) < 20_000
    for n in range(state.ENDED + 20):
        client("SubagentStart", f"a{n}")
        client.tool("Read", {"file_path": f"{client.folder}/{n}.py"}, f"a{n}")
        client("SubagentStop", f"a{n}", last_assistant_message=f"Done {n}.")
    assert len(state.load(path).workers) <= state.ENDED + 2
    ended = vars(state.load(path).workers[f"a{state.ENDED}"])
    assert not any(ended[name] for name in ("files", "changes", "told", "marks", "about"))
    assert sorted(runs(memory, state="running")) == ["engineer", "lead"]


def test_two_sessions_are_two_leads(memory):
    folder = os.path.dirname(memory.store.root)
    for name in ("s1", "s2"):
        Client(memory, folder, name)("SessionStart", source="startup")
    assert sorted(runs(memory, state="running")) == ["lead", "lead-2"]


@pytest.mark.parametrize("how", ["dead", "silent"])
def test_a_client_that_is_gone_leaves_no_run_behind(client, memory, how):
    client("SessionStart", source="startup")
    client.spawn("a1", "Fix the parser")
    path = state.path_of(memory.store.root, "claude-code", "s1")
    with open(path, encoding="utf-8") as file:
        known = json.load(file)
    assert sweep(memory) == []
    known["holder"] = "client-999999999-1" if how == "dead" else known["holder"]
    known["fired"] = {"SessionStart": 1.0} if how == "silent" else known["fired"]
    with open(path, "w", encoding="utf-8") as file:
        json.dump(known, file)
    assert len(sweep(memory)) == 2
    assert {run.status for run in Runs(memory.store).all()} == {"stopped"}


# -- what is given ---------------------------------------------------------------------------------


def test_a_session_begins_with_what_is_critical(client, memory):
    id = write(memory, "Call /v2/users, never /v1.").id
    assert shown(context(client("SessionStart", source="startup"))) == [id]


def test_a_conversation_whose_start_nobody_heard_of_is_given_its_view_at_its_next_call(
    client, memory
):
    id = write(memory, "Call /v2/users, never /v1.").id
    for agent in (None, "a1"):
        assert shown(context(client.tool("Bash", {"command": "ls"}, agent)[1])) == [id]
        assert client.tool("Bash", {"command": "ls"}, agent)[1] == {}


def test_an_empty_memory_adds_nothing(client):
    assert client("SessionStart", source="startup") == {"more": ""}
    assert client("UserPromptSubmit", prompt="Fix the parser") == {}
    assert client.spawn("a1", "Fix the parser") == {"more": ""}
    assert client.tool("Bash", {"command": "ls"}) == ({}, {})
    assert client("Stop", last_assistant_message="Hello.") == {}


def test_a_sub_agent_is_given_what_its_task_names(client, memory):
    for n in range(30):
        write(
            memory, f"Module m{n}.py has a limit of {n * 7} requests.", "decisions/limits", "info"
        )
    client("SessionStart", source="startup")
    assert "limit of 119 requests" in context(client.spawn("a1", "Mend the limit of module m17.py"))


def test_a_prompt_finds_by_its_words_and_gives_nothing_twice(client, memory):
    write(memory, "The parser of invoices wants UTF-16, not UTF-8.", "decisions/parser", "info")
    client("SessionStart", source="startup")
    first = context(client("UserPromptSubmit", prompt="Mend the parser of invoices"))
    assert "UTF-16" in first
    assert client("UserPromptSubmit", prompt="Mend the parser of invoices") == {}


@pytest.mark.parametrize("prompt", ["yes, thanks", "Looks good, go ahead.", "ok", ""])
def test_a_prompt_that_asks_nothing_is_given_nothing(client, memory, prompt):
    """Whatever else the memory has that its conversation was not given."""
    client("SessionStart", source="startup")
    for n in range(40):
        write(memory, f"Rule {n} is about invoices.", "decisions/invoices", "important")
    assert client("UserPromptSubmit", prompt=prompt) == {}


def test_a_prompt_is_given_a_few_entries_without_what_the_start_said(client, memory):
    """In a frame that is shorter than one entry."""
    entries = [
        write(memory, f"Uploads of images {text}.", "decisions/web", "info").id
        for text in (
            "end behind the proxy above 10 MB: its body size is the limit",
            "are made smaller by the worker",
            "are scanned for viruses before anybody sees them",
            "that are older than a year are deleted",
        )
    ]
    for n in range(60):
        text = f"Decision {n} is about colours and fonts."
        write(memory, text, "decisions/web", "info")
    client("SessionStart", source="startup")
    given = client("UserPromptSubmit", prompt="Why do uploads of large images fail?")
    text = context(given)
    assert len(shown(text)) == RECALLED
    assert set(shown(text)) < set(entries)
    for frame in ("You are", "## ", "Left out"):
        assert frame not in text
    blocks = [line for line in text.splitlines() if line.startswith(("- ", "  > "))]
    assert len(text) - len("\n".join(blocks)) < 130


def test_what_is_critical_and_had_no_room_at_the_start_comes_with_the_prompts(client, memory):
    ids = {write(memory, f"Rule {n}: " + "word " * 200).id for n in range(20)}
    client("SessionStart", source="startup")
    got = set(shown(str(client.answers[-1][2]["more"])))
    got |= set(shown(context(client.answers[-1][2])))
    assert got < ids
    for _ in range(20):
        got |= set(shown(context(client("UserPromptSubmit", prompt="go on"))))
    assert got == ids


def test_news_that_shares_the_words_of_a_prompt_reaches_its_conversation(client, memory):
    """In other words than the prompt's, addressed to nobody, and below critical."""
    for n in range(30):
        write(memory, f"Decision {n} is about colours.", "decisions/web", "info")
    client("SessionStart", source="startup")
    client("UserPromptSubmit", prompt="Refactor the invoice export in src/export.py to stream rows")
    told = write(
        memory,
        "The invoice export in src/export.py must keep the column order.",
        "decisions/web",
        "important",
    ).id
    write(memory, "The header has another colour now.", "decisions/web", "important")
    assert shown(context(client.tool("Bash", {"command": "ls"})[1])) == [told]


def test_news_reaches_a_conversation_in_mid_turn_once(client, memory):
    client("SessionStart", source="startup")
    client.spawn("a1", "Fix the parser")
    id = write(memory, "The users table is frozen.").id
    for agent in (None, "a1"):
        assert shown(context(client.tool("Bash", {"command": "ls"}, agent)[1])) == [id]
        assert client.tool("Bash", {"command": "ls"}, agent)[1] == {}


def test_what_a_tool_has_just_shown_is_no_news(client, memory):
    client("SessionStart", source="startup")
    write(memory, "The users table is frozen.")
    _, after = client.tool(
        "Bash", {"command": "synapse read"}, result={"stdout": "> The users table is frozen."}
    )
    assert after == {}


def test_what_a_person_writes_in_its_name_reaches_its_conversation_once(client, memory):
    client("SessionStart", source="startup")
    client("UserPromptSubmit", prompt="Fix the parser")
    client.spawn("a1", "Write the docs")
    write(memory, "Stop at once.", "status/shop", by="lead")
    assert context(client.tool("Bash", {"command": "ls"})[1]).count("Stop at once.") == 1
    assert "Stop at once." not in context(client.tool("Bash", {"command": "ls"})[1])
    client.tool("Bash", {"command": "ls"}, agent="a1")
    write(memory, "And the docs too.", "status/shop", by="engineer")
    told = context(client.tool("Bash", {"command": "ls"}, agent="a1")[1])
    assert told.count("And the docs too.") == 1


@pytest.mark.parametrize("prints", [True, False])
def test_what_it_writes_in_its_own_shell_is_not_told_to_it(client, memory, prints):
    client("SessionStart", source="startup")
    client("UserPromptSubmit", prompt="Fix the parser")
    client.spawn("a1", "Write the docs")
    command = "synapse write --from lead --namespace status/shop --priority critical 'Mind it.'"
    _, call = client.before("Bash", {"command": command})
    entry = write(memory, "Mind it.", "status/shop", by="lead")
    fields = {"tool_name": "Bash", "tool_use_id": call}
    fields |= {"tool_input": {"command": "sh note.sh" if prints else command}}
    result = f"{entry.id}\n" if prints else ""
    assert context(client("PostToolUse", tool_response=result, **fields)) == ""
    assert context(client.tool("Bash", {"command": "ls"})[1]) == ""
    told = context(client.tool("Bash", {"command": "ls"}, agent="a1")[1])
    assert told.count("Mind it.") == 1, "others are told"


def test_what_a_sub_agent_leaves_is_told_by_its_client_alone(client, memory):
    client("SessionStart", source="startup")
    client.spawn("a1", "Fix the parser")
    client("SubagentStop", "a1", last_assistant_message="Blocked: no key for the registry")
    assert client.tool("Bash", {"command": "ls"})[1] == {}
    other = Client(memory, client.folder, "s2")
    assert "no key for the registry" in context(other("SessionStart", source="startup"))


def test_after_its_context_was_compacted_a_session_is_given_its_view_again(client, memory):
    id = write(memory, "Call /v2/users, never /v1.").id
    assert shown(context(client("SessionStart", source="startup"))) == [id]
    assert shown(context(client("SessionStart", source="resume"))) == []
    assert shown(context(client("SessionStart", source="compact"))) == [id]


def test_a_start_is_divided_over_the_hooks_there_are_and_ends_with_pointers(client, memory):
    ids = {write(memory, f"Rule {n}: " + "word " * 150).id for n in range(12)}
    client("SessionStart", source="startup")
    path = state.path_of(memory.store.root, "claude-code", "s1")
    context = Context(ClientRuns(memory, state.load(path)))
    agent, agent_memory = memory.store.agents.all()["lead"], memory.as_agent("lead")
    for cap, parts in ((2_500, 1), (2_500, 2), (1_000, 2), (9_000, 1)):
        made = context.opening(agent, agent_memory, "", cap, (), parts)
        assert all(len(part) <= cap for part in made.parts)
        assert len(made.parts) <= parts
        for part in made.parts:
            fence = re.search(r"<(memory-[0-9a-f]+)>", part)[1]
            assert part.count(f"<{fence}>") == part.count(f"</{fence}>") == 1
        whole = [id for part in made.parts for id in shown(part)]
        assert len(whole) == len(set(whole))
        assert set(whole) == set(made.view.shown) <= ids
    assert client.answers[0][2]["more"] == ""


@pytest.mark.parametrize("when", ["before", "after"])
def test_an_entry_that_no_client_takes_whole_comes_as_a_pointer(client, memory, when):
    def huge(n):
        return write(memory, f"Rule {n} of m{n}.py: " + "word " * 6_000).id

    ids = [huge(n) for n in range(3)] if when == "before" else []
    texts = [context(client("SessionStart", source="startup"))]
    ids += [huge(n) for n in range(3, 6)] if when == "after" else []
    for n in range(6):
        texts += map(context, client.tool("Read", {"file_path": f"{client.folder}/m{n}.py"}))
    assert max(map(len, texts)) <= CAP
    told = [sum(f"`synapse read {id}`" in text for text in texts) for id in ids]
    # at the start, and beside the file that it names
    assert told == ([1] * 3 if when == "after" else [2] * 3)


# -- the look before a call ------------------------------------------------------------------------


def test_what_is_for_a_moment_holds_the_call_once(client, memory):
    client("SessionStart", source="startup")
    write(memory, "Ask ops before a push.", "decisions/git", "important", when="run git push")
    assert "Ask ops" in denied(client.before("Bash", {"command": "git push origin"})[0])
    assert client.before("Bash", {"command": "git push origin"})[0] == {}
    assert client.before("Read", {"file_path": "git push"})[0] == {}


FETCH = ("WebFetch", {"url": "https://docs.example.com/limits", "prompt": "limit?"})
LOOK = ("WebSearch", {"query": "the limit of the shop's api"})


@pytest.mark.parametrize("call", [FETCH, LOOK])
def test_what_another_got_from_the_same_call_is_told_beside_it(client, memory, call):
    client("SessionStart", source="startup")
    for agent in ("a1", "a2", "a3"):
        client.spawn(agent, f"Find the limit for {agent}")
    assert client.tool(*call, "a1", result={"result": "It is 17 a minute."}) == ({}, {})
    assert client.before(*call, "a1")[0] == {}, "one's own is no news"
    given, _ = client.before(*call, "a2")
    assert denied(given) == ""
    assert "engineer made this call 0 s ago.\n" in context(given)
    assert "17 a minute" in context(given)
    assert client.before(*call, "a2")[0] == {}
    now = memory.store.clock()
    memory.store.clock = lambda: now + 11 * 60 * SECOND
    assert client.before(*call, "a3")[0] == {}, "it may have changed"


@pytest.mark.parametrize(
    "url",
    [
        "http://localhost:3000/",
        "http://127.0.0.1/health",
        "http://[::1]:8080/",
        "http://10.0.0.7/status",
        "http://192.168.1.4/",
        "http://172.20.1.1/",
        "http://169.254.1.1/",
        "http://docs/limits",
        "http://shop.local/",
        "https://ci.corp/builds/7",
        "http://user@localhost/",
        "http://127.1/",
    ],
)
def test_of_private_hosts_nothing_is_kept_nor_told(client, memory, url):
    client("SessionStart", source="startup")
    for agent in ("a1", "a2"):
        client.spawn(agent, f"Look for {agent}")
    call = ("WebFetch", {"url": url, "prompt": "Does the page render?"})
    client.tool(*call, "a1", result={"result": "Error 500."})
    assert client.before(*call, "a2")[0] == {}
    assert len(memory.as_agent("boss").read(limit=None)) == 0


@pytest.mark.parametrize("by", ["boss", "lead"])
def test_what_names_a_file_is_told_beside_its_reading(client, memory, by):
    """Also what a person wrote in the session's own name."""
    client("SessionStart", source="startup")
    write(memory, "api/users.py: the cache must be cleared by hand.", "decisions/notes", "info", by)
    read = ("Read", {"file_path": f"{client.folder}/api/users.py"})
    assert "cleared by hand" in context(client.tool(*read)[0])
    assert client.tool(*read)[0] == {}


def test_a_spawn_of_work_that_is_done_is_told_so(client):
    client("SessionStart", source="startup")
    asked = "Find out which limit the users endpoint has"
    client.spawn("a1", asked)
    client("SubagentStop", "a1", last_assistant_message="The limit is 17 a minute.")
    given, _ = client.tool("Agent", {"prompt": asked, "subagent_type": "general-purpose"})
    assert "has done the same" in context(given)
    assert "17 a minute" in context(given)
    before, tag, _ = context(given).partition("<memory")
    assert tag
    assert "17 a minute" not in before  # what others wrote stands in its fence


def test_a_stopped_session_makes_no_more_calls(client, memory):
    client("SessionStart", source="startup")
    Runs(memory.store).stop(runs(memory)["lead"].id, "operator", "wrong branch")
    given, _ = client.before("Bash", {"command": "ls"})
    assert given["continue"] is False
    assert "wrong branch" in given["stopReason"]
    client("SessionEnd", reason="other")
    ended = runs(memory)["lead"]
    assert (ended.status, ended.fields["why"]) == ("stopped", "wrong branch")


# -- what is left ----------------------------------------------------------------------------------


def test_a_sub_agent_leaves_its_completion_or_its_blocker(client, memory):
    client("SessionStart", source="startup")
    client.spawn("a1", "Fix the parser")
    client.spawn("a2", "Publish it")
    client("SubagentStop", "a1", last_assistant_message="The parser reads UTF-16 now.")
    client("SubagentStop", "a2", last_assistant_message="Blocked: no key for the registry")
    found = runs(memory)
    assert (found["engineer"].status, found["engineer-2"].status) == ("done", "blocked")
    bodies = {entry.namespace: entry.body for entry in memory.as_agent("operator").read()}
    assert "The parser reads UTF-16 now." in bodies["status/shop"]
    assert "no key for the registry" in bodies["blockers/shop"]


def test_a_report_that_is_a_list_is_written_whole(client, memory):
    client("SessionStart", source="startup")
    client.spawn("a1", "Find the limits")
    report = "Done: what I found.\n\n## Limits\n\n- users: 17 a minute\n- orders: 5 a second\n"
    client("SubagentStop", "a1", last_assistant_message=report)
    body = memory.as_agent("operator").read(namespace="status/shop")[0].body
    assert body == "Done: what I found. - users: 17 a minute - orders: 5 a second"


def test_usage_is_read_once_the_last_message_is_written_down(client, memory, tmp_path):
    """The client says that a sub-agent ends before its transcript has the last reply."""
    path = tmp_path / "agent.jsonl"

    def reply(id, text):
        message = {
            "id": id,
            "model": "claude-sonnet-4-5",
            "content": [{"type": "text", "text": text}],
        }
        usage = {"input_tokens": 100, "output_tokens": 10}
        return json.dumps({"type": "assistant", "message": message | {"usage": usage}}) + "\n"

    path.write_text(reply("m1", "I look."))
    client("SessionStart", source="startup")
    client.spawn("a1", "Find the limits")
    late = threading.Timer(
        0.1, lambda: path.write_text(reply("m1", "I look.") + reply("m2", "It is 17."))
    )
    late.start()
    client(
        "SubagentStop", "a1", last_assistant_message="It is 17.", agent_transcript_path=str(path)
    )
    late.join()
    assert runs(memory)["engineer"].fields["usage"]["input_tokens"] == 200


def test_a_turn_that_did_something_is_written_and_talk_is_not(client, memory):
    client("SessionStart", source="startup")
    client("UserPromptSubmit", prompt="Hello")
    client("Stop", last_assistant_message="Hello to you.")
    assert not list(memory.as_agent("operator").read())
    for n in (1, 2):
        client("UserPromptSubmit", prompt=f"Change {n}")
        client.tool("Edit", {"file_path": f"{client.folder}/a.py"})
        client("Stop", last_assistant_message=f"Change {n} is made.")
    assert [entry.body for entry in memory.as_agent("operator").read()] == [
        "Done: Change 2 is made.",
        "Done: Change 1 is made.",
    ]
    client("SessionEnd", reason="exit")
    assert runs(memory)["lead"].status == "done"


def test_a_session_that_is_resumed_counts_its_earlier_turns_once(client, memory, tmp_path):
    path = tmp_path / "session.jsonl"
    path.write_text(reply("m1", 100))
    client("SessionStart", source="startup", transcript_path=str(tmp_path / "none.jsonl"))
    client("UserPromptSubmit", prompt="Begin", transcript_path=str(path))
    client("SessionEnd", reason="exit")
    client("SessionStart", source="resume", transcript_path=str(path))
    path.write_text(reply("m1", 100) + reply("m2", 30))
    client("SessionEnd", reason="exit")
    resumed = max(Runs(memory.store).all(), key=lambda run: run.fields["seq"])
    assert (resumed.fields["usage"]["input_tokens"], resumed.fields["turns"]) == (30, 1)


def reply(id, tokens):
    """Return the line of a transcript that has one reply of the model."""
    message = {
        "id": id,
        "model": "claude-sonnet-4-5",
        "usage": {"input_tokens": tokens, "output_tokens": 1},
    }
    return json.dumps({"type": "assistant", "message": message}) + "\n"


def test_who_would_end_hears_what_is_critical_first_and_once(client, memory):
    client("SessionStart", source="startup")
    client.spawn("a1", "Fix the parser")
    write(memory, "Do not touch the parser.")
    given = client("SubagentStop", "a1", last_assistant_message="Done.")
    assert "Do not touch" in context(given)
    write(memory, "Not the lexer either.")
    assert client("SubagentStop", "a1", last_assistant_message="Done.", stop_hook_active=True) == {}
    assert runs(memory)["engineer"].status == "done"


# -- event by event --------------------------------------------------------------------------------


def send(memory, name, client="openclaw", **fields):
    """Return the reply to an event that a client sent in our own words."""
    facts = load(client)
    hook = next(hook for hook, its in facts.events.items() if its.name in (name, fields.get("as_")))
    fields.pop("as_", None)
    event = Event(client, name, hook, "s1", pid=os.getpid(), **fields)
    return respond(memory, facts, event)[0]


def known(memory, client="openclaw"):
    return state.load(state.path_of(memory.store.root, client, "s1"))


def written(memory):
    """Return the bodies that were written, but those of the boss, the oldest first."""
    entries = memory.as_agent("operator").read()
    return [entry.body for entry in entries if entry.author != "boss"][::-1]


@pytest.fixture
def barred(memory, monkeypatch):
    """Return a look at the workspace by somebody who may not write there."""

    def refused(path, *flags):
        raise OSError(errno.EROFS, "Read-only file system", path)

    def opened():
        root = memory.store.root
        memory.close()
        monkeypatch.setattr(lock, "Lock", refused)
        return synapse.open(root)

    return opened


def test_who_may_not_write_is_given_the_view_and_leaves_nothing(memory, barred):
    memory.register(synapse.Agent("lead", role="project-lead"))
    id = write(memory, "Call /v2/users, never /v1.").id
    root = memory.store.root
    with barred() as reading:
        assert reading.store.readonly
        assert shown(send(reading, "start").context) == [id]
        assert shown(send(reading, "start").context) == [id], "nothing is remembered"
        assert send(reading, "agent-start", agent="a1") == NOTHING, "no such agent"
        for name in ("prompt", "before", "after", "agent-stop", "stop", "end"):
            assert send(reading, name, prompt="/v2/users", agent=None) == NOTHING
        assert runs(reading) == {}
        assert not os.path.exists(state.path_of(root, "openclaw", "s1"))


def test_who_may_not_write_is_given_what_its_own_agent_sees(memory, barred):
    memory.register(synapse.Agent("lead", role="project-lead"))
    memory.register(synapse.Agent("scout", role="specialist"))
    memory.register(synapse.Agent("engineer", role="engineer"))
    ids = {
        agent: write(memory, f"For {agent}.", to=f"agent:{agent}").id
        for agent in ("lead", "scout", "engineer")
    }
    with barred() as reading:
        assert shown(send(reading, "start", type="scout").context) == [ids["lead"]]
        for type, agent in (("scout", "scout"), ("other", "engineer"), (None, "engineer")):
            given = send(reading, "agent-start", agent="a1", type=type)
            assert shown(given.context) == [ids[agent]]


def test_without_entries_a_reader_is_given_nothing(memory, barred):
    memory.register(synapse.Agent("lead", role="project-lead"))
    with barred() as reading:
        assert send(reading, "start") == NOTHING


def test_a_start_ends_what_clients_left_that_are_gone(memory):
    process = subprocess.Popen(["sleep", "60"])
    event = Event("codex", "start", "SessionStart", "other", pid=process.pid)
    respond(memory, load("codex"), event)
    process.kill()
    process.wait()
    send(memory, "prompt", prompt="Fix it")
    by_client = {run.fields["engine"]: run for run in Runs(memory.store).all()}
    assert by_client["codex"].running, "a prompt takes no time for it"
    send(memory, "start")
    by_client = {run.fields["engine"]: run for run in Runs(memory.store).all()}
    assert by_client["codex"].status == "stopped"
    assert by_client["openclaw"].running


def test_files_of_sessions_that_ended_long_ago_go_at_a_start(memory):
    send(memory, "start")
    path = state.path_of(memory.store.root, "openclaw", "long ago")
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
    os.utime(path, (1, 1))
    send(memory, "prompt", prompt="Fix it")
    assert os.path.exists(path)
    send(memory, "start")
    assert not os.path.exists(path)


def test_where_a_session_works_is_remembered(memory):
    send(memory, "start", cwd="/shop/one")
    send(memory, "prompt", prompt="Fix it")
    assert known(memory).cwd == "/shop/one"
    send(memory, "prompt", prompt="Fix it", cwd="/shop/two")
    assert known(memory).cwd == "/shop/two"
    assert sorted(known(memory).fired) == ["prompt", "start"]


def test_an_emptied_conversation_is_another_run(memory):
    id = write(memory, "Call /v2/users, never /v1.").id
    assert shown(send(memory, "start", source="startup").context) == [id]
    send(memory, "agent-start", agent="a1")
    (first,) = [run.id for run in Runs(memory.store).all() if run.agent == "lead"]
    assert shown(send(memory, "start", source="clear").context) == [id]
    found = Runs(memory.store).all()
    assert {run.id for run in found if run.running} == {
        run.id for run in found if run.agent == "lead" and run.id != first
    }
    assert send(memory, "start", source="resume").context == ""
    assert len(Runs(memory.store).all()) == len(found), "it goes on with its run"


def test_a_conversation_that_is_resumed_has_what_it_was_given(memory):
    """Also after its run has ended; one that begins anew has not."""
    first = write(memory, "Call /v2/users, never /v1.").id
    send(memory, "start", source="startup")
    send(memory, "end")
    second = write(memory, "The users table is frozen.").id
    assert shown(send(memory, "start", source="resume").context) == [second]
    send(memory, "end")
    again = shown(send(memory, "start", source="startup").context)
    assert sorted(again) == sorted([first, second])


def test_a_sub_agent_is_told_the_task_of_the_spawn_of_its_type(memory):
    send(memory, "start")
    for task, type in (("Fix it", "coder"), ("Draw it", "painter"), ("Test it", "coder")):
        send(memory, "before", kind="spawn", prompt=task, type=type)
    for agent, type in (("a1", "painter"), ("a2", "coder"), ("a3", "coder"), ("a4", "coder")):
        send(memory, "agent-start", agent=agent, type=type)
    texts = {
        key: Runs(memory.store).get(worker.run).task.text
        for key, worker in known(memory).workers.items()
    }
    assert texts == {
        state.MAIN: "A session of openclaw",
        "a1": "Draw it",
        "a2": "Fix it",
        "a3": "Test it",
        "a4": "A session of openclaw",
    }
    assert known(memory).spawns == []
    assert known(memory).workers["a2"].about == ["Fix it"]
    assert known(memory).workers["a4"].about == []


def test_a_spawn_of_no_type_is_any_sub_agents(memory):
    send(memory, "start")
    send(memory, "before", kind="spawn", prompt="Fix it")
    send(memory, "agent-start", agent="a1", type="coder", prompt="")
    assert runs(memory)["engineer"].task.text == "Fix it"


def test_a_spawn_that_was_held_is_no_sub_agents_task(memory):
    send(memory, "start")
    write(memory, "Ask ops first.", "decisions/x", "important", when="spawn")
    assert send(memory, "before", kind="spawn", prompt="Fix it", call="c1").deny
    assert known(memory).spawns == []
    assert send(memory, "before", kind="spawn", prompt="Fix it", call="c1").deny == ""
    assert [spawn["prompt"] for spawn in known(memory).spawns] == ["Fix it"]


def test_whose_call_it_is_is_remembered(memory):
    send(memory, "start")
    send(memory, "agent-start", agent="a1")
    send(memory, "before", kind="run", call="c1")
    send(memory, "before", kind="run", call="c2", agent="a1")
    send(memory, "before", kind="run")
    assert known(memory).calls == {"c1": state.MAIN, "c2": "a1"}


def test_a_turn_that_nobody_asked_for_is_told_the_news_alone(memory):
    send(memory, "start")
    send(memory, "after", kind="edit")
    write(memory, "The parser wants UTF-16.", "decisions/parser", "info")
    id = write(memory, "The users table is frozen.").id
    given = send(memory, "woken", as_="prompt", prompt="Mend the parser")
    assert shown(given.context) == [id]
    assert "UTF-16" not in given.context
    worker = known(memory).workers[state.MAIN]
    assert (worker.turns, worker.acts) == (1, 0)


def test_a_prompt_is_told_the_news_and_what_its_words_find(memory):
    """Together no longer than the client takes."""
    send(memory, "start")
    for n in range(8):
        write(memory, f"The parser {n} wants UTF-16: {'word ' * 160}", "decisions/p", "info")
        write(memory, f"Rule {n}: {'word ' * 160}")
    texts = []
    for _ in range(6):
        texts.append(send(memory, "prompt", prompt="Mend the parser 3, UTF-16").context)
    cap = load("openclaw").events["prompt"].cap
    assert all(len(text) <= cap for text in texts)
    assert "Rule" in texts[0]
    assert sum("The parser 3 wants" in text for text in texts) == 1
    given = [id for text in texts for id in shown(text)]
    assert len(given) == len({*given})
    worker = known(memory).workers[state.MAIN]
    assert worker.about == ["Mend the parser 3, UTF-16"]
    assert worker.given == sum(map(len, texts))


def test_a_turn_that_did_nothing_more_is_not_written_again(memory):
    send(memory, "start")
    send(memory, "stop", message="Hello.")
    send(memory, "after", kind="edit")
    send(memory, "after", kind="read")
    send(memory, "stop", message="Changed.")
    send(memory, "stop", message="Anything else?")
    assert written(memory) == ["Done: Changed."]
    send(memory, "prompt", prompt="Go on")
    send(memory, "after", kind="read")
    send(memory, "stop", message="It reads well.")
    send(memory, "after", kind="run")
    send(memory, "stop", message="")
    assert written(memory) == ["Done: Changed."]


def test_a_blocked_turn_is_written_though_it_did_nothing(memory):
    send(memory, "start")
    send(memory, "stop", message="Blocked: no key")
    assert written(memory) == ["Blocked: no key"]
    assert runs(memory)["lead"].running


def test_what_does_not_press_holds_nobody_up(memory):
    """News beside its work waits; the entry for it, and what is critical, do not."""
    send(memory, "start")
    send(memory, "prompt", prompt="Mend the parser of invoices")
    write(memory, "The parser of invoices wants UTF-16.", "decisions/p", "info")
    assert send(memory, "stop", message="Mended.") == NOTHING
    write(memory, "Not that one.", "decisions/p", "info", to="agent:lead")
    assert "Not that one." in send(memory, "stop", message="Mended.").again
    assert send(memory, "stop", message="Mended.", going_on=True) == NOTHING


def test_the_end_of_a_session_that_did_nothing_begins_nobody(memory):
    assert send(memory, "end") == NOTHING
    assert Runs(memory.store).all() == []


def test_a_sub_agent_that_ends_leaves_its_transcript_and_its_result(memory):
    send(memory, "start")
    send(memory, "agent-start", agent="a1", prompt="Fix it")
    assert (
        send(memory, "agent-stop", agent="a1", message="Fixed.", transcript="/t/a1.jsonl")
        == NOTHING
    )
    assert written(memory) == ["Done: Fixed."]
    assert runs(memory)["engineer"].status == "done"
    assert runs(memory)["lead"].running


def test_what_is_too_long_to_stand_beside_a_call_is_left_out(memory):
    send(memory, "start", "codex")
    for name, sign, there in (("a.py", "x", True), ("b.py", "🜁", False)):
        for n in range(3):
            write(memory, f"{name}: {n} {sign * 1_100}", f"decisions/{n}", "info")
        given = send(memory, "before", "codex", kind="edit", subjects=(name,))
        assert (f"{name}: 2 {sign}" in given.context) is there


# -- sub-agents that are calls ---------------------------------------------------------------------

SPAWN = {"kind": "spawn", "tool": "invoke_agent"}


def spawned(memory, task):
    """Return the prompt of a sub-agent that is a call, with its view before it."""
    return send(memory, "before", "gemini", prompt=task, **SPAWN).prompt


def test_a_call_that_is_a_sub_agent_begins_and_ends_it(memory):
    id = write(memory, "Call /v2/users, never /v1.").id
    send(memory, "start", "gemini")
    prompt = spawned(memory, "Fix it")
    assert shown(prompt) == [id]
    assert prompt.endswith("\nFix it")
    assert runs(memory)["engineer"].task.text == "Fix it"
    send(memory, "before", "gemini", kind="edit", subjects=("a.py",))
    (child,) = (key for key in known(memory, "gemini").workers if key != state.MAIN)
    assert known(memory, "gemini").workers[child].given == len(prompt) - len("\nFix it")
    send(memory, "after", "gemini", prompt="of another call", result="x", **SPAWN)
    assert runs(memory)["engineer"].running
    send(memory, "after", "gemini", prompt=prompt, result="Fixed.", **SPAWN)
    assert runs(memory)["engineer"].status == "done"
    assert written(memory) == ["Done: Fixed."]
    assert known(memory, "gemini").spawns == []


def test_where_there_is_nothing_to_show_the_prompt_is_left_as_it_is(memory):
    send(memory, "start", "gemini")
    assert spawned(memory, "Fix it") == ""
    send(memory, "after", "gemini", prompt="Fix it", result="Fixed.", **SPAWN)
    assert runs(memory)["engineer"].status == "done"


def test_while_one_such_call_is_open_calls_are_its_own(memory):
    send(memory, "start", "gemini")
    spawned(memory, "Fix it")
    send(memory, "after", "gemini", kind="edit")
    workers = known(memory, "gemini").workers
    assert {worker.agent: worker.acts for worker in workers.values()} == {"lead": 0, "engineer": 1}
    spawned(memory, "Test it")
    write(memory, "Stop.")
    assert send(memory, "after", "gemini", kind="edit") == NOTHING, "nobody knows whose"
    assert {worker.agent: worker.acts for worker in workers.values()} == {"lead": 0, "engineer": 1}


@pytest.mark.parametrize("name", ["start", "prompt", "stop"])
def test_such_calls_that_never_ended_end_with_the_turn(memory, name):
    send(memory, "start", "gemini")
    for task in ("Fix it", "Test it"):
        spawned(memory, task)
    send(memory, name, "gemini")
    ended = {run.agent: run for run in Runs(memory.store).all()}
    assert ended["lead"].running
    for agent in ("engineer", "engineer-2"):
        assert (ended[agent].status, ended[agent].fields["why"]) == (
            "stopped",
            "its call has not come to an end",
        )
    assert written(memory) == []


def test_what_a_client_takes_before_no_call_waits_for_its_result(memory):
    send(memory, "start", "gemini")
    write(memory, "api/users.py: the cache must be cleared by hand.", "decisions/notes", "info")
    given = send(memory, "before", "gemini", kind="read", subjects=("api/users.py",))
    assert given == NOTHING
    given = send(memory, "after", "gemini", kind="read", subjects=("api/users.py",))
    assert "the cache must be cleared" in given.context
    assert send(memory, "after", "gemini", kind="read", subjects=("api/users.py",)) == NOTHING


# -- nothing lost, nothing twice -------------------------------------------------------------------

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["write", "tool", "prompt", "spawn", "stop", "long"]), st.integers(0, 2)
    ),
    max_size=25,
)


def played(memory, client, steps):
    """Play a session; the ids of what is critical, and of each conversation that lives at the end
    those that it has to have been given: what came after its start, and what came before as far as
    a start has room.
    """
    client("SessionStart", source="startup")
    live, criticals, size = {None: 0}, [], 0
    for number, (step, which) in enumerate(steps):
        agent = f"a{which}"
        if step in ("write", "long"):
            text = f"Rule {number} " + ("word " * 300 if step == "long" else "")
            criticals.append(write(memory, text).id)
            size += len(text)
        elif step == "prompt":
            client("UserPromptSubmit", prompt=f"Look at rule {number}")
        elif step == "spawn" and agent not in live:
            client.spawn(agent, f"Follow rule {number}")
            live[agent] = 0 if size < ROOM else len(criticals)
        elif step == "tool":
            client.tool("Bash", {"command": "ls"}, agent if agent in live else None)
        elif step == "stop" and agent in live:
            client(
                "SubagentStop",
                agent,
                last_assistant_message=f"Rule {number} is followed.",
                stop_hook_active=True,
            )
            del live[agent]
    for agent in live:
        for _ in range(12):
            client.tool("Bash", {"command": "ls"}, agent)
    return {agent: criticals[first:] for agent, first in live.items()}


def account(client, due):
    """Return what was given twice to one conversation, what was not given, and texts that are too
    long.
    """
    told, twice, long = {}, [], 0
    for name, agent, given in client.answers:
        if name == "SubagentStart":
            told[agent] = []  # another sub-agent of this name
        for text in (context(given), given.get("more", ""), given.get("reason", "")):
            long += len(text) > CAP
            for id in shown(text):
                twice += [(agent, id)] if id in told.setdefault(agent, []) else []
                told[agent].append(id)
    lost = [
        (agent, id) for agent, ids in due.items() for id in ids if id not in told.get(agent, [])
    ]
    return twice, lost, long


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given_by(steps=STEPS)
def test_every_critical_reaches_every_conversation_once(tmp_path_factory, steps):
    root = str(tmp_path_factory.mktemp("w") / "shared-memory")
    with synapse.init(root) as memory:
        memory.register(synapse.Agent("boss", role="cto"))
        client = Client(memory, os.path.dirname(root))
        assert account(client, played(memory, client, steps)) == ([], [], 0)


@pytest.mark.parametrize("broken", ["forgets", "loses"])
def test_the_account_finds_a_policy_that_forgets_or_loses(memory, client, monkeypatch, broken):
    if broken == "forgets":
        monkeypatch.setattr(state.Worker, "add", lambda self, name, values: None)
    else:
        monkeypatch.setattr(
            "orchestrator.plugin.hooks.context.Context.render_news",
            lambda self, worker, news, cap: "",
        )
    steps = [("write", 0), ("spawn", 1), ("write", 0), ("prompt", 0), ("write", 0), ("prompt", 1)]
    twice, lost, _ = account(client, played(memory, client, steps))
    assert twice if broken == "forgets" else lost
