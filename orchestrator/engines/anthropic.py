"""Anthropic's Messages through the official SDK. Knows how a conversation looks there, and nothing
of memory.

Cached are, by at most four marks: the system prompt with the tools, the view, and the conversation
up to where it went the last time and up to where it goes now. What cannot be told in text and calls
(thinking and its signature) is kept as it came and sent back so.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping
from typing import Any

from orchestrator.engines.protocol import (
    Call,
    EngineError,
    Message,
    Rejected,
    Request,
    Turn,
    Usage,
)
from orchestrator.engines.stream import (
    Dropped,
    Reading,
    call_of,
    ending,
    extra,
    guess,
    model_of,
    problem,
    take,
)

STOPS = {
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
}
Part = dict[str, Any]


class Anthropic:
    """Where the address and the key are not given, they are the SDK's own business
    (ANTHROPIC_BASE_URL, ANTHROPIC_API_KEY). `parameters` go into each request as they are
    (thinking, say).
    """

    name = "anthropic"
    interrupt = "now"
    takes_tools = True

    def __init__(
        self,
        *,
        model: str | None = None,
        base_url: str | None = None,
        api_key: str | None = None,
        max_retries: int = 4,
        timeout: float | None = None,
        parameters: Mapping[str, Any] | None = None,
    ) -> None:
        import anthropic

        self.model, self.own_key = model, api_key is not None
        self.parameters = dict(parameters or {})
        given = {"base_url": base_url, "api_key": api_key, "timeout": timeout}
        given = {key: value for key, value in given.items() if value is not None}
        self._client: Any = anthropic.AsyncAnthropic(max_retries=max_retries, **given)  # type: ignore[arg-type]

    async def step(self, request: Request, interrupt: asyncio.Event) -> Turn:
        asked = {**self._asked(request), "max_tokens": request.max_tokens}

        def begin() -> Reading:
            return _Reading(self._client, asked, extra(self, request))

        return await take(begin, interrupt)

    async def count(self, request: Request) -> int | None:
        import anthropic

        counts = {
            key: self.parameters[key]
            for key in ("thinking", "tool_choice")
            if key in self.parameters
        }
        try:
            counted = await self._client.messages.count_tokens(
                **self._asked(request), extra_body=counts
            )
        except (anthropic.APIError, TypeError) as error:
            raise _told(error) from error
        found: int = counted.input_tokens
        return found

    async def close(self) -> None:
        await self._client.close()

    def _asked(self, request: Request) -> dict[str, Any]:
        return {"model": model_of(self, request), **conversation(request)}


def conversation(request: Request) -> dict[str, Any]:
    """The request in the provider's form, with its marks."""
    turns = _turns(request.messages)
    system = [_text(request.system)] if request.system.strip() else []
    asks = [turn["content"] for turn in turns if turn["role"] == "user"]
    ends = [parts[-1] for parts in asks[-2:]]
    view = [asks[0][0]] if asks and request.messages[0].label == "view" else []
    for part in (*system, *view, *ends):
        part["cache_control"] = {"type": "ephemeral"}
    tools = [
        {
            "name": tool.name,
            "description": tool.description,
            "input_schema": dict(tool.schema),
        }
        for tool in request.tools
    ]
    return (
        {"messages": turns}
        | ({"system": system} if system else {})
        | ({"tools": tools} if tools else {})
    )


def _turns(messages: Iterable[Message]) -> list[dict[str, Any]]:
    """By turns, the user's and the assistant's; the answers to calls come first, as the provider
    wants it.
    """
    turns: list[dict[str, Any]] = []
    for message in messages:
        role = "assistant" if message.role == "assistant" else "user"
        parts = _parts(message)
        if parts and turns and turns[-1]["role"] == role:
            turns[-1]["content"] += parts
        elif parts:
            turns.append({"role": role, "content": parts})
    for turn in turns:
        turn["content"].sort(
            key=lambda part: turn["role"] == "user" and part["type"] != "tool_result"
        )
    return turns


def _parts(message: Message) -> list[Part]:
    if message.role == "tool":
        result: Part = {
            "type": "tool_result",
            "tool_use_id": message.answers,
            "content": message.text,
        }
        return [result | {"is_error": True} if message.failed else result]
    if isinstance(message.native, Mapping) and "anthropic" in message.native:
        return [dict(part) for part in message.native["anthropic"]]
    return _plain(message.text, message.calls)


def _plain(text: str, calls: Iterable[Call]) -> list[Part]:
    """A message as it is without anything of the provider's own. It takes no empty texts."""
    uses = [
        {
            "type": "tool_use",
            "id": each.id,
            "name": each.name,
            "input": dict(each.arguments),
        }
        for each in calls
    ]
    return [*([_text(text)] if text.strip() else []), *uses]


def _text(text: str) -> Part:
    return {"type": "text", "text": text}


def _told(error: Exception) -> EngineError:
    """A TypeError is how the SDK says that there is no key."""
    if isinstance(error, TypeError):
        return Rejected(
            "there is no key, set ANTHROPIC_API_KEY"
            if "api_key" in str(error)
            else str(error)
        )
    found = problem(error)
    return found if isinstance(found, EngineError) else Rejected(str(found))


class _Reading:
    """One reply: its parts, as far as they have come."""

    def __init__(
        self, client: Any, asked: dict[str, Any], extra: dict[str, Any]
    ) -> None:
        self._client, self._asked, self._extra = client, asked, extra
        self._parts: list[Part] = []
        self._arguments: dict[int, str] = {}
        self._open: set[int] = set()
        self._stop: str | None = None
        self._usage: dict[str, Any] = {}
        self._model = asked["model"]
        self._ended = False

    async def read(self) -> None:
        import anthropic
        import httpx2

        try:
            stream = await self._client.messages.create(
                **self._asked, **self._extra, stream=True
            )
        except (anthropic.APIError, TypeError) as error:
            raise _told(error) from error
        try:
            async with stream:
                async for event in stream:
                    self._take(event)
        except anthropic.APIError as error:
            raise problem(error, streaming=True) from error
        except httpx2.HTTPError as error:  # which the SDK lets through while it streams
            raise Dropped(f"{type(error).__name__}: {error}") from error
        if not self._ended:
            raise Dropped("the stream ended before the message")

    def _take(self, event: Any) -> None:
        match event.type:
            case "message_start":
                self._model = event.message.model
                self._usage = event.message.usage.to_dict()
            case "content_block_start":
                self._parts.append(event.content_block.to_dict())
                self._open.add(event.index)
            case "content_block_delta":
                self._add(event.index, event.delta)
            case "content_block_stop":
                self._open.discard(event.index)
            case "message_delta":
                self._stop = event.delta.stop_reason
                self._usage |= {
                    key: value
                    for key, value in event.usage.to_dict().items()
                    if value is not None
                }
            case "message_stop":
                self._ended = True

    def _add(self, index: int, delta: Any) -> None:
        part = self._parts[index]
        match delta.type:
            case "text_delta":
                part["text"] += delta.text
            case "input_json_delta":
                self._arguments[index] = (
                    self._arguments.get(index, "") + delta.partial_json
                )
            case "thinking_delta":
                part["thinking"] += delta.thinking
            case "signature_delta":
                part["signature"] = delta.signature
            case "citations_delta":
                part["citations"] = [
                    *(part.get("citations") or ()),
                    delta.citation.to_dict(),
                ]

    def turn(self, *, whole: bool) -> Turn:
        stop = STOPS.get(self._stop or "", "done") if whole else "interrupted"
        kept: list[Part] = []
        calls: list[Call] = []
        for index, part in enumerate(self._parts):
            last = index == len(self._parts) - 1
            if part["type"] == "text":
                kept += [part] if part["text"].strip() else []
            elif part["type"] == "tool_use":
                if (
                    index in self._open
                    or stop == "refusal"
                    or (stop == "length" and last)
                ):
                    continue  # it is cut, or not to be trusted
                calls.append(
                    call_of(part["id"], part["name"], self._arguments.get(index, ""))
                )
                kept.append(part | {"input": dict(calls[-1].arguments)})
            elif index not in self._open:
                kept.append(part)
        text = "".join(part["text"] for part in kept if part["type"] == "text")
        said = tuple(calls)
        special = bool(text or said) and kept != _plain(text, said)
        return Turn(
            text,
            said,
            ending(stop, text, said),
            self._spent(whole),
            self._model,
            {"anthropic": kept} if special else None,
        )

    def _spent(self, whole: bool) -> Usage:
        usage = self._usage
        read, written = (
            usage.get("cache_read_input_tokens") or 0,
            usage.get("cache_creation_input_tokens") or 0,
        )
        out = usage.get("output_tokens") or 0
        if whole:
            return Usage(
                usage.get("input_tokens", 0) + read + written, out, read, written
            )
        sent = (
            usage["input_tokens"] + read + written
            if usage
            else guess(json.dumps(self._asked))
        )
        said = [part.get("text") or part.get("thinking") or "" for part in self._parts]
        return Usage(
            sent,
            max(out, guess(*said, *self._arguments.values())),
            read,
            written,
            estimated=True,
        )
