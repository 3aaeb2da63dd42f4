"""How a run begins: what of the memory goes into its prompt, the prompt, and the receipt that says so.

On the memory's thread. What is decided here is recorded before any engine sees it, and never decided again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from orchestrator.bill import COORDINATORS
from orchestrator.budget import Past, Plan, expected, plan, spare
from orchestrator.counting import Counter
from orchestrator.engine import Tool as Told
from orchestrator.prompt import Assignment, Prompt, Reach
from orchestrator.receipt import Order, Receipt, fit
from orchestrator.runs import Run, Runs
from orchestrator.task import Task
from orchestrator.templates import Templates
from orchestrator.tools import SPAWN, WAIT, schema_tokens
from synapse import tools as memory_tools
from synapse.errors import NotFound, OverBudget
from synapse.seat import Seat
from synapse.store import Store
from synapse.tools import Tool
from synapse.view import View
from synapse.workspace import Agent

HISTORY = 200  # ended runs that are looked at for what a role takes


class Context(NamedTuple):
    """What an agent is given of the memory: tools to reach it, and a view for its prompt; None for the one that
    the planned budget allows."""

    tools: Sequence[Tool] = ()
    view: View | None = None


# From the agent, its task, the memory as the agent has it, and what the supervisor's plan allows.
Policy = Callable[[Agent, Task, Seat, Plan], Context]


def by_default(agent: Agent, task: Task, seat: Seat, plan: Plan) -> Context:
    """The view within the budget; the role's tools where they pay."""
    return Context(memory_tools.offered(task.role or agent.role) if plan.tools else ())


class Means(NamedTuple):
    """By what prompts are made in a workspace, and what runs of the role took before."""

    policy: Policy
    memory_tools: str
    secret: bytes
    templates: Templates
    counter: Counter
    past: Sequence[Past]
    spare: int = 0  # of the share of its tree


def opened(
    run: Run, agent: Agent, given_by: str | None, seat: Seat, means: Means, shell: bool
) -> tuple[Prompt, Receipt]:
    """The beginning of a run, as of now. An agent with a shell has no tools."""
    task, role, count = run.task, run.fields["role"], means.counter.count
    fixed = schema_tokens((SPAWN, WAIT), count) if role in COORDINATORS and not shell else 0
    planned = plan(
        expected(role, means.past),
        schema_tokens(map(_told, memory_tools.offered(role)), count),
        fixed=fixed,
        tools="never" if shell else task.memory_tools or means.memory_tools,
        view=task.view_budget,
        spare=means.spare,
    )
    context = means.policy(agent, task, seat, planned)
    tools = () if shell else context.tools
    order = Order(
        run.id,
        run.epoch,
        agent,
        assignment(task, given_by),
        planned.view,
        planned.only_critical,
        Reach(tuple(tool.name for tool in tools), shell),
        fixed + schema_tokens(map(_told, tools), count),
        planned.why,
    )
    try:
        return fit(seat, order, means.secret, means.templates, means.counter, context.view)
    except OverBudget as error:
        without = order._replace(budget=0, why=f"no view: {error}")
        return fit(seat, without, means.secret, means.templates, means.counter)


def registered(store: Store, id: str) -> Agent:
    """The agent of a task."""
    found = store.agents().get(id)
    if found is None:
        raise NotFound(f"agent {id} is not registered; `synapse agents` lists those that are", id=id)
    return found


def histories(runs: Runs) -> dict[str, list[Past]]:
    """What the newest runs that have ended took, by role, the oldest first."""
    found: dict[str, list[Past]] = {}
    for run in reversed(runs.all(state="ended", limit=HISTORY)):
        if run.fields.get("past"):
            found.setdefault(run.fields["role"], []).append(Past(*run.fields["past"]))
    return found


def left_over(runs: Runs, root: str) -> int:
    """What the runs of a tree that have ended left of the share that memory may cost."""
    ended = [run.fields["overhead"] for run in runs.all(root=root, state="ended") if run.fields.get("overhead")]
    return spare((overhead[0], overhead[2]) for overhead in ended)


def assignment(task: Task, given_by: str | None) -> Assignment:
    return Assignment(task.text, task.project, given_by, task.role)


def _told(tool: Tool) -> Told:
    return Told(tool.name, tool.description, tool.schema)
