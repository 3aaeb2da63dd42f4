"""Tools that give what is no text, or raise what ends a program: the run goes on or ends, recorded."""

import asyncio
import os

import pytest

from orchestrator.engines.scripted import Move
from orchestrator.tools.functions import tool_of


class Mute:
    def __str__(self):
        raise RuntimeError("no text")

    __repr__ = __str__


def endless():
    items = []
    items.append(items)
    return items


def nested(levels):
    items = []
    for _ in range(levels):
        items = [items]
    return items


DEEP = nested(20_000)  # more than any test runner's limit


def raising(error):
    def act():
        raise error

    return act


FAULTS = {
    "half a pair": (lambda: os.fsdecode(b"name-\xff"), "name-\ufffd"),
    "half a pair in an error": (
        raising(ValueError(os.fsdecode(b"name-\xff"))),
        "ValueError: name-\ufffd",
    ),
    "itself": (endless, "cannot become text: RecursionError"),
    "20,000 levels": (lambda: DEEP, "cannot become text: RecursionError"),
    "no text": (Mute, "cannot become text: RuntimeError: no text"),
    "an error without text": (raising(ValueError(Mute())), "Error: ValueError"),
}
ENDINGS = (asyncio.CancelledError, KeyboardInterrupt, SystemExit, GeneratorExit)


def calling(results):
    def play(seen):
        if seen.turn == 0:
            return Move("I ask.", (("ask", {}),))
        results.append(seen.messages[-1].text)
        return "Done."

    return play


def spawned(here):
    return here.spawn("Ask", "eng-a")


@pytest.mark.parametrize("name", FAULTS)
def test_what_cannot_become_text_reaches_the_model_as_an_error(world, name):
    act, expected = FAULTS[name]
    results = []
    here = world(calling(results), tools=[tool_of(act, name="ask")])
    assert spawned(here).done
    assert expected in results[0]


@pytest.mark.parametrize(
    ("ending", "waits"),
    # thrown into a coroutine, GeneratorExit closes it: that is its runner's word, not the tool's
    [(ending, False) for ending in ENDINGS] + [(ending, True) for ending in ENDINGS[:3]],
)
def test_what_ends_a_program_ends_the_run_alone(world, ending, waits):
    def plain():
        raise ending()

    async def waiting():
        raise ending()

    results = []
    tool = tool_of(waiting if waits else plain, name="ask")
    here = world(calling(results), tools=[tool])
    result = spawned(here)
    assert (result.status, results) == ("failed", [])
    assert result.why == f"a tool ended it: {ending.__name__}"
    runs = here.supervisor.run_store.runs
    assert [run.id for run in runs.all(state="running")] == []


def test_a_model_s_half_pair_is_replaced(world):
    here = world(lambda seen: "It is a\ud800b.")
    result = spawned(here)
    assert (result.status, result.text) == ("done", "It is a\ufffdb.")
