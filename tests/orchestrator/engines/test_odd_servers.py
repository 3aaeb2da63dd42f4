"""Replies as servers that are not strict about the format give them, byte for byte."""

import asyncio
import json

from orchestrator.engines.protocol import EngineError, Message, Request, Unavailable, Usage, load

REQUEST = Request("You are.", (Message("user", "Hi", "task"),), model="m")


def take(name, *events, below="/v1", end=True):
    """A step against a server that says just these events to everybody; asked over one connection
    each.
    """
    lines = [
        f"data: {event if isinstance(event, str) else json.dumps(event)}\n\n".encode()
        for event in events
    ]
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
    asked = []

    async def serve(reader, writer):
        head_of_request = await reader.readuntil(b"\r\n\r\n")
        size = int(head_of_request.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        asked.append(json.loads(await reader.readexactly(size)))
        writer.write(head + b"".join(lines))
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    async def step():
        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            engine = load(
                name, base_url=f"http://127.0.0.1:{port}{below}", api_key="any", max_retries=0
            )
            try:
                return await engine.step(REQUEST, asyncio.Event())
            except EngineError as error:
                return error
            finally:
                await engine.close()

    return asyncio.run(asyncio.wait_for(step(), 20)), len(asked)


def chunk(finish=None, **delta):
    return {
        "id": "1",
        "object": "chat.completion.chunk",
        "choices": [{"delta": delta, "finish_reason": finish}],
    }


def called(name, arguments, **more):
    return {**more, "function": {"name": name, "arguments": arguments}}


def test_calls_without_ids_get_some():
    calls = [called("read", '{"n": 1}', index=0), called("read", '{"n": 2}', index=1)]
    turn, _ = take("openai-chat", chunk(tool_calls=calls), chunk("stop"), "[DONE]")
    assert [(call.id, call.arguments) for call in turn.calls] == [
        ("call-0-0", {"n": 1}),
        ("call-0-1", {"n": 2}),
    ]
    assert turn.stop == "tools"


def test_calls_that_share_an_index_are_told_by_their_ids():
    first = called("read", '{"n": 1}', index=0, id="a")
    second = called("read", '{"n": 2}', index=0, id="b")
    turn, _ = take(
        "openai-chat",
        chunk(tool_calls=[first]),
        chunk(tool_calls=[second]),
        chunk("tool_calls"),
        "[DONE]",
    )
    assert [(call.id, call.arguments) for call in turn.calls] == [("a", {"n": 1}), ("b", {"n": 2})]


def test_without_a_report_usage_is_estimated():
    turn, _ = take("openai-chat", chunk(content="word " * 40), chunk("stop"), "[DONE]")
    assert (turn.usage.estimated, turn.usage.output_tokens) == (True, 50)
    assert turn.usage.input_tokens > 5


def test_what_the_server_says_that_it_cost_is_kept():
    usage = {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12, "cost": 0.0021}
    turn, _ = take(
        "openai-chat",
        chunk(content="ok"),
        chunk("stop"),
        {**chunk(), "choices": [], "usage": usage},
    )
    assert turn.usage == Usage(9, 3, cost=0.0021)


def test_arguments_that_are_no_object_are_a_problem():
    calls = [
        called("read", text, index=n, id=str(n))
        for n, text in enumerate(("[1]", "null", '"x"', "", "{"))
    ]
    turn, _ = take("openai-chat", chunk(tool_calls=calls), chunk("tool_calls"), "[DONE]")
    assert [bool(call.problem) for call in turn.calls] == [True, True, True, False, True]
    assert all(call.arguments == {} for call in turn.calls)


def test_a_clean_end_before_the_reply_s_own_is_a_break():
    for name, event in (
        ("openai-chat", chunk(content="I beg")),
        (
            "openai",
            {
                "type": "response.output_text.delta",
                "delta": "I beg",
                "item_id": "1",
                "output_index": 0,
            },
        ),
    ):
        found, asked = take(name, event)
        assert (type(found), asked) == (Unavailable, 3)
        assert found.usage.output_tokens == 6, "two for each attempt"


def test_an_error_in_the_middle_is_told_by_its_code():
    passing = {"error": {"code": 502, "message": "the provider is overloaded"}}
    final = {"error": {"code": 402, "message": "no credit left"}}
    assert take("openai-chat", chunk(content="I"), passing)[1] == 3
    found, asked = take("openai-chat", chunk(content="I"), final)
    assert (asked, "no credit left" in str(found)) == (1, True)


def test_a_failed_response_is_told():
    failed = {"id": "1", "object": "response", "model": "m", "output": [], "status": "failed"}
    for code, asks in (("server_error", 3), ("context_length_exceeded", 1)):
        response = {**failed, "error": {"code": code, "message": "why"}}
        found, asked = take(
            "openai", {"type": "response.failed", "response": response, "sequence_number": 0}
        )
        assert (isinstance(found, EngineError), asked) == (True, asks)
