"""How much of the evidence for a question memory finds: recall over recorded conversations whose
questions name the turns that answer them. No model takes part, and no answer is judged.

A conversation is a workspace; its turns are messages, a thread for each of its sessions, at the
session's time. Questions go to `search` and to the tool `memory_search`, as an agent's would, and
to nothing below them.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from statistics import fmean
from typing import Any, NamedTuple

import synapse
from scenarios.data.conversations import (
    ADVERSARIAL,
    MINUTE,
    BrokenConversations,
    Conversation,
    Turn,
    read,
)
from scenarios.data.faults import fault
from scenarios.measure.statistics import Interval, interval
from synapse import tools
from synapse.agent_memory import AgentMemory
from synapse.errors import EmbedderError
from synapse.knowledge.capsule import short_id
from synapse.model import kinds
from synapse.model.settings import LOCAL, OFF
from synapse.search import semantic

READER = "reader"
DEPTHS = (5, 10, 20)
FIGURES = ("R@5", "R@10", "R@20", "capsule", "mrr")
# What others count as found among the first k hits: evidence turns by their share, any or all of
# them; their sessions, among those of k turns or among the first k sessions.
UNITS = ("turns", "any", "all", "session any", "session all", "any of k sessions")
UNITS_AT = tuple(f"{unit}@{depth}" for depth in DEPTHS for unit in UNITS)
ALL, USUAL = "all questions", "without adversarial"
COMPARABLE = (
    "Published figures are mostly `session any` or `any of k sessions`, without"
    " adversarial questions; R@k and `turns` are stricter. Judged answer accuracies"
    " measure something else and cannot be compared with any of these."
)
TOP = 40  # facts that a capsule is asked for: more than fit
# hits: with so many wanted, search looks up far more than it does by default
DEEP = 1_000
_SHOWN = re.compile(r"^- (syn_[0-9a-f]{8})@", re.MULTILINE)


class Answer(NamedTuple):
    """What was found for one question: by `FIGURES`, and by `UNITS_AT`."""

    category: str
    figures: dict[str, float]
    seconds: float
    deep: float
    units: dict[str, float]


# -- reading ---------------------------------------------------------------------------


class Clock:
    """The time of what is being loaded. Never goes back."""

    def __init__(self) -> None:
        self.at = 0

    def __call__(self) -> int:
        return self.at

    def to(self, at: int) -> None:
        self.at = max(self.at + 1, at)


class Loaded(NamedTuple):
    """A workspace with conversations in it, which turn of which conversation each message is, and
    the session of each turn."""

    mem: synapse.Memory
    turns: dict[str, tuple[str, str]]
    sessions: dict[tuple[str, str], tuple[str, int]]

    @property
    def agent_memory(self) -> AgentMemory:
        return self.mem.as_agent(READER)


def load(root: str, conversations: Sequence[Conversation], embedder: str = OFF) -> Loaded:
    """Send every turn as a message of its speaker to everybody, and embed them. The same file gives
    the same ids.
    """
    clock = Clock()
    every = [turn for conversation in conversations for turn in conversation.turns]
    clock.to(min((turn.at for turn in every), default=0))
    mem = synapse.init(root, clock=clock)
    with open(os.path.join(root, "synapse.yaml"), "a", encoding="utf-8") as file:
        file.write(f"semantic: {{embedder: {embedder}}}\n")
    mem.store.refresh(whole=True)
    for name in sorted({_agent(turn.speaker) for turn in every}):
        mem.register(synapse.Agent(name, role="engineer"))
    mem.register(synapse.Agent(READER, role="project-lead"))
    turns: dict[str, tuple[str, str]] = {}
    for conversation in conversations:
        for turn in conversation.turns:
            clock.to(turn.at)
            turns[_send(mem, conversation.id, turn)] = (conversation.id, turn.id)
    clock.to(clock.at + 24 * 60 * MINUTE)
    if embedder != OFF:
        semantic.embed(mem.store)
    sessions = {
        (one.id, turn.id): (one.id, turn.session) for one in conversations for turn in one.turns
    }
    return Loaded(mem, turns, sessions)


def _agent(speaker: str) -> str:
    return re.sub("[^a-z0-9]+", "-", speaker.lower()).strip("-") or "somebody"


def _send(mem: synapse.Memory, conversation: str, turn: Turn) -> str:
    drawn = sha256(f"{conversation} {turn.session}".encode()).digest()
    own = sha256(f"{conversation} {turn.id}".encode()).digest()
    fields = kinds.More(thread=kinds.new_thread(drawn))
    id = kinds.new_id(kinds.MESSAGE, own)
    author = _agent(turn.speaker)
    draft = synapse.Draft(turn.text, kinds.MAIL, author, id=id, kind=kinds.MESSAGE, more=fields)
    return mem.as_agent(author).write(draft).id


# -- asking ----------------------------------------------------------------------------


def answers(loaded: Loaded, conversation: Conversation, *, deep: bool = False) -> Iterator[Answer]:
    """Yield what is found for each question; with `deep`, also when far more is looked up."""
    tool = next(each for each in tools.TOOLS if each.name == "memory_search")
    turns = {short_id(id): turn for id, turn in loaded.turns.items()}
    for question in conversation.questions:
        evidence = {(conversation.id, id) for id in question.evidence}
        start = time.perf_counter()
        hits = loaded.agent_memory.search(question.text, limit=max(DEPTHS))
        spent = time.perf_counter() - start
        ranked = [loaded.turns[hit.id] for hit in hits]
        figures = {f"R@{depth}": recall(ranked[:depth], evidence) for depth in DEPTHS}
        capsule = tools.call(tool, loaded.agent_memory, {"query": question.text, "top_k": TOP})
        figures["capsule"] = recall([turns[id] for id in _SHOWN.findall(capsule)], evidence)
        figures["mrr"] = next(
            (1 / rank for rank, turn in enumerate(ranked, 1) if turn in evidence), 0.0
        )
        deeper = [
            loaded.turns[hit.id] for hit in loaded.agent_memory.search(question.text, limit=DEEP)
        ]
        units = in_units(ranked, deeper, evidence, loaded.sessions)
        yield Answer(
            question.category, figures, spent, recall(deeper[:10], evidence) if deep else 0.0, units
        )


def in_units(
    found: Sequence[tuple[str, str]],
    deep: Sequence[tuple[str, str]],
    wanted: set[tuple[str, str]],
    sessions: Mapping[tuple[str, str], tuple[str, int]],
) -> dict[str, float]:
    """Return each of `UNITS_AT` for one question. `found` are the hits of a plain search; `deep`
    are enough hits that ten sessions and more are among them.
    """
    units = {sessions[turn] for turn in wanted}
    ranked = list(dict.fromkeys(sessions[turn] for turn in (*found, *deep)))
    values = dict[str, float]()
    for depth in DEPTHS:
        first = found[:depth]
        retrieved = {sessions[turn] for turn in first}
        shares = (
            recall(first, wanted),
            bool(wanted.intersection(first)),
            wanted <= set(first),
            bool(units & retrieved),
            units <= retrieved,
            bool(units.intersection(ranked[:depth])),
        )
        values |= {
            f"{unit}@{depth}": float(share) for unit, share in zip(UNITS, shares, strict=True)
        }
    return values


def recall(found: Sequence[object], wanted: set[tuple[str, str]]) -> float:
    """Return the share of what is wanted that was found."""
    return len(wanted.intersection(found)) / len(wanted)


# -- figures ---------------------------------------------------------------------------


def measure(
    conversations: Sequence[Conversation], place: str, embedder: str = OFF
) -> dict[str, Any]:
    """Return all figures: each conversation in its own workspace, then all of them in one."""
    apart: list[Answer] = []
    for conversation in conversations:
        folder = os.path.join(place, _agent(conversation.id))
        loaded = load(folder, [conversation], embedder)
        with loaded.mem:
            apart += answers(loaded, conversation)
    loaded = load(os.path.join(place, "all-in-one"), conversations, embedder)
    with loaded.mem:
        together = [item for one in conversations for item in answers(loaded, one, deep=True)]
    return report(apart, together) | {
        "turns": sum(len(item.turns) for item in conversations),
        "embedder": embedder,
    }


def report(apart: Sequence[Answer], together: Sequence[Answer]) -> dict[str, Any]:
    names = sorted({answer.category for answer in apart})
    groups = {name: [answer for answer in apart if answer.category == name] for name in names}
    deep = fmean(answer.deep for answer in together) if together else 0.0
    return {
        **means(apart),
        "by_category": {
            name: means(group) | {"questions": len(group)} for name, group in groups.items()
        },
        "intervals": {
            name: _ends(interval([answer.figures[name] for answer in apart])) for name in FIGURES
        },
        "units": units(apart),
        "questions": len(apart),
        "milliseconds": _times(apart),
        "one_workspace": {
            **means(together),
            "milliseconds": _times(together),
            "weighing few costs in R@10": round(deep - means(together)["R@10"], 4),
        },
    }


def units(answers_of: Sequence[Answer]) -> dict[str, dict[str, float]]:
    """Return the means of `UNITS_AT` over all questions, without the adversarial ones, and by
    category.
    """
    groups = {
        ALL: list(answers_of),
        USUAL: [answer for answer in answers_of if answer.category != ADVERSARIAL],
    }
    for name in sorted({answer.category for answer in answers_of}):
        groups[name] = [answer for answer in answers_of if answer.category == name]
    return {
        name: {"questions": len(group)}
        | {at: round(fmean(answer.units[at] for answer in group), 4) for at in UNITS_AT}
        for name, group in groups.items()
        if group
    }


def means(found: Sequence[Answer]) -> dict[str, float]:
    return {
        name: round(fmean(answer.figures[name] for answer in found), 4) if found else 0.0
        for name in FIGURES
    }


def _ends(found: Interval) -> list[float]:
    return [round(found.lo, 4), round(found.hi, 4)]


def _times(found: Sequence[Answer]) -> dict[str, float]:
    times = sorted(answer.seconds * 1_000 for answer in found) or [0.0]
    return {"p50": round(times[len(times) // 2], 2), "p99": round(times[len(times) * 99 // 100], 2)}


def table(found: dict[str, Any]) -> str:
    """Return the figures for people."""
    lines = [f"{found['questions']} questions about {found['turns']} turns", _row("", FIGURES)]
    lines.append(_row("each apart", [f"{found[name]:.3f}" for name in FIGURES]))
    ends = found["intervals"]
    lines.append(_row("  95 %", [f"{ends[name][0]:.2f}-{ends[name][1]:.2f}" for name in FIGURES]))
    for category, figures in found["by_category"].items():
        lines.append(
            _row(
                f"  {category} ({figures['questions']})",
                [f"{figures[name]:.3f}" for name in FIGURES],
            )
        )
    one = found["one_workspace"]
    lines.append(_row("all in one", [f"{one[name]:.3f}" for name in FIGURES]))
    lines.append(f"weighing few costs {one['weighing few costs in R@10']:+.3f} in R@10, all in one")
    for name, times in (("apart", found["milliseconds"]), ("in one", one["milliseconds"])):
        lines.append(f"a search, {name}: p50 {times['p50']:.1f} ms, p99 {times['p99']:.1f} ms")
    return "\n".join((*lines, *_unit_lines(found["units"])))


def _unit_lines(groups: Mapping[str, Mapping[str, float]]) -> Iterator[str]:
    """Yield a table for each depth: the groups of questions by the units that others count in."""
    for depth in DEPTHS:
        yield from ("", f"among the first {depth}")
        yield _narrow("", ("turns", "any", "all", "session", "session", "any of"))
        yield _narrow("", ("(mean)", "turn", "turns", "any", "all", f"{depth} sess."))
        for name, row in groups.items():
            cells = [f"{row[f'{unit}@{depth}']:.3f}" for unit in UNITS]
            yield _narrow(f"{name} ({row['questions']})", cells)
    yield ""
    yield from textwrap.wrap(COMPARABLE.replace("`", "'"), 80)


def _narrow(title: str, cells: Sequence[str]) -> str:
    return f"{title:<26}" + "".join(f"{cell:>9}" for cell in cells)


def _row(title: str, cells: Sequence[str]) -> str:
    return f"{title:<22}" + "".join(f"{cell:>11}" for cell in cells)


# -- the shell -------------------------------------------------------------------------


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="conversations with questions, as JSON")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--keep", metavar="DIR", help="leave the workspaces there")
    parser.add_argument(
        "--embedder",
        choices=(OFF, LOCAL),
        default=OFF,
        help="search by meaning too, with the encoder of the extra `semantic` (default: off)",
    )


def run(args: argparse.Namespace, out: Callable[[str], object] = print) -> int:
    """Measure a file and print what was found; 2 where it cannot be read."""
    try:
        conversations = read(args.file)
        if args.keep:
            os.makedirs(args.keep, exist_ok=True)
            if os.listdir(args.keep):
                raise BrokenConversations(
                    f"{args.keep} is not empty: what is in it would be measured too"
                )
            figures = measure(conversations, args.keep, args.embedder)
        else:
            with tempfile.TemporaryDirectory(prefix="retrieval-") as folder:
                figures = measure(conversations, folder, args.embedder)
    except (BrokenConversations, EmbedderError, OSError) as error:
        message = fault(error) if isinstance(error, OSError) else str(error)
        failure = {"error": {"type": type(error).__name__, "message": message}}
        print(
            json.dumps(failure, ensure_ascii=False) if args.json else f"brain-suite: {message}",
            file=sys.stderr,
        )
        return 2
    out(json.dumps(figures, indent=2) if args.json else table(figures))
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m scenarios.measure.retrieval", description=run.__doc__
    )
    options(parser)
    return run(parser.parse_args(argv))


if __name__ == "__main__":
    sys.exit(main())
