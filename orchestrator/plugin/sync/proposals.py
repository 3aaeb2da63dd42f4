"""Notes of clients' files as entries: proposed once for each text, shown to no agent until a person
approves it, and withdrawn when the text is gone.

Called by `sync`. Reads no file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from orchestrator.plugin.sync.sources import Note
from synapse.access import staging
from synapse.agent_memory import AgentMemory
from synapse.authority import admit
from synapse.errors import Conflict, SynapseError
from synapse.index.snapshot import Snapshot
from synapse.model.agents import OPERATOR
from synapse.model.entry import Draft, Entry
from synapse.model.records import Record, entry_of, sum_below
from synapse.store import Store

FIELD = "note"  # of the record of an entry that came from a file: its path, lines and digest
PLACE = "projects/{}/notes"  # where those who work on the project read


class Accepted(NamedTuple):
    """An entry in force that came from a file: its path, and the digest of its text. What stood in
    our block there, `inside`, is in no file of theirs any more."""

    entry: Entry
    path: str
    digest: str
    inside: bool


class Plan(NamedTuple):
    """What is proposed anew, under which key and in the place of which entries; what is withdrawn;
    and what was accepted and is in no file any more."""

    new: list[tuple[Note, str, tuple[str, ...]]]
    withdrawn: list[Entry]
    stale: list[Accepted]


def accepted_in(store: Store) -> list[Accepted]:
    """Return the entries in force that came from files."""
    live = AgentMemory(store, OPERATOR).read(namespace=PLACE.format("*"))
    with store.snapshot() as snap:
        return [
            Accepted(entry, origin["path"], origin["sha256"], origin["inside"])
            for entry in live
            if (origin := _origin(snap, entry.id))
        ]


def plan(
    store: Store, notes: Sequence[Note], accepted: Sequence[Accepted], unread: Iterable[str] = ()
) -> Plan:
    """Return what has to be done for the memory to know these notes. What came from a file that
    could not be read, one of `unread`, stays as it is."""
    staging.expire(store)
    store.refresh()
    with store.snapshot() as snap:
        waiting = [(entry, _origin(snap, entry.id)) for entry in snap.staged()]
        texts: dict[str, Note] = {}
        for note in notes:
            texts.setdefault(note.digest, note)
        current, paths = {(note.path, note.digest) for note in notes}, set(unread)
        withdrawn = [
            entry
            for entry, origin in waiting
            if origin
            and not origin["inside"]
            and origin["path"] not in paths
            and (origin["path"], origin["sha256"]) not in current
        ]
        authors = dict.fromkeys(note.path for note in notes)
        going = {entry.id for entry in withdrawn}
        new = [
            (note, key, _replaced(note, accepted, texts))
            for note in texts.values()
            if note.digest not in {item.digest for item in accepted}
            and (key := _free_key(store, snap, note, authors, going)) is not None
        ]
    stale = [
        item
        for item in accepted
        if not item.inside and item.digest not in texts and item.path not in paths
    ]
    return Plan(new, withdrawn, stale)


def _origin(snap: Snapshot, id: str) -> Mapping[str, Any]:
    """Return where an entry came from; empty where it came from no file."""
    origin = snap.record_fields(id).get(FIELD)
    return origin if isinstance(origin, Mapping) else {}


def _free_key(
    store: Store, snap: Snapshot, note: Note, authors: Iterable[str], going: Iterable[str]
) -> str | None:
    """Return the key under which a text can be proposed; None where it waits, or somebody decided
    about it. What was withdrawn with its file may come again."""
    number = 0
    while True:
        key = f"note:{note.digest}:{number}"
        seqs = [seq for by in authors if (seq := snap.first(by, key)) is not None]
        if not seqs:
            return key
        id = store.log.at(seqs[0]).id or ""
        if id not in going and not _was_withdrawn(snap, id):
            return None
        number += 1


def _was_withdrawn(snap: Snapshot, id: str) -> bool:
    acts = snap.acts(None, id, 0, None)
    entry = next((act for act in acts if act.kind == "entry"), None)
    return any(act.kind == "reject" and entry is not None and act.by == entry.by for act in acts)


def _replaced(
    note: Note, accepted: Iterable[Accepted], texts: Mapping[str, Note]
) -> tuple[str, ...]:
    """Return the accepted entries that a note is the newer version of: of the same section of the
    same file, where the older text is gone."""
    heading = note.text.split("\n", 1)[0]
    return tuple(
        item.entry.id
        for item in accepted
        if item.path == note.path
        and item.digest not in texts
        and heading.startswith("#")
        and item.entry.body.split("\n", 1)[0] == heading
    )


class Proposed(NamedTuple):
    """What came of a plan: the entries that wait now, and why a note is none of them."""

    entries: list[Entry]
    refused: list[tuple[Note, str]]


def carry_out(store: Store, plan: Plan, project: str) -> Proposed:
    """Withdraw and propose. What is there already is not written again."""
    for entry in plan.withdrawn:
        reason = f"its text is no longer in {entry.author}"
        store.commit.act("reject", entry.author, entry=entry.id, reason=reason)
    entries: list[Entry] = []
    refused: list[tuple[Note, str]] = []
    # first what would be lost otherwise
    for note, key, replaces in sorted(plan.new, key=lambda item: not item[0].inside):
        try:
            entries.append(_propose(store, note, key, replaces, project))
        except SynapseError as error:
            refused.append((note, str(error)))
    store.refresh()
    return Proposed(entries, refused)


def _propose(store: Store, note: Note, key: str, replaces: tuple[str, ...], project: str) -> Entry:
    draft = Draft(
        note.text,
        PLACE.format(project),
        note.path,
        ttl="never",
        replaces=replaces,
        evidence=note.origin,
    )
    entry = admit(draft, None, store.settings)._replace(staged=True)
    entry = store.allowances.admit(entry)
    origin = {"path": note.path, "sha256": note.digest, "inside": note.inside}
    pending = Record.new("entry", note.path, {FIELD: origin}, entry, key="staging")
    limit = store.settings.staging_limit
    most = limit if note.inside else max(1, limit // 2)  # the rest is the agents'
    try:
        room = sum_below("staging", most)
        return entry_of(store.commit.append(pending, once=key, unless=room))
    except Conflict as error:
        if error.details.get("key") != "staging":
            raise
        raise Conflict(
            f"{most} entries or more wait for review; approve or reject some first"
        ) from error
