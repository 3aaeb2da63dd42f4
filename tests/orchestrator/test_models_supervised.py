"""Agents on model APIs under the supervisor, against a real server on loopback."""

import json
import sys

import pytest

import synapse
from orchestrator import Supervisor, Task
from orchestrator.engines.anthropic import Anthropic
from orchestrator.engines.openai import OpenAI
from orchestrator.engines.scripted import Move
from tests.model_server import ModelServer


@pytest.fixture
def mem(tmp_path):
    with synapse.init(str(tmp_path / "ws")) as memory:
        memory.register(synapse.Agent("lead", role="project-lead"))
        memory.register(synapse.Agent("eng-a"))
        yield memory


def anthropic(server):
    return Anthropic(base_url=server.url, api_key="k", model="claude-sonnet-5")


def openai(server):
    return OpenAI(base_url=f"{server.url}/v1", api_key="k", model="gpt-5-mini")


def team(seen):
    """A lead that gives work to an engineer and waits; an engineer that writes and ends."""
    if "lead" in seen.system.split("\n")[0]:
        if seen.turn == 0:
            return Move("", (("spawn_agent", {"agent": "eng-a", "task": "Build it"}),))
        return (
            Move("", (("wait", {}),))
            if seen.turn == 1
            else f"Reported: {'It is built' in seen.text}"
        )
    if seen.turn == 0:
        return Move("", (("append", {"namespace": "status/web", "body": "half way"}),))
    return "It is built."


@pytest.mark.parametrize("make", [anthropic, openai])
def test_a_team_on_a_model_api(mem, make):
    with (
        ModelServer(team) as server,
        Supervisor(mem, engine=make(server), memory_tools="always") as supervisor,
    ):
        result = supervisor.run(Task("Have it built", "lead", project="web"))
        lines = [
            json.loads(line)
            for line in supervisor.run_store.folder(supervisor.run_store.known(result.run)).lines(
                "ledger.jsonl"
            )
        ]
    assert (result.status, result.text) == ("done", "Reported: True"), result
    assert result.usage.input_tokens > 0
    assert result.cost > 0
    assert len(lines) == 3
    assert all(line["usage"]["input_tokens"] > 0 for line in lines)
    bodies = [entry.body for entry in mem.as_agent("operator").read(namespace="status/web")]
    assert "half way" in bodies
    assert sum(body.startswith("Done: ") for body in bodies) == 2


def test_where_a_limit_hangs_on_it_the_provider_counts(mem):
    with (
        ModelServer(lambda seen: "Done.") as server,
        Supervisor(mem, engine=anthropic(server)) as supervisor,
    ):
        assert supervisor.run(Task("One", "eng-a")).status == "done"
        assert not any("count_tokens" in taken.path for taken in server.journal)
        assert supervisor.run(Task("Two", "eng-a", max_tokens=50_000)).status == "done"
        assert any("count_tokens" in taken.path for taken in server.journal)
        refused = supervisor.run(Task("Three", "eng-a", max_tokens=500))
    assert refused.status == "stopped"
    assert "tokens" in refused.why


def test_what_was_reported_is_learnt(mem):
    text = "word " * 3_000
    with (
        ModelServer(lambda seen: "Done.", count=len) as server,
        Supervisor(mem, engine=anthropic(server)) as supervisor,
    ):
        supervisor.run(Task(f"Read this: {text}", "eng-a"))
        assert supervisor.run_store.costs.ratios.of("claude-sonnet-5") == pytest.approx(3.0)


def test_tools_of_an_mcp_server(mem, tmp_path):
    script = tmp_path / "server.py"
    script.write_text(
        "from mcp.server import MCPServer\n"
        "server = MCPServer('sums')\n"
        "@server.tool()\n"
        "def add(a: int, b: int) -> int:\n"
        "    'Add two numbers.'\n"
        "    return a + b\n"
        "server.run('stdio')\n"
    )

    def play(seen):
        return (
            Move("", (("add", {"a": 2, "b": 40}),))
            if seen.turn == 0
            else f"The sum is {seen.messages[-1].text}"
        )

    mcp = [[sys.executable, str(script)]]
    with ModelServer(play) as server, Supervisor(mem, engine=openai(server), mcp=mcp) as supervisor:
        result = supervisor.run(Task("Add", "eng-a"))
    assert result.text == "The sum is 42", result
