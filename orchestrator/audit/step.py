"""The moments of a recorded conversation, whatever wrote it down. Values; reads no file."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from orchestrator.engines.protocol import Usage


class Step(NamedTuple):
    """One moment. `kind` is `start`, `prompt`, `turn`, `said`, `call`, `result`, `compact`, `stop`
    or `end`; `agent` is a sub-agent's id, and empty in the main conversation. A `turn` is a reply
    of the model: it may come again under its `id` with the usage that is known by then. `result` is
    what a client keeps of a call beside the text that the model got.
    """

    kind: str
    at: int  # in microseconds
    session: str
    cwd: str = ""
    agent: str = ""
    id: str = ""
    tool: str = ""
    arguments: Mapping[str, Any] = {}
    text: str = ""
    failed: bool = False
    result: Any = None
    usage: Usage | None = None
    model: str = ""
    type: str = ""  # of a sub-agent


def moment(stamp: object) -> int:
    """Return a time in ISO form in microseconds; 0 for anything else."""
    if not isinstance(stamp, str):
        return 0
    try:
        return int(datetime.fromisoformat(stamp).timestamp() * 1e6)
    except (ValueError, OverflowError):
        return 0


def text_of(content: Any) -> str:
    """Return the text of a message's content: a text, or blocks that have one."""
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    texts = [block.get("text") for block in blocks if isinstance(block, dict)]
    return "\n".join(text for text in texts if isinstance(text, str))


def mapping(value: Any) -> Mapping[str, Any]:
    """Return a value where it is an object of JSON, else an empty one."""
    return value if isinstance(value, dict) else {}
