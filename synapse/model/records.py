"""Records: the lines of the log. An entry is one kind; the acts on entries are others. Values,
pure.

A record never changes. The state of an entry (superseded, resolved, archived, approved) is the sum
of the records after it, and is worked out by whoever reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from operator import itemgetter

from synapse.errors import Conflict, NewerProtocol
from synapse.model.entry import Entry, expiry
from synapse.model.entry_fields import BY_NAME, LISTS
from synapse.model.kinds import frozen
from synapse.system.typed import Any, NamedTuple

KINDS = frozenset(
    (
        # an agent was registered, or its file was edited by hand; fields hold new and old values
        "agent",
        "settings",  # synapse.yaml changed
        "key",  # a public key was registered, took another's place, or was revoked
        "share",  # a holder of a sealed entry's key wrapped it for one more
        "entry",  # an entry was written, or a dropped file was adopted
        "approve",  # a staged entry takes effect, here and now in the order of the log
        "reject",  # a staged entry never will
        "vouch",  # an unverified entry is believed
        "resolve",  # a blocker is done
        "taint",  # entries, and what was made of them, are shown to nobody any more
        "untaint",  # and are shown again
        "archive",  # entries were filed away; reason in the fields
        "restore",  # and brought back
        # acts are taken back: `back` comes back, `away` is filed away, `holds` hide others no more,
        # or again
        "undo",
        "night",  # a nightly job was claimed, reached a phase, or is done
        "review",  # what agents' entries came to moved their authority
        "shown",  # everything up to a cursor was shown to an agent
        "quarantine",  # a dropped file could not be adopted
        "void",  # a record whose sync failed: it was never acknowledged and does not count
        "seal",  # a torn line stands before this one
        "redact",  # the text of an entry was taken out; its digest stays
        "malformed",  # a line that is no record of its kind: nobody reads it, `verify` names it
        "repair",  # a file was restored, or its loss recorded
        "run",  # a run began, was taken over or ended; a later record holds only what changed
        "stop",  # somebody wants a run to end
        # entries were offered to an agent, rendered in its prompt, or acknowledged by it
        "delivery",
        "link",  # one atom is said to cause, enable, precede or go with another
        "used",  # how often facts and atoms were asked for, about: once an hour and process at most
        "claim",  # an agent leased a piece of work, or gave it back
        "change",  # an agent changed a file: which, and how the change begins
        "receipt",  # an agent read messages
        "acked",  # an agent acknowledged a message, with an answer or without
        "react",  # an agent reacted to a message, or took that back
        "thread",  # a thread was closed, reopened, tagged or renamed
        "vector",  # the vector of an item, made by a model that is not here: it was taken over
        "migrated",  # what there was before was taken over; fields hold the counts
        # records of another history of this log were appended; fields say which ids changed
        "merged",
        "limit",  # an author reached a limit of what it may write in an hour
        "refused",  # an incarnation of a run that is no longer the current one wanted to write
    )
)


# What software has to know to read these, on pain of showing what is hidden, believing what is
# unsigned, or taking a redacted line for a damaged one. A record says it in its field `features`.
FEATURES = {
    "key": "keys",
    "share": "keys",
    "taint": "taint",
    "untaint": "taint",
    "redact": "redaction",
}
_KNOWN = frozenset(FEATURES.values())
KEYED = "keys"  # what the guards of the records of keys go by
MALFORMED = "malformed"
FOREIGN = "foreign"  # in the place of a record that was written elsewhere and not accepted
MECHANICAL = frozenset(("seal", "merged", "void"))  # they say nothing of their own
REDACTED = "[redacted]"  # the body of an entry whose text was taken out


class Record(NamedTuple):
    """A line of the log. `at` is the microsecond of its receipt, by the clock of its writer; `key`
    is the guards'.

    A new one has no `seq` and no `at` yet: the log gives it both, and to an `entry` its id and its
    text. A record that is in the log has no `entry`: `entry_of` reads it from the fields and the
    text.
    """

    seq: int
    at: int
    kind: str
    by: str
    id: str | None
    fields: Mapping[str, Any]
    text: str | None = None
    path: str | None = None
    once: str | None = None
    key: str | None = None
    sha: str | None = None
    entry: Entry | None = None

    @classmethod
    def new(
        cls,
        kind: str,
        by: str,
        fields: Mapping[str, Any],
        entry: Entry | None = None,
        text: str | None = None,
        path: str | None = None,
        key: str | None = None,
    ) -> Record:
        """Return a record that is not in the log yet."""
        return cls(0, 0, kind, by, None, dict(fields), text, path, None, key, None, entry)


class Lost(NamedTuple):
    """Records that were derived from a log that ends before them now: the last one that there is,
    the last one that there was; when the first and the last of the missing ones were received,
    where that is known; and the run of the machine in which they were taken in."""

    end: int
    seen: int
    first_at: int
    last_at: int
    boot: str


class Guard(NamedTuple):
    """A condition on the records of one key, checked under the log's lock. `holds` is pure. `also`
    are guards of other keys that have to hold at the same moment.
    """

    key: str
    name: str
    holds: Callable[[Iterable[Record]], bool]
    also: tuple[Guard, ...] = ()


def all_of(*guards: Guard | None) -> Guard | None:
    """Return the one guard that holds where each of these does; None where there is none."""
    single: list[Guard] = []
    for guard in guards:
        if guard is not None:
            single += [guard._replace(also=()), *guard.also]
    return single[0]._replace(also=tuple(single[1:])) if single else None


def demand(guard: Guard | None, keyed: Callable[[str], Iterable[Record]]) -> None:
    """Raise Conflict, naming the first guard that no longer holds. For a log, under its lock."""
    for single in (guard, *guard.also) if guard else ():
        if not single.holds(keyed(single.key)):
            raise Conflict(
                f"{single.name} no longer holds for {single.key}", guard=single.name, key=single.key
            )


def none_live(key: str) -> Guard:
    """Return a guard: no record of this key stands without a later one that ends it
    (`fields['end']`)."""

    def holds(records: Iterable[Record]) -> bool:
        live = False
        for record in records:
            live = not record.fields.get("end", False)
        return not live

    return Guard(key, "none_live", holds)


def sum_below(key: str, limit: int) -> Guard:
    """Return a guard: the amounts (`fields['amount']`, else 1) of this key's records sum to less
    than the limit."""

    def holds(records: Iterable[Record]) -> bool:
        return sum(int(record.fields.get("amount", 1)) for record in records) < limit

    return Guard(key, f"sum_below({limit})", holds)


def unruled(key: str, entry: str) -> Guard:
    """Return a guard: no record of this key is about the entry (`fields['entry']`), so nobody has
    ruled on it."""

    def holds(records: Iterable[Record]) -> bool:
        return all(record.fields.get("entry") != entry for record in records)

    return Guard(key, f"unruled({entry})", holds)


def epoch_is(run: str, number: int) -> Guard:
    """Return a guard: the newest record of this run has this epoch (`fields['epoch']`), or there is
    none and it is 0."""

    def holds(records: Iterable[Record]) -> bool:
        newest = 0
        for record in records:
            newest = max(newest, int(record.fields.get("epoch", 0)))
        return newest == number

    return Guard(run, f"epoch_is({number})", holds)


RESTING = ("ended", "waiting")  # states of a run in which nobody is at it


def fence(run: str, epoch: int, *, ended: bool = False) -> Guard:
    """Return a guard: this incarnation of the run is the current one, and it has not ended nor
    waits for an answer, unless it may (`ended`)."""

    def holds(records: Iterable[Record]) -> bool:
        newest, over = 0, False
        for record in records:
            number = int(record.fields.get("epoch", 0))
            if number > newest:  # where it was answered, it goes on as the next one
                newest, over = number, False
            over = over or record.fields.get("state") in RESTING
        return newest == epoch and (ended or not over)

    return Guard(f"run:{run}", f"fence({epoch})", holds)


def unclaimed(
    key: str, now: int, agent: str, run: str | None = None, over: Container[str | None] = ()
) -> Guard:
    """Return a guard: nobody holds the lease but this agent in this run, or a run that is over for
    good (`over`)."""

    def holds(records: Iterable[Record]) -> bool:
        last: Mapping[str, Any] = {}
        for record in records:
            last = record.fields
        live = (
            int(last.get("until", 0)) > now
            and not last.get("end", False)
            and last.get("run") not in over
        )
        return not live or (last.get("agent"), last.get("run")) == (agent, run)

    return Guard(key, "unclaimed", holds)


def unchanged(key: str, since: int) -> Guard:
    """Return a guard: nothing of this key came after a place in the log."""

    def holds(records: Iterable[Record]) -> bool:
        return all(record.seq <= since for record in records)

    return Guard(key, f"unchanged({since})", holds)


def with_features(record: Record) -> Record:
    """Return a record that names the feature which its readers have to know."""
    feature = FEATURES.get(record.kind)
    if feature is None:
        return record
    return record._replace(fields={**record.fields, "features": [feature]})


def demand_known(features: Iterable[str]) -> None:
    """Raise NewerProtocol where a record needs a feature that this software does not know."""
    if unknown := sorted({*features} - _KNOWN):
        raise NewerProtocol(
            f"this workspace needs {', '.join(unknown)}, which this version does not know:"
            " upgrade synapse-orchestrator to open it; nothing was changed",
            features=unknown,
        )


def act_of(kind: str, by: str, fields: Mapping[str, object]) -> tuple[Record, Guard | None]:
    """Return the record of an act that is no entry, and the guard that it needs: nobody rules twice
    on an entry that waits for review.
    """
    if kind not in ("approve", "reject"):
        return Record.new(kind, by, fields), None
    counted = Record.new(kind, by, {**fields, "amount": -1}, key="staging")
    return counted, unruled("staging", str(fields["entry"]))


def set_aside(record: Record) -> str | None:
    """Return why a line is no record of its kind, as `verify` says it; None where it is one."""
    if record.kind != MALFORMED:
        return None
    kind, why = record.fields["kind"], record.fields["why"]
    return f"is set aside, as no record of kind {kind!r:.60}: {why}"


def foreign(record: Record) -> Record:
    """Return what is told of a record that was written elsewhere and not accepted: its place, its
    kind and its author, and the names that nothing else may have.
    """
    fields = {"kind": record.kind}
    if record.kind == "entry" and record.fields.get("alias"):
        fields["alias"] = record.fields["alias"]
    id = record.id if record.kind == "entry" else None
    return Record(record.seq, record.at, FOREIGN, record.by, id, fields)


def is_foreign(record: Record) -> bool:
    """Return whether a record does not count, and says something of its own: it waits for a
    person.
    """
    return record.kind == FOREIGN and record.fields["kind"] not in MECHANICAL


def filings(record: Record) -> list[tuple[str, bool]]:
    """Return the entries that an act files, each with whether it goes to the archive (True) or
    comes back from there."""
    fields = record.fields
    if record.kind == "undo":
        return [
            *((id, True) for id in fields.get("away", ())),
            *((id, False) for id in fields.get("back", ())),
        ]
    if record.kind not in ("archive", "restore"):
        return []
    return [(id, record.kind == "archive") for id in fields.get("ids", ())]


def touched_by(record: Record) -> list[str]:
    """Return the entries that an undo moved, shows again or hides again."""
    fields = record.fields
    return [
        *dict.fromkeys(
            id for name in ("away", "back", "freed", "held") for id in fields.get(name, ())
        )
    ]


_DEFAULTS = Entry("", "", "", "", "", "", "")
# in the order of the line
_STORED = tuple(name for name in Entry._fields if BY_NAME[name].line)
_READ: dict[str, Callable[[Any], Any] | None] = {
    name: frozen if name == "more" else tuple if name in LISTS else None for name in _STORED
}
_stored_of = itemgetter(*map(Entry._fields.index, _STORED))
_STORED_DEFAULTS = _stored_of(_DEFAULTS)


def fields_of(entry: Entry) -> dict[str, Any]:
    """Return an entry as the fields of its record: only what differs from the defaults."""
    triples = zip(_STORED, _stored_of(entry), _STORED_DEFAULTS, strict=True)
    return {name: value for name, value, default in triples if value != default}


def entry_of(record: Record) -> Entry:
    """Return the entry that a record of kind `entry` holds. Its body is the end of the text, or one
    of the fields.
    """
    fields = record.fields
    values: dict[str, Any] = {}
    for name, value in fields.items():
        if name in _READ:
            read = _READ[name]
            values[name] = value if read is None else read(value)
    body = fields.get("body")
    if body is None and record.text is None:
        body = REDACTED
    elif body is None:
        body = canonical_body((record.text or "")[fields.get("start", 0) :])
    origin = fields.get("origin") or {}
    return Entry(
        id=record.id or "",
        body=body,
        seq=record.seq,
        at=record.at,
        expires=expiry(fields["ttl"], origin.get("at", record.at)),
        **values,
    )


def canonical_body(text: str) -> str:
    """Return the body as it is stored: unix line ends, no blank lines before it, no white space
    after it.
    """
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text.lstrip("\n").rstrip()
