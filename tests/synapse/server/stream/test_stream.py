"""Live events over a WebSocket and over server-sent events, of a real server."""

import time

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from synapse import Agent
from synapse.server.stream.subscription import Pace
from synapse.trust.bearer import revoke
from synapse.wire.forms import event_json
from tests.synapse.server.stream.listeners import (
    FORMS,
    Refused,
    current,
    entries,
    eventually,
    over_sse,
    over_websocket,
    until,
)


@pytest.fixture(params=FORMS)
def listen(request):
    return FORMS[request.param]


def write(site, count, namespace="api/x", agent="lead", **more):
    memory = site.memory.as_agent(agent)
    return [memory.append(f"entry {n}", namespace, **more).id for n in range(count)]


def ids(frames):
    return [frame["entry"]["id"] for frame in frames]


def test_tells_of_what_was_there_and_of_what_comes(site, listen):
    before = write(site, 3)
    frames = listen(site.address, site.token("eng"), since=0)
    assert next(frames) == {"cursor": 0, "kind": "start"}
    assert ids(current(frames)) == before
    after = write(site, 3)
    assert ids(entries(frames, 3)) == after
    frames.close()


def test_an_event_has_the_form_of_the_library(site, listen):
    write(site, 1)
    frames = listen(site.address, site.token("eng"), since=0)
    told = [event_json(e) for e in site.memory.as_agent("eng").follow(0, timeout=0)]
    assert current(frames) == told
    frames.close()


def test_without_a_cursor_it_begins_now(site, listen):
    write(site, 2)
    frames = listen(site.address, site.token("eng"))
    assert next(frames)["cursor"] == site.memory.store.log.last()
    assert current(frames) == []
    after = write(site, 1)
    assert ids(entries(frames, 1)) == after
    frames.close()


def test_goes_on_behind_a_cursor(site, listen):
    all_ids = write(site, 5)
    token = site.token("eng")
    frames = listen(site.address, token, since=0)
    third = entries(frames, 3)[-1]
    frames.close()
    again = listen(site.address, token, since=third["cursor"])
    assert ids(current(again)) == all_ids[3:]
    again.close()


def test_the_last_event_id_goes_before_since(site):
    all_ids = write(site, 4)
    token = site.token("eng")
    frames = over_sse(site.address, token, since=0)
    cursor = entries(frames, 2)[-1]["cursor"]
    frames.close()
    again = over_sse(site.address, token, since=0, last=cursor)
    assert ids(current(again)) == all_ids[2:]
    again.close()


def test_takes_several_namespaces_and_priorities(site, listen):
    one = write(site, 1, "api/x", priority="critical")
    write(site, 1, "api/x")
    two = write(site, 1, "team/red", priority="important")
    write(site, 1, "docs/x", priority="critical")
    asked = {"namespace": ["api/*", "team/*"], "priority": ["critical", "important"]}
    frames = listen(site.address, site.token("eng"), since=0, **asked)
    assert ids(current(frames)) == one + two
    write(site, 1, "api/x")
    three = write(site, 1, "api/x", priority="important")
    assert ids(entries(frames, 1)) == three
    frames.close()
    frames = listen(site.address, site.token("eng"), since=0, critical="true")
    assert ids(current(frames)) == one
    frames.close()


def test_a_narrow_filter_resumes_near_the_end(site, listen):
    site.app.state.hub.pace = Pace(alive=0.1)
    frames = listen(site.address, site.token("eng"), namespace="none/here")
    until(frames, "current")
    write(site, 5)
    end = site.memory.store.log.last()
    while until(frames, "alive")["cursor"] != end:
        pass
    frames.close()


def test_what_is_behind_sends_the_cursor_up_to_which_it_looked(site, listen):
    write(site, 5)
    frames = listen(site.address, site.token("eng"), since=0, namespace="none/here")
    assert until(frames, "current")["cursor"] == site.memory.store.log.last()
    frames.close()


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        ({"since": 10**9}, 422),
        ({"since": "9" * 40}, 422),
        ({"since": "yesterdayish"}, 422),
        ({"namespace": "no//glob"}, 422),
        ({"priority": "urgent"}, 422),
        ({"critical": "perhaps"}, 422),
        ({"since": "1" * 101}, 422),
        ({"namespace": ["a"] * 101}, 422),
    ],
)
def test_what_cannot_be_read_is_refused_with_a_problem(site, asked, status):
    token = site.token("eng")
    with pytest.raises(Refused) as refused:
        next(over_sse(site.address, token, **asked))
    assert refused.value.response.status_code == status
    with pytest.raises(InvalidStatus) as closed:
        next(over_websocket(site.address, token, **asked))
    response = closed.value.response
    assert response.status_code == status
    assert response.headers["content-type"] == "application/problem+json"


def test_nobody_listens_without_a_token(site):
    for token in (None, "syn_wrong"):
        with pytest.raises(Refused, match="401"):
            next(over_sse(site.address, token))
        with pytest.raises(InvalidStatus) as closed:
            next(over_websocket(site.address, token))
        assert closed.value.response.status_code == 401


def test_a_token_in_the_address_is_no_token(site):
    token = site.token("eng")
    for name in ("key", "access_token", "authorization"):
        with pytest.raises(Refused, match="401"):
            next(over_sse(site.address, None, **{name: token}))


def test_a_browser_listens_with_its_login(site, listen):
    browsers = site.app.state.serving.browsers
    cookie = browsers.log_in(browsers.link("eng"))
    written = write(site, 1)
    own = {"cookie": f"synapse_login={cookie}", "origin": site.address}
    frames = listen(site.address, headers=own, since=0)
    assert ids(current(frames)) == written
    frames.close()
    other = own | {"origin": "http://elsewhere.example"}
    with pytest.raises((Refused, InvalidStatus), match="403"):
        next(listen(site.address, headers=other, since=0))


def test_a_revoked_token_ends_the_stream(site, listen):
    site.app.state.hub.pace = Pace(check=0.05)
    frames = listen(site.address, site.token("eng"))
    until(frames, "current")
    revoke(site.tokens, "eng")
    problem = until(frames, "problem")["problem"]
    assert (problem["status"], problem["error"]) == (401, "Unauthorized")
    closed = until(frames, "closed")
    assert closed.get("code", 1008) == 1008


def test_a_login_that_ends_ends_the_stream(site, listen):
    site.app.state.hub.pace = Pace(check=0.05)
    browsers = site.app.state.serving.browsers
    cookie = browsers.log_in(browsers.link("eng"))
    frames = listen(site.address, headers={"cookie": f"synapse_login={cookie}"})
    until(frames, "current")
    browsers.log_out(cookie)
    assert until(frames, "problem")["problem"]["status"] == 401


def test_a_changed_registration_ends_the_stream(site, listen):
    token = site.token("eng")
    frames = listen(site.address, token)
    until(frames, "current")
    site.memory.register(Agent("eng", read=["docs/*"], write=["api/*"]))
    write(site, 1, "api/x")
    docs = write(site, 1, "docs/x")
    last = until(frames, "alive")
    closed = until(frames, "closed")
    assert closed.get("code", 1012) == 1012
    assert f"since={last['cursor']}" in closed.get("reason", f"since={last['cursor']}")
    # a client that is back before the server looked again is sent away again
    for _ in range(50):
        again = listen(site.address, token, since=last["cursor"])
        told = current(again)
        again.close()
        if "closed" not in {frame["kind"] for frame in told}:
            break
        time.sleep(0.1)
    assert ids(told) == docs


def test_the_end_of_the_server_says_where_to_resume(serve, listen):
    site = serve()
    frames = listen(site.address, site.token("eng"), since=0, namespace="none/here")
    until(frames, "current")
    write(site, 3)
    eventually(lambda: site.app.state.hub.position() == site.memory.store.log.last())
    site.stop_server()
    assert until(frames, "alive")["cursor"] == site.memory.store.log.last()
    closed = until(frames, "closed")
    assert closed.get("code", 1012) == 1012


def test_streams_are_counted(site):
    streams = site.app.state.hub.streams
    assert streams["websocket"] == streams["sse"] == 0
    token = site.token("eng")
    one, two = over_websocket(site.address, token), over_sse(site.address, token)
    until(one, "current")
    until(two, "current")
    assert (streams["websocket"], streams["sse"]) == (1, 1)
    one.close()
    two.close()
    eventually(lambda: streams["websocket"] == streams["sse"] == 0)


def test_a_stream_takes_no_messages(site):
    url = site.address.replace("http", "ws", 1) + "/v1/stream"
    own = {"authorization": f"Bearer {site.token('eng')}"}
    with connect(url, additional_headers=own, proxy=None) as socket:
        socket.send('{"subscribe": "*"}')
        while '"kind":"problem"' not in socket.recv(60):
            pass
        with pytest.raises(ConnectionClosed):
            socket.recv(60)
        assert socket.protocol.close_rcvd.code == 1008
