"""A text as words, for comparing two texts: the kind of each word, and where one may pause. Pure.

A word is a *slot* (a number with its unit, a name, a date, an id, an address, a quoted string), an
*operator* (a negation, a condition, a quantity, a modal, a sign), *small* (what only joins), or
plain.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from synapse.consolidate.similarity import QUOTED
from synapse.system.typed import NamedTuple

SLOT, OPERATOR, PLAIN, SMALL = "slot", "operator", "plain", "small"
NOT = "not"

# Left out and put in as one likes: nothing is said with these.
_GLUE = frozenset("a an the and but also both too please".split())
_PAUSES = frozenset("and but".split())
_NEGATIONS = frozenset(
    "not no never none nor neither without cannot nobody nothing nowhere hardly barely".split()
)
_OPERATORS = _NEGATIONS | frozenset(
    "must may might should shall can could would will if unless except only all every"
    " each any some most many few"
    " several always often sometimes rarely usually or either else instead than more"
    " less fewer least before after"
    " until since during again still yet already almost nearly about approximately"
    " roughly maybe perhaps probably"
    " possibly likely unlikely allegedly supposedly up down off over under above"
    " below true false pass"
    " passes passed fail fails failed failing succeed succeeds succeeded open opened"
    " closed enable enables enabled"
    " disable disables disabled allow allows allowed deny denies denied start starts"
    " started stop stops stopped add"
    " adds added remove removes removed increase increases increased decrease"
    " decreases decreased old new today"
    " tomorrow yesterday tonight now later why how who whom because".split()
)
_SMALL = frozenset(
    "is are was were be been being am do does did has have had of at by for from to"
    " with into onto via through per as"
    " that this these those it its they them their he she him her his we us our you"
    " your i my there here which what"
    " when while once where so then therefore however in on out".split()
)
CONTEXT = frozenset(
    "it its they them their this that these those he she him her his there here then"
    " therefore however instead"
    " otherwise else same such above below former latter again so".split()
)
_NUMBERS = {
    word: str(value)
    for value, word in enumerate(
        "zero one two three four five six seven eight nine ten eleven twelve thirteen"
        " fourteen fifteen sixteen"
        " seventeen eighteen nineteen twenty".split()
    )
} | {
    word: word
    for word in "thirty forty fifty sixty hundred thousand million billion half twice double"
    " first second"
    " third once".split()
    if word not in ("once", "second")
}
_UNITS = {
    unit: names[0]
    for names in (
        "s sec secs second seconds".split(),
        "ms msec millisecond milliseconds".split(),
        "min mins minute minutes".split(),
        "h hr hrs hour hours".split(),
        "d day days".split(),
        "w week weeks".split(),
        "month months".split(),
        "y year years".split(),
        "% percent".split(),
        *(
            [unit]
            for unit in (
                "b kb mb gb tb kib mib gib tib m k us ns rps qps rpm px usd eur gbp x"
            ).split()
        ),
        "byte bytes".split(),
        *(
            [unit, f"{unit}s"]
            for unit in (
                "request user token thread core worker node row file time dollar euro"
            ).split()
        ),
        "retry retries".split(),
    )
    for unit in names
}
_ALIKE = {"are": "is", "am": "is", "were": "was", "have": "has", "do": "does", "an": "a"}
_NUMBER = re.compile(r"([+-]?[$€£]?\d[\d.,:]*(?<![.,:]))([A-Za-z%]*)")
# Bullets and the marks of headings at the beginnings of lines, with the empty lines before them.
# What stands before is matched too, so that a long stretch of empty lines is looked at once.
_BULLET = re.compile(
    r"(\A|\S[^\S\n]*+\n)\s*+(?=(?:[-*•]|#{1,6})\s)"
    r"(?:(?:[-*•]|#{1,6})\s++(?<=\n))*(?:(?:[-*•]|#{1,6})\s++)?"
)
_EDGES = ".,;:!?()[]*_\"'“”‘’…"


class Word(NamedTuple):
    """One word. `key` is what has to be the same; `stem` is what a paraphrase may keep of it.
    `pause`: one may pause before it; `stop`: a sentence begins with it."""

    key: str
    stem: str
    kind: str
    pause: bool = False
    stop: bool = False

    @property
    def loose(self) -> str:
        """Return the key, singular or plural alike."""
        return self.key if self.kind == SLOT else singular(self.key)


Words = tuple[Word, ...]


def sentences(text: str) -> list[Words]:
    """Return the sentences of a text, each as its words; what only joins is left out."""
    result: list[list[Word]] = []
    for word in _words(text):
        if word.stop or not result:
            result.append([])
        result[-1].append(word)
    return [tuple(sentence) for sentence in result]


def clauses(sentence: Words) -> list[Words]:
    """Return the pieces of a sentence between its pauses."""
    starts = [index for index, word in enumerate(sentence) if word.pause or index == 0]
    return [
        sentence[start:end] for start, end in zip(starts, [*starts[1:], len(sentence)], strict=True)
    ]


def stems(words: Iterable[Word]) -> tuple[str, ...]:
    """Return the stems of the words that carry meaning."""
    return tuple(word.stem for word in words if word.kind != SMALL)


def singular(word: str) -> str:
    if len(word) > 4 and word.endswith(("ses", "xes", "zes", "ches", "shes")):
        return word[:-2]
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


class _Token(NamedTuple):
    """A run without spaces, or a quoted string, whole. `after`: the marks behind it, a line's end
    among them."""

    text: str
    quoted: bool
    opens: bool
    after: str


def _words(text: str) -> Iterator[Word]:
    """Yield the words, each with where it stands; a unit goes to its number."""
    stop = pause = True
    number: Word | None = None
    for token in _tokens(text):
        pause = pause or token.opens
        if number is not None:
            unit = None if token.quoted or pause else _UNITS.get(token.text.lower())
            yield number._replace(key=f"{number.key} {unit}") if unit else number
            number = None
            if unit:
                token = token._replace(text="")
        for single in _words_of(token.text, token.quoted) if token.text else ():
            if single is None:
                pause = pause or token.text.lower() in _PAUSES
                continue
            placed = single._replace(pause=pause or stop, stop=stop)
            stop = pause = False
            if single.kind == SLOT and _NUMBER.fullmatch(single.key) and not token.after:
                number = placed
            else:
                yield placed
        if "?" in token.after:
            yield Word("?", "?", OPERATOR)
        stop = stop or any(mark in token.after for mark in ".;!?\n")
        pause = pause or any(mark in token.after for mark in ",:)]")
    if number is not None:
        yield number


def _tokens(text: str) -> Iterator[_Token]:
    text = _BULLET.sub(r"\1", text).replace("’", "'")
    start = 0
    for quotation in (*QUOTED.finditer(text), None):
        plain = text[start : quotation.start() if quotation else len(text)]
        for line in plain.splitlines(keepends=True):
            for run in line.split():
                bare = run.strip(_EDGES)
                marks = run[len(run.rstrip(_EDGES)) :] if bare else run
                yield _Token(bare, False, run[0] in "([" or run in ("-", "–", "—"), marks)
            if line.endswith("\n"):
                yield _Token("", False, False, "\n")
        if quotation:
            yield _Token(quotation.group(), True, False, "")
            start = quotation.end()


def _words_of(bare: str, quoted: bool) -> Iterator[Word | None]:
    """Yield the words of a token: none where it only joins, two where a negation hangs on it."""
    low = bare.lower()
    if quoted:
        yield Word(bare, bare, SLOT)
    elif all(char in "-–—" for char in bare) or low in _GLUE:
        yield None
    elif not any(char.isalnum() for char in bare):
        yield Word(bare, bare, OPERATOR)
    elif low == "cannot" or low.endswith("n't"):
        base = {"cannot": "can", "can't": "can", "won't": "will", "shan't": "shall"}.get(
            low, low[:-3]
        )
        yield from _words_of(base, False)
        yield Word(NOT, NOT, OPERATOR)
    elif low.endswith("'s"):
        yield from _words_of(bare[:-2], False)
    elif low in _NUMBERS:
        yield Word(_NUMBERS[low], _NUMBERS[low], SLOT)
    elif low in _OPERATORS:
        yield Word(low, NOT if low in _NEGATIONS else _stem(low), OPERATOR)
    else:
        yield _plain(bare, low)


def _plain(bare: str, low: str) -> Word:
    number = _NUMBER.fullmatch(bare)
    if number and (not number[2] or number[2].lower() in _UNITS):
        unit = _UNITS.get(number[2].lower())
        return Word(f"{number[1]} {unit}" if unit else number[1], number[1], SLOT)
    if not bare.replace("-", "").isalpha() or any(char.isupper() for char in bare[1:]):
        return Word(bare, bare, SLOT)
    if low in _SMALL:
        return Word(_ALIKE.get(low, low), low, SMALL)
    is_name = bare[0].isupper() and bare != "I"
    return Word(low, _stem(low), SLOT if is_name else PLAIN)


def _stem(word: str) -> str:
    word = singular(word)
    for end in ("ing", "ed"):
        if word.endswith(end) and len(word) > len(end) + 2:
            word = word[: -len(end)]
            word = word[:-1] if word[-1] == word[-2] and word[-1] not in "ls" else word
            break
    return word.rstrip("e")
