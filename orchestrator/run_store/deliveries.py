"""The deliveries of news to live sessions: read from the log, rendered, and recorded as delivered.

On the memory's thread; the supervisor and the turn loop call it. `wake` decides what concerns whom;
nothing here begins or ends a run.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from orchestrator.prompts import render
from orchestrator.prompts.opening import registered
from orchestrator.prompts.templates import Templates
from orchestrator.runs.records import Run, Runs
from orchestrator.sessions import wake
from orchestrator.sessions.session import Session
from orchestrator.sessions.wake import News
from synapse.agent_memory import AgentMemory
from synapse.errors import SynapseError
from synapse.model.agents import OPERATOR
from synapse.model.entry import Entry
from synapse.model.records import Record
from synapse.notify import Follower
from synapse.store import Store
from synapse.view.block import POINTER


class Changes(NamedTuple):
    """What came since the last look: which runs are told of what, how soon, and which runs somebody
    stopped."""

    news: list[tuple[str, Entry, str]]
    stops: list[tuple[str, str]]


class Deliveries:
    """The news of one supervisor's sessions. `lease_name` is the name in its lease."""

    def __init__(
        self,
        store: Store,
        runs: Runs,
        lease_name: str,
        agent_memory: Callable[[Run], AgentMemory],
        secret: bytes,
        templates: Templates,
    ) -> None:
        self.store = store
        self.runs = runs
        self.lease_name = lease_name
        self.agent_memory = agent_memory
        self.secret = secret
        self.templates = templates
        # The mark comes before the feed begins: what is written in between is looked at.
        self._mark = store.log.mark()
        self.feed = wake.NewsFeed(store)
        self._ends_known = self.feed.cursor

    def has_changed(self) -> bool:
        """Return whether anything was written since the last look."""
        self.store.refresh()  # what was dropped as a file is news too
        return bool(self.feed.held) or self.store.log.mark() != self._mark

    def changes(self, sessions: Iterable[Session]) -> Changes:
        """Return the news for these sessions, and the ends that somebody asked for."""
        if not self.has_changed():
            return Changes([], [])
        sessions, mark = list(sessions), self.store.log.mark()
        running = [session.run for session in sessions]
        with self.store.snapshot(late=True) as snap:
            agents = snap.declared
        readers = {
            session.run.id: session.reader(agents[session.run.agent].joined(session.run.project))
            for session in sessions
            if session.run.agent in agents
        }
        ended, cursor = self._learn_ends(self._ends_known)
        stops = (
            [(run.id, reason) for run in running if (reason := self.runs.over(run))]
            if ended
            else []
        )
        news = self.feed.news(readers)
        # not before: what failed on the way is looked at again
        self._mark, self._ends_known = mark, cursor
        self._record_held()
        return Changes(news, stops)

    def missed_news(self, session: Session) -> tuple[list[News], str | None]:
        """Return what came after the prompt was made, before the session could hear: what concerns
        it, and why to end."""
        declared, cursor = self.store.agents.get(session.run.agent), session.first["cursor"]
        if declared is None:
            return [], "its agent is registered no more"
        reader = session.reader(declared.joined(session.run.project))
        self._learn_ends(cursor)  # the index stands at the cursor at least
        # of all that came, as the feed does: `tier` knows what is the run's own
        follower = Follower(self.store, lambda: None, cursor)
        now = self.store.clock()
        events = list(follower.poll())
        topics = wake.topics_of(self.store, [reader]) if events else {}
        came = (
            (event.entry, wake.tier(event.entry, reader, event.cursor, topics)) for event in events
        )
        news = [News(entry, now, tier) for entry, tier in came if tier]
        return news, self.runs.over(session.run, known=True)

    def _learn_ends(self, cursor: int) -> tuple[bool, int]:
        """Catch the index up where the log has a record since the cursor that may end a session of
        ours: a stop or a recovery. Return whether there is one, and how far the log was read. Most
        records are neither: the log is read at once, while the index takes its time.
        """
        relevant, mine = False, (None, self.lease_name)
        for record in self.store.log.since(cursor):
            cursor = record.seq
            relevant |= record.kind == "stop" or (
                record.kind == "run" and record.fields.get("holder") not in mine
            )
        if relevant:
            self.store.refresh()
        return relevant, cursor

    def _record_held(self) -> None:
        """Put on record what woke nobody, because its author had used up its wakes."""
        # the next look does it; what was heard must be told
        with contextlib.suppress(SynapseError):
            while self.feed.held:
                id = self.feed.held[-1]
                fields = {
                    "agent": OPERATOR,
                    "state": "held",
                    "ids": [id],
                    "how": "its author woke too often",
                }
                self.store.commit.append(
                    Record.new("delivery", OPERATOR, fields), once=f"held:{id}"
                )
                self.feed.held.pop()

    def wake_text(self, session: Session, news: list[News]) -> tuple[str, list[str]]:
        """Return what a session is told of the news, and the entries that stand in it whole."""
        reader = registered(self.store, session.run.agent).joined(session.run.project)
        entries = wake.standing(self.store, news, reader)
        reach = render.Reach(tuple(session.first["tools"]))
        commands = reach.follows_commands or not session.engine.takes_tools
        blocks = wake.blocks(entries, news, commands)
        rendered = [
            entry.id for entry, block in zip(entries, blocks, strict=True) if block.form != POINTER
        ]
        if not blocks:
            return "", []
        return render.wake(blocks, reader, self.secret, self.templates), rendered

    def delivered(
        self, session: Session, ids: list[str], state: str, offered: Mapping[str, int]
    ) -> None:
        run = session.run
        fields = {"agent": run.agent, "run": run.id, "epoch": run.epoch, "state": state, "ids": ids}
        extra = {"offered": dict(offered)} if offered else {}
        self.agent_memory(run).writer.write(Record.new("delivery", run.agent, fields | extra))
