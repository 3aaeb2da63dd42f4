"""`python -m bench.trace`: count the functions and files of ours that one act passes through.

Each act is repeated until everything it needs is loaded and open, then traced. Only code below the
roots of this project counts; what the standard library and the dependencies do is theirs.
Comprehensions are part of the function that they stand in: newer Pythons inline them. A generator
counts as one call each time it is resumed. Nothing here measures time.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from types import CodeType, FrameType
from typing import NamedTuple

import synapse
from bench.figures import line
from bench.ground import Ground
from bench.workload import BODY, NAMESPACES, READER, WRITERS
from orchestrator import Supervisor, Task
from orchestrator.engines.scripted import Scripted
from synapse.model import clock

PROJECT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PACKAGES = ("synapse", "orchestrator", "prompts")
ROOTS = tuple(os.path.join(PROJECT, package) + os.sep for package in PACKAGES)
ENTRIES = 300
COMPREHENSIONS = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")
WARM_UPS, TRACES = 3, 6
LATER = 3_600.0  # seconds
COLUMNS = ("act", "functions", "files", "calls")


class Trace(NamedTuple):
    """The functions that were called, each with the number of its calls."""

    calls: Counter[CodeType]

    @property
    def functions(self) -> int:
        return len(self.calls)

    @property
    def files(self) -> int:
        return len({code.co_filename for code in self.calls})

    @property
    def total(self) -> int:
        return sum(self.calls.values())


class Tracer:
    """Counts calls in all threads that start while it is installed, but only inside `trace`."""

    def __init__(self, roots: tuple[str, ...] = ROOTS) -> None:
        self.roots = roots
        self.calls: Counter[CodeType] | None = None

    def install(self) -> None:
        threading.setprofile(self._event)
        sys.setprofile(self._event)

    def remove(self) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    def trace(self, act: Callable[[], object]) -> Trace:
        """Return the calls of one act."""
        self.calls = calls = Counter()
        try:
            act()
        finally:
            self.calls = None
        return Trace(calls)

    def _event(self, frame: FrameType, event: str, argument: object) -> None:
        if event != "call" or self.calls is None:
            return
        code = frame.f_code
        if code.co_filename.startswith(self.roots) and code.co_name not in COMPREHENSIONS:
            self.calls[code] += 1


def smallest(tracer: Tracer, act: Callable[[], object]) -> Trace:
    """Return the trace with the fewest calls of some: what is due only now and then is no part of
    the act.
    """
    for _ in range(WARM_UPS):
        act()
    traces = [tracer.trace(act) for _ in range(TRACES)]
    return min(traces, key=lambda trace: trace.total)


def undisturbed(mem: synapse.Memory) -> None:
    """Put off the looks at what people dropped, which come by the clock: on a busy machine one more
    of them falls into an act.
    """
    later = time.monotonic() + LATER
    mem.store._looked = mem.store._noticed = later


def traces(root: str, tracer: Tracer) -> Iterator[tuple[str, Trace]]:
    """Trace every act in a workspace of its own below the root."""
    ground = Ground(os.path.join(root, "workspace"), ENTRIES, clock.now())
    with ground.open(frozen=False) as mem:
        undisturbed(mem)
        writer, reader = mem.as_agent(WRITERS[0]), mem.as_agent(READER)

        def append() -> None:
            writer.append("x" * BODY, NAMESPACES[0])

        def after_an_append(read: Callable[[], object]) -> Callable[[], object]:
            """Return the read as it is when the log has grown by one entry since the last."""

            def act() -> object:
                calls, tracer.calls = tracer.calls, None
                append()
                tracer.calls = calls
                return read()

            return act

        yield "append", smallest(tracer, append)
        yield "read", smallest(tracer, after_an_append(lambda: reader.read(limit=50)))
        yield "read, nothing new", smallest(tracer, lambda: reader.read(limit=50))
        yield ("briefing", smallest(tracer, after_an_append(lambda: reader.briefing(8_000))))
        yield (
            "search",
            smallest(tracer, after_an_append(lambda: reader.search("migration endpoint"))),
        )
        yield "one scripted turn", asyncio.run(_run(mem, tracer))
    ground.close()
    yield "night", _night(ground, tracer)


async def _run(mem: synapse.Memory, tracer: Tracer) -> Trace:
    """Trace a run of one turn: from its order to the record of its end."""
    found = []
    with Supervisor(mem, engine=Scripted(lambda turn: "It is done.")) as supervisor:
        async with supervisor:
            for place in range(WARM_UPS + TRACES):
                task = Task(
                    f"Check page {place} at every width.", READER, "alpha", view_budget=8_000
                )
                tracer.calls = calls = Counter()
                await supervisor.spawn(task)
                tracer.calls = None
                found.append(Trace(calls))
    return min(found[WARM_UPS:], key=lambda trace: trace.total)


def _night(ground: Ground, tracer: Tracer) -> Trace:
    """Trace nightly runs that have work to do, each in a copy of the workspace; the first one warms
    them up, and the smallest of the others counts.
    """
    from synapse.consolidate import night

    found = []
    for place in range(1 + TRACES):
        root = f"{ground.root}-{place}"
        shutil.copytree(ground.root, root)
        with synapse.open(root, clock=lambda: ground.now) as mem:
            undisturbed(mem)
            mem.as_agent(READER).read(limit=1)
            found.append(tracer.trace(lambda: night(mem, "2001-01-01", ground.now)))
    return min(found[1:], key=lambda trace: trace.total)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.trace", description=__doc__)
    parser.add_argument(
        "--names", metavar="ACT", help="list the functions of this act, with their calls"
    )
    args = parser.parse_args(argv)
    root = tempfile.mkdtemp(prefix="synapse-trace-")
    tracer = Tracer()
    tracer.install()
    try:
        if not args.names:
            print(f"{line(COLUMNS)}\n{'|---' * len(COLUMNS)}|")
        for act, trace in traces(root, tracer):
            if args.names is None:
                print(
                    line((act, str(trace.functions), str(trace.files), str(trace.total))),
                    flush=True,
                )
            elif act == args.names:
                print("\n".join(_names(trace)))
    finally:
        tracer.remove()
        shutil.rmtree(root, ignore_errors=True)
    return 0


def _names(trace: Trace) -> list[str]:
    """Return a line for each function: its file, its name, its calls."""
    rows = []
    for code, calls in trace.calls.items():
        path = os.path.relpath(code.co_filename, PROJECT)
        rows.append(f"{path}:{code.co_firstlineno} {code.co_qualname} {calls}")
    return sorted(rows)


if __name__ == "__main__":
    sys.exit(main())
