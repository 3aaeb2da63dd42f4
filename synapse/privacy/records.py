"""Records on their way into the log: no secret is written, whoever writes and whatever field it is
in. Both logs call `safe` for every record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import attrgetter

from synapse.model.agents import CONSOLIDATOR
from synapse.model.entry import Entry
from synapse.model.entry_fields import FREE
from synapse.model.kinds import frozen
from synapse.model.records import Record
from synapse.privacy import personal, secrets
from synapse.privacy.words import Harmless, strings, words_of
from synapse.system.digest import sha256
from synapse.system.typed import Any

# Records of these kinds hold names, numbers and ids alone, or what the operator's own files say.
_NO_TEXT = frozenset(
    (
        "shown",
        "delivery",
        "used",
        "vector",
        "receipt",
        "night",
        "seal",
        "void",
        "agent",
        "settings",
        "link",
        "merged",
    )
)


# What is done with personal data in records of these kinds.
_SPOKEN = {
    **dict.fromkeys(
        "resolve reject archive restore undo claim acked react thread stop".split(), "refuse"
    ),
    **dict.fromkeys("entry run change quarantine refused".split(), "conceal"),
}


def safe(record: Record) -> Record:
    """Return the record as it may be written: with its secrets masked. One without any is the
    same object.
    """
    if record.kind in _NO_TEXT:
        return record
    text = "\n".join(_texts(record))
    if not text:  # it was looked at when the entry was admitted
        return record
    words = words_of(text)
    if personal.hinted(text, words) and _is_asked(record):
        record = _without_persons(record)
    if not secrets.hinted(text, words):
        return record
    if record.kind == "entry" and not secrets.found(text, words):
        return record  # in other kinds a field's name may say that it holds one
    fields = secrets.mask_deep(record.fields)
    entry = None if record.entry is None else _masked(record.entry)
    if record.text is None:
        return record._replace(fields=fields, entry=entry)
    text, start = record.text, record.fields.get("start", 0)
    head, body = secrets.mask(text[:start]), secrets.mask(text[start:])
    if head + body != text:
        # `masked` is the digest of what was dropped: its file is replaced by this text
        fields = {**fields, "masked": sha256(text.encode())}
        if "start" in fields:
            fields["start"] = len(head)
    return record._replace(fields=fields, entry=entry, text=head + body)


def _is_asked(record: Record) -> bool:
    """Return whether a record may have brought personal data here: entries were asked when they
    were admitted, but for those of the nightly job and of other stores.
    """
    if record.kind != "entry":
        return record.kind in _SPOKEN
    return record.by == CONSOLIDATOR or "origin" in record.fields


def _without_persons(record: Record) -> Record:
    """Return an act without personal data: PersonalData where an agent said it, who can say it in
    other words; where a machine did, or it was taken over, its kind stands in its place.
    """
    if _SPOKEN[record.kind] == "refuse":
        refuse_spoken(record)
        return record
    fields = _each(record.fields, personal.concealed)
    if record.entry is None:
        return record._replace(fields=fields)
    entry = _changed(record.entry, personal.concealed)
    text = None if record.text is None else personal.concealed(record.text)
    return record._replace(entry=entry, text=text, fields=fields)


def refuse_spoken(record: Record, patterns: Mapping[str, str] = {}) -> None:
    """Raise PersonalData where an agent says any in an act; `patterns` are the workspace's own."""
    if _SPOKEN.get(record.kind) == "refuse":
        texts = (
            (f"the field {name}", text)
            for name, value in record.fields.items()
            for text in strings(value)
        )
        personal.refuse(texts, patterns)


def _each(value: Any, change: Callable[[str], str]) -> Any:
    """Return a value as JSON has them with every text in it changed."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {name: _each(item, change) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_each(item, change) for item in value]
    return value


_free = attrgetter(*FREE)


def masked_in(entry: Entry) -> list[str]:
    """Return the kinds of secret that an entry's texts name as masked."""
    texts = (entry.body, *filter(None, _free(entry)), *entry.tags, *strings(entry.more))
    return secrets.kinds_in("\n".join(texts))


def holds_secret(entry: Entry) -> bool:
    """Return whether a text of an entry would be stored otherwise than it is."""
    return _masked(entry) != entry


def masked_notice(kinds: Sequence[str]) -> str:
    """Return what an author is told whose secrets were masked."""
    return (
        f"a secret was masked before it was stored ({', '.join(kinds)}); say where it is kept,"
        " not what it is"
    )


def _masked(entry: Entry) -> Entry:
    return _changed(entry, secrets.mask_deep)


def _changed(entry: Entry, change: Callable[[Any], Any]) -> Entry:
    names = ("body", *FREE, "alias")
    texts = {name: _each(getattr(entry, name), change) for name in names}
    extra = secrets.mask_deep(_plain(entry.more))
    return entry._replace(
        **texts, tags=tuple(_each(entry.tags, change)), more=frozen(_each(extra, change))
    )


def _texts(record: Record) -> Iterator[str]:
    """Yield every text of a record that somebody wrote and nobody looked at."""
    entry = record.entry
    if entry is not None:
        if type(entry.body) is not Harmless:
            yield entry.body
        yield from filter(None, _free(entry))
        yield from entry.tags
        if entry.more:
            yield from strings(entry.more)
    if record.text is not None:
        yield record.text
    if record.fields:
        yield from strings(record.fields)


def _plain(value: Any) -> Any:
    """Return a value with plain mappings and lists in it."""
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
