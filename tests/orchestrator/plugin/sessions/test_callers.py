"""Whose call of a memory tool it is: never what a model says, always the conversation that its
client tells of.
"""

import json
import os
import sys

import anyio
import pytest
from mcp import Client as Protocol
from mcp import StdioServerParameters, stdio_client

import synapse
from orchestrator import plugin
from orchestrator.plugin.sessions import state
from orchestrator.plugin.sessions.callers import agent_memory_of
from orchestrator.plugin.sessions.runs import ClientRuns
from orchestrator.runs.records import Runs
from orchestrator.runs.task import Task
from synapse.mcp.caller import Caller
from tests.orchestrator.plugin.conftest import Client

SERVED = {  # whether clients that make tools of them are offered resources, and prompts
    "claude-code": (True, True),
    "codex": (True, True),
    "gemini": (False, True),
    "openclaw": (False, False),
}
TOOL = "mcp__plugin_synapse_synapse__append"
SERVER = os.path.join(os.path.dirname(plugin.__file__), "mcp.py")
OWN = {name: os.environ[name] for name in ("PATH", "SYNAPSE_HOME")}


def served(protocol):
    """Return whether resources and prompts are served; never the view, which hooks have given."""
    assert "briefing" not in protocol.instructions
    capabilities = protocol.server_capabilities
    return capabilities.resources is not None, capabilities.prompts is not None


@pytest.fixture
def session(client):
    client("SessionStart", source="startup")
    client.spawn("a1", "Fix the parser")
    client.spawn("a2", "Write the docs")
    return client


def caller(call=None, session="s1", **meta):
    about = {"claudecode/toolUseId": call} if call else {}
    return Caller(meta=about | meta, started=session)


@pytest.mark.parametrize(
    ("agent", "named"), [(None, "lead"), ("a1", "engineer"), ("a2", "engineer-2")]
)
def test_a_call_is_of_the_conversation_whose_hook_saw_it(session, memory, agent, named):
    _, call = session.before(TOOL, {"namespace": "status/shop", "body": "x"}, agent)
    agent_memory = agent_memory_of(memory, "claude-code", caller(call), 1)
    assert agent_memory.id == named
    entry = agent_memory.append("It works.", "status/shop")
    assert (entry.author, entry.run is not None) == (named, True)


def test_a_thread_of_its_own_says_which_sub_agent_it_is(session, memory):
    assert (
        agent_memory_of(memory, "claude-code", Caller(meta={"threadId": "a2"}), 1).id
        == "engineer-2"
    )


def test_a_call_that_no_hook_saw_is_the_main_conversation_s(session, memory):
    assert agent_memory_of(memory, "claude-code", caller("unseen"), 1).id == "lead"
    assert agent_memory_of(memory, "claude-code", caller("unseen", "another"), 1).id == "lead"
    assert agent_memory_of(memory, "codex", Caller(), 1, "nobody").id == "lead"


def test_without_an_id_the_client_s_process_says_which_session_it_is(session, memory):
    ClientRuns(memory, state.load(state.path_of(memory.store.root, "claude-code", "s1")))
    assert agent_memory_of(memory, "claude-code", Caller(), os.getpid()).id == "lead"
    other = Client(memory, session.folder, "s2")
    other("SessionStart", source="startup")
    # two: nobody can say which
    assert agent_memory_of(memory, "claude-code", Caller(), os.getpid()).writer.run is None


def test_the_call_of_another_session_is_not_taken_for_one_s_own(session, memory):
    other = Client(memory, session.folder, "s2")
    other("SessionStart", source="startup")
    _, call = session.before(TOOL, {}, "a1")
    assert agent_memory_of(memory, "claude-code", caller(call, "s2"), 1).id == "lead-2"


def test_a_server_that_knows_the_id_of_an_emptied_session_acts_for_the_next(session, memory):
    """Claude Code goes on under another id after `/clear`, with the same server."""
    emptied = runs_of(memory)
    other = Client(memory, session.folder, "s2")
    other("SessionStart", source="clear")
    _, call = other.before(TOOL, {})
    agent_memory = agent_memory_of(memory, "claude-code", caller(call), os.getpid())
    assert agent_memory.id == "lead"
    assert agent_memory.writer.run in runs_of(memory) - emptied


def runs_of(memory):
    return {run.id for run in Runs(memory.store).all()}


def test_the_server_writes_as_who_calls_and_no_argument_changes_that(session, memory):
    _, call = session.before(TOOL, {}, "a1")
    words = ["-P", SERVER, "claude-code", "--root", memory.store.root, "--agent", "lead"]
    env = OWN | {"CLAUDE_CODE_SESSION_ID": "s1"}

    async def story():
        async with Protocol(
            stdio_client(StdioServerParameters(command=sys.executable, args=words, env=env))
        ) as protocol:
            told = {"namespace": "status/shop", "body": "It works.", "from": "boss"}
            wrong = await protocol.call_tool("append", told, meta={"claudecode/toolUseId": call})
            assert served(protocol) == SERVED["claude-code"]
            told.pop("from")
            right = await protocol.call_tool("append", told, meta={"claudecode/toolUseId": call})
            again = await protocol.call_tool("append", told, meta={"claudecode/toolUseId": call})
            return wrong, right, again

    wrong, right, again = anyio.run(story)
    assert (wrong.is_error, right.is_error) == (True, False)
    assert right.content[0].text == again.content[0].text
    entries = memory.as_agent("operator").read(namespace="status/shop")
    assert [(entry.author, entry.body) for entry in entries] == [("engineer", "It works.")]


@pytest.mark.parametrize(
    ("env", "author"),
    [
        ({"CLAUDE_CODE_SESSION_ID": "another"}, "lead"),  # started in a shell of another client
        ({"SYNAPSE_AGENT": "ada", "SYNAPSE_RUN": "RUN"}, "ada"),  # a run of our own supervisor
    ],
)
def test_the_environment_says_who_a_server_acts_as(session, memory, env, author):
    lead = state.load(state.path_of(memory.store.root, "claude-code", "s1"))
    with open(state.path_of(memory.store.root, "codex", "s1"), "w", encoding="utf-8") as file:
        json.dump({**vars(lead), "client": "codex"}, file, default=vars)
    ada = memory.register(synapse.Agent("ada", role="engineer", projects=("shop",)))
    run = Runs(memory.store).begin("ada-1", Task("x", "ada", project="shop"), ada, "", None, None)
    env = {name: value.replace("RUN", f"{run.id}:{run.epoch}") for name, value in env.items()}
    words = ["-P", SERVER, "codex", "--root", memory.store.root, "--agent", "lead"]
    parameters = StdioServerParameters(command=sys.executable, args=words, env=OWN | env)

    async def story():
        async with Protocol(stdio_client(parameters)) as protocol:
            assert served(protocol) == SERVED["codex"]
            return await protocol.call_tool(
                "append", {"namespace": "status/shop", "body": "It works."}
            )

    told = anyio.run(story)
    assert not told.is_error, told
    entry = memory.as_agent("operator").read(namespace="status/shop")[0]
    assert (entry.author, entry.run) == (
        author,
        run.id if author == "ada" else lead.workers[""].run,
    )


@pytest.mark.parametrize("name", ["gemini", "openclaw"])
def test_what_a_client_would_make_tools_of_is_not_served(memory, name):
    words = ["-P", SERVER, name, "--root", memory.store.root, "--agent", "lead"]

    async def story():
        started = StdioServerParameters(command=sys.executable, args=words, env=OWN)
        async with Protocol(stdio_client(started)) as protocol:
            names = [tool.name for tool in (await protocol.list_tools()).tools]
            assert {"read", "briefing", "memory_search"} <= set(names)
            assert served(protocol) == SERVED[name]

    anyio.run(story)
