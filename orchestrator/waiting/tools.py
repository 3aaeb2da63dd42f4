"""The tools of a person who is connected over MCP: what waits, and the answers to it. Offered by
`synapse mcp --agent operator`, which finds them by the entry point group `synapse.mcp`.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from orchestrator.reports.rows import Source
from orchestrator.waiting.answers import answer
from orchestrator.waiting.inbox import Item, inbox
from synapse.agent_memory import AgentMemory
from synapse.core import Memory
from synapse.model.clock import seconds
from synapse.system.quoting import escaped, prefixed
from synapse.tools import Arguments, Tool
from synapse.tools.answer import fit
from synapse.view.block import BODY

LONGEST = 600  # characters of what one item asks; `read` has the rest
_TEXT = {"type": "string"}


def offered(memory: Callable[[], Memory]) -> list[Tool]:
    """Return the tools of a workspace's operator."""

    def waiting(agent_memory: AgentMemory, arguments: Arguments, once: str | None) -> str:
        items = inbox(_source(memory()))
        lines = [_line(item) for item in items]
        return fit(lines, len(items), "answer some first") if items else "Nothing waits."

    def answers(agent_memory: AgentMemory, arguments: Arguments, once: str | None) -> str:
        given = answer(memory(), _source(memory()), arguments["to"], arguments["text"])
        goes_on = (
            f"; {given.run} goes on in the process that drives it, else with"
            f" `orchestrator resume {given.run}`"
            if given.run
            else ""
        )
        return f"Answered {given.entry} with {', '.join(given.entries)}{goes_on}."

    what = "The id that `waiting` gives: of a run, a blocker or a question"
    return [
        Tool(
            "waiting",
            "What waits for the person you work for: blockers, questions, reviews, runs, trust",
            {"type": "object", "properties": {}},
            waiting,
            False,
        ),
        Tool(
            "answer",
            "Answer what a run or an agent asks, in the person's own words, never in yours."
            " It is told, and goes on.",
            {
                "type": "object",
                "properties": {"to": {**_TEXT, "description": what}, "text": _TEXT},
                "required": ["to", "text"],
            },
            answers,
            True,
        ),
    ]


def _source(memory: Memory) -> Source:
    return Source(memory.store, memory.store.root or os.getcwd())


def _line(item: Item) -> str:
    about = " ".join(filter(None, (item.entry, item.run)))
    cost = f", {item.tokens:,} tokens so far" if item.tokens else ""
    head = f"- {item.kind} {about} ({item.who}, {seconds(item.at)}{cost})"
    text = item.text if len(item.text) <= LONGEST else f"{item.text[:LONGEST]}…"
    return f"{head}\n{prefixed(escaped(text), BODY)}  the line that moves it: `{item.line}`\n"
