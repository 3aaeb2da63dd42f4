"""The values that all wire formats of the model server share: request, reply, usage, fault. Each
format has a module of its own, which reads a request and writes the reply. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from typing import Any, NamedTuple

from orchestrator.engines.protocol import Message, Tool
from orchestrator.engines.scripted import Move, Seen
from orchestrator.testing.contract import Fault
from synapse.system.json import dumps


class Invalid(Exception):
    """The request is not one that the provider would take."""


class Block(NamedTuple):
    """A stretch of the prompt as a model reads it. `mark`: the client wants it cached up to
    here.
    """

    kind: str
    text: str
    mark: bool = False


class Asked(NamedTuple):
    """A request, read. `names` gives the wire's name for a tool whose name was made longer to be
    unambiguous; the tools of `free` take a text, not JSON.
    """

    seen: Seen
    model: str
    stream: bool
    blocks: tuple[Block, ...]
    thinks: bool = False
    names: Mapping[str, tuple[str, str]] = {}
    free: frozenset[str] = frozenset()


class Used(NamedTuple):
    """Tokens: read from the prompt cache, written to it, neither; and those of the reply."""

    fresh: int
    read: int
    written: int
    out: int

    @property
    def sent(self) -> int:
        return self.fresh + self.read + self.written


class Spoken(NamedTuple):
    """A call as it goes over the wire. The arguments are text, which need not be JSON."""

    id: str
    name: str
    arguments: str


class Said(NamedTuple):
    """A reply. `thought` is what the model thought first, where it was asked to think."""

    id: str
    model: str
    text: str
    calls: tuple[Spoken, ...]
    stop: str
    used: Used
    thought: str | None = None


class Event(NamedTuple):
    """One event of a stream. `of` says what it is a piece of: text, arguments, or neither."""

    name: str | None
    data: Mapping[str, Any]
    of: str = ""


def compact(value: Any) -> str:
    return dumps(value)


def said(asked: Asked, move: Move, fault: Fault | None, number: int) -> Said:
    """Return the move as a reply; its usage is not known yet."""
    kind = fault.kind if fault else ""
    if kind in ("refusal", "empty", "length"):
        move = Move(
            "" if kind == "empty" else move.text, move.calls, None if kind == "empty" else kind
        )
    calls = () if kind in ("refusal", "empty") else move.calls
    cut = -1 if kind == "malformed" else None
    spoken = tuple(
        Spoken(f"call_{asked.seen.turn}_{index}", name, compact(arguments)[:cut])
        for index, (name, arguments) in enumerate(calls)
    )
    stop = move.stop or ("tools" if spoken else "done")
    thought = f"It is turn {asked.seen.turn}." if asked.thinks else None
    return Said(f"{number:06}", asked.model, move.text, spoken, stop, Used(0, 0, 0, 0), thought)


def reply_text(reply: Said) -> str:
    """Return all that the model wrote, to be counted."""
    return "".join(
        (reply.thought or "", reply.text, *(call.name + call.arguments for call in reply.calls))
    )


def pieces(text: str) -> Iterator[str]:
    """Return a text in pieces, as it would be streamed: two at least, forty at most."""
    size = max(len(text) // 40 + 1, min(16, (len(text) + 1) // 2))
    for start in range(0, len(text), size):
        yield text[start : start + size]


def signed(thought: str) -> str:
    """Return a signature that only this server gives."""
    return sha256(f"signed {thought}".encode()).hexdigest()


def tool_block(tool: Tool) -> Block:
    return Block(
        "tool", compact({"name": tool.name, "description": tool.description, "schema": tool.schema})
    )


def user_message(text: str) -> Message:
    """Return a user's message. Labels are not sent: they are told from the headings of a spawn
    prompt.
    """
    if text.startswith("## Shared Memory Context"):
        return Message("user", text, "view")
    return Message("user", text, "task" if "## Your Task" in text else "history")


def texts_of(content: Any, kinds: Iterable[str]) -> list[str]:
    """Return the texts of a content that is either a text or a list of parts."""
    if isinstance(content, str):
        return [content]
    return [item.get("text", "") for item in content or () if item.get("type") in kinds]


def parsed(text: str) -> dict[str, Any]:
    """Return the arguments of an earlier call; none where they cannot be read."""
    try:
        value = json.loads(text or "{}")
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def misreported(value: Any, kind: str) -> Any:
    """Return the data of an event with its usage missing, null or negative, by the fault's kind."""
    if isinstance(value, list):
        return [misreported(item, kind) for item in value]
    if isinstance(value, Mapping):
        remaining = {key: item for key, item in value.items() if key != "usage"}
        report = {key: misreported(item, kind) for key, item in remaining.items()}
        if "usage" in value and kind != "no usage":
            report["usage"] = _negative(value["usage"]) if kind == "negative usage" else None
        return report
    return value


def _negative(usage: Any) -> Any:
    if isinstance(usage, Mapping):
        return {key: _negative(value) for key, value in usage.items()}
    return -usage if isinstance(usage, int) else usage
