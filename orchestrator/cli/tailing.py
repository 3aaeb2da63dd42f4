"""`orchestrator tail`: the steps of a run as they come, each on one line."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from orchestrator.cli.told import Fields, about, money, number, one, tokens
from orchestrator.engines.protocol import Usage
from orchestrator.runs import steps
from orchestrator.runs.folder import STEPS, Tail
from orchestrator.runs.ledger import load, used
from orchestrator.runs.steps import Step
from synapse.cli.frame.call import Call
from synapse.cli.frame.interrupt import Interruptible
from synapse.cli.frame.options import Options
from synapse.cli.frame.show import clean, columns, short, to_json

LOOK = 0.1


def tail_options(parser: Options) -> None:
    add = parser.add_argument
    add("run", metavar="RUN", help="which run")
    add("--follow", action="store_true", help="go on until it ends")


def tail(call: Call) -> None:
    """Ends when the run does, or when nobody reads any more."""
    run = one(call, call.args.run)
    with Interruptible():
        for step in _steps(call, str(run["run"])):
            if call.json:
                call.say(
                    to_json(
                        {
                            "n": step.n,
                            "epoch": step.epoch,
                            "kind": step.kind,
                            **step.fields,
                        }
                    )
                )
            else:
                for line in lines(step):
                    call.say(short(line, columns() or 0))
            call.flush()
        if not call.json:
            call.say(short(ended(one(call, str(run["run"]))), columns() or 0))


def _steps(call: Call, id: str) -> Iterator[Step]:
    """The steps so far, and with --follow those to come, until the run has ended."""
    grown = Tail(call.memory.store.root or call.root, id, STEPS)
    while True:
        over = (
            not call.args.follow or one(call, id)["state"] == "ended"
        )  # before the look: nothing comes after
        yield from steps.read(grown.lines())
        if over:
            return
        time.sleep(LOOK)


def lines(step: Step) -> Iterator[str]:
    """A step as people read it: what was said to the model, what it said, what it called, what that
    gave.
    """
    lead, fields = f"{step.n:>4}  ", step.fields
    if step.kind == "prompt":
        shown = len(fields.get("ids", ()))
        yield (
            f"{lead}prompt   {shown} {'entry' if shown == 1 else 'entries'} shown;"
            f" {_task(fields['task'])}"
        )
    elif step.kind == "turn":
        yield from _turn(lead, fields["turn"], taken(fields))
    elif step.kind == "result":
        yield f"{lead}{'failed ' if fields['failed'] else 'result '}  {_one_line(fields['text'])}"
    elif step.kind == "message":
        yield f"{lead}{fields.get('why', 'said'):<7}  {_one_line(_about(fields) + fields['text'])}"
    elif step.kind == "attempt":
        yield f"{lead}taken over, attempt {fields.get('attempts', '?')}"


def taken(fields: Fields) -> Usage:
    """What a turn took, as its line for the ledger has it."""
    return used(load(fields["ledger"]))


def _turn(lead: str, turn: Fields, usage: Usage) -> Iterator[str]:
    counts = (
        about(number(count), usage.estimated)
        for count in (usage.input_tokens, usage.output_tokens)
    )
    spent = "{} in, {} out".format(*counts)
    said = _one_line(turn["text"])
    if said or not turn["calls"]:
        yield f"{lead}says     {said or turn['stop']}  ({spent})"
    for place, call in enumerate(turn["calls"]):
        spend = "" if said or place else f"  ({spent})"
        yield f"{lead}calls    {call['name']}({_arguments(call['arguments'])}){spend}"


def _arguments(arguments: Fields) -> str:
    return ", ".join(f"{name}={_value(value)}" for name, value in arguments.items())


def _value(value: Any) -> str:
    return repr(value) if isinstance(value, str) else to_json(value)


def _about(fields: Fields) -> str:
    ids = [*fields.get("ids", ()), *fields.get("read", ())]
    return f"{', '.join(ids)}: " if ids else ""


def _task(text: str) -> str:
    return _one_line(
        "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    )


def _one_line(text: str) -> str:
    """The lines of a text that say something, in one."""
    return " ".join(clean(line.strip()) for line in text.splitlines() if line.strip())


def ended(run: Fields) -> str:
    if run["state"] == "running":
        return "      still running"
    usage = Usage(**(run.get("usage") or {}))
    why = run.get("why") or run.get("summary") or ""
    return (
        f"      {run.get('status')}: {tokens(usage)} tokens, {money(run.get('cost'))} "
        f" {_one_line(str(why))}"
    )
