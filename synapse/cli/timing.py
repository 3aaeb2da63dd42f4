"""`synapse recent | what-did | timeline`: questions of time."""

from __future__ import annotations

from collections.abc import Iterable

from synapse.cli.call import Call
from synapse.cli.options import Options
from synapse.cli.parse import many, number
from synapse.cli.show import columns, fields, short
from synapse.history import timeline as times
from synapse.history.timeline import Moment
from synapse.model import clock
from synapse.system.typed import Any


def recent_options(parser: Options) -> None:
    _asked(parser, "24h, yesterday, last tuesday, 2026-02-01; else 24h")
    parser.add_argument(
        "--kind",
        action="append",
        metavar="K,...",
        help="entry, message, fact, atom; else all",
    )


def recent(call: Call) -> None:
    args = call.args
    found = times.recent(
        call.reader(), args.since or "24h", many(args.kind) or (), args.limit or None
    )
    _show(call, found, "nothing was written")


def what_did_options(parser: Options) -> None:
    parser.add_argument("who", metavar="AGENT", help="the agent that is asked about")
    _asked(parser, "24h, yesterday, last tuesday, 2026-02-01; else all")


def what_did(call: Call) -> None:
    args = call.args
    _show(
        call,
        times.did(call.reader(), args.who, args.since, args.limit),
        f"{args.who} did nothing that you may see",
    )


def timeline_options(parser: Options) -> None:
    parser.add_argument(
        "project", metavar="PROJECT", help="its name, as in projects/PROJECT"
    )
    _asked(parser, "24h, yesterday, last tuesday, 2026-02-01; else all")


def timeline(call: Call) -> None:
    args = call.args
    found = times.timeline(call.reader(), args.project, args.since, args.limit or None)
    _show(call, found, f"nothing of {args.project} that you may see")


def _asked(parser: Options, since: str) -> None:
    add = parser.add_argument
    add(
        "--agent",
        metavar="AGENT",
        help="as this agent; else $SYNAPSE_AGENT, else everything",
    )
    add("--since", metavar="WHEN", help=since)
    add(
        "--limit",
        type=number,
        default=50,
        metavar="N",
        help="the newest so many; 0: all; else 50",
    )


def _show(call: Call, found: list[Moment], nothing: str) -> None:
    width = columns() or 0
    call.show(
        lambda: {
            "moments": [fields(each) | {"time": clock.iso(each.at)} for each in found]
        },
        lambda: "\n".join(_days(found, width)) or nothing,
    )


def _days(found: Iterable[Moment], width: int) -> Iterable[str]:
    """A heading for each day, a line for each moment."""
    day = ""
    for each in found:
        if clock.day(each.at) != day:
            yield from ([""] if day else [])
            day = clock.day(each.at)
            yield f"{day} UTC"
        yield short(f"  {each.time[11:16]}  {_line(each)}", width)


def _line(each: Moment) -> Any:
    if each.text.startswith(f"{each.by} "):
        return each.text  # a sentence that says by whom
    return (
        " ".join(part for part in (each.by, each.kind, each.id, each.where) if part)
        + f": {each.text}"
    )
