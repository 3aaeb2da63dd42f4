"""What the tests of nights share."""

import pytest

import synapse
from synapse.model.agents import Agent
from synapse.testing import FrozenClock


@pytest.fixture(params=["memory", "files"])
def world(request, tmp_path):
    """A memory with a team, and its clock. `deaf` may write everywhere, and reads no more than its
    team's.
    """
    clock = FrozenClock()
    if request.param == "files":
        synapse.init(str(tmp_path / "shared"), clock=clock).close()
    mem = synapse.open(
        "memory:" if request.param == "memory" else str(tmp_path / "shared"), clock=clock
    )
    for agent in (
        Agent("cto", role="cto"),
        Agent("lead", role="project-lead", read=("*",), write=("*",)),
        Agent("a", read=("*",), write=("*",)),
        Agent("b", read=("*",), write=("*",)),
        Agent("deaf", role="project-lead", read=("team/*",), write=("*",)),
    ):
        mem.register(agent)
    yield mem, clock
    mem.close()
