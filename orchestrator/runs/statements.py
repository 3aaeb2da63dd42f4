"""Statements of values: whether an entry says outright what a call asks for, and what of a report
its tools said already. Pure; called by `writeback` and by shared tools.

A statement is a sentence of the form `SUBJECT is VALUE`, `SUBJECT: VALUE` or `Use VALUE for
SUBJECT`. Its subject has the words of the call in their order; its value is a figure with its unit,
or a name with a figure in it. Questions, negations, plans, conditions, hearsay and pointers have no
such form. An entry that states something says nothing besides, for another sentence may take it
back: only that a run is done may come first.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

from synapse.system.pattern import later

LEAST = 2  # words of a subject

_ARTICLES = ("a", "an", "the")
# what points at another sentence
_POINTING = frozenset("i me my we our it its this that these those here there such".split())
_DONE = later(r"Done: (?:\S+ is done\. )?")
_SENTENCE = later(r"(?<=[.!?])\s+|\s*\n\s*")
_UNITS = (
    "% ‰ ppm percent px pt em s sec secs second seconds ms us µs ns m min mins minute minutes h"
    " hour hours d day days week weeks month months year years b kb mb gb tb kib mib gib tib"
    " byte bytes bit bits bps kbps mbps gbps hz khz mhz ghz rpm db mm cm km mg g kg t ml l pa"
    " hpa kpa mpa bar psi °c °f k n j kj kwh w kw mw v mv kv a ma ah mah retries requests"
    " attempts calls tokens rows lines items pages users workers threads connections replicas"
    " shards cores nodes characters usd eur dollars euros cents"
)
_UNIT = "|".join(map(re.escape, sorted(_UNITS.split(), key=len, reverse=True)))
_FIGURE = rf"[+-]?[$€]?\d+(?:[.,_:]\d+)*(?: ?(?:{_UNIT}))?"
# a name has a letter and a figure; it is no ordinal, no date and no number of a ticket
_NAME = (
    r"(?!\d+[a-z]+\b)(?!\d{4}-)(?!(?-i:[A-Z]+-\d+)\b)"
    r"(?=[\w.:@+-]*\d)(?=[\w.:@+-]*[a-z])[a-z\d](?:[\w.:@+-]*[a-z\d])?"
)
_VALUE = rf"(?P<quote>[`\"']?)(?:{_FIGURE}|{_NAME})(?P=quote)"
_IS = r"(?:\s+is(?:\s+now)?\s+|\s*[:=]\s+|\s+=\s*)"
_FORMS = tuple(
    later(rf"(?i:{form})[.!]?")
    for form in (
        rf"(?P<subject>[^.!?:=]+?){_IS}{_VALUE}",
        rf"use\s+{_VALUE}\s+for\s+(?P<subject>[^.!?:=]+)",
    )
)
_ALONE = later(rf"(?i:(?:it\s+is\s+)?{_VALUE})[.!]?")


def states_value(body: str, topic: str | None, words: str) -> bool:
    """Return whether an entry states the value of what the words of a call name: by its topic or by
    its own subject, and no other value of it."""
    sought = _subject(words)
    if len(sought) < LEAST:
        return False
    text = _DONE.sub("", body.strip(), count=1)
    if topic is not None and _subject(topic) == sought and _ALONE.fullmatch(text):
        return True
    statements = [_statement(sentence) for sentence in _SENTENCE.split(text)]
    subjects = [subject for subject in statements if subject is not None]
    return len(subjects) == len(statements) and subjects.count(sought) == 1


def without(text: str, results: Iterable[str]) -> str:
    """Return a text without the sentences that state the values of what results of tools state."""
    stated = {
        subject
        for result in results
        for sentence in _SENTENCE.split(result)
        if (subject := _statement(sentence)) is not None
    }
    if not stated:
        return text
    pieces = re.split(r"((?<=[.!?])\s+|\s*\n\s*)", text)
    remaining = [
        sentence + gap
        for sentence, gap in zip(pieces[::2], (*pieces[1::2], ""), strict=True)
        if _statement(sentence) not in stated
    ]
    return "".join(remaining).strip()


def _statement(sentence: str) -> tuple[str, ...] | None:
    """Return the subject of a sentence that is a statement; None for any other sentence."""
    text = re.sub(r"^[-*•]\s+", "", sentence)
    match = next(filter(None, (form.fullmatch(text) for form in _FORMS)), None)
    subject = _subject(match["subject"]) if match else ()
    if len(subject) < LEAST or _POINTING.intersection(subject):
        return None
    return subject


def _subject(text: str) -> tuple[str, ...]:
    """Return the words of a subject in their order, without articles; the case of plain words makes
    no difference, that of identifiers does, and a capital A inside is a name.
    """
    stripped = (term.strip(" .,;:!?…") for term in unicodedata.normalize("NFC", text).split())
    terms = [
        term
        for n, term in enumerate(filter(None, stripped))
        if (term if n else term.lower()) not in _ARTICLES
    ]
    return tuple(term.lower() if term.istitle() or term.isupper() else term for term in terms)
