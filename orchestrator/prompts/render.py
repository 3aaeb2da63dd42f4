"""The texts of prompts and of later messages, rendered from templates, with other agents' text
fenced.

Pure but for the templates' files. Nothing here reads the memory, counts tokens or knows a run's
folder. Every text that an agent wrote is a value, never a template; it stands quoted, line by line,
between tags that it cannot close.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from orchestrator.prompts.fence import inline, quoted
from orchestrator.prompts.templates import BrokenTemplate, Templates
from synapse.model.agents import Agent
from synapse.model.namespace import is_component
from synapse.system.digest import blake2b, sha256
from synapse.view.block import Block
from synapse.view.fence import fence, tags

OTHERWISE = "engineer"  # the template of a role that has none of its own
# The parts of system texts that speak of the memory and of the team. Their tokens are coordination.
GUIDES = ("_memory", "_done", "_given", "_rules", "_tools", "_finish", "_roster")


class Assignment(NamedTuple):
    """What is to be done. `kind` names a template other than that of the agent's role: `qa`,
    say.
    """

    text: str
    project: str | None = None
    given_by: str | None = None
    kind: str | None = None


class Reach(NamedTuple):
    """By what an agent reaches the memory: the names of its tools, or the shell. `roster` are lines
    about whom it may give work to, where it can."""

    tools: tuple[str, ...] = ()
    shell: bool = False
    roster: tuple[str, ...] = ()

    @property
    def follows_commands(self) -> bool:
        """Return whether it can do what `synapse read ID` says: in its shell, or with its own
        tool."""
        return self.shell or "read" in self.tools


NOTHING = Reach()


class Prompt(NamedTuple):
    """The parts of a spawn prompt, the stable first. `memory` is empty where nothing is shown."""

    system: str
    memory: str
    task: str

    @property
    def text(self) -> str:
        """Return the whole prompt, as `replay` prints it."""
        return "\n".join(block for block in self if block)

    @property
    def sha256(self) -> str:
        return sha256(self.text.encode("utf-8", "surrogatepass"))


class Report(NamedTuple):
    """What became of work that was given to another: its run, and its summary in its own words.
    `entry` is the one that says what blocks it, where it is blocked."""

    run: str
    agent: str
    status: str
    summary: str
    entry: str | None = None


def render(
    agent: Agent,
    task: Assignment,
    view: str,
    secret: bytes,
    templates: Templates,
    reach: Reach = NOTHING,
) -> tuple[Prompt, str]:
    """Render the prompt of a spawn and return it with its fence. `view` is the text of the agent's
    view; nothing is shown where it is empty. The task stands last, word for word: it can close
    nothing that stands before it, and the fence is drawn so that the task does not contain it. So
    no text of the task passes for memory.
    """
    drawn = fence(secret, agent.id, f"{view}\n{task.text}")
    system = system_text(agent, task, templates, reach)
    memory = fenced("memory", drawn, view, templates, "view") if view else ""
    return Prompt(system, memory, assigned(task, templates)), drawn


def system_text(
    agent: Agent,
    task: Assignment,
    templates: Templates,
    reach: Reach = NOTHING,
    without: Collection[str] = (),
) -> str:
    """Return the system text of a spawn; without `GUIDES`, nothing in it speaks of the memory and
    of the team.
    """
    values = {
        "agent": shown(agent),
        "tools": reach.tools,
        "shell": reach.shell,
        "roster": reach.roster,
    }
    return templates.render(template_of(agent, task, templates), values, without)


def template_of(agent: Agent, task: Assignment, templates: Templates) -> str:
    """Return the name of the template: of the task's kind, else the agent's role, else an
    engineer's.
    """
    names = (name for name in (task.kind, agent.role) if name and is_component(name))
    return next((name for name in names if templates.has(name)), OTHERWISE)


def assigned(task: Assignment, templates: Templates) -> str:
    """Render the last part of a prompt. The text of the task stands in it word for word."""
    rendered = templates.render("task", {"task": task})
    if task.text not in rendered:
        path = templates.path("task")
        raise BrokenTemplate(
            f"{path} does not show {{{{ task.text }}}} as it is", file=path, line=1
        )
    return rendered


def frame(agent: Agent, secret: bytes, templates: Templates) -> tuple[str, str]:
    """Return the text before and behind a view. Lines end and begin there, so that counts add
    up.
    """
    drawn = fence(secret, agent.id, "")
    opening, _ = tags(drawn)
    before, _, suffix = fenced("memory", drawn, "-\n", templates, "view").partition(f"{opening}-\n")
    return before + opening, suffix


def wake(blocks: Iterable[Block], agent: Agent, secret: bytes, templates: Templates) -> str:
    """Return what is said to a running session when something arrives that concerns it."""
    news = "".join(block.text for block in blocks)
    return fenced("wake", fence(secret, agent.id, news), news, templates, "news")


def found(blocks: Iterable[Block], agent: Agent, secret: bytes, templates: Templates) -> str:
    """Return what the memory has on what an agent is about to do, in a conversation that was told
    how memory is to be read."""
    entries = "".join(block.text for block in blocks)
    return fenced("found", fence(secret, agent.id, entries), entries, templates, "entries")


def held(blocks: Iterable[Block], agent: Agent, secret: bytes, templates: Templates) -> str:
    """Return what is said to an agent before a call that entries are for."""
    entries = "".join(block.text for block in blocks)
    return fenced("held", fence(secret, agent.id, entries), entries, templates, "entries")


def unread(reports: Sequence[Report], agent: Agent, secret: bytes, templates: Templates) -> str:
    """Render the message to an agent that would end without having read its children's results."""
    return _results("unread", reports, agent, secret, templates)


def results(reports: Sequence[Report], agent: Agent, secret: bytes, templates: Templates) -> str:
    """Render the results for an agent that waited for its children."""
    return _results("results", reports, agent, secret, templates)


def blocked(reports: Sequence[Report], agent: Agent, secret: bytes, templates: Templates) -> str:
    """Return what an agent at work is told when work that it gave out is blocked."""
    return _results("blocked", reports, agent, secret, templates)


def _results(
    name: str, reports: Sequence[Report], agent: Agent, secret: bytes, templates: Templates
) -> str:
    text = "".join(_report_text(report) for report in reports)
    return fenced(name, fence(secret, agent.id, text), text, templates, "told")


def fenced(
    name: str, fence: str, body: str, templates: Templates, value: str, **more: object
) -> str:
    """Render a template with the body between its tags. The template is given marks that stand for
    the tags and for the body, which takes their place afterwards: so nothing in a template can take
    the body apart, say it twice or show it without its fence. One that a workspace has spoiled is
    an error.
    """
    # nobody guesses it, and it is the same for the same prompt
    mark = blake2b(b"mark", key=fence.encode(), digest_size=16).hexdigest()
    marks = {side: f"[{mark} {side}]" for side in ("opening", value, "closing")}
    rendered = templates.render(name, {**more, **marks})
    before, marker, after = rendered.partition("".join(marks.values()))
    is_once = marker and rendered.lower().count(mark) == len(marks)
    if not is_once or fence in rendered or before[-1:] not in ("", "\n"):
        kind = "{{ opening }}{{ " + value + " }}{{ closing -}} in lines of their own, once"
        path = templates.path(name)
        raise BrokenTemplate(f"{path} has to have {kind}", file=path, line=1)
    opening, closing = tags(fence)
    return f"{before}{opening}{body}{closing}{after}"


def shown(agent: Agent) -> Agent:
    """Return the agent as templates have it: what its file says of it, each on one line."""
    name, department = agent.name, agent.department
    return agent._replace(
        role=inline(agent.role),
        name=name and inline(name),
        department=department and inline(department),
    )


def _report_text(report: Report) -> str:
    entry = f", {report.entry}" if report.entry else ""
    head = f"- run {report.run} ({inline(report.agent)}): {report.status}{entry}"
    return f"{head}\n" + "".join(f"  {line}\n" for line in quoted(report.summary).splitlines())


# -- What a provider's cache can keep --------------------------------------------------


class Prefix(NamedTuple):
    """How much of a prompt stands at the beginning of the next one, in bytes and as a share of
    it.
    """

    bytes: int
    of: int

    @property
    def share(self) -> float:
        return self.bytes / self.of if self.of else 1.0


def prefix(before: Prompt, after: Prompt) -> Prefix:
    """Return how much of the next prompt of an agent is equal to the one before, up to the task:
    what a cache can keep.
    """
    old, new = (
        f"{prompt.system}\n{prompt.memory}".encode("utf-8", "surrogatepass")
        for prompt in (before, after)
    )
    low, high = 0, min(len(old), len(new))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if old[:middle] == new[:middle] else (low, middle - 1)
    return Prefix(low, len(old))
