"""The options of a verb: argparse with our errors and our help."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable

from synapse.cli.frame.program import Verb
from synapse.errors import USAGE, SynapseError
from synapse.system.typed import Any, NoReturn

EVERYWHERE = ("--root", "--json", "--debug")


class Usage(SynapseError):
    """The command line cannot be read."""

    exit_code = USAGE


class Lines(argparse.RawDescriptionHelpFormatter):
    """Help at the terminal's width, at most 80."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=26, width=min(_columns(), 80) - 2)


class Options(argparse.ArgumentParser):
    """What a verb takes. Complaints are errors like all others; names are not abbreviated."""

    def __init__(self, verb: Verb, prog: str | None = None) -> None:
        called = f"{verb.program} {verb.name}"
        example = verb.example.replace(called, prog or called).replace("\n", "\n  ")
        super().__init__(
            prog=prog or called,
            description=f"{verb.summary[0].upper()}{verb.summary[1:]}.",
            epilog=f"example:\n  {example}",
            formatter_class=Lines,
            allow_abbrev=False,
        )

    def add_argument(self, *names: str, **how: Any) -> argparse.Action:
        if "type" in how:
            how["type"] = _explained(how["type"])
        return super().add_argument(*names, **how)

    def add_reader(self) -> None:
        """Add `--agent`: the agent whose rights a read has."""
        self.add_argument(
            "--agent",
            metavar="AGENT",
            help="read as this agent (default: $SYNAPSE_AGENT, else the operator)",
        )

    def add_before(self) -> None:
        """Add `--before`: where the page of older rows begins."""
        self.add_argument(
            "--before", metavar="NEXT", help="older rows: the `next` of an answer with --json"
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

    def add_everywhere(self) -> None:
        """Add what every verb takes."""
        group = self.add_argument_group("everywhere")
        group.add_argument("--root", metavar="DIR", help="the workspace")
        group.add_argument("--json", action="store_true", help="print JSON")
        group.add_argument("--debug", action="store_true", help="show the traceback of an error")

    def declared(self) -> list[argparse.Action]:
        """Return what was added, in that order: all but `--help`."""
        return [action for action in self._actions if "--help" not in action.option_strings]

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
