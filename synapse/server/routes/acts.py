"""Routes made of the table of acts: paths, queries and bodies from the functions' signatures.

FastAPI checks the kinds of what is given; the functions decide what is refused.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from inspect import Parameter
from typing import Annotated, Any, NamedTuple

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, Field, create_model

from synapse.acts import knowledge, mail, memory, operator
from synapse.acts.act import (
    ATTACHMENTS,
    LISTS,
    ONCE,
    OPERATOR,
    PAGE,
    READER,
    TIMES,
    TOKENS,
    WRITER,
    Act,
)
from synapse.errors import InvalidEntry
from synapse.server import shapes
from synapse.server.answers import conditional, made
from synapse.server.callers import Operator, Reader, Writer
from synapse.server.problems import responses
from synapse.server.routes import parameters

ACTS: tuple[Act[..., Any], ...] = tuple(
    act
    for table in (memory, mail, knowledge, operator)
    for act in vars(table).values()
    if isinstance(act, Act)
)
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


class Own(NamedTuple):
    """What a route has of its own, beside the table: fields with their kinds and defaults, another
    way to answer, and responses in the document.
    """

    fields: Mapping[str, tuple[Any, Any]] = {}
    answer: Callable[[Request, Any, dict[str, Any]], Response] | None = None
    responses: Mapping[int | str, dict[str, Any]] = {}


def router_of(
    noun: str, *problems: int, own: Mapping[Act[..., Any], Own] | None = None
) -> APIRouter:
    """Return a router with the acts of a noun, each of which may answer with these problems."""
    router = APIRouter(tags=[noun], responses=responses(*problems))
    for act in ACTS:
        if act.noun == noun:
            serve(router, act, (own or {}).get(act, Own()))
    return router


def serve(router: APIRouter, act: Act[..., Any], own: Own) -> None:
    """Add the route of an act."""
    kind = _in_query if act.method == "GET" else _in_body
    fields = {name: kind(act, each) for name, each in act.inputs.items()} | dict(own.fields)

    def answer(request: Request, memory: Any, body: Any = None, **values: Any) -> Response:
        if body is not None:
            values |= {name: getattr(body, name) for name in fields}
        if own.answer is not None:
            return own.answer(request, memory, values)
        return respond(act, request, memory, values)

    answer.__name__ = act.title or act.function.__name__
    answer.__doc__ = act.description or act.function.__doc__
    parameters = [*_takes(act, fields)]
    answer.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    router.add_api_route(
        act.place,
        answer,
        methods=[act.method],
        status_code=201 if act.creates else 200,
        response_model=getattr(shapes, act.answer.shape),
        operation_id=act.operation,
        responses={**_links(act), **own.responses, **responses(*act.problems)},
    )


def respond(
    act: Act[..., Any], request: Request, memory: Any, values: Mapping[str, Any]
) -> Response:
    """Return the answer to a request for an act."""
    result = call(act, memory, values)
    form = act.answer.form(result)
    if act.reads:
        return conditional(request, form)
    if act.creates:
        return made(form, 201, f"/v1/{act.answer.place}/{result.id}")
    return made(form)


def _links(act: Act[..., Any]) -> dict[int | str, dict[str, Any]]:
    """Return what the document says of the acts that go on from what was made."""
    links = {
        each.function.__name__: {
            "operationId": each.operation,
            "parameters": {"id": "$response.body#/id"},
        }
        for each in ACTS
        if act.creates and each.operation and each.place.startswith(f"{act.place}/{{id}}")
    }
    return {201: {"links": links}} if links else {}


def call(act: Act[..., Any], memory: Any, values: Mapping[str, Any]) -> Any:
    """Return what the function gives for the values of a request."""
    given = {
        name: _value(act, parameter, values[act.wire_name(name)])
        for name, parameter in act.signature.parameters.items()
        if act.wire_name(name) in values
    }
    if act.reads:
        given |= _bounds(act, given)
    result = act.function(memory if act.of is None else act.of(memory), **given)
    return result[:PAGE] if isinstance(result, list) and len(result) > PAGE else result


def _bounds(act: Act[..., Any], given: Mapping[str, Any]) -> dict[str, int]:
    """Return the limit and the budget of a question within those of a page. No limit, and 0 where
    that is said by default, ask for all.
    """
    bounds = {}
    limit, budget = act.signature.parameters.get("limit"), given.get("budget")
    if limit is not None:
        asked = given.get("limit", limit.default)
        asks_all = asked is None or asked == limit.default == 0
        bounds["limit"] = PAGE if asks_all else min(asked, PAGE)
    if budget is not None:
        bounds["budget"] = min(budget, TOKENS)
    return bounds


def _value(act: Act[..., Any], parameter: Parameter, value: Any) -> Any:
    """Return a value as the function takes it."""
    if parameter.name in act.absent and value == act.absent[parameter.name]:
        return None
    if parameter.annotation in TIMES:
        return parameters.moment(value)
    if parameter.annotation == ATTACHMENTS:
        return [_elsewhere(source) for source in value]
    if parameter.annotation in LISTS and value is None and parameter.default == ():
        return ()
    return value


def _elsewhere(source: str | Mapping[str, Any]) -> str | Mapping[str, Any]:
    """Return an attachment that no file of this machine has to be read for."""
    if isinstance(source, str) and "://" not in source:
        raise InvalidEntry(
            "an attachment over HTTP is a link, or an object with a path and what was"
            " measured of the file: the server opens no files of its callers"
        )
    return source


def _takes(act: Act[..., Any], fields: Mapping[str, tuple[Any, Any]]) -> Iterator[Parameter]:
    """Yield the parameters of an act's route."""
    yield _parameter("request", Request)
    yield _parameter("memory", _MEMORIES[act.role])
    for name in act.signature.parameters:
        if act.in_path(name):
            yield _parameter(act.wire_name(name), parameters.Id)
    if act.method == "GET":
        for name, (kind, default) in fields.items():
            yield _parameter(name, kind, default)
        return
    body = _body(act, fields)
    if act.needs_body:
        yield _parameter("body", body)
    else:
        yield _parameter("body", body | None, None)
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


def _body(act: Act[..., Any], fields: Mapping[str, Any]) -> type[BaseModel]:
    """Return the class of an act's body, named by its place."""
    steps = (step for step in act.place.split("/") if not step.startswith("{"))
    name = "".join(step.capitalize() for step in steps)
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
