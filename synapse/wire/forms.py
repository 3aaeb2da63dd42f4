"""JSON forms of what the library returns: what `--json` prints and the server answers.

Called by the shell and by the server. `parse` reads them back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from synapse.model.clock import iso
from synapse.model.entry import PRIORITIES, Draft
from synapse.model.entry_fields import FIELDS
from synapse.model.results import UnreadPage
from synapse.system.typed import TYPE_CHECKING, Any

_PLAIN = frozenset((str, int, float, bool, type(None)))

if TYPE_CHECKING:
    from synapse.model.agents import Agent
    from synapse.model.entry import Entry
    from synapse.model.message import Message
    from synapse.model.records import Record
    from synapse.model.results import Event, Fate, Hits, Page
    from synapse.view.view import View


def entries_json(entries: Page | Sequence[Entry]) -> list[dict[str, Any]]:
    """Return entries as JSON objects."""
    from synapse.formats import codec

    return [codec.entry_json(entry) for entry in entries]


# What a server sets of a draft, where its token does not say it or the act.
SET_THERE = ("claim", "timestamp", "id", "signature")
_SENT = [
    field
    for field in FIELDS
    if field.name in Draft._fields and field.name not in (*SET_THERE, "author", "kind", "more")
]


def draft_json(draft: Draft) -> dict[str, Any]:
    """Return the draft of an entry as a server takes it."""
    return {field.wire: getattr(draft, field.name) for field in _SENT}


def entries_with_fates(
    entries: Sequence[Entry], fates: Sequence[Fate | None]
) -> list[dict[str, Any]]:
    """Return entries, each with why it is not shown now."""
    pairs = zip(entries_json(entries), fates, strict=True)
    return [{**entry, "fate": fields(fate)} for entry, fate in pairs]


def page_json(page: Page) -> dict[str, Any]:
    """Return a page with its counts, and what a budget left out."""
    counts = {"cursor": page.cursor, "matched": page.matched, "visible": page.visible}
    if not isinstance(page, UnreadPage):
        return {"entries": entries_json(page), **counts}
    unread_fields = {"left": dict(zip(PRIORITIES, page.left, strict=True)), "tokens": page.tokens}
    return {
        "entries": entries_json(page),
        "pointers": [entry.id for entry in page.pointers],
        **counts,
        **unread_fields,
    }


def page_wire(page: Page) -> dict[str, Any]:
    """Return a page with all that it holds: of an unread one the pointers' entries and its last
    line too, which the shell's form leaves out.
    """
    form = page_json(page)
    if isinstance(page, UnreadPage):
        form |= {"pointed": entries_json(page.pointers), "foot": page.foot}
    return form


def message_json(message: Message) -> dict[str, Any]:
    """Return a message with its entry, of which the shell's form has a part."""
    from synapse.formats import codec
    from synapse.model.message import as_json

    return {**as_json(message), "entry": codec.entry_json(message.entry)}


def agent_json(agent: Agent) -> dict[str, Any]:
    """Return an agent as it stands, with every field."""
    values: dict[str, Any] = fields(agent)
    return values


def hits_json(hits: Hits) -> dict[str, Any]:
    """Return the hits of a search: entries with their scores and excerpts."""
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
    return {"entries": rows, "partial": hits.partial, "ranked": hits.ranked, "note": hits.note}


def view_json(view: View, later: list[Entry] | None) -> dict[str, Any]:
    """Return a view and its account; `later` is what came after its moment."""
    from synapse.formats import codec

    # Thousands may be left out: their fields are plain, and are not walked one by one.
    account = {
        "included": [row._asdict() for row in view.included],
        "left_out": [row._asdict() for row in view.left_out],
    }
    values = view._asdict() | account
    extra = {} if later is None else {"later": [codec.entry_json(entry) for entry in later]}
    return {"markdown": values.pop("text"), **values, **extra}


def event_json(event: Event) -> dict[str, Any]:
    """Return an event of a follower."""
    from synapse.formats import codec

    return {"cursor": event.cursor, "kind": event.kind, "entry": codec.entry_json(event.entry)}


def record_json(record: Record) -> dict[str, Any]:
    """Return a record of the log as a JSON object, with its time as text."""
    record_fields = dict(fields(record))
    # a record that is in the log has its entry in the fields
    del record_fields["entry"]
    return {**record_fields, "time": iso(record.at)}


def fields(value: Any) -> Any:
    """Return named tuples, at any depth, as dictionaries with their fields' names."""
    if type(value) in _PLAIN:  # nearly all of them; the questions below cost far more
        return value
    if hasattr(value, "_asdict"):
        return {name: fields(item) for name, item in value._asdict().items()}
    if isinstance(value, Mapping):
        return {str(name): fields(item) for name, item in value.items()}
    if isinstance(value, Sequence | Set) and not isinstance(value, str):
        return [fields(item) for item in value]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
