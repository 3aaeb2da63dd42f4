"""What a client's conversations are given, and what they leave: the policy, on Claude Code's form
of events.
"""

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
from orchestrator.plugin.hooks.answer import answer
from orchestrator.plugin.hooks.context import Context
from orchestrator.plugin.sessions import state
from orchestrator.plugin.sessions.runs import ClientRuns
from orchestrator.plugin.sessions.sweep import sweep
from orchestrator.prompts.templates import BrokenTemplate
from orchestrator.runs.records import Runs
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
        if line.startswith("- [") and "(from:" in line and " > " not in line
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
    assert sorted({agent.id for agent in memory.agents()}) == [
        "boss",
        "engineer",
        "lead",
    ]


def test_a_type_is_the_agent_of_its_name_or_the_one_that_is_named(client, memory):
    memory.register(synapse.Agent("reviewer", role="engineer"))
    memory.register(synapse.Agent("scout", role="specialist"))
    path = os.path.join(memory.store.root, "synapse.yaml")
    with open(path, "a", encoding="utf-8") as file:
        file.write("clients:\n  agents: {Explore: scout}\n  project: web\n")
    memory.store.look(force=True)
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
    client.before(
        "Agent", {"prompt": "Do it. " * 100_000, "subagent_type": "general-purpose"}
    )
    client("SubagentStart", "long")
    assert os.path.getsize(path) < 20_000
    for n in range(state.ENDED + 20):
        client("SubagentStart", f"a{n}")
        client.tool("Read", {"file_path": f"{client.folder}/{n}.py"}, f"a{n}")
        client("SubagentStop", f"a{n}", last_assistant_message=f"Done {n}.")
    assert len(state.load(path).workers) <= state.ENDED + 2
    assert "seen" not in {
        name
        for name, value in vars(state.load(path).workers[f"a{state.ENDED}"]).items()
        if value
    }
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
            memory,
            f"Module m{n}.py has a limit of {n * 7} requests.",
            "decisions/limits",
            "info",
        )
    client("SessionStart", source="startup")
    assert "limit of 119 requests" in context(
        client.spawn("a1", "Mend the limit of module m17.py")
    )


def test_a_prompt_finds_by_its_words_and_gives_nothing_twice(client, memory):
    write(
        memory,
        "The parser of invoices wants UTF-16, not UTF-8.",
        "decisions/parser",
        "info",
    )
    client("SessionStart", source="startup")
    first = context(client("UserPromptSubmit", prompt="Mend the parser of invoices"))
    assert "UTF-16" in first
    assert client("UserPromptSubmit", prompt="Mend the parser of invoices") == {}


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
        "Bash",
        {"command": "synapse read"},
        result={"stdout": "> The users table is frozen."},
    )
    assert after == {}


def test_what_a_sub_agent_leaves_is_told_by_its_client_alone(client, memory):
    client("SessionStart", source="startup")
    client.spawn("a1", "Fix the parser")
    client(
        "SubagentStop", "a1", last_assistant_message="Blocked: no key for the registry"
    )
    assert client.tool("Bash", {"command": "ls"})[1] == {}
    other = Client(memory, client.folder, "s2")
    assert "no key for the registry" in context(other("SessionStart", source="startup"))


def test_after_its_context_was_compacted_a_session_is_given_its_view_again(
    client, memory
):
    id = write(memory, "Call /v2/users, never /v1.").id
    assert shown(context(client("SessionStart", source="startup"))) == [id]
    assert shown(context(client("SessionStart", source="resume"))) == []
    assert shown(context(client("SessionStart", source="compact"))) == [id]


def test_a_start_is_divided_over_the_hooks_there_are_and_ends_with_pointers(
    client, memory
):
    ids = {write(memory, f"Rule {n}: " + "word " * 150).id for n in range(12)}
    client("SessionStart", source="startup")
    path = state.path_of(memory.store.root, "claude-code", "s1")
    context = Context(ClientRuns(memory, state.load(path)))
    agent, agent_memory = memory.store.agents()["lead"], memory.as_agent("lead")
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
        texts += map(
            context, client.tool("Read", {"file_path": f"{client.folder}/m{n}.py"})
        )
    assert max(map(len, texts)) <= CAP
    told = [sum(f"`synapse read {id}`" in text for text in texts) for id in ids]
    # at the start, and beside the file that it names
    assert told == ([1] * 3 if when == "after" else [2] * 3)


# -- the look before a call ------------------------------------------------------------------------


def test_what_is_for_a_moment_holds_the_call_once(client, memory):
    client("SessionStart", source="startup")
    write(
        memory,
        "Ask ops before a push.",
        "decisions/git",
        "important",
        when="run git push",
    )
    assert "Ask ops" in denied(client.before("Bash", {"command": "git push origin"})[0])
    assert client.before("Bash", {"command": "git push origin"})[0] == {}
    assert client.before("Read", {"file_path": "git push"})[0] == {}


def test_a_fetch_that_another_made_is_given_instead_and_can_be_made_again(client):
    client("SessionStart", source="startup")
    for agent in ("a1", "a2"):
        client.spawn(agent, f"Find the limit for {agent}")
    call = ("WebFetch", {"url": "http://docs/limits", "prompt": "the limit?"})
    given, after = client.tool(*call, "a1", result={"result": "It is 17 a minute."})
    assert (given, after) == ({}, {})
    assert "17 a minute" in denied(client.before(*call, "a2")[0])
    assert client.before(*call, "a2")[0] == {}


def test_a_fetch_that_another_is_at_is_waited_for_a_while(client):
    client("SessionStart", source="startup")
    for agent in ("a1", "a2"):
        client.spawn(agent, f"Find the limit for {agent}")
    call = {"url": "http://docs/limits", "prompt": "the limit?"}
    first, id = client.before("WebFetch", call, "a1")
    assert first == {}
    assert client.before("WebFetch", call, "a2")[0] == {"wait": True}
    fields = {"tool_name": "WebFetch", "tool_input": call, "tool_use_id": id}
    client(
        "PostToolUse", "a1", **fields, tool_response={"result": "It is 17 a minute."}
    )
    assert "17 a minute" in denied(client.before("WebFetch", call, "a2")[0])


def test_who_has_waited_long_enough_makes_the_call_itself(client):
    client("SessionStart", source="startup")
    for agent in ("a1", "a2"):
        client.spawn(agent, f"Find the limit for {agent}")
    call = {"url": "http://docs/limits", "prompt": "the limit?"}
    client.before("WebFetch", call, "a1")
    fields = {
        "tool_name": "WebFetch",
        "tool_input": call,
        "tool_use_id": "c",
        "synapse_waited": True,
    }
    assert client("PreToolUse", "a2", **fields) == {}


def test_who_else_is_editing_a_file_is_said_once(client):
    client("SessionStart", source="startup")
    for agent in ("a1", "a2"):
        client.spawn(agent, f"Change it for {agent}")
    edit = ("Edit", {"file_path": f"{client.folder}/api/users.py"})
    assert client.tool(*edit, "a1") == ({}, {})
    assert "engineer is editing api/users.py" in context(client.tool(*edit, "a2")[0])
    assert client.tool(*edit, "a2") == ({}, {})
    client("SubagentStop", "a1", last_assistant_message="Changed.")
    client.spawn("a3", "Change it for a3")
    assert client.tool(*edit, "a3")[0] == {}


def test_what_names_a_file_is_told_beside_its_reading(client, memory):
    client("SessionStart", source="startup")
    write(
        memory,
        "api/users.py: the cache must be cleared by hand.",
        "decisions/notes",
        "info",
    )
    read = ("Read", {"file_path": f"{client.folder}/api/users.py"})
    assert "cleared by hand" in context(client.tool(*read)[0])
    assert client.tool(*read)[0] == {}


def test_a_spawn_of_work_that_is_done_is_told_so(client):
    client("SessionStart", source="startup")
    asked = "Find out which limit the users endpoint has"
    client.spawn("a1", asked)
    client("SubagentStop", "a1", last_assistant_message="The limit is 17 a minute.")
    given, _ = client.tool(
        "Agent", {"prompt": asked, "subagent_type": "general-purpose"}
    )
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
    client(
        "SubagentStop", "a2", last_assistant_message="Blocked: no key for the registry"
    )
    found = runs(memory)
    assert (found["engineer"].status, found["engineer-2"].status) == ("done", "blocked")
    bodies = {
        entry.namespace: entry.body for entry in memory.as_agent("operator").read()
    }
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
        return (
            json.dumps({"type": "assistant", "message": message | {"usage": usage}})
            + "\n"
        )

    path.write_text(reply("m1", "I look."))
    client("SessionStart", source="startup")
    client.spawn("a1", "Find the limits")
    late = threading.Timer(
        0.1, lambda: path.write_text(reply("m1", "I look.") + reply("m2", "It is 17."))
    )
    late.start()
    client(
        "SubagentStop",
        "a1",
        last_assistant_message="It is 17.",
        agent_transcript_path=str(path),
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


def test_a_session_that_is_resumed_counts_its_earlier_turns_once(
    client, memory, tmp_path
):
    path = tmp_path / "session.jsonl"
    path.write_text(reply("m1", 100))
    client(
        "SessionStart", source="startup", transcript_path=str(tmp_path / "none.jsonl")
    )
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
    assert (
        client(
            "SubagentStop", "a1", last_assistant_message="Done.", stop_hook_active=True
        )
        == {}
    )
    assert runs(memory)["engineer"].status == "done"


# -- nothing lost, nothing twice -------------------------------------------------------------------

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["write", "tool", "prompt", "spawn", "stop", "long"]),
        st.integers(0, 2),
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
        (agent, id)
        for agent, ids in due.items()
        for id in ids
        if id not in told.get(agent, [])
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
def test_the_account_finds_a_policy_that_forgets_or_loses(
    memory, client, monkeypatch, broken
):
    if broken == "forgets":
        monkeypatch.setattr(state.Worker, "add", lambda self, name, values: None)
    else:
        monkeypatch.setattr(
            "orchestrator.plugin.hooks.context.Context.render_news",
            lambda self, worker, news, cap: "",
        )
    steps = [
        ("write", 0),
        ("spawn", 1),
        ("write", 0),
        ("prompt", 0),
        ("write", 0),
        ("prompt", 1),
    ]
    twice, lost, _ = account(client, played(memory, client, steps))
    assert twice if broken == "forgets" else lost
