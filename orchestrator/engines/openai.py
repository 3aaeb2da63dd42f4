"""The engine for OpenAI's Responses, through the official SDK. Knows nothing of memory.

Nothing is stored at the provider (`store` is off): reasoning comes encrypted, is kept as it came,
and sent back so.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
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

ENCRYPTED = "reasoning.encrypted_content"
Item = dict[str, Any]


class OpenAI:
    """Where the address and the key are not given, they are the SDK's own business
    (OPENAI_BASE_URL, OPENAI_API_KEY). `parameters` go into each request as they are (reasoning,
    say).
    """

    name = "openai"
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
        self._client = connect(base_url, api_key, max_retries, timeout, trusted)
        self._unreasoned: set[str] = set()

    async def step(self, request: Request, interrupt: asyncio.Event) -> Turn:
        arguments = {
            **self._asked(request),
            "max_output_tokens": request.max_tokens,
            "store": False,
        }

        def begin() -> Reading:
            return _Reading(self._client, arguments, extra(self, request), self._unreasoned)

        return await take(begin, interrupt)

    async def count(self, request: Request) -> int | None:
        """Return the provider's count of a request; None from a server that has no such address."""
        import openai

        try:
            counted = await self._client.responses.input_tokens.count(**self._asked(request))
        except openai.NotFoundError:
            return None
        except openai.APIError as error:
            raise problem(error) from error
        tokens: int = counted.input_tokens
        return tokens

    async def close(self) -> None:
        await self._client.close()

    def _asked(self, request: Request) -> dict[str, Any]:
        model = model_of(self, request)
        items = [item for message in request.messages for item in _items(message)]
        tools = [
            {
                "type": "function",
                "name": tool.name,
                "description": tool.description,
                "parameters": dict(tool.schema),
                "strict": False,
            }
            for tool in request.tools
        ]
        arguments = {"model": model, "instructions": request.system, "input": items}
        return arguments | ({"tools": tools} if tools else {})


def connect(
    base_url: str | None, api_key: str | None, max_retries: int, timeout: float | None, trusted: str
) -> Any:
    """Return the SDK's client; raise Rejected where its key is missing. `trusted`: the kind of
    place that an address of the workspace's has to be.
    """
    import openai

    options = {"base_url": base_url, "api_key": api_key, "timeout": timeout}
    options = {key: value for key, value in options.items() if value is not None}
    try:
        return openai.AsyncOpenAI(
            max_retries=max_retries,
            http_client=openai.DefaultAsyncHttpxClient(**options_of(trusted)),
            **options,  # type: ignore[arg-type]
        )
    except openai.OpenAIError as error:
        keyless = "api_key" in str(error)
        why = "there is no key, set OPENAI_API_KEY" if keyless else str(error)
        raise Rejected(why) from error


def _items(message: Message) -> Iterator[Item]:
    if message.role == "tool":
        yield {"type": "function_call_output", "call_id": message.answers, "output": message.text}
    elif isinstance(message.native, Mapping) and "openai" in message.native:
        yield from message.native["openai"]
    else:
        if message.text.strip():
            yield {"role": message.role, "content": message.text}
        for call in message.calls:
            arguments = json.dumps(call.arguments, ensure_ascii=False)
            yield {
                "type": "function_call",
                "call_id": call.id,
                "name": call.name,
                "arguments": arguments,
            }


class _Reading:
    """One reply: its items, as far as they have come."""

    def __init__(
        self, client: Any, asked: dict[str, Any], extra: dict[str, Any], unreasoned: set[str]
    ) -> None:
        self._client = client
        self._asked = asked
        self._extra = extra
        self._unreasoned = unreasoned
        self._items: list[Item] = []
        self._text: list[str] = []  # of the item that has not ended
        self._arguments: list[str] = []
        self._ended: Any = None

    async def read(self) -> None:
        import openai

        try:
            stream = await self._begin()
        except openai.APIError as error:
            raise problem(error) from error
        try:
            async with stream:
                async for event in stream:
                    self._take(event)
        except openai.APIError as error:
            raise problem(error, streaming=True) from error
        if self._ended is None:
            raise Dropped("the stream ended before the response")
        if self._ended.status == "failed":
            raise _failed(self._ended.error)

    async def _begin(self) -> Any:
        """Open the stream. Models that do not reason refuse to be asked for their reasoning: they
        are asked again without.
        """
        import openai

        model, create = self._asked["model"], self._client.responses.create
        if model not in self._unreasoned:
            try:
                return await create(**self._asked, **self._extra, include=[ENCRYPTED], stream=True)
            except openai.BadRequestError as error:
                if "encrypted content is not supported" not in str(error).lower():
                    raise
                self._unreasoned.add(model)
        return await create(**self._asked, **self._extra, stream=True)

    def _take(self, event: Any) -> None:
        match event.type:
            case "response.output_text.delta" | "response.refusal.delta":
                self._text.append(event.delta)
            case "response.function_call_arguments.delta":
                self._arguments.append(event.delta)
            case "response.output_item.done":
                self._items.append(event.item.to_dict())
                self._text, self._arguments = [], []
            case "response.completed" | "response.incomplete" | "response.failed":
                self._ended = event.response
            case "error":
                raise _failed(event)

    def turn(self, *, whole: bool) -> Turn:
        texts: list[str] = []
        calls: list[Call] = []
        stop = self._stop() if whole else "interrupted"
        for item in self._items:
            if item["type"] == "message":
                texts.append(
                    "".join(
                        content.get("text") or content.get("refusal") or ""
                        for content in item["content"]
                    )
                )
            elif (
                item["type"] == "function_call"
                and item.get("status") != "incomplete"
                and stop != "refusal"
            ):
                calls.append(call_of(item["call_id"], item["name"], item["arguments"]))
        text = "\n\n".join(text for text in (*texts, "".join(self._text)) if text)
        read_calls = tuple(calls)
        return Turn(
            text,
            read_calls,
            ending(stop, text, read_calls),
            self._spent(),
            self._model(),
            self._native(stop, read_calls),
        )

    def _stop(self) -> str:
        refusals = [
            content["type"]
            for item in self._items
            if item["type"] == "message"
            for content in item["content"]
        ]
        reason = self._ended.incomplete_details.reason if self._ended.incomplete_details else None
        if "refusal" in refusals or reason == "content_filter":
            return "refusal"
        return "length" if reason else "done"

    def _model(self) -> str:
        model: str = self._ended.model if self._ended else self._asked["model"]
        return model

    def _native(self, stop: str, calls: Sequence[Call]) -> Any:
        """Return the items as they came, where they say more than text and calls do. Reasoning goes
        back whole or not at all: the provider refuses it without its results.
        """
        special = [item for item in self._items if item["type"] == "reasoning" or item.get("phase")]
        unsealed = [
            item
            for item in special
            if item["type"] == "reasoning" and not item.get("encrypted_content")
        ]
        if stop != "done" or not special or unsealed:
            return None
        bad = {call.id for call in calls if call.problem}
        return {
            "openai": [
                item | {"arguments": "{}"} if item.get("call_id") in bad else item
                for item in self._items
            ]
        }

    def _spent(self) -> Usage:
        usage = self._ended.usage if self._ended else None
        if usage is None or not reported(usage.input_tokens, usage.output_tokens):
            texts = [json.dumps(item) for item in self._items]
            input_tokens = guess(json.dumps(self._asked))
            output_tokens = guess(*texts, "".join(self._text), "".join(self._arguments))
            return Usage(input_tokens, output_tokens, estimated=True)
        details = usage.input_tokens_details.to_dict() if usage.input_tokens_details else {}
        read = max(details.get("cached_tokens") or 0, 0)
        written = max(details.get("cache_write_tokens") or 0, 0)
        return Usage(usage.input_tokens, usage.output_tokens, read, written)


def _failed(error: Any) -> EngineError | Dropped:
    """Return the error that the provider sent in the stream instead of a reply."""
    code, message = getattr(error, "code", None), getattr(error, "message", None)
    failure = RuntimeError(message)
    failure.body = {"code": code, "message": message}  # type: ignore[attr-defined]
    return problem(failure, streaming=True)
