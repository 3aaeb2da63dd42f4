"""Finding an engine by its name, and the scripted one."""

import asyncio
import subprocess
import sys

import pytest

from orchestrator.engines import protocol
from orchestrator.engines.protocol import Call, Message, Rejected, Request, Usage
from orchestrator.engines.scripted import Move, Scripted

REQUEST = Request("You are.", (Message("user", "## Your Task\n\nFix the page", "task"),))


def take(script, request=REQUEST, **more):
    return asyncio.run(Scripted(script, **more).step(request, asyncio.Event()))


def test_engines_are_found_by_name():
    assert protocol.load("scripted").name == "scripted"
    assert protocol.load(
        "orchestrator.engines.scripted:Scripted", script=lambda seen: "x"
    ).takes_tools


@pytest.mark.parametrize(
    "name", ["gpt", "no.such:Thing", "json:JSONDecoder", "orchestrator.engines.scripted:None_"]
)
def test_what_is_no_engine_is_said(name):
    with pytest.raises(Rejected):
        protocol.load(name)


def test_a_script_says_or_calls():
    said = take(lambda seen: "done")
    assert (said.text, said.stop, said.calls) == ("done", "done", ())
    called = take(lambda seen: Move("", (("read", {"limit": 3}),)))
    assert (called.stop, called.calls) == ("tools", (Call("call-0-0", "read", {"limit": 3}),))
    assert take(lambda seen: "").stop == "empty"
    assert take(lambda seen: Move("no", stop="refusal")).stop == "refusal"


def test_usage_is_counted():
    assert take(lambda seen: "done", count=len).usage == Usage(
        len(REQUEST.system + REQUEST.messages[0].text), 4
    )


def test_a_script_sees_the_prompt_and_nothing_else():
    seen = []
    take(lambda found: seen.append(found) or "ok")
    assert seen[0]._fields == ("system", "messages", "tools")
    assert (seen[0].turn, "Fix the page" in seen[0].text) == (0, True)


def test_a_thinking_script_is_interrupted():
    async def rung():
        interrupt = asyncio.Event()
        step = asyncio.create_task(
            Scripted(lambda seen: Move("late", takes=60)).step(REQUEST, interrupt)
        )
        await asyncio.sleep(0)
        interrupt.set()
        return await asyncio.wait_for(step, 5)

    assert asyncio.run(rung()).stop == "interrupted"


def test_the_default_script_does_nothing_and_says_so():
    engine = protocol.load("scripted")
    assert engine.played
    assert not Scripted(lambda seen: "Done.").played
    text = asyncio.run(engine.step(REQUEST, asyncio.Event())).text
    assert text == "Nobody did this: Fix the page"


def test_importing_loads_no_sdk():
    code = (
        "import sys, orchestrator.engines.protocol, orchestrator.engines.scripted,"
        " orchestrator.runs.files.steps, orchestrator.runs.files.folder;"
        "print(*{'anthropic', 'openai', 'tiktoken', 'jinja2', 'genai_prices'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True
    )
    assert done.stdout.split() == []
