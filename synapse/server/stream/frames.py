"""Frames of a stream: what is sent to a subscriber, each with the cursor to resume from.

A frame is one JSON object. Called by the other modules of this package.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from fastapi.sse import format_sse_event

from synapse.errors import InvalidQuery, SynapseError
from synapse.model import namespace as ns
from synapse.model.entry import Entry, check_priority
from synapse.model.results import Event
from synapse.server.problems import document
from synapse.wire.forms import event_json

START, CURRENT, ALIVE, PROBLEM = "start", "current", "alive", "problem"
_CONTROL = frozenset((START, CURRENT, ALIVE, PROBLEM))
RETRY = 1_000  # milliseconds after which a browser opens the stream again


class Frame(NamedTuple):
    """What is sent: `cursor` is where to resume once this has arrived."""

    cursor: int
    kind: str
    text: str

    def sse(self) -> bytes:
        """Return the frame as a server-sent event. Entries have no name of an event, so that
        `onmessage` of a browser has them.
        """
        return format_sse_event(
            data_str=self.text,
            event=self.kind if self.kind in _CONTROL else None,
            id=str(self.cursor),
            retry=RETRY if self.kind == START else None,
        )


def frame_of(event: Event) -> Frame:
    return Frame(event.cursor, event.kind, _text(event_json(event)))


def control(kind: str, cursor: int) -> Frame:
    return Frame(cursor, kind, _text({"cursor": cursor, "kind": kind}))


def problem(error: SynapseError, cursor: int) -> Frame:
    fields = {"cursor": cursor, "kind": PROBLEM, "problem": document(error)}
    return Frame(cursor, PROBLEM, _text(fields))


class Wanted(NamedTuple):
    """What a subscriber asked for of what it may see: patterns of namespaces and priorities; none
    is all.
    """

    namespaces: tuple[str, ...] = ()
    priorities: frozenset[str] = frozenset()

    def takes(self, entry: Entry) -> bool:
        if self.priorities and entry.priority not in self.priorities:
            return False
        return not self.namespaces or ns.matches_any(self.namespaces, entry.namespace)


MOST_PATTERNS = 100


def wanted(namespaces: Sequence[str], priorities: Sequence[str], critical: bool) -> Wanted:
    """Return what is asked for; InvalidEntry for what is no pattern or no priority."""
    if len(namespaces) > MOST_PATTERNS:
        raise InvalidQuery(f"a stream takes at most {MOST_PATTERNS} namespaces")
    patterns = tuple(dict.fromkeys(ns.check_glob(text) for text in namespaces))
    chosen = frozenset(check_priority(text) for text in priorities)
    return Wanted(patterns, frozenset(("critical",)) if critical else chosen)


def _text(fields: dict[str, Any]) -> str:
    # ASCII: one line, whatever it says
    return json.dumps(fields, separators=(",", ":"))
