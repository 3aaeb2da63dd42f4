"""Spans follow the conventions where a provider is configured, and are nothing elsewhere."""

import asyncio
import subprocess
import sys
import time

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes

from orchestrator.engines.protocol import Unavailable, Usage
from orchestrator.turns import telemetry

KNOWN = {
    getattr(gen_ai_attributes, name)
    for name in dir(gen_ai_attributes)
    if name.startswith("GEN_AI_")
}
ALONE = """
import sys, time
from orchestrator.turns import telemetry
with telemetry.run_span("r", "a", provider="x") as span, telemetry.tool_span("r", "a", "t", "c") as inner:
    span.tell(x=1), inner.failed("Error"), span.used(telemetry.Usage(1))
print("opentelemetry" in sys.modules)
"""


@pytest.fixture(scope="module")
def exporter():
    made = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(made))
    trace.set_tracer_provider(provider)
    return made


@pytest.fixture
def spans(exporter):
    exporter.clear()
    return lambda: {span.name: span for span in exporter.get_finished_spans()}


def test_a_run_its_steps_and_its_tools(spans):
    async def run():
        with telemetry.run_span("run-1", "eng", provider="anthropic", model="m") as whole:
            with telemetry.step_span("run-1", "eng", 3, provider="anthropic", model="m") as step:
                await asyncio.sleep(0)
                step.used(Usage(100, 20, cached_tokens=80), cost=0.25)
                step.tell(gen_ai__response__finish_reasons=("tools",))
            with telemetry.tool_span("run-1", "eng", "read", "call-1"):
                await asyncio.sleep(0)
            whole.used(Usage(100, 20))

    asyncio.run(run())
    found = spans()
    assert set(found) == {"invoke_agent eng", "chat m", "execute_tool read"}
    run = found["invoke_agent eng"]
    step = found["chat m"]
    tool = found["execute_tool read"]
    assert step.parent.span_id == tool.parent.span_id == run.context.span_id
    assert (run.kind.name, step.kind.name, tool.kind.name) == ("INTERNAL", "CLIENT", "INTERNAL")
    assert dict(step.attributes) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "anthropic",
        "gen_ai.request.model": "m",
        "gen_ai.agent.name": "eng",
        "gen_ai.conversation.id": "run-1",
        "gen_ai.usage.input_tokens": 100,
        "gen_ai.usage.output_tokens": 20,
        "gen_ai.usage.cache_read.input_tokens": 80,
        "gen_ai.response.finish_reasons": ("tools",),
        "synapse.cost_usd": 0.25,
        "synapse.step": 3,
    }
    assert run.attributes["gen_ai.operation.name"] == "invoke_agent"
    assert tool.attributes["gen_ai.tool.name"] == "read"
    names = {
        name for span in found.values() for name in span.attributes if name.startswith("gen_ai.")
    }
    assert names <= KNOWN


def test_an_error_is_told_by_its_kind_and_never_by_its_text(spans):
    def fail():
        with telemetry.step_span("run-1", "eng", 0, provider="openai", model=None):
            raise Unavailable("the secret text of an entry")

    with pytest.raises(Unavailable):
        fail()
    with telemetry.tool_span("run-1", "eng", "read", "c") as span:
        span.failed("timeout")
    found = spans()
    assert {name: span.attributes["error.type"] for name, span in found.items()} == {
        "chat": "Unavailable",
        "execute_tool read": "timeout",
    }
    assert {span.status.status_code.name for span in found.values()} == {"ERROR"}
    assert not any("secret" in span.to_json() for span in found.values())


def test_nothing_is_loaded_where_nothing_is_configured():
    done = subprocess.run([sys.executable, "-c", ALONE], capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stdout, done.stderr) == (0, "False\n", "")


def test_silence_is_cheap(monkeypatch):
    monkeypatch.delitem(sys.modules, "opentelemetry.trace")
    start = time.thread_time()
    for _ in range(1_000):
        with telemetry.step_span("r", "a", 0, provider="x", model="m") as span:
            span.used(Usage(1, 1))
    assert time.thread_time() - start < 0.5
