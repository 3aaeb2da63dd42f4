"""Whatever a provider does has a defined end: a status, a record that says so, and a ledger that
adds up. What the operator alone can mend (a key, a provider that does not answer) is on the run's
record; the rest is an entry too."""

import json

import pytest

import synapse
from orchestrator import Supervisor, Task
from orchestrator.engines.protocol import load
from orchestrator.engines.scripted import Move
from orchestrator.testing.contract import Fault
from tests.model_server import ModelServer

ENGINES = {"anthropic": "claude-sonnet-5", "openai": "gpt-5-mini", "openai-chat": "llama3"}

# The faults of successive requests -> the status, what the entry says (or the run, where it is the
# operator's), and the
# labels that the ledger must have.
OUTCOMES = {
    "too many requests, once": (
        [Fault("status", 429, retry_after=0.05)],
        "done",
        "Done: The work is done",
        (),
    ),
    "too many requests, always": (
        [Fault("status", 429, retry_after=0.01)] * 9,
        "failed",
        "Unavailable",
        (),
    ),
    "broken, once": ([Fault("status", 500)], "done", "Done: The work is done", ()),
    "broken, always": ([Fault("status", 500)] * 9, "failed", "Unavailable", ()),
    "dropped in mid-call, once": ([Fault("drop")], "done", "Done: The work is done", ()),
    "dropped in mid-call, always": ([Fault("drop")] * 9, "failed", "Unavailable", ()),
    "malformed arguments": ([Fault("malformed")], "done", "Done: The work is done", ("work_obs",)),
    "refusal": ([Fault("refusal")], "refused", "Refused: the model refused", ()),
    "context too long": ([Fault("context")], "failed", "Failed: ContextTooLong", ()),
    "empty, once": ([Fault("empty")], "done", "Done: The work is done", ("retry",)),
    "empty, always": (
        [Fault("empty")] * 9,
        "failed",
        "Failed: the model replied with nothing",
        ("retry",),
    ),
    "cut, once": ([Fault("length")], "done", "Done: The work is done", ("retry",)),
    "a wrong key": ([Fault("status", 401)], "failed", "Rejected", ()),
}


def work(step: int) -> str:
    """Do a part of it."""
    return f"part {step} is done"


def script(seen):
    return Move("I begin.", (("work", {"step": 1}),)) if seen.turn == 0 else "The work is done."


@pytest.fixture
def mem(tmp_path):
    with synapse.init(str(tmp_path / "ws")) as memory:
        memory.register(synapse.Agent("eng-a"))
        yield memory


def supervised(mem, server, name, task="Work"):
    url = server.url if name == "anthropic" else f"{server.url}/v1"
    engine = load(name, base_url=url, api_key="k", model=ENGINES[name], max_retries=2)
    with Supervisor(mem, engine=engine, tools=[work]) as supervisor:
        result = supervisor.run(Task(task, "eng-a", project="web"))
        lines = [
            json.loads(text)
            for text in supervisor.run_store.folder(supervisor.run_store.known(result.run)).lines(
                "ledger.jsonl"
            )
        ]
        return (result, lines, supervisor.run_store.costs.budget.standing(f"run:{result.run}"))


@pytest.mark.parametrize("fault", OUTCOMES)
@pytest.mark.parametrize("name", ENGINES)
def test_each_fault_has_a_defined_end(mem, name, fault):
    faults, status, says, labels = OUTCOMES[fault]
    with ModelServer(script) as server:
        server.fail(*faults)
        result, lines, standing = supervised(mem, server, name)
    assert result.status == status, result
    if says in ("Unavailable", "Rejected"):
        assert (result.entry, result.why[: len(says)], len(mem.as_agent("operator").read())) == (
            None,
            says,
            0,
        )
    else:
        entry = mem.as_agent("eng-a").get(result.entry)
        assert (entry.namespace, entry.body[: len(says)]) == ("status/web", says)
    assert {label for line in lines for label, *_ in line["in"]} >= set(labels)
    reported = sum(
        line["usage"]["input_tokens"] + line["usage"]["output_tokens"]
        for line in lines
        if line["usage"]
    )
    assert standing.reserved.tokens == 0
    assert standing.spent.tokens >= reported
    assert standing.spent.turns >= len(lines)


@pytest.mark.parametrize("name", ENGINES)
def test_what_a_dropped_stream_took_is_charged(mem, name):
    with ModelServer(script) as server:
        server.fail(*[Fault("drop")] * 9)
        result, lines, standing = supervised(mem, server, name)
    assert [line["stop"] for line in lines] == ["lost"]
    assert standing.spent.tokens >= lines[0]["usage"]["input_tokens"] > 0
    assert result.usage.estimated
