"""The steps in a rollout of Codex: `$CODEX_HOME/sessions/…/rollout-*.jsonl`, a file for each
conversation. Called by `sources`.

A call is named as Codex's hooks name it, for which the facts of the client hold.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from orchestrator.audit.step import Step, mapping, moment, text_of
from orchestrator.plugin.transcripts.codex import read_usage

SHELLS = ("exec_command", "shell", "shell_command", "local_shell", "container.exec")
CALLS = ("function_call", "custom_tool_call", "local_shell_call", "web_search_call")
RESULTS = ("function_call_output", "custom_tool_call_output")
PATCH = "*** Begin Patch"
_COMMAND = re.compile(r"""exec_command\(\{\s*['"]?cmd['"]?:\s*(['"`])((?:\\.|(?!\1).)*)\1""", re.S)


def is_own(row: Mapping[str, Any]) -> bool:
    """Tell whether a row is of a rollout of Codex."""
    return isinstance(row.get("payload"), dict) and "type" in row


def steps(rows: Iterable[Mapping[str, Any]], name: str) -> Iterator[Step]:
    """Yield the steps of a rollout in order; `name` is that of its file, without its end."""
    reading = _Reading(name)
    for row in rows:
        yield from reading.row(row)
    yield from reading.ended()


class _Reading:
    def __init__(self, session: str) -> None:
        self.session, self.cwd = session, ""
        self.at = self.before = 0  # of this row, and of the one before
        self.thread, self.agent, self.model = "", "", ""
        self.calls: dict[str, tuple[str, Mapping[str, Any]]] = {}
        self.done = set[str]()
        self.said, self.total = "", None
        self.begun = self.busy = self.recorded = False

    def row(self, row: Mapping[str, Any]) -> Iterator[Step]:
        """Yield what one line tells. A forked conversation begins with its parent's lines."""
        self.before, self.at = self.at, max(self.at, moment(row.get("timestamp")))
        kind, payload = row.get("type"), mapping(row.get("payload"))
        if kind == "session_meta" and not self.begun:
            yield from self._begin(payload)
        elif kind == "turn_context":
            self.cwd = str(payload.get("cwd") or self.cwd)
            self.model = str(payload.get("model") or self.model)
        elif kind == "token_usage_record":
            yield from self._usage_record(payload)
        elif kind == "compacted":
            yield self._step("compact")
        elif kind == "event_msg":
            yield from self._event(payload)
        elif kind == "response_item":
            yield from self._item(payload)

    def ended(self) -> Iterator[Step]:
        if self.busy and not self.agent:
            yield self._step("stop", self.said)
        if self.begun:
            yield self._step("end", self.said)

    def _begin(self, meta: Mapping[str, Any]) -> Iterator[Step]:
        self.begun, self.thread = True, str(meta.get("id") or self.session)
        self.cwd = str(meta.get("cwd") or "")
        parent = meta.get("parent_thread_id")
        self.session = str(meta.get("session_id") or parent or self.thread)
        self.agent = self.thread if parent and self.thread != self.session else ""
        yield self._step("start")

    def _usage_record(self, payload: Mapping[str, Any]) -> Iterator[Step]:
        if payload.get("thread_id") == self.thread:
            self.recorded = True
            yield self._turn(str(payload.get("response_id")), mapping(payload.get("usage")))

    def _event(self, payload: Mapping[str, Any]) -> Iterator[Step]:
        """Yield what an event tells. A count of tokens is of the reply before, which has a record
        of its own in newer versions.
        """
        kind = payload.get("type")
        if kind == "token_count":
            info = mapping(payload.get("info"))
            total, last = info.get("total_token_usage"), mapping(info.get("last_token_usage"))
            if last and total != self.total and not self.recorded:
                self.total = total
                yield self._turn(f"{self.thread} {json.dumps(total, sort_keys=True)}", last)
        elif kind == "user_message" and not self.agent:
            yield from self._prompt(str(payload.get("message") or ""))
        elif kind == "task_complete" and payload.get("last_agent_message"):
            self.said = str(payload["last_agent_message"])
        elif kind == "context_compacted":
            yield self._step("compact")

    def _prompt(self, text: str) -> Iterator[Step]:
        if self.busy and set(self.calls) == self.done:
            yield self._step("stop", self.said)._replace(at=self.before)
        self.busy, self.said = True, ""
        yield self._step("prompt", text)

    def _item(self, payload: Mapping[str, Any]) -> Iterator[Step]:
        kind, id = payload.get("type"), str(payload.get("call_id") or payload.get("id") or "")
        if kind == "message" and payload.get("role") == "assistant":
            self.said = text_of(payload.get("content"))
            yield self._step("said", self.said)
        elif kind in CALLS and id not in self.calls:
            self.calls[id] = _call(payload)
            yield self._call("call", id)
            if kind == "web_search_call":  # its result goes to the model alone
                self.done.add(id)
        elif kind in RESULTS and id in self.calls and id not in self.done:
            self.done.add(id)
            text, failed = _output(payload.get("output"))
            yield self._call("result", id)._replace(text=text, failed=failed)

    def _turn(self, id: str, usage: Mapping[str, Any]) -> Step:
        return self._step("turn")._replace(id=id, usage=read_usage(usage), model=self.model)

    def _call(self, kind: str, id: str) -> Step:
        tool, arguments = self.calls[id]
        return self._step(kind)._replace(tool=tool, id=id, arguments=arguments)

    def _step(self, kind: str, text: str = "") -> Step:
        return Step(kind, self.at, self.session, self.cwd, self.agent, text=text)


def _call(payload: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """Return the tool of a call, as the hooks name it, and its arguments."""
    name = str(payload.get("name") or "")
    if payload.get("type") in ("local_shell_call", "web_search_call"):
        action = mapping(payload.get("action"))
        query = {"query": str(action.get("query") or "")}
        is_shell = payload["type"] == "local_shell_call"
        return ("Bash", {"command": _command(action)}) if is_shell else ("web_search", query)
    text = payload.get("arguments") if "arguments" in payload else payload.get("input")
    text = text if isinstance(text, str) else ""
    if PATCH in text and name in ("apply_patch", "exec"):
        return "apply_patch", {"command": text}
    if name == "exec":  # a program that calls tools
        commands = [match[2] for match in _COMMAND.finditer(text)]
        return ("Bash", {"command": commands[0]}) if len(commands) == 1 else (name, {"input": text})
    try:
        arguments = mapping(json.loads(text))
    except ValueError:
        arguments = {"input": text}
    return ("Bash", {"command": _command(arguments)}) if name in SHELLS else (name, arguments)


def _command(arguments: Mapping[str, Any]) -> str:
    """Return the command of a shell's call: a text, or words of which a shell takes the last."""
    command = arguments.get("cmd") or arguments.get("command") or ""
    if isinstance(command, list):
        items = [item for item in command if isinstance(item, str)]
        return items[-1] if items[1:2] in (["-lc"], ["-c"]) else " ".join(items)
    return str(command)


def _output(output: Any) -> tuple[str, bool]:
    """Return the text of a call's output, and whether it failed."""
    if isinstance(output, str) and output.startswith("{"):
        try:
            output = json.loads(output)
        except ValueError:
            return output, False
    if isinstance(output, dict):
        failed = output.get("success") is False or bool(
            mapping(output.get("metadata")).get("exit_code")
        )
        inner = output.get("output", output.get("content"))
        return text_of(inner), failed
    return text_of(output), False
