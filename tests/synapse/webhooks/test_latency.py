"""How soon what is dropped as a file, or written, reaches a receiver. The times are printed; what
counts is that everything came.
"""

import json
import os
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest

import synapse
from tests.synapse.webhooks.conftest import declare, wait_for


def percentiles(seconds):
    ordered = sorted(seconds)
    return tuple(
        round(1000 * ordered[min(len(ordered) - 1, int(len(ordered) * share))], 1)
        for share in (0.5, 0.99, 1.0)
    )


@contextmanager
def ended(process):
    """Have a process ended whatever happens."""
    try:
        yield
    finally:
        process.terminate()
        process.communicate()


def measured(root, receiver, count):
    """Drop and write critical entries, one after the other, while a process sends; return by kind
    how many seconds each took.
    """
    declare(root, receiver.url)
    folder = root / "entries/api"
    folder.mkdir(parents=True, exist_ok=True)
    times = {"dropped": [], "written": []}
    command = [sys.executable, "-m", "synapse", "--root", str(root), "webhooks", "run"]
    sender = subprocess.Popen(command, env=dict(os.environ), stderr=subprocess.PIPE)
    with synapse.open(str(root)) as mem, ended(sender):
        assert wait_for(lambda: (root / "runs/.webhooks/chat.json").exists())
        for number in range(count):
            text = f"---\nid: x\nfrom: eng\ntimestamp: 2026-02-01T01:00:00Z\nnamespace: api\npriority: critical\n---\ndropped {number}\n"
            start = time.time()
            subprocess.run(
                ["sh", "-c", 'cat > "$0"', str(folder / f"drop-{number}.md")],
                input=text.encode(),
                check=True,
            )
            assert wait_for(lambda n=number: receiver.bodies()[-1:] == [f"dropped {n}"])
            times["dropped"].append(receiver.taken[-1][2] - start)
            time.sleep(0.05 * (number % 5))
            start = time.time()
            mem.as_agent("eng").append(f"written {number}", "api/x", priority="critical")
            assert wait_for(lambda n=number: receiver.bodies()[-1:] == [f"written {n}"])
            times["written"].append(receiver.taken[-1][2] - start)
    return times


@pytest.mark.parametrize("count", [5, pytest.param(200, marks=pytest.mark.soak)])
def test_what_is_dropped_or_written_comes_soon(root, receiver, count):
    times = measured(root, receiver, count)
    for kind, seconds in times.items():
        print(f"{kind}: p50, p99, max ms: {percentiles(seconds)} ({count} entries)")
    assert [len(seconds) for seconds in times.values()] == [count, count]
    assert len({json.loads(body)["data"]["id"] for _, body, _ in receiver.taken}) == 2 * count
