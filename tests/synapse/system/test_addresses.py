"""Where an address leads: every form that hides a machine of one's own is told, or refused."""

import pytest

from synapse.errors import Forbidden, InvalidEntry
from synapse.system import addresses
from synapse.system.addresses import LOOPBACK, MIXED, NEVER, PRIVATE, PUBLIC

WRITTEN = {
    "http://127.0.0.1": LOOPBACK,
    "http://127.0.0.1:11434/api": LOOPBACK,
    "https://127.255.255.254": LOOPBACK,
    "http://localhost": LOOPBACK,
    "http://LOCALHOST:80": LOOPBACK,
    "http://a.localhost": LOOPBACK,
    "http://[::1]": LOOPBACK,
    "http://[0:0:0:0:0:0:0:1]:8080": LOOPBACK,
    "http://[::ffff:127.0.0.1]": LOOPBACK,
    "http://[::ffff:7f00:1]": LOOPBACK,
    "http://[::ffff:0:127.0.0.1]": LOOPBACK,
    "http://[64:ff9b::127.0.0.1]": LOOPBACK,
    "http://[2002:7f00:1::]": LOOPBACK,
    "http://[::127.0.0.1]": LOOPBACK,
    "http://10.0.0.1": PRIVATE,
    "http://172.16.0.1": PRIVATE,
    "http://172.31.255.255": PRIVATE,
    "http://192.168.1.1": PRIVATE,
    "http://100.64.0.1": PRIVATE,
    "http://198.18.0.1": PRIVATE,
    "http://192.0.2.1": PRIVATE,
    "http://[fc00::1]": PRIVATE,
    "http://[fd12:3456::1]": PRIVATE,
    "http://[fec0::1]": PRIVATE,
    "http://[::ffff:10.0.0.1]": PRIVATE,
    "http://[64:ff9b::c0a8:1]": PRIVATE,
    "http://[2002:a00:1::]": PRIVATE,
    "http://[2001:db8::1]": PRIVATE,
    "http://169.254.169.254/latest/meta-data/": NEVER,
    "http://169.254.0.1": NEVER,
    "http://[::ffff:169.254.169.254]": NEVER,
    "http://[::ffff:a9fe:a9fe]": NEVER,
    "http://[64:ff9b::a9fe:a9fe]": NEVER,
    "http://[2002:a9fe:a9fe::]": NEVER,
    "http://[64:ff9b:1::a9fe:a9fe]": NEVER,
    "http://[fd00:ec2::254]": NEVER,
    "http://[fe80::1]": NEVER,
    "http://100.100.100.200": NEVER,
    "http://168.63.129.16": NEVER,
    "http://192.0.0.192": NEVER,
    "http://0.0.0.0": NEVER,
    "http://0.1.2.3": NEVER,
    "http://[::]": NEVER,
    "http://224.0.0.1": NEVER,
    "http://255.255.255.255": NEVER,
    "http://240.0.0.1": NEVER,
    "http://[ff02::1]": NEVER,
    "http://[2001:0:a9fe:a9fe::1]": NEVER,
    "http://8.8.8.8": PUBLIC,
    "https://[2606:4700::1111]": PUBLIC,
    "http://[::ffff:8.8.8.8]": PUBLIC,
}

REFUSED = (
    "http://2130706433",
    "http://0x7f000001",
    "http://0x7f.1",
    "http://0x7F.0.0.1",
    "http://017700000001",
    "http://0177.0.0.1",
    "http://127.1",
    "http://127.0.1",
    "http://127.0.0.1.",
    "http://localhost.",
    "http://127.0.0.0x1",
    "http://1.2.3.4.5",
    "http://256.1.1.1",
    "http://10.1",
    "http://①②⑦.⓪.⓪.①",
    "http://ⓛocalhost",
    "http://127。0。0。1",
    "http://пример.example",
    "http://127%2e0%2e0%2e1",
    "http://loc%61lhost",
    "http://user@127.0.0.1",
    "http://api.openai.com@127.0.0.1",
    "http://user:password@host.example",
    "http://@host.example",
    "http://api.openai.com\\@127.0.0.1",
    "http://host.example\\.evil.example",
    "http://host.example\t.evil.example",
    "http://host.example\n.evil.example",
    " http://host.example",
    "http://host.example ",
    "http://ho st.example",
    "http://host.example\x00.evil.example",
    "http://[::1",
    "http://::1",
    "http://[::1%25eth0]",
    "http://[fe80::1%eth0]",
    "http://[v1.x]",
    "http://",
    "http:///path",
    "http:host.example",
    "//host.example",
    "host.example",
    "",
    "file:///etc/passwd",
    "ftp://host.example",
    "gopher://127.0.0.1:6379/_x",
    "dict://127.0.0.1:11211",
    "unix:///var/run/docker.sock",
    "http+unix://%2Fvar%2Frun%2Fdocker.sock",
    "javascript:alert(1)",
    "http://host.example:0",
    "http://host.example:99999",
    "http://host.example:x",
    "http://-host.example",
    "http://host..example",
    "http://ho_st!.example",
    "http://host.example;evil",
)

NAMES = {
    "model.example": ["93.184.216.34"],
    "office.example": ["10.0.0.7"],
    "here.example": ["127.0.0.1", "::1"],
    "metadata.google.internal": ["169.254.169.254"],
    "both.example": ["93.184.216.34", "127.0.0.1"],
    "hidden.example": ["93.184.216.34", "169.254.169.254"],
    "mapped.example": ["::ffff:169.254.169.254"],
}


def resolver(names):
    def find(host, port, **_):
        if host not in names:
            raise OSError(f"nobody knows {host}")
        return [(0, 0, 0, "", (text, port)) for text in names[host]]

    return find


def test_there_are_enough_of_them():
    hostile = [url for url, kind in WRITTEN.items() if kind != PUBLIC]
    assert len(hostile) + len(REFUSED) >= 100


@pytest.mark.parametrize(("url", "kind"), WRITTEN.items())
def test_an_address_is_known_by_its_text(url, kind):
    place = addresses.place_of(url)
    assert addresses.kind_as_written(place.host) == kind
    if kind != NEVER and "localhost" not in place.host:
        assert addresses.resolved(place.host, place.port, kind)
    for other in {PUBLIC, PRIVATE, LOOPBACK} - {kind}:
        with pytest.raises(Forbidden):
            addresses.resolved(
                place.host,
                place.port,
                other,
                resolver({"localhost": ["127.0.0.1"], "a.localhost": ["127.0.0.1"]}),
            )


@pytest.mark.parametrize("url", REFUSED)
def test_an_address_in_an_odd_form_is_refused(url):
    with pytest.raises(InvalidEntry, match="the address"):
        addresses.place_of(url)


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("https://api.openai.com/v1", ("https", "api.openai.com", 443)),
        ("http://Model.Example:8000", ("http", "model.example", 8000)),
        ("http://gpu-1", ("http", "gpu-1", 80)),
        ("http://xn--e1afmkfd.example", ("http", "xn--e1afmkfd.example", 80)),
    ],
)
def test_usual_addresses_are_taken(url, place):
    assert addresses.place_of(url) == place


@pytest.mark.parametrize(
    ("host", "kind"),
    [
        ("model.example", PUBLIC),
        ("office.example", PRIVATE),
        ("here.example", LOOPBACK),
        ("metadata.google.internal", NEVER),
        ("both.example", MIXED),
        ("hidden.example", NEVER),
        ("mapped.example", NEVER),
        ("unknown.example", PUBLIC),
    ],
)
def test_a_name_is_what_it_leads_to(host, kind):
    assert addresses.kind_found(host, 80, resolver(NAMES)) == kind


@pytest.mark.parametrize("host", NAMES)
@pytest.mark.parametrize("trusted", [PUBLIC, PRIVATE, LOOPBACK])
def test_a_name_that_leads_elsewhere_than_it_was_trusted_is_refused(host, trusted):
    if addresses.kind_found(host, 80, resolver(NAMES)) == trusted:
        assert addresses.resolved(host, 80, trusted, resolver(NAMES)) == NAMES[host]
    else:
        with pytest.raises(Forbidden):
            addresses.resolved(host, 80, trusted, resolver(NAMES))


def test_what_was_checked_is_what_is_called():
    """The resolver is asked once: a second answer would be another place."""
    asked = []

    def changing(host, port, **_):
        asked.append(host)
        return [(0, 0, 0, "", ("93.184.216.34" if len(asked) == 1 else "127.0.0.1", port))]

    assert addresses.resolved("model.example", 80, PUBLIC, changing) == ["93.184.216.34"]
    assert len(asked) == 1
    with pytest.raises(Forbidden, match="was trusted as a public address"):
        addresses.resolved("model.example", 80, PUBLIC, changing)
