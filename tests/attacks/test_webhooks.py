"""Webhooks reach nothing but what a person trusted: no form of an address, no name that leads
elsewhere by then, no redirect, no proxy and no forged certificate changes that.

Connections are counted where the interpreter opens them, whoever does it.
"""

import asyncio
import datetime
import json
import os
import ssl
import sys
import threading
import time
from contextlib import contextmanager

import pytest

import synapse
from synapse.errors import Forbidden, SynapseError
from synapse.formats.wants import of_webhook
from synapse.system.addresses import LOOPBACK, NEVER, PRIVATE, PUBLIC
from synapse.trust import decisions
from synapse.webhooks import signatures, status
from synapse.webhooks.post import Wire, post
from tests.synapse.system.test_addresses import NAMES, REFUSED, WRITTEN, resolver
from tests.synapse.webhooks.conftest import (
    VARIABLE,
    Receiver,
    Running,
    declare,
    receiver,
    root,
    wait_for,
)

__all__ = ["receiver", "root"]  # fixtures

CONNECTS = []
WATCHING = threading.Event()


def _watch(event, args):
    if event == "socket.connect" and WATCHING.is_set():
        CONNECTS.append(args[1])


sys.addaudithook(_watch)


@contextmanager
def connections():
    """Give the list of all connections that are opened meanwhile."""
    CONNECTS.clear()
    WATCHING.set()
    try:
        yield CONNECTS
    finally:
        WATCHING.clear()


def sent_to(url, root, trusted=True, names=NAMES):
    """Do what a sender does with an address; return what became of it."""
    want = of_webhook("chat", {"url": url, "secret": VARIABLE}, str(root))
    if want is None:
        return "no target"
    if trusted:
        decisions.trust(str(root), [want], "2026-11-01")
    try:
        kind = decisions.demand(str(root), want)
    except SynapseError as error:
        return str(error)
    wire = Wire(resolver=resolver(names), patience=1)
    return asyncio.run(post(url, {}, b"{}", kind, wire))


HOSTILE = [
    *(url for url, kind in WRITTEN.items() if kind == NEVER),
    *REFUSED,
    *(url for url, kind in WRITTEN.items() if url.startswith("http:") and kind == PUBLIC),
]


@pytest.mark.parametrize("url", HOSTILE)
def test_no_hostile_address_is_called_even_where_it_was_trusted(url, root):
    with connections() as opened:
        answer = sent_to(url, root)
    assert opened == []
    assert not getattr(answer, "delivered", False)


@pytest.mark.parametrize(
    "url", [url for url, kind in WRITTEN.items() if kind in (LOOPBACK, PRIVATE)]
)
def test_no_machine_of_ones_own_is_called_unless_it_was_trusted(url, root):
    decisions.trust(
        str(root),
        [of_webhook("chat", {"url": f"{url}/other", "secret": VARIABLE}, str(root))],
        "2026-11-01",
    )
    with connections() as opened:
        answer = sent_to(url, root, trusted=False)
    assert opened == []
    assert "synapse trust" in answer


@pytest.mark.parametrize("name", [name for name in NAMES if name != "model.example"])
def test_a_name_that_is_public_first_and_leads_elsewhere_later_is_not_called(name, root):
    """Nobody knows the name when it is trusted, which counts as public; then it is one of these."""
    with connections() as opened:
        answer = sent_to(f"https://{name}/in", root)
    assert opened == []
    assert not answer.delivered


def test_a_name_changes_between_two_deliveries(root, receiver):
    """The first answer is what was trusted, the second is private: one connection."""
    port = receiver.server_address[1]
    answers = [["127.0.0.1"], ["10.0.0.7"], ["169.254.169.254"]]
    url = f"http://hooks.localhost:{port}/in"
    want = of_webhook("chat", {"url": url, "secret": VARIABLE}, str(root))
    decisions.trust(str(root), [want], "2026-11-01")
    kind = decisions.demand(str(root), want)
    assert kind == LOOPBACK

    def changing(host, port, **_):
        return [(0, 0, 0, "", (text, port)) for text in answers.pop(0)]

    with connections() as opened:
        outcomes = [
            asyncio.run(post(url, {}, b"{}", kind, Wire(resolver=changing))) for _ in range(3)
        ]
    assert [outcome.delivered for outcome in outcomes] == [True, False, False]
    assert opened == [("127.0.0.1", port)]


def test_a_checked_number_is_what_is_called(root, receiver):
    """Between the check and the call nothing is resolved again."""
    asked = []

    def once(host, port, **_):
        asked.append(host)
        return [(0, 0, 0, "", ("127.0.0.1", port))]

    url = f"http://hooks.localhost:{receiver.server_address[1]}/in"
    outcome = asyncio.run(post(url, {}, b"{}", LOOPBACK, Wire(resolver=once)))
    assert outcome.delivered
    assert asked == ["hooks.localhost"]
    assert receiver.taken[0][0]["host"] == url.split("/")[2]


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_no_redirect_leads_anywhere(root, receiver, code):
    with Receiver() as other:
        receiver.answer = lambda *call: code
        receiver.location = other.url
        with connections() as opened:
            outcome = asyncio.run(post(receiver.url, {}, b"{}", LOOPBACK, Wire()))
        assert opened == [receiver.server_address]
        assert (outcome.delivered, other.heard) == (False, 0)


def test_no_proxy_is_asked(root, receiver, monkeypatch):
    with Receiver() as proxy:
        address = f"http://127.0.0.1:{proxy.server_address[1]}"
        for name in ("http_proxy", "https_proxy", "all_proxy"):
            monkeypatch.setenv(name, address)
            monkeypatch.setenv(name.upper(), address)
        assert asyncio.run(post(receiver.url, {}, b"{}", LOOPBACK, Wire())).delivered
        assert proxy.heard == 0


# -- certificates ----------------------------------------------------------------------------------


def certificate(folder, host):
    """Make a certificate of its own making for a host; return its file, with the key in it."""
    x509 = pytest.importorskip("cryptography.x509")
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, host)])
    now = datetime.datetime.now(datetime.UTC)
    day = datetime.timedelta(days=1)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(7)
        .not_valid_before(now - day)
        .not_valid_after(now + day)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    path = folder / f"{host}.pem"
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        + made.public_bytes(serialization.Encoding.PEM)
    )
    return path


@pytest.mark.parametrize(
    ("believed", "host", "delivered"),
    [
        (True, "hooks.localhost", True),
        (False, "hooks.localhost", False),
        (True, "other.localhost", False),
    ],
)
def test_certificates_are_verified(tmp_path, believed, host, delivered):
    path = certificate(tmp_path, "hooks.localhost")
    with Receiver() as server:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(path)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        tls = ssl.create_default_context(cafile=str(path) if believed else None)
        url = f"https://{host}:{server.server_address[1]}/in"
        here = resolver({host: ["127.0.0.1"]})
        outcome = asyncio.run(post(url, {}, b"{}", LOOPBACK, Wire(resolver=here, tls=tls)))
        server.shutdown()
        thread.join()
    assert (outcome.delivered, bool(server.heard)) == (delivered, delivered)


# -- workspaces that a stranger made ---------------------------------------------------------------


def test_a_stranger_s_workspace_sends_nothing(root, receiver):
    declare(root, receiver.url, trusted=False)
    with synapse.open(str(root)) as mem, Running(mem.store) as running:
        with pytest.raises(Forbidden):
            status.send_test(mem.store, "chat")
        assert wait_for(lambda: running.sender.outboxes)
        mem.as_agent("eng").append("text", "api/x", priority="critical")
        assert wait_for(lambda: running.notes)
    assert receiver.heard == 0


@pytest.mark.parametrize("place", ["runs/.webhooks", "runs/.webhooks/chat.json"])
def test_no_link_in_the_place_of_an_outbox_is_followed(root, receiver, tmp_path, place):
    victim = tmp_path / "victim"
    victim.mkdir() if place.endswith("hooks") else victim.write_text("precious")
    declare(root, receiver.url)
    (root / place).parent.mkdir(parents=True, exist_ok=True)
    os.symlink(victim, root / place)
    with pytest.raises(SynapseError, match="symbolic link"):
        synapse.open(str(root))


# -- replays ---------------------------------------------------------------------------------------


def delivered(root, receiver):
    declare(root, receiver.url)
    with synapse.open(str(root)) as mem:
        assert status.send_test(mem.store, "chat").delivered
    return receiver.taken[0]


def ours(headers, body, now):
    return signatures.verify([signatures.key_of(os.environ[VARIABLE])], headers, body, now)


def theirs(headers, body, now):
    """The package that receivers use, at another time."""
    from standardwebhooks import webhooks

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(webhooks, "datetime", _at(now))
        return webhooks.Webhook(os.environ[VARIABLE]).verify(body, headers)


def _at(now):
    class At(datetime.datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.datetime.fromtimestamp(now, tz)

    return At


@pytest.mark.parametrize("verify", [ours, theirs])
def test_a_delivery_is_taken_for_five_minutes(root, receiver, verify):
    headers, body, _ = delivered(root, receiver)
    sent = int(headers["webhook-timestamp"])
    assert verify(headers, body, sent + 299)
    assert verify(headers, body, sent - 299)
    for now in (sent + 302, sent - 302, sent + 86_400):
        with pytest.raises(Exception, match=r"minutes|old|new"):
            verify(headers, body, now)


@pytest.mark.parametrize("verify", [ours, theirs])
def test_a_delivery_of_which_anything_was_changed_is_refused(root, receiver, verify):
    headers, body, _ = delivered(root, receiver)
    now = time.time()
    stamp = int(headers["webhook-timestamp"])
    assert verify(headers, body, now)
    for name, text in (
        ("webhook-id", "msg_other"),
        ("webhook-timestamp", str(stamp + 1)),
        ("webhook-signature", "v1," + "A" * 43 + "="),
        ("webhook-signature", "v1a," + headers["webhook-signature"][3:]),
        ("webhook-signature", ""),
    ):
        with pytest.raises(Exception, match=r"ignature|signed|header"):
            verify({**headers, name: text}, body, now)
    with pytest.raises(Exception, match=r"ignature"):
        verify(headers, body.replace(b"chat", b"tahc"), now)
    assert json.loads(body)["data"] == {"webhook": "chat"}


def test_there_are_enough_of_them():
    assert len(HOSTILE) >= 60
