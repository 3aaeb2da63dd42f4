"""Runs and results in the words that people read, and the workspace as the reports take it.
Called by the verbs.
"""

from __future__ import annotations

from collections.abc import Iterable
from textwrap import fill
from typing import TYPE_CHECKING

from orchestrator.cli.frame.figures import format_memory, format_money, format_tokens
from orchestrator.reports.rows import ENDED_WELL, RunRow, Source
from synapse.cli.frame.call import Call
from synapse.cli.frame.show import WIDTH, clean, first, one_line

if TYPE_CHECKING:
    from orchestrator.runs.task import Result, Tree


def source_of(call: Call) -> Source:
    """Return the workspace of a command line, as the reports on runs take it."""
    return Source(call.memory.store, call.memory.store.root or call.root)


def waiting_lines(rows: Iterable[RunRow]) -> list[str]:
    """Return a line for each run that waits for what is not here."""
    lines = (one_line(f"{row.id} {row.waits}") for row in rows if row.waits)
    return [fill(line, WIDTH, subsequent_indent="  ", break_on_hyphens=False) for line in lines]


def describe_outcome(row: RunRow) -> str:
    """Return in a line what came of a run, or its task."""
    fields = row.fields
    names = ("summary", "why") if fields.get("status") in ENDED_WELL else ("why", "summary")
    return first(str(fields.get(names[0]) or fields.get(names[1]) or fields.get("task", "")))


def clean_text(text: str) -> str:
    """Return the text of an agent, or a prompt, with what a terminal or a model's server would obey
    spelled out, whoever reads it."""
    return clean(text)


def describe_result(result: Result) -> str:
    """Return in a line or two how a run ended, what it and all below it took, and what memory took
    and spared of that.
    """
    repeated = f" ({result.repeated})" if result.repeated else ""
    line = f"{result.run or 'not begun'}: {result.status}{repeated}"
    if result.run:
        memory = f"{format_memory(result.overhead)}, and spared {_spared(result)}"
        line += f"; {_figures(result)}; {memory}"
    lines = [line, result.why] if result.why else [line]
    return clean("\n".join(lines).replace("\n", "; "))


def describe_tree(tree: Tree) -> str:
    """Return what a tree of runs took."""
    runs = f"{tree.runs} run{'s' * (tree.runs != 1)}"
    return f"{runs}, {format_tokens(tree.usage)} tokens, {format_money(tree.cost)}"


def _figures(result: Result) -> str:
    own = f"{format_tokens(result.usage)} tokens, {format_money(result.cost)}"
    if result.tree.runs < 2:
        return own
    return f"in all {describe_tree(result.tree)}; its own {own}"


def _spared(result: Result) -> str:
    if not result.spared:
        return "no call of a shared tool"
    calls = f"{result.spared} call{'s' * (result.spared != 1)} of shared tools"
    tokens = result.spared_tokens
    return f"{calls} ({tokens:,} tokens)" if tokens > 0 else calls
