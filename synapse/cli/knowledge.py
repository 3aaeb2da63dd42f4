"""The verbs of knowledge and of time: facts, atoms, where they came from, what happened lately."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace

from synapse.cli.frame.call import Call
from synapse.cli.frame.options import Options
from synapse.cli.frame.parse import many, number
from synapse.cli.frame.show import clean, columns, first, short
from synapse.cli.frame.streams import read_body
from synapse.formats import codec
from synapse.history import timeline as times
from synapse.history.timeline import Moment
from synapse.knowledge import memory
from synapse.model import clock
from synapse.model.results import Rows
from synapse.system.typed import TYPE_CHECKING, Any
from synapse.wire.forms import fields

if TYPE_CHECKING:
    from synapse.agent_memory import AgentMemory
    from synapse.knowledge.provenance import Step
    from synapse.model.entry import Entry


def remember_options(parser: Options) -> None:
    add = parser.add_argument
    add(
        "fact",
        nargs="?",
        metavar="FACT",
        help="the fact; without it, or with -, standard input is read",
    )
    _author(parser)
    _scope(parser)
    add("--categories", action="append", metavar="C,...", help="categories of your own")
    add(
        "--importance",
        type=_figure,
        default=1.0,
        metavar="N",
        help="1 to 3, or your own scale (default: 1)",
    )
    add("--ttl", metavar="SPAN", help="30m, 24h, 7d or 4w (default: never)")
    add("--supersedes", action="append", metavar="ID,...", help="entries that this one replaces")


def remember(call: Call) -> None:
    args = call.args
    me, options = call.actor(), _common(args)
    options |= {name: many(getattr(args, name)) or () for name in ("categories", "supersedes")}
    entry = known_to(me).remember(
        read_body(args.fact), importance=args.importance, ttl=args.ttl, **options
    )
    _stored(call, entry)


def atom_options(parser: Options) -> None:
    add = parser.add_argument
    for name, meaning in (
        ("subject", "who or what acts"),
        ("action", "what it does"),
        ("outcome", "the outcome"),
    ):
        add(name, metavar=name.upper(), help=meaning)
    add("consequences", nargs="?", default="", metavar="CONSEQUENCES", help="the consequences")
    _author(parser)
    _scope(parser)


def atom(call: Call) -> None:
    args = call.args
    texts = (args.subject, args.action, args.outcome, args.consequences)
    _stored(call, known_to(call.actor()).atom(*texts, **_common(args)))


def link_options(parser: Options) -> None:
    add = parser.add_argument
    add("cause", metavar="ATOM", help="the cause")
    add("effect", metavar="ATOM", help="the effect")
    _author(parser)
    add(
        "--type",
        default="causes",
        metavar="T",
        help=f"{', '.join(memory.LINK_TYPES)} (default: causes)",
    )
    add("--strength", type=_figure, default=0.5, metavar="N", help="0 to 1 (default: 0.5)")


def link(call: Call) -> None:
    args = call.args
    stored = known_to(call.actor()).link(args.cause, args.effect, args.type, args.strength)
    text = f"{stored.cause} {stored.type} {stored.effect} ({stored.strength:g})"
    call.show(stored, text)


def forget_options(parser: Options) -> None:
    add = parser.add_argument
    add("ids", nargs="+", metavar="ID", help="the facts and atoms to forget")
    _author(parser)
    add("--reason", metavar="TEXT", help="the reason, kept in the log")


def forget(call: Call) -> None:
    knowledge = known_to(call.actor())
    for id in call.args.ids:
        knowledge.forget(id, call.args.reason)
        call.show({"id": id, "done": "forgotten"}, f"forgot {id}; it stays in the log")


def why_options(parser: Options) -> None:
    add = parser.add_argument
    add("id", metavar="ID", help="an entry, a message, a fact, an atom or a run")
    parser.add_reader()


def why(call: Call) -> None:
    trail = known_to(call.reader()).why(call.args.id)
    call.show(lambda: fields(trail), lambda: "\n".join(_trail(trail, 0, columns() or 0)))


# -- below -----------------------------------------------------------------------------------------


def known_to(me: AgentMemory) -> Any:
    """Return what an agent knows: the functions of knowledge and of time, as methods; a server has
    them as it is.
    """
    from functools import partial

    from synapse.knowledge.provenance import why

    functions = (memory.remember, memory.atom, memory.link, memory.forget, why)
    times_of = (times.recent, times.agent_acts, times.timeline)
    return getattr(me, "knowledge", None) or SimpleNamespace(
        **{function.__name__: partial(function, me) for function in (*functions, *times_of)}
    )


def _author(parser: Options) -> None:
    parser.add_author()


def _scope(parser: Options) -> None:
    add = parser.add_argument
    add(
        "--scope",
        default="agent",
        metavar="S",
        help="agent, group, group:NAME or global (default: agent)",
    )
    add(
        "--cites",
        action="append",
        metavar="ID,...",
        help="messages, entries, facts or runs it comes from",
    )
    add("--confidence", type=_figure, default=1.0, metavar="N", help="0 to 1 (default: 1)")
    add("--once", metavar="KEY", help="a retry with the same key returns the first one")


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


def _trail(step: Step, depth: int, width: int) -> list[str]:
    """Return the lines of a trail; the sources of each step are indented below it."""
    indent, how = "  " * depth, "" if depth == 0 else f"{step.how} "
    if step.kind == "hidden":
        return [f"{indent}{how}something that you may not see"]
    head = " ".join(word for word in (f"{how}{step.kind}", step.id, step.by, step.at) if word)
    repeated = " (see above)" if step.cut else ""
    text = f": {clean(first(step.text))}" if step.text else ""
    lines = [short(f"{indent}{head}{repeated}{text}", width)]
    return [*lines, *(line for source in step.sources for line in _trail(source, depth + 1, width))]


def recent_options(parser: Options) -> None:
    _asked(parser, "after this time: 24h, yesterday, 2026-02-01 (default: 24h)")
    parser.add_argument(
        "--kind",
        action="append",
        metavar="K,...",
        help="only these kinds: entry, message, fact, atom",
    )


def recent(call: Call) -> None:
    args = call.args
    moments = known_to(call.reader()).recent(
        args.since or "24h", many(args.kind) or (), args.limit or None, args.before
    )
    _show(call, moments, "nothing was written")


def what_did_options(parser: Options) -> None:
    parser.add_argument("who", metavar="AGENT", help="the agent whose acts are shown")
    _asked(parser, "after this time: 24h, yesterday, last tuesday, 2026-02-01")


def what_did(call: Call) -> None:
    args = call.args
    _show(
        call,
        known_to(call.reader()).agent_acts(args.who, args.since, args.limit, args.before),
        f"{args.who} did nothing that you may see",
    )


def timeline_options(parser: Options) -> None:
    parser.add_argument("project", metavar="PROJECT", help="the name, as in projects/PROJECT")
    _asked(parser, "after this time: 24h, yesterday, last tuesday, 2026-02-01")


def timeline(call: Call) -> None:
    args = call.args
    moments = known_to(call.reader()).timeline(args.project, args.since, args.limit, args.before)
    _show(call, moments, f"nothing of {args.project} that you may see")


def _asked(parser: Options, since: str) -> None:
    add = parser.add_argument
    parser.add_reader()
    add("--since", metavar="WHEN", help=since)
    add(
        "--limit",
        type=number,
        default=50,
        metavar="N",
        help="the newest N; 0 for all (default: 50)",
    )
    parser.add_before()


def _show(call: Call, moments: Rows[Moment], nothing: str) -> None:
    width = columns() or 0
    call.show(
        lambda: {
            "moments": [fields(moment) | {"time": clock.iso(moment.at)} for moment in moments],
            "next": moments.next,
        },
        lambda: "\n".join(_days(moments, width)) or nothing,
    )
    call.note_older(moments.next)


def _days(moments: Iterable[Moment], width: int) -> Iterable[str]:
    """Yield a heading for each day and a line for each moment."""
    day = ""
    for moment in moments:
        if clock.day(moment.at) != day:
            yield from ([""] if day else [])
            day = clock.day(moment.at)
            yield f"{day} UTC"
        yield short(f"  {moment.time[11:16]}  {_line(moment)}", width)


def _line(moment: Moment) -> Any:
    if moment.text.startswith(f"{moment.by} "):
        return moment.text  # a sentence that says by whom
    return (
        " ".join(field for field in (moment.by, moment.kind, moment.id, moment.where) if field)
        + f": {moment.text}"
    )
