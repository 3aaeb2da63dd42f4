"""The preview of a run: its prompt, the expected cost, and what was left out. Begins nothing,
writes nothing.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from orchestrator.prompts import selection
from orchestrator.prompts.fence import SECRET_BYTES, secret
from orchestrator.prompts.opening import (
    PromptDeps,
    build_opening,
    by_default,
    histories,
    registered,
)
from orchestrator.prompts.receipt import Receipt
from orchestrator.prompts.render import Prompt
from orchestrator.prompts.templates import Templates
from orchestrator.run_store.costs import refuse_misread
from orchestrator.runs.records import Run, Runs
from orchestrator.runs.task import MAX_REPLY, Task, check
from orchestrator.spend import prices
from orchestrator.spend.counting import Counter, Ratios
from synapse.core import Memory


class Preview(NamedTuple):
    """`turn` is the most that its first turn can cost; `turns` what such runs take, and `run` what
    they cost without any cache. None where the model has no price, or no engine is named.
    """

    prompt: Prompt
    receipt: Receipt
    engine: str | None
    model: str | None
    turn: float | None
    turns: float
    run: float | None


def preview(
    memory: Memory, task: Task, engine: str | None, takes_tools: bool, model: str | None
) -> Preview:
    """Return how this task would begin on this engine, if it were begun now; as on any that takes
    tools where none is named.
    """
    store, root = memory.store, memory.store.root or ""
    agent = registered(store, task.agent)
    check(task)
    refuse_misread(store)
    role = task.role or agent.role
    model = task.model or agent.model or model
    counter = Counter(model, ratio=Ratios(root).of(model))
    past = histories(Runs(store)).get((role, engine or ""), [])
    deps = PromptDeps(
        by_default, "auto", _secret(root), Templates(store.root, needed=True), counter, past
    )
    run, agent_memory = _run(task, role, store.clock()), memory.as_agent(agent.id)
    shell = not takes_tools
    prompt, receipt, *_ = build_opening(run, agent, None, agent_memory, deps, takes_tools, shell)
    expected = selection.expected(role, past)
    turn, total = 0.0, 0.0
    if engine != "scripted":
        price = _price(memory, model)
        if price is None:
            return Preview(prompt, receipt, engine, model, None, expected.turns, None)
        longest = task.max_reply or MAX_REPLY
        turn = prices.worst(price, counter.theirs(sum(receipt.tokens.values())), longest)
        total = prices.worst(
            price._replace(written=price.input), counter.theirs(int(expected.work)), 0
        )
    return Preview(prompt, receipt, engine, model, turn, expected.turns, total)


def _run(task: Task, role: str, now: int) -> Run:
    """Return a run that does not exist."""
    id = "not-begun"
    overrides = {key: value for key, value in task._asdict().items() if key != "text"}
    fields = {"role": role, "task": task.text, "asked": overrides}
    return Run(
        id, task.agent, task.project, None, id, 0, 0, "running", None, None, 1, now, 0, fields
    )


def _price(memory: Memory, model: str | None) -> prices.Price | None:
    price_list = prices.declared(dict(memory.store.settings.other))
    return prices.price(model, at=memory.store.clock(), given=price_list) if model else None


def _secret(root: str) -> bytes:
    """Return the workspace's secret, or one of zeros where it has none yet: then the fence will be
    another.
    """
    return (
        secret(root)
        if os.path.exists(os.path.join(root, "runs", ".secret"))
        else bytes(SECRET_BYTES)
    )
