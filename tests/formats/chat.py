"""The wire format of Chat Completions, as OpenAI and compatible servers speak it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from orchestrator.engines.protocol import Call, Message, Tool
from orchestrator.engines.scripted import Seen
from scenarios.provider.formats import (
    Asked,
    Block,
    Event,
    Invalid,
    Said,
    compact,
    parsed,
    pieces,
    texts_of,
    tool_block,
    user_message,
)

MARKED = False
END = "[DONE]"
STOPS = {"done": "stop", "tools": "tool_calls", "length": "length", "refusal": "content_filter"}
CONTEXT = (
    "This model's maximum context length is {window} tokens. However, your messages"
    " resulted in {sent} tokens."
)


def read(body: Mapping[str, Any]) -> Asked:
    for needed in ("model", "messages"):
        if not body.get(needed):
            raise Invalid(f"Missing required parameter: '{needed}'.")
    raw = [tool["function"] for tool in body.get("tools") or () if tool.get("type") == "function"]
    tools = [
        Tool(tool["name"], tool.get("description", ""), tool.get("parameters", {})) for tool in raw
    ]
    blocks = [tool_block(tool) for tool in tools]
    system: list[str] = []
    messages: list[Message] = []
    open_calls: set[str] = set()
    for message in body["messages"]:
        role = message["role"]
        text = "\n".join(texts_of(message.get("content"), ("text",)))
        open_calls = _check(message, open_calls)
        blocks += [Block(role, text)] if text else []
        if role in ("system", "developer"):
            system.append(text)
        elif role == "assistant":
            calls = _calls(message)
            blocks += [Block("call", call.name + compact(call.arguments)) for call in calls]
            messages.append(Message("assistant", text, "work_out", calls))
        elif role == "tool":
            messages.append(Message("tool", text, "work_obs", answers=message["tool_call_id"]))
        else:
            messages.append(user_message(text))
    view = Seen("\n".join(system), tuple(messages), tuple(tools))
    return Asked(view, body["model"], bool(body.get("stream")), tuple(blocks))


def _check(message: Mapping[str, Any], open_calls: set[str]) -> set[str]:
    """Return the calls that are still to be answered after this message."""
    if message["role"] == "tool":
        if message["tool_call_id"] not in open_calls:
            raise Invalid(
                "messages with role 'tool' must be a response to a preceding message"
                " with 'tool_calls'."
            )
        return open_calls - {message["tool_call_id"]}
    if open_calls:
        raise Invalid(
            f"tool_call_ids did not have response messages: {', '.join(sorted(open_calls))}"
        )
    return {call["id"] for call in message.get("tool_calls") or ()}


def _calls(message: Mapping[str, Any]) -> tuple[Call, ...]:
    raw = message.get("tool_calls") or ()
    return tuple(
        Call(call["id"], call["function"]["name"], parsed(call["function"]["arguments"]))
        for call in raw
    )


def _usage(reply: Said) -> dict[str, Any]:
    used = reply.used
    usage = {
        "prompt_tokens": used.sent,
        "completion_tokens": used.out,
        "total_tokens": used.sent + used.out,
    }
    return {**usage, "prompt_tokens_details": {"cached_tokens": used.read}}


def _head(reply: Said, kind: str) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{reply.id}",
        "object": kind,
        "created": 1_760_000_000,
        "model": reply.model,
    }


def whole(reply: Said, asked: Asked) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": reply.text or None}
    if reply.stop == "refusal":
        message |= {"content": None, "refusal": reply.text}
    if reply.calls:
        message["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in reply.calls
        ]
    choice = {"index": 0, "message": message, "finish_reason": STOPS[reply.stop], "logprobs": None}
    return {**_head(reply, "chat.completion"), "choices": [choice], "usage": _usage(reply)}


def events(reply: Said, asked: Asked) -> Iterator[Event]:
    said_as = "refusal" if reply.stop == "refusal" else "content"
    yield _chunk(reply, {"role": "assistant", "content": ""})
    for piece in pieces(reply.text):
        yield _chunk(reply, {said_as: piece}, of="text")
    for index, call in enumerate(reply.calls):
        start = {
            "index": index,
            "id": call.id,
            "type": "function",
            "function": {"name": call.name, "arguments": ""},
        }
        yield _chunk(reply, {"tool_calls": [start]}, of="arguments")
        for piece in pieces(call.arguments):
            yield _chunk(
                reply,
                {"tool_calls": [{"index": index, "function": {"arguments": piece}}]},
                of="arguments",
            )
    yield _chunk(reply, {}, STOPS[reply.stop])
    yield Event(
        None, {**_head(reply, "chat.completion.chunk"), "choices": [], "usage": _usage(reply)}
    )


def _chunk(reply: Said, delta: dict[str, Any], finish: str | None = None, of: str = "") -> Event:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return Event(None, {**_head(reply, "chat.completion.chunk"), "choices": [choice]}, of)


def failure(status: int, message: str, *, context: bool = False) -> dict[str, Any]:
    kind = (
        "server_error"
        if status >= 500
        else "requests"
        if status == 429
        else "invalid_request_error"
    )
    code = (
        "context_length_exceeded" if context else "rate_limit_exceeded" if status == 429 else None
    )
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def failure_event(message: str) -> Event:
    return Event(None, failure(502, message))
