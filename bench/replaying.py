"""Recorded sessions replayed through the hooks: `python -m bench replay FOLDER` gives each call of
the transcripts there to the policy of coding clients, in a folder whose files are what the
recording shows of them, and compares what it says with an account of its own.

The account knows what each conversation read and wrote, by the recording alone. A notice of a
change is right where the file has another text than the conversation knows, or where the call uses
a name that is gone; that a file is unchanged, where it has the text that was read.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import synapse
from bench.recorded import Observation, Step, split, steps
from orchestrator.files.changes import OUTSIDE, RECENT
from orchestrator.plugin.facts import load
from orchestrator.plugin.facts.event import read_event
from orchestrator.plugin.hooks.answer import answer, more_path

CLIENT = "claude-code"
NAMED = re.compile(r"^- \S+(?: and \S+)* changed (\S+) (?:just now|[^:\n]* ago)(?:: .*)?$", re.M)
NOBODY = re.compile(rf"^- {OUTSIDE}: (.*)$", re.M)
LIST = re.compile(r"unchanged since \([^)]*\): (.*?)\. Read again only", re.S)
BESIDE = re.compile(r"^(\S+) is unchanged since you read it", re.M)
NAME = re.compile(r"[A-Za-z_$][\w$]*")
LONG = 2_000  # characters of a line that the client shows
HOOKS = {
    "call": "PreToolUse",
    "result": "PostToolUse",
    "prompt": "UserPromptSubmit",
    "stop": "Stop",
    "compact": "SessionStart",
}


class Version:
    """What the recording shows of a file between two changes."""

    def __init__(self, full: Sequence[str] | None = None, edited: bool = False) -> None:
        self.lines = {} if full is None else dict(enumerate(full, 1))
        self.total = None if full is None else len(full)
        self.is_whole = full is not None
        self.edited = edited

    def takes(self, lines: Mapping[int, str], total: int | None) -> bool:
        """Take up what an observation shows; return False where this is another text."""
        if total is not None and self.total not in (None, total):
            return False
        if self.is_whole and any(n > len(self.lines) for n in lines):
            return False
        if any(self.lines.get(n, line)[:LONG] != line[:LONG] for n, line in lines.items()):
            return False
        self.lines = {**lines, **self.lines}
        self.total = total if self.total is None else self.total
        if self.total == len(self.lines) + 1:
            self.lines.setdefault(self.total, "")  # what stands behind the last newline
        self.is_whole = self.is_whole or self.total == len(self.lines)
        return True

    @property
    def text(self) -> str:
        last = max(self.total or 0, *self.lines, 0)
        return "\n".join(self.lines.get(n, f"line {n}") for n in range(1, last + 1))


Changes = Mapping[int, list[tuple[str, Version]]]


def versions(recorded: Sequence[Step]) -> tuple[Changes, Changes]:
    """Return the texts that files have before a step, where somebody changed them whom the
    recording does not show, and after a step that edits them. Such a change is taken to have been
    made as soon as it may have been: after the file was seen last.
    """
    before, after = defaultdict[int, list[Any]](list), defaultdict[int, list[Any]](list)
    current, last = dict[str, Version](), dict[str, int]()
    for at, step in enumerate(recorded):
        seen = step.seen
        if seen is None:
            continue
        known = current.get(seen.path)
        shown = dict(enumerate(seen.before, 1)) if seen.before is not None else seen.lines
        total = len(seen.before) if seen.before is not None else seen.total
        if known is None or not known.takes(shown, total):
            known = current[seen.path] = Version()
            known.takes(shown, total)
            if shown:
                before[last.get(seen.path, -1) + 1].append((seen.path, known))
        last[seen.path] = at
        edit = _edited(known, seen)
        if edit is not None and edit.text != known.text:
            current[seen.path] = edit
            after[at].append((seen.path, edit))
    return before, after


def _edited(known: Version, seen: Observation) -> Version | None:
    """Return the text that an edit leaves; None for a read."""
    if seen.after is not None:
        return Version(seen.after, edited=True)
    if not seen.old or not known.is_whole:
        return Version(edited=True) if seen.old else None
    count = -1 if seen.everywhere else 1
    return Version(split(known.text.replace(seen.old, seen.new, count)), edited=True)


class Replay:
    """The sessions of one folder, replayed in the order of time."""

    def __init__(self, root: str, recorded: Sequence[Step], base: str, count: Counter[str]) -> None:
        self.root, self.recorded, self.base, self.count = root, recorded, base, count
        self.now = 0
        self.disk = dict[str, Version]()
        self.known = defaultdict[str, dict[str, Version]](dict)
        self.watched = defaultdict[str, set[str]](set)
        self.edits = defaultdict[str, list[tuple[int, str]]](list)
        self.forgotten = defaultdict[str, dict[str, Version]](dict)
        self.names = defaultdict[str, set[str]](set)  # that a file has had
        self.listed = defaultdict[str, set[str]](set)
        self.wrong = list[str]()

    def run(self) -> None:
        folder = self.base + self.root
        os.makedirs(f"{folder}/.git")
        Path(folder, ".git/HEAD").write_text("ref: refs/heads/main\n")
        before, after = versions(self.recorded)
        self.now = self.recorded[0].at
        with synapse.init(f"{folder}/shared-memory", clock=lambda: self.now) as memory:
            for at, step in enumerate(self.recorded):
                self.now = step.at
                for path, version in before[at]:
                    self._write(path, version)
                for path, version in after[at]:
                    self._write(path, version)
                    self.edits[path].append((step.at, step.session))
                    for who in (step.session, step.session + step.agent):
                        if path in self.known[who]:
                            self.known[who][path] = version
                self._judge(step, self._answered(memory, step))

    def _write(self, path: str, version: Version) -> None:
        self.disk[path] = version
        self.names[path] |= self._names(path)
        full = self.base + path
        os.makedirs(os.path.dirname(full), exist_ok=True)
        Path(full).write_text(version.text, encoding="utf-8")
        os.utime(full, (0, 0))  # long ago, for who waits for the record of an edit

    def _answered(self, memory: synapse.Memory, step: Step) -> str:
        """Return all texts of the answer to a step."""
        hook = HOOKS.get(step.kind, "Session" if not step.agent else "Subagent")
        if hook in ("Session", "Subagent"):
            hook += {"start": "Start", "end": "End" if hook == "Session" else "Stop"}[step.kind]
        hook += "Failure" * step.failed
        payload: dict[str, Any] = {"hook_event_name": hook, "session_id": step.session}
        payload |= {"cwd": self.base + step.cwd, "source": "compact"}
        if step.kind == "start":
            payload["source"] = "startup"
        if step.agent:
            payload |= {"agent_id": step.agent, "agent_type": "general-purpose"}
        payload |= {"prompt": step.text, "last_assistant_message": step.text}
        if step.tool:
            arguments = {name: self._moved(value) for name, value in step.arguments.items()}
            payload |= {"tool_name": step.tool, "tool_input": arguments, "tool_use_id": step.id}
            payload |= {"error" if step.failed else "tool_response": step.text}
        given = answer(memory, CLIENT, payload, os.getpid())
        if hook in ("SessionStart", "SubagentStart"):
            event = read_event(load(CLIENT), payload)
            assert event is not None
            path = more_path(str(memory.store.root), event)
            given += Path(path).read_text(encoding="utf-8")
            os.unlink(path)
        return "\n".join(_texts(json.loads(given))) if given[:1] == "{" else ""

    def _moved(self, value: Any) -> Any:
        """Return a call's argument with the paths of the replay."""
        if not isinstance(value, str):
            return value
        if value in self.disk:  # it may lie elsewhere, such as a plan in the home folder
            return self.base + value
        return value.replace(self.root, self.base + self.root)

    def _path(self, told: str) -> str:
        """Return the recorded path that a told one means."""
        told = told.removesuffix(" (gone)")
        if "…" in told:  # only the end of a long path is told
            end = told.rpartition("…")[2]
            return next((path for path in self.disk if path.endswith(end)), told)
        return told.removeprefix(self.base) if told[:1] == "/" else f"{self.root}/{told}"

    # -- the account -------------------------------------------------------------------------------

    def _judge(self, step: Step, text: str) -> None:
        who, count = step.session + step.agent, self.count
        known = self.known[who]
        told = set[str]()
        for path in map(self._path, NAMED.findall(text)):
            told.add(path)
            right = self._differs(who, path) or self._concerns(step, path)
            self._note("edit of another" if right else "FALSE edit", step, path)
        for line in NOBODY.findall(text):
            for path in map(self._path, line.split(" and ")[0].split(", ")):
                told.add(path)
                self._note(
                    "by no edit" if self._differs(who, path) else "FALSE by no edit", step, path
                )
                self.watched[who].discard(path)
        if step.kind in ("call", "result", "prompt"):
            for path in known.keys() - told:
                is_due = path in self.watched[who] or self.disk[path].edited
                if is_due and self._differs(who, path):
                    self._note("missed", step, path)
                    told.add(path)
        for path in told & known.keys():
            known[path] = self.disk[path]
        self._unchanged(step, who, text)
        count["tokens of answers"] += len(text) // 4
        seen = step.seen
        if step.kind == "result":
            count["calls"] += 1
        if seen is not None and seen.path in self.disk:
            known[seen.path] = self.disk[seen.path]
            self.watched[who].add(seen.path)

    def _differs(self, who: str, path: str) -> bool:
        """Tell whether a file has another text than the conversation knows."""
        known = self.known[who].get(path)
        return known is not None and known.text != self.disk[path].text

    def _concerns(self, step: Step, path: str) -> bool:
        """Tell whether a call edits a file that another edited just before, or uses a name that was
        in it and is gone.
        """
        edited = step.arguments.get("file_path") == path
        recent = any(at > step.at - RECENT and by != step.session for at, by in self.edits[path])
        used = set(NAME.findall("\n".join(map(str, step.arguments.values()))))
        return (edited and recent) or bool(used & self.names[path] - self._names(path))

    def _names(self, path: str) -> set[str]:
        return set(NAME.findall(self.disk[path].text))

    def _unchanged(self, step: Step, who: str, text: str) -> None:
        """Count the reads after a compaction, and judge what was said of their files."""
        forgotten, count = self.forgotten[who], self.count
        if step.kind == "compact":
            count["compactions"] += 1
            self.forgotten[who] = forgotten = dict(self.known[who])
            self.listed[who] = set()
            for part in LIST.findall(text):
                files = re.findall(r"(\S+) \([\d,]+ lines?\)", part)
                self.listed[who] |= {self._path(self._absolute(step, file)) for file in files}
                count["tokens of lists"] += len(part) // 4
            for path in self.listed[who]:
                self._say_same(step, who, path, "named")
        for file in BESIDE.findall(text):
            count["tokens beside reads"] += 15
            self._say_same(step, who, self._path(self._absolute(step, file)), "beside")
        if step.kind == "result" and step.tool == "Read" and step.seen is not None:
            tokens, path = len(step.text) // 4, step.seen.path
            count["reads"] += 1
            count["tokens of reads"] += tokens
            if path in forgotten:
                same = forgotten.pop(path).text == self.disk[path].text
                how = "unchanged" if same else "changed"
                how += ", named" if path in self.listed[who] else ""
                how += ", edited later" if self._edits_later(step) else ""
                count[f"read again: {how}"] += 1
                count[f"tokens read again: {how}"] += tokens

    def _absolute(self, step: Step, file: str) -> str:
        return os.path.normpath(os.path.join(self.base + step.cwd, file))

    def _say_same(self, step: Step, who: str, path: str, how: str) -> None:
        known = self.forgotten[who].get(path)
        is_same = known is not None and known.text == self.disk[path].text
        self._note(f"{'' if is_same else 'FALSE '}unchanged, {how}", step, path)

    def _edits_later(self, step: Step) -> bool:
        """Tell whether the conversation edits the file of a read before its next compaction."""
        later = (other for other in self.recorded if other.at > step.at)
        for other in later:
            if other.session == step.session and other.kind == "compact":
                return False
            is_own = (other.session, other.agent) == (step.session, step.agent)
            same = other.seen and step.seen and other.seen.path == step.seen.path
            if is_own and same and other.tool != "Read":
                return True
        return False

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


def grouped(folder: Path) -> Iterator[tuple[str, list[Step]]]:
    """Yield the folders of the recorded sessions, with the steps of all that worked there."""
    sessions = [recorded for path in sorted(folder.glob("*.jsonl")) if (recorded := [*steps(path)])]
    sessions.sort(key=lambda recorded: recorded[0].cwd)
    for root, group in groupby(sessions, key=lambda recorded: recorded[0].cwd):
        yield (
            root,
            sorted((step for recorded in group for step in recorded), key=lambda step: step.at),
        )


def main(argv: Iterable[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench replay", description=__doc__)
    parser.add_argument("folder", type=Path, help="transcripts of Claude Code, `*.jsonl`")
    parser.add_argument("--wrong", action="store_true", help="list what was false or missed")
    args = parser.parse_args([*argv])
    count, wrong = Counter[str](), list[str]()
    for root, recorded in grouped(args.folder):
        with tempfile.TemporaryDirectory(prefix="synapse-replay-") as base:
            replay = Replay(root, recorded, os.path.realpath(base), count)
            replay.run()
            wrong += replay.wrong
    for name, number in sorted(count.items()):
        print(f"{number:>12,}  {name}")
    for line in wrong if args.wrong else ():
        print(line)
    return 0
