"""The address of a server and the token for it: what may be named, and what is refused.

The token stands in no text: not in an address, a message or a `repr`. Called by `connect` and by
the shell.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from synapse.errors import Forbidden, InvalidEntry
from synapse.system.addresses import is_loopback, place_of

TOKEN = "SYNAPSE_TOKEN"
Token = str | Callable[[], str] | None


def checked(address: str) -> str:
    """Return the address without a last slash. InvalidEntry where it is none, holds a password, or
    would send the token over the network in the clear.
    """
    if "@" in address or "?" in address or "#" in address:
        raise InvalidEntry(
            "the address of a server has no user, password, query or fragment; the token"
            f" is given as token=, or in ${TOKEN}"
        )
    origin = place_of(address)
    if origin.scheme == "http" and not is_loopback(origin.host):
        raise InvalidEntry(
            f"http://{origin.host} would send the token unprotected: write https://;"
            " http:// is for this machine alone"
        )
    return address.rstrip("/")


def secret(token: Token) -> Callable[[], str]:
    """Return a function that gives the token, asked anew for each request: a token may be
    exchanged while a program runs.
    """

    def ask() -> str:
        text = token() if callable(token) else token
        if text is None:
            text = os.environ.get(TOKEN, "")
        if not text or not text.isascii() or not text.isprintable() or " " in text:
            raise Forbidden(
                f"a token is needed: give token=, or set ${TOKEN};"
                " `synapse token new AGENT` makes one",
                action="connect",
            )
        return text

    return ask
