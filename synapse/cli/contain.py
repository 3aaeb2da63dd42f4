"""The verbs of containment: `taint`, `untaint` and `revoke`."""

from __future__ import annotations

from collections.abc import Sequence

from synapse.cli.frame.call import Call
from synapse.cli.frame.options import Options
from synapse.cli.frame.show import clean
from synapse.model.agents import OPERATOR
from synapse.system.typed import TYPE_CHECKING
from synapse.trust.persons import persons_alone
from synapse.wire.forms import fields

if TYPE_CHECKING:
    from synapse.agent_memory import AgentMemory
    from synapse.model.results import Tainted

_MOST = 20  # so many ids on a line


def taint_options(parser: Options) -> None:
    _ids(parser)
    _how(parser)


def taint(call: Call) -> None:
    from synapse.access import containment

    me, args = _actor(call), call.args
    for id in args.ids:
        done = containment.taint(me.access, id, args.reason, affected=args.affected, plan=args.plan)
        _show(call, id, done)


def untaint_options(parser: Options) -> None:
    _ids(parser)
    parser.add_argument("--reason", metavar="TEXT", help="the reason")


def untaint(call: Call) -> None:
    from synapse.access import containment

    me = _actor(call)
    for id in call.args.ids:
        call.show_done("untainted", containment.untaint(me.access, id, call.args.reason))


def revoke_options(parser: Options) -> None:
    parser.add_argument("who", metavar="AGENT", help="the agent that wrote it")
    parser.add_argument(
        "--since", metavar="WHEN", help="after this time: 24h, yesterday, 2026-02-01 (default: all)"
    )
    _how(parser)


def revoke(call: Call) -> None:
    from synapse.access import containment

    persons_alone("revoke what another wrote")
    args = call.args
    operator = call.memory.as_agent(OPERATOR).access
    done = containment.revoke(
        operator, args.who, args.since, args.reason, affected=args.affected, plan=args.plan
    )
    _show(call, args.who, done)


def _ids(parser: Options) -> None:
    parser.add_argument("ids", nargs="+", metavar="ID", help="the entries")
    parser.add_argument(
        "--from",
        "--agent",
        dest="agent",
        metavar="AGENT",
        help="the agent that acts (default: $SYNAPSE_AGENT, else the operator)",
    )


def _how(parser: Options) -> None:
    add = parser.add_argument
    add("--reason", metavar="TEXT", help="the reason")
    add("--affected", action="store_true", help="taint also what runs wrote that had it in sight")
    add("--plan", action="store_true", help="only say what would be tainted")


def _actor(call: Call) -> AgentMemory:
    return call.memory.as_agent(call.who(call.args.agent) or OPERATOR)


def _show(call: Call, what: str, done: Tainted) -> None:
    """Print what was tainted, what may be affected, and who had it in sight."""
    verb = "would taint" if done.seq is None else "tainted"
    lines = [f"{verb} {what}: {len(done.ids)} shown to nobody any more: {_some(done.ids)}"]
    if done.may:
        lines.append(
            f"may be affected, and still shown: {_some(done.may)} (--affected taints these, too)"
        )
    if done.left:
        lines.append(f"left, for they take more authority: {_some(done.left)}")
    if done.runs:
        lines.append(f"runs that had it in sight: {_some(done.runs)}")
    if done.agents:
        lines.append(f"agents that were shown it: {_some(done.agents)}")
    if done.seq is not None:
        lines.append(f"`synapse undo {done.seq}` takes it back")
    call.show(lambda: {"tainted": fields(done)}, lambda: clean("\n".join(lines)))


def _some(names: Sequence[str]) -> str:
    hidden = len(names) - _MOST
    return ", ".join(names[:_MOST]) + (f" and {hidden} more" if hidden > 0 else "")
