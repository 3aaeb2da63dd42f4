"""Browsers that logged in: a link that is good once, then a cookie, and a token for each change.

A link holds a code and never a token, ends with its first use or after ten minutes, and gives the
rights of one agent. Logins live as long as the server and at most a day, and end where a token of
the agent is revoked.
"""

from __future__ import annotations

import hmac
import secrets
import time
from collections.abc import Callable
from hashlib import sha256
from threading import Lock
from typing import Any, NamedTuple

COOKIE = "synapse_login"
CSRF = "x-synapse-csrf"
LINK = 600.0  # seconds that a link is good
LOGIN = 86_400.0  # seconds that a login lasts
MOST = 1_000  # links, and logins, that are kept at once; the oldest goes first


class Browser(NamedTuple):
    """A browser that logged in. `csrf` is what its pages send with each change."""

    id: str
    agent: str
    read_only: bool
    csrf: str
    until: float
    revoked: int  # tokens of the agent, when its link was made

    def proves(self, text: str) -> bool:
        return hmac.compare_digest(self.csrf.encode(), text.encode())


class Browsers:
    """The links that were given out and not used, and the logins, by the hashes of their codes."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self.revocations: Callable[[str], int] = lambda agent: 0
        self._now = now
        self._lock = Lock()
        self._links: dict[str, tuple[str, bool, float, int]] = {}
        self._logins: dict[str, Browser] = {}

    def link(self, agent: str, read_only: bool = False) -> str:
        """Return the code of a new link."""
        code = secrets.token_urlsafe(24)
        with self._lock:
            _make_room(self._links)
            revoked = self.revocations(agent)
            self._links[_hash(code)] = (agent, read_only, self._now() + LINK, revoked)
        return code

    def log_in(self, code: str) -> str | None:
        """Return the value of the cookie for a link's code, None where it is used up or unknown."""
        with self._lock:
            agent, read_only, until, revoked = self._links.pop(_hash(code), ("", False, 0.0, 0))
            if not agent or self._now() >= until or self.revocations(agent) != revoked:
                return None
            cookie, csrf = secrets.token_urlsafe(32), secrets.token_urlsafe(24)
            hashed = _hash(cookie)
            _make_room(self._logins)
            self._logins[hashed] = Browser(
                f"browser-{hashed[:12]}", agent, read_only, csrf, self._now() + LOGIN, revoked
            )
        return cookie

    def find(self, cookie: str) -> Browser | None:
        """Return the browser with this cookie, None where its login is over."""
        with self._lock:
            browser = self._logins.get(_hash(cookie))
            if browser is None or (
                self._now() < browser.until and self.revocations(browser.agent) == browser.revoked
            ):
                return browser
            del self._logins[_hash(cookie)]
            return None

    def log_out(self, cookie: str) -> None:
        with self._lock:
            self._logins.pop(_hash(cookie), None)


def _hash(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _make_room(kept: dict[str, Any]) -> None:
    while len(kept) >= MOST:
        del kept[next(iter(kept))]
