"""The address of a log in a database: `postgresql://USER@HOST:PORT/DATABASE?workspace=NAME`.

Pure, and needs no driver: `synapse.open` and synapse.yaml name a log by it.
"""

from __future__ import annotations

import os
import re
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from synapse.errors import StoreError
from synapse.system.digest import sha256
from synapse.system.typed import NamedTuple

WORKSPACE = "synapse"  # where the address names none
_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")


class Address(NamedTuple):
    """Where a log is: what libpq connects to, with the password if one was given, and the schema of
    the workspace.
    """

    dsn: str
    schema: str

    @property
    def public(self) -> str:
        """Return the address as it may be written down: without the password."""
        scheme, netloc, path, query, _ = urlsplit(self.dsn)
        user, at, host = netloc.rpartition("@")
        pairs = [pair for pair in parse_qsl(query) if pair[0] != "password"]
        if self.schema != WORKSPACE:
            pairs.append(("workspace", self.schema))
        netloc = user.partition(":")[0] + at + host
        return urlunsplit((scheme, netloc, path, urlencode(pairs, safe="/:,"), ""))

    @property
    def folder(self) -> str:
        """Return the folder of this machine's copy, where the address is all that was given."""
        state = os.environ.get("XDG_STATE_HOME", "")
        if not os.path.isabs(state):
            state = os.path.expanduser("~/.local/state")
        name = re.sub(r"[^a-z0-9_-]+", "-", urlsplit(self.dsn).path.lower()).strip("-")
        name = "-".join(filter(None, (name, self.schema, sha256(self.public.encode())[:8])))
        return os.path.join(state, "synapse", "databases", name)


def parse_address(text: str) -> Address:
    """Return an address by its text; StoreError where it is none."""
    if not text.startswith(("postgresql://", "postgres://")):
        raise StoreError(
            "the address of a log is postgresql://USER@HOST:PORT/DATABASE, with"
            " ?workspace=NAME where it is not the only one there"
        )
    scheme, netloc, path, query, _ = urlsplit(text)
    pairs = parse_qsl(query, keep_blank_values=True)
    schema = dict(pairs).get("workspace", WORKSPACE)
    if not _NAME.fullmatch(schema):
        raise StoreError(
            f"{schema!r} cannot be the name of a workspace in a database: lower-case letters,"
            " digits and _, at most 40, with a letter first"
        )
    query = urlencode([pair for pair in pairs if pair[0] != "workspace"], safe="/:,")
    return Address(urlunsplit((scheme, netloc, path, query, "")), schema)
