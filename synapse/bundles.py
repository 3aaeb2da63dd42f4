"""Bundles: what one organisation's workspace hands to another's, and takes in from it.

A bundle is a text of lines. Each is one entry, signed by the workspace that it is from, sealed to
the one that it is for, and bound to the entry before it; the last line says how far the bundle goes
and what was received. A partner is an agent here: what it may read is handed out, what comes in is
written as that agent, so its rights and authority bound it, and counts as text from outside until
somebody vouches for it. PROTOCOL.md has the format.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from operator import attrgetter

from synapse.agent_memory import AgentMemory
from synapse.core import Memory
from synapse.errors import Conflict, Forbidden, InvalidEntry, InvalidQuery, NotFound, SynapseError
from synapse.formats.fields import FieldReader
from synapse.formats.wants import Want, of_partner
from synapse.model import kinds
from synapse.model import namespace as ns
from synapse.model.agents import RESERVED
from synapse.model.entry import DOUBTFUL, NEVER, SEALED, SECOND, Draft, Entry, words
from synapse.model.keys import WORKSPACE
from synapse.notify import Follower
from synapse.store import Store
from synapse.system import plain_files
from synapse.system.digest import sha256
from synapse.system.typed import TYPE_CHECKING, Any, NamedTuple
from synapse.trust import decisions

if TYPE_CHECKING:
    from synapse.crypto import PrivateKey, PublicKey

BLOCK = "partners"
VERSION = "1.0"
FOLDER = ".index/partners"  # what was handed out and confirmed: lost, it is handed out once more
START = "0"  # the cursor before the first entry
LARGEST = 2 << 20  # bytes of a line
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?")
_CURSOR = re.compile(r"0|[1-9][0-9]{0,17}:[0-9a-f]{32}")
_ONCE = "partner:"  # before the cursor of an entry of theirs, the key under which it is written
_TEXTS = ("id", "author", "namespace", "priority", "body", "topic", "evidence", "at")
# where the acts that end an entry name it, and the acts that name entries and end none
_NAMES = ("replaces", "entry", "ids", "entries", "away", "held")
_NO_ENDS = frozenset(("delivery", "shown", "used", "run", "share", "link"))
_said = attrgetter("tags", "replaces", "related")


class Partner(NamedTuple):
    """Another organisation: its key, the agent that it is here, and where its entries go."""

    name: str
    key: PublicKey
    agent: str
    namespace: str
    want: Want

    def id(self, theirs: str) -> str:
        """Return the id here of an entry of theirs: it keeps its own, behind the partner's name."""
        return f"syn-{self.name}-{theirs.removeprefix('syn-')}"


class Exported(NamedTuple):
    """What a bundle ends with: how many entries are in it, up to which cursor, and how many of them
    were handed out before and never confirmed.
    """

    entries: int
    since: str
    until: str
    repeated: int


class Imported(NamedTuple):
    """What came of a bundle: the entries written, how many were here already, those that may not be
    written here, how far what came in goes, how far the partner has received ours, and what is
    wrong with the bundle.
    """

    entries: list[Entry]
    present: int
    refused: list[str]
    until: str
    confirmed: str
    problem: str


# -- handing out -----------------------------------------------------------------------------------


def export_bundle(memory: Memory, name: str, since: str | None = None) -> Iterator[str | Exported]:
    """Yield the lines of a bundle for a partner: what it may read and was written after the cursor,
    or after what it confirmed. Last comes what the bundle is.
    """
    store = memory.store
    partner, signer = _partner(store, name), _own_key(store)
    progress = _progress(store, partner)
    since = since or progress.get("confirmed") or START
    cursor = _seq(since)
    if since != _cursor(store, cursor):
        raise InvalidQuery(
            f"{since} is no cursor of this workspace; without --since it is what {name} confirmed",
            since=since,
        )
    sent, until, count, repeated = _seq(progress.get("sent") or START), since, 0, 0
    ended = _ended(store, partner, cursor)
    for seq, entry in _entries(store, partner, cursor):
        this = _cursor(store, seq)
        withdrawn = [id for id, at in ended.items() if at <= seq]
        fields = _fields(entry) | {"over": [id for id in withdrawn if id not in entry.replaces]}
        yield _line(partner, signer, {"prev": until, "this": this}, fields)
        ended = {id: at for id, at in ended.items() if at > seq}
        until, count, repeated = this, count + 1, repeated + (seq <= sent)
    body = {"received": _received(store, partner), "over": [*ended]}
    yield _line(partner, signer, {"until": until}, body)
    if _seq(until) > sent:
        _note(store, partner, progress | {"sent": until})
    yield Exported(count, since, until, repeated)


def _entries(store: Store, partner: Partner, cursor: int) -> Iterator[tuple[int, Entry]]:
    """Yield the live entries that the partner may read and that began here, with their places."""
    agent_memory, now = AgentMemory(store, partner.agent), store.clock()
    foreign = {each.agent for each in declared(store)[0].values()}
    follower = Follower(store, agent_memory.access.agent, cursor)
    for event in follower.poll():
        entry = event.entry
        if entry.kind != kinds.ENTRY or entry.scope in SEALED or entry.author in foreign:
            continue
        if entry.trust in DOUBTFUL or entry.expires <= now:
            continue
        if agent_memory.fate(entry.id) is None:
            yield event.cursor, entry


def _ended(store: Store, partner: Partner, cursor: int) -> dict[str, int]:
    """Return the entries that the partner may read, were ended after the cursor and are shown no
    more, each with the place of the act.
    """
    touched: dict[str, int] = {}
    for record in store.log.since(cursor):
        if record.kind not in _NO_ENDS:
            for name in _NAMES:
                for id in words(record.fields.get(name)):
                    touched.setdefault(id, record.seq)
    agent_memory, ended = AgentMemory(store, partner.agent), {}
    for id, seq in touched.items():
        with suppress(NotFound, Forbidden):
            if agent_memory.fate(id) is not None:
                ended[id] = seq
    return ended


def _fields(entry: Entry) -> dict[str, Any]:
    """Return the fields that a bundle has of an entry."""
    fields = {name: value for name in _TEXTS[:-1] if (value := getattr(entry, name))}
    fields |= {"at": entry.timestamp, "expires": entry.expires if entry.expires < NEVER else None}
    tags, replaces, related = map(list, _said(entry))
    return fields | {"tags": tags, "supersedes": replaces, "related": related}


# -- taking in -------------------------------------------------------------------------------------


def import_bundle(memory: Memory, name: str, lines: Iterable[str]) -> Imported:
    """Take in a bundle of a partner's, as far as it proves itself and nothing before it is missing.
    What is here already is passed over.
    """
    intake, problem = _Intake(memory.store, _partner(memory.store, name)), ""
    try:
        for number, line in enumerate(lines, 1):
            if line.strip():
                intake.take(line, number)
        intake.finish()
    except SynapseError as error:
        problem = str(error)
    return Imported(
        intake.entries, intake.present, intake.refused, intake.received, intake.confirmed(), problem
    )


class _Intake:
    """A bundle on its way in."""

    def __init__(self, store: Store, partner: Partner) -> None:
        self.store, self.partner = store, partner
        self.own = _own_key(store)
        self.agent_memory = AgentMemory(store, partner.agent)
        self.agent_memory.access.outside = True
        self.entries: list[Entry] = []
        self.present = 0
        self.refused: list[str] = []
        self.received = _received(store, partner)
        self.end: dict[str, Any] = {}

    def take(self, line: str, number: int) -> None:
        """Take in the next line. Conflict where something before it is missing."""
        header, fields = _opened(self.partner, self.own, line, number)
        if "until" in header:
            self.end = header | fields
            self._withdraw(fields)
            return
        prev, this = _cursor_in(header, "prev"), _cursor_in(header, "this")
        once = f"{_ONCE}{this}"
        if _seq(this) <= _seq(self.received):
            with self.store.snapshot() as snap:
                first = snap.first(self.partner.agent, once)
            if first is None:
                raise Conflict(
                    f"line {number}: entry {this} is older than {self.received}, which is here, and"
                    " was never taken in: it is replayed, or their log was put back"
                )
            self.present += 1
            return
        if prev != self.received and _seq(prev) >= _seq(self.received):
            raise Conflict(self._gap(prev))
        self._withdraw(fields)
        try:
            self.entries += _write(self.agent_memory, self.partner, fields, once)
        except (Forbidden, InvalidEntry) as error:
            self.refused.append(f"{self.partner.id(str(fields.get('id')))}: {error}")
        self.received = this

    def _withdraw(self, fields: Mapping[str, Any]) -> None:
        """File away what the partner shows no more."""
        for theirs in map(str, fields.get("over") or ()):
            with suppress(NotFound, Forbidden):
                id = self.partner.id(theirs)
                if self.agent_memory.fate(id) is None:
                    self.agent_memory.archive(id)

    def finish(self) -> None:
        """Raise Conflict where there was more in the bundle."""
        if not self.end:
            raise Conflict("the bundle has no end: it was cut off")
        if _seq(until := _cursor_in(self.end, "until")) > _seq(self.received):
            raise Conflict(self._gap(until))

    def confirmed(self) -> str:
        """Return up to where the partner has what was handed out to it, and note it."""
        cursor = str(self.end.get("received") or "")
        if not _CURSOR.fullmatch(cursor) or cursor != _cursor(self.store, _seq(cursor)):
            return ""
        _note(self.store, self.partner, _progress(self.store, self.partner) | {"confirmed": cursor})
        return cursor

    def _gap(self, until: str) -> str:
        return (
            f"what came between {self.received} and {until} was withheld, or is in a bundle that"
            f" was not taken in: ask {self.partner.name} for one since {self.received}"
        )


def _write(
    agent_memory: AgentMemory, partner: Partner, fields: Mapping[str, Any], once: str
) -> list[Entry]:
    """Write an entry of the partner's; none where its time is over already."""
    store, ttl = agent_memory.store, None
    if isinstance(expires := fields.get("expires"), int):
        seconds = (expires - store.clock()) // SECOND
        if seconds < 1:
            return []
        ttl = f"{seconds}s"
    texts = {name: str(fields.get(name) or "") for name in _TEXTS}
    references = [
        tuple(id for theirs in fields.get(name) or () if _is_here(store, id := partner.id(theirs)))
        for name in ("supersedes", "related")
    ]
    draft = Draft(
        texts["body"],
        f"{partner.namespace}/{texts['namespace']}",
        partner.agent,
        texts["priority"],
        ttl,
        tags=(*map(str, fields.get("tags") or ()), f"by:{texts['author']}"),
        related=references[1],
        replaces=references[0],
        topic=texts["topic"] or None,
        evidence=texts["evidence"] or None,
        timestamp=texts["at"] or None,
        id=partner.id(texts["id"]),
    )
    return [agent_memory.write(draft, once=once)]


def _is_here(store: Store, id: str) -> bool:
    try:
        return store.entry(id) is not None
    except NotFound:
        return False


def _received(store: Store, partner: Partner) -> str:
    """Return the cursor, in the partner's log, up to which its entries are here."""
    store.refresh()
    with store.snapshot() as snap:
        for limit in (20, None):  # nearly all that it does is to write what came in
            for act in snap.acts(partner.agent, None, 0, limit):
                if act.kind == "entry":
                    once = str(store.log.at(act.seq).once)
                    if once.startswith(_ONCE):
                        return once.removeprefix(_ONCE)
    return START


# -- lines -----------------------------------------------------------------------------------------


def _line(
    partner: Partner, signer: PrivateKey, more: Mapping[str, str], body: Mapping[str, Any]
) -> str:
    from synapse import crypto

    header = {"bundle": VERSION, "from": signer.id, "for": partner.key.id, **more}
    sealed = crypto.seal(json.dumps(body), _canonical(header), [partner.key], signer)
    return json.dumps({**header, "sealed": sealed}) + "\n"


def _opened(
    partner: Partner, own: PrivateKey, line: str, number: int
) -> tuple[dict[str, str], dict[str, Any]]:
    """Return the header of a line and what is sealed in it. InvalidEntry where it does not prove
    that it is from the partner, for this workspace, and as it was.
    """
    from synapse import crypto

    try:
        header = json.loads(line) if len(line) <= LARGEST else None
    except (ValueError, RecursionError):
        header = None
    if not isinstance(header, dict) or not all(isinstance(v, str) for v in header.values()):
        raise InvalidEntry(f"line {number} is no line of a bundle", line=number)
    version = str(header.get("bundle"))
    if version.partition(".")[0] != VERSION.partition(".")[0]:
        raise InvalidEntry(
            f"line {number}: the bundle is of version {version[:20]}, and this software reads"
            f" {VERSION}: update it, or ask {partner.name} for a bundle of version {VERSION}",
            line=number,
        )
    if header.get("for") != own.id:
        raise InvalidEntry(f"line {number} is for another key than this workspace's {own.id}")
    sealed = header.pop("sealed", "")
    try:
        body = json.loads(crypto.unseal(sealed, _canonical(header), own, partner.key))
    except (SynapseError, ValueError, RecursionError) as error:
        raise InvalidEntry(
            f"line {number} is not as {partner.name} signed it: {error}", line=number
        ) from error
    if not isinstance(body, dict):
        raise InvalidEntry(f"line {number} is no line of a bundle", line=number)
    return header, body


def _canonical(header: Mapping[str, str]) -> bytes:
    return json.dumps(header, sort_keys=True, separators=(",", ":")).encode()


def _cursor_in(header: Mapping[str, str], name: str) -> str:
    text = header.get(name, "")
    if not _CURSOR.fullmatch(text):
        raise InvalidEntry(f"a line of the bundle has no {name!r}")
    return text


def _seq(cursor: str) -> int:
    return int(cursor.partition(":")[0]) if _CURSOR.fullmatch(cursor) else 0


def _cursor(store: Store, seq: int) -> str:
    """Return the cursor at a record: its number, and a digest of all before it and itself."""
    if not seq:
        return START
    proof = store.log.proof(seq).split(" ")
    return f"{seq}:{sha256(proof[min(2, len(proof) - 1)].encode())[:32]}"


def _own_key(store: Store) -> PrivateKey:
    return store.keyring.private(store.keyring.current(WORKSPACE))


# -- what is declared, and what is noted -----------------------------------------------------------


def declared(store: Store) -> tuple[dict[str, Partner], dict[str, str]]:
    """Return the partners of a workspace by their names, and what is wrong with those that cannot
    be.
    """
    block: Any = dict(store.settings.other).get(BLOCK)
    if not isinstance(block, Mapping):
        problem = "write a block of `name: {key: ..., agent: ..., namespace: ...}` lines"
        return {}, {} if block is None else {BLOCK: problem}
    partners, problems = {}, {}
    for name, fields in block.items():
        try:
            partners[str(name)] = _declared(str(name), fields)
        except SynapseError as error:
            problems[str(name)] = str(error)
    return partners, problems


def _declared(name: str, fields: Any) -> Partner:
    from synapse import crypto

    reader = FieldReader(fields, "", f"{BLOCK}.{name}: ")
    agent, namespace = reader.text("agent") or "", reader.text("namespace") or ""
    raw = fields.get("key") if isinstance(fields, Mapping) else None
    problems = []
    if not _NAME.fullmatch(name):
        problems.append("its name is not of a-z, 0-9 and -, at most 32 of them")
    if not agent or agent in RESERVED:
        problems.append("agent is to be the agent that it is here")
    if not namespace or not ns.is_namespace(namespace):
        problems.append("namespace is to be where its entries go, such as partners/acme")
    if not isinstance(raw, Mapping | str):
        problems.append("key is to be what `synapse keys export-public` prints there")
    reader.problems += [f"{reader.prefix}{problem}" for problem in problems]
    reader.finish()
    key = crypto.public_from(raw if isinstance(raw, str) else json.dumps(raw))
    want = of_partner(name, fields) or Want("", "", "", "")
    return Partner(name, key, agent, namespace, want)


def _partner(store: Store, name: str) -> Partner:
    partners, problems = declared(store)
    if name in problems:
        raise InvalidQuery(problems[name])
    if name not in partners:
        raise NotFound(f"there is no partner {name!a:.80} in synapse.yaml", id=name)
    partner = partners[name]
    decisions.demand(store.root, partner.want)
    return partner


def _progress(store: Store, partner: Partner) -> dict[str, str]:
    """Return how far was handed out to a partner, and how far it confirmed, for its key."""
    try:
        raw = plain_files.read_file(_path(store, partner), 4_096)
        progress = json.loads(raw)
    except (OSError, ValueError):
        return {}
    return progress if isinstance(progress, dict) and progress.get("key") == partner.key.id else {}


def _note(store: Store, partner: Partner, progress: Mapping[str, str]) -> None:
    path = _path(store, partner)
    try:
        plain_files.make_folder(os.path.dirname(path))
        plain_files.replace_file(path, json.dumps({**progress, "key": partner.key.id}).encode())
    except OSError:
        pass  # it is handed out once more


def _path(store: Store, partner: Partner) -> str:
    return os.path.join(store.root or "", FOLDER, f"{partner.name}.json")
