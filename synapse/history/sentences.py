"""What happened, in words: the acts of the log as sentences, by day. What a reader is told is what
it may see.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import islice

from synapse.errors import NotFound
from synapse.model import clock
from synapse.model.agents import OPERATOR
from synapse.model.kinds import ATOM, FACT, kind_of
from synapse.model.records import touched_by
from synapse.system.typed import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from synapse.agent_memory import AgentMemory
    from synapse.model.entry import Entry
    from synapse.model.records import Record

_NAMED = 5
# What a person wants to know of a day. Cursors, seals and voids are in the audit.
TOLD = frozenset(
    "agent settings entry approve reject vouch resolve archive restore undo review"
    " quarantine repair run stop claim".split()
)


def is_told(record: Record) -> bool:
    """Return whether the changelog tells of a record: of what was decided, written and
    delivered.
    """
    fields = record.fields
    if record.kind == "shown":
        return bool(fields.get("run") and fields.get("ids"))
    if record.kind == "delivery":
        return (
            fields.get("state") in ("rendered", "held")
            or fields.get("how") == "said so"
        )
    return record.kind in TOLD


class Act(NamedTuple):
    """A record to tell of, with the entry that it speaks of, where the reader may see that."""

    record: Record
    entry: Entry | None = None


def told(
    ask: Callable[[int | None], list[Record]], reader: AgentMemory, limit: int
) -> list[Act]:
    """Return the newest acts that the reader may see, oldest first. `ask` fetches so many acts of
    the log."""
    size = limit * 4 or None
    while True:
        records = ask(size)
        acts = (_seen(record, reader) for record in records if is_told(record))
        newest = list(islice((act for act in acts if act is not None), limit or None))
        if size is None or len(newest) == limit or len(records) < size:
            return newest[::-1]
        size *= 8


def _seen(record: Record, reader: AgentMemory) -> Act | None:
    """Return the act as the reader may see it, or None. Quarantined files are shown to the operator
    alone, since their text is unchecked."""
    if record.kind in ("delivery", "shown"):
        ids = [
            id for id in ids_of(record) if reader.id == OPERATOR or _sees(reader, id)
        ]
        fields = {**record.fields, "ids": ids}
        if reader.id not in (
            OPERATOR,
            record.by,
        ):  # nobody learns how much there is that it may not see
            fields = {
                name: value
                for name, value in fields.items()
                if name not in ("of", "left_out")
            }
        return Act(record._replace(fields=fields)) if ids else None
    try:
        entries = [reader.get(id) for id in ids_of(record)]
    except NotFound:
        return None
    if record.kind == "quarantine" and reader.id != OPERATOR:
        return None
    return Act(record, entries[0] if entries else None)


def _sees(reader: AgentMemory, id: str) -> bool:
    try:
        return bool(reader.get(id))
    except NotFound:
        return False


def ids_of(record: Record) -> list[str]:
    """Return the entries that a record names."""
    fields = record.fields
    if record.kind == "undo":
        return touched_by(record)
    return (
        [record.id]
        if record.id
        else [
            *fields.get("ids", ()),
            *([fields["entry"]] if fields.get("entry") else []),
        ]
    )


def days(acts: Iterable[Act], cut: Callable[[str], str]) -> str:
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
    return (
        f"{act.record.by} {tell(act, act.record.fields) if tell else act.record.kind}"
    )


def _wrote(act: Act, given: Mapping[str, Any]) -> str:
    body = f": {act.entry.body.partition(chr(10))[0]}" if act.entry else ""
    weight = "" if given.get("priority", "info") == "info" else f"{given['priority']} "
    olds = (
        f" superseding {', '.join(given['replaces'])}" if given.get("replaces") else ""
    )
    topic = f" on {given['topic']}" if given.get("topic") else ""
    return f"wrote {act.record.id} {weight}{given.get('namespace')}{topic}{olds}{body}"


def _declared(_: Act, given: Mapping[str, Any]) -> str:
    agent = given.get("agent", {})
    changes = differing(given.get("was") or {}, agent)
    return f"{given.get('how', 'registered')} {agent.get('id')}" + (
        f": {'; '.join(changes)}" if changes else ""
    )


def differing(was: Mapping[str, Any], agent: Mapping[str, Any]) -> list[str]:
    """Return how a declaration differs from the one before; empty if there was none."""
    changed = [key for key in agent if was and was.get(key) != agent[key]]
    return [
        f"{key.replace('_', ' ')} {_said(was.get(key))} -> {_said(agent[key])}"
        for key in changed
    ]


def _said(value: object) -> str:
    """Return a field of a declaration as a person writes it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(map(_said, value)) or "none"
    if isinstance(value, dict):
        return " ".join(map(_said, value.values()))
    return "none" if value is None else str(value)


def _ruled(verb: str) -> Any:
    def tell(act: Act, given: Mapping[str, Any]) -> str:
        return f"{verb} {_some(ids_of(act.record))}" + _why(given)

    return tell


def _undid(_: Act, given: Mapping[str, Any]) -> str:
    acts = given.get("acts", ())
    number = f" (act {acts[0]})" if given["what"] == "last" and len(acts) == 1 else ""
    return f"undid {given['what']}{number}: {undo_counts(given)}"


def undo_counts(given: Mapping[str, Any]) -> str:
    """Return in words how many entries an undo moved which way."""
    changes = {
        "back": "came back",
        "away": "filed away",
        "freed": "shown again",
        "held": "hidden again",
    }
    counts = [
        f"{len(given[name])} {change}"
        for name, change in changes.items()
        if given.get(name)
    ]
    reviews = (
        [f"{len(given['reviews'])} reviews turned"] if given.get("reviews") else []
    )
    return ", ".join((*counts, *reviews))


def _resolved(act: Act, given: Mapping[str, Any]) -> str:
    is_knowledge = kind_of(given.get("entry", "")) in (FACT, ATOM)
    return str(_ruled("forgot" if is_knowledge else "resolved")(act, given))


def _slept(_: Act, given: Mapping[str, Any]) -> str:
    """Return how far a nightly job is."""
    state = given.get("state")
    reached = f"began its phase {given['phase']}" if given.get("phase") else "began"
    return (
        f"{reached if state == 'running' else 'finished'} ({given.get('job')} of"
        f" {given.get('date')})"
    )


def _why(given: Mapping[str, Any]) -> str:
    why = given.get("reason") or given.get("note")
    return f": {why}" if why else ""


def _ran(_: Act, given: Mapping[str, Any]) -> str:
    """Return a sentence about a run. Its task and result stand in entries, which not everybody
    sees."""
    run, epoch = given.get("run"), given.get("epoch")
    if given.get("state") == "ended":
        return f"ended run {run}: {given.get('status', 'ended')}"
    if "agent" in given:
        project = f" for {given['project']}" if given.get("project") else ""
        return f"began run {run}{project}"
    return f"goes on with run {run} as epoch {epoch}"


def _reviewed(_: Act, given: Mapping[str, Any]) -> str:
    moves = ", ".join(
        f"{agent} {move:+}" for agent, move in sorted(given.get("moves", {}).items())
    )
    return f"reviewed reputations: {moves or 'nobody moved'}"


_STATES = {
    "offered": "was offered",
    "rendered": "was woken by",
    "acked": "acknowledged",
}


def _delivered(act: Act, given: Mapping[str, Any]) -> str:
    within = f" in run {given['run']}" if given.get("run") else ""
    state = given.get("state", "")
    if state == "held":
        return (
            f"noted that {_some(ids_of(act.record))} woke"
            f" nobody{_why({'note': given.get('how')})}"
        )
    return f"{_STATES.get(state, state)} {_some(ids_of(act.record))}{within}"


def _some(ids: list[str]) -> str:
    return ", ".join(ids) if len(ids) <= _NAMED else f"{len(ids)} entries"


def _shown(act: Act, given: Mapping[str, Any]) -> str:
    """Return what an agent was shown: the entries that the record names, or everything where it
    names none.
    """
    cursor = given.get("cursor", "?")
    if "ids" not in given:
        return f"was shown everything up to {cursor}"
    ids = given["ids"]
    total = given.get(
        "of", len(ids) + given["left_out"] if "left_out" in given else None
    )
    if given.get("run"):
        account = "" if total is None else f", {len(ids)} of {total} up to {cursor}"
        return (
            f"was given {_some(ids_of(act.record)) or 'nothing'} at the start of run"
            f" {given['run']}{account}"
        )
    number = ("1 entry" if len(ids) == 1 else f"{len(ids)} entries") + (
        "" if total is None else f" of {total}"
    )
    return f"was shown {number}, up to {cursor}" + (
        f": {', '.join(ids)}" if ids else ""
    )


def _claimed(_: Act, given: Mapping[str, Any]) -> str:
    if given.get("end"):
        return f"gave back {given.get('work')!r}"
    return (
        f"claimed {given.get('work')!r} until {clock.seconds(given.get('until', 0))}"
        + _why(given)
    )


def _linked(_: Act, given: Mapping[str, Any]) -> str:
    return f"said that {given.get('cause')} {given.get('type')} {given.get('effect')}"


def _refused(_: Act, given: Mapping[str, Any]) -> str:
    current, epoch = given.get("current"), given.get("epoch")
    why = "has ended" if current == epoch else f"is at epoch {current}"
    return (
        f"was refused ({given.get('what')}) as epoch {epoch} of run {given.get('run')},"
        f" which {why}"
    )


_SENTENCES: Mapping[str, Any] = {
    "entry": _wrote,
    "agent": _declared,
    "settings": lambda act, given: "changed the settings",
    "approve": _ruled("approved"),
    "reject": _ruled("rejected"),
    "vouch": _ruled("vouched for"),
    "resolve": _resolved,
    "archive": _ruled("archived"),
    "restore": _ruled("restored"),
    "undo": _undid,
    "night": _slept,
    "review": _reviewed,
    "shown": _shown,
    "run": _ran,
    "stop": lambda act, given: f"wants run {given.get('run')} to stop" + _why(given),
    "delivery": _delivered,
    "claim": _claimed,
    "link": _linked,
    "used": lambda act, given: (
        f"noted how often {len(given.get('counts', ()))} items were asked for"
    ),
    "refused": _refused,
    "quarantine": lambda act, given: (
        f"put {given.get('path')} aside: {given.get('reason')}"
    ),
    "repair": lambda act, given: (
        f"repaired {given.get('path') or given.get('id') or 'the store'}"
    ),
}
