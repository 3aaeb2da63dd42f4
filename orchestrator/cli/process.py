"""The console script: a process that runs one command line and ends at once."""

from __future__ import annotations

from typing import NoReturn

from orchestrator import cli
from synapse.cli.process import end


def main() -> NoReturn:
    end(cli.main)
