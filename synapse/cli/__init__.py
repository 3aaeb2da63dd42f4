"""The shell: `main` parses a command line, runs its verb, and turns every error into a line and an
exit code.

Environment variables, standard streams and signals are touched here and nowhere below. A verb's
function parses, makes one call of the library and prints; it decides nothing.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from synapse.cli.frame import parse
from synapse.cli.frame.options import Usage
from synapse.cli.frame.program import Program
from synapse.cli.frame.streams import hush
from synapse.cli.verbs import ALIASES, PROGRAM
from synapse.errors import StoreError, SynapseError

# As the specification has it: all matching entries, as Markdown.
PRESET = {"synapse-read": ("--limit", "0", "--markdown")}
INTERRUPTED = 130
BROKEN_PIPE = 141


def main(
    argv: Sequence[str] | None = None, *, prog: str | None = None, program: Program = PROGRAM
) -> int:
    """Run one command line, by default the process's own; the exit code. Prints every error, raises
    none.
    """
    words = sys.argv[1:] if argv is None else list(argv)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        code = _run(words, prog, program)
        if sys.stdout is not None:
            sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        hush()
        return BROKEN_PIPE
    except Exception as error:
        return _fail(error, words, program)


def alias(prog: str) -> int:
    """Run a command that is a verb under a name of its own."""
    sys.argv[1:] = [ALIASES[prog], *PRESET.get(prog, ()), *sys.argv[1:]]
    return main(prog=prog)


def _run(words: Sequence[str], prog: str | None, program: Program) -> int:
    name, arguments = parse.split(words)
    if name == "help" or (name is None and {"-h", "--help"} & set(arguments)):
        name = next(iter(argument for argument in arguments if not argument.startswith("-")), None)
        if name is None:
            print(program.overview("--all" in arguments), end="")
            return 0
        arguments = ["--help"]
    if name is None and "--version" in arguments:
        from importlib.metadata import version

        from synapse.model.settings import PROTOCOL

        print(f"{program.name} {version('synapse-orchestrator')}, protocol {PROTOCOL}")
        return 0
    if name is None:
        raise Usage(f"no verb given; `{program.name} --help` lists them")
    verb = parse.find_verb(name, program)
    try:
        args = parse.arguments(verb, arguments, prog or f"{program.name} {name}")
    except SystemExit as done:
        return int(done.code or 0)
    if program.needs:
        from synapse.system.extras import demand

        demand(program.needs)
    from synapse.cli.frame.call import Call

    with Call(verb, args, os.environ, program) as call:
        return parse.function_of(verb)(call) or 0


def _fail(error: Exception, words: Sequence[str], program: Program) -> int:
    """Print an error, behind what was printed before it, and return its exit code."""
    from synapse.cli.frame.show import clean, to_json
    from synapse.system.extras import missing

    try:
        sys.stdout.flush()
    except (OSError, ValueError, AttributeError):
        hush()  # nobody reads it
    if "--debug" in words:
        import traceback

        traceback.print_exception(error)
    is_expected = isinstance(error, SynapseError | OSError)
    message = str(error)
    if isinstance(error, OSError) and error.filename and error.strerror:
        message = f"{error.filename}: {error.strerror}"
    elif isinstance(error, ImportError) and (absent := missing(error, program.name)):
        is_expected, message = True, absent
    elif not is_expected:
        message = f"this is a bug: {type(error).__name__}: {error}; --debug shows where"
    if "--json" in words:
        details = getattr(error, "details", {})
        about = {"type": type(error).__name__, "message": message, **details}
        text = to_json({"error": about})
    else:
        further = clean(message).replace("\n", "\n  ")
        text = f"{program.name}: {further}"
    print(text, file=sys.stderr)
    if isinstance(error, SynapseError):
        return error.exit_code
    return StoreError.exit_code if is_expected else SynapseError.exit_code
