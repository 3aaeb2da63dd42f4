"""Condensing a long conversation for somebody who joins it or goes on with it. Pure.

Kept are the last messages, whole; the names, numbers and addresses of earlier ones, once each; and
the earlier lines that are about the matter at hand. Nothing is rewritten: every line that is kept
is a line of the conversation.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache

from synapse.system.pattern import later
from synapse.system.typed import NamedTuple

Count = Callable[[str], int]
LONG = 400  # a line of more characters is taken as its sentences
_BARE = frozenset("{ } [ ] }, ],".split())
# No pattern looks at a character more than a few times, whatever the text: letters that lead to no
# figure are not looked at again from the next of them, and a word that no name begins with is
# passed whole.
_FIGURE = later(
    r"https?://[^\s)\]>\"']+"  # addresses
    r"|(?<![A-Za-z])[A-Za-z]*+[\d_][\w.-]{2,}|\d[\d,.]{2,}"  # identifiers, versions, figures
)
_NAME = later(r"([A-Z][\w’'-]++)(?:\s+[A-Z][\w’'-]+)+|[A-Z][\w’'-]*+")
_WORD_OF_NAME = later(r"[A-Z][\w’'-]++")
_CAPITAL = later("[A-Z]")
_WORD = later(r"[^\W\d_][\w'-]{2,}|\d[\d.,]*")


class Turn(NamedTuple):
    """One message. `output` is what a tool printed or a browser showed, not what an agent wrote."""

    author: str
    text: str
    output: bool = False


class Shape(NamedTuple):
    """How much is kept: of the newest messages, tokens of an output among them, tokens of specifics
    from earlier ones, bytes of lines that are about the matter at hand."""

    window: int = 3
    output: int = 1_500
    specifics: int = 600
    capsule: int = 512


class Condensed(NamedTuple):
    """What is kept, oldest first in each part. `left_out` counts the messages of which no line was
    kept."""

    capsule: tuple[str, ...]
    specifics: tuple[str, ...]
    window: tuple[str, ...]
    left_out: int = 0

    @property
    def pieces(self) -> tuple[str, ...]:
        older = ("\n".join(section) for section in (self.capsule, self.specifics))
        return (*(section for section in older if section), *self.window)


def condense(
    messages: Sequence[Turn],
    matter: str,
    count: Count,
    shape: Shape = Shape(),  # noqa: B008
) -> Condensed:
    """Return the conversation within this shape. `matter` is what the reader is about to work on:
    what it names already is not repeated, and lines that share its rarer words are kept as
    relevant."""
    start = max(len(messages) - shape.window, 0)
    window = tuple(
        _shortened(message.text, shape.output, count) if message.output else message.text
        for message in messages[start:]
    )
    older = messages[:start]
    specifics = _specifics(older, "\n".join((matter, *window)), shape.specifics, count)
    already_shown = {line for _, line in specifics} | {
        line for text in window for line in lines(text)
    }
    question = "\n".join((matter, *window[-1:]))
    capsule = _relevant(older, question, already_shown, shape.capsule)
    covered = {at for at, _ in (*specifics, *capsule)}
    return Condensed(
        tuple(line for _, line in capsule),
        tuple(line for _, line in specifics),
        window,
        len(older) - len(covered),
    )


def _shortened(text: str, most: int, count: Count) -> str:
    """Return an output's beginning and its end."""
    if count(text) <= most:
        return text
    all_lines = lines(text)
    head, used = 0, 0
    for line in all_lines:
        used += count(f"{line}\n")
        if used > most / 2:
            break
        head += 1
    tail, used = len(all_lines), 0
    for line in reversed(all_lines[head:]):
        used += count(f"{line}\n")
        if used > most / 2:
            break
        tail -= 1
    note = f"[... {tail - head} lines left out ...]"
    return "\n".join((*all_lines[:head], note, *all_lines[tail:]))


def _specifics(older: Sequence[Turn], known: str, most: int, count: Count) -> list[tuple[int, str]]:
    """Return lines of agents that name something which is named nowhere else in what is kept; the
    newest mention of each."""
    covered, used = set(specifics(known)), 0
    for line in lines(known):
        covered |= specifics(line)
    chosen: list[tuple[int, int, str]] = []
    for at in range(len(older) - 1, -1, -1):
        for number, line in enumerate(() if older[at].output else lines(older[at].text)):
            new = specifics(line) - covered
            price = count(f"{line}\n") if new else 0
            if new and used + price <= most:
                chosen.append((at, number, line))
                used += price
                covered |= new
    return [(at, line) for at, _, line in sorted(chosen)]


def _relevant(
    older: Sequence[Turn], question: str, already_shown: Iterable[str], most: int
) -> list[tuple[int, str]]:
    """Return the lines that share most of the rarer words of the question, within a number of
    bytes."""
    excluded = frozenset(already_shown)
    positions = {
        line: at
        for at, message in enumerate(older)
        for line in lines(message.text)
        if line not in excluded
    }
    holding = Counter(word for line in positions for word in words(line))
    total, query = len(positions) + 1, words(question)
    weighed = (
        (_weight(words(line), query, holding, total), at, line) for line, at in positions.items()
    )
    chosen, used = [], 0
    for weight, at, line in sorted(weighed, reverse=True):
        size = len(line.encode()) + 1
        if weight <= 0 or used > most * 0.95:
            break
        if used + size <= most:
            chosen.append((at, line))
            used += size
    return sorted(chosen)


def _weight(
    line: frozenset[str], query: frozenset[str], holding: Counter[str], total: int
) -> float:
    # A set of words has no order, and a plain sum of fractions depends on one: ties would fall
    # otherwise next time.
    return math.fsum(math.log(total / holding[word]) for word in line & query) / (
        1 + len(line) / 12
    )


@lru_cache(4_096)
def lines(text: str) -> tuple[str, ...]:
    """Return the lines that say something, long ones as their sentences."""
    pieces: list[str] = []
    for line in map(str.strip, text.split("\n")):
        while len(line) > LONG:
            cut = next(
                (at for at in (line.rfind(". ", 100, LONG), line.rfind(" ", 100, LONG)) if at > 0),
                LONG - 1,
            )
            pieces.append(line[: cut + 1].strip())
            line = line[cut + 1 :].strip()
        if line and line not in _BARE:
            pieces.append(line)
    return tuple(pieces)


@lru_cache(65_536)
def specifics(line: str) -> frozenset[str]:
    """Return the names of several words, figures, identifiers and addresses in a line."""
    return frozenset(
        name for start, end in _places(line) if len(name := line[start:end].rstrip(".,;:")) > 2
    )


def _places(line: str) -> Iterator[tuple[int, int]]:
    """Yield where each of them stands, from the left; where two begin at one place, the figure."""
    end, names = 0, _Names(line)
    figure = _FIGURE.search(line)
    while True:
        if figure is not None and figure.start() < end:
            figure = _FIGURE.search(line, end)
        name = names.next(end)
        if figure is not None and (name is None or figure.start() <= name[0]):
            span = figure.span()
        elif name is not None:
            span = name
        else:
            return
        yield span
        end = span[1]


class _Names:
    """The names of several words in a line, asked for from the left to the right."""

    def __init__(self, line: str) -> None:
        self.line = line
        self.candidates = _NAME.finditer(line)
        # where the one at hand begins, where its first word and it itself end
        self.at_hand: tuple[int, int, int] | None = None
        self._move()

    def _move(self) -> None:
        match = next((match for match in self.candidates if match[1]), None)
        self.at_hand = match and (match.start(), match.end(1), match.end())

    def next(self, place: int) -> tuple[int, int] | None:
        """Return where the first name from a place on begins and ends. Of one that begins before
        it, what a later capital of its first word or a later word begins is one.
        """
        while self.at_hand is not None:
            start, first_end, end = self.at_hand
            if start >= place:
                return start, end
            capital = _CAPITAL.search(self.line, place, max(first_end - 1, place))
            if capital is not None:
                self.at_hand = capital.start(), first_end, end
            elif (word := _WORD_OF_NAME.search(self.line, place, end)) and word.end() < end:
                self.at_hand = *word.span(), end
            else:
                self._move()
        return None


@lru_cache(65_536)
def words(line: str) -> frozenset[str]:
    return frozenset(word.lower() for word in _WORD.findall(line))
