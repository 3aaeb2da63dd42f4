"""What OpenAI's engines send and understand, as the server's journal has it; and the lines for
other servers.
"""

import asyncio
import json

import pytest

from orchestrator.engines.openai_chat import conversation
from orchestrator.engines.protocol import Call, Message, Request, Tool, Usage, load
from orchestrator.engines.scripted import Move
from tests.model_server import ModelServer

CALLS = Move("I look.", (("read", {"limit": 3}), ("read", {"limit": 4})))
REASONING = {"reasoning": {"effort": "low"}}


def said(turn):
    return Message(
        "assistant", turn.text, "work_out", turn.calls, native=json.loads(json.dumps(turn.native))
    )


def result(call):
    return Message("tool", "nothing", "work_obs", answers=call.id)


def step_with(request, name="openai-chat", **options):
    async def step():
        engine = load(name, **options)
        try:
            return await engine.step(request, asyncio.Event()), await engine.count(request)
        finally:
            await engine.close()

    return asyncio.run(asyncio.wait_for(step(), 20))


def test_nothing_is_kept_at_the_provider(server, take):
    take("openai")
    body = server.journal[-1].body
    assert (body["store"], body["include"], body["stream"]) == (
        False,
        ["reasoning.encrypted_content"],
        True,
    )
    assert (body["instructions"], body["max_output_tokens"]) == ("You are.", 50)
    assert [item["role"] for item in body["input"]] == ["user", "user"]
    assert body["tools"][0]["strict"] is False


def test_reasoning_goes_back_as_it_came(server, take):
    server.script = lambda seen: CALLS if seen.turn < 1 else "Done."
    turn = take("openai", parameters=REASONING)
    kinds = [item["type"] for item in turn.native["openai"]]
    assert kinds == ["reasoning", "message", "function_call", "function_call"]
    assert (
        take("openai", said(turn), *map(result, turn.calls), parameters=REASONING).text == "Done."
    )
    assert server.journal[-1].body["input"][2:6] == turn.native["openai"]


def test_a_model_that_does_not_reason_is_asked_again_without(server):
    request = Request("You are.", (Message("user", "Hi", "task"),), model="gpt-4o")
    turn, counted = step_with(request, "openai", base_url=f"{server.url}/v1", api_key="any")
    assert (turn.text, counted) == ("Done.", len("You are.Hi"))
    assert ["include" in taken.body for taken in server.journal[:2]] == [True, False]


def test_what_text_and_calls_tell_is_not_kept_twice(server, take):
    server.script = lambda seen: CALLS
    turn = take("openai")
    assert turn.native is None
    old = Message("assistant", "I began.", "work_out", native={"anthropic": [{"type": "thinking"}]})
    take("openai", old, said(turn), *map(result, turn.calls))
    assert server.journal[-1].body["input"][2] == {"role": "assistant", "content": "I began."}


@pytest.mark.parametrize("engine", ["openai", "openai-chat"])
def test_usage_is_the_provider_s(take, engine):
    more = Message("user", "x" * 500, "history")
    first = take(engine, more, tools=()).usage
    sent = (
        len(
            "You are."
            + "## Shared Memory Context\n\n- use /v2/users"
            + "## Your Task\n\nFix the page"
        )
        + 500
    )
    assert first._replace(input_tokens=0) == Usage(0, len("Done."))
    assert abs(first.input_tokens - sent) <= 4, "chat joins a user's messages"
    assert take(engine, more, tools=()).usage.cached_tokens == first.input_tokens // 128 * 128


def test_a_server_without_the_count_has_none(server, monkeypatch):
    replies = tuple(format for format in ModelServer.formats if not format[2])
    monkeypatch.setattr(ModelServer, "formats", replies)
    request = Request("You are.", (Message("user", "Hi", "task"),), model="m")
    assert step_with(request, "openai", base_url=f"{server.url}/v1", api_key="any")[1] is None


# -- Chat Completions, for other servers -----------------------------------------------------------


@pytest.mark.parametrize(
    ("server_name", "path", "model", "key"),
    [
        ("Ollama", "/v1", "llama3", None),
        ("vLLM", "/v1", "Qwen/Qwen3-8B", None),
        ("OpenRouter", "/api/v1", "meta-llama/llama-3.3-70b-instruct", "sk-or-mine"),
    ],
)
def test_a_compatible_server_takes_one_line(server, monkeypatch, server_name, path, model, key):
    """OPENAI_BASE_URL=http://localhost:11434/v1 orchestrator run --engine openai-chat --model
    llama3 ...
    """
    monkeypatch.setenv("OPENAI_BASE_URL", server.url + path)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    if key:
        monkeypatch.setenv("OPENAI_API_KEY", key)
    server.script = lambda seen: CALLS
    tool = Tool("read", "Reads.", {"type": "object", "properties": {}})
    turn, counted = step_with(Request("You are.", (Message("user", "Hi", "task"),), (tool,), model))
    assert (turn.text, len(turn.calls), turn.stop, turn.model, counted) == (
        "I look.",
        2,
        "tools",
        model,
        None,
    )
    taken = server.journal[-1]
    assert (taken.path, taken.headers["authorization"]) == (
        f"{path}/chat/completions",
        f"Bearer {key or 'none'}",
    )
    assert (taken.body["max_tokens"], taken.body["stream_options"]) == (
        8_192,
        {"include_usage": True},
    )


def test_roles_alternate_and_results_follow_their_calls():
    request = Request(
        "You are.",
        (
            Message("user", "view", "view"),
            Message("user", "task", "task"),
            Message("assistant", "", "work_out"),
            Message("assistant", "", "work_out", (Call("a", "read", {"x": "é"}),)),
            Message("user", "wake", "wake"),
            Message("tool", "one", "work_obs", answers="a"),
        ),
    )
    assert conversation(request) == [
        {"role": "system", "content": "You are."},
        {"role": "user", "content": "view\n\ntask"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "a",
                    "type": "function",
                    "function": {"name": "read", "arguments": '{"x": "é"}'},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "a", "content": "one"},
        {"role": "user", "content": "wake"},
    ]
