"""Following a server: every event once, whatever breaks in between."""

import threading

import pytest

import synapse
from synapse.errors import Forbidden, InvalidQuery, StoreError
from tests.synapse.client.cutting import Cutting

ENTRIES, MOST = 200, 30


def test_it_is_what_the_library_follows(site, remote):
    lead, eng = site.memory.as_agent("lead"), remote("eng")
    for n in range(5):
        lead.append(f"n{n}", "api/x", priority="critical" if n % 2 else "info")
        lead.append("not for eng", "hr/pay")
    library = site.memory.as_agent("eng")
    for asked in ({"since": 0}, {"since": 0, "critical": True}, {"since": "1h"}, {}):
        theirs = [*library.follow(**asked, timeout=0)]
        assert [*eng.follow(**asked, timeout=0)] == theirs
    middle = [*library.follow(0, timeout=0)][2].cursor
    assert [*eng.follow(middle, timeout=0)] == [*library.follow(middle, timeout=0)]


def test_what_is_refused_is_an_error(site, remote):
    with pytest.raises(InvalidQuery, match="beyond the log's end"):
        [*remote("eng").follow(99_999, timeout=0)]
    with pytest.raises(InvalidQuery):
        [*remote("eng").follow("in the beginning", timeout=0)]
    with pytest.raises(Forbidden):
        [*remote(token="no-such-token").follow(timeout=0)]


def test_nobody_there_is_an_error():
    with (
        synapse.connect("http://127.0.0.1:9", "token", timeout=0.3) as me,
        pytest.raises(StoreError, match="cannot be reached"),
    ):
        next(me.follow())


def followed(site, remote, seed, entries):
    """The bodies that a follower was given, whose connections are cut, and how many cuts."""
    lead, found = site.memory.as_agent("lead"), []
    last = f"n{entries - 1}"
    with Cutting(site.address, seed) as proxy:
        eng = remote("eng", proxy.address, timeout=60)
        begun = threading.Event()

        def listen():
            for event in eng.follow(0):
                begun.set()
                found.append(event.entry.body)
                if event.entry.body == last:
                    return

        thread = threading.Thread(target=listen)
        lead.append("first", "api/x")
        thread.start()
        assert begun.wait(60)
        for n in range(entries):
            lead.append(f"n{n}", "api/x")
        thread.join(120)
        assert not thread.is_alive()
        return found, proxy.cuts


def test_connections_that_are_cut_lose_nothing_and_repeat_nothing(site, remote):
    found, cuts = followed(site, remote, 5, ENTRIES)
    assert found == ["first", *(f"n{n}" for n in range(ENTRIES))]
    assert cuts > 3


def test_the_check_finds_a_follower_that_forgets_its_cursor(site, remote, monkeypatch):
    """Planted: each connection begins anew where the first one did."""
    from synapse.client import stream

    connect = stream._Stream._connect

    def forgetful(self):
        self.since = 0
        return connect(self)

    monkeypatch.setattr(stream._Stream, "_connect", forgetful)
    found, _ = followed(site, remote, 5, MOST)
    assert len(found) > len(set(found))
