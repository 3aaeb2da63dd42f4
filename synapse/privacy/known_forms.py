"""The forms of secrets that a public list has: gitleaks', under its licence (MIT), which stands in
`known_forms.json` with the rules. `python -m bench.known_forms` makes that file. `secrets` chooses
among these and its own.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterable
from functools import cache
from itertools import chain
from math import log2

from synapse.privacy.words import Words
from synapse.system.typed import NamedTuple

HEAD = 4  # characters of a word by which a form is chosen that begins with it


class Rule(NamedTuple):
    """The form of one kind of secret: a text that holds one has a keyword in small letters. With
    an entropy, what fits has a digit, and at least that.
    """

    kind: str
    keywords: tuple[str, ...]
    pattern: str
    entropy: float = 0

    def fits(self, value: str) -> bool:
        """Return whether a value is as mixed as it has to be."""
        if not self.entropy:
            return True
        shares = [count / len(value) for count in Counter(value).values()]
        entropy = -sum(share * log2(share) for share in shares)
        return any(map(str.isdigit, value)) and entropy >= self.entropy


class Table(NamedTuple):
    """Rules by a whole word of a text, and by how one begins."""

    exact: dict[str, list[Rule]]
    heads: dict[str, list[Rule]]


@cache
def rules() -> tuple[Rule, ...]:
    """Return the rules of the list."""
    with open(os.path.join(os.path.dirname(__file__), "known_forms.json"), "rb") as file:
        data = json.load(file)
    return tuple(Rule(kind, tuple(words), *rest) for kind, words, *rest in data["rules"])


def by_word(rules: Iterable[Rule]) -> Table:
    """Return a table of rules: a keyword that goes on after its first word asks for that word as a
    whole, others for how it begins.
    """
    table = Table({}, {})
    for rule in rules:
        for keyword in rule.keywords:
            first, after = re.findall("([a-z0-9]+)(.?)", keyword)[0]
            place = table.exact if after else table.heads
            place.setdefault(first if after else first[:HEAD], []).append(rule)
    return table


def chosen(table: Table, words: Words) -> Iterable[Rule]:
    """Return the rules that a text with these words may fit, each once."""
    unique = set(words.each)
    heads = table.heads.keys() & {word[:HEAD] for word in unique}
    rules = chain.from_iterable(table.heads[head] for head in heads)
    exact = chain.from_iterable(table.exact[word] for word in table.exact.keys() & unique)
    return dict.fromkeys(chain(rules, exact))
