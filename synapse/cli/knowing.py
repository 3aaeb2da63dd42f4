"""`synapse remember | atom | link | forget | why`: knowledge, and where it came from."""

from __future__ import annotations

from synapse.cli.call import Call
from synapse.cli.options import Options
from synapse.cli.parse import many
from synapse.cli.show import clean, columns, fields, first, short
from synapse.cli.writing import body_of
from synapse.formats import codec
from synapse.knowledge import memory
from synapse.system.typed import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from synapse.index.links import Link
    from synapse.knowledge.provenance import Step
    from synapse.model.entry import Entry


def remember_options(parser: Options) -> None:
    add = parser.add_argument
    add(
        "fact", nargs="?", metavar="FACT", help="the fact; - or nothing: standard input"
    )
    _author(parser)
    _scope(parser)
    add(
        "--categories",
        action="append",
        metavar="C,...",
        help="what it is about, in words of your own",
    )
    add(
        "--importance",
        type=_figure,
        default=1.0,
        metavar="N",
        help="1 to 3, or what you use; else 1",
    )
    add("--ttl", metavar="SPAN", help="30m, 24h, 7d, 4w; else it stays")
    add(
        "--supersedes",
        action="append",
        metavar="ID,...",
        help="what it replaces, at once",
    )


def remember(call: Call) -> None:
    args = call.args
    me, given = call.actor(), _common(args)
    given |= {
        name: many(getattr(args, name)) or () for name in ("categories", "supersedes")
    }
    entry = memory.remember(
        me, body_of(args.fact), importance=args.importance, ttl=args.ttl, **given
    )
    _stored(call, entry)


def atom_options(parser: Options) -> None:
    add = parser.add_argument
    for name, what in (
        ("subject", "who or what"),
        ("action", "does what"),
        ("outcome", "with which outcome"),
    ):
        add(name, metavar=name.upper(), help=what)
    add(
        "consequences",
        nargs="?",
        default="",
        metavar="CONSEQUENCES",
        help="and what follows from it",
    )
    _author(parser)
    _scope(parser)


def atom(call: Call) -> None:
    args = call.args
    parts = (args.subject, args.action, args.outcome, args.consequences)
    _stored(call, memory.atom(call.actor(), *parts, **_common(args)))


def link_options(parser: Options) -> None:
    add = parser.add_argument
    add("cause", metavar="ATOM", help="the one that comes first")
    add("effect", metavar="ATOM", help="the one that it bears on")
    _author(parser)
    add(
        "--type",
        default="causes",
        metavar="T",
        help=f"{', '.join(memory.LINK_TYPES)}; else causes",
    )
    add("--strength", type=_figure, default=0.5, metavar="N", help="0 to 1; else 0.5")


def link(call: Call) -> None:
    args = call.args
    found = memory.link(call.actor(), args.cause, args.effect, args.type, args.strength)
    call.show(found, _linked(found))


def forget_options(parser: Options) -> None:
    add = parser.add_argument
    add("ids", nargs="+", metavar="ID", help="facts and atoms")
    _author(parser)
    add("--reason", metavar="TEXT", help="why; kept with it in the log")


def forget(call: Call) -> None:
    me = call.actor()
    for id in call.args.ids:
        memory.forget(me, id, call.args.reason)
        call.show({"id": id, "done": "forgotten"}, f"forgot {id}; it stays in the log")


def why_options(parser: Options) -> None:
    add = parser.add_argument
    add("id", metavar="ID", help="an entry, a message, a fact, an atom or a run")
    add(
        "--agent",
        metavar="AGENT",
        help="as this agent; else $SYNAPSE_AGENT, else everything",
    )


def why(call: Call) -> None:
    from synapse.knowledge import provenance

    trail = provenance.why(call.reader(), call.args.id)
    call.show(
        lambda: fields(trail), lambda: "\n".join(_trail(trail, 0, columns() or 0))
    )


# -- below -----------------------------------------------------------------------------------------


def _author(parser: Options) -> None:
    parser.add_argument(
        "--from",
        "--agent",
        dest="agent",
        metavar="AGENT",
        help="who acts; else $SYNAPSE_AGENT",
    )


def _scope(parser: Options) -> None:
    add = parser.add_argument
    add(
        "--scope",
        default="agent",
        metavar="S",
        help="agent, group, group:NAME or global; else agent",
    )
    add(
        "--cites",
        action="append",
        metavar="ID,...",
        help="messages, entries, facts or runs that it comes from",
    )
    add("--confidence", type=_figure, default=1.0, metavar="N", help="0 to 1; else 1")
    add(
        "--once", metavar="KEY", help="a retry under the same key returns the first one"
    )


def _common(args: Any) -> dict[str, Any]:
    return {
        "cites": many(args.cites) or (),
        **{name: getattr(args, name) for name in ("scope", "confidence", "once")},
    }


def _figure(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a number") from None


def _stored(call: Call, entry: Entry) -> None:
    call.show(lambda: codec.entry_json(entry), entry.id)
    if entry.staged:
        call.note(
            f"{entry.id} waits for review: only its author and reviewers see it until"
            f" it is approved"
        )


def _linked(found: Link) -> str:
    return f"{found.cause} {found.type} {found.effect} ({found.strength:g})"


def _trail(step: Step, depth: int, width: int) -> list[str]:
    """The trail, a line each, the sources of each below it and further in."""
    indent, how = "  " * depth, "" if depth == 0 else f"{step.how} "
    if step.kind == "hidden":
        return [f"{indent}{how}something that you may not see"]
    head = " ".join(
        part for part in (f"{how}{step.kind}", step.id, step.by, step.at) if part
    )
    again = " (see above)" if step.cut else ""
    text = f": {clean(first(step.text))}" if step.text else ""
    lines = [short(f"{indent}{head}{again}{text}", width)]
    return [
        *lines,
        *(line for each in step.sources for line in _trail(each, depth + 1, width)),
    ]
