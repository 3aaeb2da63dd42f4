"""Recorded conversations as figures: what each paid turn by turn, and of its calls what it takes to
compare them. Keeps no text but the names of calls, so that a gigabyte of sessions fits in memory.
Called by `reading`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

from orchestrator.audit.step import Step
from orchestrator.engines.protocol import Usage
from orchestrator.files.diff import is_compound
from orchestrator.plugin.facts import Facts, ToolFacts, load
from orchestrator.plugin.facts.edits import read_edits
from orchestrator.plugin.facts.event import subjects_of
from orchestrator.tools.calls import Shares, act_of
from synapse.errors import NotFound
from synapse.system.digest import sha256
from synapse.tools.blockers import blocker_of

CHARACTERS = 4  # in a token, about
LISTINGS = ("Glob", "LS", "list_directory", "glob")  # tools that look for files by their names
QUESTIONS = ("AskUserQuestion", "request_user_input")
LABEL = 160  # characters of a call's name that are kept
NAMES = 200  # names of a sub-agent's result that are looked for
FEWEST = 3  # of them that say whether the result was used
_RANGE = ("offset", "limit", "pages")
_REMINDER = re.compile(r"<system-reminder>.*?</system-reminder>\s*", re.S)
_UNCHANGED = "File unchanged since last read"  # what Claude Code says instead of a file
_NAME = re.compile(r"[A-Za-z0-9_$][A-Za-z0-9_$.-]{3,60}")


class Turn(NamedTuple):
    """A reply of a model."""

    at: int
    usage: Usage
    model: str


class Made(NamedTuple):
    """A call that gave something: which one it is, of which file, how long its result was, and
    which; after how many turns and after how many times that the context was emptied.
    """

    at: int
    kind: str
    key: str
    path: str
    tokens: int
    digest: int
    turn: int
    emptied: int


class Edited(NamedTuple):
    """An edit of a file; `refused` by the client, which had not seen the file as it is."""

    at: int
    path: str
    turn: int
    emptied: int
    refused: bool = False


class Wait(NamedTuple):
    """How long a conversation waited for a person, with a question or with what blocked it."""

    took: int
    question: bool


class Handed:
    """The result of a sub-agent, and whether its parent's words later have a name out of it."""

    def __init__(self, agent: str, names: frozenset[str]) -> None:
        self.agent, self.names, self.used = agent, names, False


class Conversation:
    """One conversation, of a session or of a sub-agent in it."""

    def __init__(self, number: int, client: str, session: str, agent: str) -> None:
        self.number, self.client, self.session, self.agent = number, client, session, agent
        self.folder, self.type = "", "sub-agent" if agent else "main"
        self.turns: dict[str, Turn] = {}
        self.calls: list[Made] = []
        self.edits: list[Edited] = []
        self.emptied: list[int] = []  # after how many turns
        self.handed: list[Handed] = []
        self.waits: list[Wait] = []
        self.tasks: dict[str, str] = {}  # that it gave to sub-agents, by their calls
        self.asked: dict[str, int] = {}
        self.blocked = 0

    def carried(self, turn: int, emptied: int) -> int:
        """Return how many turns sent a text that came after so many turns, and after the context
        was emptied so many times.
        """
        end = self.emptied[emptied] if emptied < len(self.emptied) else len(self.turns)
        return max(end - turn, 0)


class Conversations:
    """All that is read, and the names of the calls in it."""

    def __init__(self) -> None:
        self.all: dict[tuple[str, str, str], Conversation] = {}
        self.labels: dict[str, str] = {}

    def of(self, client: str, step: Step) -> Conversation:
        """Return the conversation of a step."""
        key = (client, step.session, step.agent)
        conversation = self.all.get(key)
        if conversation is None:
            conversation = self.all[key] = Conversation(len(self.all), *key)
        conversation.folder = conversation.folder or step.cwd
        return conversation

    def add(self, client: str, step: Step) -> None:
        """Take up a step."""
        conversation = self.of(client, step)
        take = getattr(self, f"_{step.kind}", None)
        if take is not None:
            take(conversation, step)

    def _turn(self, conversation: Conversation, step: Step) -> None:
        if step.type:  # a trace names the agent with each call
            conversation.type = step.type
        if step.usage is not None:
            earlier = conversation.turns.get(step.id)
            at = earlier.at if earlier else step.at
            conversation.turns[step.id] = Turn(at, step.usage, step.model)

    def _compact(self, conversation: Conversation, step: Step) -> None:
        conversation.emptied.append(len(conversation.turns))

    def _prompt(self, conversation: Conversation, step: Step) -> None:
        if conversation.blocked:
            conversation.waits.append(Wait(step.at - conversation.blocked, False))
            conversation.blocked = 0

    def _stop(self, conversation: Conversation, step: Step) -> None:
        if step.text and blocker_of(step.text):
            conversation.blocked = step.at

    def _said(self, conversation: Conversation, step: Step) -> None:
        _note_used(conversation, step.text)

    def _call(self, conversation: Conversation, step: Step) -> None:
        facts = _facts(conversation.client)
        tool = facts.tool(step.tool) if facts else ToolFacts()
        if tool.kind == "spawn":
            prompt = step.arguments.get(tool.prompt)
            conversation.tasks[step.id] = prompt if isinstance(prompt, str) else ""
        if step.tool in QUESTIONS:
            conversation.asked[step.id] = step.at
        texts = [value for value in step.arguments.values() if isinstance(value, str)]
        _note_used(conversation, "\n".join(texts))

    def _result(self, conversation: Conversation, step: Step) -> None:
        if (asked := conversation.asked.pop(step.id, None)) is not None:
            conversation.waits.append(Wait(step.at - asked, True))
        facts = _facts(conversation.client)
        tool = facts.tool(step.tool) if facts else ToolFacts()
        subjects = subjects_of(tool, step.arguments)
        position = len(conversation.turns), len(conversation.emptied)
        for path in _edited(tool, step, subjects):
            refused = step.failed and "modified since read" in step.text
            if refused or not step.failed:
                conversation.edits.append(Edited(step.at, path, *position, refused))
        compared = None if step.failed else _compared(facts, tool, step, subjects)
        if compared is None:
            return
        kind, arguments, path = compared
        act = act_of(kind, arguments, Shares(), folder=step.cwd)
        if act.key not in self.labels:
            self.labels[act.key] = _label(arguments, path, step.cwd)
        text = _REMINDER.sub("", step.text) if "<system-reminder>" in step.text else step.text
        digest = _digest(text)
        if kind == "read" and text.startswith(_UNCHANGED):
            digest = next((m.digest for m in conversation.calls[::-1] if m.key == act.key), digest)
        tokens = len(step.text) // CHARACTERS
        conversation.calls.append(Made(step.at, kind, act.key, path, tokens, digest, *position))

    def _end(self, conversation: Conversation, step: Step) -> None:
        """Take up what a sub-agent hands to the conversation that began it."""
        if not conversation.agent or not step.id:
            return
        conversation.type = step.type or conversation.type
        parent = self.of(conversation.client, step._replace(agent=""))
        task_names = _names(parent.tasks.get(step.id, ""))
        names = sorted(_names(step.text) - task_names)[:NAMES]
        if len(names) >= FEWEST:
            parent.handed.append(Handed(conversation.agent, frozenset(names)))


def _compared(
    facts: Facts | None, tool: ToolFacts, step: Step, subjects: tuple[str, ...]
) -> tuple[str, Mapping[str, Any], str] | None:
    """Return as what a call is compared: its kind, what it asks for, and its file; None for one
    that is not.
    """
    arguments = step.arguments
    if facts is None:
        return "tool", {"tool": step.tool, **arguments}, ""
    kind = "grep" if step.tool in LISTINGS else (tool.finds if subjects else "") or tool.kind
    if kind == "read" and subjects:
        path = _located(subjects[0], step.cwd)
        lines = {name: arguments[name] for name in _RANGE if name in arguments}
        if tool.pattern:  # a shell's command, which says itself what it reads of the file
            lines = {"command": arguments.get(tool.subject, "")}
        return kind, {"file": path, **lines}, path
    if kind == "run":
        command = arguments.get("command")
        return kind, {"command": str(command), "in": step.cwd}, ""
    if kind == "grep":
        return kind, {**arguments, "tool": step.tool, "in": step.cwd}, ""
    if kind == "fetch" and subjects:
        return kind, {"url": subjects[0]}, ""
    if kind == "search":
        return kind, {"query": str(arguments.get("query", ""))}, ""
    return None


def _label(arguments: Mapping[str, Any], path: str, folder: str) -> str:
    """Return a call as people read it, without the folders above the project's."""
    asked_for = {name: value for name, value in arguments.items() if name not in ("file", "in")}
    texts = [str(value) for value in asked_for.values() if isinstance(value, str | int | float)]
    if path:
        inside = os.path.relpath(path, folder) if folder else path
        texts.insert(0, path if inside.startswith("..") else inside)
    return " ".join(" ".join(texts).replace(f"{folder}/", "").split())[:LABEL]


def _edited(tool: ToolFacts, step: Step, subjects: tuple[str, ...]) -> Iterator[str]:
    """Yield the files that a call edits."""
    if tool.kind not in ("edit", "run"):
        return
    paths = [edit.path for edit in read_edits(tool, step.arguments, subjects)]
    if tool.kind == "edit":
        paths += subjects
    yield from dict.fromkeys(_located(path, step.cwd) for path in paths)


def _located(path: str, folder: str) -> str:
    return os.path.normpath(os.path.join(folder, path))


def _digest(text: str) -> int:
    return int(sha256(text.encode("utf-8", "surrogatepass"))[:16], 16)


def _note_used(conversation: Conversation, text: str) -> None:
    """Note the results of sub-agents that have a name in common with a text of their parent's."""
    waiting = [handed for handed in conversation.handed if not handed.used]
    if waiting and text:
        names = _names(text)
        for handed in waiting:
            handed.used = not names.isdisjoint(handed.names)


def _names(text: str) -> set[str]:
    """Return the names of files and of code in a text, and figures."""
    names = (name.rstrip(".-") for name in _NAME.findall(text))
    return {name for name in names if _is_telling(name)}


def _is_telling(name: str) -> bool:
    return "." in name or is_compound(name) or sum(map(str.isdigit, name)) > 2


@cache
def _facts(client: str) -> Facts | None:
    try:
        return load(client)
    except NotFound:
        return None
