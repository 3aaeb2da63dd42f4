"""What becomes of a step when the provider fails: each fault has one outcome, and so many
requests.
"""

import asyncio
import socket
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from orchestrator.engines.protocol import (
    ContextTooLong,
    Message,
    Rejected,
    Request,
    Turn,
    Unavailable,
    load,
)
from orchestrator.engines.scripted import Move
from orchestrator.engines.stream import Dropped, asked_wait, guess, problem, until
from orchestrator.testing.contract import Fault

ENGINES = ("anthropic", "openai", "openai-chat")
CALL = Move("I look.", (("read", {"limit": 3}),))

# The faults of successive requests -> a stop or an error, and the number of requests.
OUTCOMES = {
    "too many requests, once": ([Fault("status", 429, 0.05)], "tools", 2),
    "too many requests, always": ([Fault("status", 429, 0.01)] * 9, Unavailable, 3),
    "broken, once": ([Fault("status", 500, 0.05)], "tools", 2),
    "broken, always": ([Fault("status", 503, 0.01)] * 9, Unavailable, 3),
    "overloaded, twice": ([Fault("status", 529, 0.01)] * 2, "tools", 3),
    "dropped in a call, twice": ([Fault("drop")] * 2, "tools", 3),
    "dropped in a call, thrice": ([Fault("drop")] * 3, Unavailable, 3),
    "an error in the stream": ([Fault("error")], "tools", 2),
    "too many requests, then dropped": ([Fault("status", 429, 0.01), Fault("drop")], "tools", 3),
    "garbled, once": ([Fault("garbled")], "tools", 2),
    "garbled, always": ([Fault("garbled")] * 9, Unavailable, 3),
    "no usage": ([Fault("no usage")], "tools", 1),
    "null usage": ([Fault("null usage")], "tools", 1),
    "negative usage": ([Fault("negative usage")], "tools", 1),
    "malformed arguments": ([Fault("malformed")], "tools", 1),
    "refused": ([Fault("refusal")], "refusal", 1),
    "empty": ([Fault("empty")], "empty", 1),
    "cut": ([Fault("length")], "length", 1),
    "too long": ([Fault("context")], ContextTooLong, 1),
    "a wrong key": ([Fault("status", 401)], Rejected, 1),
    "no credit": ([Fault("status", 402)], Rejected, 1),
    "an unknown model": ([Fault("status", 404)], Rejected, 1),
    "a bad request": ([Fault("status", 400)], Rejected, 1),
    "slow": ([Fault("slow", delay=0.02)], "tools", 1),
}


@pytest.mark.parametrize("fault", OUTCOMES)
@pytest.mark.parametrize("engine", ENGINES)
def test_each_fault_has_one_outcome(server, take, engine, fault):
    faults, outcome, asked = OUTCOMES[fault]
    server.script = lambda seen: CALL
    server.fail(*faults)
    found = take(engine)
    assert (found.stop if isinstance(found, Turn) else type(found), len(server.journal)) == (
        outcome,
        asked,
    )


@pytest.mark.parametrize("engine", ENGINES)
def test_a_provider_s_own_time_is_waited_for(server, take, engine):
    server.fail(Fault("status", 429, retry_after=0.7))
    start = time.monotonic()
    assert take(engine).text == "Done."
    assert 0.7 <= time.monotonic() - start < 30


@pytest.mark.parametrize("engine", ENGINES)
def test_a_wait_that_nobody_keeps_to_is_named_and_not_begun(server, take, engine):
    server.fail(*[Fault("status", 429, retry_after=3600)] * 3)
    error = take(engine)
    assert isinstance(error, Unavailable)
    assert "asks to be left alone for 3600 s" in str(error)
    assert len(server.journal) == 1


def test_a_wait_may_be_told_by_a_date():
    later = format_datetime(datetime.now(UTC) + timedelta(hours=2))
    assert 7_100 < asked_wait({"retry-after": later}) <= 7_200
    assert asked_wait({"retry-after": "soon"}) == asked_wait({}) == 0


@pytest.mark.parametrize("engine", ENGINES)
def test_a_step_keeps_its_key_when_it_is_asked_again(server, take, engine):
    server.fail(Fault("status", 500, 0.01), Fault("drop"))
    take(engine)
    assert [taken.headers["idempotency-key"] for taken in server.journal] == ["run-1/3"] * 3


@pytest.mark.parametrize("engine", ENGINES)
def test_what_broke_off_is_in_the_error(server, take, engine):
    server.fail(*[Fault("drop")] * 3)
    usage = take(engine).usage
    assert usage.estimated
    assert usage.input_tokens > 0


@pytest.mark.parametrize("fault", ["no usage", "null usage", "negative usage"])
@pytest.mark.parametrize("engine", ENGINES)
def test_a_reply_without_a_usable_report_counts_by_ours(server, take, engine, fault):
    server.script = lambda seen: CALL
    plain = take(engine).usage
    server.fail(Fault(fault))
    usage = take(engine).usage
    assert usage.estimated
    assert 0 < usage.input_tokens < 10 * plain.input_tokens
    assert usage.output_tokens > 0
    assert min(usage.cached_tokens, usage.written_tokens) >= 0


@pytest.mark.parametrize("engine", ENGINES)
def test_a_reply_that_cannot_be_read_is_in_the_error(server, take, engine):
    server.fail(*[Fault("garbled")] * 3)
    error = take(engine)
    assert "could not be read 3 times" in str(error)
    assert error.usage.estimated
    assert error.usage.input_tokens > 0


@pytest.mark.parametrize("engine", ENGINES)
def test_a_server_that_is_not_there_is_unavailable(take, engine):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        error = take(engine, base_url=url, max_retries=0)
        assert type(error) is Unavailable
        assert url in str(error)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_refusal_without_a_word_is_one(server, take, engine):
    server.script = lambda seen: Move("", calls=(("read", {}),))
    server.fail(Fault("refusal"))
    assert (take(engine).stop, len(server.journal)) == ("refusal", 1)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_silent_server_is_unavailable(server, take, engine):
    server.script = lambda seen: Move("late", takes=10)
    assert type(take(engine, timeout=0.2, max_retries=1)) is Unavailable
    assert len(server.journal) == 2


@pytest.mark.parametrize("engine", ENGINES)
def test_a_stream_that_falls_silent_is_asked_for_again(server, take, engine):
    server.fail(Fault("slow", delay=10))
    assert take(engine, timeout=0.3).text == "Done."
    assert len(server.journal) == 2


@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine_without_model_or_key_says_so(take, engine, monkeypatch):
    told = str(take(engine, model=None))
    assert "needs a model: name one with model= (in the shell, --model)" in told
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    if engine == "anthropic":
        error = take(engine, api_key=None)
        assert (type(error), "set ANTHROPIC_API_KEY" in str(error)) == (Rejected, True)
    else:
        with pytest.raises(Rejected, match="OPENAI_API_KEY"):
            load(engine)


@pytest.mark.parametrize("engine", ENGINES)
def test_an_interruption_ends_the_waiting_for_another_try(server, engine):
    async def step():
        made = load(
            engine, base_url=server.url + ("" if engine == "anthropic" else "/v1"), api_key="any"
        )
        interrupt = asyncio.Event()
        asyncio.get_running_loop().call_later(0.3, interrupt.set)
        start = time.monotonic()
        try:
            turn = await made.step(
                Request("s", (Message("user", "hi", "task"),), model="m"), interrupt
            )
        finally:
            await made.close()
        return turn.stop, time.monotonic() - start < 2

    server.fail(Fault("status", 429, retry_after=30))
    assert asyncio.run(asyncio.wait_for(step(), 20)) == ("interrupted", True)


def test_nothing_goes_on_after_an_interruption():
    went = []

    async def work():
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0)
            went.append("ended")

    async def rung():
        interrupt = asyncio.Event()
        asyncio.get_running_loop().call_soon(interrupt.set)
        return await until(interrupt, work), list(went)

    assert asyncio.run(asyncio.wait_for(rung(), 5)) == (False, ["ended"])


class Refusal(Exception):
    def __init__(self, status, body):
        super().__init__("as the SDK says it")
        self.status_code, self.body = status, body


@pytest.mark.parametrize(
    ("error", "streaming", "kind"),
    [
        (
            Refusal(400, {"error": {"code": "context_length_exceeded", "message": "x"}}),
            False,
            ContextTooLong,
        ),
        (
            Refusal(400, {"error": {"message": "prompt is too long: 9 tokens > 8 maximum"}}),
            False,
            ContextTooLong,
        ),
        (
            Refusal(400, {"message": "This model's maximum context length is 8 tokens."}),
            False,
            ContextTooLong,
        ),
        (
            Refusal(400, {"error": {"type": "exceed_context_size_error", "message": "x"}}),
            False,
            ContextTooLong,
        ),
        (Refusal(413, {"error": {"type": "request_too_large", "message": "x"}}), False, Rejected),
        (Refusal(429, {"error": {"code": "insufficient_quota", "message": "x"}}), False, Rejected),
        (
            Refusal(429, {"error": {"message": "over the context limit per minute"}}),
            False,
            Unavailable,
        ),
        (Refusal(200, {"error": {"type": "overloaded_error", "message": "x"}}), True, Dropped),
        (
            Refusal(200, {"error": {"type": "invalid_request_error", "message": "x"}}),
            True,
            Rejected,
        ),
        (Refusal(None, {"code": 502, "message": "x"}), True, Dropped),
        (Refusal(None, {"code": 402, "message": "x"}), True, Rejected),
        (Refusal(None, None), True, Dropped),
        (Refusal(None, None), False, Unavailable),
        (Refusal(500, "<html>"), False, Unavailable),
    ],
)
def test_errors_are_told_apart(error, streaming, kind):
    assert type(problem(error, streaming=streaming)) is kind


def test_a_guess_is_of_bytes():
    assert guess("", "abcd", "é" * 4, "\ud800") == 4


@pytest.mark.parametrize("module", ["anthropic", "openai", "openai_chat", "stream"])
def test_importing_an_engine_loads_no_sdk(module):
    code = (
        f"import sys, orchestrator.engines.{module}; print(*{{'anthropic', 'openai',"
        f" 'httpx2'}} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True
    )
    assert done.stdout.split() == []
