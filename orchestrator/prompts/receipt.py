"""The render receipt of a spawn: which entries stand in its prompt, at how many tokens, and which
do not, and why.

With it the prompt can be made again, byte for byte, and compared. Nothing here writes a file.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from textwrap import wrap
from typing import TYPE_CHECKING, Any, NamedTuple

from orchestrator.prompts.render import (
    GUIDES,
    NOTHING,
    Assignment,
    Prompt,
    Reach,
    frame,
    render,
    system_text,
    template_of,
)
from orchestrator.prompts.templates import Templates
from orchestrator.spend.counting import Counter
from synapse.errors import OverBudget, SynapseError
from synapse.model.agents import Agent
from synapse.model.clock import seconds
from synapse.model.worth import Worth
from synapse.view.block import POINTER
from synapse.view.view import FULL, LeftOut, View

if TYPE_CHECKING:
    from synapse.agent_memory import AgentMemory

WIDTH = 80
NAMED = 3  # ids that are told of each reason
KEPT = 20  # ids that are kept of each reason: there may be thousands
CRITICAL = "critical"


class NotReproducible(SynapseError):
    """The prompt cannot be made again. .expected and .found are the hashes."""

    exit_code = 5


class Omission(NamedTuple):
    """Why entries are not in a prompt: how many, and the ids of the newest, the oldest of these
    first.
    """

    why: str
    total: int
    ids: tuple[str, ...]


class Receipt(NamedTuple):
    """What a prompt was made of. `cursor` and `at` say as of when; `counting` how its tokens were
    counted; `ratio` how far the provider's count was from ours; `prompt` is the sha256 of the
    prompt's text. `included` are id, tokens, form and kind of each entry. `roster` are the lines
    about whom its agent may give work to; `about` says whether the task's words were looked for,
    and `worth` by what the view was chosen, where no number of tokens was asked for.
    """

    run: str
    epoch: int
    agent: str
    at: int
    cursor: int
    template: str
    templates: str
    tokenizer: str
    encoding: str
    counting: str
    ratio: float
    budget: int
    why: str
    tools: tuple[str, ...]
    shell: bool
    included: tuple[tuple[str, int, str, str], ...]
    left_out: tuple[Omission, ...]
    tokens: Mapping[str, int]
    prompt: str
    fence: str
    roster: tuple[str, ...] = ()
    about: bool = False
    worth: Worth | None = None

    @property
    def omitted(self) -> int:
        """Return how many entries are not in the prompt."""
        return sum(omission.total for omission in self.left_out)

    def dump(self) -> str:
        """Return the receipt as JSON, a line for each field."""
        fields = self._asdict() | {"worth": self.worth._asdict() if self.worth else None}
        encode = json.JSONEncoder(ensure_ascii=False).encode
        return (
            "{\n"
            + ",\n".join(f'"{name}": {encode(value)}' for name, value in fields.items())
            + "\n}\n"
        )

    def shown(self) -> dict[str, Any]:
        """Return the fields of the record in the log: what the agent was shown, and the digest of
        its prompt.
        """
        return {
            "cursor": self.cursor,
            "how": "spawn",
            "run": self.run,
            "epoch": self.epoch,
            "ids": [id for id, _, form, *_ in self.included if form != POINTER],
            "of": len(self.included) + self.omitted,
            "tokens": sum(self.tokens.values()),
            "budget": self.budget,
            "encoding": self.encoding,
            "template": self.templates,
            "prompt": self.prompt,
            "left_out": self.omitted,
        }


def load(text: str) -> Receipt:
    """Return the receipt of its dump; one of an earlier version has no kinds of entries, and all
    ids of those that were left out.
    """
    fields = {name: value for name, value in json.loads(text).items() if name in Receipt._fields}
    fields["tools"] = tuple(fields["tools"])
    fields["roster"] = tuple(fields.get("roster", ()))
    fields["included"] = tuple(
        (id, tokens, form, *(why or ("",))) for id, tokens, form, *why in fields["included"]
    )
    fields["worth"] = Worth(**fields["worth"]) if fields.get("worth") else None
    fields["left_out"] = tuple(
        Omission(why, total[0] if total else len(ids), tuple(ids))
        for why, *total, ids in fields["left_out"]
    )
    return Receipt(**fields)


class Order(NamedTuple):
    """What a prompt is asked to be: the tokens that memory may take, its frame included, and for
    whom. `schema` is the tokens of the tools' schemas; `about` asks for what the task's words find,
    `worth` for no more than pays.
    """

    run: str
    epoch: int
    agent: Agent
    task: Assignment
    budget: int
    reach: Reach = NOTHING
    schema: int = 0
    why: str = ""
    about: bool = False
    worth: Worth | None = None


def fit(
    agent_memory: AgentMemory,
    order: Order,
    secret: bytes,
    templates: Templates,
    counter: Counter,
    view: View | None = None,
) -> tuple[Prompt, Receipt]:
    """Return the prompt with the view that the budget allows, or with one that was made before; and
    its receipt.

    OverBudget where not even one counted line fits. A budget of 0 asks for no view at all; where
    nothing pays, none is shown: then nothing is what it costs.
    """
    before, suffix = frame(order.agent, secret, templates)
    framed = sum(counter.measure((before, suffix))[0])
    if view is None:
        view = draft(agent_memory, order, counter, framed)
    prompt, fence = render(order.agent, order.task, view.text, secret, templates, order.reach)
    system = counter.count(prompt.system)
    without_guides = system_text(order.agent, order.task, templates, order.reach, GUIDES)
    own = min(counter.count(without_guides), system)
    tokens = {
        "system": own,
        "guide": system - own,
        "tool_schema": order.schema,
        "view": view.tokens + framed if view.text else 0,
        "task": counter.count(prompt.task),
    }
    if not view.bounded and prompt.memory == before + view.text + suffix:
        # its blocks add up: the whole need not be encoded
        counter.know(prompt.memory, tokens["view"])
    return prompt, Receipt(
        order.run,
        order.epoch,
        order.agent.id,
        view.at,
        view.cursor,
        template_of(order.agent, order.task, templates),
        templates.version,
        tokenizer(),
        counter.encoding,
        "bound" if view.bounded else counter.counting,
        counter.ratio,
        order.budget,
        order.why,
        order.reach.tools,
        order.reach.shell,
        tuple((*item,) for item in view.included),
        omissions(view.left_out),
        tokens,
        prompt.sha256,
        fence,
        order.reach.roster,
        order.about,
        order.worth,
    )


def omissions(left_out: Iterable[LeftOut]) -> tuple[Omission, ...]:
    """Return what a view left out by its reasons, in the order in which these came up."""
    ids: dict[str, list[str]] = {}
    for id, why in left_out:
        ids.setdefault(why, []).append(id)
    return tuple(Omission(why, len(of), tuple(of[-KEPT:])) for why, of in ids.items())


def draft(agent_memory: AgentMemory, order: Order, counter: Counter, framed: int) -> View:
    """Return the view that fits beside the tokens of its frame; an empty one, as of the same
    moment, where none is wanted or nothing pays.
    """
    if order.budget <= 0:
        nothing = agent_memory.briefing(
            encoding=counter.encoding, only=CRITICAL, moments=order.reach.shell
        )
        return _without(nothing, "there was no budget for a view")
    requested = _asked(
        order.task, order.about, order.worth, order.reach, counter, framed, order.budget
    )
    try:
        view = agent_memory.briefing(**requested)
    except OverBudget as error:
        needed = counter.theirs(error.details["needed"] + framed)  # type: ignore[operator]
        message = (
            f"the shortest memory takes {needed} tokens with its frame, and its budget is"
            f" {order.budget}"
        )
        raise OverBudget(message, needed=needed, budget=order.budget) from error
    criticals_left = any(reason == FULL for _, reason in view.left_out)
    return _without(view) if order.worth and not view.included and not criticals_left else view


def _asked(
    task: Assignment,
    about: bool,
    worth: Worth | None,
    reach: Reach,
    counter: Counter,
    framed: int,
    budget: int,
) -> dict[str, Any]:
    """Return what a briefing is asked for, at a spawn and when it is made again."""
    return {
        "budget": max(counter.ours(budget) - framed, 0),
        "encoding": counter.encoding,
        "commands": reach.follows_commands,
        "moments": reach.shell,
        "about": task.text if about else "",
        "worth": worth._replace(most=worth.most - framed) if worth else None,
    }


def _without(view: View, reason: str = "") -> View:
    """Return the choice that shows nothing of the view, with the reason."""
    left_out = [LeftOut(item.id, reason) for item in view.included]
    left_out += [LeftOut(id, reason or why) for id, why in view.left_out]
    return view._replace(text="", tokens=0, included=(), left_out=tuple(left_out))


@cache  # finding out reads a directory and parses a file, and what is installed stays as it is
def tokenizer() -> str:
    """Return the name and version of what counts."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return f"tiktoken {version('tiktoken')}"
    except PackageNotFoundError:
        return "none"


# -- Made again ------------------------------------------------------------------------


def replay(journalled: str, stored: Prompt | None, again: Callable[[], Prompt]) -> Prompt:
    """Return the prompt whose hash the log holds: from the run's folder, else made again from the
    log. A prompt with another hash is never returned.
    """
    if stored is not None and stored.sha256 == journalled:
        return stored
    rendered = again()
    if rendered.sha256 == journalled:
        return rendered
    raise NotReproducible(
        f"the prompt cannot be made again: the log knows it as {journalled[:16]}…,"
        f" what is kept in the run's folder"
        f" {'is missing' if stored is None else f'has {stored.sha256[:16]}…'}, and"
        f" made from the log it has"
        f" {rendered.sha256[:16]}…; the templates or the workspace's secret may have changed",
        expected=journalled,
        found=rendered.sha256,
    )


def derive(
    agent_memory: AgentMemory,
    receipt: Receipt,
    task: Assignment,
    secret: bytes,
    templates: Templates,
    agent: Agent,
) -> Prompt:
    """Make the prompt once more, from the log as it was then. It is exact as long as templates and
    agent are the same.
    """
    view, reach = "", Reach(receipt.tools, receipt.shell, receipt.roster)
    if receipt.tokens["view"]:
        counter = Counter(encoding=receipt.encoding, ratio=receipt.ratio)
        framed = sum(counter.measure(frame(agent, secret, templates))[0])
        requested = _asked(
            task, receipt.about, receipt.worth, reach, counter, framed, receipt.budget
        )
        view = agent_memory.briefing(as_of=receipt.at, until=receipt.cursor, **requested).text
    return render(agent, task, view, secret, templates, reach)[0]


# -- Told ------------------------------------------------------------------------------


def explain(receipt: Receipt) -> str:
    """Format the receipt for people: what went in, what did not, and why. At most 80 columns, but
    for long ids.
    """
    counted = {"exact": "exact", "bound": "upper bounds", "estimate": "estimates"}[receipt.counting]
    texts = [
        f"Run {receipt.run}, epoch {receipt.epoch}, of {receipt.agent}",
        f"  as of     {seconds(receipt.at)}, cursor {receipt.cursor}",
        f"  template  {receipt.template} of {receipt.templates[:12]}",
        f"  prompt    {receipt.prompt[:12]}, fence {receipt.fence}",
        (
            f"  counted   {receipt.encoding}, {counted} ({receipt.tokenizer}); the"
            f" provider's are {receipt.ratio:.2f}×"
        ),
        f"  budget    {receipt.budget:,} tokens for memory"
        f"{' at most; what pays is there' if receipt.worth else ''}",
        *wrap(receipt.why, WIDTH, initial_indent=" " * 12, subsequent_indent=" " * 12),
        "",
        "Tokens",
        *(f"  {label:<12}{tokens:>8,}" for label, tokens in receipt.tokens.items()),
        f"  {'in all':<12}{sum(receipt.tokens.values()):>8,}",
        "",
        f"Shown: {_entries(len(receipt.included))}{_pointers(receipt)}",
        *(
            f"  {id:<24}{tokens:>7,}  {form:<8} {why}".rstrip()
            for id, tokens, form, why in receipt.included
        ),
    ]
    if receipt.left_out:
        texts += ["", f"Left out: {_entries(receipt.omitted)}", *_grouped(receipt.left_out)]
    return "\n".join(texts) + "\n"


def _pointers(receipt: Receipt) -> str:
    """Return how many of the entries are pointers, which count as not shown."""
    count = sum(form == POINTER for _, _, form, _ in receipt.included)
    return f", {count:,} of them as {'a pointer' if count == 1 else 'pointers'}" if count else ""


def _entries(count: int) -> str:
    return "nothing" if not count else "1 entry" if count == 1 else f"{count:,} entries"


def _grouped(left_out: tuple[Omission, ...]) -> Iterator[str]:
    """Yield the reasons with the entries that each kept out: the newest few by name."""
    for why, count, ids in left_out:
        yield from wrap(f"{count:,}: {why}", WIDTH, initial_indent="  ", subsequent_indent="    ")
        suffix = f" and {count - NAMED:,} older" if count > NAMED else ""
        yield from wrap(
            f"{', '.join(ids[-NAMED:])}{suffix}",
            WIDTH,
            initial_indent="    ",
            subsequent_indent="    ",
            break_on_hyphens=False,
            break_long_words=False,
        )
