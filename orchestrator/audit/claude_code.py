"""The steps in a transcript of Claude Code: `~/.claude/projects/PROJECT/SESSION.jsonl`, and a file
for each sub-agent. Older versions write what sub-agents do into the session's own file too. Called
by `sources`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from orchestrator.audit.step import Step, mapping, moment, text_of
from orchestrator.plugin.transcripts.claude_code import read_usage, reply_of

SKIPPED = (b'"parentToolUseID":', b'{"type":"file-history', b'{"type": "file-history')
KEPT = b'"agent_progress"'


def is_telling(line: bytes) -> bool:
    """Tell whether a line may have a step; most lines of progress, which may be long, have none."""
    return KEPT in line or not (SKIPPED[0] in line or line.startswith(SKIPPED[1:]))


def is_own(row: Mapping[str, Any]) -> bool:
    """Tell whether a row is of a transcript of Claude Code."""
    is_message = isinstance(row.get("message"), dict) or "uuid" in row
    return "sessionId" in row and (is_message or row.get("type") == "queue-operation")


def steps(rows: Iterable[Mapping[str, Any]], name: str) -> Iterator[Step]:
    """Yield the steps of a transcript in order; `name` is that of its file, without its end."""
    reading = _Reading(name)
    for row in rows:
        yield from reading.row(row)
    yield from reading.ended()


class _Reading:
    def __init__(self, session: str) -> None:
        self.session, self.cwd = session, ""
        self.at = self.before = 0  # of this row, and of the one before
        self.agent = ""  # whose own file it is
        self.calls: dict[str, tuple[str, Mapping[str, Any]]] = {}
        self.done = set[str]()
        self.agents = dict[str, str]()  # by the calls that they are
        self.said = ""
        self.begun = self.busy = False

    def row(self, row: Mapping[str, Any]) -> Iterator[Step]:
        """Yield what one line tells."""
        cwd = row.get("cwd")
        self.cwd = cwd if isinstance(cwd, str) and cwd else self.cwd
        self.before, self.at = self.at, max(self.at, moment(row.get("timestamp")))
        if not self.at or not self.cwd:
            return
        if not self.begun:
            self.begun = True
            self.session = str(row.get("sessionId") or self.session)
            self.agent = str(row.get("agentId") or "") if row.get("isSidechain") else ""
            task = text_of(mapping(row.get("message")).get("content")) if self.agent else ""
            yield self._step("start", self.agent, task)
        if row.get("subtype") == "compact_boundary":
            yield self._step("compact", self.agent)
        elif row.get("type") == "progress":
            yield from self._progress(row)
        elif row.get("type") in ("user", "assistant") and not row.get("isCompactSummary"):
            yield from self._message(row, self.agent, row)

    def ended(self) -> Iterator[Step]:
        if self.busy:
            yield self._step("stop", self.agent, self.said)
        if self.begun and not self.agent:
            yield self._step("end")

    def _progress(self, row: Mapping[str, Any]) -> Iterator[Step]:
        """Yield what a line tells of a sub-agent."""
        data = mapping(row.get("data"))
        agent = data.get("agentId")
        if data.get("type") != "agent_progress" or not isinstance(agent, str):
            return
        if agent not in self.agents.values():
            self.agents[str(row.get("parentToolUseID"))] = agent
            yield self._step("start", agent, text_of(data.get("prompt")))
        yield from self._message(mapping(data.get("message")), agent, {})

    def _message(
        self, row: Mapping[str, Any], agent: str, main: Mapping[str, Any]
    ) -> Iterator[Step]:
        """Yield what a message tells; `main` is its row where that is of the file's own
        conversation.
        """
        message = mapping(row.get("message"))
        if (reply := reply_of(row)) is not None:
            model, usage = str(reply.get("model") or ""), read_usage(reply["usage"])
            step = self._step("turn", agent)
            yield step._replace(id=str(reply["id"]), usage=usage, model=model)
        content = message.get("content")
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        for block in blocks if isinstance(blocks, list) else ():
            if isinstance(block, dict):
                yield from self._block(block, agent, message.get("role"), main)

    def _block(
        self, block: Mapping[str, Any], agent: str, role: Any, main: Mapping[str, Any]
    ) -> Iterator[Step]:
        kind, id = block.get("type"), str(block.get("id") or block.get("tool_use_id") or "")
        if kind == "tool_use" and id not in self.calls:
            self.calls[id] = str(block.get("name")), mapping(block.get("input"))
            yield self._call("call", agent, id)
        elif kind == "tool_result" and id in self.calls and id not in self.done:
            self.done.add(id)
            result, text = main.get("toolUseResult"), text_of(block.get("content"))
            failed = bool(block.get("is_error"))
            step = self._call("result", agent, id)
            yield step._replace(text=text, failed=failed, result=result)
            child = self.agents.get(id) or mapping(result).get("agentId")
            if isinstance(child, str):
                yield self._step("end", child, text)._replace(id=id, type=self._type(id))
        elif kind == "text" and isinstance(block.get("text"), str) and block["text"].strip():
            yield from self._words(role, agent, block["text"], main)

    def _words(self, role: Any, agent: str, text: str, main: Mapping[str, Any]) -> Iterator[Step]:
        if role == "assistant":
            yield self._step("said", agent, text)
        if agent or not main:
            return
        if role == "assistant":
            self.said = text
        elif not main.get("isMeta"):
            if self.busy and set(self.calls) == self.done:  # else it was typed meanwhile
                yield self._step("stop", text=self.said)._replace(at=self.before)
            self.busy, self.said = True, ""
            yield self._step("prompt", text=text)

    def _type(self, id: str) -> str:
        return str(self.calls[id][1].get("subagent_type") or "")

    def _call(self, kind: str, agent: str, id: str) -> Step:
        tool, arguments = self.calls[id]
        return self._step(kind, agent)._replace(tool=tool, id=id, arguments=arguments)

    def _step(self, kind: str, agent: str = "", text: str = "") -> Step:
        return Step(kind, self.at, self.session, self.cwd, agent, text=text)
