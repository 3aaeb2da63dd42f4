"""Claims: who holds which piece of work, and until when. Leases in the log, decided under its lock.

A lease ends by itself at its time, or with the run that holds it; nobody has to clean up after the
dead.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Mapping

from synapse.access.writer import Writer
from synapse.errors import Conflict, InvalidEntry, NotFound
from synapse.model.clock import seconds
from synapse.model.entry import SECOND
from synapse.model.records import Record, unclaimed
from synapse.store import Store
from synapse.system.typed import Any, NamedTuple

LONGEST = 24 * 60  # minutes
MOST = 200  # characters of the name of a piece of work


class Claim(NamedTuple):
    """A lease on a piece of work: this agent's, in this run if it is in one, until this
    microsecond.
    """

    work: str
    agent: str
    run: str | None
    until: int
    note: str | None = None


def named(work: str) -> str:
    """Return what the work is called for everybody: its words, whatever their case, spacing and
    last full stop.
    """
    text = " ".join(unicodedata.normalize("NFKC", work).casefold().split()).rstrip(".!")
    if not text or len(text) > MOST or not text.isprintable():
        raise InvalidEntry(f"name the work in 1 to {MOST} printable characters")
    return text


def take(
    writer: Writer,
    work: str,
    minutes: int,
    note: str | None,
    once: str | None,
    now: int,
    over: Collection[str | None] = (),
) -> Claim:
    """Return the lease, from now on; one's own is extended. Conflict says who else holds it and
    until when. The runs that are `over` hold nothing any more, whatever their records say."""
    if not 1 <= minutes <= LONGEST:
        raise InvalidEntry(f"a lease is from 1 to {LONGEST} minutes long, not {minutes}")
    work, over = named(work), set(over)
    lease = {
        "work": work,
        "agent": writer.id,
        "run": writer.run,
        "until": now + minutes * 60 * SECOND,
        "note": note,
    }
    record = Record.new(
        "claim",
        writer.id,
        {name: value for name, value in lease.items() if value is not None},
        key=key(work),
    )
    while True:
        try:
            record = writer.write(
                record, once=once, unless=unclaimed(key(work), now, writer.id, writer.run, over)
            )
        except Conflict as error:
            if error.details.get("key") != key(work):
                raise
            claim = holder(writer.store, work, now, over)
            if claim is None:
                continue  # it was given back just now
            if not has_ended(writer.store, claim.run):
                run = "" if claim.run is None else f" (run {claim.run})"
                raise Conflict(
                    f"{claim.agent}{run} holds {claim.work!r} until {seconds(claim.until)}",
                    # what it says of its work is no one else's
                    **claim._replace(note=None)._asdict(),
                ) from error
            over.add(claim.run)
        else:
            return _claim(record.fields)


def release(writer: Writer, work: str, once: str | None, now: int) -> Claim:
    """Give the work back; NotFound where it is not one's own."""
    work = named(work)
    if once:
        with writer.store.snapshot(late=True) as snap:
            was_done = snap.first(writer.id, once) is not None
        if was_done:  # the log returns the first record
            record = Record.new("claim", writer.id, {"work": work}, key=key(work))
            return _claim(writer.write(record, once=once).fields)
    mine = holder(writer.store, work, now)
    if mine is None or (mine.agent, mine.run) != (writer.id, writer.run):
        raise NotFound(f"{writer.id} does not hold {work!r}: there is nothing to give back")
    fields = {name: value for name, value in mine._asdict().items() if value is not None} | {
        "end": True
    }
    free = unclaimed(key(work), now, writer.id, writer.run)
    writer.write(Record.new("claim", writer.id, fields, key=key(work)), once=once, unless=free)
    return mine


def holder(store: Store, work: str, now: int, over: Collection[str | None] = ()) -> Claim | None:
    """Return whose the work is now, runs that are over left out."""
    with store.snapshot() as snap:
        records = snap.keyed(key(work))
    if not records or unclaimed(key(work), now, "", over=over).holds(records):
        return None
    return _claim(records[-1].fields)


def key(work: str) -> str:
    return f"claim:{work}"


def _claim(fields: Mapping[str, Any]) -> Claim:
    return Claim(
        fields["work"], fields["agent"], fields.get("run"), fields["until"], fields.get("note")
    )


def has_ended(store: Store, run: str | None) -> bool:
    """Return whether nobody is at a run any more. Who answers one that was blocked lets it go on,
    and it has its claims back where nobody took them: so this may be asked outside the log's lock.
    """
    if not run:
        return False
    with store.snapshot(late=True) as snap:
        row = snap.run(run)
    return row is not None and row["state"] != "running"
