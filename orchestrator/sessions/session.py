"""A live session: the state of one incarnation of a run, with its inbox and its recorded steps.

It takes no turn itself: `turn_loop` does, and the run store and the costs read it. What is due next
follows from the recorded conversation alone, so that another process can go on where this one
ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from orchestrator.engines.protocol import Engine
from orchestrator.files.seen import RunFiles
from orchestrator.runs.files import steps
from orchestrator.runs.files.folder import STEPS, TIMES, Folder
from orchestrator.runs.records import Run
from orchestrator.runs.task import Result
from orchestrator.sessions.config import SessionConfig
from orchestrator.sessions.events import Events
from orchestrator.sessions.wake import BESIDE, LATE, LATE_TURNS, NOW, News, Reader
from orchestrator.spend.segments import COORDINATORS
from synapse.model import clock as clocks
from synapse.model.agents import Agent
from synapse.system.text import storable_all


class Session:
    """One incarnation of a run while it is live.

    `first` is the recorded prompt, `seen` the ids of the entries that its conversation showed.
    """

    def __init__(
        self,
        run: Run,
        engine: Engine,
        folder: Folder,
        config: SessionConfig,
        recorded: list[steps.Step],
        clock: Callable[[], int] = clocks.now,
        events: Events | None = None,
    ) -> None:
        self.run = run
        self.engine = engine
        self.folder = folder
        self.config = config
        self.clock = clock
        self.events = events or Events()
        self.first = recorded[0].fields
        self.inbox: dict[str, News] = {}
        self.late = 0  # entries that were told late
        self.interrupt = asyncio.Event()
        # a child ended or news came: a waiter looks again
        self.changed = asyncio.Event()
        self.waiting = False  # for its children, until there is news
        self.closing = False  # has no turn to take, and waits for its children's end
        self.shared_calls: dict[str, str] = {}  # the words of those that it is making
        self.blocked_children: list[Result] = []  # not yet reported to it
        self.stop_reason: str | None = None
        self.task: asyncio.Task[Any] | None = None  # in which its turns are taken
        self._builder = steps.ConversationBuilder()
        # turns so far, entries sent then
        self.rendered: list[tuple[int, list[str]]] = []
        for step in recorded:
            self._builder.add(step)
            ids = step.fields.get("ids")
            if step.kind == "message" and ids:
                self.rendered.append((len(self._builder.turns), list(ids)))
        self.conversation = self._builder.conversation()
        self.files = RunFiles(run.id, self.first["cursor"], self.conversation.files)
        self.seen = {
            *self.first["ids"],
            *self.conversation.rendered,
            *self.conversation.pointed,
            *self.conversation.answered,
        }

    def offer(self, news: News) -> None:
        """Put news into its next prompt; in mid-turn where it wakes the agent and the engine can be
        interrupted. What is late is worth a turn of its own for a few entries of a run."""
        if news.entry.id not in self.seen:
            self.seen.add(news.entry.id)
            if news.tier == LATE:
                self.late += 1
                if self.late > LATE_TURNS:
                    news = news._replace(tier=BESIDE)
            self.inbox[news.entry.id] = news
            if news.tier != BESIDE:
                self.changed.set()
            if news.tier == NOW and self.engine.interrupt == "now":
                self.interrupt.set()

    @property
    def played(self) -> bool:
        """Return whether nobody works at it: its engine when it began, or the one that goes on with
        it, is a scripted one without a script of the user's.
        """
        return bool(self.run.fields.get("played") or getattr(self.engine, "played", False))

    @property
    def due(self) -> bool:
        """Return whether there is news that is worth a turn of its own."""
        return any(news.tier != BESIDE for news in self.inbox.values())

    def reader(self, agent: Agent) -> Reader:
        """Return what decides whether news concerns this session. Who gives out work is told what
        comes of it as results, and of the rest what wakes it, is addressed to it or replaces
        something that it was shown."""
        if not self.first.get("news", True):
            return Reader(agent, woken=True)
        if self.coordinates:
            return Reader(agent, (), self.seen, self.first["cursor"])
        return Reader(agent, self.topics(), self.seen, self.first["cursor"])

    def topics(self) -> tuple[str, ...]:
        """Return what it works at: its task, and the work that it or its supervisor claimed for
        it.
        """
        calls = (
            call for turn in self.conversation.turns for call in turn.calls if call.name == "claim"
        )
        claims = (str(call.arguments.get("work", "")) for call in calls)
        return (self.run.task.text, *dict.fromkeys((*claims, *self.shared_calls.values())))

    def child_blocked(self, result: Result) -> None:
        """Tell it of a child that ended blocked, before its next turn, unless it has heard of it by
        then."""
        self.blocked_children.append(result)

    def stop(self, reason: str) -> None:
        """End it as soon as may be; what is known so far is its outcome."""
        if self.stop_reason is None:
            self.stop_reason = reason
            if self.task is not None and self.task is not asyncio.current_task():
                self.task.cancel()

    @property
    def coordinates(self) -> bool:
        """Return whether its agent gives out work, and so may answer a blocked run."""
        return self.run.fields["role"] in COORDINATORS

    def record(self, kind: str, fields: Mapping[str, Any], sync: bool = False) -> None:
        """Record a step, and add it to the conversation. What a model, a tool or a client said is
        made storable here.
        """
        fields = storable_all(fields)
        step = steps.Step(self.conversation.next, self.run.epoch, kind, fields)
        self.folder.record(STEPS, steps.dump(step), sync=sync)
        self.folder.record(TIMES, steps.dump_time(step, self.clock()), sync=False)
        self._builder.add(step)
        self.conversation = self._builder.conversation()
        self.events.emit_step(self.run, kind, fields)
