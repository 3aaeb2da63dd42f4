"""Steps of a run as lines that people read. Called by `tail` and by the progress of a run."""

from __future__ import annotations

from collections.abc import Iterator

from orchestrator.cli.frame.figures import format_count, format_money, format_tokens, mark_estimate
from orchestrator.engines.protocol import Usage
from orchestrator.reports.rows import Fields
from orchestrator.runs.files.ledger import load, spent
from orchestrator.runs.files.steps import Step
from synapse.cli.frame.show import clean, to_json


def format_step(step: Step) -> Iterator[str]:
    """Yield the lines of a step: what the model was given, what it said, what it called, and the
    results.
    """
    lead, fields = f"{step.n:>4}  ", step.fields
    if step.kind == "prompt":
        count = len(fields.get("ids", ()))
        yield (
            f"{lead}prompt   {count} {'entry' if count == 1 else 'entries'} shown;"
            f" {_task_line(fields['task'])}"
        )
    elif step.kind == "turn":
        yield from _format_turn(lead, fields["turn"], turn_spent(fields)[0])
    elif step.kind == "result":
        yield f"{lead}{'failed ' if fields['failed'] else 'result '}  {_one_line(fields['text'])}"
    elif step.kind == "message":
        ids = ", ".join((*fields.get("ids", ()), *fields.get("read", ())))
        text = _one_line(f"{ids}: {fields['text']}" if ids else fields["text"])
        yield f"{lead}{fields.get('why', 'said'):<7}  {text}"
    elif step.kind == "attempt":
        goes_on = f"taken over, attempt {fields.get('attempts', '?')}"
        yield f"{lead}{'answered, and goes on' if 'answers' in fields else goes_on}"


def turn_spent(fields: Fields) -> tuple[Usage, float | None]:
    """Return what a turn used and cost, from its line for the ledger."""
    return spent([load(fields["ledger"])])


def _format_turn(lead: str, turn: Fields, usage: Usage) -> Iterator[str]:
    counts = (
        mark_estimate(format_count(count), usage.estimated)
        for count in (usage.input_tokens, usage.output_tokens)
    )
    spent = "{} in, {} out".format(*counts)
    text = _one_line(turn["text"])
    if text or not turn["calls"]:
        yield f"{lead}says     {text or turn['stop']}  ({spent})"
    for index, call in enumerate(turn["calls"]):
        spend = "" if text or index else f"  ({spent})"
        yield f"{lead}calls    {format_call(call)}{spend}"


def format_call(call: Fields) -> str:
    """Return a call of a tool as people read it."""
    return f"{call['name']}({_format_arguments(call['arguments'])})"


def _format_arguments(arguments: Fields) -> str:
    values = [
        repr(value) if isinstance(value, str) else to_json(value) for value in arguments.values()
    ]
    pairs = zip(arguments, values, strict=True)
    return ", ".join(f"{name}={value}" for name, value in pairs)


def _task_line(text: str) -> str:
    return _one_line("\n".join(line for line in text.splitlines() if not line.startswith("#")))


def _one_line(text: str) -> str:
    """Return the lines of a text that are not empty, in one line."""
    return " ".join(clean(line.strip()) for line in text.splitlines() if line.strip())


def format_end(run: Fields) -> str:
    if run["state"] == "running":
        return "      still running"
    usage = Usage(**(run.get("usage") or {}))
    why = run.get("why") or run.get("summary") or ""
    figures = f"its own {format_tokens(usage)} tokens, {format_money(run.get('cost'))}"
    return f"      {run.get('status')}: {figures}  {_one_line(str(why))}"
