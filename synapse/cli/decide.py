"""The verbs that decide about entries: `resolve`, `approve`, `reject`, `vouch`, `archive`,
`restore`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from synapse.cli.frame.call import Call
from synapse.cli.frame.options import Options
from synapse.cli.frame.show import listing
from synapse.system.typed import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from synapse.agent_memory import AgentMemory


def resolve_options(parser: Options) -> None:
    _ids(parser)
    parser.add_argument("--note", metavar="TEXT", help="how the blocker was resolved")


def resolve(call: Call) -> None:
    _rule(call, "resolved", lambda me, id: me.resolve(id, call.args.note))


def approve_options(parser: Options) -> None:
    _ids(parser, nargs="*")


def approve(call: Call) -> None:
    if call.args.ids:
        _rule(call, "approved", lambda me, id: me.approve(id))
        return
    from synapse.formats import codec

    staged = call.reader().staged()
    call.show(
        lambda: {"entries": [codec.entry_json(entry) for entry in staged]},
        lambda: listing(staged) or "nothing waits for review",
    )


def reject_options(parser: Options) -> None:
    _ids(parser)
    parser.add_argument("--reason", metavar="TEXT", help="the reason")


def reject(call: Call) -> None:
    _rule(call, "rejected", lambda me, id: me.reject(id, call.args.reason))


def vouch_options(parser: Options) -> None:
    _ids(parser)


def vouch(call: Call) -> None:
    _rule(call, "vouched for", lambda me, id: me.vouch(id))


def archive_options(parser: Options) -> None:
    _ids(parser)
    parser.add_argument("--reason", default="archived by hand", metavar="TEXT", help="the reason")


def archive(call: Call) -> None:
    ids: Sequence[str] = call.args.ids
    call.reader().archive(ids, call.args.reason)
    call.show_done("archived", ids)


def restore_options(parser: Options) -> None:
    _ids(parser)


def restore(call: Call) -> None:
    ids: Sequence[str] = call.args.ids
    call.reader().restore(ids)
    call.show_done("restored", ids)


def _ids(parser: Options, nargs: str = "+") -> None:
    add = parser.add_argument
    add("ids", nargs=nargs, metavar="ID", help="the entries")
    parser.add_argument(
        "--from",
        dest="agent",
        metavar="AGENT",
        help="who decides (default: $SYNAPSE_AGENT, else the operator)",
    )


def _rule(call: Call, what: str, act: Callable[[AgentMemory, str], Any]) -> None:
    """Rule on each entry in turn. If one fails, the earlier rulings stand and have been printed."""
    me = call.reader()
    for id in call.args.ids:
        act(me, id)
        call.show_done(what, [id])
