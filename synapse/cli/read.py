"""The verbs `read`, `search` and `view`: entries, for an agent or for the operator."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from types import SimpleNamespace

from synapse.cli.frame.call import Call
from synapse.cli.frame.options import Options, Usage
from synapse.cli.frame.parse import many, number, positive
from synapse.cli.frame.show import (
    INDENT,
    LINES,
    WIDTH,
    clean,
    columns,
    fields,
    header,
    line,
    listing,
)
from synapse.errors import Forbidden
from synapse.formats import codec
from synapse.model.agents import OPERATOR
from synapse.model.clock import seconds
from synapse.model.entry import NEVER, PRIORITIES
from synapse.model.namespace import is_component
from synapse.model.results import UnreadPage
from synapse.system.typed import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from synapse.agent_memory import AgentMemory
    from synapse.model.entry import Entry
    from synapse.model.results import Fate, Hit, Hits, Page
    from synapse.view.view import View


def read_options(parser: Options) -> None:
    add = parser.add_argument
    add(
        "ids",
        nargs="*",
        metavar="ID",
        help="show these entries whole, and nothing else",
    )
    add(
        "--agent",
        metavar="AGENT",
        help="as this agent; else $SYNAPSE_AGENT, else everything",
    )
    add("--since", metavar="WHEN", help="24h, yesterday, last tuesday, 2026-02-01")
    add(
        "--priority", action="append", metavar="P,...", help="critical, important, info"
    )
    add("--namespace", metavar="GLOB", help="api/endpoints, or api/* for all below")
    add("--author", "--from", metavar="AGENT", help="only what this agent wrote")
    add("--tag", metavar="TAG", help="only what carries this tag")
    add(
        "--limit",
        type=number,
        default=50,
        metavar="N",
        help="at most so many; 0: all; else 50 (synapse-read: all)",
    )
    add("--archived", action="store_true", help="only what is archived")
    add(
        "--unread",
        action="store_true",
        help="what the agent was not shown: critical first, then the oldest",
    )
    add(
        "--budget",
        type=number,
        metavar="N",
        help="with --unread: at most so many tokens",
    )
    add(
        "--mark",
        action="store_true",
        help="count the entries that are printed whole as shown to the agent",
    )
    add(
        "--markdown",
        action="store_true",
        help="print the entries' own text, one after the other",
    )


def read(call: Call) -> None:
    args = call.args
    if args.ids:
        _read_ids(call)
        return
    _check(args)
    me = _marker(call) if args.mark or args.unread else call.reader()
    page = me.read(**_filter(args))
    call.show(
        lambda: page_json(page),
        lambda: markdown(page) if args.markdown else paged(page),
    )
    if not page:
        _note_below(call, lambda glob: me.read(**(_filter(args) | {"namespace": glob})))
    if args.mark and (page or not args.unread):
        _mark(call, me, page)


def _marker(call: Call) -> AgentMemory:
    """Return the seat of the agent that a page is printed for, which has to be named."""
    me = call.memory.as_agent(call.agent())
    if call.args.mark and me.id == OPERATOR:
        raise Forbidden(
            "--mark notes what an agent was shown; the operator is none", action="mark"
        )
    return me


def _mark(call: Call, me: AgentMemory, page: Page) -> None:
    """Note that the agent was shown what was printed; what could not be printed was not."""
    call.flush()
    me.pen.shown(_whole_ids(call, page), page.visible, page.cursor, "read")


def _check(args: SimpleNamespace) -> None:
    """Refuse options that do not go together."""
    if args.unread and args.archived:
        raise Usage(
            "what is archived is not among the news: leave out --archived or --unread"
        )
    if args.budget is not None and not args.unread:
        raise Usage(
            "--budget bounds --unread; `synapse view --budget N` is the briefing"
            " within so many tokens"
        )
    if args.budget is not None and args.markdown:
        raise Usage(
            "--budget counts the form of a view: leave --markdown out, or use `synapse"
            " read` for `synapse-read`"
        )


def _note_below(call: Call, read: Callable[[str], object]) -> None:
    """Note that nothing is in a namespace itself, where something is below it."""
    namespace = call.args.namespace
    if namespace and not namespace.endswith("*") and read(f"{namespace}/*"):
        call.note(
            f"nothing is in {namespace} itself; --namespace '{namespace}/*' has what is below it, too"
        )


def _whole_ids(call: Call, page: Page) -> list[str]:
    """Return the ids of the entries of a page that are printed whole: a listing shows the beginning
    of long ones.
    """
    untruncated = call.json or call.args.markdown or call.args.unread
    return [entry.id for entry in page if untruncated or entry.body.count("\n") < LINES]


def _filter(args: SimpleNamespace) -> dict[str, Any]:
    same = {
        name: getattr(args, name)
        for name in (
            "since",
            "namespace",
            "author",
            "tag",
            "archived",
            "unread",
            "budget",
        )
    }
    return {"priority": many(args.priority), "limit": args.limit or None, **same}


def _read_ids(call: Call) -> None:
    for name in ("mark", "unread"):
        if getattr(call.args, name):
            raise Usage(f"--{name} is for a page, not for single entries")
    me = call.reader()
    entries = [me.get(id) for id in call.args.ids]
    fates = [me.fate(entry.id) for entry in entries]
    shape = markdown if call.args.markdown else _whole(fates)
    with call.memory.store.snapshot(late=True) as snap:
        cursor = snap.cursor
    counts = {"cursor": cursor, "matched": len(entries), "visible": len(entries)}
    call.show(
        lambda: {"entries": _fated(entries, fates), **counts}, lambda: shape(entries)
    )


def page_json(page: Page) -> dict[str, Any]:
    counts = {"cursor": page.cursor, "matched": page.matched, "visible": page.visible}
    if not isinstance(page, UnreadPage):
        return {"entries": _objects(page), **counts}
    unread_fields = {
        "left": dict(zip(PRIORITIES, page.left, strict=True)),
        "tokens": page.tokens,
    }
    return {
        "entries": _objects(page),
        "pointers": [entry.id for entry in page.pointers],
        **counts,
        **unread_fields,
    }


def paged(page: Page) -> str:
    """Return a page as text; its last line has the counts, so that an empty page can be trusted."""
    if isinstance(page, UnreadPage):
        from synapse.view import news

        return news.render(page).rstrip("\n")
    hint = "; --limit 0 shows all" if len(page) < page.visible else ""
    foot = (
        f"-- {len(page)} of {page.visible} visible, {page.matched} matching; cursor"
        f" {page.cursor}{hint}"
    )
    return "\n\n".join(block for block in (listing(page), foot) if block)


def markdown(entries: Page | Sequence[Entry]) -> str:
    from synapse.formats import codec

    return clean("\n".join(codec.render(entry) for entry in entries)).rstrip("\n")


def _whole(fates: Sequence[Fate | None]) -> Callable[[Sequence[Entry]], str]:
    """Return a formatter that shows entries in full, and why an entry is no longer shown."""

    def shape(entries: Sequence[Entry]) -> str:
        pairs = zip(entries, fates, strict=True)
        return "\n\n".join(
            listing([entry], whole=True) + fate_line(fate) for entry, fate in pairs
        )

    return shape


def fate_line(fate: Fate | None) -> str:
    """Return a line that says why an entry is no longer shown; empty if it still is."""
    if fate is None:
        return ""
    by = f" by {fate.by}" if fate.by else ""
    until = f", until {seconds(fate.until)}" if fate.until < NEVER else ""
    return f"\n    -- not shown: {fate.reason}{by}{until}"


def _fated(
    entries: Sequence[Entry], fates: Sequence[Fate | None]
) -> list[dict[str, Any]]:
    pairs = zip(_objects(entries), fates, strict=True)
    return [{**fields_, "fate": fields(fate)} for fields_, fate in pairs]


def _objects(entries: Page | Sequence[Entry]) -> list[dict[str, Any]]:
    from synapse.formats import codec

    return [codec.entry_json(entry) for entry in entries]


def search_options(parser: Options) -> None:
    add = parser.add_argument
    add(
        "query",
        nargs="+",
        metavar="WORD",
        help="what to look for, as a question or as words",
    )
    add(
        "--agent",
        metavar="AGENT",
        help="as this agent; else $SYNAPSE_AGENT, else everything",
    )
    add(
        "--kind",
        action="append",
        metavar="K,...",
        help="entry, message, fact, atom; else all",
    )
    add("--namespace", metavar="GLOB", help="api/endpoints, or api/* for all below")
    add("--author", "--from", metavar="AGENT", help="only what this agent wrote")
    add(
        "--priority", action="append", metavar="P,...", help="critical, important, info"
    )
    add("--tag", metavar="TAG", help="only what carries this tag")
    add("--since", metavar="WHEN", help="24h, yesterday, last tuesday, 2026-02-01")
    add("--until", metavar="WHEN", help="up to the end of that: yesterday, 2026-02")
    add(
        "--when", metavar="WHEN", help="within that: 'last week', 'monday to yesterday'"
    )
    add(
        "--limit",
        type=positive,
        default=10,
        metavar="N",
        help="at most so many; else 10",
    )
    add(
        "--archived",
        action="store_true",
        help="among what is archived, instead; mail is found in either case",
    )
    add(
        "--mode",
        choices=("words", "meaning", "both"),
        help="how; else both where an embedder is set, else words",
    )


def search(call: Call) -> None:
    args = call.args
    names = (
        "limit",
        "namespace",
        "author",
        "tag",
        "since",
        "until",
        "when",
        "archived",
        "mode",
    )
    filters = {name: getattr(args, name) for name in names}
    hits = call.reader().search(
        " ".join(args.query),
        kind=many(args.kind),
        priority=many(args.priority),
        **filters,
    )
    call.show(lambda: hits_json(hits), lambda: found(hits))
    if hits.note:
        call.note(hits.note)
    if not hits:
        query = " ".join(args.query)
        kinds = {"kind": many(args.kind), "priority": many(args.priority)}
        _note_below(
            call,
            lambda glob: call.reader().search(
                query, **{**filters, **kinds, "namespace": glob}
            ),
        )


def hits_json(hits: Hits) -> dict[str, Any]:
    from synapse.formats import codec

    rows = [
        {
            **codec.entry_json(hit.entry),
            "score": hit.score,
            "excerpt": hit.excerpt,
            "marks": hit.marks,
        }
        for hit in hits
    ]
    return {
        "entries": rows,
        "partial": hits.partial,
        "ranked": hits.ranked,
        "note": hits.note,
    }


def found(hits: Hits) -> str:
    blocks = [f"{clean(header(hit.entry))}\n{_lines(hit)}" for hit in hits]
    partial = (
        f"; more match, these are the best of the newest {hits.ranked}"
        if hits.partial
        else ""
    )
    return "\n\n".join([*blocks, f"-- {len(blocks)} found{partial}"])


def _lines(hit: Hit) -> str:
    """Return the excerpt, folded; on a terminal the matching words are bold."""
    from textwrap import wrap

    on, off = ("\x1b[1m", "\x1b[0m") if columns() else ("", "")
    text, last = "", 0
    for start, end in hit.marks if on else ():
        text += f"{clean(hit.excerpt[last:start])}\0{clean(hit.excerpt[start:end])}\1"
        last = end
    text += clean(hit.excerpt[last:])
    lines = wrap(text, WIDTH - len(INDENT), break_on_hyphens=False)
    return (
        "\n".join(f"{INDENT}{line}" for line in lines)
        .replace("\0", on)
        .replace("\1", off)
    )


def view_options(parser: Options) -> None:
    add = parser.add_argument
    add(
        "ids",
        nargs="?",
        metavar="AGENT",
        help="whose; else --agent, else $SYNAPSE_AGENT",
    )
    add("--agent", metavar="AGENT", help="the same, as an option")
    add("--department", metavar="D", help="what every agent of this department may see")
    add("--budget", type=number, metavar="N", help="at most so many tokens")
    add("--as-of", metavar="TIME", help="as it would have been at this time")
    add(
        "--write",
        action="store_true",
        help="write views/AGENT.md (or D.md) in the workspace",
    )


def view(call: Call) -> None:
    args = call.args
    name = _whose(call)
    me = call.memory.as_agent(name)
    briefing = me.briefing(
        budget=args.budget, department=args.department, as_of=args.as_of
    )
    later = me.later(args.as_of, args.department) if args.as_of else None
    path = (
        _write(call.root, args.department or name, briefing.markdown())
        if args.write
        else None
    )
    call.show(
        lambda: view_json(briefing, later), lambda: path or shown(briefing, later)
    )


def _whose(call: Call) -> str:
    """Return the agent whose view is shown. Only the view of a department may be the operator's."""
    args = call.args
    if args.ids and args.agent:
        raise Usage("which agent? It is given twice")
    if args.write and args.as_of:
        raise Usage("--write is for the view of now, --as-of for looking back")
    args.agent = args.ids or args.agent
    return call.who(args.agent) or OPERATOR if args.department else call.agent()


def view_json(view: View, later: list[Entry] | None) -> dict[str, Any]:
    values = fields(view)
    extra = (
        {} if later is None else {"later": [codec.entry_json(entry) for entry in later]}
    )
    return {"markdown": values.pop("text"), **values, **extra}


def shown(view: View, later: list[Entry] | None) -> str:
    text = view.markdown().rstrip("\n")
    if later is None:
        return text
    lines = [f"  {line(entry)}" for entry in later] or ["  nothing"]
    return "\n".join(
        [text, "", "-- what came later and would have changed it:", *lines]
    )


def _write(root: str, name: str, text: str) -> str:
    """Replace the file in one step, so that nobody reads half a view."""
    if not is_component(name):
        raise Usage(f"{name!r} is not the name of an agent or a department")
    folder = os.path.join(root, "views")
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, f"{name}.md")
    fresh = f"{path}.{os.getpid()}"
    with open(fresh, "w", encoding="utf-8", newline="\n") as file:
        file.write(text)
    os.replace(fresh, path)
    return path
