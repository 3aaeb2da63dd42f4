"""How a run begins: what of the memory goes into its prompt, and the prompt.

On the memory's thread. What is decided here is recorded before any engine sees it, and never decided again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from orchestrator.prompt import Assignment, Prompt, Reach, render
from orchestrator.task import Task
from orchestrator.templates import Templates
from synapse import tools as memory_tools
from synapse.errors import OverBudget
from synapse.seat import Seat
from synapse.tools import Tool
from synapse.view import View
from synapse.workspace import Agent


class Context(NamedTuple):
    """What an agent is given of the memory: a view for its prompt, and tools to reach the rest."""

    view: View | None
    tools: Sequence[Tool] = ()


class Proposal(NamedTuple):
    """What the supervisor would give: tokens for the view, of nothing but what is critical where more would not
    pay, and whether tools would."""

    budget: int
    only_critical: bool
    tools: bool
    encoding: str
    why: str


# From the agent, its task, the memory as the agent has it, and the supervisor's proposal.
Policy = Callable[[Agent, Task, Seat, Proposal], Context]


def by_default(agent: Agent, task: Task, seat: Seat, proposal: Proposal) -> Context:
    """The view within the proposed budget, if any fits; the role's tools where they pay."""
    only = "critical" if proposal.only_critical else None
    try:
        view = seat.briefing(budget=proposal.budget, encoding=proposal.encoding, priority=only)
    except OverBudget:
        view = None
    return Context(view, memory_tools.offered(task.role or agent.role) if proposal.tools else ())


class Opened(NamedTuple):
    """A run's beginning, and where in the log its view was made."""

    prompt: Prompt
    fence: str
    context: Context
    cursor: int

    @property
    def shown(self) -> list[str]:
        """The entries that stand in the prompt."""
        return [each.id for each in self.context.view.included] if self.context.view else []


def opened(
    agent: Agent,
    task: Task,
    given_by: str | None,
    seat: Seat,
    policy: Policy,
    proposal: Proposal,
    shell: bool,
    secret: bytes,
    templates: Templates,
) -> Opened:
    """The beginning of a run of this agent, now."""
    cursor = seat.store.index.horizon
    context = policy(agent, task, seat, proposal)
    if shell:
        context = context._replace(tools=())
    reach = Reach(tuple(tool.name for tool in context.tools), shell)
    asked = Assignment(task.text, task.project, given_by, task.role)
    view = context.view.markdown() if context.view else ""
    prompt, fence = render(agent, asked, view, secret, templates, reach)
    return Opened(prompt, fence, context, cursor)
