"""For which member of a team an entry is: how well it fits its reader, beside the others. Pure.

A text that names its reader and others says of each what it does, in the clauses that name it. An
entry fits the member whose clauses share the most telling words with it; a word that is said of all
of them tells nothing. An entry that has one of these members in its heading, or begins with its
name, is for that one. Called by `briefing`.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping

from synapse.model.agents import RESERVED, Agent
from synapse.model.entry import SEALED, Entry
from synapse.model.worth import THEIRS
from synapse.view.requests import LENGTH, forms

HEADING = 96  # characters of a first line that may be a heading
MOST = 4.0  # the best fit
DOUBT = 0.5  # what any entry shares with any member, so that one word decides nothing

_CLAUSE = re.compile(r"\n+|(?<=[.!?;:])\s+")
_WORD = re.compile(r"[^\W_]+")
_CALLED = re.compile(r"@?(\w[\w .-]{0,62}): ")

Way = tuple[list[str], str]  # the words of a name, and whose it is
Names = Mapping[str, list[Way]]


class Team:
    """The members of a team that a text names, with the roots of the words that it says of each.
    `asked` is the text without what it says of others alone.
    """

    def __init__(self, text: str, reader: Agent, agents: Iterable[Agent]) -> None:
        self.reader = reader.id
        self._names = _names(reader, agents)
        said: dict[str, set[str]] = {}
        own: list[str] = []
        for clause in _CLAUSE.split(text[:LENGTH]):
            named = _named(clause, self._names)
            if not named or reader.id in named:
                own.append(clause)
            for id in named:
                said.setdefault(id, set()).update(forms(clause))
        is_team = reader.id in said and len(said) > 1
        self._said = {id: frozenset(words) for id, words in said.items()} if is_team else {}
        self.asked = "\n".join(own) if is_team else text

    def fits(self, entries: Iterable[Entry]) -> dict[int, float]:
        """Return how well entries fit the reader, by their places in the log; one that fits it as
        well as the others is not there, nor is any where the text names no team.
        """
        if not self._said:
            return {}
        return {entry.seq: self._fit(entry) for entry in entries if entry.addressees == ("all",)}

    def is_of_another(self, entry: Entry) -> bool:
        """Return whether an entry begins with the name of one other member and nowhere names its
        reader.
        """
        others = _named(_heading(entry), self._names)
        return len(others) == 1 and self.reader not in others | _named(entry.body, self._names)

    def _fit(self, entry: Entry) -> float:
        called = _named(_heading(entry), self._names) & self._said.keys()
        if called == {self.reader}:
            return MOST
        margin = self._margin(entry) * (THEIRS if called and self.reader not in called else 1)
        return max(THEIRS, min(margin, MOST))

    def _margin(self, entry: Entry) -> float:
        """Return what an entry's words share with those said of the reader, beside what they share
        with those of the other whom it fits best.
        """
        own = forms(text_of(entry))
        count = Counter(word for words in self._said.values() for word in words & own)
        rare = {word: math.log((len(self._said) + 0.5) / of) for word, of in count.items()}
        shared = {
            id: DOUBT + sum(rare[word] for word in words & own) / math.sqrt(len(words))
            for id, words in self._said.items()
        }
        return shared.pop(self.reader) / max(shared.values())


def _names(reader: Agent, agents: Iterable[Agent]) -> dict[str, list[Way]]:
    """Return the ways in which texts name members, by their first words: by id, by name, and by a
    role that one alone has.
    """
    members = {agent.id: agent for agent in (*agents, reader) if agent.id not in RESERVED}
    roles = Counter(agent.role for agent in members.values())
    names: dict[str, list[Way]] = {}
    for agent in members.values():
        role = agent.role if roles[agent.role] == 1 else ""
        for way in filter(None, map(_words, (agent.id, agent.name or "", role))):
            names.setdefault(way[0], []).append((way, agent.id))
    return names


def _words(text: str) -> list[str]:
    """Return the words of a text; of several of a kind, the one."""
    return [word.removesuffix("s") for word in _WORD.findall(text.lower())]


def _named(text: str, names: Names) -> set[str]:
    """Return the ids of the members that a text names. Of web-lead and lead, the longer is meant
    where it stands.
    """
    words, place, named = _words(text), 0, set[str]()
    while place < len(words):
        fitting = [
            pair
            for pair in names.get(words[place], ())
            if words[place : place + len(pair[0])] == pair[0]
        ]
        longest, id = max(fitting, key=lambda pair: len(pair[0]), default=(words[:1], ""))
        named.add(id)
        place += len(longest)
    return named - {""}


def _heading(entry: Entry) -> str:
    """Return the heading of an entry, or what stands before a colon at its start."""
    first, _, rest = entry.body[: 2 * HEADING].lstrip("# \n").partition("\n")
    called = _CALLED.match(first)
    return first if rest and len(first) <= HEADING else called[1] if called else ""


def text_of(entry: Entry) -> str:
    """Return what an entry says; its place says nothing, for all of a project stand in one."""
    label = " ".join((*entry.tags, entry.topic or ""))
    return label if entry.scope in SEALED else f"{entry.body}\n{label}"
