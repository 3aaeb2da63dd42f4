"""What the words of a text find in the memory: the entries that the search ranks first, where they
hold enough of it.

One rule for all that is given unasked: at the start of a conversation and of a run, at a prompt,
among the news and beside a call. The search ranks; an entry is given where the words that it shares
with a clause are rare enough, together, not to be there by chance. Each clause is looked up alone.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping

from synapse.authority import visible
from synapse.index.full_text import terms
from synapse.index.full_text.ranking import rarity
from synapse.index.full_text.search import counted, search
from synapse.index.snapshot import Filter, Snapshot
from synapse.model.agents import Agent
from synapse.model.condense import specifics
from synapse.model.entry import SEALED, Entry
from synapse.system.typed import NamedTuple
from synapse.view.requests import Name, clauses, forms, is_on_topic, is_specific, names, telling

IDS = 24  # entries that a text names, that are looked up
KEPT = 3  # entries of a clause
FEW = 12  # entries that hold as much: where there are more, the words do not say which is meant
# of what a word weighs that one entry of all has, what an entry has to hold
LEAST = 0.75
# of what the best entry holds, what the next ones have to hold; all, where it has all of a name
NEAR = 0.6
# of an entry's words, that the text must not have, where it has no name or figure of its own
NEW = 0.25

_ID = re.compile(r"\bsyn-[0-9a-z][0-9a-z-]*[0-9a-z]\b")
_ANY = Filter(limit=None)


class Match(NamedTuple):
    """An entry that a text found: the weight of the words that it shares with a clause, the share
    that this is of the clause, and whether it is the best of one."""

    entry: Entry
    weight: float
    share: float
    best: bool


class Question(NamedTuple):
    """A clause, the weight of each of its words by its root, and what an entry has to hold of it:
    so much weight, or all of its words where there are several.
    """

    text: str
    weights: Mapping[str, float]
    least: float
    named: frozenset[Name]

    @property
    def total(self) -> float:
        """Return the weight of all its words."""
        return sum(self.weights.values())

    def is_answered(self, weight: float) -> bool:
        """Return whether an entry that holds so much of it is an answer."""
        return weight >= self.least or (len(self.weights) > 1 and weight >= self.total)

    def weigh(self, entry: Entry) -> float:
        """Return the weight of the words that an entry shares with the clause; 0 where that names
        another one by its number.
        """
        text = _text(entry)
        own, shared_names = names(text), frozenset[Name]()
        if self.named:
            shared_names = own & self.named
            if not shared_names and _names_another(own, self.named):
                return 0.0
        said, numbers = forms(text), {number for _, number in self.named}
        held = {number for _, number in shared_names}
        return sum(
            weight
            for word, weight in self.weights.items()
            if word in (held if word in numbers else said)
        )


def matches(snap: Snapshot, agent: Agent | None, text: str, now: int) -> list[Match]:
    """Return the entries that a text names by their ids, or that its words find, each once, the
    best first. It takes a snapshot with words.
    """
    chosen: dict[int, Match] = {
        entry.seq: Match(entry, math.inf, 1.0, True) for entry in _by_id(snap, agent, text, now)
    }
    own_forms = forms(text)
    for question in questions(snap, text):
        for match in _answers(snap, agent, question, now):
            if not _tells_more(match.entry, text, own_forms):
                continue
            current = chosen.get(match.entry.seq)
            if current is None or match[1:] > current[1:]:
                chosen[match.entry.seq] = match
    return sorted(chosen.values(), key=lambda match: (-match.weight, -match.entry.seq))


def questions(snap: Snapshot, text: str) -> list[Question]:
    """Return what the clauses of a text ask, each word weighed by how rare it is now."""
    of, result = snap.cursor, []
    least = LEAST * math.log(max(of, 2))
    for clause in clauses(_ID.sub(" ", text)):
        weights = {terms.form(word): rarity(counted(snap, word), of) for word in telling(clause)}
        question = Question(clause, weights, least, names(clause))
        if question.is_answered(question.total):
            result.append(question)
    return result


def concerns(asked: Iterable[Question], entry: Entry) -> bool:
    """Return whether an entry holds enough of one of these questions to be given unasked."""
    return any(question.is_answered(question.weigh(entry)) for question in asked)


def on_topic(text: str, entries: Iterable[Entry]) -> list[Entry]:
    """Return the important entries whose topic a clause of the text names: the values of today for
    what it is about, the newest first.
    """
    parts = clauses(text)
    with_topic = [entry for entry in entries if entry.topic and entry.priority == "important"]
    return [
        entry
        for entry in reversed(with_topic)
        if any(is_on_topic(clause, entry.topic or "") for clause in parts)
    ][:KEPT]


def _by_id(snap: Snapshot, agent: Agent | None, text: str, now: int) -> Iterator[Entry]:
    """Yield the live entries whose ids stand in a text, as far as its reader may see them."""
    for id in list(dict.fromkeys(_ID.findall(text)))[:IDS]:
        entry = snap.entry(id, now, agent)
        if entry is None or entry.seq > snap.cursor or not visible(entry, agent):
            continue
        if snap.fate(entry, now, agent) is None:
            yield entry


def _answers(snap: Snapshot, agent: Agent | None, question: Question, now: int) -> list[Match]:
    """Return the best entries for one question; none where too many hold as much of it."""
    hits = search(snap, agent, " ".join(telling(question.text)), _ANY, now, FEW + 1)
    weighed = [
        (question.weigh(hit.entry), hit.entry)
        for hit in hits
        if hit.entry.seq <= snap.cursor and not hit.entry.archived
    ]
    top = max((weight for weight, _ in weighed), default=0.0)
    if sum(weight == top for weight, _ in weighed) > FEW:
        return []
    exact = question.named and top >= question.total
    least = top if exact else NEAR * top
    enough = sorted(
        (
            (weight, entry)
            for weight, entry in weighed
            if weight >= least and question.is_answered(weight)
        ),
        key=lambda pair: (-pair[0], -pair[1].authority, -pair[1].seq),
    )
    weight_of = {entry.seq: weight for weight, entry in enough}
    distinct = _distinct((entry for _, entry in enough), question.text)
    best = _on_topic(distinct, forms(question.text))[:KEPT]
    return [
        Match(entry, weight, weight / question.total, rank == 0)
        for rank, entry in enumerate(best)
        for weight in [weight_of[entry.seq]]
    ]


def _names_another(own: frozenset[Name], asked: frozenset[Name]) -> bool:
    """Return whether a text names something by the same word and another number, or the other way
    round."""
    return any(word == other or number == figure for word, number in own for other, figure in asked)


def _text(entry: Entry) -> str:
    """Return what of an entry its words are taken from, as full text has it."""
    label = " ".join((*entry.tags, entry.topic or "", entry.namespace))
    return label if entry.scope in SEALED else f"{entry.body}\n{label}"


def _on_topic(entries: list[Entry], asked: frozenset[str]) -> list[Entry]:
    """Return the entries without those that mention, and say otherwise, what the topic of another
    one is, from an authority no higher: what a tool gave is its topic, what agents make of it is
    not.
    """
    ranks = [entry.authority for entry in entries if entry.topic and asked <= forms(entry.topic)]
    if not ranks:
        return entries
    return [
        entry
        for entry in entries
        if entry.authority > max(ranks) or (entry.topic and asked <= forms(entry.topic))
    ]


def _tells_more(entry: Entry, text: str, given: frozenset[str]) -> bool:
    """Return whether an entry says what the text does not say itself."""
    if any(name not in text for name in specifics(entry.body)):
        return True
    own = forms(entry.body)
    new = own - given
    return any(map(is_specific, new)) or len(new) >= NEW * len(own)


def _distinct(entries: Iterable[Entry], clause: str) -> list[Entry]:
    """Return the entries without those that state what another does: of these the shortest by far,
    else the first."""
    result: list[Entry] = []
    for entry in entries:
        own = _stated(entry, clause)
        index = next(
            (n for n, earlier in enumerate(result) if own & _stated(earlier, clause)), None
        )
        if index is None:
            result.append(entry)
        elif 2 * len(entry.body) < len(result[index].body):
            result[index] = entry
    return result


def _stated(entry: Entry, clause: str) -> frozenset[str]:
    """Return the names and figures that an entry has and the clause has not; without any, its
    author and its words.
    """
    own = frozenset(name for name in specifics(entry.body) if name not in clause)
    return own or frozenset((" ".join((entry.author, *sorted(forms(entry.body)))),))
