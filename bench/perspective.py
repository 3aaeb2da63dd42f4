"""`python -m bench.perspective FOLDER`: whether each agent of a team is given the pieces that it
needs.

FOLDER holds scenarios of PerspectiveGap (MIT, no part of this project): a team, pieces of text, and
the pieces that each role needs. A lead writes each piece as an important entry; each role is
spawned with its name and the team's description as its task, and its view may take half of the
tokens of all pieces. Beside the product stand fillings of the same room: at random, the shortest
first, by plain FTS5, by a grep, and by the answer key. Scenarios of one structure are one family;
each second family is held out. Nothing here measures time.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import sqlite3
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import yaml

import synapse
from bench.figures import line
from orchestrator.prompts import selection
from synapse.core import Memory
from synapse.index.full_text import terms
from synapse.model.agents import Agent
from synapse.privacy import personal
from synapse.testing import FrozenClock
from synapse.view.view import View

LEAD, PROJECT = "lead", "pipeline"
SEEDS = 20  # random orders of each role's pieces
DRAWS = 2_000  # of an interval
COLUMNS = (
    "rule",
    "roles",
    "needed and there",
    "against random [95 %]",
    "of what is there, needed",
    "of all tokens",
)
HALVES = ("development", "held-out")


class Role(NamedTuple):
    """An agent that is spawned: its task, the ids of what it needs, what each entry takes in its
    view, and the room that there is for entries.
    """

    agent: str
    task: str
    needed: frozenset[str]
    sizes: Mapping[str, int]
    frame: int

    @property
    def room(self) -> int:
        return sum(self.sizes.values()) // 2

    def share(self, ids: Iterable[str]) -> float:
        """Return the share of all entries' tokens that these take."""
        return sum(map(self.sizes.__getitem__, ids)) / sum(self.sizes.values())

    def filled(self, order: Sequence[str]) -> frozenset[str]:
        """Return the entries that fit, in this order."""
        room, chosen = self.room, []
        for id in order:
            if self.sizes[id] <= room:
                room -= self.sizes[id]
                chosen.append(id)
        return frozenset(chosen)


Rule = Callable[["Scenario", Role], frozenset[str]]


class Scenario:
    """One team: its memory, with a piece of text in each entry, and its roles."""

    def __init__(self, name: str, text: str) -> None:
        _, head, rest = text.split("---\n", 2)
        fields = yaml.safe_load(head)
        parts = dict(part.split("\n", 1) for part in re.split(r"(?m)^# ", rest)[1:])
        about = parts.pop("background").strip()
        self.name = name
        self.structure = tuple(
            tuple(sorted(needed)) for needed in fields["reference_need_sets"].values()
        )
        clock = FrozenClock()
        memory = synapse.open("memory:", clock=clock)
        assert isinstance(memory, Memory)
        self.memory = memory
        memory.register(Agent(LEAD, role="cto"))
        agents = {
            role: re.sub(r"[^a-z0-9]+", "-", role.lower()) for role in fields["reference_need_sets"]
        }
        for agent in agents.values():
            memory.register(Agent(agent, role="specialist", projects=(PROJECT,)))
        clock.advance("1s")
        writer, ids = memory.as_agent(LEAD), {}
        self.bodies: dict[str, str] = {}
        for heading, body in parts.items():
            piece, title = heading.split(": ", 1)
            text = personal.concealed(f"{title}\n\n{body.strip()}")  # else it may be refused
            entry = writer.append(text, f"projects/{PROJECT}", priority="important")
            ids[piece] = entry.id
            self.bodies[entry.id] = entry.body
        self.roles = [
            self._role(agents[role], f"You are the {role}.\n\n{about}", [ids[n] for n in needed])
            for role, needed in fields["reference_need_sets"].items()
        ]

    def _role(self, agent: str, task: str, needed: Sequence[str]) -> Role:
        view = self.memory.as_agent(agent).briefing(about=task)
        sizes = {entry.id: entry.tokens for entry in view.included}
        return Role(agent, task, frozenset(needed), sizes, view.tokens - sum(sizes.values()))

    def view(self, role: Role) -> View:
        """Return what the product shows in this room."""
        budget = role.frame + role.room
        return self.memory.as_agent(role.agent).briefing(budget, about=role.task)


def product(scenario: Scenario, role: Role) -> frozenset[str]:
    return frozenset(scenario.view(role).shown)


def automatic(scenario: Scenario, role: Role) -> frozenset[str]:
    """Return what the product shows where no number of tokens is asked for."""
    worth = selection.worth(selection.stated("specialist"))
    agent = scenario.memory.as_agent(role.agent)
    return frozenset(agent.briefing(about=role.task, worth=worth).shown)


def shortest(scenario: Scenario, role: Role) -> frozenset[str]:
    return role.filled(sorted(role.sizes, key=role.sizes.__getitem__))


def fts5(scenario: Scenario, role: Role) -> frozenset[str]:
    db = sqlite3.connect(":memory:")
    db.execute("create virtual table texts using fts5(text, id unindexed, tokenize='porter')")
    db.executemany(
        "insert into texts values (?, ?)", [(body, id) for id, body in scenario.bodies.items()]
    )
    asked = " OR ".join(f'"{word}"' for word in _words(role.task))
    rows = db.execute("select id from texts where texts match ? order by rank", (asked,))
    found = [id for (id,) in rows]
    return role.filled([*found, *(role.sizes.keys() - found)])


def grep(scenario: Scenario, role: Role) -> frozenset[str]:
    words = _words(role.task)
    counts = {
        id: sum(word in body.lower() for word in words) for id, body in scenario.bodies.items()
    }
    return role.filled(sorted(role.sizes, key=counts.__getitem__, reverse=True))


def answer_key(scenario: Scenario, role: Role) -> frozenset[str]:
    key = [id for id in role.sizes if id in role.needed]
    return role.filled(sorted(key, key=role.sizes.__getitem__))


RULES: dict[str, Rule] = {
    "the view": product,
    "the shortest first": shortest,
    "FTS5 by the task": fts5,
    "grep of the task": grep,
    "the answer key": answer_key,
    "the view, its own size": automatic,
}


def _words(text: str) -> list[str]:
    words = dict.fromkeys(re.findall(r"[^\W_]+", text.lower()))
    return [word for word in words if word not in terms.STOP]


def by_chance(scenario: Scenario) -> float:
    """Return the share of needed entries that random orders bring, the mean over the roles."""
    shares = []
    for role in scenario.roles:
        for seed in range(SEEDS):
            order = sorted(role.sizes)
            random.Random(f"{scenario.name} {role.agent} {seed}").shuffle(order)
            shares.append(_share(role.filled(order), role.needed))
    return _mean(shares)


def _share(part: frozenset[str], of: frozenset[str]) -> float:
    return len(part & of) / len(of) if of else 1.0


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def interval(differences: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % interval of a mean over scenarios, by drawing them again."""
    draws = random.Random(0)
    means = sorted(_mean(draws.choices(differences, k=len(differences))) for _ in range(DRAWS))
    return means[int(0.025 * DRAWS)], means[int(0.975 * DRAWS)]


def halves(scenarios: Sequence[Scenario]) -> dict[str, list[Scenario]]:
    """Return the scenarios of each half: each second structure, in their order, is held out."""
    structures = list(dict.fromkeys(scenario.structure for scenario in scenarios))
    return {
        half: [item for item in scenarios if structures.index(item.structure) % 2 == n]
        for n, half in enumerate(HALVES)
    }


def rows(scenarios: Sequence[Scenario]) -> Iterator[tuple[str, ...]]:
    """Yield the lines of the table of these scenarios."""
    chance = [by_chance(scenario) for scenario in scenarios]
    count = sum(len(scenario.roles) for scenario in scenarios)
    yield "at random", str(count), f"{_mean(chance):.3f}", "", "", ""
    for name, rule in RULES.items():
        shares, precise, tokens = [], [], []
        for scenario in scenarios:
            shown = [(role, rule(scenario, role)) for role in scenario.roles]
            shares.append(_mean([_share(got, role.needed) for role, got in shown]))
            precise += [_share(role.needed, got) for role, got in shown if got]
            tokens += [role.share(got) for role, got in shown]
        differences = [share - random for share, random in zip(shares, chance, strict=True)]
        low, high = interval(differences)
        yield (
            name,
            str(count),
            f"{_mean(shares):.3f}",
            f"{_mean(differences):+.3f} [{low:+.3f}, {high:+.3f}]",
            f"{_mean(precise):.3f}" if precise else "",
            f"{_mean(tokens):.2f}",
        )


def load(folder: str) -> list[Scenario]:
    names = sorted(name for name in os.listdir(folder) if name.endswith(".md"))
    scenarios = []
    for name in names:
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            scenarios.append(Scenario(name, file.read()))
    return scenarios


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.perspective", description=__doc__)
    parser.add_argument("folder", help="the folder of the scenarios, *.md")
    parser.add_argument("--half", choices=HALVES, default=HALVES[0])
    options = parser.parse_args(arguments)
    scenarios = halves(load(options.folder))[options.half]
    print(f"{options.half}: {len(scenarios)} scenarios\n")
    print(f"{line(COLUMNS)}\n{'|---' * len(COLUMNS)}|")
    for row in rows(scenarios):
        print(line(row))
    return 0


if __name__ == "__main__":
    sys.exit(main())
