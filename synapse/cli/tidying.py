"""`synapse defrag`: tidy the memory by hand, or see what a night would do; `synapse undo` takes it
back.
"""

from __future__ import annotations

from collections.abc import Sequence

from synapse.cli.call import Call
from synapse.cli.options import Options
from synapse.cli.progress import Progress
from synapse.errors import Conflict, InvalidQuery
from synapse.history.sentences import Act, sentence, undo_counts
from synapse.model import clock
from synapse.model.agents import OPERATOR
from synapse.model.entry import SECOND
from synapse.system.typed import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from synapse.consolidate import Act as Step
    from synapse.consolidate import Done, Night, Plan, Undone

_DOES = {
    "archive": "would file away",
    "merge": "would merge",
    "escalate": "would escalate",
    "warn": "would warn",
}
_DAY = 86_400 * SECOND
_DID = {
    "archive": "filed away",
    "merge": "merged",
    "escalate": "escalated",
    "warn": "warned",
}


def defrag_options(parser: Options) -> None:
    add = parser.add_argument
    add("--plan", action="store_true", help="only say what would be done, and why")
    add(
        "--phase",
        metavar="PHASES",
        help="only these of scan, merge, archive, enforce, changelog, metrics",
    )
    add(
        "--date",
        metavar="DATE",
        help="run the whole night of this local date, such as 2026-02-03, if it is not done",
    )
    add(
        "--as-of",
        metavar="WHEN",
        help="by what is past its time at another time, such as 2026-03-01; with --plan",
    )


def defrag(call: Call) -> None:
    _check(call)
    if call.args.plan and not call.args.date:
        plan = _planned(call)
        acts, words, remarks, nothing = (
            [act_json(act) for act in plan.acts],
            _DOES,
            plan.remarks,
            "nothing to do",
        )
    else:
        night = _night(call) if call.args.date else _carried(call)
        acts, words, remarks = (
            [done_json(done) for done in night.acts],
            _DID,
            night.remarks,
        )
        nothing = f"nothing to file away{_fresh(call, night.date)}"
    more = {"remarks": remarks} if remarks else {}
    call.show(
        lambda: {"acts": acts} | more,
        lambda: "\n".join([_lines(acts, words) or nothing, *map(_remark, remarks)]),
    )


def _check(call: Call) -> None:
    """Refuse options that do not go together."""
    if call.args.as_of and not call.args.plan:
        raise InvalidQuery("--as-of only says what would be done: add --plan")


def undo_options(parser: Options) -> None:
    add = parser.add_argument
    add(
        "what",
        metavar="WHAT",
        help="the number of an act (`synapse audit`), the date of a night, or last",
    )
    add(
        "--from",
        "--agent",
        dest="agent",
        metavar="AGENT",
        help="who acts; else $SYNAPSE_AGENT, else the operator",
    )
    add("--plan", action="store_true", help="only say what would be taken back")
    add(
        "--yes",
        action="store_true",
        help="on a terminal, do not ask before it takes back what was done last",
    )


def undo(call: Call) -> None:
    from synapse.consolidate import undo as take_back

    who = call.who(call.args.agent) or OPERATOR
    if _asks(call) and not _agreed(
        call, take_back(call.memory, "last", by=who, plan=True)
    ):
        return
    done = take_back(call.memory, call.args.what, by=who, plan=call.args.plan)
    call.show(lambda: {"undo": _undo_json(done)}, lambda: "\n".join(_undo_lines(done)))


def _asks(call: Call) -> bool:
    """Return whether somebody at a terminal is shown first what `last` means."""
    args = call.args
    return (
        args.what == "last"
        and not (args.plan or args.yes or call.json)
        and call.interactive
    )


def _agreed(call: Call, planned: Undone) -> bool:
    """Show what would be taken back, and return whether the answer is yes."""
    call.say("\n".join(_undo_lines(planned)))
    agreed = call.ask("Take this back? [y/N] ").strip().lower() in ("y", "yes")
    if not agreed:
        call.note("nothing was changed")
    return agreed


def _undo_lines(done: Undone) -> list[str]:
    """Return what an undo did, or would do: which acts it takes back, then each entry with what
    became of it.
    """
    head = "would undo" if done.seq is None else f"undo {done.seq}"
    lines = [f"{head}: {undo_counts(done._asdict())}"]
    lines += [f"  act   {act.seq} {sentence(Act(act))}" for act in done.acts]
    for review, stands in done.reviews:
        lines.append(
            f"  review {review} {'stands again' if stands else 'counts no more'}"
        )
    words = {
        "back": done.back,
        "away": done.away,
        "shown": done.freed,
        "hidden": done.held,
    }
    return [*lines, *(f"  {word:<6}{id}" for word, ids in words.items() for id in ids)]


def _undo_json(done: Undone) -> dict[str, Any]:
    acts = [
        {"seq": act.seq, "kind": act.kind, "by": act.by, "what": sentence(Act(act))}
        for act in done.acts
    ]
    return done._asdict() | {"acts": acts}


def act_json(act: Step) -> dict[str, Any]:
    """An act for programs: each of its entries, why, and what took its place."""
    heirs = act.heirs or ("",) * len(act.ids)
    notes = act.notes or ("",) * len(act.ids)
    entries = [
        {"id": id} | ({"by": heir} if heir else {}) | ({"note": note} if note else {})
        for id, heir, note in zip(act.ids, heirs, notes, strict=True)
    ]
    told: dict[str, Any] = {
        "phase": act.phase,
        "kind": act.kind,
        "reason": act.reason,
        "entries": entries,
    }
    return told | (
        {"to": list(act.made.draft.addressees)}
        if act.kind == "escalate" and act.made
        else {}
    )


def done_json(done: Done) -> dict[str, Any]:
    return (
        act_json(done.act)
        | {"act": done.seqs[-1]}
        | ({"wrote": done.id} if done.id else {})
    )


def _fresh(call: Call, date: str) -> str:
    """Return in words what a run that filed nothing away wrote all the same."""
    if "changelog" not in _phases(call.args.phase) or call.memory.store.root is None:
        return ""
    return f"; views/ and changelog/ are those of {date.replace('T', ' ')}"


def _planned(call: Call) -> Plan:
    from synapse.consolidate import gather, plan

    store, when = call.memory.store, call.args.as_of
    now = (clock.parse_since(when, store.clock()) if when else None) or store.clock()
    with Progress():
        return plan(gather(store, now), now, store.settings, _phases(call.args.phase))


def _night(call: Call) -> Night:
    """The job of a local date, as a daemon would run it: it stands for that date."""
    from synapse.consolidate import night
    from synapse.consolidate.nightly import date_of

    args, now = call.args, call.memory.store.clock()
    if args.plan or args.phase or args.as_of:
        raise InvalidQuery(
            "--date runs the whole night of a date, now: leave --plan, --phase and --as-of out"
        )
    if date_of(args.date) > clock.day(now + _DAY):
        raise InvalidQuery(f"it is not {args.date} anywhere yet", date=args.date)
    with Progress() as progress:
        done = night(call.memory, args.date, now, progress.phase, progress.act)
    if not done.ran:
        raise Conflict(
            f"the night of {args.date} is done, or somebody is at it; `synapse defrag`"
            f" runs one by hand"
        )
    return done


def _carried(call: Call) -> Night:
    from synapse.consolidate import claim, run
    from synapse.consolidate.nightly import JOB

    phases, now = _phases(call.args.phase), call.memory.store.clock()
    right = claim(call.memory, JOB, clock.day(now), now, again=True)
    if right is None:
        raise Conflict("somebody is consolidating just now; look again later")
    with Progress() as progress:
        return run(call.memory, right, now, progress.phase, phases, progress.act)


def _phases(text: str | None) -> tuple[str, ...]:
    from synapse.consolidate import PHASES

    asked = text.split(",") if text else PHASES
    for name in asked:
        if name not in PHASES:
            raise InvalidQuery(
                f"phase {name!r} is not one of {', '.join(PHASES)}", phase=name
            )
    return tuple(asked)


def _remark(text: str) -> str:
    return f"note: {text}"


def _lines(told: Sequence[dict[str, Any]], words: dict[str, str]) -> str:
    """Entry by entry: what, which, why."""
    lines = []
    for act in told:
        number = f"{act['act']:>6}  " if "act" in act else ""
        into = f" into {act['wrote']}" if "wrote" in act else ""
        for entry in act["entries"]:
            by = f" by {entry['by']}" if "by" in entry else ""
            note = f" ({entry['note']})" if "note" in entry else ""
            what = (
                f"{words[act['kind']]} {entry['id']}{into}: {act['reason']}{by}{note}"
            )
            lines.append(f"{number}{act['phase']:<8} {what}")
        if not act["entries"]:
            lines.append(
                f"{number}{act['phase']:<8} {words[act['kind']]}: {act['reason']}"
            )
    return "\n".join(lines)
