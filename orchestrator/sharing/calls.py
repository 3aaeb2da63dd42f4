"""The shared tool calls of sessions, on the event loop: each is answered by an earlier result,
waits for another agent's call, or is made.

`findings` looks results up and writes them; `handlers` is the caller.
"""

from __future__ import annotations

import asyncio
import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from weakref import WeakValueDictionary

from orchestrator.engines.protocol import Call, Turn
from orchestrator.prompts import render
from orchestrator.prompts.selection import own_names, written
from orchestrator.run_store.store import RunStore
from orchestrator.sessions.config import ToolResult
from orchestrator.sessions.memory_thread import MemoryThread
from orchestrator.sessions.session import Session
from orchestrator.sessions.wake import AT_ONCE, LONG, LOOK_EVERY
from orchestrator.sharing.findings import BUSY, Findings, Look
from orchestrator.tools import schema
from orchestrator.tools.calls import Act, act_of, closes_circle
from orchestrator.tools.functions import Partial, ToolEnded, ToolFailed, UserTool, carry_out
from synapse.agent_memory import AgentMemory
from synapse.errors import SynapseError
from synapse.model.entry import Entry
from synapse.system.tree_file import place_of
from synapse.view.block import POINTER, pointer, whole

WAIT = 120.0  # seconds that a call waits for who is at the same work
LABEL = "capsule"  # what a given result is for, in the ledger


class Sharing:
    """What one supervisor's sessions do for each other. `sessions` are those that live here."""

    def __init__(
        self, memory_thread: MemoryThread, run_store: RunStore, sessions: Mapping[str, Session]
    ) -> None:
        self.memory_thread = memory_thread
        self.run_store = run_store
        self.sessions = sessions
        self.findings = Findings(
            run_store.store, run_store.root, run_store.lease.lives, run_store.is_lasting
        )
        self._waiting_for: dict[str, str] = {}  # which run waits for which
        self._calls: dict[str, set[str]] = defaultdict(set)  # the acts that a run is at
        # the tokens that a run's calls of an act gave it while it had no result yet
        self._taken: dict[tuple[str, str], int] = {}
        self._failed: dict[str, int] = {}  # how often the call of an act failed
        # The acts and entries that a run was given since its last turn, and how many turns it had.
        self._given: dict[str, tuple[int, set[str]]] = {}
        self._notifications: WeakValueDictionary[str, asyncio.Event] = WeakValueDictionary()

    async def call(
        self, session: Session, agent_memory: AgentMemory, tool: UserTool, call: Call, once: str
    ) -> ToolResult:
        """Return what a shared tool's call gives: another agent's result, or its own."""
        if problems := schema.problems(tool.tool.schema, call.arguments):
            raise ToolFailed("; ".join(problems))
        assert tool.shares is not None
        folder = os.getcwd()
        act = act_of(tool.tool.name, call.arguments, tool.shares, tool.tool.schema, folder)
        act = act._replace(place=place_of(folder))
        look, waited = await self._look_up(session, agent_memory, act, once, tool.seconds)
        if look.text is None:
            return await self._make(session, agent_memory, tool, call, once, act, look, waited)
        assert look.entry is not None
        if act.key in self._calls[session.run.id]:  # somebody else was faster
            await self.memory_thread(self.findings.release, agent_memory, act)
            self._end_call(session.run.id, act.key)
        how = "made" if look.own else "given"
        self._since_last_turn(session).add(act.key)
        id = look.entry.id
        fields = _about(act, id, how, waited)
        fields["ids"] = [id]
        if look.tokens and not look.own:
            given = session.config.counter.count(look.text)
            fields["spared"] = look.tokens - given
        return ToolResult(look.text, fields, label=None if look.own else LABEL)

    async def _make(
        self,
        session: Session,
        agent_memory: AgentMemory,
        tool: UserTool,
        call: Call,
        once: str,
        act: Act,
        look: Look,
        waited: bool,
    ) -> ToolResult:
        """Make the call, and share what came of it; or say who is at it."""
        if look.claim is not None:
            text = self.findings.busy(look.claim, WAIT)
            return ToolResult(text, _about(act, BUSY, "busy", waited), label=LABEL)
        run = session.run.id
        if look.claimed:
            self._calls[run].add(act.key)
            session.shared_calls[act.key] = act.words
        try:
            text = await carry_out(tool, call.arguments, key=once)
        except (ToolFailed, ToolEnded):
            if look.claimed:
                await self.memory_thread(self.findings.release, agent_memory, act)
                failures = self._failed.get(act.key, 0)
                self._failed[act.key] = failures + 1
            self._end_call(run, act.key)
            raise
        stale = ("stale",) if look.stale else ()
        tokens = self._taken.pop((run, act.key), 0)
        tokens += session.config.counter.count(text)
        if isinstance(text, Partial):
            self._taken[run, act.key] = tokens
            return ToolResult(text)
        entry = await self.memory_thread(
            self.findings.write_result, agent_memory, act, once, text, look, tokens
        )
        self._end_call(run, act.key)
        return ToolResult(text, _about(act, entry.id if entry else "", "made", waited, *stale))

    async def _look_up(
        self, session: Session, agent_memory: AgentMemory, act: Act, once: str, longest: float
    ) -> tuple[Look, bool]:
        """Return what there is of an act once nobody else is at it, or the time is up; and whether
        it was waited for."""
        loop, run, waited = asyncio.get_running_loop(), session.run.id, False
        end = loop.time() + WAIT
        previous = (
            None
            if act.key in self._since_last_turn(session)
            else session.conversation.acts.get(act.key)
        )
        failed, turns = self._failed.get(act.key, 0), session.conversation.turns
        used = partial(_has_used, turns, act)
        while True:
            notification = self._notifications.setdefault(act.key, asyncio.Event())
            if self._failed.get(act.key, 0) > failed:
                # It failed for the run that made it: nobody waits for the next one to fail.
                return Look(files=None if act.paths else {}), waited
            try:
                look: Look = await self.memory_thread(
                    self.findings.begin, agent_memory, act, once, previous, longest, used
                )
            except SynapseError:
                return Look(), waited  # the memory is not to be had: the tool is
            if look.claim is None or look.claim.run is None:
                return look._replace(claim=None), waited
            claimant, parents = look.claim.run, self._parents(look)
            if closes_circle(run, claimant, self._waiting_for, parents):
                return look._replace(claim=None), waited
            seconds_left = end - loop.time()
            if seconds_left <= 0:
                return look, waited
            waited, self._waiting_for[run] = True, claimant
            try:
                with suppress(TimeoutError):
                    is_local = claimant in self.sessions
                    await asyncio.wait_for(
                        notification.wait(),
                        seconds_left if is_local else min(seconds_left, LOOK_EVERY),
                    )
            finally:
                del self._waiting_for[run]

    async def entries_for(
        self, session: Session, agent_memory: AgentMemory, call: Call
    ) -> tuple[str, list[str]]:
        """Return what an agent is told before a call that entries are for, and their ids; nothing
        where there are none that it was not given."""
        if not looks(session):
            return "", []
        since = self._since_last_turn(session)
        # What came in the same turn has not been read yet.
        delivered = session.conversation.call_entries - since
        try:
            entries = await self.memory_thread(
                self.findings.entries_for_call, agent_memory, call.name, call.arguments, delivered
            )
            entries = entries[:AT_ONCE]  # the others at the next call
            if not entries:
                return "", []
            ids = [entry.id for entry in entries]
            text, rendered = await self.memory_thread(self._entries_text, session, entries)
            await self.memory_thread(
                self.run_store.deliveries.delivered, session, rendered, "rendered", {}
            )
            since.update(ids)
        except SynapseError:
            return "", []  # the memory is not to be had
        return text, ids

    def _since_last_turn(self, session: Session) -> set[str]:
        """Return the acts and entries that a run was given since its last turn: it has not read
        them.
        """
        run, turn = session.run.id, len(session.conversation.turns)
        last_turn, shared = self._given.get(run, (-1, set()))
        if last_turn != turn:
            shared = set()
            self._given[run] = turn, shared
        return shared

    def _entries_text(self, session: Session, entries: list[Entry]) -> tuple[str, list[str]]:
        """Return what is told before a call, and the entries that stand in it whole: what is short,
        and what is critical, which is told nowhere else.
        """
        run_store, run = self.run_store, session.run
        reader = run_store.agent(run.agent).joined(run.project)
        forms = [
            whole if e.priority == "critical" or len(e.body) <= LONG else pointer for e in entries
        ]
        blocks = [form(entry, commands=False) for form, entry in zip(forms, entries, strict=True)]
        blocks = [form(entry, commands=False) for form, entry in zip(forms, entries, strict=True)]
        rendered = [
            entry.id for entry, block in zip(entries, blocks, strict=True) if block.form != POINTER
        ]
        return render.held(blocks, reader, run_store.secret, run_store.templates), rendered

    def _parents(self, look: Look) -> dict[str, str | None]:
        return {**look.parents, **{id: session.run.parent for id, session in self.sessions.items()}}

    def ended(self, run: str) -> None:
        """Notify those who wait for what a run was at: it has ended here."""
        self._given.pop(run, None)
        for key in self._calls.pop(run, ()):
            self._taken.pop((run, key), None)
            self._notify(key)

    def _end_call(self, run: str, key: str) -> None:
        self._calls[run].discard(key)
        if run in self.sessions:
            self.sessions[run].shared_calls.pop(key, None)
        self._notify(key)

    def _notify(self, key: str) -> None:
        notification = self._notifications.pop(key, None)
        if notification is not None:
            notification.set()


def looks(session: Session) -> bool:
    """Return whether the memory is looked into before a run's calls, as its policy said."""
    return bool(session.first.get("acts", True))


def _has_used(turns: Sequence[Turn], act: Act, entry: Entry) -> bool:
    """Return whether an agent wrote, in its turns, a name or figure that an entry has and the call
    has not.
    """
    names = own_names(entry.body, act.words)
    texts = written(turns) if names else ""
    return any(name in texts for name in names)


def _about(act: Act, answer: str, *counts: str | bool) -> dict[str, object]:
    """Return what a run remembers of an act: what it was told of it, and how it came to that."""
    names = [name if isinstance(name, str) else "waited" for name in counts if name]
    return {"act": {"key": act.key, "told": answer, "counts": names}}
