"""Recorded sessions replayed through the hooks: `python -m bench replay FOLDER` gives each call of
the transcripts there to the policy of coding clients, as `orchestrator audit` does, and prints all
that happened by the account of the recording.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterable
from pathlib import Path

from orchestrator.audit import policy, sources


def main(argv: Iterable[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench replay", description=__doc__)
    parser.add_argument("folder", type=Path, help="transcripts of Claude Code, `*.jsonl`")
    parser.add_argument("--wrong", action="store_true", help="list what was false or missed")
    args = parser.parse_args([*argv])
    with tempfile.TemporaryDirectory(prefix="synapse-replay-") as folder:
        figures, count = policy.play(sources.find([str(args.folder)]), folder)
    for name, number in sorted(count.items()):
        print(f"{number:>12,}  {name}")
    for line in figures.errors if args.wrong else ():
        print(line)
    print(figures.sentence())
    return 0
