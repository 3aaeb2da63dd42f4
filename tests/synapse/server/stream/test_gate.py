"""What a stream tells an agent is what `follow` tells it: the world of the gate, over a socket."""

import pytest

from synapse.notify import is_news
from synapse.server.stream import hub
from synapse.trust.bearer import TokenFile, new_token
from synapse.wire.forms import event_json
from tests.gate.world import AGENTS, READERS, world_at
from tests.synapse.server.stream.listeners import FORMS, current, entries, eventually


@pytest.fixture
def served(tmp_path, serve_memory):
    world = world_at(tmp_path / "world")
    site = serve_memory(world.mem, TokenFile(str(tmp_path / "tokens")))
    return world, site


def told(world, reader, since=0):
    events = world.mem.as_agent(reader).follow(since, timeout=0)
    return [event_json(event) for event in events]


@pytest.mark.parametrize("form", FORMS)
def test_every_agent_is_told_what_follow_tells_it(served, form):
    world, site = served
    for reader in READERS:
        token = new_token(site.tokens, reader)
        frames = FORMS[form](site.address, token, since=0)
        got = current(frames)
        frames.close()
        assert got == told(world, reader)
        assert world.leaks(reader, repr(got)) == []


@pytest.mark.parametrize("form", FORMS)
def test_every_agent_is_told_so_of_what_comes(served, form):
    assert live_leaks(*served, FORMS[form]) == []


@pytest.mark.parametrize("form", FORMS)
def test_a_hub_that_tells_everybody_is_found_out(served, form, monkeypatch):
    def careless(entry, agent):
        return is_news(entry, agent) or entry.author == "eng-a"

    monkeypatch.setattr(hub, "is_news", careless)
    assert live_leaks(*served, FORMS[form]) != []


def live_leaks(world, site, listen):
    """Return which readers were told something else than `follow` tells them, of what is written
    while all listen.
    """
    end = world.mem.store.log.last()
    streams = {}
    for reader in READERS:
        streams[reader] = listen(site.address, new_token(site.tokens, reader))
        assert current(streams[reader]) == []
    eventually(lambda: site.app.state.hub.position() == end)
    for namespace in ("api", "api/endpoints", "vault/keys", "team/red"):
        for to in ("all", "team:red", "agent:eng-c", "own team"):
            world.write("plain", "eng-a", namespace, to)
        world.staged(namespace, "all")
    world.approved("api/endpoints", "team:red")
    world.vouched("vault/keys", "agent:eng-c")
    world.unverified("api/endpoints", "team:red")
    world.mem.as_agent("cto").append("the end", "open/end", to=[a.id for a in AGENTS])
    wrong = []
    for reader, frames in streams.items():
        due = told(world, reader, end)
        got = entries(frames, 1)
        closing = "the end" if reader != "cto" else due[-1]["entry"]["body"]
        while got[-1]["entry"]["body"] != closing:
            got += entries(frames, 1)
        frames.close()
        if got != due:
            wrong.append(reader)
    return wrong
