"""Methods of a remote memory, made of the table of acts.

To a type checker a method takes what the library's function takes; at run time it lacks the
arguments that need the folder (`acts.act.LOCAL`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, Concatenate, Protocol

from synapse.acts.act import ATTACHMENTS, LISTS, MARK, ONCE, TIMES, Act, P, R
from synapse.client.arguments import moment, path, several
from synapse.client.session import Session
from synapse.errors import InvalidQuery
from synapse.model.entry import words
from synapse.model.message import attachment
from synapse.system.checks import check_values


class Asking(Protocol):
    """Anything with a session at a server."""

    @property
    def agent_memory(self) -> Session: ...


Note = Callable[[Any, R, Mapping[str, Any]], None]


def remote(act: Act[P, R], note: Note[R] | None = None) -> Callable[Concatenate[Any, P], R]:
    """Return the method that asks a server for an act. Where its caller says `mark`, `note` is
    called with the result, once it has arrived.
    """
    signature = act.signature
    annotations = {name: str(each.annotation) for name, each in signature.parameters.items()}
    steps = act.place.strip("/").split("/")
    in_path = {f"{{{act.wire_name(name)}}}": name for name in annotations if act.in_path(name)}

    @wraps(act.function)
    def method(self: Asking, /, *args: P.args, **named: P.kwargs) -> R:
        bound = signature.bind(self, *args, **named)
        bound.apply_defaults()
        values = dict(bound.arguments)
        session: Session = values.pop("self").agent_memory
        check_values(annotations, values)
        known = {step: session.known(values[name]) for step, name in in_path.items()}
        url, transport = path(*(known.get(step, step) for step in steps)), session.transport
        if act.method == "GET":
            answer = transport.get(url, **_query(act, values))
        elif act.keyed:
            answer = transport.post(url, _body(act, values), values[ONCE])
        else:
            answer = transport.post_once(url, _body(act, values))
        result = transport.value(act.answer.parse, answer)
        if note is not None and values[MARK]:
            note(self, result, values)
        return result

    method.__signature__ = signature  # type: ignore[attr-defined]
    return method


def _query(act: Act[..., Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an address has behind its `?`; what is said anyway is left out."""
    form: dict[str, Any] = {}
    for name, parameter in act.inputs.items():
        value = values[parameter.name]
        if value is None:
            value = act.absent.get(parameter.name)
        elif name == "limit" and value < 0:
            if not act.clamps:
                raise InvalidQuery(f"limit {value} is negative", limit=value)
            value = 0
        elif parameter.annotation in TIMES:
            value = moment(value)
        elif parameter.annotation in LISTS:
            value = several(value if isinstance(value, str) else tuple(value))
        if value or value != parameter.default:
            form[name] = "false" if value is False else value
    return form


def _body(act: Act[..., Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a request holds; what is left out is None there too."""
    form: dict[str, Any] = {}
    for name, parameter in act.inputs.items():
        value = values[parameter.name]
        if parameter.annotation == "Names":
            value = _names(value, act.takes_text(parameter), act.is_needed(parameter))
        elif parameter.annotation in TIMES:
            value = moment(value)
        elif parameter.annotation == ATTACHMENTS:
            value = [dict(attachment(source)) for source in value]
        if value is not None:
            form[name] = value
    return form


def _names(value: Any, text: bool, needed: bool) -> Any:
    if (value is None and not needed) or (text and isinstance(value, str)):
        return value
    return list(value if text else words(value))
