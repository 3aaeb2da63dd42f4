"""The contract of an engine, on every engine there is; those with a provider against a real server
on loopback.
"""

import pytest

from orchestrator.engines.protocol import Turn, load
from orchestrator.engines.scripted import Scripted
from orchestrator.testing.contract import EngineContract
from tests.model_server import ModelServer


class TestScripted(EngineContract):
    def make_engine(self, script):
        return Scripted(script)


class Served(EngineContract):
    engine = ""
    below = ""
    parameters = ()

    @pytest.fixture(autouse=True)
    def _served(self):
        with ModelServer(cache_minimum=0) as self.provider:
            yield

    def make_engine(self, script):
        self.provider.script = script
        url = self.provider.url + self.below
        return load(
            self.engine,
            base_url=url,
            api_key="any",
            max_retries=2,
            parameters=dict(self.parameters),
        )


class TestAnthropic(Served):
    engine = "anthropic"


class TestAnthropicThinking(Served):
    engine = "anthropic"
    parameters = (("thinking", {"type": "adaptive"}),)


class TestOpenAI(Served):
    engine = "openai"
    below = "/v1"


class TestOpenAIReasoning(TestOpenAI):
    parameters = (("reasoning", {"effort": "low"}),)


class TestOpenAIChat(Served):
    engine = "openai-chat"
    below = "/v1"


class Silent(Scripted):
    """An engine that loses what it was told."""

    async def step(self, request, interrupt):
        return Turn("", stop="done", model="silent")


@pytest.mark.parametrize(
    ("kind", "test"),
    [
        (Silent, "test_says_text"),
        (Silent, "test_usage_is_what_the_provider_reports"),
        (Silent, "test_a_step_may_be_empty_cut_or_refused"),
        (Silent, "test_tools_are_called_and_their_results_seen"),
        (Silent, "test_an_interrupted_step_ends_soon"),
    ],
)
def test_the_contract_catches_an_engine_that_breaks_it(kind, test):
    class Broken(EngineContract):
        def make_engine(self, script):
            return kind(script)

    with pytest.raises(AssertionError):
        getattr(Broken(), test)()
