"""Every argument of every public function, given values of other types: an error in words, or it
works.
"""

import datetime
import inspect
import pathlib
from contextlib import ExitStack
from functools import partial
from itertools import count
from types import SimpleNamespace

import pytest

import synapse
from synapse.compat.brain import UnifiedBrain
from synapse.errors import InvalidEntry, SynapseError
from synapse.knowledge import memory as knowledge
from synapse.system.checks import checked, refused
from synapse.testing import FrozenClock


class Numbers:
    """What can be gone through, and has no length."""

    def __iter__(self):
        return iter((1, 2))


WRONG = {
    "a number": 30,
    "a negative": -1,
    "a fraction": 1.5,
    "nan": float("nan"),
    "true": True,
    "none": None,
    "bytes": b"text",
    "a text": "text",
    "no text": "",
    "a number as text": "3",
    "half a character": "\ud800",
    "a zero": "a\0b",
    "a list": ["text"],
    "numbers": [5],
    "nothing": [],
    "a dict": {"a": 1},
    "a set": {"text"},
    "an object": object(),
    "a class": int,
    "a datetime": datetime.datetime(2026, 2, 1, tzinfo=datetime.UTC),
    "a date": datetime.date(2026, 2, 1),
    "a path": pathlib.Path("nowhere"),
    "a generator": Numbers(),
    "huge": 10**30,
}
AGENT = synapse.Agent("eng-a", read=("*",), write=("*",), authority=90)


def memory():
    mem = synapse.open("memory:", clock=FrozenClock())
    mem.register(AGENT)
    mem.register(synapse.Agent("lead", role="cto"))
    return mem


def agent_memory():
    me = memory().as_agent("eng-a")
    me.append("text", "api/x", once="first")
    return me


def mail():
    mine = synapse.Mail(agent_memory())
    mine.send("lead", "text", subject="s", thread=None)
    return mine


def store():
    return synapse.SharedMemoryStore(memory(), "eng-a")


# What an argument is where it is right, by function and then by name.
RIGHT = {
    "id": "syn-2026-02-01-001",
    "ids": ["syn-2026-02-01-001"],
    "body": "text",
    "namespace": "api/x",
    "query": "text",
    "agent": AGENT,
    "draft": synapse.Draft("text", "api/x", "eng-a"),
    "work": "a task",
    "as_of": "24h",
    "whom": "eng-a",
    "to": "lead",
    "thread": "thr_x",
    "reaction": "+1",
    "subject": "subject",
    "fact": "a fact",
    "scope": "agent",
    "fact_id": "fact_0123456789ab",
    "lines": [],
    "reason": "because",
}
MADE = {
    synapse.Memory: memory,
    synapse.AgentMemory: agent_memory,
    synapse.Mail: mail,
    synapse.SharedMemoryStore: store,
}
# `close` takes the place away, `follow` waits, `migrate` is another's
APART = {"close", "follow", "migrate"}
KNOWLEDGE = ("remember", "atom", "link", "links_of", "forget", "uses_of")
RIGHT |= {
    "subject": "s", "action": "a", "outcome": "o", "consequences": "c", "cause": "atom_0123456789ab",
    "effect": "atom_0123456789ac", "agent_id": "eng-a", "message_id": "syn_0123456789ab", "thread_id": "thr_x",
    "content": "a fact", "from_id": "a", "to_id": "b", "knowledge_id": "fact_0123456789ab",
}  # fmt: skip


def knowing():
    """The functions of `synapse.knowledge.memory` at one seat."""
    me = agent_memory()
    functions = {name: partial(getattr(knowledge, name), me) for name in KNOWLEDGE}
    return SimpleNamespace(store=me.store, **functions)


def public(kind):
    if kind is knowledge:
        return {name: getattr(knowledge, name) for name in KNOWLEDGE}
    functions = {name: each for name, each in vars(kind).items() if inspect.isfunction(each)}
    return {
        name: each
        for name, each in functions.items()
        if not name.startswith("_") and name not in APART
    }


def cases(*kinds):
    for kind in kinds:
        for name, function in public(kind).items():
            for parameter in list(inspect.signature(function).parameters)[1:]:
                label = f"{kind.__name__.rpartition('.')[2]}.{name}({parameter})"
                yield pytest.param(kind, name, parameter, id=label)


def arguments(kind, name, wrong, value):
    """The arguments of a call that is right but for one of them."""
    given = {}
    for parameter in list(inspect.signature(public(kind)[name]).parameters.values())[1:]:
        if parameter.name == wrong:
            given[parameter.name] = value
        elif parameter.default is inspect.Parameter.empty:
            right = (
                "eng-a" if (name, parameter.name) == ("as_agent", "id") else RIGHT[parameter.name]
            )
            given[parameter.name] = right
    return given


def refusal(what, call):
    """The error in words that a call ends with, None where it works; whatever else comes out fails
    the test.
    """
    try:
        found = call()
        if inspect.isgenerator(found):
            list(found)
    except SynapseError as error:
        text = str(error)
    except Exception as error:
        raise AssertionError(f"{what}: {type(error).__name__}: {error}") from error
    else:
        return None
    assert text, what
    assert "object has no attribute" not in text
    return text


def tried(make, kind, name, wrong):
    """Call with each wrong value: what is refused leaves nothing, what works leaves a memory that
    can be read.
    """
    thing = before = None
    for what, value in WRONG.items():
        if thing is None or store_of(thing).log.mark() != before:
            thing = make()
            before = store_of(thing).log.mark()
        told = refusal(what, partial(getattr(thing, name), **arguments(kind, name, wrong, value)))
        if told is not None:
            assert store_of(thing).log.mark() == before, (
                f"{what}: {told}: something was written all the same"
            )
        else:
            mem = synapse.Memory(store_of(thing))
            assert mem.as_agent("operator").read(namespace="*").matched >= 0
            assert list(mem.export())


def store_of(thing):
    return getattr(thing, "memory", thing).store


@pytest.mark.parametrize(("kind", "name", "wrong"), list(cases(*MADE)))
def test_a_wrong_type_is_an_error_in_words_or_works(kind, name, wrong):
    tried(MADE[kind], kind, name, wrong)


@pytest.mark.parametrize(("kind", "name", "wrong"), list(cases(knowledge)))
def test_knowledge_says_so_too(kind, name, wrong):
    tried(knowing, kind, name, wrong)


@pytest.mark.parametrize(("kind", "name", "wrong"), list(cases(UnifiedBrain)))
def test_a_brain_says_so_too(kind, name, wrong, tmp_path):
    places = (tmp_path / f"{n}.db" for n in count())
    with ExitStack() as opened:

        def make():
            brain = opened.enter_context(UnifiedBrain(str(next(places)), "eng-a"))
            # who is met is registered, whatever becomes of the message
            brain.send("lead", "s", "text")
            return brain

        tried(make, kind, name, wrong)


@pytest.mark.parametrize("function", [synapse.open, synapse.init])
def test_addresses(function, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for what, value in WRONG.items():
        refusal(what, lambda value=value: function(value).close())
    with synapse.init(tmp_path / "here") as mem:
        mem.register(AGENT)
    with synapse.open(tmp_path / "here") as mem:
        assert [agent.id for agent in mem.agents()] == ["eng-a"]
    with synapse.open(str(tmp_path / "here")):
        pass


@pytest.mark.parametrize("field", synapse.Agent._fields)
def test_the_fields_of_an_agent(field):
    for what, value in WRONG.items():
        mem = memory()
        agent = AGENT._replace(id="new")._replace(**{field: value})
        refusal(what, partial(mem.register, agent))
        assert mem.agents()


@pytest.mark.parametrize("field", synapse.Draft._fields)
def test_the_fields_of_a_draft(field):
    for what, value in WRONG.items():
        me = agent_memory()
        before = me.store.log.mark()
        draft = synapse.Draft("text", "api/x", "eng-a")._replace(**{field: value})
        if refusal(what, partial(me.write, draft)) is not None:
            assert me.store.log.mark() == before
        assert me.read()


def test_follow_refuses_at_once():
    for value in ("3", 1.5, b"x", [], 10**30):
        with pytest.raises(SynapseError):
            agent_memory().follow(value)
    with pytest.raises(InvalidEntry, match="timeout"):
        agent_memory().follow(timeout="1")


def test_names_that_there_are_none_of_are_pythons_own_error():
    with pytest.raises(TypeError, match="unexpected keyword argument 'prority'"):
        agent_memory().append("text", "api/x", prority="info")
    with pytest.raises(TypeError, match="missing"):
        agent_memory().append("text")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"ttl": 30}, "ttl is 30, an int: write a text such as 30m, 24h, 7d or never"),
        ({"body": b"text"}, "body is b'text', a bytes: write a text"),
        (
            {"namespace": None},
            "namespace is None, a NoneType: write a place, such as api/endpoints",
        ),
        ({"tags": 5}, "tags is 5, an int: write a text or a list of texts, such as ['api', 'v2']"),
        ({"priority": None}, "priority is None, a NoneType: write a priority, such as critical"),
        ({"pii": "no"}, "pii is 'no', a str: write True or False"),
        ({"body": "\ud800"}, "body holds half of a surrogate pair, which is no text in UTF-8"),
    ],
)
def test_an_error_says_what_to_write(given, told):
    with pytest.raises(InvalidEntry) as caught:
        agent_memory().append(**({"body": "text", "namespace": "api/x"} | given))
    assert str(caught.value) == told


def test_reads_say_what_to_write():
    with pytest.raises(InvalidEntry, match="limit is '3', a str: write a whole number or None"):
        agent_memory().read(limit="3")


def test_a_check_that_sees_nothing_would_be_found_out():
    """The generated test catches a function that relies on its callers."""

    @checked
    class Careful:
        def shout(self, text: "str", times: "int | None" = None) -> "str":
            return text.upper() * (times or 1)

    assert Careful().shout("a", times=2) == "AA"
    for wrong in (b"a", None, 5):
        with pytest.raises(InvalidEntry):
            Careful().shout(wrong)
    assert inspect.signature(Careful.shout).parameters["times"].default is None
    assert "write a whole number or None" in str(refused("times", "2", "int | None"))
