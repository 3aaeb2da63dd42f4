"""What the index calls by numbers, and who may see what in those numbers.

Namespaces, authors and lists of addressees have numbers; an agent's reach is made of them. All of
it holds for one state of the names: when a name or a declaration comes, `Index` makes a new
`Names`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping

from synapse.index.database import Database
from synapse.model import namespace as ns
from synapse.model.agents import MAIL, Agent, Skill, settled
from synapse.system.typed import Any, NamedTuple

EVERYONE = -2  # the number under which the operator reads, who sees what anybody does


class Reach(NamedTuple):
    """What one agent may see, in the numbers of the index: namespaces, the lists that name it,
    itself.
    """

    nids: tuple[int, ...]
    audiences: tuple[int, ...]
    me: int


class Names:
    """The names of one state of the index, with what was worked out from them."""

    def __init__(self, db: Database, version: object = None) -> None:
        self.db = db
        self.version = version
        # Agents after namespaces: nobody is known whose places are not.
        self.namespaces: dict[str, int] = {
            name: nid for nid, name in db.run("namespaces")
        }
        self.declared = Declared(db.run("agents").fetchall())
        self.pieces: dict[
            str, frozenset[int]
        ] = {}  # the authors whose names hold a word
        self.common: dict[
            tuple[int, str], int
        ] = {}  # by size of the store: entries with a word
        self._reaches: dict[Agent | None, Reach] = {}
        self._weights: dict[tuple[Reach, tuple[int, ...]], tuple[int, int, int]] = {}
        self._within: dict[tuple[str, ...], tuple[int, ...]] = {}

    def reach(self, agent: Agent | None) -> Reach:
        """Return what an agent may see; None is the operator."""
        reach = self._reaches.get(agent)
        if reach is None:
            reach = self._reaches[agent] = self._reach(agent)
        return reach

    def _reach(self, agent: Agent | None) -> Reach:
        lists = self.db.run("audiences").fetchall()
        if agent is None:
            everywhere = tuple(self.namespaces.values())
            return Reach(everywhere, tuple(number for number, _ in lists), EVERYONE)
        nids = tuple(
            nid
            for name, nid in self.namespaces.items()
            if ns.matches_any(agent.reads, name)
        )
        names = agent.names
        audiences = tuple(
            number
            for number, listed in lists
            if not names.isdisjoint(listed.split(" "))
        )
        return Reach(nids, audiences, self.author(agent.id))

    def author(self, name: str) -> int:
        """Return the number of an author, -1 where nothing is from it."""
        row = self.db.run("aid_of", {"name": name}).fetchone()
        return -1 if row is None else row[0]

    def within(self, globs: tuple[str, ...]) -> tuple[int, ...]:
        """Return the namespaces that the globs cover; mail is among them only where it is named."""
        numbers = self._within.get(globs)
        if numbers is None:
            with_mail = any(glob.startswith(MAIL) for glob in globs)
            numbers = tuple(
                nid
                for name, nid in self.namespaces.items()
                if (not globs or ns.matches_any(globs, name))
                and (with_mail or name != MAIL)
            )
            self._within[globs] = numbers
        return numbers

    def weights(self, reach: Reach, prios: tuple[int, ...]) -> tuple[int, int, int]:
        """Return how many entries there are of these priorities, and in the agent's namespaces,
        mail left out; and how many messages.
        """
        counts = self._weights.get((reach, prios))
        if counts is None:
            mail = self.namespaces.get(MAIL)
            total = mine = messages = 0
            for nid, prio, number in self.db.run("lane_counts"):
                if prio not in prios:
                    continue
                if nid == mail:
                    messages += number
                    continue
                total += number
                mine += number if nid in reach.nids else 0
            counts = self._weights[reach, prios] = total, mine, messages
        return counts


class Declared(Mapping[str, Agent]):
    """The agents as journalled, each made from its record when it is asked for: an agent memory
    needs but its own.
    """

    def __init__(self, rows: Iterable[tuple[str, str]]) -> None:
        self.rows = dict(rows)
        self.made: dict[str, Agent] = {}

    def __getitem__(self, id: str) -> Agent:
        if id not in self.made:
            self.made[id] = agent_from(json.loads(self.rows[id]))
        return self.made[id]

    def sha(self, id: str) -> str | None:
        """Return the digest of the file that declares the agent, where the record says it."""
        sha: str | None = json.loads(self.rows.get(id, "{}")).get("sha")
        return sha

    def __iter__(self) -> Iterator[str]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)


def agent_from(fields: dict[str, Any]) -> Agent:
    """Return the agent that a record declares."""
    values = {name: value for name, value in fields.items() if name in Agent._fields}
    skills = tuple(
        Skill(*skill) if isinstance(skill, list) else skill
        for skill in values.get("skills") or ()
    )
    return settled(
        Agent(**values)._replace(
            skills=tuple(s._replace(namespaces=tuple(s.namespaces)) for s in skills)
        )
    )
