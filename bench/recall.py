"""`python -m bench.recall`: what prompts are told of a memory, beside what they should be told.

`recall.yaml` has the entries of two teams and what people asked afterwards; the first is for
developing a rule, the second for judging it. Beside the product stand the search without its
threshold, plain FTS5 and a grep, each with its first three. Nothing here measures time.
"""

from __future__ import annotations

import os
import re
import sqlite3
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import yaml

import synapse
from bench.figures import line
from orchestrator.plugin.hooks.context import RECALLED
from orchestrator.prompts import render
from orchestrator.prompts.templates import Templates
from synapse.core import Memory
from synapse.index.full_text import terms
from synapse.model.agents import Agent
from synapse.model.entry import Entry
from synapse.system.tokens import DEFAULT
from synapse.testing import FrozenClock
from synapse.view import block, recall

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "recall.yaml")
COLUMNS = ("team", "rule", "found", "not wanted", "told what asks nothing", "tokens")
WRITER, READER = "writer", "lead"
# What was found and shown by the rule before this one: clause by clause, entries that hold at least
# half of a clause's weight, all of the words together first.
BEFORE = {"development": (13, 0, 0), "held_out": (16, 2, 0)}

Rule = Callable[[str], Sequence[str]]  # from a prompt, the ids of the entries that it is told


class Prompt(NamedTuple):
    """What a person asks, the entries that it wants told, and whether it asks anything."""

    text: str
    wanted: frozenset[str]
    asks: bool


class Figures(NamedTuple):
    """What one rule told: of so many wanted, how many; how many others; how many to prompts that
    ask nothing; and the tokens of all that was told, by the number of prompts.
    """

    found: int
    wanted: int
    others: int
    idle: int
    tokens: float


class Team:
    """The memory of one team, and what it is asked."""

    def __init__(self, fields: Mapping[str, Any]) -> None:
        clock = FrozenClock()
        memory = synapse.open("memory:", clock=clock)
        assert isinstance(memory, Memory)
        self.memory = memory
        for id in (WRITER, READER):
            self.memory.register(Agent(id, role="cto"))
        clock.advance("1s")
        writer = self.memory.as_agent(WRITER)
        self.entries: dict[str, Entry] = {}
        ids: dict[str, str] = {}
        for name, values in fields["entries"].items():
            entry = writer.append(values["text"], values["in"], priority=values["weight"])
            self.entries[entry.id], ids[name] = entry, entry.id
        self.prompts = [
            Prompt(
                item["ask"], frozenset(ids[name] for name in item["want"]), item.get("asks", True)
            )
            for item in fields["prompts"]
        ]

    def rules(self) -> dict[str, Rule]:
        return {
            "told": self._told,
            "search, first 3": self._searched,
            "FTS5, first 3": self._fts5(),
            "grep, first 3": self._grepped,
        }

    def measure(self, rule: Rule) -> Figures:
        """Return what a rule tells the prompts, each in a conversation that has nothing yet."""
        found = others = idle = tokens = 0
        for prompt in self.prompts:
            told = frozenset(rule(prompt.text))
            found += len(told & prompt.wanted)
            others += len(told - prompt.wanted)
            idle += 0 if prompt.asks else len(told)
            tokens += self._tokens(told)
        wanted = sum(len(prompt.wanted) for prompt in self.prompts)
        return Figures(found, wanted, others, idle, tokens / len(self.prompts))

    def _tokens(self, ids: frozenset[str]) -> int:
        """Return the tokens of these entries as a prompt is told them; 0 for none."""
        if not ids:
            return 0
        blocks = [block.whole(self.entries[id]) for id in sorted(ids)]
        reader = self.memory.store.agents.all()[READER]
        text = render.found(blocks, reader, b"x" * 32, Templates())
        return self.memory.store.index.tokens(DEFAULT).count_all([text])[0]

    def _told(self, prompt: str) -> list[str]:
        store = self.memory.store
        with store.snapshot(words=True) as snap:
            matches = recall.matches(snap, store.agents.get(READER), prompt, store.clock())
        return [match.entry.id for match in matches][:RECALLED]

    def _searched(self, prompt: str) -> list[str]:
        hits = self.memory.as_agent(READER).search(prompt, limit=RECALLED)
        return [hit.entry.id for hit in hits]

    def _fts5(self) -> Rule:
        db = sqlite3.connect(":memory:")
        db.execute("create virtual table texts using fts5(text, id unindexed, tokenize='porter')")
        rows = [(entry.body, entry.id) for entry in self.entries.values()]
        db.executemany("insert into texts values (?, ?)", rows)
        query = "select id from texts where texts match ? order by rank limit ?"

        def rule(prompt: str) -> list[str]:
            words = [f'"{word}"' for word in _words(prompt)]
            found = db.execute(query, (" OR ".join(words), RECALLED)) if words else ()
            return [id for (id,) in found]

        return rule

    def _grepped(self, prompt: str) -> list[str]:
        words = _words(prompt)
        counts = {
            id: sum(word in entry.body.lower() for word in words)
            for id, entry in self.entries.items()
        }
        best = sorted(filter(counts.__getitem__, counts), key=lambda id: -counts[id])
        return best[:RECALLED]


def _words(prompt: str) -> list[str]:
    """Return the words of a prompt without those that say nothing in any text."""
    words = dict.fromkeys(re.findall(r"[^\W_]+", prompt.lower()))
    return [word for word in words if word not in terms.STOP]


def teams() -> dict[str, Team]:
    with open(DATA, encoding="utf-8") as file:
        return {name: Team(fields) for name, fields in yaml.safe_load(file).items()}


def rows() -> Iterator[tuple[str, ...]]:
    """Yield the lines of the table."""
    for name, team in teams().items():
        for rule_name, rule in team.rules().items():
            figures = team.measure(rule)
            share = figures.found / figures.wanted
            yield (
                name,
                rule_name,
                f"{figures.found} of {figures.wanted} ({share:.0%})",
                f"{figures.others} ({figures.others / figures.wanted:.2f} for each wanted)",
                str(figures.idle),
                f"{figures.tokens:.0f}",
            )
        found, others, idle = BEFORE[name]
        yield name, "the rule before", f"{found}", f"{others}", str(idle), "–"


def main() -> int:
    print(f"{line(COLUMNS)}\n{'|---' * len(COLUMNS)}|")
    for row in rows():
        print(line(row))
    return 0


if __name__ == "__main__":
    sys.exit(main())
