"""The shell of the orchestrator: the same manners as the memory's, with verbs of its own.

What reads does so from the records and the files of the runs alone, so that any process can, while
they run, and loads no engine. What starts runs imports the supervisor when it is called.
"""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.cli.verbs import PROGRAM
from synapse import cli as shell


def main(argv: Sequence[str] | None = None, *, prog: str | None = None) -> int:
    """Run one command line, by default the process's own; the exit code. Prints every error, raises
    none.
    """
    return shell.main(argv, prog=prog, program=PROGRAM)
