"""Questions to the projection about mail: what waits for an agent, threads, and what became of
messages.

A count of what is unread looks at no message: the table `mailboxes` keeps how many stand for each
list of addressees, and how many of them each agent wrote or has read. Every statement that returns
messages carries the read gate.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from synapse.index.names import Reach
from synapse.index.snapshot import Snapshot
from synapse.model.agents import Agent
from synapse.model.entry import NEVER, Entry
from synapse.model.message import Mark
from synapse.system.typed import NamedTuple


class Row(NamedTuple):
    """A thread as one reader has it: how many messages it may see, how many of them are not filed
    away, and the first and the last of them.
    """

    id: str
    closed: bool
    subject: str | None
    tags: tuple[str, ...]
    total: int
    live: int
    first: int
    last: int


def waiting(snap: Snapshot, agent: Agent, now: int) -> int:
    """Return how many messages of others this agent has not read."""
    reach = snap.names.reach(agent)
    values = {"me": reach.me, "now": now, "never": NEVER}
    count, lapsed = snap.db.run(
        "poll", values, nids=reach.nids, audiences=reach.audiences
    ).fetchone()
    return int(count - lapsed)


def unread(snap: Snapshot, agent: Agent, now: int) -> list[tuple[int, int, int]]:
    """Return where the unread messages are, the oldest first. As far back as the count says that
    there are any.
    """
    reach, count = snap.names.reach(agent), waiting(snap, agent, now)
    if count <= 0:
        return []
    values = {"me": reach.me, "now": now, "cursor": snap.cursor, "limit": count}
    rows = snap.db.run("inbox", values, nids=reach.nids, audiences=reach.audiences).fetchall()
    return rows[::-1]


def history(
    snap: Snapshot,
    agent: Agent | None,
    thread: str,
    now: int,
    limit: int,
    before: int | None = None,
) -> list[Entry]:
    """Return the newest messages of a thread that this reader may see, or those before a place, the
    oldest first. Filed away or not; those that were replaced are left out.
    """
    reach = snap.names.reach(agent)
    values = {
        "me": reach.me,
        "now": now,
        "cursor": snap.cursor,
        "thread": thread,
        "limit": limit,
        "before": before or NEVER,
    }
    rows = snap.db.run("history", values, nids=reach.nids, audiences=reach.audiences).fetchall()
    return snap.load(rows[::-1], now, reach)


def threads(
    snap: Snapshot, agent: Agent | None, status: str | None, tag: str | None, limit: int
) -> list[Row]:
    """Return the threads that this reader may see something of, the liveliest first."""
    reach = snap.names.reach(agent)
    values = {"me": reach.me, "limit": limit, "tag": tag, "status": status}
    name = "threads_active" if status == "active" else "threads_any"
    tids = tuple(
        tid for (tid,) in snap.db.run(name, values, nids=reach.nids, audiences=reach.audiences)
    )
    return sorted(_rows(snap, reach, tids), key=lambda row: -row.last)


def thread(snap: Snapshot, agent: Agent | None, id: str) -> Row | None:
    """Return one thread; None where there is none that this reader may see anything of."""
    row = snap.db.run("thread_of", {"id": id}).fetchone()
    return next(iter(_rows(snap, snap.names.reach(agent), row)), None) if row else None


def is_known(snap: Snapshot, id: str) -> bool:
    """Return whether there is such a thread, whoever may see anything of it."""
    return snap.db.run("thread_of", {"id": id}).fetchone() is not None


def _rows(snap: Snapshot, reach: Reach, tids: Sequence[int]) -> list[Row]:
    rows = snap.db.run(
        "thread_rows", {"me": reach.me}, tids=tids, nids=reach.nids, audiences=reach.audiences
    )
    return [
        Row(id, bool(closed), subject, tuple(json.loads(tags or "[]")), *numbers)
        for id, closed, subject, tags, *numbers in rows
    ]


def marks(snap: Snapshot, seqs: Iterable[int]) -> dict[str, dict[int, tuple[Mark, ...]]]:
    """Return who read these messages, acknowledged them, reacted to them; each in the order of the
    agents' names.
    """
    by_name: dict[str, dict[int, tuple[Mark, ...]]] = {}
    for name in ("receipts_of", "acks_of", "reactions_of"):
        by_seq: dict[int, tuple[Mark, ...]] = {}
        for seq, agent, at, text in snap.db.run(name, seqs=list(seqs)):
            by_seq[seq] = (*by_seq.get(seq, ()), Mark(agent, at, text))
        by_name[name.removesuffix("_of")] = by_seq
    return by_name


def idle(snap: Snapshot, since: int) -> tuple[str, ...]:
    """Return the messages, not filed away, of threads in which nobody has written since this
    microsecond.
    """
    return tuple(id for (id,) in snap.db.run("idle", {"since": since, "never": NEVER}))


def places(snap: Snapshot, seqs: Iterable[int], now: int) -> dict[int, Entry]:
    """Return the entries at places that a gated statement gave."""
    rows = snap.db.run("places", seqs=list(seqs)).fetchall()
    return {entry.seq: entry for entry in snap.load(rows, now, snap.names.reach(None))}
