"""A step over a provider's stream: until its end, an interruption or a break. The part that the
SDKs' engines share; the formats are theirs, and no SDK is imported here.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Callable, Coroutine, Mapping
from email.utils import mktime_tz, parsedate_tz
from functools import partial
from typing import Any, Protocol

from orchestrator.engines.protocol import (
    Call,
    ContextTooLong,
    EngineError,
    Rejected,
    Request,
    Turn,
    Unavailable,
    Usage,
)

# A stream that breaks off is asked for again so often, by us: the SDKs only repeat what has not
# begun to answer.
REPEATS = 2
PAUSE = 0.2
LONGEST_WAIT = 60.0  # seconds that an SDK waits because a provider asks for it

# What an SDK raises while it reads a reply that is not as its provider documents it.
UNREADABLE = (ValueError, TypeError, KeyError, AttributeError, IndexError)

_TOO_LONG = re.compile(
    r"prompt is too long|context[ _](?:length|window|limit|size)|maximum context|too"
    r" many (?:input )?tokens"
)
# What an error in the middle of a stream is called where asking again would not help.
_FINAL = (
    "invalid_request_error",
    "authentication_error",
    "permission_error",
    "not_found_error",
    "billing_error",
    "request_too_large",
    "insufficient_quota",
    "400",
    "401",
    "402",
    "403",
    "404",
)


def model_of(engine: Any, request: Request) -> str:
    model: str | None = request.model or engine.model
    if not model:
        raise Rejected(
            f"the engine {engine.name} needs a model: name one with model= (in the shell,"
            " --model), or as `model:` in the agent's file"
        )
    return model


def extra(engine: Any, request: Request) -> dict[str, Any]:
    """Return the arguments of a request beside its content: the key of the step, the user's
    parameters.
    """
    headers = {"Idempotency-Key": request.key} if request.key else {}
    return {"extra_headers": headers, "extra_body": engine.parameters}


class Dropped(Exception):
    """The stream ended, and the reply had not."""


class Reading(Protocol):
    """A reply that is being read."""

    async def read(self) -> None:
        """Read to the end; raise Dropped where it breaks off, EngineError where the provider
        refuses.
        """
        ...

    def turn(self, *, whole: bool) -> Turn:
        """Return the turn so far; `whole` where it was read to its end."""
        ...


async def take(begin: Callable[[], Reading], interrupt: asyncio.Event) -> Turn:
    """Take a step and return its turn. The usage of broken attempts is part of its usage."""
    wasted = Usage()
    for attempt in range(REPEATS + 1):
        if interrupt.is_set():
            break
        reading = begin()
        try:
            turn = reading.turn(whole=await until(interrupt, reading.read))
        except EngineError as error:
            if wasted != Usage():
                error.usage = wasted
            raise error from error.__cause__
        except (Dropped, *UNREADABLE) as error:
            usage = _usage_so_far(reading)
            wasted += usage or Usage()
            if attempt == REPEATS:
                how = "broke off" if isinstance(error, Dropped) else "could not be read"
                raise Unavailable(
                    f"the reply {how} {attempt + 1} times: {error}",
                    usage=wasted,
                    sent=usage is None,
                ) from error
            await until(interrupt, partial(asyncio.sleep, PAUSE * 2**attempt))
            continue
        return turn._replace(usage=turn.usage + wasted)
    return Turn("", stop="interrupted", usage=wasted)


def _usage_so_far(reading: Reading) -> Usage | None:
    """Return the usage of a reply that broke off; None where nothing can be known of it."""
    try:
        return reading.turn(whole=False).usage
    except UNREADABLE:
        return None


async def until(interrupt: asyncio.Event, work: Callable[[], Coroutine[Any, Any, None]]) -> bool:
    """Return whether the work ended before somebody interrupted it. Nothing of it goes on
    afterwards.
    """
    task = asyncio.ensure_future(work())
    interruption = asyncio.ensure_future(interrupt.wait())
    try:
        await asyncio.wait((task, interruption), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
        return task.done()
    finally:
        task.cancel()
        interruption.cancel()
        await asyncio.gather(task, interruption, return_exceptions=True)


def problem(error: Exception, *, streaming: bool = False) -> EngineError | Dropped:
    """Return our error for an SDK's. Those of both SDKs have a status, where there was an answer,
    and its body; `streaming`: the answer had begun.
    """
    status, body = getattr(error, "status_code", None), getattr(error, "body", None)
    inner = body.get("error", body) if isinstance(body, dict) else {}
    inner = inner if isinstance(inner, dict) else {"message": inner}
    kinds = {str(inner.get("type")), str(inner.get("code"))}
    text = (
        f"{type(error).__name__}:"
        f" {inner.get('message') or error}{'' if status or streaming else _where(error)}"
    )
    if (streaming or status in (400, 413, 422)) and _TOO_LONG.search(f"{text} {kinds}".lower()):
        return ContextTooLong(text)
    wait = asked_wait(getattr(getattr(error, "response", None), "headers", {}))
    if wait > LONGEST_WAIT:
        text += f" (it asks to be left alone for {wait:.0f} s)"
    if streaming:
        return Rejected(text) if kinds & {*_FINAL} else Dropped(text)
    if status is None or status in (408, 409, 429) or status >= 500:
        if "insufficient_quota" in kinds:
            return Rejected(text)
        # a request that nobody answered in time may have been worked on, and be charged
        return Unavailable(text, sent="Timeout" in type(error).__name__)
    return Rejected(text)


def asked_wait(headers: Mapping[str, str]) -> float:
    """Return the seconds after which a provider wants to be asked again; 0 where it says none."""
    value = headers.get("retry-after") or ""
    try:
        return float(value)
    except ValueError:
        moment = parsedate_tz(value)
        return 0.0 if moment is None else max(0.0, mktime_tz(moment) - time.time())


async def end_long_waits(response: Any) -> None:
    """Stop the SDK's retries where the provider asks for a longer wait than the SDK would make: a
    retry before that gets the same answer.
    """
    if asked_wait(response.headers) > LONGEST_WAIT:
        response.headers["x-should-retry"] = "false"


# of the SDKs' HTTP clients
HOOKS: dict[str, list[Any]] = {"response": [end_long_waits]}


def _where(error: Exception) -> str:
    """Return the address at which nobody answered."""
    url = getattr(getattr(error, "request", None), "url", None)
    return f" ({url})" if url else ""


def call_of(id: str, name: str, arguments: str) -> Call:
    """Return a call, whatever its arguments are."""
    try:
        value = json.loads(arguments or "{}")
    except ValueError as error:
        return Call(id, name, {}, f"the arguments are no JSON: {error}")
    if not isinstance(value, dict):
        return Call(id, name, {}, f"the arguments are no object but {type(value).__name__}")
    return Call(id, name, value)


def ending(stop: str, text: str, calls: tuple[Call, ...]) -> str:
    """Return how a step ended, where the provider's word alone does not say it."""
    if stop in ("length", "refusal", "interrupted"):
        return stop
    return "tools" if calls else "done" if text.strip() else "empty"


def guess(*texts: str) -> int:
    """Return about how many tokens these texts have, where the provider did not report them: four
    bytes each.
    """
    return -(-sum(len(text.encode("utf-8", "surrogatepass")) for text in texts) // 4)
