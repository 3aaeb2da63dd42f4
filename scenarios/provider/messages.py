"""The wire format of Anthropic's Messages. Pure.

It is as strict as the provider where a client is easily wrong: every call is answered in the next
message, thinking comes back as it was signed, no text is empty, at most four marks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
    signed,
    texts_of,
    tool_block,
    user_message,
)

MARKED = True
END = None
STOPS = {"done": "end_turn", "tools": "tool_use", "length": "max_tokens", "refusal": "refusal"}
CONTEXT = "prompt is too long: {sent} tokens > {window} maximum"


def read(body: Mapping[str, Any]) -> Asked:
    for needed in ("model", "messages"):
        if not body.get(needed):
            raise Invalid(f"{needed}: Field required")
    system = body.get("system") or []
    parts = [{"type": "text", "text": system}] if isinstance(system, str) else system
    tools = [
        Tool(tool["name"], tool.get("description", ""), tool.get("input_schema", {}))
        for tool in _tools(body)
    ]
    blocks = [
        tool_block(tool)._replace(mark="cache_control" in raw)
        for tool, raw in zip(tools, _tools(body), strict=True)
    ]
    blocks += [Block("system", item["text"], "cache_control" in item) for item in parts]
    messages: list[Message] = []
    open_calls: set[str] = set()
    for message in body["messages"]:
        content = message["content"]
        listed = [{"type": "text", "text": content}] if isinstance(content, str) else content
        open_calls = _check(message["role"], listed, open_calls)
        blocks += [_block(message["role"], item) for item in listed]
        messages += _assistant(listed) if message["role"] == "assistant" else _user(listed)
    if open_calls:
        raise Invalid(
            f"tool_use ids were found without tool_result blocks: {', '.join(sorted(open_calls))}"
        )
    if sum(block.mark for block in blocks) > 4:
        raise Invalid("A maximum of 4 blocks with cache_control may be provided.")
    view = Seen("\n".join(item["text"] for item in parts), tuple(messages), tuple(tools))
    thinks = (body.get("thinking") or {}).get("type") in ("enabled", "adaptive")
    return Asked(view, body["model"], bool(body.get("stream")), tuple(blocks), thinks)


def _tools(body: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [tool for tool in body.get("tools") or () if "input_schema" in tool]


def _check(role: str, parts: Sequence[Mapping[str, Any]], open_calls: set[str]) -> set[str]:
    """Refuse what the provider refuses, and return the calls that the next message has to
    answer.
    """
    answered = {item["tool_use_id"] for item in parts if item["type"] == "tool_result"}
    if answered != open_calls:
        raise Invalid(
            f"tool_result blocks answer {sorted(answered)} where {sorted(open_calls)} was called"
        )
    first = [item["type"] == "tool_result" for item in parts]
    if first != sorted(first, reverse=True):
        raise Invalid("tool_result blocks must come first in the content")
    for item in parts:
        if item["type"] == "text" and not item["text"].strip():
            raise Invalid("messages: text content blocks must contain non-whitespace text")
        if item["type"] == "thinking" and item.get("signature") != signed(item["thinking"]):
            raise Invalid("messages: Invalid `signature` in `thinking` block")
    return (
        {item["id"] for item in parts if item["type"] == "tool_use"}
        if role == "assistant"
        else set()
    )


def _block(role: str, part: Mapping[str, Any]) -> Block:
    match part["type"]:
        case "tool_use":
            text = part["name"] + compact(part["input"])
        case "tool_result":
            text = "".join(texts_of(part.get("content"), ("text",)))
        case "thinking":
            text = part["thinking"]
        case _:
            text = part.get("text", "")
    return Block(f"{role} {part['type']}", text, "cache_control" in part)


def _user(parts: Sequence[Mapping[str, Any]]) -> Iterator[Message]:
    for item in parts:
        if item["type"] == "tool_result":
            text = "\n".join(texts_of(item.get("content"), ("text",)))
            failed = bool(item.get("is_error"))
            yield Message("tool", text, "work_obs", answers=item["tool_use_id"], failed=failed)
        elif item["type"] == "text":
            yield user_message(item["text"])


def _assistant(parts: Sequence[Mapping[str, Any]]) -> Iterator[Message]:
    calls = tuple(
        Call(item["id"], item["name"], item["input"])
        for item in parts
        if item["type"] == "tool_use"
    )
    text = "".join(item["text"] for item in parts if item["type"] == "text")
    yield Message("assistant", text, "work_out", calls)


def _usage(reply: Said, out: int) -> dict[str, int]:
    return {
        "input_tokens": reply.used.fresh,
        "cache_creation_input_tokens": reply.used.written,
        "cache_read_input_tokens": reply.used.read,
        "output_tokens": out,
    }


def _head(reply: Said) -> dict[str, Any]:
    head = {"id": f"msg_{reply.id}", "type": "message", "role": "assistant", "model": reply.model}
    return {**head, "stop_sequence": None}


def whole(reply: Said, asked: Asked) -> dict[str, Any]:
    content: list[dict[str, Any]] = []
    if reply.thought is not None:
        content.append(
            {"type": "thinking", "thinking": reply.thought, "signature": signed(reply.thought)}
        )
    if reply.text:
        content.append({"type": "text", "text": reply.text})
    for call in reply.calls:
        content.append(
            {"type": "tool_use", "id": call.id, "name": call.name, "input": parsed(call.arguments)}
        )
    usage = _usage(reply, reply.used.out)
    return {**_head(reply), "content": content, "stop_reason": STOPS[reply.stop], "usage": usage}


def events(reply: Said, asked: Asked) -> Iterator[Event]:
    start = {**_head(reply), "content": [], "stop_reason": None, "usage": _usage(reply, 1)}
    yield _event("message_start", message=start)
    for index, part in enumerate(_parts(reply)):
        opening, deltas, of = part
        yield _event("content_block_start", index=index, content_block=opening)
        for delta in deltas:
            yield _event("content_block_delta", of, index=index, delta=delta)
        yield _event("content_block_stop", index=index)
    ended = {"stop_reason": STOPS[reply.stop], "stop_sequence": None}
    yield _event("message_delta", delta=ended, usage={"output_tokens": reply.used.out})
    yield _event("message_stop")


def _parts(reply: Said) -> Iterator[tuple[dict[str, Any], list[dict[str, str]], str]]:
    """Yield each block: how it begins, what is added to it, and what that is."""
    if reply.thought is not None:
        thinking = [
            {"type": "thinking_delta", "thinking": piece} for piece in pieces(reply.thought)
        ]
        thinking.append({"type": "signature_delta", "signature": signed(reply.thought)})
        yield {"type": "thinking", "thinking": "", "signature": ""}, thinking, ""
    if reply.text:
        deltas = [{"type": "text_delta", "text": piece} for piece in pieces(reply.text)]
        yield {"type": "text", "text": ""}, deltas, "text"
    for call in reply.calls:
        start = {"type": "tool_use", "id": call.id, "name": call.name, "input": {}}
        deltas = [
            {"type": "input_json_delta", "partial_json": piece}
            for piece in ("", *pieces(call.arguments))
        ]
        yield start, deltas, "arguments"


def _event(name: str, of: str = "", /, **data: Any) -> Event:
    return Event(name, {"type": name, **data}, of)


def counted(tokens: int) -> dict[str, Any]:
    return {"input_tokens": tokens}


def failure(status: int, message: str, *, context: bool = False) -> dict[str, Any]:
    kinds = {400: "invalid_request_error", 401: "authentication_error", 404: "not_found_error"}
    kinds |= {429: "rate_limit_error", 529: "overloaded_error"}
    kind = kinds.get(status, "api_error" if status >= 500 else "invalid_request_error")
    return {"type": "error", "error": {"type": kind, "message": message}}


def failure_event(message: str) -> Event:
    return Event("error", failure(529, message))
