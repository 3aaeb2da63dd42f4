"""A server on loopback, and one step of an engine against it."""

import asyncio

import pytest

from orchestrator.engines.protocol import EngineError, Message, Request, Tool, load
from tests.model_server import ModelServer

READ = Tool("read", "Reads.", {"type": "object", "properties": {"limit": {"type": "integer"}}})
PROMPT = (
    Message("user", "## Shared Memory Context\n\n- use /v2/users", "view"),
    Message("user", "## Your Task\n\nFix the page", "task"),
)


@pytest.fixture
def server():
    """Everything is cached there, however short it is, and a token is a character."""
    with ModelServer(lambda seen: "Done.", count=len, cache_minimum=0) as server:
        yield server
        assert server.left(60)


@pytest.fixture
def take(server):
    """One step against the server: a turn, or the error that the engine raised."""

    def taken(
        engine, *messages, key="run-1/3", system="You are.", tools=(READ,), model="m", **options
    ):
        below = "" if engine == "anthropic" else "/v1"
        options = {"base_url": server.url + below, "api_key": "any", "max_retries": 2} | options
        request = Request(system, (*PROMPT, *messages), tools, model, max_tokens=50, key=key)

        async def step():
            made = load(engine, **options)
            try:
                return await made.step(request, asyncio.Event())
            except EngineError as error:
                return error
            finally:
                await made.close()

        return asyncio.run(asyncio.wait_for(step(), 120))

    return taken
