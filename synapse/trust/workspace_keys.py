"""The keys of a workspace, as a person manages them: new, rotated, revoked, exported and imported.

Each act is a record by the operator, so that every reader knows whose key counted when. Refused to
whoever acts as an agent. Called by programs and the verb `keys`.
"""

from __future__ import annotations

from synapse.errors import Conflict, InvalidEntry, NoKey
from synapse.model import clock
from synapse.model.agents import OPERATOR
from synapse.model.keys import WORKSPACE, Keys
from synapse.model.records import KEYED, Record, unchanged
from synapse.system.typed import TYPE_CHECKING, NamedTuple
from synapse.trust import keyring
from synapse.trust.persons import persons_alone

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    from synapse.crypto import PublicKey
    from synapse.index.reading import Reading
    from synapse.log.commit import Commit
    from synapse.log.files import FilesLog
    from synapse.log.memory import MemoryLog
    from synapse.trust.agents import Agents

    class Journal(Protocol):
        """What is asked of the workspace's `Store`, which stands above this folder."""

        clock: Callable[[], int]
        agents: Agents
        commit: Commit

        @property
        def log(self) -> FilesLog | MemoryLog: ...
        @property
        def keyring(self) -> keyring.Keyring: ...
        def snapshot(self) -> Reading: ...
        def refresh(self) -> None: ...


class KeyState(NamedTuple):
    """A registered key: whose, since when, whether it is `current`, `rotated` or `revoked`, and
    whether its private half is here.
    """

    id: str
    owner: str
    state: str
    since: str
    here: bool


class WorkspaceKeys:
    """The keys of one workspace. An owner of None is the workspace itself: the private scope is
    sealed to its key.
    """

    def __init__(self, store: Journal) -> None:
        self.store = store

    def list(self) -> list[KeyState]:
        """Return every key that was ever registered, in the order in which they came."""
        self.store.refresh()
        with self.store.snapshot() as snap:
            keys = list((snap.names.keys or keyring.NONE).by_id.values())
            times = [self.store.log.at(key.seq).at for key in keys]
        private = map(self.store.keyring.holds, keys)
        return [
            KeyState(key.id, key.owner, key.state, clock.seconds(at), holds)
            for key, at, holds in zip(keys, times, private, strict=True)
        ]

    def new(self, owner: str | None = None) -> str:
        """Make the first key of an agent, or of the workspace; its id. From then on the agent signs
        all that it writes.
        """
        return self._make(owner, "new")

    def rotate(self, owner: str | None = None) -> str:
        """Make a key that takes the place of the current one; its id. What was sealed to the old
        one stays readable where the old private half is kept.
        """
        return self._make(owner, "rotated")

    def revoke(self, owner: str | None = None, id: str | None = None) -> str:
        """Say that a key counts no more, the current one where none is named; its id. What it
        signed before stays signed. Its owner writes nothing until it has a new one.
        """
        persons_alone("revoke a key")
        name = self._owner(owner)
        keys = self._keys
        key = keys.by_id.get(id) if id else keys.current.get(name)
        if key is None or key.owner != name:
            which = f"key {id}" if id else "key to revoke"
            raise NoKey(
                f"{keyring.who(name)} has no {which}; `synapse keys list` lists them all",
                owner=name,
            )
        if key.revoked:
            raise Conflict(f"the key {key.id} was revoked before")
        self._write({"how": "revoked", "owner": name, "id": key.id})
        accepted = getattr(self.store.log, "accepted", None)  # a log in memory takes in no other
        if accepted is not None and key.id in accepted.decision.keys:
            accepted.accept((), (), ended=(key.id,))
        return key.id

    def protect(self, passphrase: str) -> int:
        """Put the private keys that are here behind a passphrase, behind none where it is empty;
        return how many.
        """
        persons_alone("protect private keys")
        return self.store.keyring.rewrite(passphrase)

    def export_public(self, owner: str | None = None) -> str:
        """Return the current public key as text, signed by itself: for another machine."""
        from synapse import crypto

        key = self.store.keyring.current(self._owner(owner))
        return crypto.public_text(self.store.keyring.private(key))

    def import_public(self, text: str) -> PublicKey:
        """Register the public key in such a text as its owner's, in the place of an earlier one."""
        from synapse import crypto

        persons_alone("register a key")
        key = crypto.public_from(text)
        if key.owner != WORKSPACE:
            self._owner(key.owner)
        self._write({"how": "imported", "key": crypto.public_fields(key)}, key.id)
        return key

    @property
    def _keys(self) -> Keys:
        self.store.refresh()
        return self.store.keyring.keys

    def _owner(self, owner: str | None) -> str:
        if owner is None or owner == WORKSPACE:
            return WORKSPACE
        if owner not in self.store.agents.all():
            raise self.store.agents.unregistered(owner)
        return owner

    def _make(self, owner: str | None, how: str) -> str:
        from synapse import crypto

        persons_alone("make a key")
        self.store.log.demand_writable()
        name = self._owner(owner)
        has = self._keys.current.get(name)
        if has and how == "new":
            raise Conflict(
                f"{keyring.whose(name)} key is {has.id};"
                " `synapse keys rotate` makes another in its place"
            )
        if how == "rotated" and not has:
            raise NoKey(
                f"{keyring.who(name)} has no key yet: `synapse keys"
                f" new{keyring.named(name)}` makes one"
            )
        key = crypto.new_key(name)
        self.store.keyring.keep(key, clock.seconds(self.store.clock()))
        id: str = key.id
        self._write({"how": how, "key": crypto.public_fields(key.public)}, id)
        return id

    def _write(self, fields: dict[str, object], id: str | None = None) -> None:
        """Commit an act on keys, where no other came meanwhile."""
        keys = self._keys
        if id in keys.by_id:
            raise InvalidEntry(f"the key {id} is registered already", id=id)
        record = Record.new("key", OPERATOR, fields, key=KEYED)
        self.store.commit.append(record, unless=unchanged(KEYED, keys.last))
        self.store.refresh()
