"""What the audit of recorded sessions takes: `python -m bench audit` makes transcripts of as many
megabytes as real ones have calls for, and sums them up in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

MEGABYTE = 1 << 20
CALLS = 250  # of a session
RESULT = 5_000  # characters of a result, which stands in a transcript twice
SOURCES = 400  # files that are read
CHILD = """
import resource, sys, time
from orchestrator.cli import main
code = main(["audit", sys.argv[1], "--json"])
lines = open("/proc/self/status").read().splitlines()
most = next(line for line in lines if line.startswith("VmHWM"))
child = resource.getrusage(resource.RUSAGE_CHILDREN)
seconds = time.process_time() + child.ru_utime + child.ru_stime
print(seconds, int(most.split()[1]) + child.ru_maxrss, file=sys.stderr)
sys.exit(code)
"""  # a process that was forked begins with the most that its parent had
STAMP = "2026-{:02}-{:02}T{:02}:{:02}:{:02}.000Z"


class Taken(NamedTuple):
    """What an audit took: seconds of CPU time, and megabytes of memory at most, those of its own
    process and of the one that replays beside each other.
    """

    seconds: float
    memory: float
    figures: dict[str, Any]


def make(folder: Path, megabytes: int) -> None:
    """Write transcripts of this size in all."""
    draw, size, number = random.Random(7), 0, 0
    while size < megabytes * MEGABYTE:
        path = folder / f"project-{number % 9}" / f"session-{number}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w", encoding="utf-8") as file:
            for row in _session(number, draw):
                size += file.write(json.dumps(row) + "\n")
        number += 1


def _session(number: int, draw: random.Random) -> Iterator[dict[str, Any]]:
    common: dict[str, Any] = {"sessionId": f"session-{number}", "cwd": f"/srv/project-{number % 9}"}
    for n in range(CALLS):
        day, minute = number % 28 + 1, n % 60
        stamp = STAMP.format(number // 28 % 12 + 1, day, n // 60 + 9, minute, n % 60)
        common |= {"timestamp": stamp, "uuid": f"{number}-{n}"}
        source = draw.randrange(SOURCES)
        text = f"line {source} of a file\n" * (RESULT // 20)
        use: dict[str, Any] = {"type": "tool_use", "id": f"toolu-{number}-{n}", "name": "Read"}
        use |= {"input": {"file_path": f"/srv/project-{number % 9}/src/{source}.py"}}
        usage = {"input_tokens": 5, "cache_read_input_tokens": 400 * n, "output_tokens": 80}
        usage |= {"cache_creation_input_tokens": 1_300}
        message: dict[str, Any] = {
            "role": "assistant",
            "id": f"msg-{number}-{n}",
            "model": "claude-sonnet-4-5",
        }
        yield common | {
            "type": "assistant",
            "message": message | {"usage": usage, "content": [use]},
        }
        data = {"type": "bash_progress", "output": "x" * (RESULT // 2)}
        yield common | {"type": "progress", "data": data, "parentToolUseID": use["id"]}
        given = {"type": "tool_result", "tool_use_id": use["id"], "content": text}
        file = {"file": {"content": text, "startLine": 1, "numLines": 250, "totalLines": 250}}
        content = {"role": "user", "content": [given]}
        yield common | {"type": "user", "message": content, "toolUseResult": file}


def measure(folder: Path) -> Taken:
    """Sum up what lies in a folder, in a process of its own."""
    child = subprocess.run(
        [sys.executable, "-c", CHILD, str(folder)], capture_output=True, check=True, text=True
    )
    seconds, kilobytes = child.stderr.split()
    return Taken(float(seconds), int(kilobytes) / 1024, json.loads(child.stdout))


def main(argv: Iterable[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench audit", description=__doc__)
    parser.add_argument("--megabytes", type=int, default=1_024)
    args = parser.parse_args([*argv])
    with tempfile.TemporaryDirectory(prefix="synapse-audit-") as folder:
        make(Path(folder), args.megabytes)
        taken = measure(Path(folder))
    calls = taken.figures["calls"]
    print(f"{args.megabytes:,} MB, {calls:,} calls: {taken.seconds:.1f} s, {taken.memory:.0f} MB")
    return 0
