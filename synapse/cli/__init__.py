"""The shell: `main` parses a command line, runs its verb, and turns every error into a line and an
exit code.

One `main` parses the verb, runs it and turns whatever goes wrong into a line and an exit code.

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

INTERRUPTED = 130
BROKEN_PIPE = 141


def main(
    argv: Sequence[str] | None = None,
    *,
    prog: str | None = None,
    program: Program = PROGRAM,
) -> int:
    """Run one command line, by default the process's own; the exit code. Prints every error, raises
    none.
    """
    return _main(sys.argv[1:] if argv is None else list(argv), prog, program)


def _main(words: list[str], prog: str | None, program: Program) -> int:
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


def main_write() -> int:
    return _alias("synapse-write")


def main_read() -> int:
    """Run `synapse-read`: print all matching entries as Markdown, as the specification has it."""
    return _alias("synapse-read", "--limit", "0", "--markdown")


def main_view() -> int:
    return _alias("synapse-view")


def main_register() -> int:
    return _alias("synapse-register")


def _alias(prog: str, *preset: str) -> int:
    sys.argv[1:] = [ALIASES[prog], *preset, *sys.argv[1:]]
    return main(prog=prog)


def _run(words: Sequence[str], prog: str | None, program: Program) -> int:
    name, arguments = parse.split(words)
    if name == "help" or (name is None and {"-h", "--help"} & set(arguments)):
        name, arguments = (
            next(
                iter(
                    argument for argument in arguments if not argument.startswith("-")
                ),
                None,
            ),
            ["--help"],
        )
        if name is None:
            print(program.overview(), end="")
            return 0
    if name is None:
        return _without_verb(arguments, program)
    verb = parse.find_verb(name, program)
    try:
        args = parse.arguments(verb, arguments, prog or f"{program.name} {name}")
    except SystemExit as done:
        return int(done.code or 0)
    from synapse.cli.frame.call import Call

    with Call(verb, args, os.environ, program) as call:
        return parse.function_of(verb)(call) or 0


def _without_verb(arguments: Sequence[str], program: Program) -> int:
    if "--version" in arguments:
        from importlib.metadata import version

        from synapse.model.settings import PROTOCOL

        print(f"{program.name} {version('synapse-orchestrator')}, protocol {PROTOCOL}")
        return 0
    raise Usage(f"no verb given; `{program.name} --help` lists them")


def _fail(error: Exception, words: Sequence[str], program: Program) -> int:
    is_expected = isinstance(error, SynapseError | OSError)
    _hush_if_dead()
    if "--debug" in words:
        import traceback

        traceback.print_exception(error)
    message = (
        _error_text(error)
        if is_expected
        else f"this is a bug: {type(error).__name__}: {error}; --debug shows where"
    )
    _complain(error, message, program.name, as_json="--json" in words)
    if isinstance(error, SynapseError):
        return error.exit_code
    return StoreError.exit_code if is_expected else SynapseError.exit_code


def _error_text(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return str(error)


def _complain(error: Exception, message: str, program: str, *, as_json: bool) -> None:
    from synapse.cli.frame.show import clean, to_json

    if as_json:
        details = getattr(error, "details", {})
        text = to_json(
            {"error": {"type": type(error).__name__, "message": message, **details}}
        )
    else:
        further = clean(message).replace("\n", "\n  ")
        text = f"{program}: {further}"
    print(text, file=sys.stderr)


def _hush_if_dead() -> None:
    """Write out what is buffered before an error is printed; drop it where nobody reads it."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError, AttributeError):
        hush()
