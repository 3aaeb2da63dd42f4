"""The MCP server answers with what `authority.visible` allows to the agent of the request."""

import asyncio

import pytest

from tests.gate.world import GHOST, GHOST_MESSAGE, MAIL, READERS, samples, world_at


@pytest.fixture(scope="module")
def told():
    """A world whose readers may be noted as having been shown what they were given."""
    found = world_at(None)
    yield found
    found.mem.close()


async def walk_server(world, reader, served=None):
    """What a client that acts as the reader is told: each with whether it stands in a review; and
    what it is told of each hidden entry, which is what it is told of one that is not there.
    """
    from mcp import Client
    from mcp.shared.exceptions import MCPError

    from synapse.mcp.offer import offer
    from synapse.mcp.server import build

    given, apart = [], []
    async with Client(
        build(lambda caller: world.mem.as_agent(served or reader), offer())
    ) as client:

        async def call(name, **arguments):
            return (await client.call_tool(name, arguments)).content[0].text

        async def resource(uri):
            try:
                return (await client.read_resource(uri, cache_mode="bypass")).contents[0].text
            except MCPError as error:
                return str(error)

        given += [
            await call("read", namespace=glob, since="9d")
            for glob in ("api/*", "vault/*", "blockers/*")
        ]
        given += [await call("memory_search", query="common", top_k=100) for _ in range(2)]
        given += [
            await call("briefing", task="common", budget=10_000),
            await call("read"),
            await call("inbox"),
        ]
        given += [await resource(f"synapse://view/{name}") for name in READERS]
        given.append(
            (await client.get_prompt("briefing", {"task": "common"})).messages[0].content.text
        )
        for known in samples(world, reader):
            ghost = GHOST_MESSAGE if known.state in MAIL else GHOST
            for ask in (
                lambda id: call("read", id=id),
                lambda id: call("ack", ids=[id]),
                lambda id: call("send", re=id, body="text"),
                lambda id: call("append", namespace="api", body="text", supersedes=id),
                lambda id: resource(f"synapse://entry/{id}"),
            ):
                apart.append(
                    (known, await ask(known.id), (await ask(ghost)).replace(ghost, known.id))
                )
            given.append((await call("memory_search", query=known.word)).replace(known.word, ""))
        wanted = [f"synapse://entry/{known.id}" for known in samples(world, reader)]
        async with client.listen(
            resource_subscriptions=[*wanted, *(f"synapse://view/{name}" for name in READERS)]
        ) as open:
            honored = open.honored.resource_subscriptions or []
        own = READERS if reader == "operator" else (reader,)
        apart.append((None, sorted(honored), sorted(f"synapse://view/{name}" for name in own)))
    return given, apart


@pytest.mark.parametrize("reader", READERS)
def test_every_answer_of_the_mcp_server_passes_the_gate(told, reader):
    given, apart = asyncio.run(walk_server(told, reader))
    assert [leaked for text in given if (leaked := told.leaks(reader, text))] == []
    assert [each for each in apart if each[1] != each[2]] == []


def test_the_walk_finds_a_server_that_acts_as_another(told):
    given, apart = asyncio.run(walk_server(told, "eng-c", served="cto"))
    assert [text for text in given if told.leaks("eng-c", text)]
    assert [each for each in apart if each[1] != each[2]]
