"""The answers of the acts: each the name of its shape, its JSON form, and how it is read back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

from synapse.acts.act import Answer
from synapse.formats.codec import entry_json
from synapse.history.timeline import Moment
from synapse.index.questions.links import Link
from synapse.knowledge.capsule import Capsule
from synapse.knowledge.provenance import Step
from synapse.model.message import thread_columns
from synapse.wire import forms, parse

T = TypeVar("T")


def rows(
    shape: str, name: str, form: Callable[[T], Any], back: Callable[[Any], T]
) -> Answer[list[T]]:
    """Return the answer that has a list under a name."""
    return Answer(
        shape,
        lambda values: {name: [form(value) for value in values]},
        lambda values: [back(value) for value in values[name]],
    )


def _step(form: Mapping[str, Any]) -> Step:
    return parse.fields(Step, {**form, "sources": tuple(map(_step, form["sources"]))})


def _capsule(form: Mapping[str, Any]) -> Capsule:
    return parse.fields(Capsule, {**form, "shown": tuple(parse.entries(form["shown"]))})


def _capsule_json(capsule: Capsule) -> dict[str, Any]:
    return {**capsule._asdict(), "shown": forms.entries_json(capsule.shown)}


def field(
    shape: str, name: str, back: Callable[[Any], T], form: Callable[[T], Any] = lambda value: value
) -> Answer[T]:
    """Return the answer that has one value under a name."""
    return Answer(shape, lambda value: {name: form(value)}, lambda values: back(values[name]))


ENTRY = Answer("Entry", entry_json, parse.entry, "entries")
LINK = Answer("Link", forms.fields, partial(parse.fields, Link))
LINKS = rows("Links", "links", forms.fields, partial(parse.fields, Link))
STEP = Answer("Step", forms.fields, _step)
CAPSULE = Answer("Capsule", _capsule_json, _capsule)
MOMENTS = rows("Moments", "moments", forms.fields, partial(parse.fields, Moment))
IDS = field("Ids", "ids", list[str])
MESSAGE = Answer("Message", forms.message_json, parse.message, "messages")
MESSAGES = rows("Messages", "messages", forms.message_json, parse.message)
MAIL_UNREAD = field("MailUnread", "unread", int)
THREAD = Answer("Thread", thread_columns, parse.thread)
THREADS = rows("Threads", "threads", thread_columns, parse.thread)
ENTRIES = rows("Entries", "entries", entry_json, parse.entry)
PAGE = Answer("Page", forms.page_wire, parse.page)
HITS = Answer("Hits", forms.hits_json, parse.hits)
VIEW = Answer("View", lambda view: forms.view_json(view, None), parse.view)
CLAIM = Answer("Claim", forms.fields, parse.claim)
FATE = Answer(
    "FateOf", lambda fate: {"fate": forms.fields(fate)}, lambda form: parse.fate(form["fate"])
)
UNREAD = field("Unread", "unread", int)
