"""Events of runs: what a program is told while they are at work.

A listener is called on the event loop's thread, in the order of what happened, and never awaited.
Sessions and the supervisor emit; nothing here reads the memory or decides anything.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from orchestrator.runs.records import Run
from orchestrator.runs.task import Result, Tree
from synapse.errors import InvalidEntry

KINDS = ("started", "step", "news", "blocked", "cost", "done")


class RunEvent(NamedTuple):
    """Something that happened in a run: it `started`; its model spoke or a call came back (`step`);
    it was told `news`; it said that it is `blocked`; a call of its model was paid for (`cost`); it
    is `done`, however it ended.

    `text` is the task, what was said, or why. `entries` are the entries of news and of a blocker.
    `tree` comes with a cost: what the root of the run and all below it took so far. `result` comes
    with the end.
    """

    kind: str
    run: str
    agent: str
    root: str
    parent: str | None
    text: str = ""
    entries: tuple[str, ...] = ()
    tree: Tree | None = None
    result: Result | None = None


Listener = Callable[[RunEvent], object]


class Events:
    """Where what happens in runs is told to one listener, if there is one."""

    def __init__(self, listener: Listener | None = None) -> None:
        if asyncio.iscoroutinefunction(listener):
            raise InvalidEntry(
                "on_event is a coroutine function, and nobody would await it: give a function,"
                " such as queue.put_nowait"
            )
        self._listener = listener
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def wanted(self) -> bool:
        """Return whether anybody listens: what costs something to find out is left alone if not."""
        return self._listener is not None

    def open(self) -> None:
        """Tell from now on in the event loop that runs here."""
        self._loop = asyncio.get_running_loop()

    def emit(self, run: Run, kind: str, text: str = "", **about: Any) -> None:
        """Tell the listener, from whichever thread. What it raises is the event loop's to report,
        and no run's end.
        """
        if self._listener is None or self._loop is None:
            return
        event = RunEvent(kind, run.id, run.agent, run.root, run.parent, text, **about)
        if _running_loop() is self._loop:
            self._loop.call_soon(self._listener, event)
        else:
            self._loop.call_soon_threadsafe(self._listener, event)

    def emit_step(self, run: Run, kind: str, fields: Mapping[str, Any]) -> None:
        """Tell of a step that was recorded, where people would want to know of it."""
        if kind == "turn":
            turn = fields["turn"]
            calls = ", ".join(str(call["name"]) for call in turn["calls"])
            said = [str(turn["text"]), f"calls {calls}" if calls else ""]
            self.emit(run, "step", "; ".join(filter(None, said)) or str(turn["stop"]))
        elif kind == "result":
            failed = "failed: " if fields["failed"] else ""
            self.emit(run, "step", f"{failed}{fields['text']}")
        elif kind == "message" and fields["label"] == "retry":
            self.emit(run, "step", str(fields["text"]))
        elif kind == "message":
            entries = (*fields.get("ids", ()), *fields.get("pointed", ()))
            self.emit(run, "news", str(fields["text"]), entries=entries)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
