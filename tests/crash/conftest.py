"""A workspace for the checks that ask what others read. Holds no test."""

import pytest

import synapse
from synapse.model.agents import Agent

STAYS = frozenset(f"It stays: {n}." for n in range(20))


@pytest.fixture
def root(tmp_path):
    """A workspace of three agents who may read and write everything, with twenty entries."""
    root = tmp_path / "ws"
    with synapse.init(str(root)) as memory:
        for id in ("eng-a", "eng-b", "eng-c"):
            memory.register(Agent(id, "engineer", read=("*",), write=("*",)))
        for body in sorted(STAYS):
            memory.as_agent("eng-a").append(body, "decisions/y")
    return root
