"""The client has the methods of the library, with their arguments; what it lacks has its reason."""

import inspect

import pytest

from synapse.agent_memory import AgentMemory
from synapse.client.knowledge import RemoteKnowledge
from synapse.client.mail import RemoteMail
from synapse.client.memory import RemoteMemory
from synapse.history import timeline
from synapse.knowledge import memory, provenance, recall
from synapse.mail.mailbox import Mail

GUARD = "a condition is checked under the log's lock: it is a function of the library"
LACKS = {
    "write unless": GUARD,
    "resolve unless": GUARD,
    "remember unless": GUARD,
    "forget unless": GUARD,
    "briefing worth": "what pays is decided by whoever spawns runs, in the folder",
    "remember id": "the server draws the id",
    "atom id": "the server draws the id",
    "uses_of": "a count for the operator's statistics",
    "used": "noted by whoever answers a recall",
    "harvest": "done by the server, with each message that is sent",
    "summarise": "done by the server, where a thread is closed with a summary",
    "not_kept": "pure: no memory is asked",
    "parse_tags": "pure: no memory is asked",
    "sentence": "pure: no memory is asked",
    "place": "pure: no memory is asked",
    "sees": "asks the store; a client asks `get`",
}
SPARE = {
    "log": "the shell's changelog, which the library makes of the store's acts",
    "agents": "of whom the store tells the library",
    "close": "closes the connections",
    "known": "whether a text can stand in a path",
    "recall": "`synapse.knowledge.recall.search`",
}
KNOWLEDGE = [
    function
    for name, function in vars(memory).items()
    if inspect.isfunction(function)
    and function.__module__ == memory.__name__
    and not name.startswith("_")
]
PAIRS = [
    *((name, AgentMemory, RemoteMemory) for name in dir(AgentMemory)),
    *((name, Mail, RemoteMail) for name in dir(Mail)),
]
PAIRS = [pair for pair in PAIRS if not pair[0].startswith("_")]


def arguments(function, *without):
    found = inspect.signature(function).parameters
    return {
        name: (each.kind, each.default, each.annotation)
        for name, each in found.items()
        if name not in ("self", *without)
    }


def same(name, theirs, ours, *without):
    """What the library takes and the client does not is in the list, and nothing else differs."""
    wanted = {
        each: how
        for each, how in arguments(theirs, *without).items()
        if f"{name} {each}" not in LACKS
    }
    assert arguments(ours) == wanted


@pytest.mark.parametrize(
    ("name", "library", "client"),
    PAIRS,
    ids=[f"{library.__name__}.{name}" for name, library, _ in PAIRS],
)
def test_every_method_has_its_twin(name, library, client):
    theirs, ours = getattr(library, name), getattr(client, name)
    if callable(theirs):
        same(name, theirs, ours)
    else:
        assert isinstance(ours, property)


@pytest.mark.parametrize("function", KNOWLEDGE, ids=lambda each: each.__name__)
def test_every_function_of_knowledge_has_its_twin(function):
    name = function.__name__
    ours = getattr(RemoteKnowledge, name, None)
    assert (ours is None) == (name in LACKS), name
    if ours is not None:
        same(name, function, ours, "me")


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (provenance.why, "why"),
        (recall.search, "recall"),
        (timeline.recent, "recent"),
        (timeline.agent_acts, "agent_acts"),
        (timeline.timeline, "timeline"),
    ],
)
def test_times_and_trails_have_theirs(function, name):
    same(name, function, getattr(RemoteKnowledge, name), "me")


def test_nothing_else_is_offered():
    theirs = {name for name in dir(AgentMemory) if not name.startswith("_")}
    ours = {name for name in dir(RemoteMemory) if not name.startswith("_")}
    assert ours - theirs == {*SPARE, "id", "mail", "knowledge", "cursor"} - {"recall"}
    mail = {name for name in dir(RemoteMail) if not name.startswith("_")}
    assert mail == {name for name in dir(Mail) if not name.startswith("_")}


def test_the_lists_name_what_there_is():
    """A row for what the client has got, or the library lost, fails."""
    functions = {each.__name__: each for each in KNOWLEDGE}
    for row in LACKS:
        name, _, argument = row.partition(" ")
        theirs = getattr(AgentMemory, name, None) or functions[name]
        assert not argument or argument in inspect.signature(theirs).parameters, row
