"""Nights: how long one takes and how much memory, what one with nothing to do costs, who writes or
reads beside it.

Each is on a copy of the workspace, in a process of its own, as a daemon would run it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator

from bench import child
from bench.figures import Beside, Goal, Row, Timing, once
from bench.ground import Ground
from bench.upkeep import LARGE
from bench.workload import READER
from bench.writing import writer
from synapse import open as opened
from synapse.log.accepted import Accepted
from synapse.model import clock

# what a run is known by; what is past its time goes by the workload's end
DATES = ("2001-01-01", "2001-01-02")
WHOLE = (Goal("took", 20.0), Goal("bytes", 300 << 20))
NOTHING = (Goal("took", 1.0),)
BESIDE = (Goal("ratio", 5.0),)
PAUSE, IDLE = 2e-3, 2.0
NO_LIMITS = "\nsize_limits: {per_namespace: off, total_shared: off}\n"


def nights(ground: Ground) -> Iterator[Row]:
    if not ground.files:
        return
    root, large = _copied(ground, "night"), ground.size == LARGE
    first, second = (child.told("night", root, str(ground.now), date) for date in DATES)
    beside = Beside("as many files removed", _removed(root, int(first["filed"])))
    values = {"took": first["took"], "bytes": first["bytes"]}
    note = f"{first['filed']:,.0f} filed away, {first['acts']:,.0f} acts"
    yield Row("a night", ground.size, values, beside, WHOLE if large else (), note)
    if second["filed"]:
        raise AssertionError(f"a second night filed {second['filed']} entries away")
    yield Row(
        "a night with nothing to do",
        ground.size,
        {"took": second["took"]},
        None,
        NOTHING if large else (),
    )
    yield from _busy(ground, large)


def _busy(ground: Ground, large: bool) -> Iterator[Row]:
    """One writer and one reader, by turns: first alone, then while a night runs."""
    root = _copied(ground, "busy")
    with opened(root, clock=clock.now) as mem:
        append, agent_memory = writer(mem), mem.as_agent(READER)
        agent_memory.read(limit=50)

        def turn() -> tuple[float, float]:
            time.sleep(PAUSE)
            return once(append), once(lambda: agent_memory.read(limit=50))

        end = time.monotonic() + IDLE
        idle = []
        while time.monotonic() < end:
            idle.append(turn())
        night = child.start("night", root, str(ground.now), DATES[0])
        found = _while(night, turn)
    if not child.answer(night)["filed"]:
        raise AssertionError("the night had nothing to do")
    for place, name in enumerate(("append", "read a page")):
        alone, beside = (Timing(pair[place] for pair in pairs) for pairs in (idle, found))
        values = {"p99": beside.at(0.99), "p50": beside.p50, "max": beside.seconds[-1]}
        than = Beside("p99 with no night", alone.at(0.99))
        yield Row(f"{name} while a night runs", ground.size, values, than, BESIDE if large else ())


def _while(night: subprocess.Popen[str], turn: object) -> list[tuple[float, float]]:
    assert callable(turn)
    found = [turn()]
    while night.poll() is None:
        found.append(turn())
    return found


def _copied(ground: Ground, name: str) -> str:
    ground.close()
    root = os.path.join(os.path.dirname(ground.root), f"{name}-{ground.size}")
    shutil.copytree(ground.root, root)
    path = "synapse.yaml"
    with open(os.path.join(root, path), "a+b") as file:
        file.write(NO_LIMITS.encode())
        file.seek(0)
        accepted = Accepted(root)
        accepted.note_file(path, file.read())
        accepted.close()
    os.sync()
    return root


def _removed(root: str, count: int) -> float:
    """What the disk takes for it: so many small files in one folder, made beforehand."""
    folder = f"{root}-files"
    os.mkdir(folder)
    for place in range(count):
        with open(os.path.join(folder, str(place)), "wb") as file:
            file.write(b"x" * 500)
    os.sync()
    return once(lambda: shutil.rmtree(folder))
