"""Records: the lines of the log. An entry is one kind; the acts on entries are others. Values,
pure.

A record never changes. The state of an entry (superseded, resolved, archived, approved) is the sum
of the records after it, and is worked out by whoever reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping

from synapse.errors import Conflict
from synapse.model.entry import Entry, expiry
from synapse.model.kinds import frozen
from synapse.system.typed import Any, NamedTuple

KINDS = frozenset(
    (
        # an agent was registered, or its file was edited by hand; fields hold new and old values
        "agent",
        "settings",  # synapse.yaml changed
        "entry",  # an entry was written, or a dropped file was adopted
        "approve",  # a staged entry takes effect, here and now in the order of the log
        "reject",  # a staged entry never will
        "vouch",  # an unverified entry is believed
        "resolve",  # a blocker is done
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
        "repair",  # a file was restored, or its loss recorded
        "run",  # a run began, was taken over or ended; a later record holds only what changed
        "stop",  # somebody wants a run to end
        # entries were offered to an agent, rendered in its prompt, or acknowledged by it
        "delivery",
        "link",  # one atom is said to cause, enable, precede or go with another
        "used",  # how often facts and atoms were asked for, about: once an hour and process at most
        "claim",  # an agent leased a piece of work, or gave it back
        "receipt",  # an agent read messages
        "acked",  # an agent acknowledged a message, with an answer or without
        "react",  # an agent reacted to a message, or took that back
        "thread",  # a thread was closed, reopened, tagged or renamed
        "vector",  # the vector of an item, made by a model that is not here: it was taken over
        "migrated",  # what there was before was taken over; fields hold the counts
        # records of another history of this log were appended; fields say which ids changed
        "merged",
        "refused",  # an incarnation of a run that is no longer the current one wanted to write
    )
)


class Pending(NamedTuple):
    """A record on its way into the log: the log gives it seq, time and, for an entry, the id."""

    kind: str
    by: str
    fields: Mapping[str, Any]
    entry: Entry | None = None
    text: str | None = None
    path: str | None = None
    key: str | None = None


class Record(NamedTuple):
    """A line of the log. `at` is the microsecond of its receipt and never decreases; `key` is the
    guards'.
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
    """Return one guard that holds where each of these does; None where there is none."""
    flat = [
        single
        for guard in guards
        if guard
        for single in (guard._replace(also=()), *guard.also)
    ]
    return flat[0]._replace(also=tuple(flat[1:])) if flat else None


def demand(guard: Guard | None, keyed: Callable[[str], Iterable[Record]]) -> None:
    """Raise Conflict, naming the first guard that no longer holds. For a log, under its lock."""
    for single in (guard, *guard.also) if guard else ():
        if not single.holds(keyed(single.key)):
            raise Conflict(
                f"{single.name} no longer holds for {single.key}",
                guard=single.name,
                key=single.key,
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


def fence(run: str, epoch: int, *, ended: bool = False) -> Guard:
    """Return a guard: this incarnation of the run is the current one, and it has not ended, unless
    it may have (`ended`)."""

    def holds(records: Iterable[Record]) -> bool:
        newest, ended_before = 0, False
        for record in records:
            newest = max(newest, int(record.fields.get("epoch", 0)))
            ended_before = ended_before or record.fields.get("state") == "ended"
        return newest == epoch and (ended or not ended_before)

    return Guard(f"run:{run}", f"fence({epoch})", holds)


def unclaimed(
    key: str,
    now: int,
    agent: str,
    run: str | None = None,
    over: Container[str | None] = (),
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
            id
            for name in ("away", "back", "freed", "held")
            for id in fields.get(name, ())
        )
    ]


_DEFAULTS = Entry("", "", "", "", "", "", "")
_FIELDS = frozenset(Entry._fields)
_STORED = (
    "author timestamp namespace priority ttl addressees tags related replaces topic"
    " scope claim derived_from"
    " evidence when authority trust alias claimed staged kind more run"
).split()


def fields_of(entry: Entry) -> dict[str, Any]:
    """Return an entry as the fields of its record: only what differs from the defaults."""
    pairs = ((name, getattr(entry, name)) for name in _STORED)
    return {name: value for name, value in pairs if value != getattr(_DEFAULTS, name)}


def entry_of(record: Record) -> Entry:
    """Return the entry that a record of kind `entry` holds. Its body is the tail of the text, or
    stands in the fields."""
    fields = dict(record.fields)
    start = fields.pop("start", 0)
    body = fields.pop("body", None)
    for name in ("addressees", "tags", "related", "replaces", "derived_from"):
        if name in fields:
            fields[name] = tuple(fields[name])
    if "more" in fields:
        fields["more"] = frozen(fields["more"])
    ttl = fields["ttl"]
    return Entry(
        id=record.id or "",
        body=canonical_body((record.text or "")[start:]) if body is None else body,
        seq=record.seq,
        at=record.at,
        expires=expiry(ttl, (fields.get("origin") or {}).get("at", record.at)),
        **{name: value for name, value in fields.items() if name in _FIELDS},
    )


def canonical_body(text: str) -> str:
    """Return the body as it is stored and compared: unix line ends, no blank lines before it, no
    white space after it."""
    return text.replace("\r\n", "\n").replace("\r", "\n").lstrip("\n").rstrip()
