"""Command lines: from words to the verb and its arguments.

Options are declared once, by each verb. The usual line is read here, by hand; whatever is unusual
(help, errors, `--name=value`) is left to argparse, which reads the same declarations. Where both
answer they agree, and a cold command need not import argparse, which would cost it a tenth of its
time.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from types import SimpleNamespace

from synapse.cli.options import Options, Usage
from synapse.cli.verbs import PROGRAM, Program, Verb
from synapse.system.typed import Any

Flags = dict[str, tuple[str, dict[str, Any]]]


def split(argv: Sequence[str]) -> tuple[str | None, list[str]]:
    """The verb, and every other word with the options before the verb put first."""
    before: list[str] = []
    words = list(argv)
    while words and words[0].startswith("-") and words[0] != "-":
        before.append(words.pop(0))
        if before[-1] == "--root" and words:
            before.append(words.pop(0))
    return (words[0], before + words[1:]) if words else (None, before)


def verb_named(name: str, program: Program = PROGRAM) -> Verb:
    if name in program.verbs:
        return program.verbs[name]
    from synapse.system.spelling import closest

    close = closest(name, program.verbs)
    hint = (
        f"did you mean {close!r}?"
        if close
        else f"`{program.name} --help` lists them all"
    )
    raise Usage(f"there is no verb {name!r}; {hint}", verb=name)


def options_of(verb: Verb) -> Options:
    """The verb's own options, and those that every verb takes."""
    options = Options()
    getattr(_code(verb), verb.options)(options)
    options.add_argument("--root", metavar="DIR", help="the workspace")
    options.add_argument("--json", action="store_true", help="print JSON")
    options.add_argument(
        "--debug", action="store_true", help="show the traceback of an error"
    )
    return options


def arguments(
    verb: Verb, words: Sequence[str], prog: str | None = None
) -> SimpleNamespace:
    """The arguments of a verb; Usage where they cannot be read, SystemExit after help."""
    options = options_of(verb)
    found = quick(options, words)
    if found is not None:
        return found
    from synapse.cli.parser import parser_of

    return SimpleNamespace(**vars(parser_of(verb, options, prog).parse_args(words)))


def quick(options: Options, words: Sequence[str]) -> SimpleNamespace | None:
    """The arguments of a plain line: long options, each followed by its value, and one run of other
    words.
    """
    flags, values, places = _table(options)
    loose: list[str] = []
    ended = False
    left = iter(words)
    for word in left:
        if word in flags:
            ended = bool(loose)
            if not _take(flags[word], left, values):
                return None
        elif (word.startswith("-") and word != "-") or ended:
            return None
        else:
            loose.append(word)
    missing = any(
        how.get("required") and values[dest] is None for dest, how in flags.values()
    )
    return (
        SimpleNamespace(**values)
        if _place(places, loose, values) and not missing
        else None
    )


def function_of(verb: Verb) -> Any:
    return getattr(_code(verb), verb.function)


def many(values: Sequence[str] | None) -> list[str] | None:
    """`--tags a,b --tags c` as one list; None where the option was not given."""
    if values is None:
        return None
    return list(
        dict.fromkeys(
            part.strip()
            for value in values
            for part in value.split(",")
            if part.strip()
        )
    )


def number(text: str) -> int:
    """A whole number that is not negative."""
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise ValueError(f"{text!r} is not a whole number from 0 on")
    return int(text)


def positive(text: str) -> int:
    """A whole number above zero."""
    if not number(text):
        raise ValueError(f"{text!r} is not a whole number above 0")
    return int(text)


def seconds(text: str) -> float:
    """A time such as `90`, `1.5`, `5m` or `2h`, in seconds."""
    units = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
    figure, unit = (text[:-1], text[-1:]) if text[-1:] in units else (text, "s")
    if not figure.isascii() or not figure.replace(".", "", 1).isdigit():
        raise ValueError(
            f"{text!r} is not a time: write seconds, or a number and s, m, h or d, such as 5m"
        )
    return float(figure) * units[unit]


def _table(
    options: Options,
) -> tuple[Flags, dict[str, Any], list[tuple[str, dict[str, Any]]]]:
    """Options by their names, what holds where none is given, and the arguments without a name."""
    flags: Flags = {}
    values: dict[str, Any] = {}
    places = []
    for names, how in options.calls:
        dest = how.get("dest") or names[0].lstrip("-").replace("-", "_")
        values[dest] = how.get(
            "default",
            False if "action" in how and how["action"] == "store_true" else None,
        )
        if names[0].startswith("-"):
            flags.update((name, (dest, how)) for name in names)
        else:
            places.append((dest, how))
    return flags, values, places


def _take(flag: tuple[str, dict[str, Any]], left: Any, values: dict[str, Any]) -> bool:
    dest, how = flag
    if how.get("action") == "store_true":
        values[dest] = True
        return True
    word = next(left, "-")
    if word.startswith("-") or word not in how.get("choices", (word,)):
        return False
    try:
        value = how["type"](word) if "type" in how else word
    except ValueError:
        return False
    values[dest] = (
        [*(values[dest] or ()), value] if how.get("action") == "append" else value
    )
    return True


def _place(
    places: list[tuple[str, dict[str, Any]]], loose: list[str], values: dict[str, Any]
) -> bool:
    """Put the words without a name where they belong, if they are as many as it takes: where there
    are several such arguments, one word each.
    """
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
