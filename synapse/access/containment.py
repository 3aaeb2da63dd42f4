"""Containment: entries that turned out to be poisoned are shown to nobody any more, nor is what was
made of them. The shell offers these acts; a program gives the `access` of an agent's memory, or of
the operator's.

What runs wrote after they had such an entry in sight is named, and stays shown unless that is asked
for: in a team that reads everything, nearly everything is written after something.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection

from synapse.access.gate import Access
from synapse.authority import may_rule, visible
from synapse.errors import Conflict, Forbidden, NotFound, StoreError
from synapse.index.questions import containment, maintenance
from synapse.index.snapshot import Snapshot
from synapse.log.files import FilesLog
from synapse.model.agents import CONSOLIDATOR, Agent
from synapse.model.clock import iso
from synapse.model.dates import When
from synapse.model.dates import since as parse_since
from synapse.model.records import Record
from synapse.model.results import Tainted
from synapse.store import Store
from synapse.system.plain_files import open_file
from synapse.system.typed import Any

_ID = re.compile(rb"[a-z]+[-_][0-9a-f-]+")


def taint(
    access: Access,
    id: str,
    reason: str | None = None,
    *,
    affected: bool = False,
    plan: bool = False,
) -> Tainted:
    """Taint an entry and what was made of it; with `affected`, also what may be. With `plan`,
    nothing is done. An agent taints what it may rule on.
    """
    agent, entry = access.agent(), access.entry(id)
    if agent is not None:
        may_rule(agent, entry, access.store.settings, "taint")
    with access.store.snapshot() as snap:
        taints = containment.tainted_by(snap, entry.id)
        if any(record.fields.get("entry") == entry.id for record in taints):
            raise Conflict(f"{entry.id} is tainted already", id=entry.id)
        extent = containment.reach(snap, [entry.id])
    fields = {"entry": entry.id} | ({"reason": reason} if reason else {})
    return _taint(access, agent, extent, fields, affected=affected, plan=plan)


def revoke(
    access: Access,
    author: str,
    when: When = None,
    reason: str | None = None,
    *,
    affected: bool = False,
    plan: bool = False,
) -> Tainted:
    """Taint all that an agent wrote since a time, or ever, and what was made of that. Only with the
    access of the operator.
    """
    if access.agent() is not None:
        raise Forbidden(
            f"agent {access.id} may not revoke what {author} wrote: that is the operator's",
            agent=access.id,
            action="revoke",
        )
    since = parse_since(when, access.store.clock()) or 0
    with access.store.snapshot() as snap:
        ids = containment.written_by(snap, author, since)
        if not ids:
            raise NotFound(f"there is nothing that {author} wrote since then", id=author)
        extent = containment.reach(snap, ids)
    fields: dict[str, Any] = {"agent": author}
    fields |= {"since": iso(since)} if since else {}
    fields |= {"reason": reason} if reason else {}
    return _taint(access, None, extent, fields, affected=affected, plan=plan)


def untaint(access: Access, id: str, reason: str | None = None) -> tuple[str, ...]:
    """Show an entry again. One that was tainted by its own name takes along what was tainted for
    it alone. Return the entries that are tainted no more.
    """
    agent, entry = access.agent(), access.entry(id)
    if agent is not None:
        may_rule(agent, entry, access.store.settings, "untaint")
    with access.store.snapshot() as snap:
        taints = containment.tainted_by(snap, entry.id)
        if not taints:
            raise Conflict(f"{entry.id} is not tainted", id=entry.id)
        acts = [r.seq for r in taints if r.fields.get("entry") == entry.id]
        ids = {entry.id}
        for seq in acts:
            ids.update(maintenance.held_by(snap, seq, lifted=False))
    if agent is not None:
        acts_of_others = [r for r in taints if r.by != agent.id]
        if acts_of_others:
            raise Forbidden(
                f"agent {agent.id} may not untaint {entry.id}:"
                f" {acts_of_others[0].by} tainted it, and the operator may show it again",
                agent=agent.id,
                action="untaint",
            )
    fields: dict[str, Any] = {"entry": entry.id, "ids": [entry.id]}
    fields |= {"holds": [[seq, False] for seq in acts]} if acts else {}
    fields["freed"] = sorted(ids)
    fields |= {"reason": reason} if reason else {}
    access.writer.write(Record.new("untaint", access.id, fields))
    with access.store.snapshot() as snap:
        return tuple(sorted(id for id in ids if not snap.is_tainted(id)))


def _taint(
    access: Access,
    agent: Agent | None,
    found: containment.Reach,
    fields: dict[str, Any],
    *,
    affected: bool,
    plan: bool,
) -> Tainted:
    store = access.store
    ids = [*found.made, *found.may] if affected else [*found.made]
    may = [] if affected else [*found.may]
    remaining: list[str] = []
    if agent is not None:
        remaining = [id for id in ids if not _rules(access, agent, id)]
        ids = [id for id in ids if id not in set(remaining)]
    runs = [*found.runs]
    seq = None
    if not plan:
        values = fields | {"ids": ids, "may": may, "runs": runs}
        seq = access.writer.write(Record.new("taint", access.id, values)).seq
        store.refresh()
        if back := _merged_away(store, ids):
            access.writer.file("restore", back, "what they were merged into is tainted")
        _drop_views(store, ids)
    if agent is not None:  # nobody learns of what it may not see
        may = [id for id in may if _sees(access, agent, id)]
        remaining = [id for id in remaining if _sees(access, agent, id)]
        return Tainted(seq, tuple(ids), tuple(may), (), (), tuple(remaining))
    return Tainted(seq, tuple(ids), tuple(may), tuple(runs), found.agents, ())


def _rules(access: Access, agent: Agent, id: str) -> bool:
    """Return whether an agent may rule on an entry."""
    try:
        may_rule(agent, access.entry(id), access.store.settings, "taint")
    except (Forbidden, NotFound):
        return False
    return True


def _sees(access: Access, agent: Agent, id: str) -> bool:
    return visible(access.store.entry(id), agent)


def _merged_away(store: Store, ids: Collection[str]) -> list[str]:
    """Return the entries that were filed away into one of these, and are not tainted themselves."""
    tainted, now = set(ids), store.clock()
    with store.snapshot() as snap:
        own = tainted.intersection(containment.written_by(snap, CONSOLIDATOR, 0))
        merged = [snap.entry(id, now) for id in sorted(own)]
        sources = {id for entry in merged if entry for id in entry.derived_from}
        return [id for id in sorted(sources - tainted) if _into(snap, id, own)]


def _into(snap: Snapshot, id: str, merged: set[str]) -> bool:
    last = maintenance.last_filing(snap, id)
    filed = last is not None and last.kind == "archive"
    return filed and not merged.isdisjoint(last.fields.get("heirs", ()))  # type: ignore[union-attr]


def _drop_views(store: Store, ids: Collection[str]) -> None:
    """Delete the views that lie in the tree and show one of these: the next night writes them
    anew.
    """
    if not isinstance(store.log, FilesLog):
        return
    folder, tainted = os.path.join(store.log.root, "views"), set(ids)
    try:
        for name in os.listdir(folder):
            path = os.path.join(folder, name)
            with open(open_file(path), "rb") as file:
                viewed = {match.decode() for match in _ID.findall(file.read())}
            if not viewed.isdisjoint(tainted):
                os.unlink(path)
    except (OSError, StoreError):
        pass  # views are derived; what cannot be read here is not shown to agents
