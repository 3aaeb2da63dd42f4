"""The reference of the library in Python, from its signatures and docstrings: what is public.

Called by `docs.generate`; a name without a docstring is an error.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any, NamedTuple

import orchestrator
import synapse
from synapse.errors import SynapseError


class Chapter(NamedTuple):
    """Names of one module, under a heading."""

    title: str
    module: str
    names: tuple[str, ...]


VALUES = (
    "Agent Skill Draft Entry Page Event Hit Hits View Message Thread Claim Fate Problem Rebuilt"
    " Report Settings"
)
CHAPTERS = (
    Chapter("Open a memory", "synapse", tuple("init open connect find".split())),
    Chapter(
        "The memory",
        "synapse",
        tuple("Memory AgentMemory Mail RemoteMemory SharedMemoryStore UnifiedBrain".split()),
    ),
    Chapter("Values of the memory", "synapse", tuple(VALUES.split())),
    Chapter("Run agents", "orchestrator", tuple(orchestrator.__all__)),
    Chapter("Tools of your own", "orchestrator.tools", ("tool_of", "Shares")),
    Chapter("Agents by a script", "orchestrator.engines.scripted", ("Scripted", "Move")),
    Chapter("Limits", "orchestrator.spend.limits", ("Limits",)),
)
OLDER = {"Seat"}  # names that others stand for today
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def library() -> Iterator[str]:
    """Yield a section for each public name, and the table of the errors."""
    for chapter in CHAPTERS:
        yield from ("", f"## {chapter.title}")
        module = import_module(chapter.module)
        for name in chapter.names:
            yield from _section(chapter.module, name, getattr(module, name))
    yield from ("", "## Errors", "")
    yield "Each is a `SynapseError`; in the shell it ends a command with its exit code."
    yield ""
    yield from rows(("error", "exit code", "what it says"), list(_errors()))


def _section(module: str, name: str, thing: Any) -> Iterator[str]:
    is_value = isinstance(thing, type) and hasattr(thing, "_fields")
    signature = "" if is_value else f"`{name}{_signature(thing)}`"
    yield from ("", f"### {module}.{name}", "")
    if signature:
        yield from (signature, "")
    yield from (*_paragraphs(thing), "")
    if is_value:
        fields = [
            (f"`{field}`", f"`{_plain(thing.__annotations__[field])}`", _default(thing, field))
            for field in thing._fields
        ]
        yield from rows(("field", "type", "default"), fields)
    if isinstance(thing, type):
        yield from rows(("member", "what it does"), list(_members(thing)))


def _members(kind: type) -> Iterator[tuple[str, str]]:
    """Yield the public methods and properties of a class, in their order."""
    fields = getattr(kind, "_fields", ())
    for name, member in vars(kind).items():
        if name.startswith("_") or name in fields or name in OLDER:
            continue
        if isinstance(member, property):
            yield f"`{name}`", " ".join(_paragraphs(member.fget))
        elif isinstance(member, classmethod | staticmethod):
            yield (f"`{kind.__name__}.{name}{_signature(getattr(kind, name))}`", _line(member))
        elif inspect.isfunction(member):
            if member.__name__ != name.rpartition(".")[2]:
                yield f"`{name}`", f"The same as `{member.__name__}`."
                continue
            wait = "await " * inspect.iscoroutinefunction(member)
            signature = _signature(member, bound=True)
            yield f"`{wait}{name}{signature}`", _line(member)


def _line(member: Any) -> str:
    return " ".join(_paragraphs(getattr(member, "__func__", member)))


def _paragraphs(thing: Any) -> list[str]:
    """Return the docstring as paragraphs; ValueError where a public name has none."""
    text = inspect.getdoc(thing)
    if not text:
        raise ValueError(f"{getattr(thing, '__qualname__', thing)} has no docstring")
    return [" ".join(part.split()) for part in text.split("\n\n")]


def _signature(thing: Any, bound: bool = False) -> str:
    """Return the arguments and the result as they are written, without `self`."""
    signature = inspect.signature(thing)
    values = list(signature.parameters.values())[1 if bound else 0 :]
    parts: list[str] = []
    for value in values:
        starred = any(part.startswith("*") for part in parts)
        if value.kind is value.KEYWORD_ONLY and not starred:
            parts.append("*")
        star = {value.VAR_POSITIONAL: "*", value.VAR_KEYWORD: "**"}.get(value.kind, "")
        note = "" if value.annotation is value.empty else f": {_plain(value.annotation)}"
        default = "" if value.default is value.empty else f" = {_repr(value.default)}"
        parts.append(f"{star}{value.name}{note}{default}")
    result = signature.return_annotation
    gives = "" if isinstance(thing, type) or result is signature.empty else _plain(result)
    return f"({', '.join(parts)})" + (f" -> {gives}" if gives else "")


def _plain(annotation: Any) -> str:
    forward = getattr(annotation, "__forward_arg__", None)
    text = forward or (annotation if isinstance(annotation, str) else repr(annotation))
    return re.sub(r"<class '(?:\w+\.)*(\w+)'>", r"\1", text)


def _default(kind: Any, field: str) -> str:
    if field not in kind._field_defaults:
        return ""
    return f"`{_repr(kind._field_defaults[field])}`"


def _repr(value: Any) -> str:
    if callable(value) and hasattr(value, "__name__"):
        return str(value.__name__)
    text = _ADDRESS.sub("", repr(value))
    return text if len(text) <= 40 else f"{type(value).__name__}(...)"


def _errors() -> Iterator[tuple[str, str, str]]:
    for name in synapse.__all__:
        thing = getattr(synapse, name)
        if isinstance(thing, type) and issubclass(thing, SynapseError):
            yield f"`{name}`", str(thing.exit_code), " ".join(_paragraphs(thing))


def rows(head: Sequence[str], cells: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield a table of Markdown; nothing where it has no rows."""
    if not cells:
        return
    for line in (head, ["---"] * len(head), *cells):
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |"
    yield ""
