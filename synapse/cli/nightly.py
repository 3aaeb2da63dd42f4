"""The verbs of nightly maintenance: `defrag`, `undo`, `reputation` and `stats`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from synapse.cli.frame.call import Call
from synapse.cli.frame.options import Options
from synapse.cli.frame.parse import number
from synapse.cli.frame.progress import Progress
from synapse.cli.frame.scripts import upgrade_scripts
from synapse.cli.frame.show import WIDTH, one_line
from synapse.errors import Conflict, InvalidQuery
from synapse.history.sentences import Act, sentence, undo_counts
from synapse.model import clock
from synapse.model.agents import OPERATOR
from synapse.model.clock import DAY
from synapse.system.typed import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from synapse.consolidate import Account, AppliedAct, NightlyRun, Plan, RunHistory, UndoResult
    from synapse.consolidate import Act as PlannedAct
    from synapse.consolidate.metrics import Measure
    from synapse.consolidate.reputation import Step


_PLANNED = {
    "archive": "would file away",
    "merge": "would merge",
    "escalate": "would escalate",
    "warn": "would warn",
}
_DONE = {"archive": "filed away", "merge": "merged", "escalate": "escalated", "warn": "warned"}


def defrag_options(parser: Options) -> None:
    add = parser.add_argument
    add("--plan", action="store_true", help="only print what would be done, and why")
    add(
        "--phase",
        metavar="PHASES",
        help="only these: scan, merge, archive, enforce, changelog, metrics",
    )
    add(
        "--date",
        metavar="DATE",
        help="do the nightly maintenance of this local date, if it was not done",
    )
    add("--as-of", metavar="WHEN", help="with --plan: as if it were this time, such as 2026-03-01")


def defrag(call: Call) -> None:
    args = call.args
    if args.as_of and not args.plan:
        raise InvalidQuery("--as-of needs --plan: it only says what would be done")
    if args.plan and not args.date:
        plan = _plan(call)
        acts = [act_json(act) for act in plan.acts]
        _show_acts(call, acts, _PLANNED, plan.remarks, "nothing to do")
    else:
        nightly_run = _maintain_date(call) if args.date else _maintain_now(call)
        upgrade_scripts(call.memory.store.root or call.root)
        acts = [done_json(done) for done in nightly_run.acts]
        nothing = f"nothing to file away{_written_files(call, nightly_run.date)}"
        _show_acts(call, acts, _DONE, nightly_run.remarks, nothing)


def _show_acts(
    call: Call,
    acts: Sequence[dict[str, Any]],
    verbs: dict[str, str],
    remarks: Sequence[str],
    nothing: str,
) -> None:
    """Print acts with the remarks on them; `nothing` is printed where there are no acts."""
    extra = {"remarks": remarks} if remarks else {}
    notes = [f"note: {remark}" for remark in remarks]
    call.show(
        lambda: {"acts": acts} | extra,
        lambda: "\n".join([_format_acts(acts, verbs) or nothing, *notes]),
    )


def undo_options(parser: Options) -> None:
    add = parser.add_argument
    add(
        "what",
        metavar="WHAT",
        help="the number of an act (see `synapse audit`), the date of a maintenance run, or last",
    )
    add(
        "--from",
        "--agent",
        dest="agent",
        metavar="AGENT",
        help="the agent that acts (default: $SYNAPSE_AGENT, else the operator)",
    )
    add("--plan", action="store_true", help="only print what would be undone")
    add("--yes", action="store_true", help="do not ask before undoing the last act")


def undo(call: Call) -> None:
    from synapse.consolidate import undo as undo_act
    from synapse.consolidate.undo import undo_json

    who = call.who(call.args.agent) or OPERATOR
    if _must_confirm(call):
        planned = undo_act(call.memory, "last", by=who, plan=True)
        call.say("\n".join(_undo_lines(planned)))
        answer = call.ask("Take this back? [y/N] ").strip().lower()
        if answer not in ("y", "yes"):
            return call.note("nothing was changed")
    done = undo_act(call.memory, call.args.what, by=who, plan=call.args.plan)
    return call.show(lambda: {"undo": undo_json(done)}, lambda: "\n".join(_undo_lines(done)))


def _must_confirm(call: Call) -> bool:
    """Return whether a person at a terminal must confirm what `last` means."""
    args = call.args
    return args.what == "last" and not (args.plan or args.yes or call.json) and call.interactive


def _undo_lines(done: UndoResult) -> list[str]:
    """Return the acts that an undo takes back, then each entry with what becomes of it."""
    head = "would undo" if done.seq is None else f"undo {done.seq}"
    lines = [f"{head}: {undo_counts(done._asdict())}"]
    lines += [f"  act   {act.seq} {one_line(sentence(Act(act)))}" for act in done.acts]
    for review, stands in done.reviews:
        lines.append(f"  review {review} {'stands again' if stands else 'counts no more'}")
    changes = {"back": done.back, "away": done.away, "shown": done.freed, "hidden": done.held}
    return [*lines, *(f"  {change:<6}{id}" for change, ids in changes.items() for id in ids)]


def act_json(act: PlannedAct) -> dict[str, Any]:
    """Return a planned act as a JSON object: its entries, the reason, and what replaced them."""
    successors = act.successors or ("",) * len(act.ids)
    notes = act.notes or ("",) * len(act.ids)
    entries = [
        {"id": id} | ({"by": successor} if successor else {}) | ({"note": note} if note else {})
        for id, successor, note in zip(act.ids, successors, notes, strict=True)
    ]
    fields: dict[str, Any] = {
        "phase": act.phase,
        "kind": act.kind,
        "reason": act.reason,
        "entries": entries,
    }
    return fields | (
        {"to": list(act.new_entry.draft.addressees)}
        if act.kind == "escalate" and act.new_entry
        else {}
    )


def done_json(done: AppliedAct) -> dict[str, Any]:
    """Return a carried out act as a JSON object."""
    return act_json(done.act) | {"act": done.seqs[-1]} | ({"wrote": done.id} if done.id else {})


def _written_files(call: Call, date: str) -> str:
    """Return which generated files a run wrote that archived nothing."""
    if "changelog" not in _phases(call.args.phase) or call.memory.store.root is None:
        return ""
    return f"; views/ and changelog/ are those of {date.replace('T', ' ')}"


def _plan(call: Call) -> Plan:
    from synapse.consolidate import gather, plan

    store, when = call.memory.store, call.args.as_of
    now = (clock.parse_since(when, store.clock()) if when else None) or store.clock()
    with Progress():
        return plan(gather(store, now), now, store.settings, _phases(call.args.phase))


def _maintain_date(call: Call) -> NightlyRun:
    """Run the nightly maintenance of a date, as the daemon would."""
    from synapse.consolidate import run_nightly
    from synapse.consolidate.nightly import date_of

    args, now = call.args, call.memory.store.clock()
    if args.plan or args.phase or args.as_of:
        raise InvalidQuery("--date runs all phases now: leave out --plan, --phase and --as-of")
    if date_of(args.date) > clock.day(now + DAY):
        raise InvalidQuery(f"{args.date} has not begun in any time zone", date=args.date)
    with Progress() as progress:
        done = run_nightly(call.memory, args.date, now, progress.phase, progress.act)
    if not done.ran:
        raise Conflict(
            f"the maintenance of {args.date} is done or running; `synapse defrag` runs one by hand"
        )
    return done


def _maintain_now(call: Call) -> NightlyRun:
    from synapse.consolidate import claim, run
    from synapse.consolidate.nightly import JOB

    phases, now = _phases(call.args.phase), call.memory.store.clock()
    right = claim(call.memory, JOB, clock.day(now), now, again=True)
    if right is None:
        raise Conflict("a consolidation is running; try again later")
    with Progress() as progress:
        return run(call.memory, right, now, progress.phase, phases, progress.act)


def _phases(text: str | None) -> tuple[str, ...]:
    from synapse.consolidate import PHASES

    names = text.split(",") if text else PHASES
    for name in names:
        if name not in PHASES:
            raise InvalidQuery(f"phase {name!r} is not one of {', '.join(PHASES)}", phase=name)
    return tuple(names)


def _format_acts(acts: Sequence[dict[str, Any]], verbs: dict[str, str]) -> str:
    """Return a line for each entry of the acts: what was done, to which, and why."""
    lines = []
    for act in acts:
        number = f"{act['act']:>6}  " if "act" in act else ""
        into = f" into {act['wrote']}" if "wrote" in act else ""
        for entry in act["entries"]:
            by = f" by {entry['by']}" if "by" in entry else ""
            note = f" ({entry['note']})" if "note" in entry else ""
            sentence = f"{verbs[act['kind']]} {entry['id']}{into}: {act['reason']}{by}{note}"
            lines.append(f"{number}{act['phase']:<8} {sentence}")
        if not act["entries"]:
            lines.append(f"{number}{act['phase']:<8} {verbs[act['kind']]}: {act['reason']}")
    return "\n".join(lines)


_REPUTATION_COLUMNS = ("agent", "declared", "stands at", "reviews", "next")
_MODES = {
    "on": "reviewed by a night every 30 days",
    "report": "only told of: `reputation: on` in synapse.yaml makes it count",
    "off": "off in synapse.yaml: it moves nothing; this is what it would",
}


def reputation_options(parser: Options) -> None:
    parser.add_argument("agent", nargs="?", metavar="AGENT", help="only this agent, step by step")


def reputation(call: Call) -> None:
    from synapse.consolidate import accounts

    rows = accounts(call.memory, call.args.agent)
    how = call.memory.store.settings.reputation
    report = {"reputation": how, "agents": [account_json(account) for account in rows]}
    call.show(
        lambda: report,
        lambda: _format_account(rows[0], how) if call.args.agent else _format_accounts(rows, how),
    )


def account_json(account: Account) -> dict[str, Any]:
    """Return the reputation of an agent as a JSON object: reviews and steps with their records."""
    reviews = [
        {
            "act": review.seq,
            "since": clock.iso(review.since),
            "until": clock.iso(review.until),
            "move": review.move,
            "stands": review.stands,
            "steps": [_step_json(step) for step in review.steps],
        }
        for review in account.reviews
    ]
    extra = {
        "since": clock.iso(account.since),
        "reviews": reviews,
        "steps": [_step_json(step) for step in account.steps],
    }
    return account._asdict() | extra


def _step_json(step: Step) -> dict[str, Any]:
    deed = step.deed
    return deed._asdict() | {"at": clock.iso(deed.at), "move": step.move, "why": step.why}


def _format_accounts(accounts: Iterable[Account], how: str) -> str:
    from synapse.cli.frame.table import table

    rows = [
        (
            account.agent,
            str(account.declared),
            str(account.standing),
            str(len(account.reviews)),
            f"{account.move:+}",
        )
        for account in accounts
    ]
    return (
        "\n".join([_MODES[how], table(_REPUTATION_COLUMNS, rows)])
        if rows
        else "no agent is registered"
    )


def _format_account(account: Account, how: str) -> str:
    lines = [
        f"{account.agent}: declared {account.declared}, stands at {account.standing}; {_MODES[how]}"
    ]
    for review in account.reviews:
        turned = "" if review.stands else ", taken back"
        lines.append(
            f"review {review.seq}, {clock.day(review.since)} to {clock.day(review.until)}:"
            f" {review.move:+}{turned}"
        )
        lines += map(_format_step, review.steps)
    lines.append(f"since {clock.day(account.since)}: {account.move:+}")
    lines += map(_format_step, account.steps)
    return "\n".join(lines if account.steps else [*lines, "  nothing yet"])


def _format_step(step: Step) -> str:
    deed = step.deed
    readers = f"; shown to {', '.join(deed.seen_by)}" if deed.seen_by else ""
    records = ", ".join(map(str, deed.records))
    return (
        f"  {step.move:>+3}  {clock.day(deed.at)}  {deed.entry}  {step.why} (records"
        f" {records}{readers})"
    )


FULLEST = 10
LEGEND = """\
written: since the night before; filed: filed away, merged ones among them
disputed: entries that contradict an equal, shown until somebody settles it
compressed: the share of the bytes that the night filed away"""
_RUN_COLUMNS = ("night", "entries", "KB", "written", "filed", "merged", "disputed", "compressed")


def stats_options(parser: Options) -> None:
    parser.add_argument(
        "--nights",
        type=number,
        default=14,
        metavar="N",
        help="the newest N runs in the table (default: 14)",
    )


def stats(call: Call) -> None:
    from synapse.consolidate import run_history
    from synapse.consolidate.metrics import measure_json

    measurements = run_history(call.memory)
    report = {
        "nights": [measure_json(measure) for measure in measurements.runs],
        "warnings": [*measurements.worries, *measurements.remarks],
    }
    call.show(lambda: report, lambda: _format_stats(measurements, call.args.nights))


def _format_stats(measurements: RunHistory, newest: int) -> str:
    from synapse.cli.frame.table import table
    from synapse.consolidate.metrics import per_namespace, plot

    lines = [f"warning: {item}" for item in (*measurements.worries, *measurements.remarks)]
    if not measurements.runs:
        return "\n".join([*lines, "no night yet: `synapse defrag`, or have one run every night"])
    lines += ["entries", *plot([item.entries for item in measurements.runs], WIDTH - 11), ""]
    lines.append(table(_RUN_COLUMNS, [_row(item) for item in measurements.runs[-newest:]]))
    lines += ["", LEGEND]
    fullest = per_namespace(measurements.runs[-1])[:FULLEST]
    return "\n".join([*lines, "", table(("namespace", "entries", "bytes", "compressed"), fullest)])


def _row(each: Measure) -> tuple[str, ...]:
    counts = (
        each.entries,
        each.bytes // 1000,
        each.written,
        each.filed,
        each.merged,
        each.disputed,
    )
    return (each.date, *(f"{count:,}" for count in counts), f"{each.compression:.0%}")
