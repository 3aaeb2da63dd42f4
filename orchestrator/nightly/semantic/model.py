"""Model calls that belong to no run: those of consolidation. Each is reserved under the limits
before it is made, and booked after it.
"""

from __future__ import annotations

import asyncio
import os
from typing import NamedTuple

from orchestrator.engines.protocol import (
    Engine,
    EngineError,
    Message,
    Place,
    Request,
    Turn,
    Usage,
    taken_by,
)
from orchestrator.run_store.costs import budget_of, refuse_misread
from orchestrator.runs.files.folder import LEDGER, TRANSCRIPT, Folder
from orchestrator.runs.files.lease import BEAT
from orchestrator.runs.files.ledger import LOST, UNANSWERED, Line, Segment, dump
from orchestrator.runs.files.workspace import hold
from orchestrator.runs.records import Runs
from orchestrator.spend import limits, prices
from orchestrator.spend.counting import Counter, Ratios
from orchestrator.spend.limits import Amount, Limits, Scope
from orchestrator.spend.reservations import Reservation
from synapse.model.agents import CONSOLIDATOR
from synapse.model.entry import SECOND
from synapse.store import Store

LABEL = "consolidation"
MOST_OUT = 4_096  # tokens of one answer
TIME = 300.0  # seconds for one answer; less than the lease of a job
FRAME = 64  # tokens that a provider adds to a request, at most


class Spent(NamedTuple):
    """What the calls took, as the provider reports it, or as we count it; None where nothing has a
    price.
    """

    tokens: int = 0
    cost: float | None = None


class Asker:
    """Asks one engine, one call after the other, in the name of one folder's ledger. Close it."""

    def __init__(
        self,
        store: Store,
        root: str,
        folder: Folder,
        engine: Engine,
        model: str | None = None,
        max_tokens: int | None = None,
        max_usd: float | None = None,
    ) -> None:
        self.store, self.folder, self.engine = store, folder, engine
        self.name = os.path.basename(folder.path)
        self.model = model or getattr(engine, "model", None)
        self.own = Limits(tokens=max_tokens, usd=max_usd)
        refuse_misread(store)
        self.settings = dict(store.settings.other)
        self.policy = limits.policy(self.settings)
        self.ratios = Ratios(root)
        self.counter = Counter(self.model, ratio=self.ratios.of(self.model))
        self.spent = Spent()
        self.lease = hold(store, root, f"{self.name}-{os.getpid()}-{os.urandom(4).hex()}")
        self.budget = budget_of(Runs(store), root, self.policy)
        self.budget.release_dead(self.lease.lives)

    async def ask(self, system: str, text: str) -> str:
        """Return the text of the answer. Raise LimitReached or Unpriced before anything is spent,
        EngineError where there is no answer.
        """
        step = sum(1 for _ in self.folder.lines(LEDGER))
        request = self._request(system, text, step)
        sent = self.counter.count(system) + self.counter.count(text)
        line = self._line(step, sent, None, Usage(sent, estimated=True), UNANSWERED)
        reservation, began = self._reserve(system, text, dump(line)), self.store.clock()
        beating = asyncio.ensure_future(self._beat())
        turn: Turn | None = None
        try:
            async with asyncio.timeout(TIME):
                turn = await self.engine.step(request, asyncio.Event())
        except TimeoutError as error:
            raise EngineError(f"no answer within {TIME:.0f} seconds") from error
        except EngineError as error:
            self._settle(reservation, step, sent, None, taken_by(error, sent), began)
            raise
        finally:
            beating.cancel()
            if turn is not None:
                self._settle(reservation, step, sent, turn, 0, began)
            else:
                # as far as nothing is counted yet: an answer that was lost may have been paid
                self.budget.give_up(reservation)
        return turn.text if turn.stop == "done" else f"({turn.stop}) {turn.text}"

    async def close(self) -> None:
        self.budget.close()
        self.lease.close()

    def _request(self, system: str, text: str, step: int) -> Request:
        workplace = None
        if not self.engine.takes_tools:
            workplace = Place(self.folder.path, {}, os.path.join(self.folder.path, TRANSCRIPT))
        key = f"{self.name}/{step}"
        return Request(
            system, (Message("user", text, LABEL),), (), self.model, MOST_OUT, key, None, workplace
        )

    def _reserve(self, system: str, text: str, line: str) -> Reservation:
        """Reserve the most that the call can take, in every scope."""
        scopes = self._where()
        most = self.counter.bound(system) + self.counter.bound(text) + FRAME
        price = self._price(self.model)
        worst = None if price is None else prices.worst(price, most, MOST_OUT)
        usd = limits.check_price(
            scopes, self.model or self.engine.name, 0.0 if self._is_free() else worst
        )
        return self.budget.reserve(
            self.name, self.lease.name, scopes, Amount(1, most + MOST_OUT, usd), line
        )

    def _where(self) -> tuple[Scope, ...]:
        at = self.store.clock()
        return limits.scopes(
            self.policy, run=self.name, root=self.name, department=None, at=at, own=self.own
        )

    def _settle(
        self,
        reservation: Reservation,
        step: int,
        sent: int,
        turn: Turn | None,
        lost: int,
        began: int,
    ) -> None:
        """Book what the call took, in the budget and in the ledger."""
        lasted = max(self.store.clock() - began, 0) / SECOND
        if turn is None and not lost:
            self.budget.release(reservation)
            return
        usage = turn.usage if turn else Usage(lost, estimated=True)
        if turn and usage.estimated:
            got = self.counter.count(turn.text)
            usage = Usage(self.counter.theirs(sent), self.counter.theirs(got), estimated=True)
        line = self._line(step, sent, turn, usage, turn.stop if turn else LOST)
        self.folder.record(LEDGER, dump(line))
        tokens = usage.input_tokens + usage.output_tokens
        self.budget.settle(reservation, Amount(1, tokens, line.cost or 0.0, lasted))
        if turn and not usage.estimated and self.engine.takes_tools and not self._is_free():
            self.ratios.learn(self.model, usage.input_tokens, sent)
        costs = [one for one in (self.spent.cost, line.cost) if one is not None]
        total = sum(costs) if costs else None
        self.spent = Spent(self.spent.tokens + tokens, total)

    def _line(self, step: int, sent: int, turn: Turn | None, usage: Usage, stop: str) -> Line:
        """Return what the ledger says of a call."""
        model = (turn.model if turn else None) or self.model
        cost, price = usage.cost, self._price(model)
        if cost is None and price is not None:
            cost = prices.cost(price, usage)
        how = (self.counter.encoding, self.counter.counting)
        got = (Segment(LABEL, self.counter.count(turn.text)),) if turn else ()
        named = model or self.engine.name
        asked = (Segment(LABEL, sent),)
        return Line(self.name, step, CONSOLIDATOR, named, *how, asked, got, usage, cost, stop)

    def _price(self, model: str | None) -> prices.Price | None:
        if not model or self._is_free():
            return None
        return prices.price(model, at=self.store.clock(), given=prices.declared(self.settings))

    def _is_free(self) -> bool:
        return self.engine.name == "scripted"

    async def _beat(self) -> None:
        """Show that the calls in flight are somebody's."""
        while True:
            self.lease.beat()
            await asyncio.sleep(BEAT)
