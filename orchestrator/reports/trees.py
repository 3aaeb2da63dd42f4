"""Trees of runs: who spawned whom, and what each took with all below it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from orchestrator.reports.rows import Fields, RunRow, Source, by_parent, find_run, run_rows

Children = Mapping[str | None, Sequence[Fields]]


class Node(NamedTuple):
    """A run, and what it and all below it took: `tokens`, `cost`, and the time from its beginning
    to the last end. `runs` counts the subtree.
    """

    row: RunRow
    children: tuple[Node, ...]
    runs: int
    turns: int
    tokens: int
    estimated: bool
    cost: float | None
    took: int

    def json(self) -> dict[str, Any]:
        total = {
            "runs": self.runs,
            "turns": self.turns,
            "tokens": self.tokens,
            "estimated": self.estimated,
            "cost": self.cost,
            "seconds": self.took / 1_000_000,
        }
        return {
            **self.row.json(),
            "total": total,
            "children": [child.json() for child in self.children],
        }

    def walk(self, depth: int = 0) -> Iterator[tuple[int, Node]]:
        """Yield the nodes of the subtree with their depths, parents first."""
        yield depth, self
        for child in self.children:
            yield from child.walk(depth + 1)


def trees(source: Source, run: str | None = None, limit: int | None = None) -> list[Node]:
    """Return the tree below a run, or the newest trees; oldest first."""
    top = find_run(source, run) if run else None
    source.store.refresh()
    with source.store.snapshot() as snap:
        runs = snap.below([str(top["run"])]) if top else snap.trees(limit or None)
    children, rows = by_parent(runs), {row.id: row for row in run_rows(source, runs)}
    return [_node(str(fields["run"]), rows, children) for fields in children.get(None, ())]


def _node(id: str, rows: Mapping[str, RunRow], children: Children) -> Node:
    subtrees = tuple(_node(str(run["run"]), rows, children) for run in children.get(id, ()))
    row = rows[id]
    costs = [cost for cost in (row.cost, *(node.cost for node in subtrees)) if cost is not None]
    began = int(row.fields["at"])
    ends = [int(node.row.fields["at"]) + node.took for node in subtrees]
    return Node(
        row,
        subtrees,
        1 + sum(node.runs for node in subtrees),
        row.turns + sum(node.turns for node in subtrees),
        row.tokens + sum(node.tokens for node in subtrees),
        row.usage.estimated or any(node.estimated for node in subtrees),
        sum(costs) if costs else None,
        max([began + row.took, *ends]) - began,
    )
