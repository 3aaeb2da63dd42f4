"""Undo: one record that takes back an act, or a whole nightly run, and what can be undone at all.

An undo is an act like any other and is undone in the same way. The log only grows. Nothing here
prints.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from synapse.authority import may_close
from synapse.errors import Conflict, NotFound
from synapse.index.questions import maintenance, outcomes
from synapse.index.snapshot import Snapshot
from synapse.model.agents import CONSOLIDATOR, OPERATOR
from synapse.model.records import Record, filings
from synapse.system.typed import TYPE_CHECKING, Any, NamedTuple
from synapse.trust.persons import operators_alone

if TYPE_CHECKING:
    from synapse.core import Memory

# Why a record of this kind cannot be taken back, and what to do instead.
_FINAL = {
    "agent": "a declaration is replaced by the next one: `synapse register` it anew",
    "settings": "settings are what synapse.yaml says: change it back there",
    "untaint": "taint it again: `synapse taint ID`",
    "reject": "a rejected entry stays rejected: have it written again",
    "vouch": "what was believed may be in prompts by now: supersede or archive the entry",
    "night": "this line only says how far a night was: `synapse undo {date}` takes that night back",
    "thread": "say the opposite: `synapse thread ID --reopen`, --close, --tag or --rename",
    "link": "say the link anew, with another --type or --strength: the last word counts",
    "claim": "a lease ends by itself, or when its agent releases it",
    "change": "the file is git's, or its editor's, to restore",
    "react": "`synapse ack --react SIGN --remove` takes a reaction back",
    "receipt": "what was read stays read",
    "acked": "what was acknowledged stays so; send another message",
    "shown": "what was shown was seen",
    "delivery": "what was delivered was seen",
    "run": "a run that began has run",
    "stop": "the run was told; start it anew with `orchestrator resume`",
    "redact": "what was redacted is gone",
}


class UndoResult(NamedTuple):
    """The outcome of an undo: its number (None where it is only planned), the entries that came
    back from the archive, those filed away, the reviews of reputation with whether they stand now,
    the acts that were taken back, the entries that are shown again and those that no longer are."""

    what: str
    seq: int | None
    back: tuple[str, ...]
    away: tuple[str, ...]
    reviews: tuple[tuple[int, bool], ...] = ()
    acts: tuple[Record, ...] = ()
    freed: tuple[str, ...] = ()
    held: tuple[str, ...] = ()


def undo(
    mem: Memory, what: str, *, once: str | None = None, by: str = OPERATOR, plan: bool = False
) -> UndoResult:
    """Take back an act (its number), a nightly run (its date) or, with `last`, the newest act;
    return what that did.

    The operator takes back anybody's act, an agent its own. `last` is the newest ruling, of anybody
    for the operator. With `plan`, nothing is done.
    """
    if by == OPERATOR:
        operators_alone("undo")
    agent_memory = mem.as_agent(by)
    store = mem.store
    store.refresh()
    with store.snapshot() as snap:
        acts = _acts_called(snap, what, by)
        fields = _effects(snap, what, acts, by)
    if by != OPERATOR and (agent := store.agents.get(by)) is not None:
        for id in (*fields["back"], *fields["away"], *fields["freed"], *fields["held"]):
            may_close(agent, agent_memory.get(id), store.settings, "undo")
    if plan:
        return _undone(fields, None, acts)
    stored_fields = {
        name: value for name, value in fields.items() if value or name in ("back", "away")
    }
    done = agent_memory.writer.write(Record.new("undo", by, stored_fields), once=once)
    store.refresh()
    return _undone(done.fields, done.seq, acts)


def undo_json(done: UndoResult) -> dict[str, Any]:
    """Return an undo as a JSON object."""
    from synapse.history.sentences import Act, sentence

    acts = [
        {"seq": act.seq, "kind": act.kind, "by": act.by, "what": sentence(Act(act))}
        for act in done.acts
    ]
    return done._asdict() | {"acts": acts}


def _undone(fields: Any, seq: int | None, acts: Sequence[Record]) -> UndoResult:
    """Return the fields of an undo's record as a value."""
    names = ("back", "away", "freed", "held")
    back, away, freed, hidden = (tuple(fields.get(name, ())) for name in names)
    reviews = tuple((seq, stands) for seq, stands in fields.get("reviews", ()))
    return UndoResult(fields["what"], seq, back, away, reviews, tuple(acts), freed, hidden)


def _effects(snap: Snapshot, what: str, acts: Sequence[Record], by: str) -> dict[str, Any]:
    """Return the fields of the undo of these acts: only what of them still stands is turned."""
    numbers = {record.seq for record in acts}
    moved: dict[str, bool] = {}
    for record in reversed(acts):
        moved |= {id: not away for id, away in _filed_by(record)}
    moved = {id: goes for id, goes in moved.items() if _still_decides(snap, id, numbers, by)}
    places = {id: snap.whereabouts(id) for id in moved}
    away = [id for id, goes in moved.items() if goes and places[id] == "live"]
    back = [id for id, goes in moved.items() if not goes and places[id] == "archived"]
    holds = {seq: not stood for record in reversed(acts) for seq, stood in _holds_of(record)}
    lifted = {seq: maintenance.held_by(snap, seq, lifted=stands) for seq, stands in holds.items()}
    freed = [id for seq, stands in holds.items() if not stands for id in lifted[seq]]
    hidden = [id for seq, stands in holds.items() if stands for id in lifted[seq]]
    stand = {record.seq: stands for record, stands in outcomes.reviews(snap)}
    turned = {seq: not stood for record in reversed(acts) for seq, stood in _reviewed(record)}
    reviews = [[seq, stands] for seq, stands in turned.items() if stand[seq] != stands]
    if not (away or back or reviews or freed or hidden):
        raise Conflict(f"nothing to undo: {what} did nothing that still stands")
    turned_holds = [[seq, stands] for seq, stands in holds.items() if lifted[seq]]
    return {
        "what": what,
        "acts": sorted(numbers),
        "back": back,
        "away": away,
        "reviews": reviews,
        "holds": turned_holds,
        "freed": freed,
        "held": hidden,
    }


def _still_decides(snap: Snapshot, id: str, numbers: set[int], by: str) -> bool:
    """Return whether where an entry is still follows from these acts: nobody filed it since, but by
    an undo.
    """
    last = maintenance.last_filing(snap, id)
    if last is None or last.seq in numbers:
        return True
    return last.kind == "undo" and by in (OPERATOR, last.by)


def _acts_called(snap: Snapshot, what: str, by: str) -> list[Record]:
    """Return the records of an act, of a nightly run, or of the newest act, oldest first."""
    if what == "last":
        record = maintenance.last_ruling(snap, by)
        if record is None:
            raise NotFound(
                "there is nothing to undo yet; `synapse audit` lists what was done", id=what
            )
        return _check_possible(_with_related(snap, record, whole_run=True), what, by)
    if what.isdigit():
        record = maintenance.act(snap, int(what))
        if record is None:
            raise NotFound(_missing(what, by), id=what)
        return _check_possible(_with_related(snap, record), what, by)
    acts = _acts_of_run(snap, what)
    if not acts:
        raise NotFound(_missing(what, by), id=what)
    return _check_possible(acts, what, by)


def _missing(what: str, by: str) -> str:
    if by == OPERATOR:
        return f"there is no act and no night {what} to undo; `synapse audit` lists them"
    return f"there is no act {what} of {by}'s to undo: others' acts, and nights, are the operator's"


def _check_possible(acts: list[Record], what: str, by: str) -> list[Record]:
    """Return the acts if this agent may take them back and they can be; else say why not."""
    first = next((record for record in acts if record.by != CONSOLIDATOR), acts[0])
    if by != OPERATOR and first.by != by:
        raise NotFound(_missing(what, by), id=what)
    if not any(map(_took_effect, acts)):
        why = _FINAL.get(first.kind, "it moved no entry")
        if first.kind == "entry":
            why = "it waits for review: reject it with `synapse reject`"
        why = why.format(date=first.fields.get("date", "DATE"))
        raise Conflict(
            f"there is no way to undo act {first.seq} ({first.kind} by {first.by}): {why};"
            " `synapse audit` lists what came before it",
            id=str(first.seq),
        )
    return acts


def _acts_of_run(snap: Snapshot, run_name: str) -> list[Record]:
    """Return the acts of a nightly run, or of all runs of a day."""
    acts = [
        record for record in maintenance.written_by(snap, CONSOLIDATOR, 0) if _took_effect(record)
    ]
    names = ((record, record.fields.get("night", "")) for record in acts)
    return [record for record, name in names if name == run_name or name.startswith(f"{run_name}T")]


def _with_related(snap: Snapshot, record: Record, *, whole_run: bool = False) -> list[Record]:
    """Return an act with what belongs to it: an entry that was written, or approved, and the
    entries filed away into it are one act, by whichever number it is called. With `whole_run`, an
    act of a nightly run stands for the whole run."""
    ids = {record.id, *record.fields.get("heirs", ())}
    if record.kind == "approve":
        ids.add(record.fields["entry"])
    approved = [act for id in sorted(filter(None, ids)) for act in maintenance.approvals(snap, id)]
    if record.by == CONSOLIDATOR and not approved and whole_run and record.fields.get("night"):
        return _acts_of_run(snap, record.fields["night"])
    if record.by != CONSOLIDATOR and record.kind != "approve":
        return [record]
    own = maintenance.written_by(snap, CONSOLIDATOR, 0)
    wrote = [act for act in own if act.id in ids and act.id and _took_effect(act)]
    into = {act.id for act in wrote} | {act.fields["entry"] for act in approved}
    filed = [act for act in own if not into.isdisjoint(act.fields.get("heirs", ()))]
    acts = {act.seq: act for act in (record, *wrote, *approved, *filed)}
    return [acts[seq] for seq in sorted(acts)]


def _took_effect(record: Record) -> bool:
    """Return whether a record did anything to entries; what was staged did not, until it was
    approved.
    """
    if record.kind == "entry":
        return record.id is not None and not record.fields.get("staged")
    return bool(_filed_by(record) or _holds_of(record) or _reviewed(record))


def _reviewed(record: Record) -> list[tuple[int, bool]]:
    """Return the reviews that an act made or turned, each with whether it stood from then on."""
    if record.kind == "review":
        return [(record.seq, True)]
    return [(seq, stands) for seq, stands in record.fields.get("reviews", ())]


def _holds_of(record: Record) -> Iterable[tuple[int, bool]]:
    """Return the numbers of what hides others since this act, each with whether it does. No entry
    of a nightly run does."""
    if record.kind == "undo":
        return [(seq, stands) for seq, stands in record.fields.get("holds", ())]
    hides = record.kind in ("resolve", "approve", "entry", "taint") and record.by != CONSOLIDATOR
    return [(record.seq, True)] if hides else []


def _filed_by(record: Record) -> list[tuple[str, bool]]:
    """Return the entries that an act moved, each with whether it took it away. What was written or
    approved came."""
    if record.kind == "entry":
        return [(record.id, False)] if record.id else []
    if record.kind == "approve":
        return [(record.fields["entry"], False)]
    return filings(record)
