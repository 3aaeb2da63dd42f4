"""The values that a session works with: its configuration, and the handlers of its tools with their
results.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

from orchestrator.engines.protocol import Call, Place, Tool
from orchestrator.spend.counting import Counter


class ToolResult(NamedTuple):
    """What a tool gave: the text for the model, and what the run has to remember of it. `label` is
    what its tokens are for, where the tool alone does not say it."""

    text: str
    about: Mapping[str, Any] = {}
    failed: bool = False
    label: str | None = None


class Handler(NamedTuple):
    """A tool with what carries it out. `repeatable`: carried out twice it does what it does once.
    One that is not `offered` costs no schema, and is carried out for whoever calls it all the same.
    """

    tool: Tool
    call: Callable[[Call, str], Awaitable[ToolResult]]
    repeatable: bool = True
    offered: bool = True


class SessionConfig(NamedTuple):
    """What this session works under."""

    counter: Counter
    model: str | None = None
    max_output: int = 8_192
    seconds: float | None = None  # that are left
    place: Place | None = None
    label: str = "work_out"
    bounded: bool = False  # whether tokens or money are limited
    # whether the engine goes on with a conversation; else each step tells all of it anew
    resumes: bool = True
