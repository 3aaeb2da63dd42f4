"""Records on their way into the log: no secret is written, whoever writes and whatever field it is
in. Both logs call `safe` for every record.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from operator import attrgetter

from synapse.errors import InvalidEntry
from synapse.model.agents import CONSOLIDATOR, Agent
from synapse.model.entry import SEALED, Entry
from synapse.model.entry_fields import FREE
from synapse.model.kinds import frozen
from synapse.model.records import Record
from synapse.model.settings import Settings
from synapse.privacy import personal, secrets
from synapse.privacy.words import Harmless, each_text, strings, words_of
from synapse.system.digest import sha256
from synapse.system.typed import Any

_DEFAULTS = Settings()
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


def safe(record: Record, settings: Settings = _DEFAULTS) -> Record:
    """Return the record as it may be written: with its secrets masked, and personal data as the
    workspace's settings say. One without any is the
    same object. A key of `once` that holds one is known by its digest, so that others differ.
    """
    if record.once and secrets.mask(record.once) != record.once:
        record = record._replace(once=f"sha256:{sha256(record.once.encode())}")
    if record.kind in _NO_TEXT:
        return record
    text = "\n".join(_texts(record))
    if not text:  # it was looked at when the entry was admitted
        return record
    words = words_of(text)
    looks = settings.personal != "off" and (settings.patterns or personal.hinted(text, words))
    if looks and _is_asked(record):
        record = _without_persons(record, settings)
    if not secrets.hinted(text, words):
        return record
    if record.kind == "entry" and not secrets.found(text, words):
        return record  # in other kinds a field's name may say that it holds one
    fields = secrets.mask_deep(record.fields)
    entry = None if record.entry is None else _masked(record.entry)
    return _retold(record._replace(fields=fields, entry=entry), secrets.mask)


def _retold(record: Record, change: Callable[[str], str]) -> Record:
    """Return a record whose file is changed. `masked` is the digest of what was dropped: its file
    is replaced by this text.
    """
    if record.text is None:
        return record
    fields, start = record.fields, record.fields.get("start", 0)
    head, body = change(record.text[:start]), change(record.text[start:])
    if head + body != record.text:
        fields = {"masked": sha256(record.text.encode()), **fields}
        if "start" in fields:
            fields["start"] = len(head)
    return record._replace(fields=fields, text=head + body)


def _is_asked(record: Record) -> bool:
    """Return whether a record may have brought personal data here: entries were asked when they
    were admitted, but for those of the nightly job and of other stores, and for dropped files.
    """
    if record.kind != "entry" or record.entry is None:
        return record.kind in _SPOKEN
    dropped = record.text is not None and record.entry.scope not in SEALED
    return dropped or record.by == CONSOLIDATOR or "origin" in record.fields


def _without_persons(record: Record, settings: Settings) -> Record:
    """Return a record with personal data masked. PersonalData where an agent said it in an act that
    is known by it, or in a workspace that has it refused.
    """
    conceal = partial(personal.concealed, patterns=settings.patterns)
    named = record.key is not None and conceal(record.key) != record.key
    if _SPOKEN[record.kind] == "refuse" and (named or settings.personal == "refuse"):
        _refuse_spoken(record, settings.patterns)
    record = record._replace(fields=each_text(record.fields, conceal))
    if record.entry is None:
        return record
    return _retold(record._replace(entry=_changed(record.entry, conceal)), conceal)


def _refuse_spoken(record: Record, patterns: Mapping[str, str]) -> None:
    """Raise PersonalData where an agent says any in an act."""
    texts = (
        (f"the field {name}", text)
        for name, value in record.fields.items()
        for text in strings(value)
    )
    personal.refuse(texts, patterns)


_free = attrgetter(*FREE)


def masked_notice(entry: Entry) -> str:
    """Return what an author is told whose secrets and personal data were masked: of each kind, how
    many; an empty text where nothing was.
    """
    texts = (entry.body, *filter(None, _free(entry)), *entry.tags, *strings(entry.more))
    lines = []
    for mark, what, advice in (
        (secrets.MARK, "a secret", "say where it is kept, not what it is"),
        (personal.MARK, "personal data", "say where it is kept, or write of a role"),
    ):
        counts = Counter(re.findall(rf"{re.escape(mark)}([^\]\n]{{1,80}})\]", "\n".join(texts)))
        kinds = ", ".join(f"{kind} ({n})" if n > 1 else kind for kind, n in counts.items())
        if kinds:
            lines.append(f"{what} was masked before it was stored ({kinds}); {advice}")
    return "; ".join(lines)


def holds_secret(entry: Entry) -> bool:
    """Return whether a text of an entry would be stored otherwise than it is."""
    return _masked(entry) != entry


def safe_agent(agent: Agent) -> Agent:
    """Return an agent with the secrets in what it is called masked; InvalidEntry for an id."""
    if secrets.mask(agent.id) != agent.id:
        raise InvalidEntry("the id of an agent holds a secret: take another one")
    texts: Any = {name: value for name, value in agent._asdict().items() if isinstance(value, str)}
    return agent._replace(**secrets.mask_deep(texts))


def _masked(entry: Entry) -> Entry:
    return _changed(entry, secrets.mask_deep)


def _changed(entry: Entry, change: Callable[[Any], Any]) -> Entry:
    entry = entry._replace(more=frozen(secrets.mask_deep(each_text(entry.more, str))))
    masked: Entry = personal.changed(entry, change)
    return masked._replace(alias=entry.alias and change(entry.alias))


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
