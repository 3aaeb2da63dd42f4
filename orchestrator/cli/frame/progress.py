"""The progress of runs, from their records and files: one live block on a terminal, elsewhere a
line for each step.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

from orchestrator.cli.frame.figures import format_duration, format_money, format_tokens
from orchestrator.cli.frame.grid import STYLES
from orchestrator.cli.frame.steps import format_end, format_step, turn_spent
from orchestrator.reports.rows import Fields, by_parent
from orchestrator.runs.files.folder import STEPS, Tail
from orchestrator.runs.files.steps import read
from orchestrator.runs.files.workspace import tail
from orchestrator.runs.task import Tree
from synapse.cli.frame.show import first, one_line

if TYPE_CHECKING:
    from rich.live import Live

    from orchestrator.runs.files.steps import Step
    from synapse.store import Store

NEWEST = 100  # runs that are looked through for new trees


class RunProgress(NamedTuple):
    """A run as it stands: how deep it lies, what it and all below it took so far, the last thing
    that it did.
    """

    run: Fields
    depth: int
    turns: int
    tree: Tree
    took: int
    last: str
    fresh: tuple[Step, ...]


class _FollowedRun:
    """One run's steps so far."""

    def __init__(self, tail: Tail) -> None:
        self.tail = tail
        self.turns, self.spent = 0, Tree(1)
        self.last = ""

    def read_new(self) -> list[Step]:
        steps = read(self.tail.lines())
        for step in steps:
            if step.kind == "turn":
                self.turns += 1
                self.spent += Tree(0, *turn_spent(step.fields))
            for line in format_step(step):
                self.last = line[6:]
        return steps


class Progress:
    """Looks at runs and shows them; `look` on the memory's thread, `show` where the terminal is."""

    def __init__(self, out: TextIO, *, quiet: bool = False) -> None:
        self.out, self.quiet = out, quiet
        self._roots: dict[str, None] = {}
        self._followed: dict[str, _FollowedRun] = {}
        self._over: set[str] = set()
        self._live: Live | None = None

    def __enter__(self) -> Progress:
        if not self.quiet and self.out.isatty():
            from rich.console import Console
            from rich.live import Live

            self._live = Live(console=Console(file=self.out), refresh_per_second=8, transient=True)
            self._live.__enter__()
        return self

    def __exit__(self, *about: Any) -> None:
        if self._live is not None:
            self._live.__exit__(*about)

    # -- looking -----------------------------------------------------------------------------------

    def look(self, store: Store, holder: str) -> list[RunProgress]:
        """Return the trees in which this supervisor holds runs, or held some, parents first."""
        with store.snapshot() as snap:
            newest = snap.runs(limit=NEWEST)
        own_runs = (run for run in newest if run.get("holder") == holder)
        self._roots.update(dict.fromkeys(str(run["root"]) for run in reversed([*own_runs])))
        rows: list[RunProgress] = []
        for root in self._roots:
            with store.snapshot(late=True) as snap:
                children = by_parent(snap.runs(root=root))
            rows += self._tree(store, children.get(None, ()), children, 0)
        return rows

    def _tree(
        self,
        store: Store,
        runs: Iterable[Fields],
        grown: dict[str | None, list[Fields]],
        depth: int,
    ) -> Iterator[RunProgress]:
        for run in runs:
            own = self._seen(store, run, depth)
            children = grown.get(str(run["run"]), ())
            below = list(self._tree(store, children, grown, depth + 1))
            trees = (row.tree for row in below if row.depth == depth + 1)
            yield own._replace(tree=sum(trees, start=own.tree))
            yield from below

    def _seen(self, store: Store, run: Fields, depth: int) -> RunProgress:
        id = str(run["run"])
        if id not in self._followed:
            self._followed[id] = _FollowedRun(tail(store, store.root or "", id, STEPS))
        followed = self._followed[id]
        fresh = tuple(followed.read_new())
        took = (run.get("ended_at") or store.clock()) - run["at"]
        last = str(run.get("summary") or run.get("why") or followed.last)
        return RunProgress(run, depth, followed.turns, followed.spent, took, first(last), fresh)

    # -- showing -----------------------------------------------------------------------------------

    def show(self, rows: list[RunProgress]) -> None:
        if self.quiet:
            return
        if self._live is not None:
            self._live.update(_table(rows, self._live.console.width, self._live.console.height))
            return
        for row in rows:
            for line in self._news(row):
                print(one_line(line), file=self.out, flush=True)

    def _news(self, row: RunProgress) -> Iterator[str]:
        """Yield a line for each new step of a run, and one for its end."""
        id = str(row.run["run"])
        for step in row.fresh:
            for line in format_step(step):
                yield f"{id} {line.strip()}"
        if row.run["state"] == "running":
            self._over.discard(id)  # it may have been answered
        elif id not in self._over:
            self._over.add(id)
            yield f"{id} {format_end(row.run).strip()}"


def _table(rows: list[RunProgress], width: int, height: int) -> Any:
    """Return the runs as a table of one line each, as many of the newest as fit."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold", expand=True)
    for header in ("run", "state", "turns", "tokens", "cost", "time"):
        table.add_column(
            header, no_wrap=True, justify="left" if header in ("run", "state") else "right"
        )
    table.add_column("", no_wrap=True, overflow="ellipsis", ratio=1)
    for row in rows[-max(height - 3, 3) :]:
        state = str(row.run.get("status") or row.run["state"])
        spent = format_tokens(row.tree.usage), format_money(row.tree.cost)
        figures = (str(row.turns), *spent, format_duration(row.took))
        name = "  " * row.depth + str(row.run["run"])
        table.add_row(
            name, Text(state, style=STYLES.get(state, "")), *figures, Text(one_line(row.last))
        )
    return table
