"""What Anthropic's engine sends and understands, as the server's journal has it."""

import asyncio
import json
from itertools import pairwise

import pytest

from orchestrator.engines.anthropic import conversation
from orchestrator.engines.protocol import Call, Message, Request, Usage, load
from orchestrator.engines.scripted import Move

CALLS = Move("I look.", (("read", {"limit": 3}), ("read", {"limit": 4})))
THINKING = {"thinking": {"type": "adaptive"}}


def said(turn):
    return Message(
        "assistant", turn.text, "work_out", turn.calls, native=json.loads(json.dumps(turn.native))
    )


def result(call, text="nothing"):
    return Message("tool", text, "work_obs", answers=call.id)


def marked(body):
    """The texts that end at a mark, the provider's order of a prompt: tools, system, messages."""
    parts = [*body.get("tools", ()), *body.get("system", ())]
    parts += [part for message in body["messages"] for part in message["content"]]
    return [part.get("text", part.get("content")) for part in parts if "cache_control" in part]


def test_the_stable_parts_are_marked(server, take):
    server.script = lambda seen: CALLS if seen.turn < 2 else "Done."
    first = take("anthropic")
    body = server.journal[-1].body
    assert [part["text"] for part in body["messages"][0]["content"]] == [
        "## Shared Memory Context\n\n- use /v2/users",
        "## Your Task\n\nFix the page",
    ]
    system, view, task = ("You are.", *(part["text"] for part in body["messages"][0]["content"]))
    assert marked(body) == [system, view, task]
    history = [said(first), *(result(call, "one") for call in first.calls)]
    second = take("anthropic", *history)
    assert marked(server.journal[-1].body) == [system, view, task, "one"]
    history += [
        said(second),
        *(result(call, "two") for call in second.calls),
        Message("user", "Critical.", "wake"),
    ]
    take("anthropic", *history)
    assert marked(server.journal[-1].body) == [system, view, "one", "Critical."]


def test_all_that_was_sent_before_is_read_from_the_cache(server, take):
    server.script = lambda seen: CALLS if seen.turn < 4 else "Done."
    history, turns = [], []
    for _ in range(5):
        turns.append(take("anthropic", *history))
        history += [said(turns[-1]), *(result(call, "x" * 500) for call in turns[-1].calls)]
    for before, after in pairwise(turns):
        assert after.usage.cached_tokens == before.usage.cached_tokens + before.usage.written_tokens
        assert after.usage.input_tokens == after.usage.cached_tokens + after.usage.written_tokens
    assert [turn.usage.cached_tokens > 0 for turn in turns] == [False, True, True, True, True]


def test_agents_with_other_views_share_the_system_prompt(server, take):
    take("anthropic", system="You are. " * 50)
    view, task = conversation_of(server.journal[-1])
    other = Message("user", view + "\n- another entry", "view")
    request = Request("You are. " * 50, (other, Message("user", task, "task")), model="m")
    turn = asyncio.run(once(server, request))
    assert turn.usage.cached_tokens == 0, "the tools come first, and this agent has none"
    again = asyncio.run(
        once(server, request._replace(messages=(other, Message("user", "Other.", "task"))))
    )
    assert again.usage.cached_tokens == len(request.system + other.text)


def conversation_of(taken):
    return [part["text"] for part in taken.body["messages"][0]["content"]]


async def once(server, request):
    engine = load("anthropic", base_url=server.url, api_key="any")
    try:
        return await engine.step(request, asyncio.Event())
    finally:
        await engine.close()


def test_thinking_goes_back_as_it_came(server, take):
    server.script = lambda seen: CALLS if seen.turn < 1 else "Done."
    turn = take("anthropic", parameters=THINKING)
    assert [part["type"] for part in turn.native["anthropic"]] == [
        "thinking",
        "text",
        "tool_use",
        "tool_use",
    ]
    assert (
        take("anthropic", said(turn), *map(result, turn.calls), parameters=THINKING).text == "Done."
    )
    assert server.journal[-1].body["messages"][1]["content"] == turn.native["anthropic"]
    assert server.journal[-1].body["thinking"] == {"type": "adaptive"}


def test_what_text_and_calls_tell_is_not_kept_twice(server, take):
    server.script = lambda seen: CALLS
    turn = take("anthropic")
    assert turn.native is None
    take("anthropic", said(turn), *map(result, turn.calls))
    assert [part["type"] for part in server.journal[-1].body["messages"][1]["content"]] == [
        "text",
        *["tool_use"] * 2,
    ]


def test_another_provider_s_native_form_is_left_alone(server, take):
    old = Message("assistant", "I began.", "work_out", native={"openai": [{"type": "reasoning"}]})
    take("anthropic", old, Message("user", "Go on.", "wake"))
    assert server.journal[-1].body["messages"][1]["content"] == [
        {"type": "text", "text": "I began."}
    ]


def test_usage_is_the_provider_s(take):
    found = take("anthropic", tools=()).usage
    sent = len(
        "You are." + "## Shared Memory Context\n\n- use /v2/users" + "## Your Task\n\nFix the page"
    )
    assert found == Usage(sent, len("Done."), 0, sent)


def test_failed_results_are_marked_and_empty_texts_left_out():
    request = Request(
        "",
        (
            Message("user", "task", "task"),
            Message("assistant", "", "work_out"),
            Message("assistant", " ", "work_out", (Call("a", "read", {}),)),
            Message("user", "wake", "wake"),
            Message("tool", "Error: no", "work_obs", answers="a", failed=True),
        ),
    )
    found = conversation(request)
    assert "system" not in found
    assert [message["role"] for message in found["messages"]] == ["user", "assistant", "user"]
    assert found["messages"][1]["content"] == [
        {"type": "tool_use", "id": "a", "name": "read", "input": {}}
    ]
    assert [part["type"] for part in found["messages"][2]["content"]] == ["tool_result", "text"]
    assert found["messages"][2]["content"][0]["is_error"] is True


@pytest.mark.parametrize("parameters", [{}, THINKING])
def test_its_count_is_the_provider_s(server, parameters):
    async def counted():
        engine = load(
            "anthropic", base_url=server.url, api_key="any", model="m", parameters=parameters
        )
        try:
            return await engine.count(Request("You are.", (Message("user", "Hi", "task"),)))
        finally:
            await engine.close()

    assert asyncio.run(counted()) == len("You are.Hi")
    assert server.journal[-1].path.startswith("/v1/messages/count_tokens")


def test_the_address_and_the_key_are_the_sdk_s_own(server, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "mine")

    async def step():
        engine = load("anthropic", model="m")
        try:
            return await engine.step(Request("", (Message("user", "Hi", "task"),)), asyncio.Event())
        finally:
            await engine.close()

    assert asyncio.run(step()).text == "Done."
    assert server.journal[-1].headers["authorization"] == "Bearer mine"
