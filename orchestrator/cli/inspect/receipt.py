"""`orchestrator receipt | replay`: show what went into a run's prompt, and the prompt."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from orchestrator.cli.frame.describe import Fields, find_run, run_folder
from orchestrator.prompts.render import Prompt
from orchestrator.runs import steps
from orchestrator.runs.folder import RECEIPT, STEPS, Folder
from synapse.cli.frame.call import Call
from synapse.cli.frame.options import Options
from synapse.cli.frame.show import clean
from synapse.errors import NotFound, StoreCorrupt

if TYPE_CHECKING:
    from orchestrator.prompts.receipt import Receipt


def receipt_options(parser: Options) -> None:
    parser.add_argument("run", metavar="RUN", help="which run")


def receipt(call: Call) -> None:
    from orchestrator.prompts.receipt import explain

    run = find_run(call, call.args.run)
    receipt = _receipt(call, run)
    call.show(lambda: {"receipt": receipt}, lambda: explain(receipt).rstrip("\n"))


def _receipt(call: Call, run: Fields) -> Receipt:
    from orchestrator.prompts.receipt import load

    files = run_folder(call, str(run["run"]))
    try:
        return load(files.read(RECEIPT))
    except (NotFound, ValueError):
        # it is not synced: a power cut may have taken it, or a part of it
        stored = next(iter(steps.read_known(files.lines(STEPS))), None)
        text = stored.fields.get("receipt") if stored else None
    if text is None:
        raise NotFound(f"run {run['run']} has no receipt", id=run["run"])
    return load(text)


def replay_options(parser: Options) -> None:
    parser.add_argument("run", metavar="RUN", help="which run")


def replay(call: Call) -> None:
    """Print the prompt byte for byte. On a terminal, control characters are spelled out."""
    run = find_run(call, call.args.run)
    prompt = _prompt(call, run)
    if call.json:
        return call.show(
            {"run": run["run"], **prompt._asdict(), "sha256": prompt.sha256}, ""
        )
    if sys.stdout.isatty():
        return call.say("\n".join(map(clean, prompt.text.split("\n"))))
    sys.stdout.flush()
    sys.stdout.buffer.write(prompt.text.encode("utf-8", "surrogatepass"))
    sys.stdout.buffer.flush()
    return None


def _prompt(call: Call, run: Fields) -> Prompt:
    """Return the prompt whose hash the log holds: from the run's folder, else made again from the
    log.
    """
    id, digest = str(run["run"]), _journalled_digest(call, run)
    stored = _stored_prompt(run_folder(call, id))
    if digest is None:
        raise NotFound(f"run {id} has no prompt yet", id=id)
    from orchestrator.prompts import receipt

    return receipt.replay(digest, stored, lambda: _derive_prompt(call, run))


def _stored_prompt(files: Folder) -> Prompt | None:
    """Return the prompt in the run's folder; None where it is gone or damaged."""
    try:
        first = next(iter(steps.read(files.lines(STEPS))), None)
        return (
            None
            if first is None
            else Prompt(*(str(first.fields[field]) for field in Prompt._fields))
        )
    except (StoreCorrupt, KeyError):
        return None


def _derive_prompt(call: Call, run: Fields) -> Prompt:
    """Make the prompt again by its receipt."""
    from orchestrator.prompts.fence import secret
    from orchestrator.prompts.receipt import derive
    from orchestrator.prompts.render import Assignment
    from orchestrator.prompts.templates import Templates

    try:
        receipt = _receipt(call, run)
    except NotFound as error:
        raise StoreCorrupt(
            f"the prompt of {run['run']} in its folder was changed or is gone, and so"
            f" is its receipt"
        ) from error
    memory, root = call.memory, call.memory.store.root or call.root
    agent_memory = memory.as_agent(receipt.agent, str(run["run"]), int(run["epoch"]))
    agent = memory.store.agents()[receipt.agent]
    with memory.store.snapshot() as snap:
        parent = snap.run(str(run["parent"])) if run.get("parent") else None
    options = run.get("asked") or {}
    task = Assignment(
        str(run["task"]),
        str(run["project"]),
        str(parent["agent"]) if parent else None,
        options.get("role"),
    )
    return derive(
        agent_memory, receipt, task, secret(root), Templates(memory.store.root), agent
    )


def _journalled_digest(call: Call, run: Fields) -> str | None:
    """Return the hash of the prompt that the log holds."""
    for record in call.memory.store.acts(str(run["agent"]), None, run["at"], None):
        fields = record.fields
        if record.kind == "shown" and (fields.get("how"), fields.get("run")) == (
            "spawn",
            run["run"],
        ):
            return str(fields["prompt"])
    return None
