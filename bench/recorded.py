"""Recorded sessions of Claude Code as steps: what a conversation asked for, and what it saw of
files by that. Reads transcripts; runs nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

NUMBERED = re.compile(r"^ *(\d+)(?:→|\t)(.*)$")
EDITS = ("Edit", "MultiEdit", "Write")


class Observation(NamedTuple):
    """What a result shows of a file: some of its lines by their numbers, and how many there are;
    of an edit, all lines before and after it, where they are told.
    """

    path: str
    lines: Mapping[int, str] = {}
    total: int | None = None
    before: tuple[str, ...] | None = None
    after: tuple[str, ...] | None = None
    old: str = ""
    new: str = ""
    everywhere: bool = False


class Step(NamedTuple):
    """One moment of a session: `start`, `prompt`, `call`, `result`, `compact`, `stop` or `end`.
    `agent` is a sub-agent's id.
    """

    at: int  # in microseconds
    session: str
    kind: str
    cwd: str
    agent: str = ""
    tool: str = ""
    id: str = ""
    arguments: Mapping[str, Any] = {}
    text: str = ""
    failed: bool = False
    seen: Observation | None = None


def steps(path: Path) -> Iterator[Step]:
    """Yield the steps of a transcript, in order."""
    reading = _Reading(path.stem)
    for row in _rows(path):
        yield from reading.row(row)
    yield from reading.ended()


class _Reading:
    def __init__(self, session: str) -> None:
        self.session, self.cwd, self.at = session, "", 0
        self.calls: dict[str, tuple[str, Mapping[str, Any]]] = {}
        self.done = set[str]()
        self.agents = dict[str, str]()  # by the calls that they are
        self.said = ""
        self.begun = self.busy = False

    def row(self, row: Mapping[str, Any]) -> Iterator[Step]:
        """Yield what one line tells."""
        self.cwd = row.get("cwd") or self.cwd
        if stamp := row.get("timestamp"):
            moment = datetime.fromisoformat(stamp).timestamp()
            self.at = max(self.at, int(moment * 1e6))
        if not self.at or not self.cwd:
            return
        if not self.begun:
            self.begun = True
            yield self._step("start")
        if row.get("subtype") == "compact_boundary":
            yield self._step("compact")
        elif row.get("type") == "progress" and row["data"].get("type") == "agent_progress":
            yield from self._agent(row)
        elif row.get("type") in ("user", "assistant") and not row.get("isCompactSummary"):
            yield from self._message(row.get("message") or {}, "", row.get("toolUseResult"), row)

    def ended(self) -> Iterator[Step]:
        if self.busy:
            yield self._step("stop", text=self.said)
        if self.begun:
            yield self._step("end")

    def _agent(self, row: Mapping[str, Any]) -> Iterator[Step]:
        agent, call = row["data"]["agentId"], row.get("parentToolUseID", "")
        if agent not in self.agents.values():
            self.agents[call] = agent
            yield self._step("start", agent, text=row["data"].get("prompt", ""))
        message = row["data"]["message"].get("message") or {}
        yield from self._message(message, agent, None, {})

    def _message(
        self, message: Mapping[str, Any], agent: str, result: Any, row: Mapping[str, Any]
    ) -> Iterator[Step]:
        content = message.get("content")
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
        for block in filter(lambda block: isinstance(block, dict), blocks):
            kind, id = block.get("type"), str(block.get("id") or block.get("tool_use_id") or "")
            if kind == "tool_use" and id not in self.calls:
                self.calls[id] = block["name"], block.get("input") or {}
                yield self._call("call", agent, id)
            elif kind == "tool_result" and id in self.calls and id not in self.done:
                self.done.add(id)
                text = _text(block.get("content"))
                failed = bool(block.get("is_error"))
                seen = None if failed else observed(*self.calls[id], result, text)
                yield self._call("result", agent, id)._replace(text=text, failed=failed, seen=seen)
                if id in self.agents:
                    yield self._step("end", self.agents[id], text=text)
            elif kind == "text" and not agent and block["text"].strip():
                yield from self._words(message.get("role"), block["text"], row)

    def _words(self, role: Any, text: str, row: Mapping[str, Any]) -> Iterator[Step]:
        if role == "assistant":
            self.said = text
        elif not row.get("isMeta"):
            if self.busy and set(self.calls) == self.done:  # else it was typed meanwhile
                yield self._step("stop", text=self.said)
            self.busy, self.said = True, ""
            yield self._step("prompt", text=text)

    def _call(self, kind: str, agent: str, id: str) -> Step:
        tool, arguments = self.calls[id]
        return self._step(kind, agent)._replace(tool=tool, id=id, arguments=arguments)

    def _step(self, kind: str, agent: str = "", text: str = "") -> Step:
        return Step(self.at, self.session, kind, self.cwd, agent, text=text)


def observed(tool: str, arguments: Mapping[str, Any], result: Any, text: str) -> Observation | None:
    """Return what a call's result shows of a file; None for other calls."""
    path = str(arguments.get("file_path", ""))
    if not path or "REDACTED" in path:  # several files of one name
        return None
    if tool == "Read":
        return _read(path, result, text)
    if tool not in EDITS:
        return None
    old, new = str(arguments.get("old_string", "")), str(arguments.get("new_string", ""))
    everywhere = bool(arguments.get("replace_all"))
    before = after = None
    if isinstance(result, dict) and isinstance(result.get("originalFile"), str):
        original = result["originalFile"]
        before = split(original)
        after = split(original.replace(old, new, -1 if everywhere else 1)) if old else None
    if tool == "Write":
        after = split(str(arguments.get("content", "")))
    return Observation(path, {}, None, before, after, old, new, everywhere)


def _read(path: str, result: Any, text: str) -> Observation | None:
    if isinstance(result, dict) and isinstance(result.get("file"), dict):
        file = result["file"]
        if not isinstance(file.get("content"), str):
            return None  # a picture
        rows = split(file["content"])[: file["numLines"]]
        start = max(file["startLine"], 1)  # an offset of 0 shows the first line too
        return Observation(path, dict(enumerate(rows, start)), file["totalLines"])
    numbered = (NUMBERED.match(line) for line in text.split("\n"))
    lines = {int(match[1]): match[2] for match in numbered if match}
    return Observation(path, lines) if lines else None


def split(text: str) -> tuple[str, ...]:
    """Return the lines of a file, however they end; the last is empty where the text ends so."""
    return tuple(text.replace("\r\n", "\n").split("\n"))


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of a file: several may stand in one line, and the last be cut off."""
    decoder = json.JSONDecoder()
    for line in path.read_text(encoding="utf-8", errors="replace").split("\n"):
        place, line = 0, line.strip()
        while place < len(line):
            try:
                row, place = decoder.raw_decode(line, place)
            except ValueError:
                break
            if isinstance(row, dict):
                yield row
            place += len(line[place:]) - len(line[place:].lstrip())


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    return "\n".join(str(block.get("text", "")) for block in blocks if isinstance(block, dict))
