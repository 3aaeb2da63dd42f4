"""Routes made of the table of acts: paths, queries and bodies from the functions' signatures.

FastAPI checks the kinds of what is given; the functions decide what is refused.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from inspect import Parameter
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, Field, create_model

from synapse.acts import knowledge
from synapse.acts.act import ATTACHMENTS, LISTS, ONCE, OPERATOR, READER, TIMES, WRITER, Act
from synapse.server import shapes
from synapse.server.answers import conditional, made
from synapse.server.callers import Operator, Reader, Writer
from synapse.server.problems import responses
from synapse.server.routes import parameters

_MEMORIES = {READER: Reader, WRITER: Writer, OPERATOR: Operator}
_QUERY_KINDS: dict[str, Any] = {
    "str": str,
    "str | None": str | None,
    "bool": bool,
    "int": int,
    "int | None": int | None,
}
_BODY_KINDS: dict[str, Any] = {
    "str": str,
    "str | None": str | None,
    "float": parameters.Number,
    "int": parameters.Whole,
    "bool": parameters.Flag,
    "str | bool": str | parameters.Flag,
    "Mapping[str, Any] | None": dict[str, Any] | None,
    ATTACHMENTS: Annotated[tuple[str | dict[str, Any], ...], Field(max_length=100)],
}


def router_of(noun: str, *problems: int) -> APIRouter:
    """Return a router with the acts of a noun, each of which may answer with these problems."""
    router = APIRouter(tags=[noun], responses=responses(*problems))
    for table in (knowledge,):
        for act in vars(table).values():
            if isinstance(act, Act) and act.noun == noun:
                serve(router, act)
    return router


def serve(router: APIRouter, act: Act[..., Any], **documented: Any) -> None:
    """Add the route of an act; `documented` is what its document has beside."""

    def answer(request: Request, memory: Any, body: Any = None, **values: Any) -> Response:
        if body is not None:
            values |= {name: getattr(body, name) for name in act.asked}
        result = _call(act, memory, values)
        form = act.answer.form(result)
        if act.reads:
            return conditional(request, form)
        if act.made:
            return made(form, 201, f"/v1/{act.answer.place}/{result.id}")
        return made(form)

    answer.__name__ = act.title or act.function.__name__
    answer.__doc__ = act.function.__doc__
    answer.__signature__ = inspect.Signature([*_takes(act)])  # type: ignore[attr-defined]
    router.add_api_route(
        act.place,
        answer,
        methods=[act.method],
        status_code=201 if act.made else 200,
        response_model=getattr(shapes, act.answer.shape),
        responses=responses(*act.problems),
        **documented,
    )


def _call(act: Act[..., Any], memory: Any, values: Mapping[str, Any]) -> Any:
    """Return what the function gives for the values of a request."""
    given = {
        name: _value(act, parameter, values[act.wire_name(name)])
        for name, parameter in act.signature.parameters.items()
        if act.wire_name(name) in values
    }
    return act.function(memory if act.of is None else act.of(memory), **given)


def _value(act: Act[..., Any], parameter: Parameter, value: Any) -> Any:
    """Return a value as the function takes it."""
    if parameter.name in act.absent and value == act.absent[parameter.name]:
        return None
    if parameter.annotation in TIMES:
        return parameters.moment(value)
    if parameter.annotation in LISTS and value is None and parameter.default == ():
        return ()
    return value


def _takes(act: Act[..., Any]) -> Iterator[Parameter]:
    """Yield the parameters of an act's route."""
    yield _parameter("request", Request)
    yield _parameter("memory", _MEMORIES[act.asked_by])
    for name in act.signature.parameters:
        if act.in_path(name):
            yield _parameter(act.wire_name(name), parameters.Id)
    if act.method == "GET":
        for name, parameter in act.asked.items():
            yield _parameter(name, *_in_query(act, parameter))
        return
    if act.needs_body:
        yield _parameter("body", _body(act))
    else:
        yield _parameter("body", _body(act) | None, None)
    if act.keyed:
        yield _parameter(ONCE, parameters.Once, None)


def _parameter(name: str, kind: Any, default: Any = Parameter.empty) -> Parameter:
    return Parameter(name, Parameter.KEYWORD_ONLY, annotation=kind, default=default)


def _in_query(act: Act[..., Any], parameter: Parameter) -> tuple[Any, Any]:
    """Return the kind and the default of what stands in an address."""
    name, default = parameter.name, parameter.default
    if parameter.annotation in LISTS:
        return parameters.Many, None
    if parameter.annotation in TIMES:
        return (parameters.SomeTime if act.is_needed(parameter) else parameters.Time), default
    kind = _QUERY_KINDS[parameter.annotation]
    limits = act.limits_of(parameter)
    if limits is not None:
        return Annotated[kind, Query(ge=limits[0], le=limits[1])], default
    return (str if name in act.absent else kind), default


def _body(act: Act[..., Any]) -> type[BaseModel]:
    """Return the class of an act's body, named by its place."""
    words = (step for step in act.place.split("/") if not step.startswith("{"))
    name = "".join(word.capitalize() for word in words)
    fields: dict[str, Any] = {
        name: _in_body(act, parameter) for name, parameter in act.asked.items()
    }
    return create_model(f"{name}Body", __base__=parameters.Body, **fields)


def _in_body(act: Act[..., Any], parameter: Parameter) -> tuple[Any, Any]:
    """Return the kind and the default of a field of a body."""
    default = None if parameter.name in act.optional else parameter.default
    limits = act.limits_of(parameter)
    kind: Any
    if parameter.annotation == "Names":
        if act.is_needed(parameter):
            return Annotated[list[str], Field(max_length=limits[1] if limits else 1_000)], ...
        if not act.takes_text(parameter):
            return parameters.Texts, ()
        kind = str | list[str]
        return (kind | None if default is None else kind), default
    kind = str | None if parameter.annotation in TIMES else _BODY_KINDS[parameter.annotation]
    if limits is not None:
        kind = Annotated[kind, Field(ge=limits[0], le=limits[1])]
    return kind, (... if act.is_needed(parameter) else default)
