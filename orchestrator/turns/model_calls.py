"""The model calls of a session: reserved before they are made, recorded and booked after them.

The turn loop calls it once a turn. Nothing here decides what the reply means.
"""

from __future__ import annotations

import asyncio
import contextlib

from orchestrator.engines.protocol import (
    ContextTooLong,
    EngineError,
    Request,
    Turn,
    Usage,
    taken_by,
)
from orchestrator.run_store.store import RunStore
from orchestrator.runs.files import steps
from orchestrator.runs.files.folder import LEDGER
from orchestrator.runs.files.ledger import LOST, UNANSWERED, Line, Segment, dump
from orchestrator.sessions.memory_thread import MemoryThread
from orchestrator.sessions.session import Session
from orchestrator.spend import segments
from orchestrator.spend.limits import LimitReached
from orchestrator.spend.reservations import Reservation
from orchestrator.turns.telemetry import step_span

Sent = tuple[Segment, ...]


# seconds between two looks for room under a limit
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 1.0


class ModelCalls:
    """The calls of one session's model."""

    def __init__(self, session: Session, run_store: RunStore, memory_thread: MemoryThread) -> None:
        self.session = session
        self.run_store = run_store
        self.memory_thread = memory_thread
        count, guide = session.config.counter.count, session.first.get("guide", 0)
        self._sheet = segments.Sheet(count, guide)

    async def take_turn(self, request: Request) -> None:
        """Make the call, and record its turn; at the first one note what its prompt showed."""
        session, store, on_memory = self.session, self.run_store, self.memory_thread
        is_first = not session.conversation.turns
        sent = self._sheet.sent(request, session.conversation.sent)
        if not session.config.resumes and not is_first:
            sent = segments.begun_again(sent)
        counted = sum(segment.tokens for segment in sent)
        weight = session.config.counter.theirs(counted)
        if session.config.bounded:
            # a limit depends on it: the provider's own count, where it gives one
            with contextlib.suppress(EngineError):
                theirs = await session.engine.count(request)
                weight = weight if theirs is None else theirs
        reservation = await self._reserve(weight, sent)
        noted = None
        if is_first:
            noted = on_memory.aside(store.note_shown, session.run, session.first)
        try:
            turn = await self._step(request)
        except BaseException as error:
            lost = taken_by(error, weight)
            await on_memory.through(on_memory(self._book_lost, sent, reservation, lost))
            if isinstance(error, ContextTooLong):
                why = f"its conversation no longer fits the model: {error}"
                raise ContextTooLong(why) from error
            raise
        booked = on_memory(self._book_turn, turn, sent, reservation, counted)
        await on_memory.through(booked)
        if noted is not None:
            await noted

    async def _reserve(self, weight: int, sent: Sent) -> Reservation:
        """Reserve the most that the call can take. Where that fits as soon as calls in flight give
        back what they do not use, wait for them.
        """
        costs, pause = self.run_store.costs, FIRST_PAUSE
        # whoever goes on with the run sends the same once more, as new
        again = tuple(segment._replace(first=False) for segment in sent)

        def reserve() -> Reservation:
            line = self._line_without_reply(again, weight, UNANSWERED)
            return costs.reserve(self.session, weight, line)

        while True:
            try:
                return await self.memory_thread(reserve)
            except LimitReached as limit:
                if not limit.waits:
                    raise
            await self.memory_thread(costs.forget_the_dead)
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    async def _step(self, request: Request) -> Turn:
        run, provider = self.session.run, self.session.engine.name
        with step_span(
            run.id,
            run.agent,
            self.session.conversation.next,
            provider=provider,
            model=request.model,
        ) as span:
            if any("[sealed " in message.text for message in request.messages):
                revealed = self.run_store.revealed
                request = await self.memory_thread(revealed, run, request)
            turn = await self.session.engine.step(request, self.session.interrupt)
            span.used(turn.usage)
            return turn

    def _book_turn(self, turn: Turn, sent: Sent, reservation: Reservation, counted: int) -> None:
        """Record what was paid for, before anything is done with it. Its reservation is given back
        last: until then, a recovery knows of the call.
        """
        costs = self.run_store.costs
        charge = costs.charge(self.session, turn, counted)
        sent = segments.begun_again(sent) if turn.anew else sent
        got = segments.got(turn, self.session.config.label, self.session.config.counter.count)
        usage = None if turn.usage.estimated else turn.usage
        line = dump(self._ledger_line(sent, got, usage, charge.cost, turn.stop, turn.model))
        self.session.record("turn", steps.turn(turn, self.session.config.label, line), sync=True)
        self.session.folder.record(LEDGER, line, sync=False)
        costs.settle(reservation, charge)
        costs.learn(self.session, turn, counted)
        self._tell_cost()

    def _tell_cost(self) -> None:
        if self.session.events.wanted:
            run, costs = self.session.run, self.run_store.costs
            tree = costs.tree(self.run_store.known(run.root))
            self.session.events.emit(run, "cost", tree=tree)

    def _book_lost(self, sent: Sent, reservation: Reservation, lost: int) -> None:
        """Book the usage of a call that failed, in the budget and in the ledger."""
        costs = self.run_store.costs
        if not lost:
            costs.settle(reservation, None)
            return
        line = self._line_without_reply(sent, lost, LOST)
        self.session.folder.record(LEDGER, line, sync=False)
        costs.settle(reservation, costs.charge_lost(self.session, lost))
        self._tell_cost()

    def _line_without_reply(self, sent: Sent, tokens: int, stop: str) -> str:
        usage = Usage(tokens, estimated=True)
        cost = self.run_store.costs.charge_lost(self.session, tokens).cost
        return dump(self._ledger_line(sent, (), usage, cost, stop, None))

    def _ledger_line(
        self,
        sent: Sent,
        got: Sent,
        usage: Usage | None,
        cost: float | None,
        stop: str,
        model: str | None,
    ) -> Line:
        session, config = self.session, self.session.config
        return Line(
            session.run.id,
            session.conversation.next,
            session.run.agent,
            model or config.model or session.engine.name,
            config.counter.encoding,
            config.counter.counting,
            sent,
            got,
            usage,
            cost,
            stop,
        )
