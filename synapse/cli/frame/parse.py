"""The quick parser: from the words of a command line to the verb and its arguments.

Options are declared once, by each verb. The usual line is read here, by hand; whatever is unusual
(help, errors, `--name=value`) is left to argparse, which reads the same declarations. Where both
answer they agree, and a cold command need not import argparse: that saves 3 to 5 % of its time.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from types import SimpleNamespace

from synapse.cli.frame.options import Options, Usage
from synapse.cli.frame.program import Program, Verb
from synapse.system.typed import Any

Flags = dict[str, tuple[str, dict[str, Any]]]


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


def options_of(verb: Verb) -> Options:
    """Return the options of a verb, and those that every verb takes."""
    options = Options()
    getattr(_code(verb), verb.options)(options)
    options.add_argument("--root", metavar="DIR", help="the workspace")
    options.add_argument("--json", action="store_true", help="print JSON")
    options.add_argument("--debug", action="store_true", help="show the traceback of an error")
    return options


def arguments(verb: Verb, words: Sequence[str], prog: str | None = None) -> SimpleNamespace:
    """Parse the arguments of a verb. Raises Usage if they do not fit, SystemExit after help."""
    options = options_of(verb)
    namespace = quick(options, words)
    if namespace is not None:
        return namespace
    from synapse.cli.frame.parser import parser_of

    return SimpleNamespace(**vars(parser_of(verb, options, prog).parse_args(words)))


def quick(options: Options, words: Sequence[str]) -> SimpleNamespace | None:
    """Parse a plain line: long options with their values, and one run of positional arguments.
    Return None for any other line."""
    flags, values, places = _table(options)
    positionals: list[str] = []
    ended = False
    remaining = iter(words)
    for argument in remaining:
        if argument in flags:
            ended = bool(positionals)
            if not _take(flags[argument], remaining, values):
                return None
        elif (argument.startswith("-") and argument != "-") or ended:
            return None
        else:
            positionals.append(argument)
    missing = any(how.get("required") and values[dest] is None for dest, how in flags.values())
    return (
        SimpleNamespace(**values) if _place(places, positionals, values) and not missing else None
    )


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


def _table(options: Options) -> tuple[Flags, dict[str, Any], list[tuple[str, dict[str, Any]]]]:
    """Return the options by name, the default values, and the positional arguments."""
    flags: Flags = {}
    values: dict[str, Any] = {}
    places = []
    for names, how in options.calls:
        dest = how.get("dest") or names[0].lstrip("-").replace("-", "_")
        values[dest] = how.get(
            "default", False if "action" in how and how["action"] == "store_true" else None
        )
        if names[0].startswith("-"):
            flags.update((name, (dest, how)) for name in names)
        else:
            places.append((dest, how))
    return flags, values, places


def _take(flag: tuple[str, dict[str, Any]], remaining: Any, values: dict[str, Any]) -> bool:
    """Read the value of one option from `remaining`. Return False if it cannot be read."""
    dest, how = flag
    if how.get("action") == "store_true":
        values[dest] = True
        return True
    text = next(remaining, "-")
    if text.startswith("-") or text not in how.get("choices", (text,)):
        return False
    try:
        value = how["type"](text) if "type" in how else text
    except ValueError:
        return False
    values[dest] = [*(values[dest] or ()), value] if how.get("action") == "append" else value
    return True


def _place(
    places: list[tuple[str, dict[str, Any]]], loose: list[str], values: dict[str, Any]
) -> bool:
    """Fill in the positional arguments. Return False if there are too few or too many."""
    if len(places) != 1:
        values.update(zip((dest for dest, _ in places), loose, strict=False))
        return len(loose) == len(places)
    dest, how = places[0]
    nargs = how.get("nargs")
    if nargs in ("*", "+"):
        values[dest] = loose
        return bool(loose) or nargs == "*"
    if len(loose) > 1 or (nargs is None and not loose):
        return False
    if loose:
        values[dest] = loose[0]
    return not loose or loose[0] in how.get("choices", loose)


def _code(verb: Verb) -> Any:
    return import_module(f"{verb.program}.cli.{verb.code}")
