"""The changelog: acts of the log as sentences, by day, as far as the reader may see them.

What a reader is told is what it may see.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import islice

from synapse.authority import sees_work
from synapse.errors import InvalidQuery, NotFound
from synapse.model import clock
from synapse.model.agents import OPERATOR
from synapse.model.dates import When
from synapse.model.entry import NEVER, SEALED
from synapse.model.kinds import ATOM, FACT, kind_of
from synapse.model.records import touched_by
from synapse.model.results import Rows
from synapse.system.typed import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from synapse.agent_memory import AgentMemory
    from synapse.model.entry import Entry
    from synapse.model.records import Record

_MAX_NAMES = 5
# What a person wants to know of a day. Cursors, seals and voids are in the audit.
CHANGELOG_KINDS = frozenset(
    "agent settings key entry approve reject vouch resolve archive restore undo taint untaint"
    " review"
    " quarantine repair redact run stop claim limit".split()
)


def in_changelog(record: Record) -> bool:
    """Return whether the changelog tells of a record: of what was decided, written and
    delivered.
    """
    fields = record.fields
    if record.kind == "shown":
        return bool(fields.get("run") and fields.get("ids"))
    if record.kind == "delivery":
        return fields.get("state") in ("rendered", "held") or fields.get("how") == "said so"
    return record.kind in CHANGELOG_KINDS


class Act(NamedTuple):
    """A record to tell of, with the entry that it speaks of, where the reader may see that."""

    record: Record
    entry: Entry | None = None


def page_of_acts(
    reader: AgentMemory,
    limit: int,
    before: str | None = None,
    *,
    agent: str | None = None,
    entry: str | None = None,
    since: When = None,
) -> Rows[Act]:
    """Return the newest acts before a place in the log that the reader may see, oldest first; 0:
    all.
    """
    end = NEVER if before is None else _place(before)
    acts = visible_acts(
        lambda size: reader.store.acts(agent, entry, since, size, end), reader, limit and limit + 1
    )
    if not 0 < limit < len(acts):
        return Rows(acts)
    return Rows(acts[1:], str(acts[1].record.seq))


def _place(before: str) -> int:
    if before.isascii() and before.isdigit() and len(before) < 19:
        return int(before)
    raise InvalidQuery(f"{before!r} is no `next` of an answer", before=before)


def visible_acts(
    ask: Callable[[int | None], list[Record]], reader: AgentMemory, limit: int
) -> list[Act]:
    """Return the newest acts that the reader may see, oldest first. `ask` fetches so many acts of
    the log."""
    size = limit * 4 or None
    while True:
        records = ask(size)
        acts = (_as_visible(record, reader) for record in records if in_changelog(record))
        newest = list(islice((act for act in acts if act is not None), limit or None))
        if size is None or len(newest) == limit or len(records) < size:
            return newest[::-1]
        size *= 8


def _as_visible(record: Record, reader: AgentMemory) -> Act | None:
    """Return the act as the reader may see it, or None."""
    if record.kind == "taint" and reader.id != OPERATOR:
        if "entry" not in record.fields:
            return None
        # how far it went is told to nobody who may not see it
        fields = {**record.fields, "ids": (), "may": (), "runs": ()}
        record = record._replace(fields=fields)
    if record.kind in ("delivery", "shown"):
        ids = [id for id in ids_of(record) if reader.id == OPERATOR or _may_see(reader, id)]
        fields = {**record.fields, "ids": ids}
        # nobody learns how much there is that it may not see
        if reader.id not in (OPERATOR, record.by):
            fields = {
                name: value for name, value in fields.items() if name not in ("of", "left_out")
            }
        return Act(record._replace(fields=fields)) if ids else None
    if reader.id not in (OPERATOR, record.by) and not _concerns(record, reader):
        return None
    try:
        entries = [_shut(reader, id) for id in ids_of(record)]
    except NotFound:
        return None
    return Act(record, entries[0] if entries else None)


def _concerns(record: Record, reader: AgentMemory) -> bool:
    """Return whether another agent's act that names no entry is this reader's to know: of runs,
    those that it gave or whose project it reads. What was claimed, put aside, declared, repaired or
    reviewed is for whom it is about, and the operator.
    """
    fields = record.fields
    if record.kind in ("run", "stop"):
        with reader.store.snapshot() as snap:
            run = snap.run(fields["run"]) or {}
        own = reader.id in (run.get("agent"), _agent_of(reader, run.get("parent")))
        return own or sees_work(reader.agent, "", run.get("project"))
    if record.kind == "agent":
        return bool(fields.get("agent", {}).get("id") == reader.id)
    return bool(ids_of(record)) or record.kind == "settings"


def _agent_of(reader: AgentMemory, run: str | None) -> str | None:
    if run is None:
        return None
    with reader.store.snapshot() as snap:
        return (snap.run(run) or {}).get("agent")


def _shut(reader: AgentMemory, id: str) -> Entry:
    """Return an entry as a sentence tells of it: nobody's sealed text is on a page for people."""
    reader.get(id)
    entry = reader.access.entry(id)
    if entry.scope not in SEALED:
        return entry
    from synapse.trust.keyring import shut

    return shut(entry)


def _may_see(reader: AgentMemory, id: str) -> bool:
    try:
        return bool(reader.get(id))
    except NotFound:
        return False


def ids_of(record: Record) -> list[str]:
    """Return the entries that a record names."""
    fields = record.fields
    if record.kind in ("undo", "untaint"):
        return touched_by(record)
    if record.kind == "taint":
        return [fields["entry"]] if "entry" in fields else []
    return (
        [record.id]
        if record.id
        else [*fields.get("ids", ()), *([fields["entry"]] if fields.get("entry") else [])]
    )


def act_json(act: Act) -> dict[str, Any]:
    """Return an act of the changelog as a JSON object."""
    record = act.record
    return {
        "seq": record.seq,
        "time": clock.iso(record.at),
        "kind": record.kind,
        "by": record.by,
        "entries": ids_of(record),
        "what": sentence(act),
    }


def format_days(acts: Iterable[Act], cut: Callable[[str], str]) -> str:
    """Return the changelog: a heading for each day, the newest last; `cut` shortens each line."""
    lines: list[str] = []
    day = ""
    for act in acts:
        if clock.day(act.record.at) != day:
            lines += [""] * bool(day) + [f"{clock.day(act.record.at)} UTC"]
            day = clock.day(act.record.at)
        lines.append(cut(f"  {clock.seconds(act.record.at)[11:16]}  {sentence(act)}"))
    return "\n".join(lines) or "nothing happened"


def sentence(act: Act) -> str:
    """Return one sentence about an act: who did what to which entry."""
    tell = _SENTENCES.get(act.record.kind)
    return f"{act.record.by} {tell(act, act.record.fields) if tell else act.record.kind}"


def _entry_sentence(act: Act, fields: Mapping[str, Any]) -> str:
    body = f": {act.entry.body.partition(chr(10))[0]}" if act.entry else ""
    weight = "" if fields.get("priority", "info") == "info" else f"{fields['priority']} "
    olds = f" superseding {', '.join(fields['replaces'])}" if fields.get("replaces") else ""
    topic = f" on {fields['topic']}" if fields.get("topic") else ""
    return f"wrote {act.record.id} {weight}{fields.get('namespace')}{topic}{olds}{body}"


def _agent_sentence(_: Act, fields: Mapping[str, Any]) -> str:
    agent = fields.get("agent", {})
    changes = format_changes(fields.get("was") or {}, agent)
    return f"{fields.get('how', 'registered')} {agent.get('id')}" + (
        f": {'; '.join(changes)}" if changes else ""
    )


def format_changes(was: Mapping[str, Any], agent: Mapping[str, Any]) -> list[str]:
    """Return how a declaration differs from the one before; empty if there was none."""
    changed = [key for key in agent if was and was.get(key) != agent[key]]
    return [
        f"{key.replace('_', ' ')} {_format_value(was.get(key))} -> {_format_value(agent[key])}"
        for key in changed
    ]


def _format_value(value: object) -> str:
    """Return a field of a declaration as a person writes it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(map(_format_value, value)) or "none"
    if isinstance(value, dict):
        return " ".join(map(_format_value, value.values()))
    return "none" if value is None else str(value)


def _ruling_sentence(verb: str) -> Any:
    def tell(act: Act, fields: Mapping[str, Any]) -> str:
        return f"{verb} {_format_ids(ids_of(act.record))}" + _why(fields)

    return tell


def _undo_sentence(_: Act, fields: Mapping[str, Any]) -> str:
    acts = fields.get("acts", ())
    number = f" (act {acts[0]})" if fields["what"] == "last" and len(acts) == 1 else ""
    return f"undid {fields['what']}{number}: {undo_counts(fields)}"


def undo_counts(fields: Mapping[str, Any]) -> str:
    """Return in words how many entries an undo moved which way."""
    changes = {
        "back": "came back",
        "away": "filed away",
        "freed": "shown again",
        "held": "hidden again",
    }
    counts = [
        f"{len(fields[name])} {change}" for name, change in changes.items() if fields.get(name)
    ]
    reviews = [f"{len(fields['reviews'])} reviews turned"] if fields.get("reviews") else []
    return ", ".join((*counts, *reviews))


def _taint_sentence(_: Act, fields: Mapping[str, Any]) -> str:
    if "entry" in fields:
        act = f"tainted {fields['entry']}"
    else:
        since = f" since {fields['since']}" if fields.get("since") else ""
        act = f"revoked what {fields.get('agent')} wrote{since}"
    count = len(fields.get("ids", ()))
    return act + (f": {count} entries" if count > 1 else "") + _why(fields)


def _resolve_sentence(act: Act, fields: Mapping[str, Any]) -> str:
    is_knowledge = kind_of(fields.get("entry", "")) in (FACT, ATOM)
    return str(_ruling_sentence("forgot" if is_knowledge else "resolved")(act, fields))


def _job_sentence(_: Act, fields: Mapping[str, Any]) -> str:
    """Return how far a nightly job is."""
    state = fields.get("state")
    reached = f"began its phase {fields['phase']}" if fields.get("phase") else "began"
    return (
        f"{reached if state == 'running' else 'finished'} ({fields.get('job')} of"
        f" {fields.get('date')})"
    )


def _why(fields: Mapping[str, Any]) -> str:
    why = fields.get("reason") or fields.get("note")
    return f": {why}" if why else ""


def _run_sentence(_: Act, fields: Mapping[str, Any]) -> str:
    """Return a sentence about a run. Its task and result stand in entries, which not everybody
    sees."""
    run, epoch = fields.get("run"), fields.get("epoch")
    if fields.get("state") == "ended":
        return f"ended run {run}: {fields.get('status', 'ended')}"
    if "agent" in fields:
        project = f" for {fields['project']}" if fields.get("project") else ""
        return f"began run {run}{project}"
    if fields.get("state") == "waiting":
        return f"ended run {run} as blocked: it waits for an answer"
    if fields.get("state") == "waiting":
        return f"ended run {run} as blocked: it waits for an answer"
    if fields.get("left"):
        return f"left run {run} in the middle"
    return f"goes on with run {run} as epoch {epoch}"


def _review_sentence(_: Act, fields: Mapping[str, Any]) -> str:
    moves = ", ".join(
        f"{agent} {move:+}" for agent, move in sorted(fields.get("moves", {}).items())
    )
    return f"reviewed reputations: {moves or 'nobody moved'}"


_STATES = {"offered": "was offered", "rendered": "was woken by", "acked": "acknowledged"}


def _delivery_sentence(act: Act, fields: Mapping[str, Any]) -> str:
    within = f" in run {fields['run']}" if fields.get("run") else ""
    state = fields.get("state", "")
    if state == "held":
        return (
            f"noted that {_format_ids(ids_of(act.record))} woke"
            f" nobody{_why({'note': fields.get('how')})}"
        )
    return f"{_STATES.get(state, state)} {_format_ids(ids_of(act.record))}{within}"


def _format_ids(ids: list[str]) -> str:
    return ", ".join(ids) if len(ids) <= _MAX_NAMES else f"{len(ids)} entries"


def _shown_sentence(act: Act, fields: Mapping[str, Any]) -> str:
    """Return what an agent was shown: the entries that the record names, or everything where it
    names none.
    """
    cursor = fields.get("cursor", "?")
    if "ids" not in fields:
        return f"was shown everything up to {cursor}"
    ids = fields["ids"]
    total = fields.get("of", len(ids) + fields["left_out"] if "left_out" in fields else None)
    if fields.get("run"):
        account = "" if total is None else f", {len(ids)} of {total} up to {cursor}"
        return (
            f"was given {_format_ids(ids_of(act.record)) or 'nothing'} at the start of run"
            f" {fields['run']}{account}"
        )
    number = ("1 entry" if len(ids) == 1 else f"{len(ids)} entries") + (
        "" if total is None else f" of {total}"
    )
    return f"was shown {number}, up to {cursor}" + (f": {', '.join(ids)}" if ids else "")


def _claim_sentence(_: Act, fields: Mapping[str, Any]) -> str:
    if fields.get("end"):
        return f"gave back {fields.get('work')!r}"
    return f"claimed {fields.get('work')!r} until {clock.seconds(fields.get('until', 0))}" + _why(
        fields
    )


def _link_sentence(_: Act, fields: Mapping[str, Any]) -> str:
    return f"said that {fields.get('cause')} {fields.get('type')} {fields.get('effect')}"


def _refusal_sentence(_: Act, fields: Mapping[str, Any]) -> str:
    current, epoch = fields.get("current"), fields.get("epoch")
    why = "has ended" if current == epoch else f"is at epoch {current}"
    return (
        f"was refused ({fields.get('what')}) as epoch {epoch} of run {fields.get('run')},"
        f" which {why}"
    )


def _key_sentence(_: Act, fields: Mapping[str, Any]) -> str:
    key = fields.get("key") or fields
    how = {"new": "made", "rotated": "made anew", "imported": "registered"}
    done = how.get(str(fields.get("how")), "revoked")
    return f"{done} the key {key.get('id')} of {key.get('owner')}"


_SENTENCES: Mapping[str, Any] = {
    "entry": _entry_sentence,
    "agent": _agent_sentence,
    "settings": lambda act, fields: "changed the settings",
    "key": _key_sentence,
    "share": lambda act, fields: f"shared {fields.get('entry')} with {fields.get('with')}",
    "approve": _ruling_sentence("approved"),
    "reject": _ruling_sentence("rejected"),
    "vouch": _ruling_sentence("vouched for"),
    "resolve": _resolve_sentence,
    "archive": _ruling_sentence("archived"),
    "restore": _ruling_sentence("restored"),
    "undo": _undo_sentence,
    "taint": _taint_sentence,
    "untaint": _ruling_sentence("untainted"),
    "night": _job_sentence,
    "review": _review_sentence,
    "shown": _shown_sentence,
    "run": _run_sentence,
    "stop": lambda act, fields: f"wants run {fields.get('run')} to stop" + _why(fields),
    "delivery": _delivery_sentence,
    "claim": _claim_sentence,
    "change": lambda act, fields: f"changed the file {fields.get('file')}",
    "link": _link_sentence,
    "used": lambda act, fields: (
        f"noted how often {len(fields.get('counts', ()))} items were asked for"
    ),
    "refused": _refusal_sentence,
    "quarantine": lambda act, fields: f"put {fields.get('path')} aside: {fields.get('reason')}",
    "limit": lambda act, fields: (
        f"reached its limit of {fields.get('most', 0):,} {fields.get('limit')} in an hour"
    ),
    "redact": lambda act, fields: f"redacted {fields.get('entry')}" + _why(fields),
    "repair": lambda act, fields: (
        f"gave up {len(fields['lines'])} damaged stretches of the journal"
        if fields.get("lines")
        else f"gave up {len(fields['aside'])} lines that are no record of their kind"
        if fields.get("aside")
        else f"repaired {fields.get('path') or fields.get('id') or 'the store'}"
    ),
}
