"""Checks of the arguments that callers of the library give: a value of another type is an error in
words.

`checked` wraps the public methods of a class, or a function. What an argument may be is read from
its annotation when the module is loaded; a call then costs a look at the type of each argument. The
code inside relies on it. Imports nothing that a cold command does not have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import wraps

from synapse.errors import InvalidEntry
from synapse.system.text import encodes
from synapse.system.typed import Any, T

Check = Callable[[Any], bool]

ALIASES = {
    "Names": "str | Iterable[str] | None",
    "When": "str | int | date | None",
    "Policy": "Callable",
    "More": "Mapping",
}
BY_NAME = frozenset("Agent Draft Skill Task Seat Memory Team Supervisor Run Limits date".split())
EXAMPLES = {
    "ttl": "a text such as 30m, 24h, 7d or never",
    "since": "a time such as 24h, 2026-02-01, yesterday or a datetime",
    "until": "a time such as 24h, 2026-02-01, yesterday or a datetime",
    "priority": "a priority, such as critical",
    "namespace": "a place, such as api/endpoints",
    "tags": "a text or a list of texts, such as ['api', 'v2']",
    "to": "an agent, a team, all, or a list of them",
    "body": "a text",
    "task": "a Task, such as Task('Fix the page', agent='eng-frontend')",
    "draft": "a Draft",
    "memory": "an open Memory, or the place of its workspace",
    "supervisor": "a Supervisor",
}
_WORDS = {
    "str": "a text",
    "int": "a whole number",
    "float": "a number",
    "bool": "True or False",
    "None": "None",
    "os.PathLike": "a path",
    "date": "a date or datetime",
    "Iterable": "a list",
    "Mapping": "a dict",
    "Callable": "a function",
    "Guard": "a guard",
}
MOST = (1 << 63) - 1  # of a whole number that SQLite takes
COROUTINE = 0x80  # of a function's code, as inspect names it
_LISTS = (list, tuple, set, frozenset)
_NO_LISTS = (str, bytes, bytearray, Mapping)


def checked(thing: T) -> T:
    """Return the class with its public methods checked, or the function checked."""
    if not isinstance(thing, type):
        return _wrapped(thing)  # type: ignore[no-any-return]
    for name, function in list(vars(thing).items()):
        if isinstance(function, type(checked)) and (not name.startswith("_") or name == "__init__"):
            setattr(thing, name, _wrapped(function, skip=1))
    return thing


def check_values(annotations: Mapping[str, str], values: Mapping[str, Any]) -> None:
    """Refuse an argument of another type than its annotation says."""
    for name, value in values.items():
        check = _argument_check(name, annotations[name])
        if not check(value):
            raise refused(name, value, annotations[name])


def fields_fit(value: Any, owner: str) -> None:
    """Refuse a named tuple with a field of another type: nothing looked when it was made."""
    for name, hint in type(value).__annotations__.items():
        annotation = str(getattr(hint, "__forward_arg__", hint))
        actual = getattr(value, name)
        if not _check_of(annotation)(actual):
            raise refused(name, actual, annotation, f"{owner}: ")


def refused(name: str, value: object, annotation: str, where: str = "") -> InvalidEntry:
    """Return the error for an argument: what it is, and what to write."""
    text = repr(value)
    excerpt = f"{text[:60]}..." if len(text) > 60 else text
    kind = type(value).__name__
    if isinstance(value, str) and not encodes(value):
        return InvalidEntry(
            f"{where}{name} holds half of a surrogate pair, which is no text in UTF-8",
            argument=name,
        )
    if isinstance(value, int) and abs(value) > MOST:
        return InvalidEntry(
            f"{where}{name} is a number of {len(text)} digits: write one below 2 to the 63rd",
            argument=name,
        )
    return InvalidEntry(
        (
            f"{where}{name} is {excerpt}, {_article(kind)}: write"
            f" {EXAMPLES.get(name) or _worded(annotation)}"
        ),
        argument=name,
    )


_CHECKS: dict[str, Check] = {}


def _wrapped(function: Any, skip: int = 0) -> Any:
    code = function.__code__
    names = code.co_varnames[skip : code.co_argcount]
    annotations = function.__annotations__
    checks = {
        name: _argument_check(name, text) for name, text in annotations.items() if name != "return"
    }
    if not checks:
        return function
    order = [(name, checks.get(name, _anything)) for name in names]

    check_of = checks.get

    @wraps(function)
    def call(*args: Any, **named: Any) -> Any:
        for name, value in named.items():  # nearly all arguments have their names
            check = check_of(name)
            if check is not None and not check(value):
                raise refused(name, value, annotations[name])
        if len(args) > skip:
            for (name, check), value in zip(order, args[skip:], strict=False):
                if not check(value):
                    raise refused(name, value, annotations[name])
        return function(*args, **named)

    @wraps(function)
    async def later(*args: Any, **named: Any) -> Any:
        return await call(*args, **named)

    return later if code.co_flags & COROUTINE else call


def _argument_check(name: str, annotation: str) -> Check:
    """Return the check of an argument; whatever is typed into a search is looked for."""
    return _is_text if name == "query" else _check_of(annotation)


def _check_of(annotation: str) -> Check:
    """Return the check of an annotation, made once."""
    if annotation not in _CHECKS:
        alternatives = _alternatives(annotation)
        _CHECKS[annotation] = _any_of(
            [_part(alternative) for alternative in alternatives],
            "str" in alternatives,
            "None" in alternatives,
        )
    return _CHECKS[annotation]


def _any_of(checks: list[Check], text: bool, none: bool) -> Check:
    """Return one check of several; what is given most, a text or None, is looked at first."""

    def check(value: Any) -> bool:
        if type(value) is str and text:
            return value.isascii() or encodes(value)
        return (value is None and none) or any(single(value) for single in checks)

    return check


def _alternatives(annotation: str) -> list[str]:
    """Return the parts of a union; those of an alias in its place."""
    alternatives, depth, start = [], 0, 0
    for position, sign in enumerate(annotation):
        depth += (sign == "[") - (sign == "]")
        if sign == "|" and not depth:
            alternatives.append(annotation[start:position].strip())
            start = position + 1
    alternatives.append(annotation[start:].strip())
    return [
        inner
        for alternative in alternatives
        for inner in (
            _alternatives(ALIASES[alternative]) if alternative in ALIASES else [alternative]
        )
    ]


def _part(annotation: str) -> Check:
    name, _, inside = annotation.removesuffix("]").partition("[")
    if name == "tuple":  # of a value that is kept as it is
        check = _check_of(inside.removesuffix(", ..."))
        return lambda value: isinstance(value, list | tuple) and all(map(check, value))
    if name in ("Iterable", "Sequence", "list", "Collection"):
        return _list_of(_check_of(inside.removesuffix(", ..."))) if inside else _is_list
    if name in BY_NAME and name not in _SIMPLE:
        return lambda value: any(kind.__name__ == name for kind in type(value).__mro__)
    return _SIMPLE.get(name) or _anything


def _list_of(check: Check) -> Check:
    """Return the check of a list; what can be read only once, such as a generator, is not looked
    into."""
    return lambda value: (
        _is_list(value) and (not isinstance(value, _LISTS) or all(map(check, value)))
    )


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_list(value: object) -> bool:
    return isinstance(value, _LISTS) or (
        isinstance(value, Iterable) and not isinstance(value, _NO_LISTS)
    )


def _anything(value: object) -> bool:
    return True


_SIMPLE: dict[str, Check] = {
    "str": lambda value: isinstance(value, str) and (value.isascii() or encodes(value)),
    "int": lambda value: isinstance(value, int) and -MOST <= value <= MOST,
    "float": lambda value: isinstance(value, int | float) and value == value,
    "bool": lambda value: isinstance(value, bool),
    "None": lambda value: value is None,
    "os.PathLike": lambda value: hasattr(value, "__fspath__"),
    "Mapping": lambda value: isinstance(value, Mapping),
    "dict": lambda value: isinstance(value, Mapping),
    "Callable": callable,
    "Guard": lambda value: hasattr(value, "holds"),
}


def _worded(annotation: str) -> str:
    names = [alternative.partition("[")[0] for alternative in _alternatives(annotation)]
    texts = [_WORDS.get(name, f"{_article(name)}") for name in names]
    return " or ".join(dict.fromkeys(texts))


def _article(name: str) -> str:
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"
