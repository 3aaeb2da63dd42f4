"""Size limits: how much room entries may take, and which are filed away where they take more. Pure.

A namespace that holds too much is warned of first, and tidied by a later run, the oldest and least
used entries first. Other limits of the settings are only remarked on: nothing here refuses a write.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from synapse.consolidate.acts import Act, NewEntry, archive_acts
from synapse.consolidate.metrics import shape
from synapse.index.questions.maintenance import Busy, Sized
from synapse.model import namespace as ns
from synapse.model.agents import CONSOLIDATOR
from synapse.model.clock import DAY, day
from synapse.model.entry import SECOND, Draft
from synapse.model.settings import SIZES, Settings, parse_size
from synapse.system.typed import NamedTuple

PLACE = "system/limits"
# The entries on the runs themselves: bounded, and no part of any sum.
OWN = frozenset((PLACE, "system/changelog"))
ALL = "all namespaces"
# A warning stands at least so long before anything is filed away.
NOTICE = 12 * 3_600 * SECOND
MOST_USES = 30
MOST_REMARKS = 20


class LimitWarning(NamedTuple):
    """A warning that stands: its entry, the namespace, and since when."""

    id: str
    subject: str
    at: int


class Room(NamedTuple):
    """The room that is taken at one moment. `sized` are the entries of the namespaces that hold too
    much, or of all."""

    # namespaces, with the bytes of what is shown of them
    sizes: Sequence[tuple[str, int]] = ()
    sized: Sequence[Sized] = ()
    warnings: Sequence[LimitWarning] = ()
    long: Sequence[tuple[str, int]] = ()
    busy: Sequence[Busy] = ()


# -- what is over ----------------------------------------------------------------------------------


def limit_of(namespace: str, settings: Settings) -> int | None:
    """Return how many bytes a namespace may hold, by the longest glob that covers it, else by the
    limit of each. None is no limit."""
    best, size = -1, settings.size("per_namespace")
    for glob, declared in settings.sizes:
        if glob not in SIZES and ns.matches(glob, namespace) and len(glob) > best:
            best, size = len(glob), parse_size(declared)
    return size


def over_limit(
    sizes: Iterable[tuple[str, int]], settings: Settings
) -> Iterator[tuple[str, int, int]]:
    """Yield what holds more than it may: name, bytes, limit; last of all, all namespaces
    together."""
    total = 0
    for name, size in sizes:
        total += size
        limit = limit_of(name, settings)
        if limit is not None and size > limit:
            yield name, size, limit
    most = settings.size("total_shared")
    if most is not None and total > most:
        yield ALL, total, most


# -- what is done about it -------------------------------------------------------------------------


def enforce(room: Room, now: int, settings: Settings, excluded: Collection[str]) -> Iterator[Act]:
    """Yield acts that warn of what is over its limit for the first time, file away what was warned
    of long enough, and withdraw warnings that are out of date. `excluded` does not count: what the
    same run files away, and what somebody brought back from here."""
    remaining = {row.id: row for row in room.sized if row.id not in excluded}
    warnings = {warning.subject: warning for warning in room.warnings if warning.id not in excluded}
    subjects = {*warnings, *(name for name, _, _ in over_limit(room.sizes, settings))}
    for subject in sorted(subjects, key=lambda name: (name == ALL, name)):
        limit = settings.size("total_shared") if subject == ALL else limit_of(subject, settings)
        inside = [row for row in remaining.values() if subject in (ALL, row.namespace)]
        excess = 0 if limit is None else sum(row.bytes for row in inside) - limit
        notice = warnings.get(subject)
        if excess > 0 and limit is not None and notice is None:
            yield _warning(subject, excess + limit, limit)
        elif excess > 0 and limit is not None and notice is not None and now - notice.at >= NOTICE:
            going = entries_to_archive(inside, excess)
            for row in going:
                del remaining[row.id]
            sizes = f"{format_size(excess + limit)} of {format_size(limit)}"
            reason = f"{subject} held {sizes}: oldest and least used first"
            notes = tuple(f"of {day(row.at)}, in {row.uses} prompts" for row in going)
            ids = [(row.id, "") for row in going]
            yield from archive_acts("enforce", reason, ids, notes)
            if sum(row.bytes for row in going) >= excess:
                yield Act("enforce", "archive", (notice.id,), "within its limit again")
        elif excess <= 0 and notice is not None:
            yield Act("enforce", "archive", (notice.id,), "within its limit again")


def entries_to_archive(rows: Iterable[Sized], excess: int) -> list[Sized]:
    """Return the entries to file away until the excess is gone. An entry that holds others back or
    stands against another stays, also where that counts for some of its readers alone, and so does
    a critical blocker: it has to be resolved."""
    going = []
    for row in sorted(
        (row for row in rows if not row.stays and not _is_protected(row)), key=_order
    ):
        if excess <= 0:
            break
        going.append(row)
        excess -= row.bytes
    return going


def _order(row: Sized) -> tuple[bool, int, int]:
    """Return the sort key of what is filed away first: the oldest. Each prompt that an entry was in
    makes it a day younger. Decisions and criticals come last."""
    weighty = row.rank == 0 or ns.matches("decisions/*", row.namespace)
    return weighty, row.at + min(row.uses, MOST_USES) * DAY, row.seq


def _is_protected(row: Sized) -> bool:
    return row.namespace in OWN or (row.rank == 0 and ns.matches("blockers/*", row.namespace))


def _warning(subject: str, size: int, limit: int) -> Act:
    holds = (
        f"{subject} {'hold' if subject == ALL else 'holds'} {format_size(size)}, and may hold"
        f" {format_size(limit)}"
    )
    body = (
        f"{holds}. At the next night what is oldest and least used is filed away"
        f" until it fits; decisions and what is"
        " critical last. `size_limits:` in synapse.yaml says how much may stay,"
        " `synapse defrag --plan` what would go."
    )
    draft = Draft(body, PLACE, CONSOLIDATOR, "important", tags=("limit", subject))
    return Act("enforce", "warn", (), holds, new_entry=NewEntry(draft, 100, "local"))


# -- what is only told of --------------------------------------------------------------------------


def remarks(room: Room, settings: Settings) -> list[str]:
    """Return, in words, what breaks the settings."""
    notes = [
        f"{name} holds {format_size(size)}, over its limit of {format_size(limit)}"
        for name, size, limit in over_limit(room.sizes, settings)
    ]
    used = [name for name, _ in room.sizes]
    notes += shape(used)
    declared = settings.declared
    for name in used if declared else ():
        if name.split("/", 1)[0] != "system" and not ns.matches_any(declared, name):
            notes.append(f"{name} is none of the namespaces in synapse.yaml")
    limit = settings.size("per_entry")
    notes += [
        f"{id} holds {format_size(size)}: longer than {format_size(limit)}"
        for id, size in room.long
        if limit
    ]
    for author, date, count in room.busy:
        most = settings.daily(author)
        if most is not None and count > most:
            notes.append(f"{author} wrote {count:,} entries on {date}, over its quota of {most:,}")
    return notes


def format_size(size: int) -> str:
    """Return a number of bytes in words: `612 KB`."""
    for unit, step in (("MB", 1_000_000), ("KB", 1_000)):
        if size >= step:
            number = size / step
            return (
                f"{number:,.1f} {unit}" if number < 10 and size % step else f"{number:,.0f} {unit}"
            )
    return f"{size} bytes"
