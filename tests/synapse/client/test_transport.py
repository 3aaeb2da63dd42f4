"""Requests to a server: tried again, never twice, and the token for nobody else."""

import traceback

import httpx2
import pytest

import synapse
from synapse.client import transport
from synapse.errors import (
    Conflict,
    Forbidden,
    InvalidEntry,
    NotFound,
    QueueFull,
    StoreBusy,
    StoreError,
    SynapseError,
)
from synapse.server import problems
from synapse.testing import together
from synapse.wire import API

SECRET = "syn_tok_of-nobody-else"
BUSY = problems.document(StoreBusy("locked", pid=7))
NOW = {"retry-after": "0"}


def asked(server, act=lambda me: me.unread(), **options):
    with synapse.connect(server.address, SECRET, **options) as me:
        return act(me)


def keys(server):
    return [headers.get("idempotency-key") for _, headers, _ in server.heard]


# -- values and errors -----------------------------------------------------------------


def test_an_entry_is_the_library_s(site, remote):
    eng = remote("eng")
    entry = eng.append("use /v2\n", "api/users", tags="a, b", to="qa", when="run git")
    library = site.memory.as_agent("eng")
    assert entry == library.get(entry.id) == eng.get(entry.id)
    page, same = eng.read(), library.read()
    assert (page.entries, page.cursor, page.visible) == (same.entries, same.cursor, same.visible)


def test_errors_are_the_library_s(site, remote):
    eng, library = remote("eng"), site.memory.as_agent("eng")
    for act in (
        lambda me: me.get("syn-2026-02-01-999"),
        lambda me: me.get("../agents"),
        lambda me: me.get(""),
        lambda me: me.append("text", "hr/pay"),
        lambda me: me.append("text", "../x"),
        lambda me: me.append("text", "api/x", ttl="soon"),
        lambda me: me.append("text", "api/x", to=[]),
        lambda me: me.append(7, "api/x"),
        lambda me: me.append("text", "api/x", once=""),
        lambda me: me.read(budget=7),
        lambda me: me.read(since="in the beginning"),
    ):
        with pytest.raises(SynapseError) as theirs:
            act(library)
        with pytest.raises(SynapseError) as ours:
            act(eng)
        assert type(ours.value) is type(theirs.value)
        assert str(ours.value) == str(theirs.value)
        assert ours.value.details == theirs.value.details


@pytest.mark.parametrize(
    ("status", "name", "kind"),
    [
        (401, "Unauthorized", Forbidden),
        (413, "TooLarge", InvalidEntry),
        (429, "QueueFull", QueueFull),
        (404, "NotFound", NotFound),
        (405, "NotAllowed", StoreError),
        (418, "Refused", StoreError),
        (409, "Conflict", Conflict),
        (500, "__class__", StoreError),
    ],
)
def test_a_problem_is_an_error(scripted, status, name, kind):
    form = {"error": name, "detail": "why", "details": {"limit": 3}, "status": status}
    with pytest.raises(kind, match="why") as raised:
        asked(scripted((status, form, NOW)))
    assert type(raised.value) is kind
    assert raised.value.details == {"limit": 3}


@pytest.mark.parametrize("body", [b"<html>", b"", b"[]", b'{"a": 1}'])
def test_what_is_no_problem_tells_its_status(scripted, body):
    with pytest.raises(NotFound, match="404"):
        asked(scripted((404, body, {})))


# -- versions --------------------------------------------------------------------------


def test_a_server_says_its_version_with_each_answer(site):
    for path in ("/v1/unread", "/v2/unread", "/health", "/v1/none"):
        answer = httpx2.get(site.address + path)
        assert answer.headers["synapse-api"] == API, path


@pytest.mark.parametrize("api", ["", "1", "1.0", "1.9", "1.0-later"])
def test_a_server_of_a_later_minor_version_is_read(scripted, api):
    assert asked(scripted((200, {"unread": 3, "later": [1]}, {"synapse-api": api}))) == 3


@pytest.mark.parametrize("status", [200, 404, 410])
def test_a_server_of_another_major_version_is_refused_with_what_to_do(scripted, status):
    server = scripted((status, {"unread": 3}, {"synapse-api": "2.1"}))
    with pytest.raises(StoreError, match=r"speaks version 2\.1 .* updated"):
        asked(server)
    assert len(server.heard) == 1


# -- again, and never twice ------------------------------------------------------------


def test_a_write_is_sent_again_under_one_key(scripted):
    server = scripted((503, BUSY, NOW), None, (200, {"ids": ["x"]}, {}))
    assert asked(server, lambda me: me.ack("x")) == ["x"]
    assert len(keys(server)) == 3
    assert len(set(keys(server))) == 1
    assert asked(server, lambda me: me.ack("x", once="own key")) == ["x"]
    assert keys(server)[3] == "own key"
    assert asked(server, lambda me: me.ack("x")) == ["x"]
    assert len(set(keys(server))) == 3


def test_a_question_is_asked_again(scripted):
    server = scripted(None, (503, b"", NOW), (200, b'{"unr', {}), (200, {"unread": 3}, {}))
    assert asked(server) == 3
    assert keys(server) == [None] * 4


def test_what_is_refused_is_not_asked_again(scripted):
    for error in (QueueFull("3 wait"), NotFound("none"), synapse.ReadOnly("no")):
        server = scripted((problems.status_of(error), problems.document(error), NOW))
        with pytest.raises(type(error)):
            asked(server)
        assert len(server.heard) == 1


def test_trying_ends(scripted):
    server = scripted((503, BUSY, NOW))
    with pytest.raises(StoreBusy, match="locked"):
        asked(server, timeout=2)
    assert len(server.heard) > 1
    server = scripted((503, BUSY, {"retry-after": "3600"}))
    with pytest.raises(StoreBusy):
        asked(server)
    assert len(server.heard) == 1


def test_who_does_not_know_is_told_the_key(scripted):
    server = scripted(None)
    with pytest.raises(StoreError, match="is done once") as raised:
        asked(server, lambda me: me.ack("x"), timeout=2)
    assert {raised.value.once} == set(keys(server))
    with pytest.raises(StoreError) as raised:
        asked(server, timeout=2)
    assert raised.value.details == {}


def test_nobody_there(scripted):
    server = scripted(None)
    server.server_close()
    with pytest.raises(StoreError, match="cannot be reached") as raised:
        asked(server, lambda me: me.ack("x"), timeout=2)
    assert raised.value.details == {}


def test_who_was_never_there_is_not_waited_for(scripted, monkeypatch):
    monkeypatch.setattr(transport, "UNREACHED", 0.2)
    server = scripted((200, {"unread": 3}, {}))
    server.server_close()
    with pytest.raises(StoreError, match="cannot be reached"):
        asked(server, timeout=3_600)


@pytest.mark.parametrize(
    ("address", "why"),
    [("https://127.0.0.1:{port}", "SSL"), ("https://nobody.invalid", "resol|known")],
)
def test_what_no_try_would_change_is_told_at_once(scripted, address, why):
    server = scripted((200, {"unread": 3}, {}))
    port = server.server_address[1]
    with (
        synapse.connect(address.format(port=port), "token", timeout=3_600) as me,
        pytest.raises(StoreError, match=why),
    ):
        me.unread()


def test_threads_share_a_client(site, remote):
    eng = remote("eng")
    acts = [lambda n=n: eng.append(f"entry {n}", "api/x").id for n in range(24)]
    assert len(set(together(*acts))) == 24
    assert len(eng.read()) == 24


# -- the token -------------------------------------------------------------------------


def test_the_token_follows_no_redirect(scripted):
    other = scripted((200, {"unread": 3}, {}))
    for status in (301, 302, 303, 307, 308):
        server = scripted((status, b"", {"location": f"{other.address}/v1/unread"}))
        with pytest.raises(StoreError, match="and to no other"):
            asked(server)
        with pytest.raises(StoreError, match="and to no other"):
            asked(server, lambda me: [*me.follow(timeout=0)])
        assert [headers["authorization"] for _, headers, _ in server.heard] == [
            f"Bearer {SECRET}"
        ] * 2
    assert other.heard == []


def test_the_token_goes_to_no_proxy(scripted, monkeypatch):
    proxy, server = scripted((200, b"", {})), scripted((200, {"unread": 3}, {}))
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, proxy.address)
    assert asked(server) == 3
    with pytest.raises(SynapseError):
        asked(server, lambda me: [*me.follow(timeout=0)], timeout=2)
    assert proxy.heard == []


def test_the_token_is_in_no_text(scripted):
    server = scripted((404, b"no such page", {}))
    with synapse.connect(server.address, SECRET) as me:
        texts = [repr(me), repr(me.transport), repr(vars(me)), repr(me.mail)]
        for act in (me.unread, lambda: me.append("text", "api/x")):
            with pytest.raises(SynapseError) as raised:
                act()
            texts += traceback.format_exception(raised.value)
            texts += [repr(raised.value), repr(raised.value.details)]
    server.shutdown()
    assert SECRET not in "".join(texts)


def test_a_token_is_asked_for_each_time(scripted, monkeypatch):
    server = scripted((200, {"unread": 3}, {}))
    tokens = iter(("one", "two"))
    with synapse.connect(server.address, lambda: next(tokens)) as me:
        assert [me.unread(), me.unread()] == [3, 3]
    monkeypatch.setenv("SYNAPSE_TOKEN", "three")
    with synapse.connect(server.address) as me:
        me.unread()
    assert [headers["authorization"][7:] for _, headers, _ in server.heard] == [
        "one",
        "two",
        "three",
    ]


@pytest.mark.parametrize("token", ["", "two words", "new\nline", "naïve"])
def test_a_token_that_is_none_is_not_sent(scripted, token):
    server = scripted((200, {"unread": 3}, {}))
    me = synapse.connect(server.address, token)
    with me, pytest.raises(Forbidden, match="SYNAPSE_TOKEN") as raised:
        me.unread()
    assert server.heard == []
    assert not token or token not in str(raised.value)


@pytest.mark.parametrize(
    "address",
    [
        "http://example.org",
        "http://127.0.0.1.example.org:80",
        "http://10.0.0.1:8642",
        f"https://{SECRET}@host",
        f"https://user:{SECRET}@host",
        f"https://host?token={SECRET}",
        f"https://host#{SECRET}",
        "ftp://host",
        "host:8642",
        "https://",
        "https://host:port",
        "",
    ],
)
def test_addresses_that_are_refused(address):
    with pytest.raises(InvalidEntry) as raised:
        synapse.connect(address, SECRET)
    assert SECRET not in str(raised.value) + repr(raised.value.details)


@pytest.mark.parametrize(
    "address", ["https://host", "https://host:8642/team/", "http://localhost:1", "http://[::1]:1"]
)
def test_addresses_that_are_taken(address):
    with synapse.connect(address, SECRET) as me:
        assert me.transport.address == address.rstrip("/")


@pytest.mark.parametrize("key", ["", "x" * 201, "new\nline", "schlüssel", " x"])
def test_keys_that_no_header_can_hold(scripted, key):
    server = scripted((200, {"ids": []}, {}))
    with pytest.raises(InvalidEntry, match="key of `once`"):
        asked(server, lambda me: me.ack("x", once=key))
    assert server.heard == []
