"""Addresses of servers that a file names: which kind of place each is, and a connection to just
that place.

A name can be given another address between the look and the call (rebinding), so that whoever calls
connects to an address that `resolved` returned, and resolves nothing itself. Asks the resolver of
the machine, which tests replace; opens no connection.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Callable, Sequence
from urllib.parse import urlsplit

from synapse.errors import Forbidden, InvalidEntry
from synapse.system.typed import Any, NamedTuple

PUBLIC, PRIVATE, LOOPBACK, NEVER = "public", "private", "loopback", "never"
MIXED = "mixed"  # a name with addresses of several kinds

# Where machines in a data centre ask for their own keys, beside the link-local networks.
_METADATA = tuple(
    ipaddress.ip_network(text)
    for text in (
        "fd00:ec2::/32",
        "64:ff9b:1::/48",  # a translator's own network: which machine it means, nobody can say
        "100.100.100.200/32",
        "168.63.129.16/32",
        "192.0.0.192/32",
    )
)
# Networks of IPv6 whose addresses carry one of IPv4, and at which bit it begins.
_CARRIERS = (
    (ipaddress.IPv6Network("::ffff:0:0/96"), 0),
    (ipaddress.IPv6Network("::ffff:0:0:0/96"), 0),
    (ipaddress.IPv6Network("64:ff9b::/96"), 0),
    (ipaddress.IPv6Network("2002::/16"), 80),
    (ipaddress.IPv6Network("::/96"), 0),
)
_PLAIN = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")
_NUMBER = re.compile(r"(0x[0-9a-f]*|[0-9]+)")

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolver = Callable[..., Sequence[Any]]


class Place(NamedTuple):
    """Where an address leads: a name or a number, and a port."""

    scheme: str
    host: str
    port: int


def place_of(url: str) -> Place:
    """Return where an address of http or https leads; InvalidEntry where it is written in a way
    that two programs may read differently.
    """
    problem = ""
    try:
        parsed = urlsplit(url)
        host, port = parsed.hostname or "", parsed.port
    except ValueError:
        raise InvalidEntry(f"the address {url!a:.100} cannot be read", url=url) from None
    if not url.isascii() or any(char <= " " or char in "\\\x7f" for char in url):
        problem = "it has characters that belong into no address"
    elif parsed.scheme not in ("http", "https"):
        problem = "it begins with neither http:// nor https://"
    elif "@" in parsed.netloc:
        problem = "it has a user or a password in it"
    elif not host or port == 0:
        problem = "it names no host"
    elif "%" in host or (
        _literal(host) is None and ("[" in parsed.netloc or not _PLAIN.fullmatch(host))
    ):
        problem = "its host is neither a name nor a number in the usual form"
    elif _literal(host) is None and _NUMBER.fullmatch(host.rpartition(".")[2]):
        problem = "its host is a number in an unusual form"
    if problem:
        raise InvalidEntry(
            f"the address {url!a:.100} is not valid: {problem}; write http://HOST:PORT or"
            " https://HOST/PATH",
            url=url,
        )
    return Place(parsed.scheme, host, port or (443 if parsed.scheme == "https" else 80))


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches the host."""
    try:
        return host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def kind_of(address: Address) -> str:
    """Return what kind of place a number is: public, private, loopback, or never to be called."""
    if isinstance(address, ipaddress.IPv6Address):
        carried = _carried(address)
        if carried is not None:
            return kind_of(carried)
        if address.teredo is not None or address.scope_id is not None:
            return NEVER
    if any(address in network for network in _METADATA if network.version == address.version):
        return NEVER
    if address.is_loopback:
        return LOOPBACK
    if (
        address.is_link_local
        or address.is_multicast
        or address.is_unspecified
        or (address.version == 4 and int(address) >> 24 in (0, *range(240, 256)))
    ):
        return NEVER
    local = isinstance(address, ipaddress.IPv6Address) and address.is_site_local
    return PUBLIC if address.is_global and not local else PRIVATE


def kind_as_written(host: str) -> str | None:
    """Return the kind of place that a host is by its text alone; None for a name, which has to be
    resolved.
    """
    address = _literal(host)
    if address is not None:
        return kind_of(address)
    return LOOPBACK if host == "localhost" or host.endswith(".localhost") else None


def kind_found(host: str, port: int, resolver: Resolver = socket.getaddrinfo) -> str:
    """Return the kind of place that a host is now; public where nobody knows the name, which is
    the strictest: it may become nothing else.
    """
    kind = kind_as_written(host)
    if kind is not None:
        return kind
    try:
        kinds = {kind_of(address) for address in _found(host, port, resolver)}
    except OSError:
        return PUBLIC
    if NEVER in kinds:
        return NEVER
    return kinds.pop() if len(kinds) == 1 else MIXED


def resolved(
    host: str, port: int, trusted: str, resolver: Resolver = socket.getaddrinfo
) -> list[str]:
    """Return the numbers of a host, each of the kind that was trusted; Forbidden where one of them
    is of another. OSError where nobody knows the name.
    """
    addresses = _found(host, port, resolver)
    for address in addresses:
        kind = kind_of(address)
        if kind == NEVER:
            raise Forbidden(
                f"{host} leads to {address}, which is never called: machines give out their own"
                " keys at such addresses",
                host=host,
                address=str(address),
            )
        if kind != trusted:
            raise Forbidden(
                f"{host} was trusted as a {trusted} address, and leads to {address}, a {kind}"
                " one, now; where that is right, `synapse trust` trusts it anew",
                host=host,
                address=str(address),
            )
    return [str(address) for address in addresses]


def _found(host: str, port: int, resolver: Resolver) -> list[Address]:
    literal = _literal(host)
    if literal is not None:
        return [literal]
    rows = resolver(host, port, type=socket.SOCK_STREAM)
    return [ipaddress.ip_address(text) for text in dict.fromkeys(row[4][0] for row in rows)]


def _literal(host: str) -> Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _carried(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    """Return the address of IPv4 that one of IPv6 carries."""
    if int(address) < 2:  # none, and the loopback
        return None
    for network, shift in _CARRIERS:
        if address in network:
            return ipaddress.IPv4Address(int(address) >> shift & 0xFFFFFFFF)
    return None
