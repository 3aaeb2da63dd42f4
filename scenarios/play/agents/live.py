"""Real models in the place of the cast (L2): asked through the shipped engines, or played from a
cassette.

A run stays in virtual time: a call holds everything up until it is answered, and then takes as long
as it took. So a run from a cassette takes the same course as the one that it was recorded from.
Money is looked after before each call, over all runs. Nothing is invented: tokens and cost are the
provider's own report.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable, Mapping
from threading import Thread
from time import monotonic
from typing import Any, NamedTuple

from orchestrator.engines.process import Process
from orchestrator.engines.protocol import ContextTooLong, Engine, EngineError, Request, Turn, load
from orchestrator.engines.scripted import rung
from orchestrator.spend import prices
from orchestrator.spend.prices import Price
from scenarios.data.cassette import Cassette, Missed, Played
from synapse.model import clock

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
GRACE = 30.0  # of them, to end a client that takes longer


class Broken(Exception):
    """No model could be asked as it has to be; the runs say nothing."""


class TooDear(EngineError):
    """The next call could cost more than there is left."""


class Offer(NamedTuple):
    """What is to be asked, and for how much at most. `price`: dollars per million tokens, in and
    out; `max_tokens`: sent and received, over all runs; `command`: the program of a client.
    """

    engine: str
    model: str | None = None
    max_usd: float = 1.0
    price: tuple[float, float] | None = None
    max_tokens: int | None = None
    command: str | None = None


def missing_program(engine: str, command: str | None, env: Mapping[str, str]) -> str | None:
    """Return why a client cannot be started here; None where it can."""
    if engine == "process" and not command:
        raise Broken("process: say which command plays the client, with --command COMMAND")
    client = load(engine, command=command or ())
    if (
        not isinstance(client, Process)
        or shutil.which(client.command[0], path=env.get("PATH")) is not None
    ):
        return None
    return f"{client.command[0]} is not there to be run. {client.client.install}".strip()


def missing(engine: str, env: Mapping[str, str]) -> str | None:
    """Return what this engine lacks, or None where it can be asked."""
    if engine in CLIENTS:
        return (
            f"{engine} takes no tools of others, and the world of a scenario is reached"
            f" by tools alone"
        )
    if engine not in KEYS:
        return f"there is no live engine {engine}; there are {', '.join((*KEYS, *CLIENTS))}"
    return (
        None
        if any(env.get(name) for name in KEYS[engine])
        else f"no {' or '.join(KEYS[engine])} is set"
    )


class Live:
    """An engine for all agents of all runs, one call at a time. Close it."""

    name = "live"
    interrupt = "now"

    def __init__(self, offer: Offer, cassette: Cassette, count: Callable[[str], int]) -> None:
        self.model = offer.model or MODELS.get(offer.engine)
        self.takes_tools = offer.engine not in CLIENTS
        if self.model is None and self.takes_tools:
            raise Broken(f"{offer.engine}: say which model, with --model")
        self.offer, self.cassette, self.count_of = offer, cassette, count
        self.spent = 0.0
        self.tokens = 0  # sent and received, by the provider's report
        # why the run that is being played says nothing
        self.broken: Exception | None = None
        self.costs: dict[str, tuple[float, Turn]] = {}
        # sessions of clients whose cost nobody reported, and no price tells
        self.unpriced = 0
        self.dearest = (0.0, 0)  # what a client's session cost at most, and its tokens
        self.answered_by = ""  # the model that answered last, by its own report
        self._price = _price(self.model, offer) if self.model else None
        self._engine: Engine | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: Thread | None = None

    @property
    def title(self) -> str:
        return f"{self.offer.engine} {self.model}"

    @property
    def named(self) -> str:
        """Return the model that is asked; of a client that was told of none, the one it says it
        has.
        """
        return self.model or self.answered_by or "(own model)"

    async def step(self, request: Request, interrupt: asyncio.Event) -> Turn:
        played = self.ask(request)
        self.costs[request.key] = played.cost, played.turn
        if played.took and await rung(interrupt, played.took):
            return Turn("", stop="interrupted", usage=played.turn.usage, model=played.turn.model)
        return played.turn

    def ask(self, request: Request) -> Played:
        """Return the answer to a request, from the cassette or from the model, at once."""
        played = self._answer(
            request._replace(model=self.model, max_tokens=min(request.max_tokens, REPLY))
        )
        self.answered_by = played.turn.model or self.answered_by
        return played

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
                event |= {
                    "cost": round(cost, 9),
                    "usage": turn.usage._asdict(),
                    "model": turn.model,
                }
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
        # whatever it is: the run would say something about models that is not so
        except Exception as error:
            self.broken = self.broken or error
            raise

    def _asked(self, request: Request) -> Played:
        if not self.takes_tools:
            return self._session(request)
        if self._price is None:
            raise EngineError(
                f"{self.model} has no known price, so no limit on money holds: give --price IN,OUT"
            )
        texts = [
            request.system,
            *(message.text for message in request.messages),
            *map(str, request.tools),
        ]
        sent = sum(map(self.count_of, texts)) * 2 + FRAME
        worst = prices.worst(self._price, sent, request.max_tokens)
        self._demand_room("call", worst, sent + request.max_tokens)
        turn, took = self._stepped(request)
        cost = prices.cost(self._price, turn.usage) if turn.usage.cost is None else turn.usage.cost
        return self._paid(request, Played(turn, took, cost))

    def _session(self, request: Request) -> Played:
        """Return what came of a client's session. What one costs is known only afterwards, so the
        next begins where as much as the dearest so far is left.
        """
        usd, tokens = self.dearest
        self._demand_room("session", usd, tokens)
        turn, took = self._stepped(request)
        usage = turn.usage
        price = self._price or (_price(turn.model, self.offer) if turn.model else None)
        cost = usage.cost if usage.cost is not None else prices.cost(price, usage) if price else 0.0
        self.unpriced += usage.cost is None and (usage.estimated or price is None)
        self.dearest = (max(usd, cost), max(tokens, usage.input_tokens + usage.output_tokens))
        return self._paid(request, Played(turn, took, cost))

    def _demand_room(self, unit: str, usd: float, tokens: int) -> None:
        """Refuse a call or a session that could go beyond what may be spent."""
        limits = self.offer
        if self.spent + usd > limits.max_usd:
            raise TooDear(
                f"${self.spent:.4f} are spent, and the next {unit} could cost"
                f" ${usd:.4f}: that is more than --max-usd {limits.max_usd:g}"
            )
        if limits.max_tokens is not None and self.tokens + tokens > limits.max_tokens:
            raise TooDear(
                f"{self.tokens:,} tokens are spent, and the next {unit} could take"
                f" {tokens:,}: that is more than --max-tokens {limits.max_tokens}"
            )

    def _stepped(self, request: Request) -> tuple[Turn, float]:
        """Return what the provider answered, and how long it took."""
        began = monotonic()
        turn = asyncio.run_coroutine_threadsafe(
            self._provider().step(request, asyncio.Event()), self._there()
        ).result(PATIENCE)
        return turn, round(monotonic() - began, 3)

    def _paid(self, request: Request, played: Played) -> Played:
        """Return an answer as it is on record, its cost and tokens counted."""
        usage = played.turn.usage
        self.spent += played.cost
        self.tokens += usage.input_tokens + usage.output_tokens
        return self.cassette.keep(request, played, clock.iso(clock.now()))

    def _provider(self) -> Engine:
        if self._engine is None and not self.takes_tools:
            options = {"command": self.offer.command} if self.offer.command else {}
            self._engine = load(
                self.offer.engine, model=self.model, timeout=PATIENCE - GRACE, **options
            )
        if self._engine is None:
            if why := missing(self.offer.engine, os.environ):
                raise EngineError(why)
            self._engine = load(self.offer.engine, model=self.model)
        return self._engine

    def _there(self) -> asyncio.AbstractEventLoop:
        """Return a loop of its own, in real time, for what waits for a network."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = Thread(target=self._loop.run_forever, name="live", daemon=True)
            self._thread.start()
        return self._loop


def _price(model: str, offer: Offer) -> Price | None:
    if offer.price is not None:
        return prices.own(model, {"input": offer.price[0], "output": offer.price[1]})
    return prices.price(model, at=clock.now())
