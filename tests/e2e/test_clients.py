"""The real clients against a model server on loopback: each runs, says what it used, goes on with
its session, and its agent writes into the memory with the shell. `--golden` keeps what they printed
for the fast tests.
"""

import asyncio
import re
import tempfile
from pathlib import Path

import pytest

import synapse
from orchestrator.engines.protocol import ContextTooLong, Message, Request
from orchestrator.engines.scripted import Move
from orchestrator.testing.contract import Fault
from synapse import Agent

pytestmark = pytest.mark.soak

TRANSCRIPTS = Path(__file__).parents[1] / "orchestrator/engines/transcripts"
CLIENTS = ("claude-code", "codex", "gemini", "openclaw")
# What the clients call their shell, and its argument.
SHELLS = {
    "Bash": "command",
    "exec_command": "cmd",
    "run_shell_command": "command",
    "exec": "command",
}
NOTE = "synapse write --namespace api/endpoints 'use v2'"
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def works(seen):
    """A model that notes something with the client's shell, when it is asked to, and then says
    so.
    """
    last = seen.messages[-1]
    shell = next((tool.name for tool in seen.tools if tool.name in SHELLS), None)
    if shell and last.role != "tool" and "note it" in seen.text and seen.turn == 0:
        return Move("", ((shell, {SHELLS[shell]: NOTE}),))
    return f"Said after {seen.turn} replies."


def reports(seen):
    """A model that gives the structured result that its client asks it for, as a call or as its
    text.
    """
    found = {"summary": "Half of it.", "blocked": "There is no schema."}
    if any(tool.name == "StructuredOutput" for tool in seen.tools):
        return (
            Move("", (("StructuredOutput", found),))
            if seen.messages[-1].role != "tool"
            else "Half of it."
        )
    return '{"summary": "Half of it.", "blocked": "There is no schema."}'


def user(text, label="task"):
    return Message("user", text, label)


def step(engine, request):
    return asyncio.run(asyncio.wait_for(engine.step(request, asyncio.Event()), 200))


@pytest.fixture
def memory():
    """A workspace with an agent: its root, and what the agent's environment has. It lies outside
    of /dev/shm, where tests have their folders: the sandbox of Codex has a /dev of its own.
    """
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        root = f"{folder}/memory"
        with synapse.init(root) as memory:
            memory.register(Agent("eng-a", read=("api/*",), write=("api/*",)))
        yield root, {"SYNAPSE_ROOT": root, "SYNAPSE_AGENT": "eng-a"}


def entries(root):
    with synapse.open(root) as memory:
        return [entry.body for entry in memory.as_agent("eng-a").read().entries]


def keep(name, engine, output, tmp_path):
    """What it printed, without what is this machine's."""
    text = output.replace(str(tmp_path), "/place")
    ids = {}
    text = UUID.sub(
        lambda found: ids.setdefault(found[0], f"00000000-0000-4000-8000-{len(ids):012}"), text
    )
    ends = "json" if engine.client.form == "json" else "jsonl"
    TRANSCRIPTS.mkdir(exist_ok=True)
    (TRANSCRIPTS / f"{engine.name}-{engine.client.verified}-{name}.{ends}").write_text(
        text, encoding="utf-8"
    )


@pytest.mark.parametrize("name", CLIENTS)
def test_a_client_works_and_goes_on(client, memory, tmp_path, request, name):
    root, env = memory
    engine, place, server = client(name, works)
    place = place._replace(env=env)
    first = step(engine, Request("You are eng-a.", (user("note it"),), place=place))
    began = Path(place.output).read_text(encoding="utf-8")
    assert entries(root) == ["use v2"]
    assert (first.text, first.stop, first.usage.estimated) == (
        "Said after 1 replies.",
        "done",
        False,
    )
    assert first.usage.input_tokens > 1_000
    assert first.usage.output_tokens > 0
    assert first.session
    assert any("You are eng-a." in str(taken.body) for taken in server.journal)
    messages = (
        user("note it"),
        Message("assistant", first.text, "work_out"),
        user("go on", "wake"),
    )
    server.journal.clear()
    second = step(engine, Request("You are eng-a.", messages, session=first.session, place=place))
    assert second.text == "Said after 2 replies."
    assert 0 < second.usage.input_tokens < first.usage.input_tokens
    assert "Your Earlier Output" not in str(server.journal)
    if request.config.getoption("--golden"):
        keep("first", engine, began, tmp_path)
        keep(
            "resumed",
            engine,
            Path(place.output).read_text(encoding="utf-8")[len(began) :],
            tmp_path,
        )


@pytest.mark.parametrize("name", CLIENTS[:3])
def test_a_lost_session_starts_again(client, name):
    engine, place, _ = client(name, works)
    messages = (user("do it"), Message("assistant", "half done", "work_out"), user("go on", "wake"))
    lost = "00000000-0000-4000-8000-000000000000"
    turn = step(engine, Request("", messages, session=lost, place=place))
    assert turn.text == "Said after 0 replies."
    assert lost not in turn.session


@pytest.mark.parametrize("name", CLIENTS[:3])
def test_a_prompt_that_is_too_long(client, tmp_path, request, name):
    engine, place, server = client(name, works)
    server.fail(*[Fault("context")] * 20)
    with pytest.raises(ContextTooLong):
        step(engine, Request("", (user("do it"),), place=place))
    if request.config.getoption("--golden"):
        keep("too-long", engine, Path(place.output).read_text(encoding="utf-8"), tmp_path)


@pytest.mark.parametrize("name", CLIENTS[:2])
def test_a_structured_result_tells_of_a_blocker(client, tmp_path, request, name):
    engine, place, _ = client(name, reports, report=True)
    turn = step(engine, Request("", (user("do it"),), place=place))
    assert (turn.text, turn.blocked) == ("Half of it.", "There is no schema.")
    if request.config.getoption("--golden"):
        keep("blocked", engine, Path(place.output).read_text(encoding="utf-8"), tmp_path)


@pytest.mark.parametrize("name", CLIENTS)
def test_the_version_is_the_one_that_the_facts_are_of(client, installed, name):
    engine, place, _ = client(name, works)
    version = engine.client._replace(
        start=("--version",), system=(), model=(), form="text", permissions={"memory": ()}
    )
    engine.client = version
    assert version.verified in step(engine, Request("", (user(""),), place=place)).text
