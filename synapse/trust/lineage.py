"""The lineage of what a run writes: which unverified entries it was shown.

What such a run writes is believed no more than they are, until each of them is vouched for. There
is a record for each time that a run was first shown some, under a key of the run: whoever asks
looks up one key, and for most runs finds nothing. Agents outside of runs are not followed.
The gate, the writer and the admission of drops ask here.
"""

from __future__ import annotations

from collections.abc import Iterable

from synapse.index.snapshot import Snapshot
from synapse.model import namespace as ns
from synapse.model.agents import PLACES
from synapse.model.entry import DOUBTFUL
from synapse.model.records import Record
from synapse.model.settings import Settings

# what a run writes about itself and its work, whatever it was shown
_OWN = frozenset(("entry", "shown", "delivery", "receipt", "claim", "change", "run", "used"))


def limits(settings: Settings) -> bool:
    """Return whether a run is limited by what it was shown."""
    block = dict(settings.other).get("unverified")
    return not (isinstance(block, dict) and block.get("runs") == "allow")


def doubts(snap: Snapshot, run: str, now: int) -> list[str]:
    """Return the entries that a run was shown and that are unverified, or from outside, to this
    moment.
    """
    ids = dict.fromkeys(id for record in snap.keyed(_key(run)) for id in record.fields["ids"])
    return [id for id in ids if (entry := snap.entry(id, now)) is None or entry.trust in DOUBTFUL]


def doubts_of_agent(snap: Snapshot, agent: str, now: int) -> list[str]:
    """Return the same for all runs that an agent has at work: what is dropped meanwhile in its name
    may be theirs.
    """
    return [
        id
        for run in snap.runs(state="running", agent=agent)
        for id in doubts(snap, run["run"], now)
    ]


def note(agent: str, run: str, ids: Iterable[str]) -> Record:
    """Return the record that a run was shown these unverified entries."""
    fields = {"agent": agent, "run": run, "state": "doubtful", "ids": list(ids)}
    return Record.new("delivery", agent, fields, key=_key(run))


def is_own(record: Record, author: str | None) -> bool:
    """Return whether a limited run may still commit a record: an entry, which is not believed, what
    says how far it is, and the end of a blocker of its own. `author` is whose entry it is about.
    """
    if record.kind in _OWN:
        return True
    if record.kind == "resolve":
        return author == record.by
    return record.kind == "acked" and not record.fields.get("body")


def places(agent: str, project: str | None) -> tuple[str, ...]:
    """Return where a limited run may still write: in its project, and what is its agent's alone."""
    shared = (f"{folder}/{project}/*" for folder in PLACES) if project else ()
    return (*shared, f"agents/{agent}/*")


def within(agent: str, project: str | None, namespace: str) -> bool:
    """Return whether a limited run may still write there."""
    return ns.matches_any(places(agent, project), namespace)


def why(ids: list[str]) -> str:
    """Return why a run is limited, and what a person may do about it."""
    listing = ", ".join(ids[:3]) + (f" and {len(ids) - 3} more" if len(ids) > 3 else "")
    return (
        f"it was shown entries that nobody vouched for ({listing}); `synapse vouch` says that one"
        " is true,"
        " `unverified: {runs: allow}` in synapse.yaml limits no run"
    )


def _key(run: str) -> str:
    return f"doubts:{run}"
