"""The keys of this person for a workspace: sealing, opening and signing in an agent's name.

Private halves lie in the person's own folder, one file each, and never in the workspace; public
ones are records of the log. `synapse.crypto` does the work, and is loaded when there is something
to seal, open or sign. Called by whoever writes or shows entries.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping

from synapse.errors import NoKey, SealError, SynapseError
from synapse.model import clock
from synapse.model.agents import CONSOLIDATOR, OPERATOR, Agent
from synapse.model.entry import SEALED, Entry
from synapse.model.keys import WORKSPACE, Keys, Registered
from synapse.model.records import Record, entry_of
from synapse.system import home
from synapse.system.digest import sha256
from synapse.system.typed import TYPE_CHECKING
from synapse.trust import passphrase

if TYPE_CHECKING:
    from synapse.crypto import PrivateKey, PublicKey

NONE = Keys(())
_EXCERPT = 80  # characters of an opened body where there is room for a line
_LINE = re.compile(r"\[sealed ([A-Za-z0-9_-]{5,80}) for [^\]\n]*\]")


class Keyring:
    """The private keys for one workspace. One in memory keeps them there, too."""

    def __init__(
        self,
        root: str | None,
        keys: Callable[[], Keys | None],
        acts_on: Callable[[str], Iterable[Record]],
    ) -> None:
        self.root = root
        self._acts_on = acts_on  # the acts on an entry
        self._keys = keys
        self._held: dict[str, PrivateKey] = {}

    @property
    def keys(self) -> Keys:
        """Return the public keys, as registered."""
        return self._keys() or NONE

    # -- private keys ------------------------------------------------------------------------------

    def place(self, owner: str, id: str) -> str:
        """Return where the file of a private key is, below the person's folder."""
        return f"{self.folder}/{owner}/{id}.json"

    @property
    def folder(self) -> str:
        """Return the folder of the workspace's keys below the person's own: by its real path, as
        trust is.
        """
        if self.root is None:
            return "keys/memory"
        return f"keys/{sha256(os.fsencode(os.path.realpath(self.root)))[:32]}"

    def keep(self, key: PrivateKey, created: str) -> None:
        """Store a private key, on the disk before anybody seals to it."""
        from synapse.trust import locked_keys

        if self.root is not None:
            locked = any(locked_keys.is_locked(home.read(name) or b"") for name in self.names())
            text = locked_keys.file_text(key, created, passphrase.passphrase() if locked else "")
            home.write(self.place(key.owner, key.id), text.encode())
        self._held[key.id] = key

    def names(self) -> list[str]:
        """Return the files of the private keys that are here, below the person's folder."""
        top = os.path.join(home.operator_home(), self.folder)
        return [
            os.path.relpath(os.path.join(folder, name), home.operator_home())
            for folder, _, names in os.walk(top)
            for name in sorted(names)
            if name.endswith(".json")
        ]

    def rewrite(self, new: str) -> int:
        """Put all private keys that are here behind this passphrase, behind none where it is empty;
        return how many. Who has them behind one already is asked for it.
        """
        from synapse.trust import locked_keys

        raws = {name: home.read(name) or b"" for name in self.names()}
        before = passphrase.passphrase() if any(map(locked_keys.is_locked, raws.values())) else ""
        for name, raw in raws.items():
            key, created = locked_keys.key_of(raw, lambda: before), json.loads(raw)["created"]
            home.write(name, locked_keys.file_text(key, created, new).encode())
        return len(raws)

    def holds(self, found: Registered) -> bool:
        """Return whether the private half of a key is here, behind a passphrase or not."""
        from synapse.trust import locked_keys

        if found.id not in self._held and self.root is not None:
            raw = home.read(self.place(found.owner, found.id))
            if raw is not None and locked_keys.is_locked(raw):
                return True
        return self._private(found) is not None

    def private(self, found: Registered) -> PrivateKey:
        """Return the private half of a key; NoKey names it where it is not here."""
        key = self._private(found)
        if key is None:
            raise NoKey(
                f"the private half of {whose(found.owner)} key {found.id} is not here"
                f" ({self._path(found)}): it was made by another person or on another"
                " machine, the workspace was moved, or the file is lost. Put the file there;"
                f" `synapse keys rotate{named(found.owner)}` makes another key, for what comes",
                key=found.id,
                owner=found.owner,
            )
        return key

    def _private(self, found: Registered) -> PrivateKey | None:
        if found.id not in self._held:
            if self.root is None:
                return None
            raw = home.read(self.place(found.owner, found.id))
            if raw is None:
                return None
            from synapse.trust import locked_keys

            try:
                key = locked_keys.key_of(raw, passphrase.passphrase)
            except NoKey:
                raise  # the package is not installed
            except SealError as error:
                raise SealError(f"{self._path(found)}: {error}") from None
            if (key.owner, key.id) != (found.owner, found.id):
                raise SealError(f"{self._path(found)} holds another key")
            self._held[found.id] = key
        return self._held[found.id]

    def _path(self, found: Registered) -> str:
        path = self.place(found.owner, found.id)
        return os.path.join(home.operator_home(), path)

    # -- whose keys --------------------------------------------------------------------------------

    def current(self, owner: str) -> Registered:
        """Return the key to which is sealed for an owner, and with which it signs."""
        key = self.keys.current.get(owner)
        if key is None:
            had = "'s key was revoked" if owner in self.keys else " has no key"
            had += ", and this needs a key"
            raise NoKey(
                f"{who(owner)}{had}: nothing was stored; `synapse keys new{named(owner)}`"
                " makes one",
                owner=owner,
            )
        return key

    # -- entries -----------------------------------------------------------------------------------

    def closed(self, entry: Entry, now: int, agents: Mapping[str, Agent]) -> Entry:
        """Return an entry as it is stored: its body sealed where its scope asks for that, signed
        where its author has a key. NoKey where one is missing.
        """
        from synapse import crypto

        signer = None
        if entry.author in self.keys or entry.scope == "encrypted":
            signer = self.private(self.current(entry.author))
            plain = entry.trust == "local" and not entry.derived_from
            entry = entry._replace(
                timestamp=entry.timestamp or clock.seconds(now),
                trust="keyed" if plain else entry.trust,
            )
        if entry.scope in SEALED:
            entry = entry._replace(timestamp=entry.timestamp or clock.seconds(now))
            to = [public(self.current(owner)) for owner in _recipients(entry, agents)]
            sealed = crypto.seal(entry.body, crypto.header(entry), to, signer)
            return entry._replace(body=sealed, signature=None)
        if signer is None:
            return entry
        signature = crypto.sign(entry.body, crypto.header(entry), signer)
        return entry._replace(signature=signature)

    def opened(self, entry: Entry, reader: str | None) -> Entry:
        """Return an entry as a reader is shown it: with its body where a key of the reader's is
        here, else with a line that says for whom it is sealed, and what is wrong where it is.
        """
        if entry.scope not in SEALED:
            return entry
        if reader is None:
            return shut(entry)
        try:
            body = self.body(entry, reader)
        except NoKey as error:
            explained = {"key", "package"} & error.details.keys()
            lost = f" ({error})" if explained else ""
            return entry._replace(body=line(entry) + lost)
        except SynapseError as error:
            return entry._replace(body=f"{line(entry)} (refused: {error})")
        return entry._replace(body=body)

    def body(self, entry: Entry, reader: str) -> str:
        """Return the body of a sealed entry; SealError says why it stays closed."""
        from synapse import crypto

        header = crypto.header(entry)
        id = crypto.signer_of(entry.body)
        signer = None
        if id:
            signing = self.keys.by_id.get(id)
            if signing is None or signing.owner != entry.author:
                raise SealError(f"it is signed by {id}, which is no key of {entry.author}'s")
            signer = public(signing)
        elif entry.author in self.keys.current and entry.scope == "encrypted":
            raise SealError(f"{entry.author} did not sign it")
        key, share = self._way_in(entry, reader)
        if share:
            return crypto.unseal_shared(entry.body, header, share, key, signer)
        return crypto.unseal(entry.body, header, key, signer)

    def _way_in(self, entry: Entry, reader: str) -> tuple[PrivateKey, str]:
        """Return a private key of the reader's that opens an entry, and what was shared with it
        where it is not among the recipients. NoKey names the one that is not here.
        """
        from synapse import crypto

        owner = WORKSPACE if entry.scope == "private" else reader
        own, listed = self.keys.of(owner), crypto.recipients_of(entry.body)
        lost: NoKey | None = None
        ways = [(key, "") for key in own if key.id in listed]
        if not ways or not self.holds(ways[0][0]):
            shared = {
                str(record.fields.get("to")): str(record.fields.get("wrapped"))
                for record in self._acts_on(entry.id)
                if record.kind == "share"
            }
            ways += [(key, shared[key.id]) for key in own if key.id in shared]
        for key, share in ways:
            try:
                return self.private(key), share
            except NoKey as error:
                lost = error
        if lost is not None:
            raise lost
        raise NoKey(f"{entry.id} is not sealed to {whose(owner)} keys")

    def is_shared(self, entry: Entry, reader: str) -> bool:
        """Return whether an entry was shared with a key of the reader's."""
        own = {key.id for key in self.keys.of(reader)}
        return any(
            record.kind == "share" and record.fields.get("to") in own and record.by != reader
            for record in (self._acts_on(entry.id) if own else ())
        )

    def share(self, entry: Entry, holder: str, to: str) -> dict[str, object]:
        """Return the fields of a record that shares a sealed entry with one more agent: its key,
        wrapped anew by a holder.
        """
        from synapse import crypto

        if entry.scope != "encrypted":
            raise SealError(f"{entry.id} is not in the scope encrypted: nothing to share")
        # who cannot open it, or whose entry is forged, is told
        self.body(entry, holder)
        key, earlier = self._way_in(entry, holder)
        recipient = self.current(to)
        header = crypto.header(entry)
        wrapped = crypto.share(entry.body, header, key, public(recipient), earlier)
        return {"entry": entry.id, "with": to, "to": recipient.id, "wrapped": wrapped}


def proves(keys: Keys, entry: Entry) -> bool:
    """Return whether an entry from elsewhere carries the signature of its author's current key. It
    does not where nobody can tell: the package is not installed.
    """
    key = keys.current.get(entry.author)
    try:
        return key is not None and not _unproven(entry, key)
    except NoKey:
        return False


def _recipients(entry: Entry, agents: Mapping[str, Agent]) -> list[str]:
    """Return the owners of the keys to which an entry is sealed."""
    if entry.scope == "private":
        return [WORKSPACE]
    names = frozenset(entry.addressees)
    if "all" in names:
        raise NoKey(
            "scope: encrypted is for the addressees alone, and this is to all: nothing was"
            " stored; name them in `to`"
        )
    to = [id for id, agent in agents.items() if not names.isdisjoint(agent.names)]
    present = frozenset().union(*(agents[id].names for id in to)) if to else frozenset()
    if unknown := sorted(names - present):
        raise NoKey(f"there is no key for {', '.join(unknown)}: nothing was stored", owner=unknown)
    return sorted({entry.author, *to} - {OPERATOR})


def shut(entry: Entry) -> Entry:
    """Return an entry as everybody may be shown it, with a line in the place of a sealed body."""
    return entry if entry.scope not in SEALED else entry._replace(body=line(entry))


def line(entry: Entry) -> str:
    """Return what stands for a sealed body where it is not opened."""
    return f"[sealed {entry.id} for {', '.join(entry.addressees)}]"


def revealed(text: str, body_of: Callable[[str], str | None]) -> str:
    """Return a text with the bodies in the place of the lines that stand for them, as far as
    `body_of` gives them; each line of a body behind what stands before the line.
    """
    if "[sealed " not in text:
        return text

    def body(match: re.Match[str]) -> str:
        plain = body_of(match[1])
        if plain is None:
            return match[0]
        start = text.rfind("\n", 0, match.start()) + 1
        before = text[start : match.start()]
        if before.strip(" >"):  # within a line: only how it begins
            return " ".join(plain.split())[:_EXCERPT]
        return plain.replace("\n", f"\n{before}")

    return _LINE.sub(body, text)


# -- what was signed, of a whole log ---------------------------------------------------------------


def unproven(records: Iterable[Record]) -> Iterator[tuple[Record, str]]:
    """Yield the records of entries that do not carry the signature they need, each with what is
    wrong: their author had a key, or they say that they are signed. One for which the operator
    vouched is none.
    """
    wrong: dict[str | None, tuple[Record, str]] = {}
    acts: list[tuple[int, Mapping[str, object]]] = []
    keys, signed = NONE, set[str]()
    for record in records:
        if record.kind == "key" and record.by == OPERATOR:
            acts.append((record.seq, record.fields))
            keys = Keys(acts)
        elif record.kind == "entry":
            if why := _unsigned(record, keys, signed):
                wrong[record.id] = record, why
            elif record.fields.get("trust") == "keyed":
                signed.add(str(record.id))
        elif record.kind == "vouch" and record.by == OPERATOR:
            wrong.pop(record.fields["entry"], None)
    yield from wrong.values()


def _unsigned(record: Record, keys: Keys, signed: Container[str]) -> str:
    """Return what is wrong with the signature of an entry; empty where it needs none. What the
    nightly job made of entries is as good as those.
    """
    fields = record.fields
    trust, merged = fields.get("trust"), "origin" in fields
    if trust == "unverified" or (merged and trust != "keyed"):
        return ""  # where it was written there was no key yet
    names = (record.by, fields.get("author"))
    if trust != "keyed" and keys.owners.isdisjoint(names):
        return ""
    if names == (CONSOLIDATOR, CONSOLIDATOR):
        sources = (*fields.get("derived_from", ()), *fields.get("replaces", ()))
        if sources and all(id in signed for id in sources):
            return ""
        return "it says that it is signed, and is made of what is not"
    if record.text is None and "body" not in fields:
        return ""  # what was signed is not there any more
    return _wrong(entry_of(record), keys, record.seq, merged)


def _wrong(entry: Entry, keys: Keys, seq: int, merged: bool) -> str:
    from synapse import crypto

    text = entry.body if entry.scope in SEALED else entry.signature or ""
    id = crypto.signer_of(text)
    if not id and entry.author not in keys.owners:
        return f"it says that it is signed, and {entry.author} has no key"
    if not id:
        return f"{entry.author} has a key, and did not sign it"
    key = keys.by_id.get(id)
    if key is None or key.owner != entry.author:
        return f"it is signed by {id}, which is no key of {entry.author}'s"
    if not key.signs_at(seq) and (key.revoked or not merged):
        return f"it is signed by {entry.author}'s key {id}, which was {key.state} by then"
    return _unproven(entry, key)


def _unproven(entry: Entry, found: Registered) -> str:
    """Return why an entry does not carry the signature of a key; empty where it does."""
    from synapse import crypto

    header = crypto.header(entry)
    try:
        if entry.scope in SEALED:
            crypto.check(entry.body, header, public(found))
        else:
            crypto.verify(entry.signature or "", entry.body, header, public(found))
    except NoKey:
        raise  # the package is not installed
    except SealError as error:
        return str(error)
    return ""


def signed_key(entry: Entry) -> str:
    """Return the key of the guards under which a signed entry stands, so that a copy is known."""
    return f"signed:{sha256((entry.signature or entry.body).encode())[:32]}"


def public(found: Registered) -> PublicKey:
    """Return a registered key as what seals and verifies; SealError where its record is wrong."""
    from synapse import crypto

    try:
        return crypto.from_fields(found.fields)
    except (ValueError, KeyError, TypeError) as error:
        raise SealError(
            f"the record of {whose(found.owner)} key {found.id} is not valid"
        ) from error


def whose(owner: str) -> str:
    return "the workspace's" if owner == WORKSPACE else f"{owner}'s"


def who(owner: str) -> str:
    return "the workspace" if owner == WORKSPACE else owner


def named(owner: str) -> str:
    """Return an owner as the verb `keys` is told it, behind a space."""
    return "" if owner == WORKSPACE else f" {owner}"
