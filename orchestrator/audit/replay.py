"""Recorded sessions of Claude Code, given to the hooks of our plugin act by act, in a folder whose
files are what the recording shows of them; and an account of its own, which judges each text that
the hooks give.

The account knows what each conversation read and wrote, by the recording alone. A notice of a
change is right where the file has another text than the conversation knows, or where the call uses
a name that is gone; that a file is unchanged, where it has the text that was read; a result of
somebody else's call, where the call then gave the same. Called by `policy`.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import synapse
from orchestrator.audit.conversations import CHARACTERS, Conversation, Conversations
from orchestrator.audit.file_texts import Observation, Version, observe, versions
from orchestrator.audit.step import Step
from orchestrator.files.changes import OUTSIDE, RECENT
from orchestrator.plugin.facts import load
from orchestrator.plugin.facts.event import read_event
from orchestrator.plugin.hooks.answer import answer, more_path

CLIENT = "claude-code"
NAMED = re.compile(r"^- \S+(?: and \S+)* changed (\S+) (?:just now|[^:\n]* ago)(?:: .*)?$", re.M)
NOBODY = re.compile(rf"^- {OUTSIDE}: (.*)$", re.M)
LIST = re.compile(r"unchanged since \([^)]*\): (.*?)\. Read again only", re.S)
BESIDE = re.compile(r"^(\S+) is unchanged since you read it", re.M)
GOT = re.compile(r"^\S+ made this call .* ago\.$", re.M)
NAME = re.compile(r"[A-Za-z_$][\w$]*")
HOOKS = {
    "call": "PreToolUse",
    "result": "PostToolUse",
    "prompt": "UserPromptSubmit",
    "stop": "Stop",
    "compact": "SessionStart",
}
STARTS = ("SessionStart", "SubagentStart")


class Given(NamedTuple):
    """Tokens that a conversation was given, or was spared, after so many of its turns."""

    conversation: Conversation
    tokens: int
    turn: int
    emptied: int

    @property
    def billed(self) -> int:
        """Return them at each turn that sent them, or would have."""
        return self.tokens * self.conversation.carried(self.turn, self.emptied)


class Notice(NamedTuple):
    """What a conversation was told of a file, of which it is to be seen whether it needed that."""

    kind: str
    path: str


class Replay:
    """The sessions of one folder, replayed in the order of time. `count` says how often what
    happened, by the account; `wrong` names what was false or missing.
    """

    def __init__(self, root: str, steps: Sequence[Step], base: str, count: Counter[str]) -> None:
        self.root, self.base, self.count = root, base, count
        self.observations = [observe(step) for step in steps]
        self.steps = [step._replace(result=None) for step in steps]
        self.now = 0
        self.conversations = Conversations()
        self.disk = dict[str, Version]()
        self.known = defaultdict[str, dict[str, Version]](dict)
        self.watched = defaultdict[str, set[str]](set)
        self.edits = defaultdict[str, list[tuple[int, str]]](list)
        self.forgotten = defaultdict[str, dict[str, Version]](dict)
        self.names = defaultdict[str, set[str]](set)  # that a file has had
        self.listed = defaultdict[str, set[str]](set)
        self.open = defaultdict[str, list[Notice]](list)
        self.results = dict[str, str]()  # of calls, as they were last made
        self.expected = dict[str, str]()  # results that were given beside calls
        self.given = list[Given]()
        self.spared = list[Given]()
        self.wrong = list[str]()

    def run(self) -> None:
        folder = self.base + self.root
        os.makedirs(f"{folder}/.git")
        Path(folder, ".git/HEAD").write_text("ref: refs/heads/main\n")
        before, after = versions(self.observations)
        self.now = self.steps[0].at
        with synapse.init(f"{folder}/shared-memory", clock=lambda: self.now) as memory:
            for at, step in enumerate(self.steps):
                self.now = step.at
                self.conversations.add(CLIENT, step)
                for path, version in before[at]:
                    self._write(path, version)
                for path, version in after[at]:
                    self._write(path, version)
                    self.edits[path].append((step.at, step.session))
                    for who in (step.session, step.session + step.agent):
                        if path in self.known[who]:
                            self.known[who][path] = version
                if step.kind in HOOKS or step.kind in ("start", "end"):
                    self._judge(at, step, self._answered(memory, step))
        for who in list(self.open):
            self._close(who)

    def _write(self, path: str, version: Version) -> None:
        self.disk[path] = version
        self.names[path] |= self._names(path)
        full = self.base + path
        os.makedirs(os.path.dirname(full), exist_ok=True)
        Path(full).write_text(version.text, encoding="utf-8", errors="replace")
        os.utime(full, (0, 0))  # long ago, for who waits for the record of an edit

    def _answered(self, memory: synapse.Memory, step: Step) -> str:
        """Return all texts of the answer to a step."""
        payload = self._payload(step)
        text = answer(memory, CLIENT, payload, os.getpid())
        if payload["hook_event_name"] in STARTS:
            event = read_event(load(CLIENT), payload)
            assert event is not None
            path = more_path(str(memory.store.root), event)
            text += Path(path).read_text(encoding="utf-8")
            os.unlink(path)
        return "\n".join(_texts(json.loads(text))) if text[:1] == "{" else ""

    def _payload(self, step: Step) -> dict[str, Any]:
        """Return what the client tells its hooks at a step."""
        hook = HOOKS.get(step.kind, "Session" if not step.agent else "Subagent")
        if hook in ("Session", "Subagent"):
            hook += {"start": "Start", "end": "End" if hook == "Session" else "Stop"}[step.kind]
        hook += "Failure" * step.failed
        payload: dict[str, Any] = {"hook_event_name": hook, "session_id": step.session}
        payload |= {"cwd": self.base + step.cwd, "source": "compact"}
        if step.kind == "start":
            payload["source"] = "startup"
        if step.agent:
            payload |= {"agent_id": step.agent, "agent_type": step.type or "general-purpose"}
        payload |= {"prompt": step.text, "last_assistant_message": step.text}
        if step.tool:
            arguments = {name: self._moved(value) for name, value in step.arguments.items()}
            payload |= {"tool_name": step.tool, "tool_input": arguments, "tool_use_id": step.id}
            payload |= {"error" if step.failed else "tool_response": step.text}
        return payload

    def _moved(self, value: Any) -> Any:
        """Return a call's argument with the paths of the replay."""
        if not isinstance(value, str):
            return value
        if value in self.disk:  # it may lie elsewhere, such as a plan in the home folder
            return self.base + value
        return value.replace(self.root, self.base + self.root)

    def _path(self, path: str) -> str:
        """Return the recorded path that is meant by one in a text."""
        path = path.removesuffix(" (gone)")
        if "…" in path:  # only the end of a long path is told
            end = path.rpartition("…")[2]
            return next((full for full in self.disk if full.endswith(end)), path)
        return path.removeprefix(self.base) if path[:1] == "/" else f"{self.root}/{path}"

    # -- the account -------------------------------------------------------------------------------

    def _judge(self, at: int, step: Step, text: str) -> None:
        who, count, observation = step.session + step.agent, self.count, self.observations[at]
        files = self.known[who]
        self._note_needed(who, step, observation)
        paths = self._judge_changes(step, who, text)
        if step.kind in ("call", "result", "prompt"):
            for path in files.keys() - paths:
                is_due = path in self.watched[who] or self.disk[path].edited
                if is_due and self._differs(who, path):
                    self._note("missed", step, path)
                    paths.add(path)
        for path in paths & files.keys():
            files[path] = self.disk[path]
        self._unchanged(at, step, who, text)
        self._results(step, who, text)
        count["tokens of answers"] += len(text) // CHARACTERS
        if text:
            self.given.append(self._now(step, len(text) // CHARACTERS))
        if step.kind == "result":
            count["calls"] += 1
        if observation is not None and observation.path in self.disk:
            files[observation.path] = self.disk[observation.path]
            self.watched[who].add(observation.path)

    def _judge_changes(self, step: Step, who: str, text: str) -> set[str]:
        """Judge the notices of changes in a text, and return the files that they name."""
        paths = set[str]()
        for path in map(self._path, NAMED.findall(text)):
            paths.add(path)
            right = self._differs(who, path) or self._concerns(step, path)
            self._note("edit of another" if right else "FALSE edit", step, path)
        for line in NOBODY.findall(text):
            for path in map(self._path, line.split(" and ")[0].split(", ")):
                paths.add(path)
                right = self._differs(who, path)
                self._note("by no edit" if right else "FALSE by no edit", step, path)
                self.watched[who].discard(path)
        self.open[who] += [Notice("change", path) for path in sorted(paths)]
        return paths

    def _differs(self, who: str, path: str) -> bool:
        """Tell whether a file has another text than the conversation knows."""
        version = self.known[who].get(path)
        return version is not None and version.text != self.disk[path].text

    def _concerns(self, step: Step, path: str) -> bool:
        """Tell whether a call edits a file that another edited just before, or uses a name that was
        in it and is gone.
        """
        edited = step.arguments.get("file_path") == path
        recent = any(at > step.at - RECENT and by != step.session for at, by in self.edits[path])
        used = set(NAME.findall("\n".join(map(str, step.arguments.values()))))
        return (edited and recent) or bool(used & self.names[path] - self._names(path))

    def _names(self, path: str) -> set[str]:
        return set(NAME.findall(self.disk[path].text)) if path in self.disk else set()

    def _unchanged(self, at: int, step: Step, who: str, text: str) -> None:
        """Count the reads after a compaction, and judge what was said of their files."""
        count, observation = self.count, self.observations[at]
        if step.kind == "compact":
            count["compactions"] += 1
            self._close(who)
            self.forgotten[who] = dict(self.known[who])
            self.listed[who] = set()
            for part in LIST.findall(text):
                files = re.findall(r"(\S+) \([\d,]+ lines?\)", part)
                self.listed[who] |= {self._path(self._absolute(step, file)) for file in files}
                count["tokens of lists"] += len(part) // CHARACTERS
            for path in self.listed[who]:
                self._say_same(step, who, path, "named")
        for file in BESIDE.findall(text):
            count["tokens beside reads"] += 15
            self._say_same(step, who, self._path(self._absolute(step, file)), "beside")
        if step.kind == "result" and step.tool == "Read" and observation is not None:
            tokens, path = len(step.text) // CHARACTERS, observation.path
            count["reads"] += 1
            count["tokens of reads"] += tokens
            if path in self.forgotten[who]:
                same = self.forgotten[who].pop(path).text == self.disk[path].text
                edited = self._edits_later(at)
                how = "unchanged" if same else "changed"
                how += ", named" if path in self.listed[who] else ""
                how += ", edited later" if edited else ""
                count[f"read again: {how}"] += 1
                count[f"tokens read again: {how}"] += tokens
                if same and path in self.listed[who] and not edited:
                    self.spared.append(self._now(step, tokens))

    def _absolute(self, step: Step, file: str) -> str:
        return os.path.normpath(os.path.join(self.base + step.cwd, file))

    def _say_same(self, step: Step, who: str, path: str, how: str) -> None:
        version = self.forgotten[who].get(path)
        is_same = version is not None and version.text == self.disk[path].text
        self._note(f"{'' if is_same else 'FALSE '}unchanged, {how}", step, path)
        self.open[who].append(Notice("unchanged", path))

    def _edits_later(self, at: int) -> bool:
        """Tell whether the conversation edits the file of a read before its next compaction."""
        step, observation = self.steps[at], self.observations[at]
        for later, edit in zip(self.steps[at + 1 :], self.observations[at + 1 :], strict=True):
            if later.session == step.session and later.kind == "compact":
                return False
            is_own = (later.session, later.agent) == (step.session, step.agent)
            same = edit and observation and edit.path == observation.path
            if is_own and same and later.tool != "Read":
                return True
        return False

    def _results(self, step: Step, who: str, text: str) -> None:
        """Judge the result of somebody else's call that is given beside one, by what it gives."""
        key = json.dumps([step.tool, step.arguments], sort_keys=True, default=str)
        if step.kind == "call" and GOT.search(text) and key in self.results:
            self.expected[f"{who} {step.id}"] = self.results[key]
        if step.kind == "result" and not step.failed:
            expected = self.expected.pop(f"{who} {step.id}", None)
            if expected is not None:
                same = expected == step.text
                self._note("result, the same" if same else "FALSE result", step, step.tool)
                if same:
                    self.spared.append(self._now(step, len(step.text) // CHARACTERS))
            self.results[key] = step.text

    def _note_needed(self, who: str, step: Step, observation: Observation | None) -> None:
        """Note which notices were of use: the conversation then reads or edits the file."""
        path = observation.path if observation else step.arguments.get("file_path")
        for notice in [notice for notice in self.open[who] if notice.path == path]:
            self.open[who].remove(notice)
            self.count[f"needed: {notice.kind}"] += 1

    def _close(self, who: str) -> None:
        """Note which notices were of no use up to the end, or to a compaction."""
        for notice in self.open.pop(who, ()):
            self.count[f"not needed: {notice.kind}"] += 1

    def _now(self, step: Step, tokens: int) -> Given:
        conversation = self.conversations.of(CLIENT, step)
        return Given(conversation, tokens, len(conversation.turns), len(conversation.emptied))

    def _note(self, what: str, step: Step, path: str) -> None:
        self.count[what] += 1
        if what.startswith(("FALSE", "missed")):
            self.wrong.append(f"{what}: {step.session} {step.id or step.kind} {step.tool} {path}")


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from _texts(part)


def grouped(sessions: Sequence[Sequence[Step]]) -> Iterator[tuple[str, list[Step]]]:
    """Yield the folders in which sessions began, with the steps of all that worked there."""
    ordered = sorted((steps for steps in sessions if steps), key=lambda steps: steps[0].cwd)
    for root, group in groupby(ordered, key=lambda steps: steps[0].cwd):
        steps = [step for session in group for step in session]
        yield root, sorted(steps, key=lambda step: step.at)
