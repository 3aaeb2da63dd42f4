"""The full parser, with argparse: for help, for errors, and for unusual spellings."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable

from synapse.cli.frame.options import Options, Usage
from synapse.cli.frame.program import Verb
from synapse.system.typed import Any, NoReturn

EVERYWHERE = ("--root", "--json", "--debug")


class Lines(argparse.RawDescriptionHelpFormatter):
    """Help at the terminal's width, at most 80."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=26, width=min(_columns(), 80) - 2)


class Parser(argparse.ArgumentParser):
    """A parser whose complaints are errors like all others."""

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Refuse a value that is not among the choices, and name the closest choice."""
        from synapse.system.spelling import closest

        choices = tuple(action.choices or ())
        if not choices or value in choices or not isinstance(value, str):
            return super()._check_value(action, value)
        close = closest(value, choices) or next(
            (name for name in choices if name.startswith(value)), None
        )
        if close is not None:
            name = "/".join(action.option_strings) or action.dest
            known_names = ", ".join(choices)
            raise argparse.ArgumentError(
                None, f"there is no {name} {value!r}; did you mean {close!r}? ({known_names})"
            )
        return super()._check_value(action, value)

    def error(self, message: str) -> NoReturn:
        for action in self._actions:
            if action.choices and message.endswith(f"are required: {action.dest}"):
                message = f"missing {action.dest}: one of {', '.join(action.choices)}"
        raise Usage(f"{message}; `{self.prog} --help` shows an example")


def parser_of(verb: Verb, options: Options, prog: str | None = None) -> Parser:
    """Return the argparse parser of a verb."""
    called = f"{verb.program} {verb.name}"
    example = verb.example.replace(called, prog or called).replace("\n", "\n  ")
    parser = Parser(
        prog=prog or called,
        description=f"{verb.summary[0].upper()}{verb.summary[1:]}.",
        epilog=f"example:\n  {example}",
        formatter_class=Lines,
        allow_abbrev=False,
    )
    everywhere = parser.add_argument_group("everywhere")
    for names, how in options.calls:
        group = everywhere if names[0] in EVERYWHERE else parser
        group.add_argument(
            *names, **(how | {"type": _explained(how["type"])} if "type" in how else how)
        )
    return parser


def _explained(read: Callable[[str], object]) -> Callable[[str], object]:
    """Wrap a type function so that argparse shows the text of its ValueError."""

    def explained(text: str) -> object:
        try:
            return read(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return explained


def _columns() -> int:
    try:
        return int(os.environ.get("COLUMNS", "")) or 80
    except ValueError:
        pass
    try:
        return max(os.get_terminal_size().columns, 40)
    except OSError:
        return 80
