"""The verbs that follow the log: `unread`, `watch`, `log` and `audit`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from synapse.cli.frame.call import Call
from synapse.cli.frame.interrupt import Interruptible
from synapse.cli.frame.options import Options
from synapse.cli.frame.parse import number, seconds
from synapse.cli.frame.show import columns, line, short, to_json
from synapse.history.sentences import Act, act_json, page_of_acts, sentence
from synapse.model import clock
from synapse.model.results import Rows
from synapse.system.typed import TYPE_CHECKING, Any
from synapse.wire import forms

if TYPE_CHECKING:
    from synapse.model.results import Event


def unread_options(parser: Options) -> None:
    parser.add_argument("--agent", metavar="AGENT", help="the agent (default: $SYNAPSE_AGENT)")


def unread(call: Call) -> None:
    agent = call.agent()
    count = call.as_agent(agent).unread()
    call.show({"agent": agent, "unread": count}, str(count))


def watch_options(parser: Options) -> None:
    add = parser.add_argument
    parser.add_reader()
    add("--critical", action="store_true", help="only critical entries")
    add(
        "--since",
        metavar="WHEN",
        help="start after this cursor or time (24h, yesterday); default: now",
    )
    add("--count", type=number, metavar="N", help="stop after N lines")
    add("--timeout", type=seconds, metavar="S", help="stop after this time: seconds, or 5m, 2h")


def watch(call: Call) -> None:
    with Interruptible():
        _follow(call)


def _follow(call: Call) -> None:
    args = call.args
    remaining = args.count
    since = int(args.since) if args.since and args.since.isdecimal() else args.since
    for event in call.reader().follow(since, critical=args.critical, timeout=args.timeout):
        call.say(to_json(forms.event_json(event)) if call.json else event_line(event))
        call.flush()
        remaining = remaining and remaining - 1
        if remaining == 0:
            return


def event_line(event: Event) -> str:
    return f"{event.cursor} {event.kind} {line(event.entry)}"


def log_options(parser: Options) -> None:
    add = parser.add_argument
    parser.add_reader()
    add("--since", metavar="WHEN", help="after this time: 24h, yesterday, last tuesday, 2026-02-01")
    add(
        "--limit",
        type=number,
        default=50,
        metavar="N",
        help="the newest N; 0 for all (default: 50)",
    )
    parser.add_before()


def log(call: Call) -> None:
    args, me = call.args, call.reader()
    if call.remote:
        rows = me.log(args.since, args.limit, args.before)  # type: ignore[attr-defined]
    else:
        acts = page_of_acts(me, args.limit, args.before, since=args.since)
        rows = Rows(map(act_json, acts), acts.next)
    width = columns() or 0
    call.show(
        lambda: {"log": rows, "next": rows.next},
        lambda: "\n".join(_days(rows, width)) or "nothing happened",
    )
    call.note_older(rows.next)


def _days(rows: Iterable[Mapping[str, Any]], width: int) -> Iterator[str]:
    """Yield a heading for each day, the newest last, and a line for each act."""
    day = ""
    for row in rows:
        if row["time"][:10] != day:
            yield from ([""] if day else [])
            day = row["time"][:10]
            yield f"{day} UTC"
        yield short(f"  {row['time'][11:16]}  {row['what']}", width)


def audit_options(parser: Options) -> None:
    add = parser.add_argument
    add("--agent", metavar="AGENT", help="only what this agent did and was shown")
    add("--entry", metavar="ID", help="only what was done to this entry")
    add("--since", metavar="WHEN", help="after this time: 24h, yesterday, last tuesday, 2026-02-01")
    add("--limit", type=number, default=0, metavar="N", help="the newest N (default: all)")


def audit(call: Call) -> None:
    args = call.args
    records = call.memory.audit(
        agent=args.agent, entry=args.entry, since=args.since, limit=args.limit or None
    )
    acts = [Act(record) for record in reversed(records)]
    call.show(
        lambda: {"audit": [forms.record_json(act.record) for act in acts]},
        lambda: (
            "\n".join(audit_line(act, columns() or 0) for act in acts) or "nothing is on record"
        ),
    )


def audit_line(act: Act, width: int) -> str:
    return short(f"{act.record.seq:>6} {clock.seconds(act.record.at)} {sentence(act)}", width)
