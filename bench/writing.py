"""Writing: one writer, eight of them, and how soon somebody else hears of it."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from typing import Any

import synapse
from bench import child
from bench.bells import heard, repaired
from bench.figures import Beside, Goal, Row, Timing, once
from bench.ground import Ground
from bench.limits import Raw
from bench.workload import NAMESPACES, READER, WRITERS, bodies
from synapse.log.files import FilesLog
from synapse.system.signal import NotificationPipe

BLOCKS, BLOCK = 20, 50
CREW, EACH = 8, 300
DURABLE = (Goal("ratio", 2.0), Goal("p99", 5e-3), Goal("max", 20e-3))
TOGETHER = (
    Goal("per_s", least=2_500),
    Goal("p95", 8e-3),
    Goal("max", 50e-3),
    Goal("failures", 0),
    Goal("doubled", 0),
)
RUNG = (Goal("p50", 1e-3), Goal("p99", 5e-3), Goal("lost", 0))
REPAIRED = (Goal("max", 2.0), Goal("lost", 0))


def append(ground: Ground) -> Iterator[Row]:
    """One writer: journal, file and bell. Blocks of raw writes stand between its own, so both have
    the same disk.
    """
    raw = Raw(os.path.join(os.path.dirname(ground.root), f"raw-{ground.size}"))
    with ground.open(frozen=False) as mem:
        pipe = NotificationPipe(mem.store.log.pipes or "")
        try:
            write = writer(mem)
            yield from _beside(ground, "append, durable", raw, write)
            reader = mem.as_agent(READER)
            reader.writer.act("shown", cursor=reader.read(limit=1).cursor, how="read")

            def write_and_count() -> None:
                write()
                reader.unread()

            yield from _beside(ground, "append and somebody's unread count", raw, write_and_count)
        finally:
            pipe.close()
            raw.close()


def _beside(ground: Ground, name: str, raw: Raw, write: Callable[[], object]) -> Iterator[Row]:
    acts: tuple[Callable[[], object], ...] = (raw.linked, raw.line, write)
    seconds: list[list[float]] = [[], [], []]
    for _ in range(BLOCKS):
        for act, taken in zip(acts, seconds, strict=True):
            taken += [once(act) for _ in range(BLOCK)]
    linked, line, own = (Timing(taken) for taken in seconds)
    beside = Beside("synced file, link, directory", linked.p50)
    yield Row(name, ground.size, own.values("p95"), beside, DURABLE)
    yield Row(
        f"{name}: against a synced line", ground.size, own.values(), Beside("synced line", line.p50)
    )


def writer(mem: synapse.Memory) -> Callable[[], object]:
    agent_memory, texts, dice = mem.as_agent(WRITERS[0]), bodies(256), random.Random(3)

    def write() -> None:
        chance = dice.random()
        priority = "critical" if chance < 0.02 else "important" if chance < 0.2 else "info"
        agent_memory.append(dice.choice(texts), dice.choice(NAMESPACES), priority=priority)

    return write


def crew(ground: Ground) -> Iterator[Row]:
    """Eight writer processes that begin together, beside eight that only sync a line each."""
    directory = os.path.join(os.path.dirname(ground.root), f"lines-{ground.size}")
    bare = together([("lines", directory)] * CREW)
    found = together([("write", ground.root, WRITERS[place]) for place in range(CREW)])
    timing, rate, answers = found
    ids = [id for answer in answers for id in answer["ids"]]
    errors = [error for answer in answers for error in answer["errors"]]
    values = {"per_s": rate} | timing.values("p95")
    values |= {"failures": float(len(errors)), "doubled": float(len(ids) - len(set(ids)))}
    beside = Beside(f"{CREW} syncing lines", bare[1])
    yield Row(f"{CREW} writers", ground.size, values, beside, TOGETHER, errors[0] if errors else "")


def together(roles: list[tuple[str, ...]]) -> tuple[Timing, float, list[Any]]:
    children = [child.start(*role, str(EACH)) for role in roles]
    for one in children:
        child.await_ready(one)
    start = time.monotonic() + 0.1
    for one in children:
        child.tell(one, repr(start))
    answers = [child.answer(one) for one in children]
    seconds = [taken for answer in answers for taken in answer["seconds"]]
    took = max(answer["ended"] for answer in answers) - min(answer["began"] for answer in answers)
    return Timing(seconds), len(seconds) / took, answers


def pipe(ground: Ground) -> Iterator[Row]:
    """From before the append in this process to the event in another's hand."""
    with ground.open(frozen=False) as mem:
        raw = os.path.join(os.path.dirname(ground.root), f"bell-{ground.size}")
        timing, lost, bare = heard(mem, ground.root, raw)
        beside = Beside("synced line, named pipe", bare.p50)
        yield Row("bell", ground.size, timing.values() | {"lost": float(lost)}, beside, RUNG)
        log = mem.store.log
        assert isinstance(log, FilesLog)
        log.pipes = os.path.join(ground.root, ".index", "nowhere")
        late, lost = repaired(mem, ground.root)
        yield Row(
            "bell, every ring lost",
            ground.size,
            late.values() | {"lost": float(lost)},
            None,
            REPAIRED,
        )
