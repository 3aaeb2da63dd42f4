"""What the bench's children do: `python -m bench.worker ROLE …`. Prints what it found out as one
line of JSON.
"""

from __future__ import annotations

import json
import os
import select
import sys
import time
from collections.abc import Callable

from bench.child import READY
from bench.figures import once
from bench.workload import DAYS, NAMESPACES

SDKS = ("anthropic", "openai", "mcp", "genai_prices", "opentelemetry", "tiktoken", "jinja2")


def write(root: str, agent: str, count: str) -> dict[str, object]:
    """Append entries as one of several writers; all begin at the same moment."""
    import synapse

    with synapse.open(root) as mem:
        agent_memory = mem.as_agent(agent)
        body = f"from {agent}: " + "what was found and what is next, " * 12
        agent_memory.read(limit=1)
        ids: list[str] = []
        errors: list[str] = []

        def append(place: int) -> None:
            try:
                ids.append(agent_memory.append(body, NAMESPACES[place % len(NAMESPACES)]).id)
            except synapse.SynapseError as error:
                errors.append(str(error))

        return _together(append, int(count)) | {"ids": ids, "errors": errors}


def send(root: str, agent: str, count: str) -> dict[str, object]:
    """Send messages to everybody as one of several; all begin at the same moment."""
    import synapse

    with synapse.open(root) as mem:
        mail = synapse.Mail(mem.as_agent(agent))
        mail.poll()
        ids: list[str] = []
        errors: list[str] = []

        def one(place: int) -> None:
            try:
                ids.append(
                    mail.send(
                        "all",
                        f"{place} from {agent}: what was found and what is next",
                        subject="news",
                    ).id
                )
            except synapse.SynapseError as error:
                errors.append(str(error))

        return _together(one, int(count)) | {"ids": ids, "errors": errors}


def lines(path: str, count: str) -> dict[str, object]:
    """The least that eight writers could do: a synced line each."""
    from bench.limits import LINE

    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def append(place: int) -> None:
        os.write(fd, LINE)
        os.fdatasync(fd)

    return _together(append, int(count))


def _together(act: Callable[[int], None], count: int) -> dict[str, object]:
    """Say that all is open, and begin when told to: whoever still starts up would slow the
    others.
    """
    print(READY, flush=True)
    time.sleep(max(0.0, float(sys.stdin.readline()) - time.monotonic()))
    began = time.monotonic()
    seconds = [once(lambda place=place: act(place)) for place in range(count)]  # type: ignore[misc]
    return {"seconds": seconds, "began": began, "ended": time.monotonic()}


def follow(root: str, agent: str, count: str) -> list[tuple[str, int]]:
    """Hear of entries, and when."""
    import synapse

    heard: list[tuple[str, int]] = []
    with synapse.open(root) as mem:
        agent_memory = mem.as_agent(agent)
        cursor = agent_memory.read(limit=1).cursor
        events = agent_memory.follow(cursor, timeout=120)
        print(READY, flush=True)
        for event in events:
            heard.append((event.entry.id, time.monotonic_ns()))
            if len(heard) == int(count):
                break
    return heard


def fifo(path: str, count: str) -> list[int]:
    """Hear a named pipe, and when."""
    fd = os.open(path, os.O_RDWR | os.O_NONBLOCK)
    heard: list[int] = []
    print(READY, flush=True)
    while len(heard) < int(count):
        select.select([fd], [], [])
        heard += [time.monotonic_ns()] * len(os.read(fd, 4_096))
    return heard


def view(root: str, agent: str, budget: str) -> dict[str, int]:
    """Render a view whose counts are stored; was a tokenizer needed?"""
    import synapse

    with synapse.open(root) as mem:
        shown = mem.as_agent(agent).briefing(int(budget))
    return {"tokenizers": int("tiktoken" in sys.modules), "included": len(shown.included)}


def hold(root: str, agent: str) -> dict[str, int]:
    """The memory of a process that has read a page, counted, and searched, and holds on to the
    workspace.
    """
    import synapse

    with synapse.open(root) as mem:
        agent_memory = mem.as_agent(agent)
        for since in ("24h", "7d", f"{DAYS}d"):
            agent_memory.read(limit=50, since=since)
        agent_memory.unread()
        agent_memory.search("migration endpoint")
        return {"bytes": _resident()}


def sessions(root: str, agent: str, count: str) -> dict[str, object]:
    """Run a session after the other, with turns of a millisecond, until as many critical entries
    were told of and whoever writes them is done; which came to a running session and which stood in
    a view, and when.
    """
    import asyncio

    from bench.listening import Listening

    listening = Listening(root, agent, int(count))
    return asyncio.run(listening.all())


def imported(name: str) -> dict[str, object]:
    """How long an import takes, and which clients of others it brings along."""
    took = once(lambda: __import__(name))
    return {"took": took, "sdks": [sdk for sdk in SDKS if sdk in sys.modules]}


def run_nightly(root: str, now: str, date: str) -> dict[str, float]:
    """One night at a moment; how long it took, what it did, and the most memory that the process
    held.
    """
    import synapse
    from synapse.consolidate import run_nightly

    with synapse.open(root, clock=lambda: int(now)) as mem:
        mem.store.refresh()
        done = []
        took = once(lambda: done.append(run_nightly(mem, date, int(now))))
        acts = done[0].acts
    return {
        "took": took,
        "acts": len(acts),
        "filed": sum(len(each.act.ids) for each in acts),
        "bytes": _most(),
    }


def bare() -> dict[str, int]:
    """The memory of a Python that has loaded what any such program loads."""
    import json
    import sqlite3

    assert json
    assert sqlite3
    return {"bytes": _resident()}


def _resident() -> int:
    """What the process holds now; where the system does not say, the most it ever held."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return _most()


def _most() -> int:
    """The most that this program held. On Linux `ru_maxrss` begins with what the process held that
    started it, which is the bench itself with all that it has measured: the system's own note of
    this program's memory does not.
    """
    try:
        with open("/proc/self/status") as file:
            return next(int(line.split()[1]) << 10 for line in file if line.startswith("VmHWM:"))
    except (OSError, StopIteration):
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak << 10


ROLES: dict[str, Callable[..., object]] = {
    "write": write,
    "send": send,
    "lines": lines,
    "follow": follow,
    "fifo": fifo,
    "view": view,
    "hold": hold,
    "sessions": sessions,
    "imported": imported,
    "bare": bare,
    "night": run_nightly,
}

if __name__ == "__main__":
    print(json.dumps(ROLES[sys.argv[1]](*sys.argv[2:])))
