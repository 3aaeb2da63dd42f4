"""`synapse log`, the changelog for people, and `synapse audit`, every act with its proof."""

from __future__ import annotations

from synapse.cli.call import Call
from synapse.cli.options import Options
from synapse.cli.parse import number
from synapse.cli.show import columns, fields, short
from synapse.history.sentences import Act, days, ids_of, sentence, told
from synapse.model import clock
from synapse.system.typed import Any


def log_options(parser: Options) -> None:
    add = parser.add_argument
    add(
        "--agent",
        metavar="AGENT",
        help="as this agent; else $SYNAPSE_AGENT, else everything",
    )
    add("--since", metavar="WHEN", help="24h, yesterday, last tuesday, 2026-02-01")
    add(
        "--limit",
        type=number,
        default=50,
        metavar="N",
        help="the newest so many; 0: all; else 50",
    )


def log(call: Call) -> None:
    args = call.args
    acts = told(
        lambda limit: call.memory.store.acts(None, None, args.since, limit),
        call.reader(),
        args.limit,
    )
    width = columns() or 0
    call.show(
        lambda: {"log": [act_json(act) for act in acts]},
        lambda: days(acts, lambda text: short(text, width)),
    )


def audit_options(parser: Options) -> None:
    add = parser.add_argument
    add("--agent", metavar="AGENT", help="what it did, and what it was shown")
    add("--entry", metavar="ID", help="what was done to this entry")
    add("--since", metavar="WHEN", help="24h, yesterday, last tuesday, 2026-02-01")
    add(
        "--limit",
        type=number,
        default=0,
        metavar="N",
        help="the newest so many; else all",
    )


def audit(call: Call) -> None:
    args = call.args
    found = call.memory.audit(
        agent=args.agent, entry=args.entry, since=args.since, limit=args.limit or None
    )
    acts = [Act(record) for record in reversed(found)]
    call.show(
        lambda: {
            "audit": [
                {**fields(act.record), "time": clock.iso(act.record.at)} for act in acts
            ]
        },
        lambda: (
            "\n".join(audit_line(act, columns() or 0) for act in acts)
            or "nothing is on record"
        ),
    )


def act_json(act: Act) -> dict[str, Any]:
    """A line of the changelog for programs."""
    record = act.record
    return {
        "seq": record.seq,
        "time": clock.iso(record.at),
        "kind": record.kind,
        "by": record.by,
        "entries": ids_of(record),
        "what": sentence(act),
    }


def audit_line(act: Act, width: int) -> str:
    return short(
        f"{act.record.seq:>6} {clock.seconds(act.record.at)} {sentence(act)}", width
    )
