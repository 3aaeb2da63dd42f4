"""What a nightly run writes for people: a page for each day, the entry on the run, the current
views.

All of it is derived: pages and views are written anew, the entry is written once.
"""

from __future__ import annotations

from collections import Counter
from itertools import groupby

from synapse.agent_memory import AgentMemory
from synapse.authority import admit
from synapse.errors import StoreError
from synapse.history.sentences import Act, format_days, ids_of, in_changelog
from synapse.index.questions import maintenance
from synapse.index.snapshot import Filter, Snapshot
from synapse.log.files import FilesLog
from synapse.model.agents import CONSOLIDATOR, OPERATOR, Agent
from synapse.model.clock import DAY, day
from synapse.model.entry import SEALED, Draft
from synapse.model.records import Guard, Record, filings
from synapse.system.quoting import inline
from synapse.system.typed import TYPE_CHECKING

if TYPE_CHECKING:
    from synapse.core import Memory
    from synapse.model.entry import Entry
    from synapse.model.records import Record
    from synapse.store import Store

CHANGELOG = "system/changelog"
DAYS = 7  # so many pages at most, where no night ran for longer


def write(mem: Memory, date: str, run_name: str, floor: int, now: int, guard: Guard) -> None:
    """Write the entry, the pages of the days since the last run, and the views of all agents and
    departments."""
    write_entry(mem.store, run_name, floor, now, guard)
    if isinstance(mem.store.log, FilesLog):
        write_days(mem.store, floor, now)
        write_views(mem)


def write_entry(store: Store, run_name: str, floor: int, now: int, guard: Guard) -> None:
    """Write the entry that says what a run did. One that only filed away such entries writes
    none."""
    counts = Counter[str]()
    own_entries = Filter(namespaces=(CHANGELOG,), author=CONSOLIDATOR, archived=True, limit=None)
    with store.snapshot() as snap:
        own_ids = {entry.id for entry in snap.page(None, own_entries, now)}
        acts = maintenance.written_by(snap, CONSOLIDATOR, floor)
    for act in acts:
        if act.fields.get("night") == run_name:
            counts[act.fields.get("reason", "")] += sum(id not in own_ids for id, _ in filings(act))
    lines = [
        f"- {count:,} filed away: {reason}"
        for reason, count in sorted(counts.items())
        if reason and count
    ]
    if not lines:
        return
    body = "\n".join([f"Night of {run_name}: {sum(counts.values()):,} entries filed away.", *lines])
    draft = Draft(
        f"{body}\n\n`synapse undo {run_name}` takes it back.", CHANGELOG, CONSOLIDATOR, "important"
    )
    entry = admit(draft, Agent(CONSOLIDATOR, authority=0, write=("*",)), store.settings)
    pending = Record.new(
        "entry",
        CONSOLIDATOR,
        {"phase": "changelog", "night": run_name},
        entry._replace(authority=0),
    )
    store.commit.append(pending, once=f"changelog:{run_name}", unless=guard)
    store.refresh()


def write_days(store: Store, floor: int, now: int) -> None:
    """Write a page for each day since the last run. Only what everybody may read is quoted on
    it."""
    assert isinstance(store.log, FilesLog)
    since = max(store.log.at(floor).at if floor else 0, now - DAYS * DAY) // DAY * DAY
    with store.snapshot() as snap:
        acts = (
            _act(snap, record, entry, now) for record, entry in maintenance.acts_since(snap, since)
        )
        for date, group in groupby(
            (act for act in acts if in_changelog(act.record)), key=lambda act: day(act.record.at)
        ):
            text = f"# {date}\n\n{format_days(group, _item)}\n"
            _place(store, f"changelog/{date}.md", text)


def write_views(mem: Memory) -> None:
    """Write the current view of each agent, and of each department what all of its agents may
    see."""
    agents = mem.agents()
    for agent in agents:
        _place(mem.store, f"views/{agent.id}.md", _shut(mem, agent.id).briefing().markdown())
    operator, agent_ids = _shut(mem, OPERATOR), {agent.id for agent in agents}
    for name in sorted({agent.department for agent in agents if agent.department} - agent_ids):
        _place(mem.store, f"views/{name}.md", operator.briefing(department=name).markdown())


def _shut(mem: Memory, id: str) -> AgentMemory:
    """Return an agent's memory that opens nothing sealed: its pages are files."""
    agent_memory = AgentMemory(mem.store, id)
    agent_memory.access.opens = False
    return agent_memory


def _act(snap: Snapshot, record: Record, entry: Entry | None, now: int) -> Act:
    """Return the act with its entry, where that is to all; one that was staged is looked up."""
    if entry is None and record.kind == "entry":
        entry = snap.entry(ids_of(record)[0], now)
    quoted = entry and entry.addressees == ("all",) and entry.scope not in SEALED
    return Act(record, entry if quoted else None)


def _item(text: str) -> str:
    return f"- {inline(text.strip())}"


def _place(store: Store, path: str, text: str) -> None:
    assert isinstance(store.log, FilesLog)
    try:
        store.log.mirror.place(path, text.encode(), replace=True)
    except OSError as error:
        raise StoreError(f"{path} could not be written: {error}") from error
