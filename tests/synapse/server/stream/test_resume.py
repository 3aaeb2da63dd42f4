"""Streams that are cut at any moment: whoever resumes by cursor misses nothing, and hears nothing twice."""

import random
import socket
import threading

import pytest

from synapse.server.stream import routes
from synapse.server.stream.frames import ALIVE, control
from synapse.server.stream.subscription import Subscription
from tests.synapse.server.stream.listeners import CONTROL, FORMS, heard

ASKED = {"namespace": ["api/*", "team/red"]}
PLACES = ("api/x", "docs/x", "team/red", "team/blue")


class Cutter:
    """A proxy that passes on so many bytes of an answer as chance says, and then hangs up."""

    def __init__(self, address, dice):
        self.port = int(address.rpartition(":")[2])
        self.dice = dice
        self.cuts = 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.threads = [threading.Thread(target=self._serve)]
        self.threads[0].start()

    def _serve(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self.port))
            limit = self.dice.randrange(300, 4_000)
            back = threading.Thread(target=self._pass, args=(server, client, limit))
            there = threading.Thread(target=self._pass, args=(client, server, None))
            self.threads += [back, there]
            back.start()
            there.start()

    def _pass(self, source, target, limit):
        try:
            while limit is None or limit > 0:
                data = source.recv(4_096 if limit is None else min(limit, 4_096))
                if not data:
                    break
                target.sendall(data)
                limit = None if limit is None else limit - len(data)
        except OSError:
            pass
        self.cuts += limit == 0
        for end in (source, target):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        if limit is not None:
            source.close()
            target.close()

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for thread in self.threads:
            thread.join(30)


def streamed(site, form, entries, chance, *, proxied, seed=7):
    """Write entries while a subscriber listens; return what it missed, what it heard twice, whether
    the order was kept, and how many connections were cut.
    """
    dice, token, result = random.Random(seed), site.token("eng"), []
    proxy = Cutter(site.address, random.Random(seed)) if proxied else None
    address = proxy.address if proxy else site.address
    end = []

    def listen():
        over = lambda: end[0] if end else None  # noqa: E731
        result.append(heard(FORMS[form], address, token, over, chance, dice, **ASKED))

    listener = threading.Thread(target=listen)
    listener.start()
    try:
        lead, due = site.memory.as_agent("lead"), []
        site.memory.register(site.memory.store.agents.get("eng")._replace(read=["*"]))
        for number in range(entries):
            place = PLACES[number % len(PLACES)]
            entry = lead.append(f"entry {number} " + "x" * (number % 500), place)
            if place in ("api/x", "team/red"):
                due.append(entry.id)
        end.append(site.memory.store.log.last())
    finally:
        end or end.append(0)
        listener.join(600)
        if proxy:
            proxy.close()
    assert result, "the subscriber failed"
    ids, cuts = result[0]
    missed, twice = set(due) - set(ids), len(ids) - len(set(ids))
    kept = list(dict.fromkeys(ids)) == [id for id in due if id in set(ids)]
    return missed, twice, kept, cuts + (proxy.cuts if proxy else 0)


@pytest.mark.parametrize("proxied", [False, True], ids=["hangs-up", "is-cut"])
@pytest.mark.parametrize("form", FORMS)
def test_nothing_is_missed_or_twice(site, form, proxied):
    chance = 0.0 if proxied else 0.25
    missed, twice, kept, cuts = streamed(site, form, 200, chance, proxied=proxied)
    assert (missed, twice, kept) == (set(), 0, True)
    assert cuts >= 20


@pytest.mark.soak
@pytest.mark.parametrize("proxied", [False, True], ids=["hangs-up", "is-cut"])
@pytest.mark.parametrize("form", FORMS)
def test_nothing_is_missed_or_twice_over_a_thousand_connections(site, form, proxied):
    chance = 0.0 if proxied else 0.3
    count = 7_500
    missed, twice, kept, cuts = streamed(site, form, count, chance, proxied=proxied)
    print(f"\n{form}: {cuts} cuts")
    assert (missed, twice, kept) == (set(), 0, True)
    assert cuts >= 1_000


class EarlyCursor(Subscription):
    """Sends the cursor of an event before the event."""

    async def frames(self, *args):
        async for frame in super().frames(*args):
            if frame.kind not in CONTROL:
                yield control(ALIVE, frame.cursor)
            yield frame


class FilteredCursor(Subscription):
    """Counts what passes the filter, where it should count the records of the log."""

    async def frames(self, *args):
        count = None
        async for frame in super().frames(*args):
            count = frame.cursor if count is None else count
            if frame.kind not in CONTROL:
                count += 1
                fields = frame.text.replace(f'"cursor":{frame.cursor}', f'"cursor":{count}', 1)
                frame = frame._replace(cursor=count, text=fields)
            yield frame


class FromTheCursor(Subscription):
    """Begins at the cursor, and not behind it."""

    def __init__(self, caller, memory, wanted, since, check, form):
        since = max(0, since - 1) if isinstance(since, int) else since
        super().__init__(caller, memory, wanted, since, check, form)


@pytest.mark.parametrize("bug", [EarlyCursor, FilteredCursor, FromTheCursor])
@pytest.mark.parametrize("form", FORMS)
def test_a_wrong_cursor_is_found_out(site, form, bug, monkeypatch):
    monkeypatch.setattr(routes, "Subscription", bug)
    missed, twice, _, _ = streamed(site, form, 100, 0.25, proxied=False)
    assert missed or twice
