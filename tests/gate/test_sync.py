"""What goes into a file that anybody reads is what each agent of the workspace may see, and of that
what is accepted and in force.
"""

import pytest

from orchestrator.plugin.sync.projection import format_entry, is_public
from synapse.agent_memory import AgentMemory
from tests.gate.world import LIVE, READERS

AGENTS = [name for name in READERS if name != "operator"]


def shown(world, readers, is_shown=is_public):
    agents = [world.agents[name] for name in readers]
    page = AgentMemory(world.mem.store, "operator").read()
    return [entry for entry in page if is_shown(entry, agents)]


@pytest.mark.parametrize("reader", AGENTS)
def test_it_is_what_the_reader_may_see(world, reader):
    entries = shown(world, [reader])
    told = "".join(format_entry(entry._replace(replaces=())) for entry in entries)
    assert world.leaks(reader, told) == []
    ids = {entry.id for entry in entries}
    states = {known.state for known in world.known if known.id in ids}
    assert states <= LIVE - {"unverified", "disputed"}
    assert all(entry.scope == "public" for entry in entries)


def test_it_is_what_all_of_them_may_see(world):
    for reader in AGENTS:
        together = {entry.id for entry in shown(world, ["eng-a", reader])}
        assert together <= {entry.id for entry in shown(world, [reader])}
    assert shown(world, ["eng-a", "lead"])
    assert shown(world, AGENTS) == []  # one of them reads nothing


def test_one_that_forgets_the_gate_is_found(world):
    entries = shown(world, ["eng-c"], lambda entry, agents: True)
    assert world.leaks("eng-c", "".join(map(format_entry, entries)))
