"""The verb `write`: an agent writes an entry."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable, Sequence

from synapse.cli.frame.call import Call
from synapse.cli.frame.options import Options
from synapse.cli.frame.parse import many
from synapse.cli.frame.streams import read_body
from synapse.errors import NotFound
from synapse.formats import codec
from synapse.model.agents import OPERATOR
from synapse.model.entry import PRIORITIES, SCOPES, addressees
from synapse.model.entry_fields import FIELDS
from synapse.privacy import personal
from synapse.privacy.records import masked_notice
from synapse.system.typed import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from synapse.agent_memory import AgentMemory
    from synapse.model.entry import Entry


def write_options(parser: Options) -> None:
    add = parser.add_argument
    add(
        "body",
        nargs="?",
        metavar="BODY",
        help="the text; without it, or with -, standard input is read",
    )
    add("--from", dest="agent", metavar="AGENT", help="the author (default: $SYNAPSE_AGENT)")
    add(
        "--namespace",
        required=True,
        metavar="PATH",
        help="where the entry belongs, such as api/endpoints",
    )
    add("--priority", default="info", metavar="P", help=f"{', '.join(PRIORITIES)} (default: info)")
    add("--tags", action="append", metavar="T,...", help="tags to filter by")
    add("--ttl", metavar="SPAN", help="30m, 24h, 7d, 4w or never (default: the namespace's)")
    add(
        "--to",
        action="append",
        metavar="WHOM",
        help="all, team:NAME, agent:ID, or several (default: all)",
    )
    add("--topic", metavar="WORD", help="the topic; two live entries on one topic are in conflict")
    add("--supersedes", action="append", metavar="ID,...", help="entries that this one replaces")
    add("--related", action="append", metavar="ID,...", help="entries that it refers to")
    add(
        "--derived-from",
        action="append",
        metavar="ID,...",
        help="entries that it was made from; they limit its trust",
    )
    add("--evidence", metavar="TEXT", help="the evidence: a link, a commit, a file")
    add(
        "--when",
        action="append",
        metavar="M,...",
        help="show it before such a tool call, such as `run git push`",
    )
    add("--scope", default="public", metavar="S", help=f"{', '.join(SCOPES)} (default: public)")
    add("--pii", action="store_true", help="the entry holds personal data")
    add("--once", metavar="KEY", help="a retry with the same key returns the first entry")


def write(call: Call) -> None:
    fields = _fields(call.args)
    me = call.author(fields["to"] or ())
    _refuse_strangers(fields["to"], me)
    body = read_body(call.args.body)
    entry = me.append(body, call.args.namespace, **fields)
    if entry.topic or entry.replaces:
        entry = me.get(entry.id)
    call.show(lambda: codec.entry_json(entry), entry.id)
    for note in author_notes(entry, me) + masked_notes(entry, body, call.args.pii):
        call.note(note)


def _refuse_strangers(to: str | Sequence[str] | None, me: AgentMemory) -> None:
    """Raise NotFound where an entry is addressed to nobody that is known."""
    if strangers := ", ".join(unknown_names(addressees(to), me)):
        raise NotFound(
            f"there is no agent and no team {strangers}: nothing was written;"
            f" `synapse agents` lists them",
            to=strangers,
        )


def _fields(args: Namespace) -> dict[str, Any]:
    """Return the fields that options give; one that may be given several times is a list."""
    names = (field.wire for field in FIELDS if field.key and field.name != "namespace")
    given = {name: getattr(args, name) for name in names if hasattr(args, name)}
    lists = {name: many(value) or "" for name, value in given.items() if isinstance(value, list)}
    return {**given, **lists, "once": args.once}


def masked_notes(entry: Entry, body: str = "", pii: bool = False) -> list[str]:
    """Return what was masked of what an author wrote, and how long personal data is shown."""
    notice = masked_notice(entry)
    notes = [f"{entry.id}: {notice}"] if notice else []
    if entry.scope == "encrypted" and (pii or personal.kinds_in(body)):
        notes.append(f"{entry.id} holds personal data: it is shown for {entry.ttl}")
    return notes


def author_notes(entry: Entry, me: AgentMemory) -> list[str]:
    """Return what the author should know beside the id: review, dispute, replacement."""
    if entry.staged:
        return [
            (
                f"{entry.id} waits for review: only its author and reviewers see it until"
                f" it is approved"
            )
        ]
    lines = []
    if entry.disputed:
        lines.append(
            f"{entry.id} is in dispute with {', '.join(entry.disputed)}, of equal authority"
        )
    if (entry.topic or entry.replaces) and (fate := me.fate(entry.id)):
        lines.append(f"{entry.id} is not shown: {fate.reason} by {fate.by}")
    return lines


def unknown_names(to: Iterable[str], me: AgentMemory) -> list[str]:
    """Return the addressees that are neither a registered agent nor one of its teams."""
    if tuple(to) == ("all",):
        return []
    agents = getattr(me, "agents", None) or me.store.agents.all().values
    names = {f"agent:{OPERATOR}"}.union(*(agent.names for agent in agents()))
    return [name for name in to if name not in names]
