"""A spawned run acts as its own agent and as nobody else, in the library and in the shell."""

import os
import subprocess
import sys

import pytest

import synapse
from synapse.cli.verbs import OPERATORS, VERBS


@pytest.fixture
def root(tmp_path):
    with synapse.init(str(tmp_path / "memory")) as memory:
        memory.register(synapse.Agent("eng", read=["api/*"], write=["api/*"]))
        memory.register(synapse.Agent("cto", role="cto"))
        memory.as_agent("cto").append("a secret", "decisions/core")
        memory.as_agent("eng").append("body", "api/x")
    return str(tmp_path / "memory")


@pytest.fixture
def run(monkeypatch):
    monkeypatch.setenv("SYNAPSE_RUN", "run-1")
    monkeypatch.setenv("SYNAPSE_AGENT", "eng")


def test_the_library_acts_as_its_agent_alone(root, run):
    with synapse.open(root) as memory:
        me = memory.as_agent("eng")
        assert [entry.body for entry in me.read()] == ["body"]
        me.append("more", "api/x")
        for name in ("cto", "operator", "nobody", "consolidator"):
            with pytest.raises(synapse.Forbidden, match="run-1"):
                memory.as_agent(name)
        with pytest.raises(synapse.Forbidden):
            memory.register(synapse.Agent("eng", role="cto"))


WHOLE = {
    "audit": lambda memory: memory.audit(),
    "export": lambda memory: list(memory.export()),
    "export as A": lambda memory: list(memory.export("A")),
    "import": lambda memory: memory.import_([]),
    "repair": lambda memory: memory.repair(),
    "tell": lambda memory: memory.tell("cto", "in the operator's name"),
    "questions": lambda memory: memory.questions(),
}


@pytest.mark.parametrize("act", WHOLE)
def test_what_shows_or_changes_the_whole_is_not_for_a_run(root, run, act):
    with synapse.open(root) as memory, pytest.raises(synapse.Forbidden):
        WHOLE[act](memory)


def test_a_seat_taken_before_is_no_way_around(root, monkeypatch):
    with synapse.open(root) as memory:
        memory.as_agent("cto")
        monkeypatch.setenv("SYNAPSE_RUN", "run-1")
        monkeypatch.setenv("SYNAPSE_AGENT", "eng")
        with pytest.raises(synapse.Forbidden):
            memory.as_agent("cto")


def test_a_run_without_an_agent_is_nobody(root, monkeypatch):
    monkeypatch.setenv("SYNAPSE_RUN", "run-1")
    monkeypatch.delenv("SYNAPSE_AGENT", raising=False)
    with synapse.open(root) as memory, pytest.raises(synapse.Forbidden):
        memory.as_agent("eng")


def shell(root, *words):
    env = os.environ | {"SYNAPSE_RUN": "run-1", "SYNAPSE_AGENT": "eng", "SYNAPSE_ROOT": root}
    done = subprocess.run(
        [sys.executable, "-m", "synapse", *words],
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("verb", sorted(OPERATORS & set(VERBS)))
def test_the_shell_refuses_the_operator_s_verbs(root, verb):
    needed = {"register": ["--id", "new"], "import": ["x"], "init": ["y"]}
    needed |= {"backup": ["x"], "redact": ["x", "--reason", "y"], "revoke": ["x"]}
    needed |= {"token": ["list"], "webhooks": ["list"]}
    code, said = shell(root, verb, *needed.get(verb, []))
    assert (code, "a secret" in said, "SYNAPSE_RUN" in said or "run" in said) == (4, False, True)


@pytest.mark.parametrize(
    "words",
    [
        ("read", "--agent", "cto"),
        ("read", "--agent", "operator"),
        ("search", "--agent", "cto", "secret"),
        ("view", "cto"),
        ("unread", "--agent", "cto"),
        ("watch", "--agent", "cto", "--since", "0", "--timeout", "0"),
        ("log", "--agent", "cto"),
        ("write", "--from", "cto", "--namespace", "api/x", "body"),
        ("approve", "--from", "cto"),
        ("undo", "--from", "cto", "last"),
        ("undo", "--from", "operator", "last"),
    ],
)
def test_the_shell_acts_as_nobody_else(root, words):
    code, said = shell(root, *words)
    assert (code, "a secret" in said) == (4, False)


@pytest.mark.parametrize(
    "words",
    [
        ("read",),
        ("search", "secret"),
        ("view",),
        ("log",),
        ("watch", "--since", "0", "--timeout", "0"),
    ],
)
def test_the_shell_reads_as_its_agent_where_nobody_is_named(root, words):
    code, said = shell(root, *words)
    assert (code, "a secret" in said) == (0, False)
