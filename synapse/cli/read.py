"""The verbs `read`, `search` and `view`: entries, for an agent or for the operator."""

from __future__ import annotations

import os
import re
from argparse import Namespace
from collections.abc import Callable, Sequence

from synapse.cli.frame.call import Call
from synapse.cli.frame.options import Options, Usage
from synapse.cli.frame.parse import many, number, positive
from synapse.cli.frame.show import (
    INDENT,
    LINES,
    WIDTH,
    clean,
    columns,
    header,
    line,
    listing,
    one_line,
)
from synapse.errors import Forbidden
from synapse.model.agents import OPERATOR
from synapse.model.clock import seconds
from synapse.model.entry import NEVER
from synapse.model.results import UnreadPage
from synapse.system.typed import TYPE_CHECKING, Any
from synapse.wire import forms

if TYPE_CHECKING:
    from synapse.agent_memory import AgentMemory
    from synapse.model.entry import Entry
    from synapse.model.results import Fate, Hit, Hits, Page
    from synapse.view.view import View


_HEADER = re.compile("^---", re.MULTILINE)


def read_options(parser: Options) -> None:
    add = parser.add_argument
    add("ids", nargs="*", metavar="ID", help="show only these entries, in full")
    parser.add_reader()
    add("--since", metavar="WHEN", help="after this time: 24h, yesterday, last tuesday, 2026-02-01")
    add(
        "--priority", action="append", metavar="P,...", help="only these: critical, important, info"
    )
    add(
        "--namespace",
        metavar="GLOB",
        help="such as api/endpoints, or api/* for everything below api",
    )
    add("--author", "--from", metavar="AGENT", help="only what this agent wrote")
    add("--tag", metavar="TAG", help="only items with this tag")
    add(
        "--limit",
        type=number,
        default=50,
        metavar="N",
        help="at most N; 0 for all (default: 50; synapse-read: all)",
    )
    add("--archived", action="store_true", help="only archived entries")
    add(
        "--unread",
        action="store_true",
        help="entries that the agent was not shown, critical ones first",
    )
    add("--budget", type=number, metavar="N", help="with --unread: at most N tokens")
    add(
        "--mark", action="store_true", help="mark the entries printed in full as shown to the agent"
    )
    add(
        "--markdown",
        action="store_true",
        help="print the text of the entry files, one after the other",
    )


def read(call: Call) -> None:
    args = call.args
    if args.ids:
        _read_ids(call)
        return
    _check_read(args)
    me = _marker(call) if args.mark or args.unread else call.reader()
    page = me.read(**_filter(args))
    call.show(
        lambda: forms.page_json(page),
        lambda: markdown(page) if args.markdown else format_page(page),
    )
    if not page:
        _hint_below(call, lambda glob: me.read(**(_filter(args) | {"namespace": glob})))
    if args.mark and (page or not args.unread):
        _mark(call, me, page)


def _marker(call: Call) -> AgentMemory:
    """Return the memory of the agent that a page is printed for, which must be named."""
    me = call.as_agent(call.agent())
    if call.args.mark and me.id == OPERATOR:
        raise Forbidden(
            "--mark notes what an agent was shown; the operator is not an agent", action="mark"
        )
    return me


def _mark(call: Call, me: AgentMemory, page: Page) -> None:
    """Record that the agent was shown the entries that were printed in full."""
    call.flush()
    full = call.json or call.args.markdown or call.args.unread
    ids = [entry.id for entry in page if full or entry.body.count("\n") < LINES]
    me.writer.shown(ids, page.visible, page.cursor, "read")


def _check_read(args: Namespace) -> None:
    """Refuse options that do not go together."""
    if args.unread and args.archived:
        raise Usage("archived entries are never unread: leave out --archived or --unread")
    if args.budget is not None and not args.unread:
        raise Usage("--budget needs --unread; `synapse view --budget N` cuts the view to N tokens")
    if args.budget is not None and args.markdown:
        raise Usage(
            "--budget cannot go with --markdown, which `synapse-read` sets: use `synapse read`"
        )


def _hint_below(call: Call, read: Callable[[str], object]) -> None:
    """Print a hint if a namespace itself is empty, and something is below it."""
    namespace = call.args.namespace
    if namespace and not namespace.endswith("*") and read(f"{namespace}/*"):
        call.note(
            f"nothing is in {namespace} itself;"
            f" --namespace '{namespace}/*' has what is below it, too"
        )


def _filter(args: Namespace) -> dict[str, Any]:
    names = "since namespace author tag archived unread budget".split()
    filters: dict[str, Any] = {name: getattr(args, name) for name in names}
    return filters | {"priority": many(args.priority), "limit": args.limit or None}


def _read_ids(call: Call) -> None:
    for name in ("mark", "unread"):
        if getattr(call.args, name):
            raise Usage(f"--{name} cannot go with the ids of entries")
    me = call.reader()
    entries = [me.get(id) for id in call.args.ids]
    fates = [me.fate(entry.id) for entry in entries]
    render = markdown if call.args.markdown else _full_formatter(fates)
    cursor = _cursor(call, me)
    counts = {"cursor": cursor, "matched": len(entries), "visible": len(entries)}
    call.show(
        lambda: {"entries": forms.entries_with_fates(entries, fates), **counts},
        lambda: render(entries),
    )


def _cursor(call: Call, me: AgentMemory) -> int:
    """Return how far the log has been read."""
    if call.remote:
        return int(me.cursor)  # type: ignore[attr-defined]
    with call.memory.store.snapshot(late=True) as snap:
        return snap.cursor


def format_page(page: Page) -> str:
    """Return a page as text; its last line has the counts, so that an empty page can be trusted."""
    if isinstance(page, UnreadPage):
        from synapse.view import news

        return news.render(page).rstrip("\n")
    hint = "; --limit 0 shows all" if len(page) < page.visible else ""
    foot = f"-- {len(page)} of {page.visible} visible; cursor {page.cursor}{hint}"
    return "\n\n".join(block for block in (listing(page), foot) if block)


def markdown(entries: Page | Sequence[Entry]) -> str:
    from synapse.formats import codec

    return "\n".join(_file(codec.render(entry)) for entry in entries).rstrip("\n")


def _file(text: str) -> str:
    """Return the text of an entry file. A line of its body that would begin a header, and with it
    an entry of somebody else, has a backslash before it."""
    head, end, body = clean(text).partition("\n---\n")
    return head + end + _HEADER.sub(r"\\\g<0>", body)


def _full_formatter(fates: Sequence[Fate | None]) -> Callable[[Sequence[Entry]], str]:
    """Return a formatter that shows entries in full, and why an entry is no longer shown."""

    def render(entries: Sequence[Entry]) -> str:
        pairs = zip(entries, fates, strict=True)
        return "\n\n".join(listing([entry], whole=True) + fate_line(fate) for entry, fate in pairs)

    return render


def fate_line(fate: Fate | None) -> str:
    """Return a line that says why an entry is no longer shown; empty if it still is."""
    if fate is None:
        return ""
    by = f" by {one_line(fate.by)}" if fate.by else ""
    until = f", until {seconds(fate.until)}" if fate.until < NEVER else ""
    return f"\n    -- not shown: {one_line(fate.reason)}{by}{until}"


def search_options(parser: Options) -> None:
    add = parser.add_argument
    add("query", nargs="+", metavar="WORD", help="words to search for, or a question")
    parser.add_reader()
    add(
        "--kind",
        action="append",
        metavar="K,...",
        help="only these kinds: entry, message, fact, atom",
    )
    add(
        "--namespace",
        metavar="GLOB",
        help="such as api/endpoints, or api/* for everything below api",
    )
    add("--author", "--from", metavar="AGENT", help="only what this agent wrote")
    add(
        "--priority", action="append", metavar="P,...", help="only these: critical, important, info"
    )
    add("--tag", metavar="TAG", help="only items with this tag")
    add("--since", metavar="WHEN", help="after this time: 24h, yesterday, last tuesday, 2026-02-01")
    add("--until", metavar="WHEN", help="up to the end of this time: yesterday, 2026-02")
    add("--when", metavar="WHEN", help="within this time: 'last week', 'monday to yesterday'")
    add("--limit", type=positive, default=10, metavar="N", help="at most N (default: 10)")
    add(
        "--archived",
        action="store_true",
        help="search archived entries instead; mail is found in either case",
    )
    add(
        "--mode",
        choices=("words", "meaning", "both"),
        help="how to search (default: both with an embedder, else words)",
    )


def search(call: Call) -> None:
    query, filters = " ".join(call.args.query), _search_filters(call.args)
    me = call.reader()
    hits = me.search(query, **filters)
    call.show(lambda: forms.hits_json(hits), lambda: format_hits(hits))
    if hits.note:
        call.note(hits.note)
    if not hits:
        _hint_below(call, lambda glob: me.search(query, **(filters | {"namespace": glob})))


def _search_filters(args: Namespace) -> dict[str, Any]:
    names = "limit namespace author tag since until when archived mode".split()
    filters: dict[str, Any] = {name: getattr(args, name) for name in names}
    return filters | {"kind": many(args.kind), "priority": many(args.priority)}


def format_hits(hits: Hits) -> str:
    blocks = [f"{header(hit.entry)}\n{_format_excerpt(hit)}" for hit in hits]
    partial = (
        f"; more match, the {hits.ranked} with most of the words were weighed"
        if hits.partial
        else ""
    )
    return "\n\n".join([*blocks, f"-- {len(blocks)} found{partial}"])


def _format_excerpt(hit: Hit) -> str:
    """Return the excerpt, folded; on a terminal the matching words are bold."""
    from textwrap import wrap

    on, off = ("\x1b[1m", "\x1b[0m") if columns() else ("", "")
    text, last = "", 0
    for start, end in hit.marks if on else ():
        text += f"{clean(hit.excerpt[last:start])}\0{clean(hit.excerpt[start:end])}\1"
        last = end
    text += clean(hit.excerpt[last:])
    lines = wrap(text, WIDTH - len(INDENT), break_on_hyphens=False)
    return "\n".join(f"{INDENT}{line}" for line in lines).replace("\0", on).replace("\1", off)


def view_options(parser: Options) -> None:
    add = parser.add_argument
    add("ids", nargs="?", metavar="AGENT", help="the agent (default: --agent, else $SYNAPSE_AGENT)")
    add("--agent", metavar="AGENT", help="the same, as an option")
    add("--department", metavar="D", help="the view of a department: what all its agents may see")
    add("--budget", type=number, metavar="N", help="at most N tokens")
    add("--as-of", metavar="TIME", help="the view as it was at this time")
    add("--write", action="store_true", help="write views/AGENT.md (or D.md) in the workspace")


def view(call: Call) -> None:
    args = call.args
    name = _view_agent(call)
    me = call.as_agent(name)
    briefing = me.briefing(budget=args.budget, department=args.department, as_of=args.as_of)
    later = me.later(args.as_of, args.department) if args.as_of else None
    path = _write(call.root, args.department or name, briefing.markdown()) if args.write else None
    call.show(
        lambda: forms.view_json(briefing, later), lambda: path or format_view(briefing, later)
    )


def _view_agent(call: Call) -> str:
    """Return the agent whose view is shown. Only the view of a department may be the operator's."""
    args = call.args
    if args.ids and args.agent:
        raise Usage("the agent is given twice: as AGENT and as --agent")
    if args.write and args.as_of:
        raise Usage("--write and --as-of cannot go together")
    if args.write and call.remote:
        raise Usage("--write needs the folder of the workspace: run it where that is")
    args.agent = args.ids or args.agent
    return call.reader().id if args.department else call.agent()


def format_view(view: View, later: list[Entry] | None) -> str:
    text = view.markdown().rstrip("\n")
    if later is None:
        return text
    lines = [f"  {line(entry)}" for entry in later] or ["  nothing"]
    return "\n".join([text, "", "-- what came later and would have changed it:", *lines])


def _write(root: str, name: str, text: str) -> str:
    """Replace the file in one step, so that nobody reads half a view."""
    from synapse.model.namespace import is_component
    from synapse.system.plain_files import make_folder, replace_file

    if not is_component(name):
        raise Usage(f"{name!r} is not the name of an agent or a department")
    folder = os.path.join(root, "views")
    make_folder(folder)
    path = os.path.join(folder, f"{name}.md")
    replace_file(path, text.encode(errors="replace"))
    return path
