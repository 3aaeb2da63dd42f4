"""Spawning: what a run takes besides its engine, how soon a running session is told of what is
critical, and what starting costs. The engine is a script that answers at once, or after a
millisecond.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Iterator
from typing import Any

from bench import child
from bench.bells import latencies, sent_criticals
from bench.figures import Beside, Goal, Row, Timing
from bench.ground import Ground
from bench.limits import appending
from bench.reading import BUDGET
from bench.upkeep import alternating, ran
from bench.workload import READER
from orchestrator import Supervisor, Task
from orchestrator.engines.scripted import Scripted, Seen
from synapse.core import Memory

SPAWNS = 300
WAKES, PAUSE = 300, 12e-3
IMPORTS = 7
SPAWNED = (Goal("p50", 5e-3), Goal("p99", 20e-3))


def spawning(ground: Ground) -> Iterator[Row]:
    """From the order to the engine's first step: admitted, journalled, its view made and fitted,
    its prompt rendered, its receipt kept. And all of it, up to the entry that says what came of it
    and the record of its end.
    """
    beside = appending(os.path.join(os.path.dirname(ground.root), f"spawn-{ground.size}"))
    for view in (BUDGET, "auto"):
        with ground.open(frozen=False) as mem:
            asked, ended = asyncio.run(_spawned(mem, view))
        told = f"a view of {view:,} tokens" if isinstance(view, int) else "the view that pays"
        yield Row(f"spawn: {told}", ground.size, asked.values(), beside, SPAWNED)
        yield Row(f"run, spawned and ended: {told}", ground.size, ended.values(), beside)


async def _spawned(mem: Memory, view: int | str) -> tuple[Timing, Timing]:
    """How long each of many runs, one after the other, took to its engine and to its end."""
    steps: list[float] = []

    def script(seen: Seen) -> str:
        steps.append(time.perf_counter())
        return "It is done."

    starts, ends = [], []
    with Supervisor(mem, engine=Scripted(script)) as supervisor:
        async with supervisor:
            for place in range(SPAWNS + 1):
                starts.append(time.perf_counter())
                task = Task(
                    f"Check page {place} at every width, in {view}.",
                    READER,
                    "alpha",
                    view_budget=view,
                )
                await supervisor.spawn(task)
                ends.append(time.perf_counter())
    # the first one opens what the others find open
    began = list(zip(starts, steps, ends, strict=True))[1:]
    return Timing(step - start for start, step, _ in began), Timing(
        end - start for start, _, end in began
    )


def waking(ground: Ground) -> Iterator[Row]:
    """From before the append in this process to the prompt, in another process, that shows it to a
    running session. What came between two sessions is in the view of the next, and not counted.
    """
    session = child.start("sessions", ground.root, READER, str(WAKES))
    child.await_ready(session)
    with ground.open(frozen=False) as mem:
        sent = sent_criticals(mem, WAKES, PAUSE)
    child.tell(session, "that was all")
    answer: dict[str, Any] = child.answer(session)
    woken, shown = dict(answer["woken"]), dict(answer["woken"] + answer["viewed"])
    lost = sum(id not in shown for id, _ in sent)
    goals = (Goal("p99", 15e-3), Goal("lost", 0))
    note = f"turns of 1 ms; {len(woken)} of {WAKES} came while a session was running"
    values = latencies(sent, woken).values() | {"lost": float(lost)}
    yield Row(
        "critical: written there, in the next prompt here", ground.size, values, None, goals, note
    )


def starting(ground: Ground) -> Iterator[Row]:
    """A process that begins: the import, and the command that shows what is running."""
    found = [child.told("imported", "orchestrator") for _ in range(IMPORTS)]
    sdks = sorted({name for each in found for name in each["sdks"]})
    values = Timing(each["took"] for each in found).values() | {"sdks": float(len(sdks))}
    yield Row("import orchestrator", None, values, None, (Goal("sdks", 0),), ", ".join(sdks))
    script = os.path.join(os.path.dirname(sys.executable), "orchestrator")
    if os.path.exists(script):
        ground.close()
        own, bare = alternating(
            lambda: ran(script, "ps", "--root", ground.root), lambda: ran(sys.executable, "-c", "")
        )
        beside = Beside("an empty Python", bare.p50)
        yield Row("cold orchestrator ps", ground.size, own.values(), beside, (Goal("p50", 150e-3),))
