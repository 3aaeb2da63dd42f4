"""The progress of runs, from their records and files: on a terminal one live block, elsewhere a
line a step.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

from orchestrator.cli.grid import STYLES
from orchestrator.cli.tailing import ended, lines, taken
from orchestrator.cli.told import Fields, below, lasted, tokens
from orchestrator.engines.protocol import Usage
from orchestrator.runs.folder import STEPS, Tail
from orchestrator.runs.steps import read
from synapse.cli.frame.show import clean, first

if TYPE_CHECKING:
    from rich.live import Live

    from orchestrator.runs.steps import Step
    from synapse.store import Store

NEWEST = 100  # runs that are looked through for new trees


class Seen(NamedTuple):
    """A run as it stands: how deep it lies, what it took so far, the last thing that it did."""

    run: Fields
    depth: int
    turns: int
    usage: Usage
    cost: float | None
    took: int
    last: str
    fresh: tuple[Step, ...]


class _Followed:
    """One run's steps so far."""

    def __init__(self, tail: Tail) -> None:
        self.tail = tail
        self.turns, self.usage = 0, Usage()
        self.last = ""

    def go_on(self) -> list[Step]:
        found = read(self.tail.lines())
        for step in found:
            if step.kind == "turn":
                self.turns += 1
                self.usage += taken(step.fields)
            for line in lines(step):
                self.last = line[6:]
        return found


class Progress:
    """Looks at runs and shows them; `look` on the memory's thread, `show` where the terminal is."""

    def __init__(self, out: TextIO, *, quiet: bool = False) -> None:
        self.out, self.quiet = out, quiet
        self._roots: dict[str, None] = {}
        self._followed: dict[str, _Followed] = {}
        self._over: set[str] = set()
        self._live: Live | None = None

    def __enter__(self) -> Progress:
        if not self.quiet and self.out.isatty():
            from rich.console import Console
            from rich.live import Live

            self._live = Live(
                console=Console(file=self.out), refresh_per_second=8, transient=True
            )
            self._live.__enter__()
        return self

    def __exit__(self, *about: Any) -> None:
        if self._live is not None:
            self._live.__exit__(*about)

    # -- looking -----------------------------------------------------------------------------------

    def look(self, store: Store, holder: str) -> list[Seen]:
        """The trees in which this supervisor holds runs, or held some, parents first."""
        with store.snapshot() as snap:
            newest = snap.runs(limit=NEWEST)
        held = (run for run in newest if run.get("holder") == holder)
        self._roots.update(dict.fromkeys(str(run["root"]) for run in reversed([*held])))
        found: list[Seen] = []
        for root in self._roots:
            with store.snapshot(late=True) as snap:
                grown = below(snap.runs(root=root))
            found += self._tree(store, grown.get(None, ()), grown, 0)
        return found

    def _tree(
        self,
        store: Store,
        runs: Iterable[Fields],
        grown: dict[str | None, list[Fields]],
        depth: int,
    ) -> Iterator[Seen]:
        for run in runs:
            yield self._seen(store, run, depth)
            yield from self._tree(
                store, grown.get(str(run["run"]), ()), grown, depth + 1
            )

    def _seen(self, store: Store, run: Fields, depth: int) -> Seen:
        id = str(run["run"])
        if id not in self._followed:
            self._followed[id] = _Followed(Tail(store.root or "", id, STEPS))
        each = self._followed[id]
        fresh = tuple(each.go_on())
        took = (run.get("ended_at") or store.clock()) - run["at"]
        last = str(run.get("summary") or run.get("why") or each.last)
        return Seen(
            run,
            depth,
            each.turns,
            each.usage,
            run.get("cost"),
            took,
            first(last),
            fresh,
        )

    # -- showing -----------------------------------------------------------------------------------

    def show(self, found: list[Seen]) -> None:
        if self.quiet:
            return
        if self._live is not None:
            self._live.update(
                _block(found, self._live.console.width, self._live.console.height)
            )
            return
        for each in found:
            for line in self._news(each):
                print(line, file=self.out, flush=True)

    def _news(self, each: Seen) -> Iterator[str]:
        """What is new of a run, a line each."""
        id = str(each.run["run"])
        for step in each.fresh:
            for line in lines(step):
                yield f"{id} {line.strip()}"
        if each.run["state"] == "ended" and id not in self._over:
            self._over.add(id)
            yield f"{id} {ended(each.run).strip()}"


def _block(found: list[Seen], width: int, height: int) -> Any:
    """The runs as a table of one line each, as many of the newest as fit."""
    from rich.table import Table
    from rich.text import Text

    table = Table(
        box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold", expand=True
    )
    for header in ("run", "state", "turns", "tokens", "time"):
        table.add_column(
            header,
            no_wrap=True,
            justify="left" if header in ("run", "state") else "right",
        )
    table.add_column("", no_wrap=True, overflow="ellipsis", ratio=1)
    for each in found[-max(height - 3, 3) :]:
        state = str(each.run.get("status") or each.run["state"])
        figures = (str(each.turns), tokens(each.usage), lasted(each.took))
        name = "  " * each.depth + str(each.run["run"])
        table.add_row(
            name,
            Text(state, style=STYLES.get(state, "")),
            *figures,
            Text(clean(each.last)),
        )
    return table
