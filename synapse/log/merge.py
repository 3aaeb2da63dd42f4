"""Two histories of one log as one: which lines are whose, and how the other side's follow ours.
Pure.

The lines of both sides lie in one bag, in whatever order: git's `merge=union` puts them there, or
another workspace's are read beside ours. A line names the one before it by its chain, so that the
tree is found again. Ours is the way that begins first in the bag, and stays as it is, byte for
byte; the others' records are appended to it, each once. What follows depends on the bag alone: two
clones that merge the same come to the same bytes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from synapse.errors import StoreCorrupt
from synapse.formats import codec
from synapse.log.chain import chain_of, decode, encode, follows, tail_of
from synapse.model import clock, kinds
from synapse.model.entry import is_id, mint, minted
from synapse.model.placement import GENESIS, NOTHING
from synapse.model.records import Record, entry_of
from synapse.system.digest import sha256
from synapse.system.typed import Any, NamedTuple

# they speak of the places of their own history
_SKIPPED = frozenset(("seal", "void", "merged"))
_TEXTS = frozenset(("body", "note", "reason", "task", "asked", "origin", "agent", "was"))


class Sides(NamedTuple):
    """The lines of our history, and those of others: each with the chain that it follows."""

    ours: list[bytes]
    others: list[tuple[str, bytes]]

    @property
    def end(self) -> int:
        """Return the seq of our last record."""
        return len(self.ours)


class Merged(NamedTuple):
    """What is appended to ours: the lines, how many records of others they hold, and which of their
    entries have another id now. `moved` are the records of entries that stood elsewhere, as the
    other side had them; `sources` are the lines that these were made of, empty where there is none.
    """

    lines: list[bytes]
    records: int
    ids: dict[str, str]
    moved: list[Record]
    sources: list[bytes]


def sides(lines: Iterable[bytes]) -> Sides:
    """Return whose the lines are. Torn ones, and lines that are there twice, are nobody's.
    StoreCorrupt where a line follows from none that is there.
    """
    ours: list[bytes] = []
    remaining: list[bytes] = []
    chain, own = GENESIS, {GENESIS}
    for raw in lines:
        if decode(raw) is None:
            continue
        if follows(raw, chain):
            ours.append(raw)
            chain = chain_of(raw)
            own.add(chain)
        else:
            remaining.append(raw)
    raws = {chain_of(raw): raw for raw in remaining if chain_of(raw) not in own}
    while following := next((raw for raw in raws.values() if follows(raw, chain)), None):
        ours.append(following)  # it stands before the line that it follows
        chain = chain_of(following)
        del raws[chain]
    return Sides(ours, list(_placed(ours, raws)) if raws else [])


def _placed(ours: Sequence[bytes], left: dict[str, bytes]) -> Iterator[tuple[str, bytes]]:
    """Yield each line of the others behind the one that it follows, one branch after another."""
    by_seq: dict[int, list[str]] = {0: [GENESIS]}
    for raw in (*ours, *left.values()):
        by_seq.setdefault(_seq(raw), []).append(chain_of(raw))
    after: dict[str, list[bytes]] = {}
    for raw in left.values():
        before = next(
            (chain for chain in by_seq.get(_seq(raw) - 1, ()) if follows(raw, chain)), None
        )
        if before is None:
            raise StoreCorrupt(
                f"record {_seq(raw)} follows from no line that is there: run `synapse verify`"
            )
        after.setdefault(before, []).append(raw)
    starts = [chain for chain in (GENESIS, *map(chain_of, ours)) if chain in after]
    waiting = [(chain, raw) for chain in reversed(starts) for raw in reversed(after[chain])]
    while waiting:
        before, raw = waiting.pop()
        yield before, raw
        chain = chain_of(raw)
        waiting += [(chain, line) for line in reversed(after.get(chain, ()))]


def merge(found: Sides) -> Merged:
    """Return what is to be appended to ours so that it holds every record of the others once."""
    return _Merge(found).run()


class _Way:
    """One of the other histories as far as it was gone: what its ids and places are in ours."""

    def __init__(
        self, floor: int, ids: dict[str, str] | None = None, seqs: dict[int, int] | None = None
    ) -> None:
        self.floor = floor  # up to here it is ours
        self.ids = dict(ids or {})
        self.seqs = dict(seqs or {})

    def copy(self) -> _Way:
        return _Way(self.floor, self.ids, self.seqs)


class _Merge:
    """The state of one merge: what ours holds by now, and the lines that were added."""

    def __init__(self, found: Sides) -> None:
        self.found = found
        last = found.ours[-1] if found.ours else b""
        self.tail = (tail_of(last, 0) if last else None) or NOTHING
        self.taken: set[str] = set()
        self.paths: set[str] = set()
        self.known: dict[str, tuple[int, str | None]] = {}
        self.once: dict[tuple[str, str], tuple[str, int, str | None]] = {}
        self.counts: dict[str, int] = {}
        self.lines: list[bytes] = []
        self.sources: list[bytes] = []
        self.ids: dict[str, str] = {}
        self.moved: list[Record] = []
        self.records = 0
        for raw in found.ours:
            record = decoded(raw)
            self._learn(raw, record, record)
        for _, raw in found.others:
            self._count(decoded(raw))

    def run(self) -> Merged:
        ways = {chain_of(raw): _Way(_seq(raw)) for raw in self.found.ours} | {GENESIS: _Way(0)}
        followers = Counter(before for before, _ in self.found.others)
        voided = self._voided()
        for before, raw in self.found.others:
            # What one way learns is not the other's.
            way, chain = ways[before], chain_of(raw)
            ways[chain] = branch = way.copy() if followers[before] > 1 else way
            record = decoded(raw)
            if chain not in voided:
                self._take(raw, record, branch)
        if self.records:
            for raw, declaration in self._declared():
                self._put(raw, declaration, self.tail.at + 1)
            fields = {
                "records": self.records,
                "head": chain_of(self.found.others[-1][1]),
                "ids": self.ids,
            }
            self._put(b"", Record.new("merged", "log", fields), self.tail.at + 1)
        return Merged(self.lines, self.records, self.ids, self.moved, self.sources)

    def _declared(self) -> Iterator[tuple[bytes, Record]]:
        """Yield what ours says of agents that both sides declared, behind the line that says it: it
        is said once more, so that it stays.
        """
        theirs = {_agent(decoded(raw)) for _, raw in self.found.others}
        ours = {_agent(decoded(raw)): raw for raw in self.found.ours}
        for id, raw in ours.items():
            if id and id in theirs:
                record = decoded(raw)
                yield raw, Record.new("agent", record.by, record.fields)

    def _voided(self) -> set[str]:
        """Return the lines of the others that they took back themselves."""
        parents = {chain_of(raw): before for before, raw in self.found.others}
        lines = {chain_of(raw): decoded(raw) for _, raw in self.found.others}
        voided = set()
        for chain, record in lines.items():
            if record.kind == "void":
                before = parents[chain]
                while before in lines and lines[before].seq > record.fields["seq"]:
                    before = parents[before]
                voided.add(before)
        return voided

    def _take(self, raw: bytes, record: Record, way: _Way) -> None:
        """Append one record of the others, unless ours has it already."""
        same = self.known.get(_identity(raw, record)) or self._done(record)
        if record.kind in _SKIPPED:
            same = (self.tail.seq, None)
        if same is not None:
            way.seqs[record.seq] = same[0]
            if record.id and same[1] and record.id != same[1]:
                way.ids[record.id] = same[1]
            return
        at = max(record.at, self.tail.at + 1)
        added = self._put(raw, self._translated(raw, record, way, at), at)
        way.seqs[record.seq] = added.seq
        self._learn(raw, record, added)
        self.records += 1

    def _done(self, record: Record) -> tuple[int, str | None] | None:
        """Return what ours has already by the same key of the same author, if it says the same."""
        first = self.once.get((record.by, record.once)) if record.once is not None else None
        return first[1:] if first and first[0] == _said(record) else None

    def _put(self, source: bytes, record: Record, at: int) -> Record:
        raw, placed, self.tail = encode(self.tail, at, record)
        self.lines.append(raw)
        self.sources.append(source)
        return placed

    def _learn(self, raw: bytes, record: Record, ours: Record) -> None:
        """Note what a record takes up in ours: `record` is as its first writer had it, `ours` as it
        stands.
        """
        position = (ours.seq, ours.id)
        self.known[chain_of(raw)] = self.known[_identity(raw, record)] = position
        if ours.once is not None:
            self.once.setdefault((ours.by, ours.once), (_said(record), *position))
        self.taken.update(name for name in (ours.id, ours.fields.get("alias")) if name)
        if ours.path:
            self.paths.add(ours.path)
        self._count(ours)

    def _count(self, record: Record) -> None:
        own = minted(record.id or "")
        if own:
            self.counts[own[0]] = max(self.counts.get(own[0], 0), own[1])

    # -- one line ----------------------------------------------------------------------------------

    def _translated(self, raw: bytes, record: Record, way: _Way, at: int) -> Record:
        """Return a record of the others as ours will hold it: under its id there, and with theirs
        as ours has them.
        """
        id = self._id(raw, record, clock.day(at))
        if record.id and id != record.id:
            way.ids[record.id] = self.ids[record.id] = id or ""
        fields = _mapped(dict(record.fields), way)
        if record.kind == "undo" and str(fields["what"]).isdecimal():
            fields["what"] = str(way.seqs.get(int(fields["what"]), int(fields["what"])))
        if fields.get("alias") in self.taken:
            del fields["alias"]
        path = None if record.path in self.paths else record.path
        changed = id != record.id or any(
            fields.get(name) != record.fields.get(name) for name in record.fields
        )
        if record.kind == "entry" and (id != record.id or path != record.path):
            self.moved.append(record)
        text = record.text
        if record.kind == "entry" and changed and text is not None and record.path is None:
            text, fields = _rendered(record, id or "", fields)
        fields["origin"] = _origin(raw, record)
        key = record.key
        if key and key.startswith("item:"):
            key = f"item:{way.ids.get(key[5:], key[5:])}"
        return record._replace(seq=0, id=id, fields=fields, text=text, path=path, key=key)

    def _id(self, raw: bytes, record: Record, day: str) -> str | None:
        """Return the id that a record has in ours: its own where that is free."""
        if record.id is None or record.id not in self.taken:
            return record.id
        kind = record.fields.get("kind", kinds.ENTRY)
        if kind != kinds.ENTRY:
            return self._random(kind, chain_of(raw))
        return mint(day, self.counts.get(day, 0) + 1)

    def _random(self, kind: str, seed: str) -> str:
        turn = 0
        while (
            id := kinds.new_id(kind, bytes.fromhex(sha256(f"{seed} {turn}".encode())[:12]))
        ) in self.taken:
            turn += 1
        return id


def _mapped(value: Any, way: _Way, name: str = "") -> Any:
    """Return the value with the ids in it as ours has them. What is text stays as it was said."""
    if name in _TEXTS:
        return value
    if isinstance(value, str):
        return way.ids.get(value, value)
    if name == "cursor" and isinstance(value, int):
        return min(value, way.floor)  # what ours wrote since was in no sight there
    if name in ("reviews", "holds"):
        return [[way.seqs.get(seq, seq), stands] for seq, stands in value]
    if name in ("acts", "aside") and isinstance(value, list | tuple):
        return [way.seqs.get(seq, seq) for seq in value]
    if isinstance(value, dict):
        return {way.ids.get(key, key): _mapped(item, way, key) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_mapped(item, way) for item in value]
    return value


def _rendered(record: Record, id: str, fields: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the text of an entry under its new id, with what it refers to by their ids in ours."""
    entry = entry_of(
        record._replace(id=id, fields={**fields, "start": record.fields.get("start", 0)})
    )
    text = codec.render(entry)
    return text, fields | {"start": len(text) - len(entry.body) - 1}


def _origin(raw: bytes, record: Record) -> dict[str, Any]:
    """Return where a record was first: the chain of its line there, its id, and when it was
    received.
    """
    first = record.fields.get("origin")
    if first:
        return dict(first)
    origin: dict[str, Any] = {"chain": chain_of(raw)}
    if not record.fields.get("staged"):  # its time begins with its approval
        origin["at"] = record.at
    return origin | ({"id": record.id} if record.id and is_id(record.id) else {})


def _identity(raw: bytes, record: Record) -> str:
    """Return what is the same for a record and all its copies: the chain of the line that it was
    first.
    """
    return str((record.fields.get("origin") or {}).get("chain") or chain_of(raw))


def _said(record: Record) -> str:
    """Return what a record says, without where and when."""
    return record.sha or repr(
        sorted((name, value) for name, value in record.fields.items() if name != "origin")
    )


def _agent(record: Record) -> str | None:
    """Return the agent that a record declares."""
    return str(record.fields["agent"]["id"]) if record.kind == "agent" else None


def _seq(raw: bytes) -> int:
    return decoded(raw).seq


def decoded(raw: bytes) -> Record:
    """Return the record of a whole line."""
    record = decode(raw)
    assert record is not None  # torn lines were left out
    return record
