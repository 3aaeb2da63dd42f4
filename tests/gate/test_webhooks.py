"""A webhook sends what the agent with whose eyes it reads may see, and nothing else; without one,
what is public.
"""

import json
import time

import pytest

from synapse.model import namespace as ns
from synapse.webhooks.outbox import Backoff, Outbox
from synapse.webhooks.targets import PUBLIC, Target, may_leave
from tests.gate.world import READERS, world_at

NEVER = ("staged", "rejected")


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    found = world_at(tmp_path_factory.mktemp("hooks") / "shared-memory")
    yield found
    found.mem.close()


def sent(world, reader, outbox=Outbox):
    """Return the bodies of all that a webhook with these eyes sends of the whole log."""
    target = Target(f"to-{reader or 'public'}", "", (), None, reader)
    box = outbox(world.mem.store, target, Backoff())
    box.follower.cursor, box.follower.proof = 0, ""
    bodies = []
    while True:
        box.fill()
        due = box.due(time.monotonic())
        if not due and not box.more:
            return bodies
        for delivery in due:
            body = box.body(delivery)
            box.settle(delivery)
            bodies += [] if body is None else [json.loads(body)["data"]]


def is_public(entry):
    return entry.addressees == ("all",) and not ns.matches_any(
        ("agents/*", "groups/*"), entry.namespace
    )


def expected(world, reader):
    seen = world.seen_by(reader or "operator")
    return {
        known.id
        for known in seen
        if known.state not in NEVER and (reader or is_public(world.entry(known)))
    }


@pytest.mark.parametrize("reader", [*(name for name in READERS if name != "operator"), ""])
def test_a_webhook_sends_what_its_reader_may_see(world, reader):
    bodies = sent(world, reader)
    assert {body["id"] for body in bodies} == expected(world, reader)
    told = json.dumps([{**body, "supersedes": None} for body in bodies])
    if reader:
        assert world.leaks(reader, told) == []


def test_one_that_forgets_the_gate_is_found(world):
    class Open(Outbox):
        def _reader(self):
            return world.agents["cto"]

    found = {body["id"] for body in sent(world, "deaf", Open)}
    assert found - expected(world, "deaf")


def test_public_is_nobody(world):
    names = {id for id, agent in world.agents.items() if agent and PUBLIC.names & agent.names}
    assert names == set()
    assert not may_leave(next(iter(world.entries.values()))._replace(staged=True), PUBLIC)
