"""A progress line on a terminal, written over itself and removed at the end.

On standard error, and only where that is a terminal: what is printed is the same for whoever reads
it from a pipe.
"""

from __future__ import annotations

import os
import sys
import time

OFTEN = 0.1  # seconds between two updates
_CLEAR = "\r\x1b[K"


class Progress:
    """Phases, and how many acts of each are done."""

    def __init__(self) -> None:
        self.out = sys.stderr if sys.stderr.isatty() and os.environ.get("TERM") != "dumb" else None
        self.doing = ""
        self.said = 0.0

    def __enter__(self) -> Progress:
        self.phase("looking")
        return self

    def __exit__(self, *about: object) -> None:
        self._write("")

    def phase(self, name: str) -> None:
        self.doing = name
        self._write(f"{name} ...")

    def act(self, done: int, of: int) -> None:
        if time.monotonic() - self.said >= OFTEN:
            self._write(f"{self.doing}: {done:,} of {of:,} acts")

    def _write(self, text: str) -> None:
        if self.out is not None:
            self.said = time.monotonic()
            try:
                columns = os.get_terminal_size(self.out.fileno()).columns or 80
                self.out.write(f"{_CLEAR}{text[: columns - 1]}")
                self.out.flush()
            except OSError:
                self.out = None  # the terminal is gone; the work goes on
