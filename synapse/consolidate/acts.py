"""Acts: the steps of a night, each of which can be taken back. Values, pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from synapse.model.entry import Draft
from synapse.system.typed import NamedTuple

AT_ONCE = (
    100  # entries that are filed away in one step: for so long others may have to wait
)


class Made(NamedTuple):
    """An entry that the consolidator is to write, with what it may count for."""

    draft: Draft
    authority: int
    trust: str


class Act(NamedTuple):
    """One step: entries filed away, or, with `made`, one written first that they go into. `heirs`
    names, beside each id, what took its place; `notes` says more of each.
    """

    phase: str
    kind: str
    ids: tuple[str, ...]
    reason: str
    heirs: tuple[str, ...] = ()
    made: Made | None = None
    notes: tuple[str, ...] = ()


def filing(
    phase: str,
    reason: str,
    found: Sequence[tuple[str, str]],
    notes: tuple[str, ...] = (),
) -> Iterator[Act]:
    """Acts of a bearable size that file these away, each with its heir: each act is one line of the
    log.
    """
    for start in range(0, len(found), AT_ONCE):
        part = found[start : start + AT_ONCE]
        heirs = tuple(heir for _, heir in part)
        ids = tuple(id for id, _ in part)
        yield Act(
            phase,
            "archive",
            ids,
            reason,
            heirs if any(heirs) else (),
            notes=notes[start : start + AT_ONCE],
        )


def without(act: Act, gone: Sequence[bool]) -> Act:
    """The act for those of its entries that are not gone."""
    ids, heirs, notes = (
        tuple(each for each, lost in zip(parts, gone, strict=False) if not lost)
        for parts in (act.ids, act.heirs, act.notes)
    )
    return act._replace(ids=ids, heirs=heirs, notes=notes)
