"""The contract of `engines.protocol.Engine`, sentence by sentence, for users who write an engine.
Needs no test framework: plain asserts of a plain class.

class TestMine(EngineContract):
    def make_engine(self, script):
        return MyEngine(...)  # whose model does what the script says

An engine with a provider is run against a server that takes its place, kept as `self.provider`;
then its faults are tried too.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Any, NamedTuple, Protocol

from orchestrator.engines.protocol import (
    STOPS,
    Call,
    ContextTooLong,
    Engine,
    EngineError,
    Message,
    Rejected,
    Request,
    Tool,
    Turn,
    Unavailable,
)
from orchestrator.engines.scripted import Move, Script, Seen

PATIENCE = 20.0
SOON = 5.0
TEXT = "I looked at it — 🧠 — and it is done.\n\nSecond paragraph."
TOOLS = (
    Tool("read", "Reads.", {"type": "object", "properties": {"limit": {"type": "integer"}}}),
    Tool(
        "append",
        "Appends.",
        {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
    ),
)
ASKED: tuple[tuple[str, dict[str, object]], ...] = (
    ("read", {"limit": 3}),
    ("append", {"text": 'a "b"\nç', "tags": [1, None, {"x": "\u2028"}]}),
)


# How a request may fail. `status`: an error instead of a reply; `error`: one in the middle of a
# stream; `drop`: the connection ends in the middle of the first call, or of the text; `garbled`: a
# piece of the stream is no JSON; `malformed`: arguments that are no JSON; `slow`: `delay` seconds
# before each piece; `no usage`, `null usage`, `negative usage`: a whole reply with such a report.
FAULTS = (
    "status",
    "error",
    "drop",
    "garbled",
    "malformed",
    "refusal",
    "context",
    "empty",
    "length",
    "slow",
    "no usage",
    "null usage",
    "negative usage",
)


class Fault(NamedTuple):
    """What goes wrong with one request, whatever the script says."""

    kind: str
    status: int = 500
    retry_after: float | None = None
    delay: float = 0.0


class Provider(Protocol):
    """A server that answers an engine by a script; `journal` holds the requests that came."""

    journal: list[Any]

    def fail(self, *faults: Fault) -> None:
        """Let the next requests for a reply meet these faults, one each."""

    def left(self) -> bool:
        """Return whether all clients hang up within seconds."""
        ...


class EngineContract:
    """Every sentence of `engine.Engine`, as a test. Subclass it, say how to make an engine, and let
    pytest run it.
    """

    provider: Provider | None = None

    def make_engine(self, script: Script) -> Engine:
        """Return an engine whose model follows the script, a new one for each call."""
        raise TypeError(
            f"{type(self).__name__} does not say how to make an engine: give it a make_engine"
        )

    def make_request(self, *messages: Message, tools: tuple[Tool, ...] = ()) -> Request:
        """Return a step's request. An engine that runs a process adds a place for it."""
        view = Message("user", "## Shared Memory Context\n\n- nothing yet\n", "view")
        task = Message("user", "## Your Task\n\nFix the page\n", "task")
        return Request(
            "You are an engineer.", (view, task, *messages), tools, "scripted", key="run-1/0"
        )

    def _with(self, script: Script, act: Callable[[Engine], Awaitable[None]]) -> None:
        async def whole() -> None:
            engine = self.make_engine(script)
            try:
                await act(engine)
            finally:
                await engine.close()

        asyncio.run(asyncio.wait_for(whole(), PATIENCE))
        assert self.provider is None or self.provider.left(), "a closed engine holds connections"

    def _turn(self, script: Script, request: Request | None = None) -> Turn:
        turns: list[Turn] = []

        async def act(engine: Engine) -> None:
            turns.append(await step(engine, request or self.make_request()))

        self._with(script, act)
        return turns[0]

    def _takes_tools(self) -> bool:
        return self.make_engine(lambda seen: "").takes_tools

    # -- saying ------------------------------------------------------------------------------------

    def test_is_an_engine(self) -> None:
        async def act(engine: Engine) -> None:
            assert isinstance(engine, Engine)
            assert engine.interrupt in ("now", "turn")
            assert engine.name

        self._with(lambda seen: "", act)

    def test_says_text(self) -> None:
        turn = self._turn(lambda seen: TEXT)
        assert (turn.text.strip(), turn.calls, turn.stop) == (TEXT, (), "done")
        assert turn.model

    def test_the_model_sees_all_of_the_prompt(self) -> None:
        requests: list[Seen] = []
        request = self.make_request(
            Message("assistant", "I began.", "work_out"), Message("user", "Go on.", "wake")
        )
        self._turn(noting(requests, "ok"), request)
        for text in (request.system, *(message.text for message in request.messages)):
            assert text.strip() in requests[-1].text, text

    def test_a_step_may_be_empty_cut_or_refused(self) -> None:
        for move in (
            Move(""),
            Move("It is cu", stop="length"),
            Move("I will not.", stop="refusal"),
        ):
            turn = self._turn(moving(move))
            assert turn.stop == (move.stop or "empty"), turn
            assert turn.text == move.text
            assert turn.calls == ()
            message = Message("assistant", turn.text, "work_out", turn.calls, native=turn.native)
            request = self.make_request(message, Message("user", "Go on.", "wake"))
            assert self._turn(lambda seen: TEXT, request).stop == "done", "the conversation goes on"

    def test_usage_is_what_the_provider_reports(self) -> None:
        small = self._turn(lambda seen: "ok").usage
        longer = self.make_request(Message("user", "word " * 500, "history"))
        large = self._turn(lambda seen: TEXT, longer).usage
        assert 0 < small.input_tokens <= large.input_tokens - 400
        assert 0 < small.output_tokens < large.output_tokens
        assert (small.estimated, large.estimated) == (False, False)
        assert large.cached_tokens + large.written_tokens <= large.input_tokens

    def test_steps_at_once_do_not_mix(self) -> None:
        def script(seen: Seen) -> str:
            return f"This is {seen.messages[-1].text.split()[-1]}"

        async def act(engine: Engine) -> None:
            requests = [
                self.make_request(Message("user", f"You are {n}", "history")) for n in range(8)
            ]
            turns = await asyncio.gather(*(step(engine, request) for request in requests))
            assert [turn.text for turn in turns] == [f"This is {n}" for n in range(8)]

        self._with(script, act)

    def test_its_own_count_is_about_what_it_takes(self) -> None:
        async def act(engine: Engine) -> None:
            request = self.make_request(tools=TOOLS if engine.takes_tools else ())
            counted = await engine.count(request)
            usage = (await step(engine, request)).usage
            assert counted is None or abs(counted - usage.input_tokens) <= usage.input_tokens * 0.1

        self._with(lambda seen: "ok", act)

    # -- tools -------------------------------------------------------------------------------------

    def test_tools_are_called_and_their_results_seen(self) -> None:
        if not self._takes_tools():
            return
        turn = self._turn(lambda seen: Move("I look.", ASKED), self.make_request(tools=TOOLS))
        assert (turn.text, turn.stop) == ("I look.", "tools")
        assert [(call.name, call.arguments) for call in turn.calls] == list(ASKED)
        assert len({call.id for call in turn.calls}) == 2
        assert [call.problem for call in turn.calls] == [None, None]

    def test_a_model_sees_its_tools(self) -> None:
        requests: list[Seen] = []
        if self._takes_tools():
            self._turn(noting(requests, "ok"), self.make_request(tools=TOOLS))
            assert requests[0].tools == TOOLS

    def test_another_engine_goes_on_with_the_conversation(self) -> None:
        """Check that a request has all that an engine needs, also when it was recorded and where a
        wake came in between.
        """
        if not self._takes_tools():
            return
        first = self._turn(lambda requests: Move("I look.", ASKED), self.make_request(tools=TOOLS))
        native = json.loads(json.dumps(first.native))
        reply = Message("assistant", first.text, "work_out", first.calls, native=native)
        results = [answer(call, f"result {n}") for n, call in enumerate(first.calls)]
        wake = Message("user", "Something critical.", "wake")
        for settings in (
            (*results, wake),
            (wake, *results),
            (results[1]._replace(failed=True), wake, results[0]),
        ):
            requests: list[Seen] = []
            request = self.make_request(reply, *settings, tools=TOOLS)
            assert self._turn(noting(requests, TEXT), request).stop == "done"
            assert (requests[0].turn, "Something critical." in requests[0].text) == (1, True)
            texts = {
                message.answers: message.text
                for message in requests[0].messages
                if message.role == "tool"
            }
            assert texts == {result.answers: result.text for result in results}

    # -- being stopped -----------------------------------------------------------------------------

    def test_an_interrupted_step_ends_soon(self) -> None:
        async def act(engine: Engine) -> None:
            for after in (0.0, 0.3):
                interrupt = asyncio.Event()
                pending = asyncio.ensure_future(engine.step(self.make_request(), interrupt))
                await asyncio.sleep(after)
                interrupt.set()
                start = monotonic()
                turn = await pending
                if engine.interrupt == "now":
                    assert turn.stop == "interrupted"
                    assert monotonic() - start < 1, "it went on"
                else:
                    assert turn.stop == "done"

        thinks = PATIENCE if self.make_engine(lambda seen: "").interrupt == "now" else 0.5
        self._with(lambda seen: Move(TEXT, takes=thinks), act)

    def test_what_was_said_before_the_interruption_is_kept(self) -> None:
        async def act(engine: Engine) -> None:
            assert self.provider is not None
            self.provider.fail(Fault("slow", delay=0.1))
            interrupt = asyncio.Event()
            asyncio.get_running_loop().call_later(0.5, interrupt.set)
            turn = await engine.step(self.make_request(tools=TOOLS), interrupt)
            assert turn.stop == "interrupted"
            assert turn.text
            assert long.startswith(turn.text)
            assert turn.calls == ()
            assert turn.usage.estimated
            assert turn.usage.input_tokens > 0
            assert turn.usage.output_tokens > 0
            message = Message("assistant", turn.text, "work_out", turn.calls, native=turn.native)
            request = self.make_request(message, Message("user", "Go on.", "wake"), tools=TOOLS)
            assert (await step(engine, request)).stop == "tools"

        long = "word " * 200
        if self.provider is not None:
            self._with(lambda seen: Move(long, ASKED), act)

    def test_cancelling_leaves_nothing_open(self) -> None:
        async def act(engine: Engine) -> None:
            before = asyncio.all_tasks()
            pending = asyncio.ensure_future(step(engine, self.make_request()))
            await asyncio.sleep(0.3)
            pending.cancel()
            start = monotonic()
            await asyncio.wait((pending,), timeout=SOON)
            assert pending.cancelled()
            assert monotonic() - start < SOON
            if self.provider is not None:
                assert await asyncio.to_thread(self.provider.left), "its connection is still open"
            assert asyncio.all_tasks() == before

        self._with(lambda seen: Move(TEXT, takes=PATIENCE), act)

    # -- the provider's faults ---------------------------------------------------------------------

    def _failing(
        self, faults: list[Fault], move: Move | str = TEXT
    ) -> tuple[Turn | EngineError, int]:
        """Return the outcome of a step whose requests meet these faults, and how often the provider
        was asked.
        """
        results: list[Turn | EngineError] = []

        async def act(engine: Engine) -> None:
            assert self.provider is not None
            self.provider.journal.clear()
            self.provider.fail(*faults)
            try:
                results.append(await step(engine, self.make_request(tools=TOOLS)))
            except EngineError as error:
                results.append(error)

        self._with(lambda seen: move, act)
        assert self.provider is not None
        return results[0], len(self.provider.journal)

    def test_what_passes_is_asked_again(self) -> None:
        if self.provider is None:
            return
        for fault in (
            Fault("status", 429, 0.05),
            Fault("status", 500, 0.05),
            Fault("status", 529, 0.05),
        ):
            turn, requests = self._failing([fault])
            assert isinstance(turn, Turn), turn
            assert (turn.text, requests) == (TEXT, 2), fault

    def test_a_reply_that_breaks_off_is_asked_for_again(self) -> None:
        if self.provider is None:
            return
        clean, _ = self._failing([], Move("I look.", ASKED))
        for faults in ([Fault("drop")] * 2, [Fault("error")]):
            turn, requests = self._failing(faults, Move("I look.", ASKED))
            assert isinstance(turn, Turn), turn
            assert isinstance(clean, Turn)
            assert (turn.text, len(turn.calls), turn.stop, requests) == (
                "I look.",
                2,
                "tools",
                len(faults) + 1,
            )
            assert turn.usage.estimated
            assert turn.usage.input_tokens > clean.usage.input_tokens, "what broke off was paid for"
        error, requests = self._failing([Fault("drop")] * 3, Move("I look.", ASKED))
        assert (type(error), requests) == (Unavailable, 3)

    def test_what_does_not_pass_is_told(self) -> None:
        if self.provider is None:
            return
        for fault, kind in (
            (Fault("status", 400), Rejected),
            (Fault("status", 401), Rejected),
            (Fault("status", 404), Rejected),
            (Fault("context"), ContextTooLong),
        ):
            error, requests = self._failing([fault])
            assert (type(error), requests) == (kind, 1), fault
            assert str(error)
        error, _ = self._failing([Fault("status", 500, 0.02)] * 20)
        assert type(error) is Unavailable

    def test_malformed_arguments_are_a_call_with_a_problem(self) -> None:
        if self.provider is None:
            return
        turn, _ = self._failing([Fault("malformed")], Move("", ASKED))
        assert isinstance(turn, Turn), turn
        assert turn.stop == "tools"
        assert all(call.problem and call.arguments == {} for call in turn.calls)
        message = Message("assistant", turn.text, "work_out", turn.calls, native=turn.native)
        results = [
            answer(call, f"Error: {call.problem}")._replace(failed=True) for call in turn.calls
        ]
        assert (
            self._turn(lambda seen: TEXT, self.make_request(message, *results, tools=TOOLS)).text
            == TEXT
        )

    def test_a_fault_of_the_model_is_a_turn(self) -> None:
        if self.provider is None:
            return
        for kind in ("refusal", "empty", "length"):
            turn, requests = self._failing([Fault(kind)], Move("I look.", ASKED))
            assert isinstance(turn, Turn), turn
            assert (turn.stop, requests) == (kind, 1)
            assert turn.stop in STOPS
            assert len(turn.calls) == (1 if kind == "length" else 0), "whole calls only"


def moving(move: Move) -> Script:
    """Return a script that always makes this move."""
    return lambda seen: move


def noting(seen: list[Seen], text: str) -> Script:
    """Return a script that says this, and keeps the requests that it saw."""

    def script(found: Seen) -> str:
        seen.append(found)
        return text

    return script


async def step(engine: Engine, request: Request) -> Turn:
    return await engine.step(request, asyncio.Event())


def answer(call: Call, text: str) -> Message:
    return Message("tool", text, "work_obs", answers=call.id)
