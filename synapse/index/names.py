"""What the index calls by numbers, and who may see what in those numbers.

Namespaces, authors and lists of addressees have numbers; an agent's reach is made of them. All of
it holds for one state of the names: when a name or a declaration comes, `Index` makes a new
`Names`. Namespaces are looked up in the index: there may be a hundred thousand of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence

from synapse.index.database import Database
from synapse.index.globs import EVERY, covering
from synapse.model.agents import MAIL, Agent, agent_from
from synapse.system.typed import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from synapse.model.keys import Keys

EVERYONE = -2  # the number under which the operator reads, who sees what anybody does
LISTED = 1_000  # so many namespaces stand in a statement by their numbers

# The numbers of namespaces; where they are more than that, SQL for the inside of `e.nid in (…)`.
Numbers = tuple[int, ...] | str


class Reach(NamedTuple):
    """What one agent may see, in the numbers of the index: namespaces, the lists that name it,
    itself.
    """

    nids: Numbers
    audiences: tuple[int, ...]
    me: int


class Names:
    """The names of one state of the index, with what was worked out from them."""

    def __init__(self, db: Database, version: Sequence[Any] | None = None) -> None:
        self.db = db
        self.version = version
        # Agents after namespaces: nobody is known whose places are not.
        self.last: int = db.run("last_namespace").fetchone()[0]
        self.declared = Declared(db.run("agents").fetchall())
        # the authors whose names hold a word
        self.pieces: dict[str, frozenset[int]] = {}
        self._keys: Keys | None = None
        self._contained: bool | None = None
        self._reaches: dict[Agent | None, Reach] = {}
        self._weights: dict[tuple[Reach, tuple[int, ...]], tuple[int, int, int]] = {}
        self._within: dict[tuple[str, ...], Numbers] = {}

    @property
    def keys(self) -> Keys | None:
        """Return the public keys that were registered; None where there never was one."""
        if self._keys is None and (self.version is None or self.version[-1]):
            from synapse.model.keys import Keys

            self._keys = Keys((seq, json.loads(fields)) for seq, fields in self.db.run("keys"))
        return self._keys if self._keys and self._keys.last else None

    def reach(self, agent: Agent | None) -> Reach:
        """Return what an agent may see; None is the operator."""
        reach = self._reaches.get(agent)
        if reach is None:
            reach = self._reaches[agent] = self._reach(agent)
        return reach

    def _reach(self, agent: Agent | None) -> Reach:
        lists = self.db.run("audiences").fetchall()
        if agent is None:
            everywhere = self.covered(("*",))
            return Reach(everywhere, tuple(number for number, _ in lists), EVERYONE)
        nids = self.covered(agent.reads)
        names = agent.names
        audiences = tuple(
            number for number, listed in lists if not names.isdisjoint(listed.split(" "))
        )
        return Reach(nids, audiences, self.author(agent.id))

    @property
    def contained(self) -> bool:
        """Return whether anything was ever tainted: where nothing was, no entry is looked up."""
        if self._contained is None:
            self._contained = self.db.run("any_taint").fetchone() is not None
        return self._contained

    def author(self, name: str) -> int:
        """Return the number of an author, -1 where nothing is from it."""
        row = self.db.run("aid_of", {"name": name}).fetchone()
        return -1 if row is None else row[0]

    def within(self, globs: tuple[str, ...]) -> Numbers:
        """Return the namespaces that the globs cover; mail is among them only where it is named."""
        numbers = self._within.get(globs)
        if numbers is None:
            with_mail = any(glob.startswith(MAIL) for glob in globs)
            numbers = self._within[globs] = self.covered(globs or ("*",), with_mail)
        return numbers

    def covered(self, globs: tuple[str, ...], with_mail: bool = True) -> Numbers:
        """Return the namespaces that one of the globs covers."""
        condition = covering(globs)
        if not with_mail:
            condition = f"({condition}) and name <> '{MAIL}'"
        values = {"last": self.last, "limit": LISTED + 1}
        nids = [nid for (nid,) in self.db.run("covered", values, names=condition)]
        if len(nids) <= LISTED:
            return tuple(sorted(nids))
        if condition == EVERY:
            return "e.nid"
        return f"select nid from namespaces where ({condition}) and nid <= {self.last}"

    def number(self, name: str) -> int:
        """Return the number of a namespace, -1 where nothing stands in it."""
        row = self.db.run("nid_of", {"name": name}).fetchone()
        return -1 if row is None else row[0]

    def weights(self, reach: Reach, prios: tuple[int, ...]) -> tuple[int, int, int]:
        """Return how many entries there are of these priorities, and in the agent's namespaces,
        mail left out; and how many messages.
        """
        counts = self._weights.get((reach, prios))
        if counts is None:
            values, lists = {"mail": self.number(MAIL)}, {"nids": reach.nids}
            row = self.db.run("lane_counts", values, prios=prios, **lists).fetchone()
            counts = self._weights[reach, prios] = row
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
