"""How a run begins: what of the memory goes into its prompt, the prompt, and the receipt that says so.

On the memory's thread. What is decided here is recorded before any engine sees it, and never decided again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from orchestrator import roster
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
from synapse.errors import OverBudget
from synapse.seat import Seat
from synapse.store import Store
from synapse.tools import Tool
from synapse.view import View
from synapse.workspace import Agent

RECALL = "memory_search"
HISTORY = 200  # ended runs that are looked at for what a role takes


class Context(NamedTuple):
    """What an agent is given of the memory: tools to reach it, and a view for its prompt; None for
    the one that the plan allows. `news`: it is told, turn by turn, what concerns it and came since;
    `acts`: the supervisor looks before a shared tool's call whether the work is done or under way."""

    tools: Sequence[Tool] = ()
    view: View | None = None
    news: bool = True
    acts: bool = True


class Opening(NamedTuple):
    """The beginning of a run: its prompt, the receipt, and what the policy lets reach it later."""

    prompt: Prompt
    receipt: Receipt
    news: bool = True
    acts: bool = True


# By role and engine: a script that was tried out says nothing of a model, nor a model of a client.
Histories = dict[tuple[str, str], list[Past]]


# From the agent, its task, the memory as the agent has it, and what the supervisor's plan allows.
Policy = Callable[[Agent, Task, Seat, Plan], Context]


# From the agent, its task and the plan: when an agent may recall. What, is for its tools to find.
ShouldRecall = Callable[[Agent, Task, Plan], bool]


def where_it_pays(agent: Agent, task: Task, plan: Plan) -> bool:
    """Where such tasks are long enough to pay, at every turn, for being told of the tools."""
    return plan.tools


def view_capsule(should_recall: ShouldRecall = where_it_pays) -> Policy:
    """A small view, within the budget; and the role's tools, by which the agent recalls the rest as capsules, where it
    should."""

    def policy(agent: Agent, task: Task, seat: Seat, plan: Plan) -> Context:
        return Context(memory_tools.offered(task.role or agent.role) if should_recall(agent, task, plan) else ())

    return policy


by_default = view_capsule()


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
    run: Run,
    agent: Agent,
    given_by: str | None,
    seat: Seat,
    means: Means,
    shell: bool,
) -> Opening:
    """Return the beginning of a run, as of now. An agent with a shell has no tools."""
    task, role, count = run.task, run.fields["role"], means.counter.count
    spawns = role in COORDINATORS and not shell
    fixed = schema_tokens((SPAWN, WAIT), count) if spawns else 0
    planned = plan(
        expected(role, means.past),
        schema_tokens(map(_told, taught(memory_tools.offered(role), means.templates)), count),
        fixed=fixed,
        tools="never" if shell else task.memory_tools or means.memory_tools,
        view=task.view_budget,
        spare=means.spare,
    )
    context = means.policy(agent, task, seat, planned)
    tools = () if shell else taught(context.tools, means.templates)
    workers = roster.lines(roster.workers(seat.store.agents().values(), agent)) if spawns else ()
    order = Order(
        run.id,
        run.epoch,
        agent,
        assignment(task, given_by),
        planned.view,
        planned.only_critical,
        Reach(tuple(tool.name for tool in tools), shell, workers),
        fixed + schema_tokens(map(_told, tools), count),
        planned.why,
    )
    try:
        made = fit(seat, order, means.secret, means.templates, means.counter, context.view)
    except OverBudget as error:
        without = order._replace(budget=0, why=f"no view: {error}")
        made = fit(seat, without, means.secret, means.templates, means.counter)
    return Opening(*made, context.news, context.acts)


def taught(tools: Iterable[Tool], templates: Templates) -> list[Tool]:
    """The tools, with the one that searches teaching when to ask. It stands in what is told of the tool, so that it
    costs nothing where the tool is not offered, and is billed with it."""
    found = list(tools)
    values = {"tools": tuple(tool.name for tool in found)}
    return [
        tool._replace(description=f"{tool.description}. {templates.render('_recall', values).strip()}")
        if tool.name == RECALL
        else tool
        for tool in found
    ]


def registered(store: Store, id: str) -> Agent:
    """The agent of a task."""
    found = store.agents().get(id)
    if found is None:
        raise store.unregistered(id)
    return found


def histories(runs: Runs) -> Histories:
    """What the newest runs that have ended took, by role and engine, the oldest first."""
    found: Histories = {}
    for run in reversed(runs.all(state="ended", limit=HISTORY)):
        if run.fields.get("past"):
            kind = (run.fields["role"], run.fields["engine"])
            found.setdefault(kind, []).append(Past(*run.fields["past"]))
    return found


def left_over(runs: Runs, root: str) -> int:
    """What the runs of a tree that have ended left of the share that memory may cost."""
    ended = [run.fields for run in runs.all(root=root, state="ended") if run.fields.get("overhead")]
    return spare(map(_planned, ended))


def _planned(fields: Mapping[str, Any]) -> tuple[int, int]:
    """Return the coordination of a run that a plan decides on, and the rest, which no plan changes."""
    coordination, work, guide = fields["overhead"][0], fields["overhead"][2], fields.get("guide", 0)
    return coordination - guide, work + guide


def assignment(task: Task, given_by: str | None) -> Assignment:
    return Assignment(task.text, task.project, given_by, task.role)


def _told(tool: Tool) -> Told:
    return Told(tool.name, tool.description, tool.schema)
