"""`orchestrator ps --watch`: show what each run at work does and last said, until Ctrl-C. At a
terminal in one place; elsewhere, a line for each thing that is new.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from orchestrator.cli.frame.describe import source_of
from orchestrator.cli.frame.steps import format_call
from orchestrator.plugin import facts
from orchestrator.plugin.sessions import state
from orchestrator.plugin.sessions.state import MAIN
from orchestrator.plugin.wakes.idle import in_turn
from orchestrator.reports.rows import Fields
from orchestrator.runs.files import steps
from orchestrator.runs.files.folder import STEPS, Tail
from orchestrator.runs.files.workspace import lives, tail
from synapse.cli.frame.call import Call
from synapse.cli.frame.interrupt import Interruptible
from synapse.cli.frame.show import WIDTH, columns, short, to_json

if TYPE_CHECKING:
    from rich.live import Live

LOOK_EVERY = 0.5
AT_WORK, WAITS = "at work", "waits for its user"
NOBODY = "nothing runs; `orchestrator ps --all` lists what ran"


class Activity(NamedTuple):
    """What a run is at: what it was asked last, its last call, its last message."""

    run: str
    engine: str
    state: str
    asked: str
    does: str
    said: str

    def lines(self) -> Iterator[str]:
        """Yield what there is to say of it."""
        yield f"{self.run}  {self.engine}  {self.state}"
        for name in ("asked", "does", "said"):
            if text := getattr(self, name):
                yield f"  {name:<5}  {text}"


class Activities:
    """Looks at the runs of a workspace, again and again."""

    def __init__(self, call: Call) -> None:
        self.call, self.source = call, source_of(call)
        self._followed: dict[str, _FollowedSteps] = {}

    def look(self) -> list[Activity]:
        """Return what those at work are at, in the order in which they began."""
        args, root = self.call.args, self.source.root
        self.source.store.refresh()
        with self.source.store.snapshot() as snap:
            wanted = {"agent": args.agent, "project": args.project}
            runs = snap.runs(state="running", **wanted)[::-1]
        conversations = dict(_conversations(root))
        return [
            conversations.get(str(run["run"])) or self._supervised(run)
            for run in runs[-args.limit :]
            if lives(self.source.store, str(run.get("holder")))
        ]

    def _supervised(self, run: Fields) -> Activity:
        """Return what a run is at by its recorded steps."""
        id = str(run["run"])
        if id not in self._followed:
            self._followed[id] = _FollowedSteps(
                tail(self.source.store, self.source.root, id, STEPS)
            )
        call, message = self._followed[id].read_new()
        engine = str(run.get("engine") or "")
        return Activity(id, engine, AT_WORK, str(run.get("task", "")), call, message)


class _FollowedSteps:
    """The last call and the last words of a run, by its steps so far."""

    def __init__(self, tail: Tail) -> None:
        self.tail = tail
        self.does = self.said = ""

    def read_new(self) -> tuple[str, str]:
        for step in steps.read(self.tail.lines()):
            if step.kind == "turn":
                turn = step.fields["turn"]
                self.said = turn["text"] or self.said
                self.does = next(map(format_call, turn["calls"][-1:]), self.does)
        return self.does, self.said


def _conversations(root: str) -> Iterator[tuple[str, Activity]]:
    """Yield the conversations of clients by their runs."""
    for _, session in state.stored_sessions(root):
        busy = in_turn(facts.load(session.client), session)
        for key, worker in session.workers.items():
            is_at_work = AT_WORK if busy or key != MAIN else WAITS
            task = " ".join(worker.about)
            texts = (is_at_work, task, worker.does, worker.said)
            yield worker.run, Activity(worker.run, session.client, *texts)


def watch(call: Call) -> None:
    """Show it until nobody looks any more."""
    activities = Activities(call)
    if call.json or columns() is None:
        with Interruptible():
            _print(call, activities)
        return
    from rich.console import Console
    from rich.live import Live

    with Interruptible(), Live(console=Console(), auto_refresh=False) as live:
        while True:
            _draw(live, activities.look())
            time.sleep(LOOK_EVERY)


def _print(call: Call, activities: Activities) -> None:
    """Print what is new of each run, line by line."""
    last: dict[str, Activity] = {}
    if not activities.look() and not call.json:
        call.say(NOBODY)
    while True:
        current = {activity.run: activity for activity in activities.look()}
        for run, activity in current.items():
            if activity == last.get(run):
                continue
            if call.json:
                call.say(to_json(activity._asdict()))
                continue
            before = set(last[run].lines()) if run in last else ()
            for line in activity.lines():
                if line not in before:
                    text = line if line.startswith(run) else f"{run}{line}"
                    call.say(short(text, WIDTH))
        for run in last.keys() - current.keys():
            call.say(to_json({"run": run, "over": True}) if call.json else f"{run}  over")
        call.flush()
        last = current
        time.sleep(LOOK_EVERY)


def _draw(live: Live, current: list[Activity]) -> None:
    """Draw the runs in their place: of too many, those that began last."""
    from rich.text import Text

    width, height = live.console.width, live.console.height
    blocks = [[short(line, width) for line in activity.lines()] for activity in current]
    while len(blocks) > 1 and sum(map(len, blocks)) > height - 1:
        del blocks[0]
    lines = [line for block in blocks for line in block] or [NOBODY]
    live.update(Text("\n".join(lines), no_wrap=True), refresh=True)
