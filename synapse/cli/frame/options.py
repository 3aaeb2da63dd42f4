"""The options of a verb, declared once for both parsers, and the error of a wrong command line."""

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

    def add_reader(self) -> None:
        """Add `--agent`: the agent whose rights a read has."""
        self.add_argument(
            "--agent",
            metavar="AGENT",
            help="read as this agent (default: $SYNAPSE_AGENT, else the operator)",
        )

    def add_author(self) -> None:
        """Add `--from`: the agent that acts."""
        self.add_argument(
            "--from",
            "--agent",
            dest="agent",
            metavar="AGENT",
            help="the agent that acts (default: $SYNAPSE_AGENT)",
        )
