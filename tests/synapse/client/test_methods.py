"""The client has the methods of the library, with their arguments; what it lacks has its reason."""

import inspect
import subprocess
import sys

import pytest

from synapse.agent_memory import AgentMemory
from synapse.client.knowledge import RemoteKnowledge
from synapse.client.mail import RemoteMail
from synapse.client.memory import RemoteMemory
from synapse.knowledge import memory
from synapse.mail.mailbox import Mail

GUARD = "a condition is checked under the log's lock: it is a function of the library"
LACKS = {
    "write unless": GUARD,
    "resolve unless": GUARD,
    "briefing worth": "what pays is decided by whoever spawns runs, in the folder",
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
    "session": "itself, for the methods that are made",
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


def test_every_function_of_knowledge_is_there():
    names = {function.__name__ for function in KNOWLEDGE}
    assert names - LACKS.keys() == names & vars(RemoteKnowledge).keys()
    assert names & LACKS.keys() == names - vars(RemoteKnowledge).keys()


def test_what_needs_the_folder_is_no_argument():
    knowledge = RemoteKnowledge(None)
    for given in ({"id": "fact_0123456789ab"}, {"unless": None}):
        with pytest.raises(TypeError, match=next(iter(given))):
            knowledge.remember("text", **given)


PROGRAM = """
from synapse.client.memory import RemoteMemory

def act(me: RemoteMemory) -> None:
    fact = me.knowledge.remember({given})
    print(fact.body, me.knowledge.links_of(fact.id)[0].strength, me.knowledge.why(fact.id).sources)
"""


def test_a_type_checker_knows_the_arguments(tmp_path):
    """Of methods that are made of the library's functions too."""
    right, wrong = tmp_path / "right.py", tmp_path / "wrong.py"
    right.write_text(PROGRAM.format(given="'text', importance=2.0"))
    wrong.write_text(PROGRAM.format(given="3, wait=True"))
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", right, wrong],
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert str(right) not in done.stdout, done.stdout
    assert 'Argument 1 has incompatible type "int"; expected "str"' in done.stdout
    assert 'Unexpected keyword argument "wait"' in done.stdout


def test_nothing_else_is_offered():
    theirs = {name for name in dir(AgentMemory) if not name.startswith("_")}
    ours = {name for name in dir(RemoteMemory) if not name.startswith("_")}
    assert ours - theirs == {*SPARE, "id", "mail", "knowledge", "cursor"}
    mail = {name for name in dir(RemoteMail) if not name.startswith("_")}
    assert mail == {name for name in dir(Mail) if not name.startswith("_")}


def test_the_lists_name_what_there_is():
    """A row for what the client has got, or the library lost, fails."""
    functions = {each.__name__: each for each in KNOWLEDGE}
    for row in LACKS:
        name, _, argument = row.partition(" ")
        theirs = getattr(AgentMemory, name, None) or functions[name]
        assert not argument or argument in inspect.signature(theirs).parameters, row
