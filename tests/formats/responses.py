"""The wire format of OpenAI's Responses, with the namespaces of tools that the Codex client uses.
Pure.

A tool `read` of the namespace `mcp__synapse` is seen by a script as `mcp__synapse__read`, and
called on the wire by its name and namespace; those of the namespace `functions` keep their names. A
tool that takes a text (`custom`) is called by a script with {"input": TEXT}.
"""

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
    Spoken,
    compact,
    parsed,
    pieces,
    signed,
    texts_of,
    tool_block,
    user_message,
)
from tests.formats.chat import failure as failure

MARKED = False
END = None
CONTEXT = "Your input exceeds the context window of this model: it has {sent} tokens of {window}."
ENCRYPTED = "reasoning.encrypted_content"
TEXTS = ("input_text", "output_text", "text")
Names = Mapping[str, tuple[str, str]]


def read(body: Mapping[str, Any]) -> Asked:
    if not body.get("model"):
        raise Invalid("Missing required parameter: 'model'.")
    if ENCRYPTED in (body.get("include") or ()) and body["model"].startswith("gpt-4"):
        raise Invalid("Encrypted content is not supported with this model.")
    tools, names, free = _tools(body)
    system = body.get("instructions") or ""
    blocks = [tool_block(tool) for tool in tools] + ([Block("system", system)] if system else [])
    items = body.get("input") or []
    messages: list[Message] = []
    open_calls: set[str] = set()
    for item in [{"role": "user", "content": items}] if isinstance(items, str) else items:
        open_calls = _check(item, open_calls)
        message = _message(item, names)
        if message is None:
            continue
        blocks.append(
            Block(
                message.role,
                message.text
                + "".join(call.name + compact(call.arguments) for call in message.calls),
            )
        )
        if message.role == "assistant" and messages and messages[-1].role == "assistant":
            before = messages.pop()
            message = message._replace(
                text=before.text + message.text, calls=before.calls + message.calls
            )
        messages.append(message)
    if open_calls:
        raise Invalid(f"No tool output found for function call {min(open_calls)}.")
    view = Seen(system, tuple(messages), tuple(tools))
    thinks = ENCRYPTED in (body.get("include") or ()) and bool(body.get("reasoning"))
    return Asked(view, body["model"], bool(body.get("stream")), tuple(blocks), thinks, names, free)


def _tools(body: Mapping[str, Any]) -> tuple[list[Tool], Names, frozenset[str]]:
    tools: list[Tool] = []
    names: dict[str, tuple[str, str]] = {}
    free: set[str] = set()
    for outer in (*(body.get("tools") or ()), *_additional(body)):
        space = outer["name"] if outer["type"] == "namespace" else ""
        for raw in outer.get("tools", ()) if space else (outer,):
            if raw.get("type") not in ("function", "custom"):
                continue
            name = raw["name"] if space in ("", "functions") else f"{space}__{raw['name']}"
            if space:
                names[name] = (space, raw["name"])
            if raw["type"] == "custom":
                free.add(name)
            tools.append(Tool(name, raw.get("description") or "", raw.get("parameters") or {}))
    return tools, names, frozenset(free)


def _additional(body: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Return the tools that stand in the input, as Codex's newer models are given theirs."""
    items = body.get("input") or ()
    for item in () if isinstance(items, str) else items:
        if item.get("type") == "additional_tools":
            yield from item.get("tools") or ()


def _check(item: Mapping[str, Any], open_calls: set[str]) -> set[str]:
    """Refuse what the provider refuses, and return the calls that are still to be answered."""
    kind = item.get("type", "message")
    if kind in ("function_call", "custom_tool_call"):
        return open_calls | {item["call_id"]}
    if kind == "custom_tool_call_output":  # there may be several of one call
        return open_calls - {item["call_id"]}
    if kind == "function_call_output":
        if item["call_id"] not in open_calls:
            raise Invalid(
                f"No tool call found for function call output with call_id {item['call_id']}."
            )
        return open_calls - {item["call_id"]}
    if kind == "reasoning":
        thought = "".join(part["text"] for part in item.get("summary") or ())
        if item.get("encrypted_content") != signed(thought):
            raise Invalid(
                f"Item with id '{item.get('id')}' not found, and its encrypted content is not ours."
            )
    return open_calls


def _message(item: Mapping[str, Any], names: Names) -> Message | None:
    """Return the message that a script sees of an item."""
    match item.get("type", "message"):
        case "message" if item["role"] == "assistant":
            return Message("assistant", "".join(texts_of(item["content"], TEXTS)), "work_out")
        case "message":
            return user_message("\n".join(texts_of(item["content"], TEXTS)))
        # of another agent; its provider seals the text, which is not done here
        case "agent_message":
            sealed = [
                part["encrypted_content"] for part in item["content"] if "encrypted_content" in part
            ]
            return user_message("\n".join([*texts_of(item["content"], TEXTS), *sealed]))
        case "function_call" | "custom_tool_call":
            name_pair = (item.get("namespace", ""), item["name"])
            name = next((name for name, wire in names.items() if wire == name_pair), item["name"])
            free = item["type"] == "custom_tool_call"
            arguments = {"input": item["input"]} if free else parsed(item.get("arguments") or "{}")
            return Message("assistant", "", "work_out", (Call(item["call_id"], name, arguments),))
        case "function_call_output" | "custom_tool_call_output":
            text = "\n".join(texts_of(item["output"], TEXTS))
            return Message("tool", text, "work_obs", answers=item["call_id"])
    return None


def _call(call: Spoken, asked: Asked, **more: Any) -> dict[str, Any]:
    item = {"type": "function_call", "id": f"fc_{call.id}", "call_id": call.id, "name": call.name}
    if call.name in asked.names:
        space, name = asked.names[call.name]
        item |= {"name": name, "namespace": space}
    if call.name in asked.free:
        text = parsed(call.arguments).get("input", "")
        return {**item, "type": "custom_tool_call", "input": text, "status": "completed", **more}
    return {**item, "arguments": call.arguments, "status": "completed", **more}


def _output(reply: Said, asked: Asked) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    if reply.thought is not None:
        summary = [{"type": "summary_text", "text": reply.thought}]
        thought = {"type": "reasoning", "id": f"rs_{reply.id}", "summary": summary}
        items.append({**thought, "encrypted_content": signed(reply.thought)})
    if reply.text or reply.stop == "refusal":
        content: dict[str, Any] = {
            "type": "output_text",
            "text": reply.text,
            "annotations": [],
            "logprobs": [],
        }
        if reply.stop == "refusal":
            content = {"type": "refusal", "refusal": reply.text}
        message = {
            "type": "message",
            "id": f"msg_{reply.id}",
            "role": "assistant",
            "content": [content],
        }
        items.append(
            {
                **message,
                "status": "incomplete"
                if reply.stop == "length" and not reply.calls
                else "completed",
            }
        )
    items += [_call(call, asked) for call in reply.calls]
    if reply.stop == "length" and reply.calls:
        items[-1]["status"] = "incomplete"
    return items


def whole(reply: Said, asked: Asked) -> dict[str, Any]:
    used, cut = reply.used, reply.stop == "length"
    usage = {
        "input_tokens": used.sent,
        "input_tokens_details": {"cached_tokens": used.read, "cache_write_tokens": 0},
        "output_tokens": used.out,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": used.sent + used.out,
    }
    return _response(
        reply,
        "incomplete" if cut else "completed",
        output=_output(reply, asked),
        usage=usage,
        incomplete_details={"reason": "max_output_tokens"} if cut else None,
    )


def _response(reply: Said, status: str, **more: Any) -> dict[str, Any]:
    head = {
        "id": f"resp_{reply.id}",
        "object": "response",
        "created_at": 1_760_000_000,
        "model": reply.model,
    }
    fixed: dict[str, Any] = {
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "output": [],
    }
    defaults = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "usage": None}
    return {**head, "status": status, **fixed, **defaults, **more}


def events(reply: Said, asked: Asked) -> Iterator[Event]:
    for number, event in enumerate(_events(reply, asked)):
        yield event._replace(data={**event.data, "sequence_number": number})


def _events(reply: Said, asked: Asked) -> Iterator[Event]:
    yield _event("response.created", response=_response(reply, "in_progress"))
    for index, item in enumerate(_output(reply, asked)):
        location = {"output_index": index, "item_id": item["id"]}
        match item["type"]:
            case "message":
                yield _event(
                    "response.output_item.added", output_index=index, item={**item, "content": []}
                )
                yield from _text_events(item["content"][0], location)
            case "function_call":
                yield _event(
                    "response.output_item.added", output_index=index, item={**item, "arguments": ""}
                )
                for piece in pieces(item["arguments"]):
                    yield _event(
                        "response.function_call_arguments.delta",
                        "arguments",
                        **location,
                        delta=piece,
                    )
                done = {"arguments": item["arguments"], "name": item["name"]}
                yield _event("response.function_call_arguments.done", **location, **done)
            case "custom_tool_call":
                yield _event(
                    "response.output_item.added", output_index=index, item={**item, "input": ""}
                )
                for piece in pieces(item["input"]):
                    yield _event(
                        "response.custom_tool_call_input.delta",
                        "arguments",
                        **location,
                        delta=piece,
                    )
                yield _event(
                    "response.custom_tool_call_input.done", **location, input=item["input"]
                )
            case _:
                yield _event("response.output_item.added", output_index=index, item=item)
        yield _event("response.output_item.done", output_index=index, item=item)
    ended = whole(reply, asked)
    yield _event(f"response.{ended['status']}", response=ended)


def _text_events(part: Mapping[str, Any], location: Mapping[str, Any]) -> Iterator[Event]:
    kind, key = ("refusal", "refusal") if part["type"] == "refusal" else ("output_text", "text")
    location = {**location, "content_index": 0}
    yield _event("response.content_part.added", **location, part={**part, key: ""})
    for piece in pieces(part[key]):
        yield _event(f"response.{kind}.delta", "text", **location, delta=piece)
    yield _event(f"response.{kind}.done", **location, **{key: part[key]})
    yield _event("response.content_part.done", **location, part=part)


def _event(name: str, of: str = "", /, **data: Any) -> Event:
    return Event(name, {"type": name, **data}, of)


def counted(tokens: int) -> dict[str, Any]:
    return {"object": "response.input_tokens", "input_tokens": tokens}


def failure_event(message: str) -> Event:
    error = {"type": "error", "code": "server_error", "message": message, "param": None}
    return Event("error", {**error, "sequence_number": 1})
