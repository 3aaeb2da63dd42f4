"""`synapse resolve | approve | reject | vouch | archive | restore | ack`: acts of an agent on
entries.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from synapse.cli.call import Call
from synapse.cli.options import Options, Usage
from synapse.cli.show import listing
from synapse.system.typed import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from synapse.agent_memory import AgentMemory


def resolve_options(parser: Options) -> None:
    _ids(parser)
    parser.add_argument("--note", metavar="TEXT", help="how it was done")


def resolve(call: Call) -> None:
    _each(call, "resolved", lambda me, id: me.resolve(id, call.args.note))


def approve_options(parser: Options) -> None:
    _ids(parser, nargs="*")


def approve(call: Call) -> None:
    if call.args.ids:
        _each(call, "approved", lambda me, id: me.approve(id))
    else:
        _waiting(call)


def reject_options(parser: Options) -> None:
    _ids(parser)
    parser.add_argument("--reason", metavar="TEXT", help="why")


def reject(call: Call) -> None:
    _each(call, "rejected", lambda me, id: me.reject(id, call.args.reason))


def vouch_options(parser: Options) -> None:
    _ids(parser)


def vouch(call: Call) -> None:
    _each(call, "vouched for", lambda me, id: me.vouch(id))


def archive_options(parser: Options) -> None:
    _ids(parser)
    parser.add_argument(
        "--reason", default="archived by hand", metavar="TEXT", help="why"
    )


def archive(call: Call) -> None:
    ids: Sequence[str] = call.args.ids
    call.actor().archive(ids, call.args.reason)
    _done(call, "archived", ids)


def restore_options(parser: Options) -> None:
    _ids(parser)


def restore(call: Call) -> None:
    ids: Sequence[str] = call.args.ids
    call.actor().restore(ids)
    _done(call, "restored", ids)


def ack_options(parser: Options) -> None:
    _ids(parser)
    parser.add_argument(
        "--body", metavar="TEXT", help="what to say to it; for messages"
    )
    parser.add_argument(
        "--react",
        metavar="SIGN",
        help="react to messages with this, and acknowledge nothing",
    )
    parser.add_argument("--remove", action="store_true", help="take that reaction back")
    parser.add_argument(
        "--once", metavar="KEY", help="a retry under the same key writes nothing"
    )


def ack(call: Call) -> None:
    """One verb for what was delivered, be it mail or not, and for mail that nobody has delivered
    yet.
    """
    from synapse.model.kinds import MESSAGE, kind_of

    args, me = call.args, call.actor()
    messages = [id for id in args.ids if kind_of(id) == MESSAGE]
    others = [id for id in args.ids if id not in messages]
    if args.remove and not args.react:
        raise Usage("--remove takes a reaction back: which? --react SIGN")
    if (args.react or args.body) and others:
        raise Usage("--body and --react are for messages")
    _done(call, "acknowledged", me.ack(others, once=args.once) if others else [])
    _ack_mail(call, me, messages)


def _ack_mail(call: Call, me: AgentMemory, messages: Sequence[str]) -> None:
    from synapse.mail.mailbox import Mail

    args, mail = call.args, Mail(me)
    for id in messages:
        if args.react:
            mail.react(id, args.react, remove=args.remove)
        else:
            mail.ack(id, args.body, once=args.once and f"{args.once}:{id}")
        _done(
            call,
            "acknowledged"
            if not args.react
            else "took back"
            if args.remove
            else "reacted to",
            [id],
        )


def _ids(parser: Options, nargs: str = "+") -> None:
    add = parser.add_argument
    add("ids", nargs=nargs, metavar="ID", help="the entries")
    add(
        "--from",
        "--agent",
        dest="agent",
        metavar="AGENT",
        help="who acts; else $SYNAPSE_AGENT",
    )


def _each(call: Call, what: str, act: Callable[[AgentMemory, str], Any]) -> None:
    """One act after the other; what was done before one fails stays done, and has been printed."""
    me = call.actor()
    for id in call.args.ids:
        act(me, id)
        _done(call, what, [id])


def _done(call: Call, what: str, ids: Sequence[str]) -> None:
    for id in ids:
        call.show({"id": id, "done": what}, f"{what} {id}")


def _waiting(call: Call) -> None:
    from synapse.formats import codec

    staged = call.reader().staged()
    call.show(
        lambda: {"entries": [codec.entry_json(entry) for entry in staged]},
        lambda: listing(staged) or "nothing waits for review",
    )
