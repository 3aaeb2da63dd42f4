"""The engine for Chat Completions, through OpenAI's SDK, for every server that speaks it: Ollama,
vLLM, OpenRouter and others. Knows nothing of memory.

Made for servers that are not strict about the format, and for chat templates that are: roles
alternate, results follow their calls, a call without an id gets one.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterable, Mapping
from typing import Any

from orchestrator.engines.openai import connect
from orchestrator.engines.protocol import Message, Request, Turn, Usage, reported
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

STOPS = {"length": "length", "content_filter": "refusal"}


class OpenAIChat:
    """Where the address and the key are not given, they are the SDK's own business
    (OPENAI_BASE_URL, OPENAI_API_KEY); a server other than OpenAI's may want no key. `parameters` go
    into each request as they are.
    """

    name = "openai-chat"
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
        self.model, self.own_key = model, api_key is not None
        self.parameters = dict(parameters or {})
        if base_url or os.environ.get("OPENAI_BASE_URL"):
            api_key = api_key or os.environ.get("OPENAI_API_KEY") or "none"
        self._client = connect(base_url, api_key, max_retries, timeout, trusted)

    async def step(self, request: Request, interrupt: asyncio.Event) -> Turn:
        arguments: dict[str, Any] = {
            "model": model_of(self, request),
            "messages": conversation(request),
            "max_tokens": request.max_tokens,
            "stream_options": {"include_usage": True},
        }
        if request.tools:
            arguments["tools"] = [
                {
                    "type": "function",
                    "function": {
                        "name": tool.name,
                        "description": tool.description,
                        "parameters": dict(tool.schema),
                    },
                }
                for tool in request.tools
            ]

        def begin() -> Reading:
            return _Reading(self._client, arguments, extra(self, request))

        return await take(begin, interrupt)

    async def count(self, request: Request) -> int | None:
        return None

    async def close(self) -> None:
        await self._client.close()


def conversation(request: Request) -> list[dict[str, Any]]:
    """Return the messages in the format's form. What a user said between a call and its result
    comes after the result.
    """
    messages: list[dict[str, Any]] = (
        [{"role": "system", "content": request.system}] if request.system.strip() else []
    )
    texts: list[str] = []

    def close() -> None:
        if texts:
            messages.append({"role": "user", "content": "\n\n".join(texts)})
            texts.clear()

    for message in request.messages:
        if message.role == "tool":
            messages.append(
                {"role": "tool", "tool_call_id": message.answers, "content": message.text}
            )
        elif message.role == "user":
            texts += [message.text] if message.text.strip() else []
        elif message.text.strip() or message.calls:
            close()
            messages.append(_assistant(message))
    close()
    return messages


def _assistant(message: Message) -> dict[str, Any]:
    fields: dict[str, Any] = {"role": "assistant", "content": message.text or None}
    if message.calls:
        fields["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {
                    "name": call.name,
                    "arguments": json.dumps(call.arguments, ensure_ascii=False),
                },
            }
            for call in message.calls
        ]
    return fields


class _Reading:
    """One reply, as far as it has come."""

    def __init__(self, client: Any, asked: dict[str, Any], extra: dict[str, Any]) -> None:
        self._client, self._asked, self._extra = client, asked, extra
        self._text: list[str] = []
        self._refusal = ""
        self._calls: list[dict[str, Any]] = []  # index, id, name, arguments
        self._finish: str | None = None
        self._usage: Any = None
        self._model = asked["model"]

    async def read(self) -> None:
        import openai

        try:
            stream = await self._client.chat.completions.create(
                **self._asked, **self._extra, stream=True
            )
        except openai.APIError as error:
            raise problem(error) from error
        try:
            async with stream:
                async for chunk in stream:
                    self._take(chunk)
        except openai.APIError as error:
            raise problem(error, streaming=True) from error
        if self._finish is None:
            raise Dropped("the stream ended before the message")

    def _take(self, chunk: Any) -> None:
        self._model = chunk.model or self._model
        self._usage = chunk.usage or self._usage
        for choice in (chunk.choices or ())[:1]:
            self._finish = choice.finish_reason or self._finish
            delta = choice.delta
            if delta is not None:
                self._text.append(delta.content or "")
                self._refusal += getattr(delta, "refusal", None) or ""
                self._add(delta.tool_calls or ())

    def _add(self, deltas: Iterable[Any]) -> None:
        for delta in deltas:
            index = delta.index if delta.index is not None else len(self._calls)
            call = next((item for item in reversed(self._calls) if item["index"] == index), None)
            if call is None or (delta.id and call["id"] and delta.id != call["id"]):
                call = {"index": index, "id": "", "name": "", "arguments": []}
                self._calls.append(call)
            call["id"] = call["id"] or delta.id or ""
            if delta.function is not None:
                call["name"] = call["name"] or delta.function.name or ""
                call["arguments"].append(delta.function.arguments or "")

    def turn(self, *, whole: bool) -> Turn:
        stop = STOPS.get(self._finish or "", "done") if whole else "interrupted"
        if whole and self._refusal:
            stop = "refusal"
        # Without the end, the last call may be cut; nothing says that it is not.
        calls = [] if stop == "refusal" else self._calls if stop == "done" else self._calls[:-1]
        turn = sum(message["role"] == "assistant" for message in self._asked["messages"])
        read_calls = tuple(
            call_of(call["id"] or f"call-{turn}-{index}", call["name"], "".join(call["arguments"]))
            for index, call in enumerate(calls)
        )
        text = "".join(self._text) or self._refusal
        return Turn(text, read_calls, ending(stop, text, read_calls), self._spent(), self._model)

    def _spent(self) -> Usage:
        usage = self._usage
        if usage is None or not reported(usage.prompt_tokens, usage.completion_tokens):
            output_tokens = guess(
                *self._text,
                self._refusal,
                *("".join([call["name"], *call["arguments"]]) for call in self._calls),
            )
            return Usage(guess(json.dumps(self._asked)), output_tokens, estimated=True)
        details = usage.prompt_tokens_details.to_dict() if usage.prompt_tokens_details else {}
        read = max(details.get("cached_tokens") or 0, 0)
        written = max(details.get("cache_write_tokens") or 0, 0)
        cost = getattr(usage, "cost", None)  # OpenRouter's
        if not isinstance(cost, int | float) or cost < 0:
            cost = None
        return Usage(usage.prompt_tokens, usage.completion_tokens, read, written, cost)
