"""From the words of a command line to the verb and its arguments."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from importlib import import_module

from synapse.cli.frame.options import Options, Usage
from synapse.cli.frame.program import Program, Verb
from synapse.system.typed import Any


def split(argv: Sequence[str]) -> tuple[str | None, list[str]]:
    """Return the verb and the other words; options before the verb are put first among them."""
    options: list[str] = []
    remaining = list(argv)
    while remaining and remaining[0].startswith("-") and remaining[0] != "-":
        options.append(remaining.pop(0))
        if options[-1] == "--root" and remaining:
            options.append(remaining.pop(0))
    return (remaining[0], options + remaining[1:]) if remaining else (None, options)


def find_verb(name: str, program: Program) -> Verb:
    """Return the verb of that name, or raise Usage with the closest name."""
    name = program.older.get(name, name)
    if name in program.verbs:
        return program.verbs[name]
    from synapse.system.spelling import closest

    close = closest(name, program.verbs)
    hint = f"did you mean {close!r}?" if close else f"`{program.name} help --all` lists them all"
    raise Usage(f"there is no verb {name!r}; {hint}", verb=name)


def options_of(verb: Verb, prog: str | None = None) -> Options:
    """Return the options of a verb, and those that every verb takes."""
    options = Options(verb, prog)
    getattr(_code(verb), verb.options)(options)
    options.add_everywhere()
    return options


def arguments(verb: Verb, words: Sequence[str], prog: str | None = None) -> Namespace:
    """Parse the arguments of a verb. Raises Usage if they do not fit, SystemExit after help."""
    return options_of(verb, prog).parse_args(words)


def function_of(verb: Verb) -> Any:
    """Return the function of a verb; imports its module."""
    return getattr(_code(verb), verb.function)


def many(values: Sequence[str] | None) -> list[str] | None:
    """Return `--tags a,b --tags c` as one list; None if the option was not given. Commas alone are
    a mistake: nothing at all is written as an empty text.
    """
    if values is None:
        return None
    for value in values:
        if value.strip() and not value.replace(",", "").strip():
            raise Usage(f"{value!r} names nothing: write words with commas between them")
    return list(
        dict.fromkeys(item.strip() for value in values for item in value.split(",") if item.strip())
    )


def number(text: str) -> int:
    """Read a whole number that is not negative."""
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise ValueError(f"{text!r} is not a whole number from 0 on")
    return int(text)


def positive(text: str) -> int:
    """Read a whole number above zero."""
    if not number(text):
        raise ValueError(f"{text!r} is not a whole number above 0")
    return int(text)


def decimal(text: str) -> float:
    """Read a number that is not negative, such as `2` or `0.5`."""
    if not text.isascii() or not text.replace(".", "", 1).isdigit():
        raise ValueError(f"{text!r} is not a number such as 2 or 0.5")
    return float(text)


def seconds(text: str) -> float:
    """Read a time such as `90`, `1.5`, `5m` or `2h`, and return it in seconds."""
    units = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
    figure, unit = (text[:-1], text[-1:]) if text[-1:] in units else (text, "s")
    if not figure.isascii() or not figure.replace(".", "", 1).isdigit():
        raise ValueError(
            f"{text!r} is not a time: write seconds, or a number and s, m, h or d, such as 5m"
        )
    return float(figure) * units[unit]


def _code(verb: Verb) -> Any:
    return import_module(f"{verb.program}.cli.{verb.code}")
