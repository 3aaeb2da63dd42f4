"""Latency between two processes: written here, heard there. One clock counts for all processes of a
machine.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from bench import child
from bench.figures import Timing
from bench.workload import READER, WRITERS
from synapse.core import Memory

EVENTS, RARE = 300, 6
PAUSE = 8e-3


def heard(mem: Memory, root: str, directory: str) -> tuple[Timing, int, Timing]:
    """How long each critical entry took to another process, how many never came, and the least it
    could take.
    """
    listener = child.start("follow", root, READER, str(EVENTS + 1))
    child.await_ready(listener)
    # the first opens what the others find open
    sent = sent_criticals(mem, EVENTS + 1, PAUSE)[1:]
    arrived = dict(child.answer(listener))
    lags = latencies(sent, arrived)
    return lags, EVENTS - len(lags.seconds), _bare(directory)


def repaired(mem: Memory, root: str) -> tuple[Timing, int]:
    """The same where no ring arrives: the listener has to look by itself."""
    listener = child.start("follow", root, READER, str(RARE))
    child.await_ready(listener)
    lags = latencies(sent_criticals(mem, RARE, 0.8), dict(child.answer(listener)))
    return lags, RARE - len(lags.seconds)


def sent_criticals(mem: Memory, count: int, pause: float) -> list[tuple[str, int]]:
    """Write so many critical entries; the id of each, and the nanosecond before it was written."""
    agent_memory = mem.as_agent(WRITERS[0])
    return _send(
        lambda: (
            agent_memory.append(
                "BREAKING: " + "use /v2/users " * 28, "api/endpoints", priority="critical"
            ).id
        ),
        count,
        pause,
    )


def latencies(sent: Iterable[tuple[str, int]], arrived: Mapping[str, int]) -> Timing:
    """How long each of those that arrived was on its way."""
    return _timing([arrived[id] - at for id, at in sent if id in arrived])


def _bare(directory: str) -> Timing:
    """A synced line, then one byte into a named pipe."""
    os.makedirs(directory, exist_ok=True)
    path = os.path.join(directory, "pipe")
    os.mkfifo(path)
    listener = child.start("fifo", path, str(EVENTS))
    child.await_ready(listener)
    log = os.open(os.path.join(directory, "log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    pipe = os.open(path, os.O_WRONLY)

    def ring() -> str:
        os.write(log, b"x" * 900)
        os.fdatasync(log)
        os.write(pipe, b".")
        return ""

    sent = _send(ring, EVENTS, PAUSE)
    arrived: list[Any] = child.answer(listener)
    os.close(pipe)
    os.close(log)
    return _timing([at - start for (_, start), at in zip(sent, arrived, strict=False)])


def _send(act: Callable[[], str], count: int, pause: float) -> list[tuple[str, int]]:
    dice, sent = random.Random(5), []
    time.sleep(0.2)
    for _ in range(count):
        start = time.monotonic_ns()
        sent.append((act(), start))
        time.sleep(pause * (0.5 + dice.random()))
    return sent


def _timing(lags: list[int]) -> Timing:
    return Timing(lag / 1e9 for lag in lags)
