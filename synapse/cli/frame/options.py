"""What a verb takes, declared once, and the error of a line that does not fit it."""

from __future__ import annotations

from synapse.errors import USAGE, SynapseError
from synapse.system.typed import Any


class Usage(SynapseError):
    """The command line cannot be read."""

    exit_code = USAGE


class Options:
    """What a verb takes: calls of `add_argument`, kept for whoever reads the line."""

    def __init__(self) -> None:
        self.calls: list[tuple[tuple[str, ...], dict[str, Any]]] = []

    def add_argument(self, *names: str, **how: Any) -> None:
        self.calls.append((names, how))
