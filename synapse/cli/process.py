"""The entry points of the console scripts: a process that runs one command line and ends at once.

A command is over before its garbage matters, and once its store is closed and its output flushed
there is nothing to take down. Sparing both is a sixth of what a cold command costs.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable

from synapse import cli
from synapse.system.typed import NoReturn


def main() -> NoReturn:
    end(cli.main)


def write() -> NoReturn:
    end(lambda: cli.alias("synapse-write"))


def read() -> NoReturn:
    end(lambda: cli.alias("synapse-read"))


def view() -> NoReturn:
    end(lambda: cli.alias("synapse-view"))


def register() -> NoReturn:
    end(lambda: cli.alias("synapse-register"))


def end(run: Callable[[], int]) -> NoReturn:
    """Run one command line, and be gone."""
    gc.set_threshold(50_000)
    code = run()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            pass  # closed, or there is none
    os._exit(code)
