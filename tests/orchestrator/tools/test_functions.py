"""Users' functions as tools: told, checked, carried out within their time, answered in text."""

import asyncio
import functools
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from typing import Literal, NamedTuple

import pytest

from orchestrator.engines.protocol import Tool
from orchestrator.tools import functions
from orchestrator.tools.functions import ToolFailed, tool_of
from synapse.system.tokens import Tokens


class Place(NamedTuple):
    city: str
    zip: int | None = None


def weather(place: Place, unit: Literal["C", "F"] = "C", days: int = 1) -> dict:
    """The weather at a place.

    In words.
    """
    return {"place": place, "unit": unit, "days": days}


async def fetch(url: str, *, idempotency_key: str | None = None) -> str:
    await asyncio.sleep(0)
    return f"{url} {idempotency_key}"


def carry_out(function, arguments=None, *, key=None, longest=functions.LONGEST, keep=None, **more):
    tool = function if isinstance(function, functions.UserTool) else tool_of(function, **more)
    return asyncio.run(
        functions.carry_out(tool, arguments or {}, key=key, longest=longest, keep=keep)
    )


def test_a_function_is_told_as_it_is_written():
    tool = tool_of(weather)
    assert tool.tool == Tool(
        "weather",
        "The weather at a place.\n\nIn words.",
        {
            "type": "object",
            "properties": {
                "place": {
                    "type": "object",
                    "properties": {
                        "city": {"type": "string"},
                        "zip": {"type": ["integer", "null"]},
                    },
                    "required": ["city"],
                },
                "unit": {"enum": ["C", "F"], "default": "C"},
                "days": {"type": "integer", "default": 1},
            },
            "required": ["place"],
        },
    )
    assert (tool.idempotent, tool_of(weather, True).idempotent) == (False, True)


def test_the_key_is_given_to_who_takes_it_and_told_to_nobody():
    tool = tool_of(fetch)
    assert list(tool.tool.schema["properties"]) == ["url"]
    assert carry_out(tool, {"url": "x"}, key="run/3/0") == "x run/3/0"
    with pytest.raises(ToolFailed, match="idempotency_key: not known; fetch takes url"):
        carry_out(tool, {"url": "x", "idempotency_key": "mine"})


def test_a_result_is_text():
    @dataclass
    class Found:
        name: str
        at: Place

    assert carry_out(weather, {"place": {"city": "Graz"}, "days": 2.0}) == (
        '{"place":{"city":"Graz","zip":null},"unit":"C","days":2}'
    )
    results = [
        (None, "ok"),
        ("é", "é"),
        ([1, "é"], '[1,"é"]'),
        (Found("a", Place("b")), None),
        (1 + 2j, '"(1+2j)"'),
    ]
    for result, text in results:
        told = text or '{"name":"a","at":{"city":"b","zip":null}}'
        assert carry_out(lambda result=result: result, name="give") == told


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({}, "place: is missing"),
        ({"place": {"city": 3}}, "place.city: 3 is not a string"),
        ({"place": {"city": "Graz"}, "unit": "K"}, "unit: 'K' is not one of 'C', 'F'"),
        (
            {"place": {"city": "Graz"}, "hours": 1},
            "hours: not known; weather takes place, unit, days",
        ),
    ],
)
def test_arguments_are_checked_before_the_call(arguments, told):
    with pytest.raises(ToolFailed) as caught:
        carry_out(weather, arguments)
    assert str(caught.value) == told


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ValueError("no such city"), "ValueError: no such city"),
        (KeyError("city"), "KeyError: 'city'"),
        (RuntimeError(), "RuntimeError"),
        (TimeoutError("theirs"), "TimeoutError: theirs"),
        (ToolFailed("as it is"), "as it is"),
    ],
    ids=str,
)
def test_an_error_is_told_in_a_line(error, told):
    def fail():
        raise error

    async def fail_later():
        raise error

    for function in (fail, fail_later):
        with pytest.raises(ToolFailed) as caught:
            carry_out(function)
        assert str(caught.value) == told


def test_a_call_has_a_time_limit():
    release = threading.Event()

    async def sleep():
        await asyncio.sleep(60)

    start = time.monotonic()
    for function in (lambda: release.wait(30), sleep):
        with pytest.raises(ToolFailed, match=r"slow took longer than 0\.05 s"):
            carry_out(function, name="slow", seconds=0.05)
    assert time.monotonic() - start < 20  # seconds, of 90
    release.set()


def test_functions_that_never_end_block_neither_others_nor_the_exit():
    code = """
import asyncio, threading
from orchestrator.tools import functions as tools
stuck = tools.tool_of(lambda: threading.Event().wait(), name="stuck", seconds=0.01)
fine = tools.tool_of(lambda: "fine", name="fine")
async def main():
    for result in await asyncio.gather(*(tools.carry_out(stuck, {}) for _ in range(50)), return_exceptions=True):
        assert isinstance(result, tools.ToolFailed), result
    print(await tools.carry_out(fine, {}))
asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=20)
    assert (done.returncode, done.stdout, done.stderr) == (0, "fine\n", "")


def test_a_long_result_is_cut_and_says_where_the_whole_is():
    kept = []
    told = carry_out(
        lambda: "x" * 5_000,
        name="long",
        longest=1_000,
        keep=lambda text: kept.append(text) or "r/1.txt",
    )
    assert told == "x" * 1_000 + "\n[cut: 1,000 of 5,000 characters; the whole is in r/1.txt]"
    assert kept == ["x" * 5_000]
    assert carry_out(lambda: "x" * 9, name="long", longest=8).endswith("the rest was dropped]")


def holds_itself(node: "Node"):
    pass


@dataclass
class Node:
    next: "Node"


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (lambda: 1, "no name for a tool"),
        (functools.partial(weather), None),
        (holds_itself, "holds itself"),
        ("bytes", "no type that a JSON value can have"),
        ("nowhere", "annotations cannot be read"),
        ("positional", "cannot be given by its name"),
        ("rest", "cannot be given by its name"),
    ],
    ids=range(7),
)
def test_what_cannot_be_a_tool_is_said_when_it_is_registered(function, told):
    def takes_bytes(x: bytes): ...
    def takes_nowhere(x: "Nowhere"): ...  # noqa: F821
    def takes_positional(x, /): ...
    def takes_rest(**x): ...

    named = {
        "bytes": takes_bytes,
        "nowhere": takes_nowhere,
        "positional": takes_positional,
        "rest": takes_rest,
    }
    function = named.get(function, function)
    if told is None:
        assert tool_of(function, name="weather").tool.schema["properties"]
        return
    with pytest.raises(TypeError, match=told):
        tool_of(function)


def test_methods_and_objects_are_tools_too():
    class Shelf:
        """A shelf."""

        def find(self, title: str) -> str:
            return title.upper()

        def __call__(self, title: str) -> str:
            return title.lower()

    assert carry_out(Shelf().find, {"title": "a"}) == "A"
    assert carry_out(Shelf(), {"title": "A"}) == "a"


def test_the_orchestrators_own_are_short():
    assert (
        functions.schema_tokens((functions.SPAWN, functions.WAIT), Tokens("o200k_base").count)
        <= 150
    )
    assert all(functions.is_name(tool.name) for tool in (functions.SPAWN, functions.WAIT))
