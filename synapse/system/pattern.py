"""Regular expressions that are compiled when they are first used: a process of one command is over
before it needs most of those in its modules, and compiling takes longer than loading them.
"""

from __future__ import annotations

import re

from synapse.system.typed import Any


def later(pattern: str) -> re.Pattern[str]:
    """Return a pattern that is not compiled yet."""
    return _Later(pattern)  # type: ignore[return-value]


class _Later:
    def __init__(self, pattern: str) -> None:
        self.pattern = pattern

    def __getattr__(self, name: str) -> Any:
        """Return what the compiled pattern has under a name; the next time it is found here."""
        value = self.__dict__[name] = getattr(re.compile(self.pattern), name)
        return value
