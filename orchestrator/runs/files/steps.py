"""The recorded steps of a run, the lines of `runs/{run}/steps.jsonl`, and the conversation that
follows from them. Values and pure functions; `folder` reads and writes the file.

A line is written before anybody acts on it. A supervisor that recovers a run reads the lines and
goes on from the last.

prompt   what the run began with: system, memory, task; the ledger's labels for each
turn     a model's reply, paid for; with its line for the ledger
call     a tool call is about to be carried out (a call without its result was in flight)
result   what the call gave
message  something else was said to the model: a wake, results that it had not read,
         what it has to go on with
attempt  another process took the run over, or it was answered and goes on
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from orchestrator.engines.protocol import Call, Message, Turn, Usage
from synapse.errors import StoreCorrupt
from synapse.system.json import dumps

KINDS = ("prompt", "turn", "call", "result", "message", "attempt")


class Step(NamedTuple):
    """One line. `n` grows by one; `epoch` is the incarnation that wrote it."""

    n: int
    epoch: int
    kind: str
    fields: Mapping[str, Any]


class Conversation(NamedTuple):
    """What the lines add up to: how to go on."""

    system: str = ""
    messages: tuple[Message, ...] = ()
    turns: tuple[Turn, ...] = ()
    pending: tuple[Call, ...] = ()  # calls of the last turn that have no result yet
    in_flight: frozenset[str] = frozenset()  # those of them that were in flight
    session: str | None = None
    sent: int = 0  # messages that the last prompt had
    next: int = 0
    recorded: int = 0  # steps that are part of it: the same before and after a recovery
    last: str = ""  # the kind of the last line: what is due follows from it
    # how often something was said to the model, by reason
    message_counts: Mapping[str, int] = {}
    # entries that were rendered for it after its prompt
    rendered: frozenset[str] = frozenset()
    # entries of which it was told no more than a line
    pointed: frozenset[str] = frozenset()
    # entries in which the supervisor said what blocked it, and it went on
    reported: tuple[str, ...] = ()
    # entries that kept it when it ended, which are answered: it has not been told yet
    answered: tuple[str, ...] = ()
    read: frozenset[str] = frozenset()  # child runs whose results it was given
    blockers: tuple[str, ...] = ()  # entries in which it said what keeps it
    # what it was last told of each act: an entry, or that others are at it
    acts: Mapping[str, str] = {}
    # entries for a moment that it was given at a call
    call_entries: frozenset[str] = frozenset()
    # how often a shared tool's result was given, waited for, stale, got
    shares: Mapping[str, int] = {}
    spared: int = 0  # tokens of the calls behind given results, less those of what was given
    # the files that it has seen, and the changes of them that it was told
    files: Mapping[str, Any] = {}


def dump(step: Step) -> str:
    fields = {"n": step.n, "epoch": step.epoch, "kind": step.kind, **step.fields}
    return dumps(fields) + "\n"


def read(lines: Iterable[str]) -> list[Step]:
    """Return every complete line that counts. A torn last line was never acted on. What an
    incarnation wrote after another one had taken the run over counts nothing: the next incarnation
    continues at the `n` of its own first line.
    """
    steps: list[Step] = []
    epoch = 0
    for text in lines:
        if not text.endswith("\n"):
            break
        step = _step(text)
        if step.epoch > epoch:
            epoch = step.epoch
            while steps and steps[-1].n >= step.n:
                steps.pop()
        if step.epoch == epoch:
            steps.append(step)
    return steps


def read_known(lines: Iterable[str]) -> list[Step]:
    """Return the steps of a run, or none where a line of them is damaged: for whoever only asks
    about another one's run.
    """
    try:
        return read(lines)
    except StoreCorrupt:
        return []


def dump_time(step: Step, at: int) -> str:
    """Return the line of `times.jsonl` that says when a step was recorded: beside the steps, for
    the same work leaves the same steps.
    """
    return dumps([step.n, step.epoch, at]) + "\n"


def times(lines: Iterable[str]) -> dict[tuple[int, int], int]:
    """Return when steps were recorded, by their numbers and incarnations, as far as it is known."""
    found = {}
    for text in lines:
        try:
            n, epoch, at = map(int, json.loads(text))
        except (ValueError, TypeError):
            continue  # torn: it is not synced
        found[n, epoch] = at
    return found


def _step(text: str) -> Step:
    try:
        fields = json.loads(text)
        n, epoch, kind = fields.pop("n"), fields.pop("epoch"), fields.pop("kind")
        if type(n) is not int or type(epoch) is not int or kind not in KINDS:
            raise ValueError(text)
        return Step(n, epoch, kind, fields)
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise StoreCorrupt(f"a line of steps.jsonl is damaged: {text[:60].strip()!r}") from error


def turn(reply: Turn, label: str, ledger: str) -> dict[str, Any]:
    fields = reply._asdict() | {
        "calls": [call._asdict() for call in reply.calls],
        "usage": reply.usage._asdict(),
    }
    return {"turn": fields, "label": label, "ledger": ledger}


def result(call: Call, text: str, label: str, failed: bool = False, **about: Any) -> dict[str, Any]:
    """Return the fields of a tool result's step. `about`: `read` names the child runs whose results
    these are, `blocker` the entry that was written, `ids` the entries whose text this is, `held`
    those of them that are for this call, `act` the shared call (`key`, `told`, `counts`), `files`
    what it has seen of files.
    """
    return {"call": call.id, "text": text, "label": label, "failed": failed, **about}


def message(text: str, label: str, why: str, **about: Any) -> dict[str, Any]:
    """Return the fields of a message's step. `about`: `ids` names the entries that stand in it
    whole, `pointed` those that stand in it as one line, `reported` what blocked the run before,
    `read` the child runs, `files` the changes of files that it tells of.
    """
    return {"text": text, "label": label, "why": why, **about}


def conversation(steps: Iterable[Step]) -> Conversation:
    """Return the conversation that these steps make up."""
    builder = ConversationBuilder()
    for step in steps:
        builder.add(step)
    return builder.conversation()


class ConversationBuilder:
    """Steps on their way to a conversation."""

    def __init__(self) -> None:
        self.now = Conversation()
        self.messages: list[Message] = []
        self.turns: list[Turn] = []
        self.pending: dict[str, Call] = {}
        self.in_flight: set[str] = set()
        self.message_counts: Counter[str] = Counter()
        self.rendered: set[str] = set()
        self.pointed: set[str] = set()
        self.reported: list[str] = []
        self.read: set[str] = set()
        self.blockers: list[str] = []
        self.acts: dict[str, str] = {}
        self.call_entries: set[str] = set()
        self.shares: Counter[str] = Counter()
        self.files: dict[str, Any] = {}

    def add(self, step: Step) -> None:
        fields = step.fields
        self.now = self.now._replace(next=step.n + 1)
        if step.kind == "attempt":
            if "answers" in fields:
                self.now = self.now._replace(answered=tuple(fields["answered"]))
                self.read.difference_update(fields["again"])
                self.message_counts["unread"] = 0
            return
        self.now = self.now._replace(answered=())
        self.now = self.now._replace(last=step.kind, recorded=self.now.recorded + 1)
        self.read.update(fields.get("read", ()))
        for name, value in fields.get("files", {}).items():
            is_mapping = isinstance(value, Mapping)
            self.files[name] = {**self.files.get(name, {}), **value} if is_mapping else value
        if step.kind == "prompt":
            self.now = self.now._replace(system=fields["system"])
            beginning = ((fields["memory"], "view"), (fields["task"], "task"))
            self.messages = [Message("user", text, label) for text, label in beginning if text]
        elif step.kind == "turn":
            self._turn(fields)
        elif step.kind == "call":
            self.in_flight.add(fields["call"])
        elif step.kind == "result":
            self._result(fields)
        elif step.kind == "message":
            self.message_counts[fields["why"]] += 1
            self.rendered.update(fields.get("ids", ()))
            self.pointed.update(fields.get("pointed", ()))
            self.reported += fields.get("reported", ())
            self.messages.append(Message("user", fields["text"], fields["label"]))

    def conversation(self) -> Conversation:
        return self.now._replace(
            messages=tuple(self.messages),
            turns=tuple(self.turns),
            pending=tuple(self.pending.values()),
            in_flight=frozenset(id for id in self.pending if id in self.in_flight),
            message_counts=dict(self.message_counts),
            rendered=frozenset(self.rendered),
            pointed=frozenset(self.pointed),
            reported=tuple(self.reported),
            read=frozenset(self.read),
            blockers=tuple(self.blockers),
            acts=dict(self.acts),
            call_entries=frozenset(self.call_entries),
            shares=dict(self.shares),
            files=dict(self.files),
        )

    def _turn(self, fields: Mapping[str, Any]) -> None:
        reply = turn_of(fields["turn"])
        self.turns.append(reply)
        self.now = self.now._replace(
            session=reply.session or self.now.session, sent=len(self.messages)
        )
        self.pending, self.in_flight = {call.id: call for call in reply.calls}, set()
        if reply.text or reply.calls:  # providers refuse a message of nothing
            message = Message(
                "assistant", reply.text, fields["label"], reply.calls, native=reply.native
            )
            self.messages.append(message)

    def _result(self, fields: Mapping[str, Any]) -> None:
        self.pending.pop(fields["call"], None)
        if fields.get("blocker"):
            self.blockers.append(fields["blocker"])
        self.rendered.update(fields.get("ids", ()))
        self.call_entries.update(fields.get("held", ()))
        if act := fields.get("act"):
            self.acts[act["key"]] = act["told"]
            self.shares.update(act["counts"])
        spared = self.now.spared + fields.get("spared", 0)
        self.now = self.now._replace(spared=spared)
        message = Message(
            "tool", fields["text"], fields["label"], answers=fields["call"], failed=fields["failed"]
        )
        self.messages.append(message)


def turn_of(fields: Mapping[str, Any]) -> Turn:
    calls = tuple(Call(**call) for call in fields["calls"])
    return Turn(**(dict(fields) | {"calls": calls, "usage": Usage(**fields["usage"])}))


def capsules(conversation: Conversation, tools: Sequence[str]) -> int | None:
    """Return how often a memory tool gave something back; None where no memory tool was offered."""
    return (
        sum(
            message.label == "capsule" and message.role == "tool"
            for message in conversation.messages
        )
        if tools
        else None
    )


def answered(run: Mapping[str, Any], recorded: Iterable[Step]) -> dict[str, Any]:
    """Return what the attempt of a run that was answered goes on with, once for each answer: the
    entries that kept it, and the runs below it that go on too."""
    times = run.get("answers", 0)
    if times <= max(step.fields.get("answers", 0) for step in recorded):
        return {}
    return {"answers": times} | {name: run.get(name, []) for name in ("answered", "again")}
