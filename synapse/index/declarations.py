"""The agents as the index has them: as they were last journalled, whatever their files say now."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping

from synapse.model.agents import Agent, Skill, settled
from synapse.system.typed import Any


class Declared(Mapping[str, Agent]):
    """The agents as journalled, each made from its record when it is asked for: a seat needs but
    its own.
    """

    def __init__(self, rows: Iterable[tuple[str, str]]) -> None:
        self.rows = dict(rows)
        self.made: dict[str, Agent] = {}

    def __getitem__(self, id: str) -> Agent:
        if id not in self.made:
            self.made[id] = agent_from(json.loads(self.rows[id]))
        return self.made[id]

    def sha(self, id: str) -> str | None:
        """The digest of the file that declares the agent, where the record says it."""
        sha: str | None = json.loads(self.rows.get(id, "{}")).get("sha")
        return sha

    def __iter__(self) -> Iterator[str]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)


def agent_from(fields: dict[str, Any]) -> Agent:
    """The agent that a record declares."""
    known = {name: value for name, value in fields.items() if name in Agent._fields}
    skills = tuple(
        Skill(*skill) if isinstance(skill, list) else skill
        for skill in known.get("skills") or ()
    )
    return settled(
        Agent(**known)._replace(
            skills=tuple(s._replace(namespaces=tuple(s.namespaces)) for s in skills)
        )
    )
