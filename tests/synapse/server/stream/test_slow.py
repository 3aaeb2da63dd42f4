"""Subscribers that read slowly, or not at all: what waits for them is bounded."""

import json
import socket
import time

from websockets.sync.client import connect

from synapse.server.stream import subscription
from synapse.server.stream.subscription import Pace
from tests.synapse.server.stream.listeners import entries, eventually, over_websocket, until


def test_a_burst_ends_no_stream(site, monkeypatch):
    monkeypatch.setattr(subscription, "WAITING", 5)
    frames = over_websocket(site.address, site.token("eng"))
    until(frames, "current")
    memory = site.memory.as_agent("lead")
    written = [memory.append(f"entry {n} " + "x" * 500, "api/x").id for n in range(300)]
    assert [frame["entry"]["id"] for frame in entries(frames, 300)] == written
    frames.close()


def test_who_does_not_read_is_hung_up_on(site):
    site.app.state.hub.pace = Pace(stall=0.5)
    streams = site.app.state.hub.streams
    memory = site.memory.as_agent("lead")
    raw = socket.socket()
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    raw.connect(("127.0.0.1", int(site.address.rpartition(":")[2])))
    url = site.address.replace("http", "ws", 1) + "/v1/stream?since=0"
    own = {"authorization": f"Bearer {site.token('eng')}"}
    options = {"max_queue": 1, "proxy": None, "close_timeout": 1}
    with connect(url, sock=raw, additional_headers=own, **options) as stream:
        cursor = json.loads(stream.recv(30))["cursor"]
        for number in range(1_500):
            memory.append(f"entry {number} " + "x" * 4_000, "api/x")
        hub = site.app.state.hub
        waiting = [len(one._waiting) for one in hub._subscriptions]
        assert all(count <= subscription.PAGE for count in waiting)
        eventually(lambda: any(one.ended for one in hub._subscriptions) or not streams["websocket"])
        time.sleep(0.1)
        heard = []
        try:
            while True:
                frame = json.loads(stream.recv(30))
                cursor = frame["cursor"]
                heard.append(frame["kind"])
        except Exception as closed:
            code, reason = closed.rcvd.code, closed.rcvd.reason
    assert (code, reason) == (1013, f"too slow; resume with since={cursor}")
    assert 0 < heard.count("entry") < 1_500
    eventually(lambda: streams["websocket"] == 0)
