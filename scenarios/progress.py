"""How far it has got: on a terminal one line that is written over, elsewhere a line for each
tenth.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TextIO

WIDTH = 24
TENTHS = 10


class Progress:
    """Runs that are done, of those there are. `clock` counts seconds."""

    def __init__(self, out: TextIO, total: int, clock: Callable[[], float]) -> None:
        self.out, self.total, self.clock = out, total, clock
        self.done, self.began, self.live = 0, clock(), out.isatty()
        self._shown = 0

    def step(self, what: str) -> None:
        """Count one more as done; `what` it was."""
        self.done += 1
        if self.live:
            self.out.write(f"\r\x1b[K{self.line(what)}")
            self.out.flush()
        elif self.done * TENTHS // self.total > self._shown:
            self._shown = self.done * TENTHS // self.total
            self.out.write(f"{self.line(what)}\n")
            self.out.flush()

    def line(self, what: str) -> str:
        full = self.done * WIDTH // self.total
        passed = self.clock() - self.began
        seconds = passed / self.done * (self.total - self.done) if self.done else 0.0
        remaining = f"{seconds:.0f} s left" if self.done < self.total else f"{passed:.0f} s"
        text = f"{'█' * full}{'·' * (WIDTH - full)} {self.done}/{self.total} runs, {remaining}"
        return f"{text}  {what}"[:79]

    def end(self) -> None:
        if self.live:
            self.out.write("\r\x1b[K")
            self.out.flush()
