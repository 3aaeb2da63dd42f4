"""`synapse write` and `synapse tell`."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from types import SimpleNamespace

from synapse.cli.call import Call
from synapse.cli.options import Options, Usage
from synapse.cli.parse import many
from synapse.errors import InvalidEntry, NotFound
from synapse.formats import codec
from synapse.model.agents import OPERATOR
from synapse.model.entry import PRIORITIES, SCOPES, addressees
from synapse.system.typed import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from synapse.agent_memory import AgentMemory
    from synapse.model.entry import Entry

_MOST = 4 << 20


def write_options(parser: Options) -> None:
    add = parser.add_argument
    add(
        "body", nargs="?", metavar="BODY", help="the text; - or nothing: standard input"
    )
    add("--from", dest="agent", metavar="AGENT", help="the author; else $SYNAPSE_AGENT")
    add(
        "--namespace",
        required=True,
        metavar="PATH",
        help="where it belongs, such as api/endpoints",
    )
    add(
        "--priority",
        default="info",
        metavar="P",
        help=f"{', '.join(PRIORITIES)}; else info",
    )
    add("--tags", action="append", metavar="T,...", help="words to filter by")
    add("--ttl", metavar="SPAN", help="30m, 24h, 7d, 4w or never; else the namespace's")
    add(
        "--to",
        action="append",
        metavar="WHOM",
        help="all, team:NAME, agent:ID, or several; else all",
    )
    add(
        "--topic",
        metavar="WORD",
        help="what it is about; two live entries on a topic conflict",
    )
    add(
        "--supersedes",
        action="append",
        metavar="ID,...",
        help="what it replaces, at once",
    )
    add("--related", action="append", metavar="ID,...", help="what it refers to")
    add(
        "--derived-from",
        action="append",
        metavar="ID,...",
        help="what it was made from; limits its trust",
    )
    add("--evidence", metavar="TEXT", help="what proves it: a link, a commit, a file")
    add(
        "--when",
        action="append",
        metavar="M,...",
        help="told before such a call: run git push",
    )
    add(
        "--scope",
        default="public",
        metavar="S",
        help=f"{', '.join(SCOPES)}; else public",
    )
    add("--pii", action="store_true", help="it holds personal data")
    add(
        "--once",
        metavar="KEY",
        help="a retry under the same key returns the first entry",
    )


def write(call: Call) -> None:
    me, fields = call.actor(), _fields(call.args)
    if strangers := unknown(addressees(fields["to"]), me):
        raise NotFound(
            (
                f"there is no agent and no team {', '.join(strangers)}: nothing was"
                f" written; `synapse agents` lists them"
            ),
            to=", ".join(strangers),
        )
    entry = me.append(body_of(call.args.body), call.args.namespace, **fields)
    if entry.topic or entry.replaces:
        entry = me.get(entry.id)
    call.show(lambda: codec.entry_json(entry), entry.id)
    for note in notes(entry, me):
        call.note(note)


def tell_options(parser: Options) -> None:
    add = parser.add_argument
    add(
        "whom",
        metavar="WHOM",
        help="a team or an agent: team:NAME, agent:ID or the bare name",
    )
    add("text", metavar="TEXT", help="what to say; -: standard input")
    add(
        "--priority",
        default="critical",
        metavar="P",
        help=f"{', '.join(PRIORITIES)}; else critical",
    )
    add(
        "--re",
        metavar="ID",
        help="the question that this answers, or the entry that it is about",
    )


def tell(call: Call) -> None:
    args = call.args
    entry = call.memory.tell(
        args.whom, body_of(args.text), priority=args.priority, re=args.re
    )
    call.show(lambda: codec.entry_json(entry), entry.id)


def _fields(args: SimpleNamespace) -> dict[str, Any]:
    names = ("tags", "related", "derived_from", "supersedes")
    lists = {name: many(getattr(args, name)) or () for name in names}
    plain = {
        name: getattr(args, name)
        for name in ("priority", "ttl", "topic", "scope", "pii", "evidence", "once")
    }
    return {
        "to": many(args.to),
        "when": args.when and (many(args.when) or ""),
        **lists,
        **plain,
    }


def notes(entry: Entry, me: AgentMemory) -> list[str]:
    """What the author should know beside the id."""
    if entry.staged:
        return [
            (
                f"{entry.id} waits for review: only its author and reviewers see it until"
                f" it is approved"
            )
        ]
    found = []
    if entry.disputed:
        found.append(
            f"{entry.id} is in dispute with {', '.join(entry.disputed)}, of equal authority"
        )
    if (entry.topic or entry.replaces) and (fate := me.fate(entry.id)):
        found.append(f"{entry.id} is not shown: {fate.reason} by {fate.by}")
    return found


def unknown(to: Iterable[str], me: AgentMemory) -> list[str]:
    """The addressees that are no registered agent, and no team of any."""
    if tuple(to) == ("all",):
        return []
    known = {f"agent:{OPERATOR}"}.union(
        *(agent.names for agent in me.store.agents().values())
    )
    return [name for name in to if name not in known]


def body_of(given: str | None) -> str:
    if given is not None and given != "-":
        return given
    stdin = sys.stdin
    if stdin is None or (given is None and stdin.isatty()):
        raise Usage("no body: give it as an argument or on standard input")
    raw = getattr(stdin, "buffer", stdin).read(_MOST)
    try:
        return raw if isinstance(raw, str) else raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidEntry(
            f"standard input is not UTF-8: byte {error.start} cannot be read"
        ) from error
