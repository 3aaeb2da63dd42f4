"""The segments of a model call: which of its tokens are billed for what. Pure, but for the
counting.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from operator import is_
from typing import NamedTuple

from orchestrator.engines.protocol import Call, Message, Request, Tool, Turn
from orchestrator.runs.files.ledger import Segment
from orchestrator.spend.counting import schema_text

Count = Callable[[str], int]

# What a call of these tools is for; the user's own tools are work.
TOOL_LABELS = {
    "read": "capsule",
    "memory_search": "capsule",
    "claim": "capsule",
    "append": "writeback",
    "memory_remember": "writeback",
    "memory_forget": "writeback",
    "report_blocker": "writeback",
    "ack": "wake",
    "spawn_agent": "plan",
    "wait": "plan",
}
COORDINATORS = ("cto", "project-lead")  # what these say is planning


def said_label(role: str) -> str:
    """Return the label of the words that an agent of this role writes."""
    return "plan" if role in COORDINATORS else "work_out"


def tool_label(name: str) -> str:
    """Return the label of a tool's result."""
    return TOOL_LABELS.get(name, "work_obs")


class Piece(NamedTuple):
    """A text of a call, what it is for, and whether it can be new in a prompt: what the model said
    was counted as new when it was said."""

    label: str
    text: str
    first: bool = True


class Sheet:
    """What each prompt of a conversation is billed as. Messages only come to it, and each is
    counted once.
    """

    def __init__(self, count: Count, guide: int = 0) -> None:
        """Start with the function that counts. `guide`: how many tokens of the system text explain
        the memory and the team.
        """
        self._count, self._guide = count, guide
        self._tools: tuple[tuple[Tool, ...], list[Segment]] = ((), [])
        self._messages: list[Message] = []
        self._segments: list[list[Segment]] = []  # of each message, as new
        # of so many first messages, sent once more
        self._again: tuple[int, list[Segment]] = (0, [])

    def sent(self, request: Request, known_count: int) -> tuple[Segment, ...]:
        """Return the segments of a prompt; the first `known` messages, and with them the system
        text and the tools, were sent before. Without any known, everything is new.
        """
        self._take_in(request.messages)
        known_count = min(max(known_count, 0), len(request.messages))
        system = self._count(request.system)
        guide = min(self._guide, system)
        if self._tools[0] != request.tools:
            segments = map(self._segment, schemas(request.tools))
            self._tools = request.tools, _merged(segments)
        head = [Segment("system", system - guide), Segment("guide", guide), *self._tools[1]]
        new = chain.from_iterable(self._segments[known_count:])
        if not known_count:
            return tuple(_merged([*head, *new]))
        return tuple(_merged([*map(_later, head), *self._sent_again(known_count), *new]))

    def _take_in(self, messages: Sequence[Message]) -> None:
        """Count what came; where it is another conversation from some place on, from there."""
        same = len(self._messages)
        if len(messages) < same or not all(map(is_, self._messages, messages)):
            pairs = enumerate(zip(self._messages, messages, strict=False))
            same = next((index for index, (old, new) in pairs if old is not new), len(messages))
            self._again = 0, []
        self._messages[same:] = messages[same:]
        self._segments[same:] = [
            _merged(map(self._segment, pieces(message))) for message in messages[same:]
        ]

    def _sent_again(self, known: int) -> list[Segment]:
        counted, segments = self._again if self._again[0] <= known else (0, [])
        repeated = map(_later, chain.from_iterable(self._segments[counted:known]))
        self._again = known, _merged([*segments, *repeated])
        return self._again[1]

    def _segment(self, piece: Piece) -> Segment:
        return Segment(piece.label, self._count(piece.text), piece.first)


def sent(request: Request, known: int, count: Count) -> tuple[Segment, ...]:
    """Return the segments of one prompt alone."""
    return Sheet(count).sent(request, known)


def begun_again(segments: Iterable[Segment]) -> tuple[Segment, ...]:
    """Return the segments for a client that keeps no conversation: what it was sent before is sent
    again.
    """
    return tuple(
        _merged(
            segment if segment.first else segment._replace(label="retry") for segment in segments
        )
    )


def got(turn: Turn, label: str, count: Count) -> tuple[Segment, ...]:
    """Return the segments of a reply."""
    return tuple(_merged(Segment(piece.label, count(piece.text)) for piece in said(turn, label)))


def schemas(tools: Iterable[Tool]) -> Iterator[Piece]:
    """Return what a prompt says of its tools. The memory's are coordination, the user's own part of
    the task."""
    for tool in tools:
        yield Piece("tool_schema" if tool.name in TOOL_LABELS else "task", schema_text(tool))


def pieces(message: Message) -> Iterator[Piece]:
    """Return the texts of a message of a prompt. An earlier reply is history, but for what
    planned.
    """
    if message.role != "assistant":
        yield Piece(message.label, message.text)
        return
    yield Piece(message.label if message.label == "plan" else "history", message.text, False)
    for call in message.calls:
        yield Piece(TOOL_LABELS.get(call.name, "history"), _call_text(call), False)


def said(turn: Turn, label: str) -> Iterator[Piece]:
    """Return the texts of a reply."""
    yield Piece(label, turn.text)
    for call in turn.calls:
        yield Piece(TOOL_LABELS.get(call.name, "work_out"), _call_text(call))


def _later(segment: Segment) -> Segment:
    return segment._replace(first=False)


def _call_text(call: Call) -> str:
    return f"{call.name} {json.dumps(dict(call.arguments), ensure_ascii=False)}"


def _merged(segments: Iterable[Segment]) -> list[Segment]:
    """Return one segment for each label and newness, in the order in which they came up."""
    sums: dict[tuple[str, bool], int] = {}
    for segment in segments:
        key = (segment.label, segment.first)
        sums[key] = sums.get(key, 0) + segment.tokens
    return [Segment(label, tokens, first) for (label, first), tokens in sums.items() if tokens]
