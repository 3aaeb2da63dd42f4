"""The client has all that the library has, with its arguments; what it lacks has its reason."""

import inspect
import subprocess
import sys

import pytest

from synapse.acts.act import LOCAL
from synapse.agent_memory import AgentMemory
from synapse.client.knowledge import RemoteKnowledge
from synapse.client.mail import RemoteMail
from synapse.client.memory import RemoteMemory
from synapse.knowledge import memory
from synapse.mail.mailbox import Mail

LACKS = {
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
TIMES = {"why", "recall", "recent", "agent_acts", "timeline"}  # functions of other modules
SPARE = {
    "log": "the shell's changelog, which the library makes of the store's acts",
    "agents": "of whom the store tells the library",
    "close": "closes the connections",
    "known": "whether a text can stand in a path",
    "agent_memory": "itself, as mail and knowledge have it",
    "mail": "`Mail` of the library",
    "knowledge": "the functions of `synapse.knowledge`",
    "cursor": "that of the store",
    "id": "an attribute of the library's",
}


def public(kind):
    return {name for name in dir(kind) if not name.startswith("_")}


def test_everything_of_the_library_is_there():
    knowledge = {
        name
        for name, function in vars(memory).items()
        if inspect.isfunction(function) and function.__module__ == memory.__name__
    }
    knowledge = {name for name in knowledge if not name.startswith("_")}
    assert public(RemoteMemory) - public(AgentMemory) == SPARE.keys()
    assert public(AgentMemory) - public(RemoteMemory) == set()
    assert public(RemoteMail) == public(Mail)
    assert public(RemoteKnowledge) - knowledge == TIMES
    assert knowledge - public(RemoteKnowledge) == LACKS.keys()


@pytest.mark.parametrize("name", ["write", "follow"])
def test_what_is_written_by_hand_takes_what_the_library_takes(name):
    """All other methods are made of the library's functions."""
    theirs, ours = (
        inspect.signature(getattr(kind, name)).parameters for kind in (AgentMemory, RemoteMemory)
    )
    assert [str(each) for each in ours.values()] == [
        str(each) for each in theirs.values() if each.name not in LOCAL
    ]


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
    print(me.append("text", "api/x", tags=["a"]).id, me.read(limit=3).cursor, me.mail.poll() + 1)
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
