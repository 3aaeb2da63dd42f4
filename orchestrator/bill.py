"""What one call of a model is billed as: which of its tokens are for what. Pure, but for the counting."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from operator import is_

from orchestrator.counting import schema_text
from orchestrator.engine import Call, Message, Request, Tool, Turn
from orchestrator.ledger import Segment

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
    """What the words of an agent of this role are for."""
    return "plan" if role in COORDINATORS else "work_out"


def tool_label(name: str) -> str:
    """What the result of a tool is for."""
    return TOOL_LABELS.get(name, "work_obs")


class Sheet:
    """What each prompt of a conversation is billed as. Messages only come to it, and each is counted once."""

    def __init__(self, count: Count, guide: int = 0) -> None:
        """`guide`: how many tokens of the system text speak of the memory and of the team."""
        self._count, self._guide = count, guide
        self._tools: tuple[tuple[Tool, ...], list[Segment]] = ((), [])
        self._messages: list[Message] = []
        self._segments: list[list[Segment]] = []  # of each message, as new
        self._again: tuple[int, list[Segment]] = 0, []  # of so many first messages, sent once more

    def sent(self, request: Request, known: int) -> tuple[Segment, ...]:
        """The segments of a prompt; the first `known` messages, and with them the system text and the tools, were sent
        before. Without any known, everything is new."""
        self._take_in(request.messages)
        known = min(max(known, 0), len(request.messages))
        system = self._count(request.system)
        guide = min(self._guide, system)
        head = [Segment("system", system - guide), Segment("guide", guide), *self._schemas(request.tools)]
        new = chain.from_iterable(self._segments[known:])
        if not known:
            return tuple(_merged([*head, *new]))
        return tuple(_merged([*map(_later, head), *self._sent_again(known), *new]))

    def _take_in(self, messages: Sequence[Message]) -> None:
        """Count what came; where it is another conversation from some place on, from there."""
        same = len(self._messages)
        if len(messages) < same or not all(map(is_, self._messages, messages)):
            pairs = enumerate(zip(self._messages, messages, strict=False))
            same = next((place for place, (old, new) in pairs if old is not new), len(messages))
            self._again = 0, []
        self._messages[same:] = messages[same:]
        self._segments[same:] = [_merged(_message(message, self._count)) for message in messages[same:]]

    def _sent_again(self, known: int) -> list[Segment]:
        counted, segments = self._again if self._again[0] <= known else (0, [])
        more = map(_later, chain.from_iterable(self._segments[counted:known]))
        self._again = known, _merged([*segments, *more])
        return self._again[1]

    def _schemas(self, tools: tuple[Tool, ...]) -> list[Segment]:
        if self._tools[0] != tools:
            told = [Segment(_schema_label(tool.name), self._count(schema_text(tool))) for tool in tools]
            self._tools = tools, _merged(told)
        return self._tools[1]


def sent(request: Request, known: int, count: Count) -> tuple[Segment, ...]:
    """The segments of one prompt alone."""
    return Sheet(count).sent(request, known)


def begun_again(segments: Iterable[Segment]) -> tuple[Segment, ...]:
    """The same, for a client that keeps no conversation: what it had been told already is told it again."""
    return tuple(_merged(each if each.first else each._replace(label="retry") for each in segments))


def got(turn: Turn, label: str, count: Count) -> tuple[Segment, ...]:
    """The segments of a reply."""
    segments = [Segment(label, count(turn.text))]
    return tuple(_merged([*segments, *(_call(call, True, count) for call in turn.calls)]))


def _later(segment: Segment) -> Segment:
    return segment._replace(first=False)


def _schema_label(name: str) -> str:
    """Being told of the memory's tools is coordination; of the user's own, part of the task."""
    return "tool_schema" if name in TOOL_LABELS else "task"


def _message(message: Message, count: Count) -> list[Segment]:
    """An earlier reply is history, but for what planned; it was counted as new when it was given."""
    if message.role != "assistant":
        return [Segment(message.label, count(message.text))]
    label = message.label if message.label == "plan" else "history"
    return [Segment(label, count(message.text), False), *(_call(call, False, count) for call in message.calls)]


def _call(call: Call, first: bool, count: Count) -> Segment:
    label = TOOL_LABELS.get(call.name, "work_out" if first else "history")
    return Segment(label, count(f"{call.name} {json.dumps(dict(call.arguments), ensure_ascii=False)}"), first)


def _merged(segments: Iterable[Segment]) -> list[Segment]:
    """One segment for each label and newness, in the order in which they came up."""
    sums: dict[tuple[str, bool], int] = {}
    for segment in segments:
        key = (segment.label, segment.first)
        sums[key] = sums.get(key, 0) + segment.tokens
    return [Segment(label, tokens, first) for (label, first), tokens in sums.items() if tokens]
