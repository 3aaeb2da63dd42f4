"""What the words of a text ask about: its clauses, the words that name a subject, names with a
number. Pure.

Full text leaves out what says nothing in any text. In a request there is more of that: what is to
be done, how, and how well it was. There is no index and no model here. Called by `recall`.
"""

from __future__ import annotations

import re
from functools import lru_cache

from synapse.index.full_text import terms

CLAUSES = 24  # of a text, that are looked at
LENGTH = 65_536  # characters of a text, that are looked at
WORDS = 24  # of a clause
FIGURES = 3  # digits of a number that says something without a name before it

_END = re.compile(r"[\n;]+|(?<=[.!?:])\s+")
_NAMED = re.compile(r"(?<![^\W\d_])([^\W\d_]{2,40})[\s_#:-]{0,3}(\d{1,12})(?!\w)")
_GENERAL = """
able actually add again ahead already also always another anything anyway apply argument around
ask back bad become begin believe better big bit branch break bring bug build call careful
carefully case cause change check choose class clean clear close code come commit complete
continue correct cover create cut deal decide delete describe diff differ difference different do
done each easily easy edit either else end enough error even ever everyone everything exact
exactly exist expect explain fail failed far fast feel few figure file fill final finally find
fine finish first fix follow forget form forward full function further general get give go good
great guess guy handle happen hard have hear hello help here hey hi hmm hold hope idea implement
important improve include inside instead into job js jsx just keep kind know large last late later
lead leave less let like likely line list little live long look lose lot love maintain make many
matter maybe md mean mention merge message method mind miss mode modify moment more most move much
need never new next nice no nobody none nothing now number obvious odd off often oh ok okay old
once one only open option other over own part pass people perhaps person piece place plan play
please point possible prefer prepare problem proper properly provide pull push put py question
quick quickly quite random rather rb read ready real really reason redo remember remove rename
replace require rest return revert right rs run same save say script search second see seem send
sense set several short should show side similar simple simply since small something soon sorry
sort sound start step still stop strange such support suppose sure take talk tell test text than
thank thanks thing think though time today together tomorrow too total totally touch true try ts
tsx turn two txt type understand undo unit unused up update use useful usual value variable
various very wait want watch way week well what whole why wonder word work worry write wrong yeah
year yes yesterday yet
"""
_NOT_TELLING = frozenset(map(terms.form, _GENERAL.split())) | terms.STOP

Name = tuple[str, str]  # a word's root, and the number behind it: service 3


def clauses(text: str) -> tuple[str, ...]:
    """Return the clauses of a text that say what it is about, in their order, each once."""
    pieces = (" ".join(piece.split()) for piece in _END.split(text[:LENGTH]))
    return tuple(dict.fromkeys(filter(telling, pieces)))[:CLAUSES]


@lru_cache(4_096)
def telling(text: str) -> tuple[str, ...]:
    """Return the words of a text that name what it is about, in their order. A short number does
    where a word stands before it.
    """
    numbers = {number for _, number in names(text)}
    return tuple(
        word
        for word in terms.sought(text)
        if word not in terms.STOP
        and terms.form(word) not in _NOT_TELLING
        and (len(word) > 1 or not word.isascii() or word in numbers)
        and (not word.isdecimal() or len(word) >= FIGURES or word in numbers)
    )[:WORDS]


def asked(text: str) -> frozenset[str]:
    """Return the roots of the words by which the clauses of a text name what they are about."""
    return frozenset(terms.form(word) for clause in clauses(text) for word in telling(clause))


@lru_cache(4_096)
def forms(text: str) -> frozenset[str]:
    """Return the roots of the words that say what a text is about."""
    return terms.forms(text[:LENGTH])


@lru_cache(4_096)
def names(text: str) -> frozenset[Name]:
    """Return the names with a number in a text. Of service 3 and service 5, one is meant."""
    return frozenset(
        (root, number)
        for word, number in _NAMED.findall(text[:LENGTH].lower())
        if (root := terms.form(word)) not in _NOT_TELLING and word not in terms.STOP
    )


def is_on_topic(clause: str, topic: str) -> bool:
    """Return whether a clause names a topic: all of its telling words, of which it has some."""
    words = frozenset(map(terms.form, telling(topic)))
    return bool(words) and words <= forms(clause)


def is_specific(word: str) -> bool:
    """Return whether a word is a number or an identifier with one in it."""
    return any(character.isdigit() for character in word)
