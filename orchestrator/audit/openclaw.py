"""The steps in a session of OpenClaw: `~/.openclaw/agents/AGENT/sessions/*.jsonl` of the versions
that keep sessions in files, and the replies alone in the file that our plugin writes of the others,
which keep them in a database. Called by `sources`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from orchestrator.audit.step import Step, mapping, moment, text_of
from orchestrator.plugin.transcripts.openclaw import read_usage


def is_own(row: Mapping[str, Any]) -> bool:
    """Tell whether a row is of a session of OpenClaw, or one of our plugin's in it."""
    is_head = row.get("type") == "session" and isinstance(row.get("cwd"), str)
    return is_head or ("cacheRead" in mapping(row.get("usage")) and "id" in row)


def steps(rows: Iterable[Mapping[str, Any]], name: str) -> Iterator[Step]:
    """Yield the steps of a session. What is not dated is as old as its file, which `sources`
    knows.
    """
    step = Step("", 0, name)
    calls: dict[str, Step] = {}
    for row in rows:
        step = step._replace(at=max(step.at, moment(row.get("timestamp"))))
        kind, message = row.get("type"), mapping(row.get("message"))
        if kind == "session":
            step = step._replace(cwd=str(row.get("cwd") or ""))
            yield step._replace(kind="start")
        elif kind == "compaction":
            yield step._replace(kind="compact")
        elif kind == "message" and message.get("role") == "user":
            yield step._replace(kind="prompt", text=text_of(message.get("content")))
        elif kind == "message" and message.get("role") == "assistant":
            yield from _reply(message, step._replace(id=str(row.get("id"))), calls)
        elif kind == "message" and str(message.get("toolCallId")) in calls:
            call = calls.pop(str(message["toolCallId"]))
            text, failed = text_of(message.get("content")), message.get("isError") is True
            yield call._replace(kind="result", at=step.at, text=text, failed=failed)
        elif "usage" in row:
            yield from _reply(row, step._replace(id=str(row.get("id"))), calls)


def _reply(message: Mapping[str, Any], step: Step, calls: dict[str, Step]) -> Iterator[Step]:
    """Yield what a reply of the model tells; `calls` learns which calls it makes."""
    if isinstance(message.get("usage"), dict):
        usage, model = read_usage(message["usage"]), str(message.get("model") or "")
        yield step._replace(kind="turn", usage=usage, model=model)
    content = message.get("content")
    if text := text_of(content).strip():
        yield step._replace(kind="said", id="", text=text)
    for block in content if isinstance(content, list) else ():
        if mapping(block).get("type") == "toolCall":
            id, tool = str(block.get("id")), str(block.get("name"))
            arguments = mapping(block.get("arguments"))
            calls[id] = step._replace(kind="call", id=id, tool=tool, arguments=arguments)
            yield calls[id]
