"""The public keys of a workspace, as the log has them: whose they are, from where on, until where.
Values, pure; no cryptography is here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from synapse.system.typed import Any, NamedTuple

# the owner of the key of the private scope; no agent is called so
WORKSPACE = "@workspace"


class Registered(NamedTuple):
    """A public key, with the place from which on it counts and the one from which on it signs
    nothing more; `fields` are those of its record.
    """

    id: str
    owner: str
    seq: int
    until: int | None
    revoked: bool
    fields: Mapping[str, Any]

    @property
    def state(self) -> str:
        if self.until is None:
            return "current"
        return "revoked" if self.revoked else "rotated"

    def signs_at(self, seq: int) -> bool:
        """Return whether it may sign an entry at a place in the log."""
        return self.seq < seq and (self.until is None or seq < self.until)


class Keys:
    """All keys that were ever registered."""

    def __init__(self, records: Iterable[tuple[int, Mapping[str, Any]]]) -> None:
        self.by_id: dict[str, Registered] = {}
        self.current: dict[str, Registered] = {}
        self.owners: set[str] = set()
        self.last = 0
        for seq, fields in records:
            self.last = seq
            if fields.get("how") == "revoked":
                self._end(fields.get("id"), seq, revoked=True)
            else:
                self._add(fields, seq)

    def _add(self, fields: Mapping[str, Any], seq: int) -> None:
        key = fields.get("key")
        if not isinstance(key, Mapping) or key.get("id") in self.by_id:
            return
        id, owner = str(key.get("id")), str(key.get("owner"))
        if owner in self.current:
            self._end(self.current[owner].id, seq, revoked=False)
        registered = Registered(id, owner, seq, None, False, dict(key))
        self.by_id[id] = self.current[owner] = registered
        self.owners.add(owner)

    def _end(self, id: object, seq: int, revoked: bool) -> None:
        key = self.by_id.get(str(id))
        if key is None or key.revoked:
            return
        until = seq if key.until is None else key.until
        self.by_id[key.id] = key._replace(until=until, revoked=revoked)
        if self.current.get(key.owner) == key:
            del self.current[key.owner]

    def of(self, owner: str) -> list[Registered]:
        """Return the keys of an owner, the newest first."""
        keys = [key for key in self.by_id.values() if key.owner == owner]
        return keys[::-1]

    def __contains__(self, owner: object) -> bool:
        """Return whether the owner ever had a key, and so has to sign what it writes."""
        return owner in self.owners
