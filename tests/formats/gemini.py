"""The wire format of Gemini's generateContent, as far as its command line client needs it. Pure.

Calls and their results name a function and no call, so they are numbered in their order. Arguments
are objects: malformed ones end the reply with MALFORMED_FUNCTION_CALL, as the provider does it.
"""

from __future__ import annotations

import json
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
    pieces,
    tool_block,
    user_message,
)

MARKED = False
END = None
STOPS = {"done": "STOP", "tools": "STOP", "length": "MAX_TOKENS", "refusal": "SAFETY"}
CONTEXT = "The input token count ({sent}) exceeds the maximum number of tokens allowed ({window})."


def read(body: Mapping[str, Any]) -> Asked:
    """Return the request. `model` and `stream` are in the address; the caller puts them into the
    body.
    """
    request = body.get("generateContentRequest") or body
    if not request.get("contents"):
        raise Invalid("* GenerateContentRequest.contents: contents is not specified")
    raw = [
        tool
        for group in request.get("tools") or ()
        for tool in group.get("functionDeclarations") or ()
    ]
    tools = [
        Tool(
            tool["name"],
            tool.get("description", ""),
            tool.get("parametersJsonSchema") or tool.get("parameters") or {},
        )
        for tool in raw
    ]
    system = "\n".join(
        item.get("text", "") for item in (request.get("systemInstruction") or {}).get("parts", ())
    )
    messages: list[Message] = []
    requests = answered = 0
    for content in request["contents"]:
        parts = content.get("parts") or ()
        if content.get("role") == "model":
            function_calls = [item["functionCall"] for item in parts if "functionCall" in item]
            calls = tuple(
                Call(str(requests + n), call["name"], call.get("args") or {})
                for n, call in enumerate(function_calls)
            )
            requests += len(calls)
            text = "".join(
                item["text"] for item in parts if "text" in item and not item.get("thought")
            )
            messages.append(Message("assistant", text, "work_out", calls))
            continue
        for part in parts:
            if "functionResponse" in part:
                text = compact(part["functionResponse"].get("response") or {})
                messages.append(Message("tool", text, "work_obs", answers=str(answered)))
                answered += 1
            elif part.get("text"):
                messages.append(user_message(part["text"]))
    blocks = [tool_block(tool) for tool in tools] + [Block("system", system)]
    blocks += [
        Block(m.role, m.text + "".join(c.name + compact(c.arguments) for c in m.calls))
        for m in messages
    ]
    view = Seen(system, tuple(messages), tuple(tools))
    return Asked(view, body.get("model", ""), bool(body.get("stream")), tuple(blocks))


def _usage(reply: Said) -> dict[str, int]:
    used = reply.used
    counts = {
        "promptTokenCount": used.sent,
        "candidatesTokenCount": used.out,
        "cachedContentTokenCount": used.read,
    }
    return {**counts, "totalTokenCount": used.sent + used.out}


def _piece(reply: Said, parts: list[dict[str, Any]], finish: str | None = None) -> dict[str, Any]:
    candidate: dict[str, Any] = {"index": 0, "content": {"role": "model", "parts": parts}}
    if finish:
        candidate["finishReason"] = finish
    return {
        "candidates": [candidate],
        "usageMetadata": _usage(reply),
        "modelVersion": reply.model,
        "responseId": reply.id,
    }


def _end(reply: Said) -> tuple[list[dict[str, Any]], str]:
    """Return the calls, and how the reply ends."""
    try:
        calls = [
            {"functionCall": {"name": call.name, "args": json.loads(call.arguments)}}
            for call in reply.calls
        ]
    except ValueError:
        return [], "MALFORMED_FUNCTION_CALL"
    return calls, STOPS[reply.stop]


def whole(reply: Said, asked: Asked) -> dict[str, Any]:
    calls, finish = _end(reply)
    return _piece(reply, ([{"text": reply.text}] if reply.text else []) + calls, finish)


def events(reply: Said, asked: Asked) -> Iterator[Event]:
    for piece in pieces(reply.text):
        yield Event(None, _piece(reply, [{"text": piece}]), "text")
    calls, finish = _end(reply)
    for call in calls:
        yield Event(None, _piece(reply, [call]), "arguments")
    yield Event(None, _piece(reply, [], finish))


def counted(tokens: int) -> dict[str, Any]:
    return {"totalTokens": tokens}


def failure(status: int, message: str, *, context: bool = False) -> dict[str, Any]:
    names = {
        400: "INVALID_ARGUMENT",
        401: "UNAUTHENTICATED",
        404: "NOT_FOUND",
        429: "RESOURCE_EXHAUSTED",
    }
    return {"error": {"code": status, "message": message, "status": names.get(status, "INTERNAL")}}


def failure_event(message: str) -> Event:
    return Event(None, failure(503, message))
