"""The fingerprint of a piece of work: with what it is done, beside what is asked. Pure; the
admission asks for it before a run begins.

Two tasks are the same work only where their fingerprints agree, too: the engine with its options,
the model, the tools' signatures, the limits, the version of the templates, and of a script its
code. No key, no address and no environment is in it, not even in a digest.
"""

from __future__ import annotations

import dis
import inspect
import json
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from types import CodeType, FunctionType, MethodType
from typing import Any, NamedTuple

from synapse.system.digest import sha256

SECRET = ("key", "token", "secret", "password", "env", "url", "header", "trusted")
_PLAIN = (str, bytes, int, float, bool, type(None))
_DIGITS = 24


class Fingerprint(NamedTuple):
    """`program`: the code, options and limits, which are the same when a program is started again.
    `whole`: these with the values that its script holds, and with what a run that goes on asks for
    by itself: tools and templates.
    """

    program: str
    whole: str


def fingerprint(
    engines: Mapping[str, object], about: Mapping[str, object], needs: Mapping[str, object]
) -> Fingerprint:
    """Return the fingerprint of work on these engines, each an Engine or its options; `about` and
    `needs` are what else it is done with.
    """
    program = {name: list(_engine(value, False)) for name, value in engines.items()}
    whole = {name: list(_engine(value, True)) for name, value in engines.items()}
    return Fingerprint(_digest([program, about]), _digest([whole, about, needs]))


def _engine(engine: object, values: bool) -> Iterator[object]:
    """Yield what an engine is made of: its options, or its class and what that was made with."""
    if isinstance(engine, Mapping):
        yield {key: _plain(value) for key, value in engine.items() if _open(str(key))}
        return
    kind = type(engine)
    yield f"{kind.__module__}.{kind.__qualname__}"
    for name in _parameters(kind):
        if not _open(name) or not hasattr(engine, name):
            continue
        value = getattr(engine, name)
        if _is_code(value):
            yield [name, list(_code(value, values))]
        elif values:
            yield [name, _plain(value)]


def _open(name: str) -> bool:
    return not any(word in name.lower() for word in SECRET)


def _parameters(kind: type) -> list[str]:
    try:
        return list(inspect.signature(kind).parameters)
    except (TypeError, ValueError):
        return []


def _is_code(value: object) -> bool:
    return callable(value) and not isinstance(value, type)


# -- functions ---------------------------------------------------------------------------------


def _code(function: object, values: bool) -> Iterator[object]:
    """Yield what a function does: its code, and that of the functions of its module that it calls;
    with `values` also the constants of its module and its closure.
    """
    waiting, known = [function], set[CodeType]()
    while waiting:
        current, bound = _plain_function(waiting.pop())
        if values and bound:
            yield bound
        if current is None or current.__code__ in known:
            continue
        known.add(current.__code__)
        yield list(_instructions(current.__code__))
        if values:
            yield [_plain(current.__defaults__), _plain(current.__kwdefaults__)]
        for name, value in _used(current):
            if not _is_code(value):
                if values:
                    yield [name, _plain(value)]
            elif name in current.__code__.co_freevars or _module(value) == _module(current):
                waiting.append(value)


def _plain_function(value: object) -> tuple[FunctionType | None, list[object]]:
    """Return the function that is called in the end, None where it is not written in Python, and
    the values that are bound to it.
    """
    bound: list[object] = []
    while isinstance(value, partial | MethodType):
        if isinstance(value, partial):
            bound += [_plain(value.args), _plain(value.keywords)]
            value = value.func
        else:
            value = value.__func__
    if not isinstance(value, FunctionType):
        value = vars(type(value)).get("__call__")
    return (value if isinstance(value, FunctionType) else None), bound


def _module(value: object) -> object:
    return getattr(value, "__module__", None)


def _instructions(code: CodeType) -> Iterator[object]:
    """Yield a code object as values that are the same in every process."""
    yield code.co_code.hex()
    yield [*code.co_names, *code.co_varnames, *code.co_freevars]
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield list(_instructions(constant))
        else:
            yield _plain(constant)


def _used(function: FunctionType) -> Iterator[tuple[str, object]]:
    """Yield the names of its module and its closure that a function uses, and does not set."""
    names, stored = set[str](), set[str]()
    codes = [function.__code__]
    while codes:
        code = codes.pop()
        names.update(code.co_names)
        stored.update(
            str(step.argval)
            for step in dis.get_instructions(code)
            if step.opname in ("STORE_GLOBAL", "STORE_DEREF")
        )
        codes += [value for value in code.co_consts if isinstance(value, CodeType)]
    for name in sorted(names - stored):
        if name in function.__globals__:
            yield name, function.__globals__[name]
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    for name, cell in cells:
        if name not in stored:
            try:
                yield name, cell.cell_contents
            except ValueError:
                continue  # it has no value yet


# -- values ------------------------------------------------------------------------------------


def _plain(value: object) -> object:
    """Return a value as JSON that is the same in every process; what may change while a program
    runs, and what is no plain value, by its type alone.
    """
    if isinstance(value, bytes):
        return ["bytes", value.hex()]
    if isinstance(value, _PLAIN):
        return [type(value).__name__, repr(value)]
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, frozenset):
        return sorted(map(repr, value))
    if isinstance(value, Mapping):
        pairs: Iterable[tuple[Any, Any]] = value.items()
        return sorted([str(key), _plain(item)] for key, item in pairs if _open(str(key)))
    if _is_code(value):
        return list(_code(value, False))
    return type(value).__qualname__


def _digest(value: object) -> str:
    text = json.dumps(value, sort_keys=True, default=str)
    return sha256(text.encode("utf-8", "surrogatepass"))[:_DIGITS]
