"""The engine for Anthropic's Messages, through the official SDK. Knows nothing of memory.

At most four cache marks are set: at the system prompt with the tools, at the view, and where the
conversation ended the last time and ends now. What text and calls cannot say (thinking and its
signature) is kept as it came, and sent back so.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping
from typing import Any

from orchestrator.engines.http_client import options_of
from orchestrator.engines.protocol import (
    Call,
    EngineError,
    Message,
    Rejected,
    Request,
    Turn,
    Usage,
    reported,
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

STOPS = {"max_tokens": "length", "model_context_window_exceeded": "length", "refusal": "refusal"}
Part = dict[str, Any]


class Anthropic:
    """Where the address and the key are not given, they are the SDK's own business
    (ANTHROPIC_BASE_URL, ANTHROPIC_API_KEY). `parameters` go into each request as they are
    (thinking, say). `trusted`: the kind of place that an address of the workspace's has to be.
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
        trusted: str = "",
    ) -> None:
        import anthropic

        self.model, self.own_key = model, api_key is not None
        self.parameters = dict(parameters or {})
        options = {"base_url": base_url, "api_key": api_key, "timeout": timeout}
        options = {key: value for key, value in options.items() if value is not None}
        self._client: Any = anthropic.AsyncAnthropic(
            max_retries=max_retries,
            http_client=anthropic.DefaultAsyncHttpxClient(**options_of(trusted)),
            **options,  # type: ignore[arg-type]
        )

    async def step(self, request: Request, interrupt: asyncio.Event) -> Turn:
        arguments = {**self._asked(request), "max_tokens": request.max_tokens}

        def begin() -> Reading:
            return _Reading(self._client, arguments, extra(self, request))

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
            raise _engine_error(error) from error
        tokens: int = counted.input_tokens
        return tokens

    async def close(self) -> None:
        await self._client.close()

    def _asked(self, request: Request) -> dict[str, Any]:
        return {"model": model_of(self, request), **conversation(request)}


def conversation(request: Request) -> dict[str, Any]:
    """Return the request in the provider's form, with its marks."""
    turns = _turns(request.messages)
    system = [_text(request.system)] if request.system.strip() else []
    asks = [turn["content"] for turn in turns if turn["role"] == "user"]
    ends = [blocks[-1] for blocks in asks[-2:]]
    view = [asks[0][0]] if asks and request.messages[0].label == "view" else []
    for block in (*system, *view, *ends):
        block["cache_control"] = {"type": "ephemeral"}
    tools = [
        {"name": tool.name, "description": tool.description, "input_schema": dict(tool.schema)}
        for tool in request.tools
    ]
    return (
        {"messages": turns}
        | ({"system": system} if system else {})
        | ({"tools": tools} if tools else {})
    )


def _turns(messages: Iterable[Message]) -> list[dict[str, Any]]:
    """Return the messages as turns of the user and the assistant. Results of calls come first, as
    the provider demands.
    """
    turns: list[dict[str, Any]] = []
    for message in messages:
        role = "assistant" if message.role == "assistant" else "user"
        blocks = _parts(message)
        if blocks and turns and turns[-1]["role"] == role:
            turns[-1]["content"] += blocks
        elif blocks:
            turns.append({"role": role, "content": blocks})
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
        return [dict(block) for block in message.native["anthropic"]]
    return _plain(message.text, message.calls)


def _plain(text: str, calls: Iterable[Call]) -> list[Part]:
    """Return a message without anything of the provider's own. It takes no empty texts."""
    uses = [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": dict(call.arguments)}
        for call in calls
    ]
    return [*([_text(text)] if text.strip() else []), *uses]


def _text(text: str) -> Part:
    return {"type": "text", "text": text}


def _engine_error(error: Exception) -> EngineError:
    """Return the engine's error for an SDK's. A TypeError is how the SDK says that there is no
    key.
    """
    if isinstance(error, TypeError):
        return Rejected(
            "there is no key, set ANTHROPIC_API_KEY" if "api_key" in str(error) else str(error)
        )
    problem_text = problem(error)
    return problem_text if isinstance(problem_text, EngineError) else Rejected(str(problem_text))


class _Reading:
    """One reply: its parts, as far as they have come."""

    def __init__(self, client: Any, asked: dict[str, Any], extra: dict[str, Any]) -> None:
        self._client, self._asked, self._extra = client, asked, extra
        self._parts: list[Part] = []
        self._deltas: dict[int, list[str]] = {}  # of each part, what came of it
        self._open: set[int] = set()
        self._stop: str | None = None
        self._usage: dict[str, Any] = {}
        self._model = asked["model"]
        self._ended = False

    async def read(self) -> None:
        import anthropic
        import httpx2

        try:
            stream = await self._client.messages.create(**self._asked, **self._extra, stream=True)
        except (anthropic.APIError, TypeError) as error:
            raise _engine_error(error) from error
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
                self._usage = event.message.usage.to_dict() if event.message.usage else {}
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
                    for key, value in (event.usage.to_dict() if event.usage else {}).items()
                    if value is not None
                }
            case "message_stop":
                self._ended = True

    def _add(self, index: int, delta: Any) -> None:
        block = self._parts[index]
        match delta.type:
            case "text_delta":
                self._deltas.setdefault(index, []).append(delta.text)
            case "input_json_delta":
                self._deltas.setdefault(index, []).append(delta.partial_json)
            case "thinking_delta":
                self._deltas.setdefault(index, []).append(delta.thinking)
            case "signature_delta":
                block["signature"] = delta.signature
            case "citations_delta":
                block["citations"] = [*(block.get("citations") or ()), delta.citation.to_dict()]

    def _joined(self, index: int) -> str:
        return "".join(self._deltas.get(index, ()))

    def _blocks(self) -> list[Part]:
        """Return the parts of the reply with all that came of their texts."""
        blocks = []
        for index, part in enumerate(self._parts):
            kind = part["type"]
            if kind in ("text", "thinking"):
                part = part | {kind: (part.get(kind) or "") + self._joined(index)}
            blocks.append(part)
        return blocks

    def turn(self, *, whole: bool) -> Turn:
        stop = STOPS.get(self._stop or "", "done") if whole else "interrupted"
        complete: list[Part] = []
        calls: list[Call] = []
        for index, block in enumerate(self._blocks()):
            last = index == len(self._parts) - 1
            if block["type"] == "text":
                complete += [block] if block["text"].strip() else []
            elif block["type"] == "tool_use":
                if index in self._open or stop == "refusal" or (stop == "length" and last):
                    continue  # it is cut, or not to be trusted
                calls.append(call_of(block["id"], block["name"], self._joined(index)))
                complete.append(block | {"input": dict(calls[-1].arguments)})
            elif index not in self._open:
                complete.append(block)
        text = "".join(block["text"] for block in complete if block["type"] == "text")
        read_calls = tuple(calls)
        special = bool(text or read_calls) and complete != _plain(text, read_calls)
        return Turn(
            text,
            read_calls,
            ending(stop, text, read_calls),
            self._spent(whole),
            self._model,
            {"anthropic": complete} if special else None,
        )

    def _spent(self, whole: bool) -> Usage:
        usage = self._usage
        texts = map(self._joined, self._deltas)
        read = usage.get("cache_read_input_tokens") or 0
        written = usage.get("cache_creation_input_tokens") or 0
        sent, output = usage.get("input_tokens"), usage.get("output_tokens") or 0
        if not reported(sent, output, read, written):
            counted = guess(json.dumps(self._asked))
            return Usage(counted, guess(*texts), estimated=True)
        taken = Usage((sent or 0) + read + written, output, read, written)
        if whole:
            return taken
        return taken._replace(output_tokens=max(output, guess(*texts)), estimated=True)
