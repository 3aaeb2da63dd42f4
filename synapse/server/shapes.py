"""The shapes of the answers, for the document that describes them. A route never makes one: its
form is of `synapse.wire.forms`, and a test holds the two together.
"""

from __future__ import annotations

from keyword import iskeyword
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field, create_model

from synapse.model import entry as model
from synapse.model.entry_fields import FIELDS


class Shape(BaseModel):
    model_config = ConfigDict(populate_by_name=True)


class Health(Shape):
    status: str


class Delivered(Shape):
    """The entry that a delivery became."""

    id: str


class Readiness(Health):
    """Whether requests are answered, and whether the journal takes writes."""

    writable: bool


# The types of JSON that an entry's fields have, by their forms; texts are most of them.
_TYPES: dict[str, Any] = {
    "names": str | list[str],
    "one or more ids": str | list[str] | None,
    **dict.fromkeys(("words", "ids", "list"), list[str]),
    **dict.fromkeys(("text", "moments", "proof", "word or none", "end"), str | None),
    "number": int,
    "flag": bool,
    "more": dict[str, Any],
}

if TYPE_CHECKING:

    class Entry(Shape): ...

else:  # made of the table of the fields
    Entry = create_model(
        "Entry",
        __base__=Shape,
        __doc__="An entry with every field. `seq` is its place in the log.",
        __module__=__name__,
        **{
            f"{field.wire}_" if iskeyword(field.wire) else field.wire: (
                _TYPES.get(field.form, str),
                Field(alias=field.wire) if iskeyword(field.wire) else ...,
            )
            for field in FIELDS
            if field.name in model.Entry._fields
        },
    )


class Fate(Shape):
    """Why an entry is not shown now, by what, and until which microsecond."""

    reason: str
    by: str
    until: int


class FateOf(Shape):
    fate: Fate | None


class FatedEntry(Entry):
    """An entry, with why it is not shown now; null where it is. Only entries that were asked for
    by their ids have it."""

    fate: Fate | None = None


class Entries(Shape):
    entries: list[Entry]


class Page(Shape):
    """Entries with their counts. What the reader may not see is in none of them. Pages of what is
    unread have the fields from `pointers` on.
    """

    model_config = ConfigDict(json_schema_serialization_defaults_required=False)

    entries: list[FatedEntry]
    cursor: int
    matched: int
    visible: int
    pointers: list[str] = []
    pointed: list[Entry] = []
    left: dict[str, int] = {}
    tokens: int | None = None
    foot: str = ""


class Included(Shape):
    """An entry of a view, and the form that it has there."""

    id: str
    tokens: int
    form: str
    why: str


class View(Shape):
    """What an agent should know now. `markdown` is its text, as a prompt has it."""

    markdown: str
    tokens: int
    included: list[Included]
    left_out: list[dict[str, Any]]
    bounded: bool
    budget: int | None
    encoding: str
    cursor: int
    at: int
    unfit: int


class ViewAsOf(View):
    """A view as of a time, and what came later."""

    later: list[Entry]


class Hit(Entry):
    score: float
    excerpt: str
    marks: list[list[int]]


class Hits(Shape):
    """What answers a query best. `partial`: more match than the `ranked` ones
    that were weighed one by one."""

    entries: list[Hit]
    partial: bool
    ranked: int
    note: str


class Unread(Shape):
    agent: str
    unread: int


class MailUnread(Shape):
    unread: int


class Ids(Shape):
    ids: list[str]


class Claim(Shape):
    """A lease on a piece of work, until a microsecond."""

    work: str
    agent: str
    run: str | None
    until: int
    note: str | None


class Read(Shape):
    agent: str
    at: str


class Ack(Read):
    body: str | None


class Reaction(Read):
    reaction: str | None


class Message(Shape):
    """A message with its receipts, and the entry that it is."""

    id: str
    thread_id: str
    parent_id: str | None
    from_agent: str
    to_agent: str | None
    priority: str
    subject: str | None
    body: str
    status: str
    created_at: str
    updated_at: str | None
    metadata: dict[str, Any]
    tags: list[str]
    trust: str
    attachments: list[dict[str, Any]]
    read_by: list[Read]
    acks: list[Ack]
    reactions: list[Reaction]
    entry: Entry


class Messages(Shape):
    messages: list[Message]


class Thread(Shape):
    id: str
    subject: str | None
    created_by: str
    created_at: str
    last_message_at: str
    message_count: int
    status: str
    tags: list[str]


class Threads(Shape):
    threads: list[Thread]


class Link(Shape):
    """What one atom does to another, as somebody last said it."""

    cause: str
    effect: str
    type: str
    strength: float
    by: str
    at: int


class Links(Shape):
    links: list[Link]


class Step(Shape):
    """An item of a trail, and what it came from."""

    how: str
    kind: str
    id: str
    by: str
    at: str
    text: str
    sources: list[Step]
    cut: bool


class Capsule(Shape):
    text: str
    shown: list[Entry]
    found: int
    version: int


class Moment(Shape):
    at: int
    kind: str
    id: str
    by: str
    where: str
    text: str


class Moments(Shape):
    """`next` is the `before` of the page of what is older; null where there is nothing."""

    moments: list[Moment]
    next: str | None


class Me(Shape):
    """Who the token's agent is; `declared` is null for the operator."""

    agent: str
    read_only: bool
    declared: dict[str, Any] | None
    cursor: int


class Known(Shape):
    """What it takes to address an agent. Of itself an agent is told everything."""

    model_config = ConfigDict(extra="allow")

    id: str
    role: str
    name: str | None
    department: str | None
    teams: list[str]
    projects: list[str]
    authority: int | None
    names: list[str]


class Agents(Shape):
    agents: list[Known]


class Act(Shape):
    """An act of the log, as a sentence."""

    seq: int
    time: str
    kind: str
    by: str
    entries: list[str]
    what: str


class Acts(Shape):
    """`next` is the `before` of the page of what is older; null where there is nothing."""

    acts: list[Act]
    next: str | None


class Audit(Shape):
    audit: list[dict[str, Any]]


class NightlyRuns(Shape):
    """The figures of the nightly runs, oldest first, and what is wrong with them."""

    runs: list[dict[str, Any]] = Field(alias="nights")
    warnings: list[str]


class Undone(Shape):
    """What an undo took back. `seq` is null where it was only planned."""

    model_config = ConfigDict(extra="allow")

    what: str
    seq: int | None
    back: list[str]
    away: list[str]
    acts: list[dict[str, Any]]


class Verified(Shape):
    """The proof of the journal's chain, and what does not fit it."""

    problems: list[dict[str, Any]]
    records: int
    head: str
    mended: list[str]
    notes: list[str]
