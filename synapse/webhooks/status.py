"""What people ask of webhooks: which there are, how far each has come, which letters are dead; a
test, and dead letters sent again.

Reads the files of the outboxes. The sender, in whatever process it is, takes up what is to be sent
again.
"""

from __future__ import annotations

import asyncio
import os

from synapse.errors import InvalidEntry, NotFound, StoreError, SynapseError
from synapse.store import Store
from synapse.system.typed import Any, NamedTuple
from synapse.trust import decisions
from synapse.webhooks import signatures
from synapse.webhooks.outbox import folder_of, letter_path, letters, payload, read_state
from synapse.webhooks.post import Outcome, Wire, post
from synapse.webhooks.secrets import read_secret
from synapse.webhooks.sender import LOCK, PLAIN, lock
from synapse.webhooks.targets import Target, declared

READY = "ready"


class State(NamedTuple):
    """One webhook with how far it has come. `state` is `ready`, or why nothing is sent."""

    name: str
    state: str
    url: str = ""
    reader: str = ""
    cursor: int | None = None
    sent: int = 0
    pending: int = 0
    error: dict[str, str] | None = None
    dead: tuple[dict[str, Any], ...] = ()

    def listed(self) -> dict[str, Any]:
        """Return what a list of webhooks shows of it."""
        fields = self._asdict()
        return {name: fields[name] for name in ("name", "state", "url", "reader")}


def states(store: Store) -> list[State]:
    """Return the webhooks of a workspace, those too that cannot be."""
    targets, problems = declared(store.settings, _root(store))
    return [
        *(_state(store, target) for target in targets),
        *(State(name, why) for name, why in problems.items()),
    ]


def _state(store: Store, target: Target) -> State:
    folder = folder_of(store)
    state = State(target.name, _ready(store, target), target.url, target.reader)
    try:
        stored = read_state(folder, target.name)
    except StoreError as error:
        return state._replace(state=str(error))
    dead = tuple(letters(folder, target.name, "dead"))
    if not stored:
        return state._replace(dead=dead)
    return state._replace(
        cursor=stored["cursor"],
        sent=stored["sent"],
        pending=stored.get("pending", 0),
        error=stored.get("error"),
        dead=dead,
    )


def _ready(store: Store, target: Target) -> str:
    try:
        decisions.demand(_root(store), target.want)
        _keys(store, target)
        if target.reader and store.agents.get(target.reader) is None:
            raise store.agents.unregistered(target.reader)
    except SynapseError as error:
        return str(error)
    return READY


def send_test(store: Store, name: str, wire: Wire = PLAIN) -> Outcome:
    """Send a test to a webhook, now and once, and return what became of it."""
    target = _named(store, name)
    trusted = decisions.demand(_root(store), target.want)
    now = store.clock()
    body = payload("webhook.test", now, store.settings.name, {"webhook": name})
    id = f"msg_test_{store.draw(12).hex()}"
    headers = signatures.headers_of(_keys(store, target), id, now // 1_000_000, body)
    return asyncio.run(post(target.url, headers, body, trusted, wire))


def resend(store: Store, which: str) -> list[str]:
    """Queue the dead letters of a webhook again, or the one with this id; return their ids."""
    folder = folder_of(store)
    names = [row.name for row in states(store)]
    moved = []
    for name in names:
        for letter in letters(folder, name, "dead"):
            if which in (name, letter["id"]):
                paths = (letter_path(folder, name, kind, letter["id"]) for kind in _MOVE)
                os.rename(*paths)
                moved.append(letter["id"])
    if not moved and which not in names:
        raise NotFound(
            f"there is no webhook {which} and no dead letter with this id;"
            " `synapse webhooks status` lists them",
            id=which,
        )
    return moved


_MOVE = ("dead", "again")


def is_up(store: Store) -> bool:
    """Return whether some process sends for this workspace."""
    if not os.path.exists(os.path.join(folder_of(store), LOCK)):
        return False
    fd = lock(store)
    if fd is not None:
        os.close(fd)
    return fd is None


def _keys(store: Store, target: Target) -> tuple[bytes, ...]:
    root = _root(store)
    return tuple(signatures.key_of(read_secret(name, root)) for name in target.secrets)


def _named(store: Store, name: str) -> Target:
    targets, problems = declared(store.settings, _root(store))
    if name in problems:
        raise InvalidEntry(problems[name])
    for target in targets:
        if target.name == name:
            return target
    raise NotFound(f"there is no webhook {name} in synapse.yaml", id=name)


def _root(store: Store) -> str:
    if store.root is None:
        raise StoreError("webhooks need a workspace in a folder")
    return store.root
