"""Tools for tests: a clock that stands still, drafts, and the contract of `Log`, for programs that
use the memory and for other logs.

Needs no test framework: `LogContract` is a plain class of plain asserts.

    class TestMine(LogContract):
        def make_commit(self, clock):
            log = MyLog(clock)
            return Commit(log, Index(log, ":memory:"))
"""

from __future__ import annotations

from synapse.testing.contract import LogContract
from synapse.testing.tools import FrozenClock, draft_entry, together

__all__ = ["FrozenClock", "LogContract", "draft_entry", "together"]
