"""The cheap looks at a text, before patterns are tried: they let nothing through that a pattern
finds, and what was looked at once is looked at again where it was changed.
"""

import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from synapse.authority import admit
from synapse.model.agents import Agent
from synapse.model.entry import Draft
from synapse.model.records import Record
from synapse.model.settings import Settings
from synapse.privacy import personal, secrets
from synapse.privacy.records import safe
from synapse.privacy.words import Harmless, words_of
from tests.examples import examples
from tests.privacy import made

KEY = "AKIA" + "Q7" * 8
STARTS = sorted({text for form in personal.FORMS for text in form.starts})
# Words that go on after how they begin, are glued to what follows, or have other letters for small
# ones.
WORDS = [
    *STARTS,
    *"salaire Salary PASSPORT passportno telnr phonenumber ſSN nİe steuer-id née".split(),
    *("driver's license", "tax number", "tested positive", "birth date", "call him"),
    *"token api_key password Passwort client_secret ſecret bearer credentials".split(),
]
LINKS = [" ", ": ", "=", " is ", " no. ", "nr ", "number is ", " = '", "\n", "—", "’s ip ", ""]
VALUES = [
    *"030-1234567 AB123456C 84.17.22.9 12345678 hunter2!x 0a1b2c3d4e5f6a7b8c9d".split(),
    *("12 345 678", "+49 30 12345678", "(212) 555-0173", "123-45-6789", "12.3.1984"),
    *("March 3, 1984", "$ 120,000", "85.000 EUR", "diabetes", "4111 1111 1111 1111"),
    *("DE89 3704 0044 0532 0130 00", "12 Main St, Springfield, IL 62704"),
    *("Hauptstraße 12, 10115 Berlin", "12 rue de la Paix, 75002 Paris", "jo.doe@mail.de"),
    *(KEY, "sk-" + "a1" * 12, "xoxb-1234567890", "postgres://u:p@h", "eyJhbGci.eyJz.x"),
    *("123456789:AA" + "b" * 33, "glpat-" + "é" * 20, "-----BEGIN PRIVATE KEY-----"),
    *("\ud800", "İ", "日本語", "2026-11-23 09:15"),
]
PIECES = st.lists(st.sampled_from([*WORDS, *LINKS, *VALUES]), max_size=7)
TEXTS = st.tuples(PIECES, st.sampled_from([str, str.upper, str.title])).map(
    lambda pair: pair[1]("".join(pair[0]))
)


def plainly_found(text):
    """Return what the patterns of personal data find where all are tried at every place."""
    found = []
    if personal.hinted(text, words_of(text)):
        for form in personal.FORMS:
            check = personal._CHECKS.get(form.kind, lambda value: True)
            for match in re.finditer(form.pattern, text):
                if check(match["value"]):
                    found.append((form.kind, *match.span("value")))
    return found


def test_what_is_made_up_is_found_as_by_the_plain_patterns():
    for _, text, _ in made.personal(1_400, 5):
        assert [*personal.found(text)] == plainly_found(text)


@given(TEXTS)
@examples(4_000)
def test_texts_of_pieces_are_found_as_by_the_plain_patterns(text):
    assert [*personal.found(text)] == plainly_found(text)


@given(st.sampled_from(WORDS), st.sampled_from(LINKS), st.sampled_from(VALUES))
@examples(4_000)
def test_each_word_with_each_value(word, link, value):
    for text in (f"{word}{link}{value}", f"the {word.title()}{link}{value} of it"):
        assert [*personal.found(text)] == plainly_found(text)


def test_the_check_finds_a_word_that_is_missing(monkeypatch):
    forms = list(personal.FORMS)
    place = next(i for i, form in enumerate(forms) if form.kind == "salary")
    words = forms[place].words - {"salaire"}
    forms[place] = forms[place]._replace(words=words)
    monkeypatch.setattr(personal, "FORMS", tuple(forms))
    text = "the salaire is 85.000 EUR"
    assert plainly_found(text)
    assert not [*personal.found(text)]


@given(TEXTS)
@examples(4_000)
def test_no_form_of_a_secret_passes_the_look(text):
    words = words_of(text)
    assert not [*secrets._formed(text, words)] or secrets._may_be_formed(text, words)
    if re.search(secrets.ASSIGNED, text, re.IGNORECASE):
        assert re.search(secrets.FOLLOWED, text.lower()) or not text.isascii()


def test_no_secret_that_is_made_up_passes_the_look():
    for kind, text, _ in made.secrets(1_100, 6):
        if kind not in ("password", "aws secret"):  # those are known by their names
            assert secrets._may_be_formed(text, words_of(text)), text
        assert secrets.found(text), text


@given(st.text(string.printable + "é’—\u00a0\u2003ſİ日\ud800", max_size=60))
@examples(3_000)
def test_words_are_those_of_the_plain_way(text):
    small = text.lower()
    apart = {code: " " for code in range(128) if not chr(code).isalnum()}
    each = small.translate(apart).split()
    assert words_of(text) == (small, each, max(map(len, each), default=0) >= 16)


# -- what was looked at ----------------------------------------------------------------------------

WRITER = Agent("eng-a", "engineer", read=("*",), write=("*",))


def admitted(body, **fields):
    return admit(Draft(body, "api/x", "eng-a", **fields), WRITER, Settings())


def stored(entry, **fields):
    return safe(Record.new("entry", "eng-a", fields, entry))


@pytest.mark.parametrize("body", ["use the vault", "the token of the deploy", "key: id"])
def test_a_body_is_looked_at_once(body):
    entry = admitted(body)
    assert type(entry.body) is Harmless
    assert entry.body == body
    record = Record.new("entry", "eng-a", {}, entry)
    assert safe(record) is record


def test_a_body_that_was_changed_is_looked_at_again():
    entry = admitted("use the vault")
    changed = entry._replace(body=f"{entry.body} with {KEY}")
    assert KEY not in stored(changed).entry.body


def test_other_texts_are_looked_at_again():
    entry = admitted("use the vault", tags=("a",), topic="b")
    assert KEY not in stored(entry._replace(evidence=KEY)).entry.evidence
    assert KEY not in str(stored(entry._replace(tags=(KEY,))).entry.tags)
    assert KEY not in str(stored(entry, note=f"use {KEY}").fields)


def test_a_body_with_a_secret_is_no_harmless_one():
    assert type(admitted(f"use {KEY}").body) is str
    assert type(admitted("use the vault", topic=KEY).body) is str
