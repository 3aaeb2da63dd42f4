"""The arms: ways in which agents may learn from each other, each a context policy of the shipped
supervisor.

What differs between arms is what a prompt shows, which tools of the memory are offered, who is told
what between turns, and whether tool results are shared; nothing else. `shipped` is the product as
it is. Ablations are the product with one thing changed. Rivals are what a team would do without it,
each in its best form: where two ways of playing one are possible, the cheaper one is played. Tools
of the rivals bear the names of the memory's, so that their tokens are billed alike; none of the
product's own software works for them but the log that keeps what was written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from orchestrator.prompts.opening import Context, by_default
from orchestrator.prompts.selection import Plan
from orchestrator.runs.task import Task
from scenarios.play.arms.arm import (
    ABLATION,
    CONTROL,
    PRODUCT,
    RIVAL,
    Arm,
    Ground,
    Setting,
    alone,
    given,
    nothing,
)
from scenarios.play.arms.rivals import (
    broadcast,
    cache_short,
    file_tail,
    grep_start,
    handoff,
    langgraph,
    manager,
    manager_lossy,
    native_store,
    tool_cache,
)
from scenarios.play.world.task_text import read_task
from scenarios.play.world.truth import filler
from synapse import tools as memory_tools
from synapse.agent_memory import AgentMemory
from synapse.model.agents import Agent

# -- The product, and what becomes of it where one thing is changed --------------------


def _shipped(ground: Ground) -> Setting:
    return Setting(by_default, "auto", None)


def _without(**changed: Any) -> Callable[[Ground], Setting]:
    """Return what ships, with these fields of its context changed."""

    def context(agent: Agent, task: Task, agent_memory: AgentMemory, plan: Plan) -> Context:
        return by_default(agent, task, agent_memory, plan)._replace(**changed)

    return lambda ground: Setting(context, "auto", None)


def _view(ground: Ground) -> Setting:
    return Setting(by_default, "never", None)


def _capsule(ground: Ground) -> Setting:
    def context(agent: Agent, task: Task, agent_memory: AgentMemory, plan: Plan) -> Context:
        return Context(memory_tools.offered(task.role or agent.role), nothing(agent_memory))

    return Setting(context, "always", None)


def _view_capsule(ground: Ground) -> Setting:
    def context(agent: Agent, task: Task, agent_memory: AgentMemory, plan: Plan) -> Context:
        return by_default(agent, task, agent_memory, plan)._replace(
            tools=memory_tools.offered(task.role or agent.role)
        )

    return Setting(context, "always", None)


# -- What it is compared with ----------------------------------------------------------


def _isolated(ground: Ground) -> Setting:
    return Setting(lambda agent, task, agent_memory, plan: alone(agent_memory))


def _placebo(ground: Ground) -> Setting:
    """Return a setting that shows as many tokens as a view, about nothing."""

    def context(agent: Agent, task: Task, agent_memory: AgentMemory, plan: Plan) -> Context:
        view = agent_memory.briefing(max(plan.view, 200))
        if not view.included:
            return alone(agent_memory)
        line, size = f"  > {filler(40)}\n", ground.count(f"  > {filler(40)}\n")
        return alone(
            agent_memory,
            view=given(agent_memory, ground, "".join([line] * max(round(view.tokens / size), 1))),
        )

    return Setting(context)


def _oracle(ground: Ground) -> Setting:
    """Exactly what the task needs, as it is now, and the news of it."""

    def context(agent: Agent, task: Task, agent_memory: AgentMemory, plan: Plan) -> Context:
        needs = [ground.truth.named(subject) for subject in read_task(task.text).needs]
        text = "".join(f"- {ground.truth.state(need)}\n" for need in needs if need is not None)
        return alone(agent_memory, view=given(agent_memory, ground, text))._replace(news=True)

    return Setting(context, hears=None)


# -- Rivals: who tells whom ------------------------------------------------------------


# -- Rivals: a place to look -----------------------------------------------------------


# -- A rival: what tools gave ----------------------------------------------------------


# -- What all of them read -------------------------------------------------------------


ARMS: Mapping[str, Arm] = {
    arm.name: arm
    for arm in (
        Arm("isolated", CONTROL, "the task alone", _isolated),
        Arm("placebo", CONTROL, "as many tokens as a view, about nothing", _placebo),
        Arm("broadcast", RIVAL, "everything, to everybody, between turns", broadcast),
        Arm(
            "manager",
            RIVAL,
            "a manager reads everything, loses nothing and briefs each agent",
            manager,
        ),
        Arm("manager_lossy", RIVAL, "the same, one that loses some of it", manager_lossy),
        Arm("handoff", RIVAL, "a lead hands all results on to each agent that begins", handoff),
        Arm(
            "file_tail",
            RIVAL,
            "a file of notes, of which only what is new is read, and locks",
            file_tail,
        ),
        Arm(
            "native_store",
            RIVAL,
            "LangGraph's store: put and search, and locks",
            native_store,
            langgraph,
        ),
        Arm("tool_cache", RIVAL, "a cache of what tools gave, for all agents", tool_cache),
        Arm("cache_short", RIVAL, "the same, of which the last line is passed on", cache_short),
        Arm(
            "grep_start",
            RIVAL,
            "that, and at the start what a grep for the needs' words finds in the notes",
            grep_start,
        ),
        Arm("view", ABLATION, "what ships, without tools of the memory", _view),
        Arm(
            "capsule",
            ABLATION,
            "what ships, without the view at the start, always with tools",
            _capsule,
        ),
        Arm("view_capsule", ABLATION, "what ships, always with tools", _view_capsule),
        Arm("no_news", ABLATION, "what ships, without news between turns", _without(news=False)),
        Arm(
            "no_acts", ABLATION, "what ships, without the look before a call", _without(acts=False)
        ),
        Arm(
            "start_only",
            ABLATION,
            "the view at the start alone",
            _without(news=False, acts=False, tools=()),
        ),
        Arm(
            "shipped", PRODUCT, "what ships: the start, the news, the look before a call", _shipped
        ),
        Arm("oracle", CONTROL, "exactly what is needed", _oracle),
        Arm("off", ABLATION, "a memory that is never consolidated", _shipped),
        Arm("weekly", ABLATION, "a memory that is consolidated every week", _shipped),
        Arm("nightly", PRODUCT, "a memory that is consolidated every night", _shipped),
    )
}
