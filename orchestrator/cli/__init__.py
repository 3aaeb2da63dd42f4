"""The entry of the orchestrator's shell: `main` runs one command line. The verbs lie in the folders
beside it, by the groups of the help text.

A verb that only looks reads the records and the files of the runs, so that any process can do so
while they run, and loads no engine. A verb that starts runs imports the supervisor when it is
called.
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
