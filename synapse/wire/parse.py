"""Values of the library from their JSON forms: the inverse of `forms`, field by field.

What a form has beyond a value's fields is passed over, so that a newer server can say more. Called
by the client.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from synapse.model.agents import Agent, Skill
from synapse.model.clock import micros
from synapse.model.entry import NEVER, PRIORITIES, Entry
from synapse.model.entry_fields import FIELDS
from synapse.model.kinds import frozen
from synapse.model.message import Mark, Message, Thread
from synapse.model.results import Event, Fate, Hit, Hits, Page, UnreadPage
from synapse.system.typed import TYPE_CHECKING, Any, T

if TYPE_CHECKING:
    from synapse.access.claims import Claim
    from synapse.view.view import View

Form = Mapping[str, Any]


def entry(form: Form) -> Entry:
    """Return the entry of a form that `codec.entry_json` made."""
    return Entry(
        **{
            name: form[wire] if read is None else read(form[wire])
            for wire, name, read in _FIELDS
            if wire in form
        }
    )


def entries(forms: Sequence[Form]) -> list[Entry]:
    return [entry(form) for form in forms]


def page(form: Form) -> Page:
    """Return the page of a form that `forms.page_wire` made."""
    rows, visible = entries(form["entries"]), form["visible"]
    if "left" not in form:
        return Page(rows, form["cursor"], lambda: visible)
    critical, important, info = (form["left"][name] for name in PRIORITIES)
    return UnreadPage(
        rows,
        entries(form["pointed"]),
        (critical, important, info),
        form["cursor"],
        form["matched"],
        form["foot"],
        form["tokens"],
    )


def hits(form: Form) -> Hits:
    return Hits(
        [
            Hit(
                entry(row),
                row["score"],
                row["excerpt"],
                tuple((start, end) for start, end in row["marks"]),
            )
            for row in form["entries"]
        ],
        form["partial"],
        form["ranked"],
        form["note"],
    )


def view(form: Form) -> View:
    """Return the view of a form, without what came later."""
    from synapse.view.view import Included, LeftOut, View

    parts = {
        "text": form["markdown"],
        "included": tuple(fields(Included, row) for row in form["included"]),
        "left_out": tuple(fields(LeftOut, row) for row in form["left_out"]),
    }
    return fields(View, {**form, **parts})


def claim(form: Form) -> Claim:
    from synapse.access.claims import Claim

    return fields(Claim, form)


def fate(form: Form | None) -> Fate | None:
    return None if form is None else fields(Fate, form)


def event(form: Form) -> Event:
    return Event(form["cursor"], form["kind"], entry(form["entry"]))


def agent(form: Form) -> Agent:
    """Return an agent as it stands, with its role's rights; of others there is less."""
    skills = tuple(
        fields(Skill, {**skill, "namespaces": tuple(skill["namespaces"])})
        for skill in form.get("skills", ())
    )
    values = {
        name: tuple(value) if isinstance(value, list) else value for name, value in form.items()
    }
    return fields(Agent, values | {"skills": skills})


# -- mail ------------------------------------------------------------------------------------------


def message(form: Form) -> Message:
    """Return the message of a form that `forms.message_json` made."""
    updated = form["updated_at"]
    return Message(
        entry(form["entry"]),
        micros(form["created_at"]),
        None if updated is None else micros(updated),
        tuple(_mark(mark, None) for mark in form["read_by"]),
        tuple(_mark(mark, "body") for mark in form["acks"]),
        tuple(_mark(mark, "reaction") for mark in form["reactions"]),
    )


def _mark(form: Form, text: str | None) -> Mark:
    return Mark(form["agent"], micros(form["at"]), form[text] if text else None)


def thread(form: Form) -> Thread:
    """Return the thread of a form that `message.thread_columns` made."""
    return Thread(
        form["id"],
        form["subject"],
        form["created_by"],
        micros(form["created_at"]),
        micros(form["last_message_at"]),
        form["message_count"],
        form["status"],
        tuple(form["tags"]),
    )


# -- below -----------------------------------------------------------------------------------------


def fields(kind: type[T], form: Form) -> T:
    """Return a named tuple from a mapping that has its fields, and maybe more."""
    names: tuple[str, ...] = kind._fields  # type: ignore[attr-defined]
    return kind(**{name: form[name] for name in names if name in form})


def _several(value: str | Sequence[str] | None) -> tuple[str, ...]:
    """Return one name or several, as an entry has them."""
    return () if value is None else (value,) if isinstance(value, str) else tuple(value)


def _end(moment: str | None) -> int:
    return NEVER if moment is None else micros(moment)


_READERS: dict[str, Callable[[Any], Any]] = {
    "names": _several,
    "one or more ids": _several,
    "words": tuple,
    "ids": tuple,
    "list": tuple,
    "moment": micros,
    "end": _end,
    "more": frozen,
}
_FIELDS = [
    (field.wire, field.name, _READERS.get(field.form))
    for field in FIELDS
    if field.name in Entry._fields
]
