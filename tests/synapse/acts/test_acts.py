"""What a caller of the client's method gives is what the function gets on the server: every act of
the table, every parameter.
"""

from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from fastapi import APIRouter

import synapse
from synapse.acts import knowledge, mail, memory, operator
from synapse.acts.act import ATTACHMENTS, LISTS, MARK, ONCE, OPERATOR, TIMES, Act
from synapse.client.remote import remote
from synapse.errors import Conflict
from synapse.model.dates import since
from synapse.model.entry import words
from synapse.model.message import attachment
from synapse.server.limits import Limits
from synapse.server.routes.acts import Own, serve
from synapse.trust.bearer import new_token
from tests.synapse.served import serving

ACTS = {
    f"{table.__name__.rpartition('.')[2]}.{name}": act
    for table in (memory, mail, knowledge, operator)
    for name, act in vars(table).items()
    if isinstance(act, Act)
}
LATER = 1_769_904_000_000_000
GIVEN = {
    "str": "text",
    "str | None": "text",
    "str | bool": True,
    "str | int": "2026-02-01",
    "str | int | None": LATER,
    "When": datetime(2026, 2, 1, tzinfo=UTC),
    "float": 0.25,
    "int": 7,
    "int | None": 7,
    "Mapping[str, Any] | None": {"key": [1, None]},
    ATTACHMENTS: [{"url": "https://host.example/"}, "https://host.example/", __file__],
    "Names": ("one", "two"),
    "Iterable[str]": ("one", "two"),
    "Collection[str]": ("one", "two"),
}


def watched(act, heard):
    """Return the act with a function of the same signature that keeps what it gets, and refuses."""

    def keep(memory, **values):
        bound = act.signature.bind(memory, **values)
        bound.apply_defaults()
        heard.append(bound.arguments)
        raise Conflict("heard")

    keep.__name__, keep.__signature__ = act.function.__name__, act.signature
    return replace(act, function=keep, of=None, route=act.route.replace(" /", " /watched/"))


@pytest.fixture(scope="module")
def ask(tmp_path_factory):
    """Return a function that calls a method and returns what the act's function got."""
    heard, tokens = [], str(tmp_path_factory.mktemp("tokens") / "tokens")
    acts = {name: watched(act, heard) for name, act in ACTS.items()}

    def extend(app):
        router = APIRouter()
        for act in acts.values():
            serve(router, act, Own())
        app.include_router(router, prefix="/v1")

    memory = synapse.open("memory:")
    memory.register(synapse.Agent("eng", read=("*",), write=("*",)))
    with serving(memory, tokens, (extend,), limits=Limits(rate=0)) as address:
        sessions = {
            agent: synapse.connect(address, new_token(tokens, agent)) for agent in ("eng", OPERATOR)
        }

        def call(name, given):
            heard.clear()
            act = acts[name]
            session = sessions[OPERATOR if act.role == OPERATOR else "eng"]
            with pytest.raises(Conflict, match="heard"):
                remote(act)(SimpleNamespace(agent_memory=session), **given)
            (got,) = heard
            return alike(act, got)

        yield call
        for session in sessions.values():
            session.close()


def alike(act, values):
    """Return values in one of the forms in which they may be given; a key that was drawn is none."""
    forms = {}
    for name, parameter in taken(act).items():
        value, kind = values.get(name, parameter.default), parameter.annotation
        default = () if parameter.default is parameter.empty else parameter.default
        if kind in LISTS:
            value = (*words(default if value is None else value),)
        elif kind == ATTACHMENTS:
            value = [dict(attachment(source)) for source in value]
        elif kind in TIMES:
            value = since(value, LATER)
        elif name == ONCE and value != GIVEN[kind]:
            value = None
        if name == "limit" and act.reads and (value is None or value == default == 0):
            value = 1_000  # a page has no more rows
        forms[name] = list(value) if isinstance(value, tuple) else value
    return forms


def taken(act):
    """Return the parameters of an act that a request has."""
    named = act.signature.parameters.items()
    return {name: each for name, each in named if name not in ("self", MARK)}


def all_given(act):
    """Return a value for each parameter that is not its default."""
    return {
        name: not each.default if each.annotation == "bool" else GIVEN[each.annotation]
        for name, each in taken(act).items()
    }


def needed(act):
    """Return a value for each parameter that has no default."""
    return {
        name: GIVEN[each.annotation]
        for name, each in taken(act).items()
        if each.default is each.empty
    }


@pytest.mark.parametrize("name", ACTS)
def test_everything_that_is_given_arrives(ask, name):
    given = all_given(ACTS[name])
    assert ask(name, given) == alike(ACTS[name], given)


@pytest.mark.parametrize("name", ACTS)
def test_what_is_left_out_is_the_default_of_the_library(ask, name):
    given = needed(ACTS[name])
    assert ask(name, given) == alike(ACTS[name], given)


@pytest.mark.parametrize("name", ACTS)
def test_none_arrives_as_none(ask, name):
    """Also where None is not the default."""
    nothing = {
        name: None
        for name, each in taken(ACTS[name]).items()
        if each.annotation in ("Names", "When") or "None" in each.annotation
    }
    given = {**needed(ACTS[name]), **nothing}
    assert ask(name, given) == alike(ACTS[name], given)


def test_no_request_names_a_file_of_the_server_or_acts_as_another():
    """A new argument is on the wire at once: these are kept off it."""
    assert {*operator.verify.inputs} == {"head"}
    assert {*operator.undo.inputs} == {"what", "plan"}
