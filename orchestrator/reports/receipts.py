"""Receipts of runs, and their prompts shown again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrator.prompts.render import Prompt
from orchestrator.reports.rows import Fields, Source
from orchestrator.runs.files import steps
from orchestrator.runs.files.folder import RECEIPT, STEPS, Folder
from orchestrator.runs.files.trim import why_gone
from synapse.errors import NotFound, StoreCorrupt

if TYPE_CHECKING:
    from orchestrator.prompts.receipt import Receipt
    from synapse.core import Memory


def receipt_of(source: Source, run: Fields) -> Receipt:
    """Return the receipt of a run. NotFound where it has none."""
    from orchestrator.prompts.receipt import load

    files = source.folder(str(run["run"]))
    try:
        return load(files.read(RECEIPT))
    except (NotFound, ValueError):
        # of a run that an earlier version began, it stands in the first step too
        stored = next(iter(steps.read_known(files.lines(STEPS))), None)
        text = stored.fields.get("receipt") if stored else None
    if text is None:
        raise NotFound(f"run {run['run']} has no receipt{why_gone(files)}", id=run["run"])
    return load(text)


def prompt_of(source: Source, memory: Memory, run: Fields) -> Prompt:
    """Return the prompt whose hash the log holds: from the run's folder, else made again from the
    log.
    """
    id, digest = str(run["run"]), _journalled_digest(source, run)
    stored = _stored_prompt(source.folder(id))
    if digest is None:
        raise NotFound(f"run {id} has no prompt yet", id=id)
    from orchestrator.prompts import receipt

    return receipt.replay(digest, stored, lambda: _derive_prompt(source, memory, run))


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


def _derive_prompt(source: Source, memory: Memory, run: Fields) -> Prompt:
    """Make the prompt again by its receipt."""
    from orchestrator.prompts.fence import secret
    from orchestrator.prompts.receipt import derive
    from orchestrator.prompts.render import Assignment
    from orchestrator.prompts.templates import Templates

    try:
        receipt = receipt_of(source, run)
    except NotFound as error:
        if reason := why_gone(source.folder(str(run["run"]))):
            raise NotFound(f"run {run['run']} has no prompt{reason}", id=run["run"]) from error
        raise StoreCorrupt(
            f"the prompt of {run['run']} in its folder was changed or is gone, and so"
            f" is its receipt"
        ) from error
    agent_memory = memory.as_agent(receipt.agent, str(run["run"]), int(run["epoch"]))
    agent = memory.store.agents.all()[receipt.agent]
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
        agent_memory, receipt, task, secret(source.root), Templates(memory.store.root), agent
    )


def _journalled_digest(source: Source, run: Fields) -> str | None:
    """Return the hash of the prompt that the log holds."""
    for record in source.store.acts(str(run["agent"]), None, run["at"], None):
        fields = record.fields
        if record.kind == "shown" and (fields.get("how"), fields.get("run")) == (
            "spawn",
            run["run"],
        ):
            return str(fields["prompt"])
    return None
