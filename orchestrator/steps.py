"""The conversation of a run, as it is recorded: the lines of `runs/{run}/steps.jsonl`, and what they add up to.

A line is written before anybody acts on it. Whoever takes a run over reads the lines and goes on from the last.
Values and pure functions; the file is the folder's business.

prompt   what the run began with: system, memory, task; the ledger's labels for each
turn     a model's reply, paid for; with its line for the ledger
call     a tool call is about to be carried out (a call without its result was in flight)
result   what the call gave
message  something else was said to the model: a wake, results that it had not read, what it has to go on with
attempt  another process took the run over
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from orchestrator.engine import Call, Message, Turn, Usage

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
    begun: frozenset[str] = frozenset()  # those of them that were in flight
    session: str | None = None
    next: int = 0


def dump(step: Step) -> str:
    fields = {"n": step.n, "epoch": step.epoch, "kind": step.kind, **step.fields}
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")) + "\n"


def read(lines: Iterable[str]) -> list[Step]:
    """Every whole line. A torn last one was never acted on."""
    steps = []
    for text in lines:
        if not text.endswith("\n"):
            break
        fields = json.loads(text)
        steps.append(Step(fields.pop("n"), fields.pop("epoch"), fields.pop("kind"), fields))
    return steps


def prompt(system: str, memory: str, task: str) -> dict[str, Any]:
    return {"system": system, "memory": memory, "task": task}


def turn(reply: Turn, label: str, ledger: str) -> dict[str, Any]:
    fields = reply._asdict() | {"calls": [call._asdict() for call in reply.calls], "usage": reply.usage._asdict()}
    return {"turn": fields, "label": label, "ledger": ledger}


def result(call: Call, text: str, label: str, failed: bool = False) -> dict[str, Any]:
    return {"call": call.id, "text": text, "label": label, "failed": failed}


def message(text: str, label: str, **about: Any) -> dict[str, Any]:
    return {"text": text, "label": label, **about}


def conversation(steps: Iterable[Step]) -> Conversation:
    """The conversation that these steps are."""
    system, session, last = "", None, -1
    messages: list[Message] = []
    turns: list[Turn] = []
    pending: dict[str, Call] = {}
    begun: set[str] = set()
    for last, _, kind, fields in steps:  # noqa: B007
        if kind == "prompt":
            system = fields["system"]
            messages = [Message("user", fields["memory"], "view"), Message("user", fields["task"], "task")]
            messages = [message for message in messages if message.text]
        elif kind == "turn":
            reply = turn_of(fields["turn"])
            turns.append(reply)
            session = reply.session or session
            pending, begun = {call.id: call for call in reply.calls}, set()
            messages.append(Message("assistant", reply.text, fields["label"], reply.calls, native=reply.native))
        elif kind == "call":
            begun.add(fields["call"])
        elif kind == "result":
            pending.pop(fields["call"], None)
            said = Message("tool", fields["text"], fields["label"], answers=fields["call"], failed=fields["failed"])
            messages.append(said)
        elif kind == "message":
            messages.append(Message("user", fields["text"], fields["label"]))
    calls = tuple(pending.values())
    in_flight = frozenset(call.id for call in calls if call.id in begun)
    return Conversation(system, tuple(messages), tuple(turns), calls, in_flight, session, last + 1)


def turn_of(fields: Mapping[str, Any]) -> Turn:
    calls = tuple(Call(**call) for call in fields["calls"])
    return Turn(**(dict(fields) | {"calls": calls, "usage": Usage(**fields["usage"])}))
