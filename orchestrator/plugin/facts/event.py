"""An event of a client and the reply to it, read from and written as that client's JSON. Pure.

The names of a client's events, fields and tools stand in its facts file and nowhere else. Called by
the hooks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from orchestrator.files.touch import LONGEST, Edit, Touch, paths_in, shown_in
from orchestrator.plugin.facts import Facts, ToolFacts
from orchestrator.plugin.facts.edits import read_edits
from synapse.system.text import REPLACEMENT, storable

LONGEST_RESULT = 1 << 20  # characters of a tool's result that are looked at
SUBJECTS = 20  # files of one call that are looked up
_FIELDS = (
    "session",
    "cwd",
    "agent",
    "type",
    "source",
    "prompt",
    "tool",
    "call",
    "message",
    "transcript",
)


class Event(NamedTuple):
    """One event of a client's session. `name` is ours, `hook` the client's; `agent` is the client's
    id of a sub-agent, None in the main conversation. `kind` says what a tool does: read, edit, run,
    grep, fetch, search, spawn, memory or other; `subjects` are the files or addresses that it is
    about, and `edits` what it changes in them. `identity` is the agent that the client's
    environment names for its main conversation. `failed`: the call that has ended gave nothing.
    `run`: RUN:EPOCH of the supervisor's run that the client works for."""

    client: str
    name: str
    hook: str
    session: str
    cwd: str = ""
    agent: str | None = None
    type: str | None = None
    source: str = ""
    prompt: str = ""
    tool: str = ""
    kind: str = "other"
    subjects: tuple[str, ...] = ()
    edits: tuple[Edit, ...] = ()
    arguments: Mapping[str, Any] = {}
    call: str | None = None
    result: str = ""
    message: str = ""
    transcript: str | None = None
    going_on: bool = False
    pid: int | None = None
    identity: str = ""
    failed: bool = False
    run: str = ""

    @property
    def call_text(self) -> str:
        """Return the call as people read it: the tool, and what it is about."""
        texts = (*self.subjects, *self.arguments.values())
        subject = next((text for text in texts if isinstance(text, str) and text), "")
        return f"{self.tool} {subject}".strip() if self.tool else ""

    def touch(self) -> Touch:
        """Return the event as far as it has to do with files."""
        values = self.arguments.values()
        text = "\n".join(value for value in values if isinstance(value, str))[:LONGEST]
        paths = self.subjects
        if self.kind == "run":
            paths = paths_in(text)
        elif self.kind not in ("read", "edit"):
            paths = tuple(shown_in(self.prompt))
        call = self.call or ""
        return Touch(self.kind, paths, self.edits, text, call, self.cwd, self.failed)


class Reply(NamedTuple):
    """What a client is answered. `context` reaches the model beside what it was about to get;
    `deny` stands in the place of a call, which is not made; `prompt` replaces that of a spawn; with
    `again` an agent that would end goes on; with `stop` the session ends. `notice` is shown to the
    person, and to no model.
    """

    context: str = ""
    deny: str = ""
    prompt: str = ""
    again: str = ""
    stop: str = ""
    notice: str = ""


NOTHING = Reply()


def read_event(
    facts: Facts, payload: Mapping[str, Any], pid: int | None = None, identity: str = ""
) -> Event | None:
    """Return the event that a client's JSON tells of; None for one that nothing is done about."""
    names = facts.fields
    hook = _text(payload.get(names["event"]))
    event_facts = facts.events.get(hook)
    session = _text(payload.get(names["session"]))
    if event_facts is None or not session:
        return None
    if _is_any(event_facts.skip, names, payload):
        return None
    name = next(
        (
            our_name
            for our_name, patterns in event_facts.also.items()
            if _is_any(patterns, names, payload)
        ),
        event_facts.name,
    )
    values: dict[str, Any] = {
        field: _text(payload.get(names[field])) for field in _FIELDS if field in names
    }
    if event_facts.name == "agent-stop" and "agent_transcript" in names:
        values["transcript"] = _text(payload.get(names["agent_transcript"]))
    for field, pattern in facts.strip.items():
        values[field] = re.sub(pattern, "", values.get(field, ""), count=1, flags=re.DOTALL)
    for field in ("agent", "type", "call", "transcript"):
        values[field] = values.get(field) or None
    arguments = payload.get(names.get("arguments", ""))
    arguments = arguments if isinstance(arguments, Mapping) else {}
    tool = facts.tool(values.get("tool", ""))
    if tool.kind == "spawn":
        values["prompt"] = _text(arguments.get(tool.prompt))
        values["type"] = _text(arguments.get(tool.type)) or None
    subjects = subjects_of(tool, arguments)
    return Event(
        facts.client,
        name,
        hook,
        kind=(tool.finds if subjects else "") or tool.kind,
        subjects=subjects,
        edits=read_edits(tool, arguments, subjects),
        arguments=arguments,
        result=_result_text(payload.get(names.get("result", "")))[:LONGEST_RESULT],
        going_on=payload.get(names.get("going_on", "")) is True,
        pid=pid,
        identity=identity,
        failed=event_facts.failed,
        **values,
    )


def _is_any(
    patterns: Mapping[str, str], names: Mapping[str, str], payload: Mapping[str, Any]
) -> bool:
    """Tell whether a field is as one of the patterns says."""
    return any(
        re.search(pattern, _text(payload.get(names.get(field, field))))
        for field, pattern in patterns.items()
    )


def reply_json(facts: Facts, event: Event, reply: Reply) -> str:
    """Return what the client's hook prints; nothing where nothing is said. An answer that the event
    cannot take in this client is left out."""
    event_facts = facts.events[event.hook]
    answer: dict[str, Any] = {}
    for form in event_facts.forms:
        text = getattr(reply, form)
        if text:
            values = {"$text": text, "$event": event.hook, "$input": _input(facts, event, reply)}
            _merge(answer, _fill_form(event_facts.output.get(form) or facts.output[form], values))
    return json.dumps(answer, ensure_ascii=True) if answer else ""


def _input(facts: Facts, event: Event, reply: Reply) -> Mapping[str, Any]:
    """Return a spawn's arguments with the prompt replaced."""
    name = facts.tool(event.tool).prompt
    return {**event.arguments, name: reply.prompt} if reply.prompt and name else event.arguments


def _fill_form(form: Any, values: Mapping[str, Any]) -> Any:
    if isinstance(form, Mapping):
        return {key: _fill_form(value, values) for key, value in form.items()}
    return values.get(form, form) if isinstance(form, str) else form


def _merge(into: dict[str, Any], more: Mapping[str, Any]) -> None:
    for key, value in more.items():
        if isinstance(value, Mapping) and isinstance(into.get(key), dict):
            _merge(into[key], value)
        else:
            into[key] = value


def subjects_of(tool: ToolFacts, arguments: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the files or addresses that a call names, each once."""
    text = _text(arguments.get(tool.subject)) if tool.subject else ""
    subjects = re.findall(tool.pattern, text, re.MULTILINE) if tool.pattern else [text]
    return tuple(dict.fromkeys(filter(None, subjects)))[:SUBJECTS]


def _text(value: Any) -> str:
    """Return a text that can be stored: half a surrogate pair and NUL, which JSON can say,
    cannot.
    """
    if not isinstance(value, str):
        return ""
    return storable(value.replace("\0", REPLACEMENT))


def _result_text(value: Any) -> str:
    """Return the text of a tool's result, whatever form its client gives it."""
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, Mapping):
        for name in ("text", "result", "content", "stdout", "output", "llmContent", "file"):
            if text := _result_text(value.get(name)):
                return text
        return ""
    if isinstance(value, list):
        return "\n".join(filter(None, map(_result_text, value)))
    return ""
