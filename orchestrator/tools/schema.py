"""JSON schemas of Python annotations, and values checked against a schema and built from JSON.
Pure.

It is the part of JSON schema that Python's own types need. A keyword that is not known here is left
to its author: a server of tools checks its own.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, NotRequired, Required, get_args, get_origin

_PLAIN: dict[Any, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    type(None): "null",
}
_LISTS = (list, tuple, Sequence)
_TABLES = (dict, Mapping)
_KINDS: dict[str, Callable[[object], bool]] = {
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: _is_number(value) and value == int(value),  # type: ignore[call-overload]
    "number": lambda value: _is_number(value),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, Mapping),
}
_A = {"null": "null", "integer": "an integer", "array": "an array", "object": "an object"}


class Unfit(TypeError):
    """An annotation that no JSON value can have."""


def schema_of(annotation: Any) -> dict[str, Any]:
    """Return the JSON schema of an annotation."""
    if annotation is Any or annotation is object:
        return {}
    if annotation is None or annotation in _PLAIN:
        return {"type": _PLAIN.get(annotation, "null")}
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        descriptions = [{"description": text} for text in arguments[1:] if isinstance(text, str)]
        return schema_of(arguments[0]) | (descriptions[0] if descriptions else {})
    if origin in (Required, NotRequired):
        return schema_of(arguments[0])
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin in (typing.Union, types.UnionType):
        return _any_of([schema_of(argument) for argument in arguments])
    if (origin or annotation) in _LISTS:
        return {"type": "array"} | _inside("items", _item(annotation))
    if (origin or annotation) in _TABLES:
        return {"type": "object"} | _inside(
            "additionalProperties", arguments[1] if arguments else Any
        )
    fields = fields_of(annotation)
    if fields is None:
        raise Unfit(f"{annotation!r} is no type that a JSON value can have")
    return table(
        {name: schema_of(kind) for name, (kind, _) in fields.items()},
        [n for n, f in fields.items() if f[1]],
    )


def table(properties: Mapping[str, Any], required: Sequence[str]) -> dict[str, Any]:
    """Return the schema of an object with these properties."""
    return {"type": "object", "properties": dict(properties)} | (
        {"required": list(required)} if required else {}
    )


def fields_of(kind: Any) -> dict[str, tuple[Any, bool]] | None:
    """Return the fields of a dataclass, NamedTuple or TypedDict: annotation, and whether it is
    required.
    """
    import dataclasses

    if not isinstance(kind, type):
        return None
    if dataclasses.is_dataclass(kind):
        absent = dataclasses.MISSING
        needed = {
            field.name: field.default is absent and field.default_factory is absent
            for field in dataclasses.fields(kind)
            if field.init
        }
    elif issubclass(kind, tuple) and hasattr(kind, "_field_defaults"):
        needed = {name: name not in kind._field_defaults for name in kind._fields}  # type: ignore[attr-defined]
    elif typing.is_typeddict(kind):
        needed = {name: name in kind.__required_keys__ for name in kind.__annotations__}  # type: ignore[attr-defined]
    else:
        return None
    hints = typing.get_type_hints(kind, include_extras=True)
    return {name: (hints[name], required) for name, required in needed.items()}


def problems(schema: Mapping[str, Any], value: object, where: str = "") -> list[str]:
    """Return why a value does not fit the schema; an empty list where it fits."""
    if "anyOf" in schema:
        choices = [problems(choice, value, where) for choice in schema["anyOf"]]
        return [] if [] in choices else min(choices, key=len)
    at = where or "the arguments"
    if "enum" in schema and not any(_same(value, allowed) for allowed in schema["enum"]):
        return [
            (
                f"{at}: {_shown(value)} is not one of"
                f" {', '.join(_shown(allowed) for allowed in schema['enum'])}"
            )
        ]
    kinds = schema.get("type", ())
    kinds = (kinds,) if isinstance(kinds, str) else tuple(kinds)
    if kinds and not any(kind not in _KINDS or _KINDS[kind](value) for kind in kinds):
        return [
            (
                f"{at}: {_shown(value)} is not"
                f" {' or '.join(_A.get(kind, f'a {kind}') for kind in kinds)}"
            )
        ]
    if isinstance(value, list) and isinstance(schema.get("items"), Mapping):
        return [
            p
            for n, item in enumerate(value)
            for p in problems(schema["items"], item, f"{where}[{n}]")
        ]
    return _of_table(schema, value, where) if isinstance(value, Mapping) else []


def build(annotation: Any, value: Any) -> Any:
    """Return a JSON value that fits an annotation, as the value that it stands for."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Annotated, Required, NotRequired):
        return build(arguments[0], value)
    if origin in (typing.Union, types.UnionType):
        fitting = [option for option in arguments if not problems(schema_of(option), value)]
        return build(fitting[0], value) if fitting else value
    if origin is Literal:
        return next((option for option in arguments if _same(value, option)), value)
    if annotation in (int, float):
        return int(value) if annotation is int else float(value)
    if (origin or annotation) in _LISTS:
        items = [build(_item(annotation), item) for item in value]
        return tuple(items) if (origin or annotation) is tuple else items
    if origin in _TABLES:
        return {key: build(arguments[1], item) for key, item in value.items()}
    fields = fields_of(annotation)
    if fields is None:
        return value
    return annotation(
        **{name: build(fields[name][0], item) for name, item in value.items() if name in fields}
    )


def _of_table(schema: Mapping[str, Any], value: Mapping[Any, object], where: str) -> list[str]:
    properties = schema.get("properties", {})
    additional = schema.get("additionalProperties", True)
    before = f"{where}." if where else ""
    errors = [
        f"{before}{name}: is missing" for name in schema.get("required", ()) if name not in value
    ]
    for name, item in value.items():
        if name in properties:
            errors += problems(properties[name], item, f"{before}{name}")
        elif additional is False:
            errors.append(
                f"{before}{name}: is not known; known are {', '.join(properties) or 'none'}"
            )
        elif isinstance(additional, Mapping):
            errors += problems(additional, item, f"{before}{name}")
    return errors


def _any_of(schemas: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the schema that allows any of these; plain types in the short form."""
    if all(list(schema) == ["type"] and isinstance(schema["type"], str) for schema in schemas):
        return {"type": [schema["type"] for schema in schemas]}
    return {"anyOf": schemas}


def _inside(keyword: str, annotation: Any) -> dict[str, Any]:
    schema = schema_of(annotation)
    return {keyword: schema} if schema else {}


def _item(annotation: Any) -> Any:
    """Return the annotation of the items of a list, or of a tuple of one kind."""
    arguments = get_args(annotation)
    if (get_origin(annotation) or annotation) is tuple and arguments and arguments[1:] != (...,):
        raise Unfit(f"{annotation!r}: write tuple[X, ...] or a NamedTuple")
    return arguments[0] if arguments else Any


def _same(value: object, other: object) -> bool:
    """Return whether two values are equal as JSON: 3 is 3.0, and neither is true."""
    return value == other and isinstance(value, bool) == isinstance(other, bool)


def _is_number(value: object) -> bool:
    finite = -float("inf") < value < float("inf") if isinstance(value, int | float) else False
    return finite and not isinstance(value, bool)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
