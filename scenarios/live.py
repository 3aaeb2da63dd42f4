"""Real models in the place of the cast (L2): asked through the shipped engines, or played from a cassette.

A run stays in virtual time: a call holds everything up until it is answered, and then takes as long as it took. So a
run from a cassette takes the same course as the one that it was recorded from. Money is looked after before each call,
over all runs. Nothing is invented: tokens and cost are the provider's own report.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from threading import Thread
from time import monotonic
from typing import Any, NamedTuple

from orchestrator import prices
from orchestrator.engine import ContextTooLong, Engine, EngineError, Request, Turn, load
from orchestrator.engines.scripted import rung
from orchestrator.prices import Price
from scenarios.cassette import Cassette, Missed, Played
from synapse import clock

# What an engine needs before anything can be asked: any of these in the environment.
KEYS: Mapping[str, tuple[str, ...]] = {
    "anthropic": ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"),
    "openai": ("OPENAI_API_KEY",),
    "openai-chat": ("OPENAI_API_KEY", "OPENAI_BASE_URL"),
}
CLIENTS = ("claude-code", "codex", "gemini", "openclaw", "process")
MODELS = {"anthropic": "claude-sonnet-4-6", "openai": "gpt-5-mini"}
REPLY = 2_048  # tokens that a reply may have at most
FRAME = 64  # tokens that a provider adds to a request, at most
PATIENCE = 600.0  # seconds for one answer


class Broken(Exception):
    """No model could be asked as it has to be; the runs say nothing."""


class TooDear(EngineError):
    """The next call could cost more than there is left."""


class Offer(NamedTuple):
    """What is to be asked, and for how much at most. `price`: dollars per million tokens, in and out;
    `max_tokens`: sent and received, over all runs."""

    engine: str
    model: str | None = None
    max_usd: float = 1.0
    price: tuple[float, float] | None = None
    max_tokens: int | None = None


def missing(engine: str, env: Mapping[str, str]) -> str | None:
    """What is not there that this engine needs; None where it can be asked."""
    if engine in CLIENTS:
        return f"{engine} takes no tools of others, and the world of a scenario is reached by tools alone"
    if engine not in KEYS:
        return f"there is no live engine {engine}; there are {', '.join((*KEYS, *CLIENTS))}"
    return None if any(env.get(name) for name in KEYS[engine]) else f"no {' or '.join(KEYS[engine])} is set"


class Live:
    """An engine for all agents of all runs, one call at a time. Close it."""

    name = "live"
    interrupt = "now"
    takes_tools = True

    def __init__(self, offer: Offer, cassette: Cassette, count: Callable[[str], int]) -> None:
        self.model = offer.model or MODELS.get(offer.engine)
        if self.model is None:
            raise Broken(f"{offer.engine}: say which model, with --model")
        self.offer, self.cassette, self.count_of = offer, cassette, count
        self.spent = 0.0
        self.tokens = 0  # sent and received, by the provider's report
        self.broken: Exception | None = None  # why the run that is being played says nothing
        self.costs: dict[str, tuple[float, Turn]] = {}
        self._price = _price(self.model, offer)
        self._engine: Engine | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: Thread | None = None

    @property
    def title(self) -> str:
        return f"{self.offer.engine} {self.model}"

    async def step(self, request: Request, interrupt: asyncio.Event) -> Turn:
        played = self.ask(request)
        self.costs[request.key] = played.cost, played.turn
        if played.took and await rung(interrupt, played.took):
            return Turn("", stop="interrupted", usage=played.turn.usage, model=played.turn.model)
        return played.turn

    def ask(self, request: Request) -> Played:
        """Return the answer to a request, from the cassette or from the model, at once."""
        return self._answer(request._replace(model=self.model, max_tokens=min(request.max_tokens, REPLY)))

    async def count(self, request: Request) -> int | None:
        return None

    async def close(self) -> None:
        return None

    def settle(self, events: list[dict[str, Any]]) -> None:
        """Put what the provider reported to the replies of a run."""
        for event in events:
            found = self.costs.get(f"{event.get('run')}/{event.get('step')}")
            if event["kind"] == "completion" and found is not None:
                cost, turn = found
                event |= {"cost": round(cost, 9), "usage": turn.usage._asdict(), "model": turn.model}
        self.costs = {}

    def end(self) -> None:
        """Let go of the provider."""
        if self._loop is None or self._thread is None:
            return
        if self._engine is not None:
            asyncio.run_coroutine_threadsafe(self._engine.close(), self._loop).result(PATIENCE)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _answer(self, request: Request) -> Played:
        try:
            return self.cassette.find(request) or self._asked(request)
        except (Missed, TooDear) as error:
            self.broken = self.broken or error
            raise EngineError(str(error)) from error
        except ContextTooLong:
            raise  # the run's own affair
        except Exception as error:  # whatever it is: the run would say something about models that is not so
            self.broken = self.broken or error
            raise

    def _asked(self, request: Request) -> Played:
        if self._price is None:
            raise EngineError(f"{self.model} has no known price, so no limit on money holds: give --price IN,OUT")
        texts = [request.system, *(message.text for message in request.messages), *map(str, request.tools)]
        sent = sum(map(self.count_of, texts)) * 2 + FRAME
        worst, most = prices.worst(self._price, sent, request.max_tokens), sent + request.max_tokens
        if self.spent + worst > self.offer.max_usd:
            raise TooDear(f"${self.spent:.4f} are spent, and the next call could cost ${worst:.4f}: that is more than"
                          f" --max-usd {self.offer.max_usd:g}")  # fmt: skip
        if self.offer.max_tokens is not None and self.tokens + most > self.offer.max_tokens:
            raise TooDear(f"{self.tokens:,} tokens are spent, and the next call could take {most:,}: that is more than"
                          f" --max-tokens {self.offer.max_tokens}")  # fmt: skip
        began = monotonic()
        turn = asyncio.run_coroutine_threadsafe(self._provider().step(request, asyncio.Event()), self._there()).result(
            PATIENCE
        )
        cost = prices.cost(self._price, turn.usage) if turn.usage.cost is None else turn.usage.cost
        self.spent += cost
        self.tokens += turn.usage.input_tokens + turn.usage.output_tokens
        played = Played(turn, round(monotonic() - began, 3), cost)
        return self.cassette.keep(request, played, clock.iso(clock.now()))

    def _provider(self) -> Engine:
        if self._engine is None:
            if why := missing(self.offer.engine, os.environ):
                raise EngineError(why)
            self._engine = load(self.offer.engine, model=self.model)
        return self._engine

    def _there(self) -> asyncio.AbstractEventLoop:
        """A loop of its own, in real time, for what waits for a network."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = Thread(target=self._loop.run_forever, name="live", daemon=True)
            self._thread.start()
        return self._loop


def _price(model: str, offer: Offer) -> Price | None:
    if offer.price is not None:
        return prices.own(model, {"input": offer.price[0], "output": offer.price[1]})
    return prices.price(model, at=clock.now())
