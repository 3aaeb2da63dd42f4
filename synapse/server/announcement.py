"""The server that runs for a workspace: its address, and a secret by which the person who started
it is given links to log in.

Both lie in that person's own folder while the server runs, and nowhere else. Called by the verbs
`serve` and `dashboard`; imports nothing of the server.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256

from synapse.errors import Forbidden, NotFound, StoreError
from synapse.system import home
from synapse.system.typed import NamedTuple

WAIT = 10  # seconds for an answer
SECRET = "x-synapse-secret"  # the header that it is sent in


class Running(NamedTuple):
    """Where a server is asked, and with what; and its process."""

    address: str
    secret: str
    pid: int = 0


def announce(root: str, running: Running) -> None:
    """Record where a server runs; of several for one workspace, the newest is found."""
    home.write(_name(root), json.dumps(running._asdict()).encode())


def withdraw(root: str, running: Running) -> None:
    """Remove the record of a server, where it is this one's."""
    if find(root) == running:
        home.remove(_name(root))


@contextmanager
def announced(root: str, secret: str) -> Iterator[Callable[[str], None]]:
    """Give what leaves word of a server at an address, and take the word back at the end, also
    where a signal is the end.
    """
    announced_here: list[Running] = []

    def leave(address: str) -> None:
        announced_here.append(Running(near(address), secret, os.getpid()))
        announce(root, announced_here[-1])

    # What serves gives the signal on when it has ended in order, which is no failure.
    before = signal.signal(signal.SIGTERM, lambda number, _: sys.exit(0))
    try:
        yield leave
    finally:
        signal.signal(signal.SIGTERM, before)
        for running in announced_here:
            withdraw(root, running)


def near(address: str) -> str:
    """Return the address under which this machine asks a server, whichever it listens at."""
    return address.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]", "//[::1]")


def find(root: str) -> Running | None:
    """Return the server of a workspace; None where none is recorded."""
    raw = home.read(_name(root))
    try:
        fields = json.loads(raw or b"{}")
        return Running(str(fields["address"]), str(fields["secret"]), int(fields.get("pid", 0)))
    except (ValueError, KeyError, TypeError):
        return None


def link(root: str, agent: str) -> str:
    """Return an address that logs a browser in as an agent, once, from the server that runs."""
    running = find(root)
    if running is None:
        raise NotFound("no server runs for this workspace; start one: `synapse serve`")
    import ssl

    import httpx2

    try:
        answer = httpx2.post(
            f"{running.address}/login/links",
            data={"agent": agent},
            headers={SECRET: running.secret},
            timeout=WAIT,
            trust_env=False,
            verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),  # no TLS: none is read
        )
    except httpx2.HTTPError as error:
        raise StoreError(
            f"the server at {running.address} does not answer"
            f" ({type(error).__name__}); start it again: `synapse serve`"
        ) from error
    try:
        fields = json.loads(answer.text)
    except ValueError:
        fields = {}
    if not isinstance(fields, dict):
        fields = {}
    if answer.status_code != 200:
        kind = NotFound if answer.status_code == 404 else Forbidden
        raise kind(str(fields.get("detail", "the server refused")))
    return f"{running.address}/login?code={fields['code']}"


def _name(root: str) -> str:
    digest = sha256(os.fsencode(os.path.realpath(root))).hexdigest()[:32]
    return f"servers/{digest}.json"
