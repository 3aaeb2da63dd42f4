"""Acts: the steps of a nightly run, each of which can be undone. Values, pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from synapse.model.entry import Draft
from synapse.system.typed import NamedTuple

# entries that are filed away in one step: for so long others may have to wait
AT_ONCE = 100


class NewEntry(NamedTuple):
    """An entry that the consolidator is to write, with the authority and trust that it has."""

    draft: Draft
    authority: int
    trust: str


class Act(NamedTuple):
    """One step: entries filed away, or, with `new_entry`, one written first that they go into.
    `successors` names, beside each id, the entry that took its place; `notes` says more of each."""

    phase: str
    kind: str
    ids: tuple[str, ...]
    reason: str
    successors: tuple[str, ...] = ()
    new_entry: NewEntry | None = None
    notes: tuple[str, ...] = ()


class AppliedAct(NamedTuple):
    """An act that was carried out: the records that it made, and the entry that it wrote, if it
    wrote one."""

    act: Act
    seqs: tuple[int, ...]
    id: str | None = None


def archive_acts(
    phase: str, reason: str, pairs: Sequence[tuple[str, str]], notes: tuple[str, ...] = ()
) -> Iterator[Act]:
    """Yield acts of a bearable size that file these entries away, each with its successor: each act
    is one line of the log."""
    for start in range(0, len(pairs), AT_ONCE):
        chunk = pairs[start : start + AT_ONCE]
        successors = tuple(successor for _, successor in chunk)
        ids = tuple(id for id, _ in chunk)
        yield Act(
            phase,
            "archive",
            ids,
            reason,
            successors if any(successors) else (),
            notes=notes[start : start + AT_ONCE],
        )


def without(act: Act, removed: Sequence[bool]) -> Act:
    """Return the act for those of its entries that are not removed."""
    ids, successors, notes = (
        tuple(value for value, is_removed in zip(values, removed, strict=False) if not is_removed)
        for values in (act.ids, act.successors, act.notes)
    )
    return act._replace(ids=ids, successors=successors, notes=notes)
