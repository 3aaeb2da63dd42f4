"""The opening of a run: what of the memory goes into its prompt, the prompt itself, and its
receipt. Called once per run, on the memory's thread.

What is decided here is recorded before any engine sees it, and never decided again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from orchestrator.engines.protocol import Tool as Told
from orchestrator.prompts import roster, selection
from orchestrator.prompts.receipt import Order, Receipt, draft, fit
from orchestrator.prompts.render import Assignment, Prompt, Reach, frame
from orchestrator.prompts.selection import Past, Plan
from orchestrator.prompts.templates import Templates
from orchestrator.runs.records import Run, Runs
from orchestrator.runs.task import Task
from orchestrator.spend.counting import Counter
from orchestrator.spend.segments import COORDINATORS
from orchestrator.tools.functions import SPAWN, WAIT, schema_tokens
from synapse import tools as memory_tools
from synapse.agent_memory import AgentMemory
from synapse.errors import OverBudget
from synapse.model.agents import Agent
from synapse.store import Store
from synapse.tools import Tool
from synapse.view.view import View

RECALL = "memory_search"
HISTORY = 200  # ended runs that are looked at for what a role takes


class Context(NamedTuple):
    """What an agent is given of the memory: tools to reach it, and a view for its prompt; None for
    the one that the plan allows. `news`: it is told, turn by turn, what concerns it and came since;
    `acts`: the supervisor looks before a shared tool's call whether the work is done or under way.
    """

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
Policy = Callable[[Agent, Task, AgentMemory, Plan], Context]


# Decides from the agent, its task and the plan whether it gets recall tools.
ShouldRecall = Callable[[Agent, Task, Plan], bool]


def as_planned(agent: Agent, task: Task, plan: Plan) -> bool:
    """Return whether the plan has tools: for who coordinates, and where more concerns the task than
    fits.
    """
    return plan.tools


def view_capsule(should_recall: ShouldRecall = as_planned) -> Policy:
    """Return the policy of a view that pays, and of the role's tools, by which the agent recalls
    the rest as capsules, where it should.
    """

    def policy(agent: Agent, task: Task, agent_memory: AgentMemory, plan: Plan) -> Context:
        return Context(
            memory_tools.offered(task.role or agent.role)
            if should_recall(agent, task, plan)
            else ()
        )

    return policy


by_default = view_capsule()


class PromptDeps(NamedTuple):
    """A workspace's policy, templates and counter, and earlier runs of the role."""

    policy: Policy
    memory_tools: str
    secret: bytes
    templates: Templates
    counter: Counter
    past: Sequence[Past]


def build_opening(
    run: Run,
    agent: Agent,
    given_by: str | None,
    agent_memory: AgentMemory,
    deps: PromptDeps,
    takes_tools: bool,
    shell: bool,
) -> Opening:
    """Return the beginning of a run, as of now. An agent without tools of ours may have a shell."""
    task, role, count = run.task, run.fields["role"], deps.counter.count
    spawns = role in COORDINATORS and takes_tools
    fixed = schema_tokens((SPAWN, WAIT), count) if spawns else 0
    mode = "never" if not takes_tools else task.memory_tools or deps.memory_tools
    names = tuple(tool.name for tool in memory_tools.offered(role))
    size = selection.number(task.view_budget)
    of = selection.expected(role, deps.past)
    worth = selection.worth(of, 1 / deps.counter.ratio)
    most = selection.CRITICALS + selection.MOST if size is None else size
    store, giver = agent_memory.store, agent.joined(run.project)
    workers = (
        roster.lines(roster.workers(store.agents.all().values(), giver, store.settings.flat))
        if spawns
        else ()
    )
    reach = Reach(names if selection.offers(mode, spawns, 0) else (), shell, workers)
    order = Order(
        run.id,
        run.epoch,
        agent,
        Assignment(task.text, task.project, given_by, task.role),
        most,
        reach,
        about=True,
        worth=worth if size is None else None,
    )
    framed = sum(deps.counter.measure(frame(agent, deps.secret, deps.templates))[0])
    view, error = _drafted(agent_memory, order, deps.counter, framed)
    tokens = view.tokens + framed if view.text else 0
    why = f"no view: {error}" if error else selection.reason(view, tokens, size, of, worth)
    planned = Plan(tokens, selection.offers(mode, spawns, view.unfit), why)
    context = deps.policy(agent, task, agent_memory, planned)
    tools = () if not takes_tools else taught(context.tools, deps.templates)
    schema = fixed + schema_tokens(
        (Told(tool.name, tool.description, tool.schema) for tool in tools), count
    )
    reach = reach._replace(tools=tuple(tool.name for tool in tools))
    if (
        context.view is None
        and reach.follows_commands != order.reach.follows_commands
        and not error
    ):
        # it names commands, or no more
        view, error = _drafted(agent_memory, order._replace(reach=reach), deps.counter, framed)
    order = order._replace(budget=0 if error else most, reach=reach, schema=schema, why=why)
    fitted = fit(
        agent_memory, order, deps.secret, deps.templates, deps.counter, context.view or view
    )
    return Opening(*fitted, context.news, context.acts)


def _drafted(
    agent_memory: AgentMemory, order: Order, counter: Counter, framed: int
) -> tuple[View, OverBudget | None]:
    """Return the view that the order allows; an empty one, and why, where not even one line
    fits.
    """
    try:
        return draft(agent_memory, order, counter, framed), None
    except OverBudget as error:
        without = order._replace(budget=0)
        return draft(agent_memory, without, counter, framed), error


def taught(tools: Iterable[Tool], templates: Templates) -> list[Tool]:
    """Return the tools; the description of the search tool says when to search. It is part of the
    description, so that it costs nothing where the tool is not offered, and is billed with it.
    """
    listed = list(tools)
    values = {"tools": tuple(tool.name for tool in listed)}
    return [
        tool._replace(
            description=f"{tool.description}. {templates.render('_recall', values).strip()}"
        )
        if tool.name == RECALL
        else tool
        for tool in listed
    ]


def registered(store: Store, id: str) -> Agent:
    """Return the agent of this id, or raise an error that names the registered ones."""
    agent = store.agents.all().get(id)
    if agent is None:
        raise store.agents.unregistered(id)
    return agent


def histories(runs: Runs) -> Histories:
    """Return the costs of the newest ended runs by role and engine, the oldest first."""
    result: Histories = {}
    for run in reversed(runs.all(state="ended", limit=HISTORY)):
        if run.fields.get("past"):
            kind = (run.fields["role"], run.fields["engine"])
            uses = run.fields.get("uses") or {}
            past = Past(*run.fields["past"][:4])._replace(uses=uses)
            result.setdefault(kind, []).append(past)
    return result
