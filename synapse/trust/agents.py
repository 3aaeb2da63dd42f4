"""The agents of a workspace as its journal declares them: all, one with the standing that its
reputation gives it, and the error for one that there is none of. Writes nothing by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from synapse.errors import NotFound
from synapse.index.index import UNKNOWN, Index
from synapse.index.reading import Reading
from synapse.log.accepted import FOREIGN_WORKSPACE
from synapse.model.agents import Agent
from synapse.system.typed import TYPE_CHECKING
from synapse.trust.operator_files import OperatorFiles

if TYPE_CHECKING:
    from synapse.model.keys import Keys


class Agents:
    """The registered agents of one workspace. An edit of a file counts from the moment that it was
    noticed.
    """

    def __init__(
        self,
        index: Index,
        files: OperatorFiles,
        notice: Callable[[], None],
        refresh: Callable[[], None],
    ) -> None:
        self.index = index
        self.files = files
        self._notice = notice  # takes in the operator's files
        self._refresh = refresh  # takes in all that people changed
        self._shifts: tuple[object, Mapping[str, int]] = (None, {})

    def all(self) -> Mapping[str, Agent]:
        """Return the agents by their ids, as journalled."""
        self._refresh()
        with Reading(self.index) as snap:
            return snap.declared

    def get(self, id: str) -> Agent | None:
        """Return one agent as it stands, for its memory. Does not wait for the index: declarations
        change rarely, and were noticed a moment ago.
        """
        self._notice()
        declared = self.index.current.declared.get(id)
        if declared is None or self.index.current.mark == UNKNOWN:
            with Reading(self.index) as snap:
                declared = snap.declared.get(id)
        return self.standing(declared) if declared else None

    @property
    def keys(self) -> Keys | None:
        """Return the public keys of the agents; None where no agent ever had one."""
        return self.index.current.names.keys

    def standing(self, agent: Agent) -> Agent:
        """Return the agent with the shift of its reputation, where reputation counts here."""
        if self.files.settings.reputation != "on" and not agent.shift:
            return agent
        shift = self.shift(agent.id)
        return agent if shift == agent.shift else agent._replace(shift=shift)

    def shift(self, id: str) -> int:
        """Return by how much reviews moved the authority of an agent."""
        if self.files.settings.reputation != "on":
            return 0
        snap = self.index.current
        if self._shifts[0] != snap.names.version:
            from synapse.index.questions import outcomes

            self._shifts = snap.names.version, outcomes.shifts(snap)
        return self._shifts[1].get(id, 0)

    def unregistered(self, id: str) -> NotFound:
        """Return the error for an agent that there is none of: the problems of its file, or the
        name that may have been meant.
        """
        from synapse.system.spelling import closest

        if self.files.log is not None and not self.files.log.accepted.known:
            return NotFound(f"agent {id} counts for nothing here: {FOREIGN_WORKSPACE}", id=id)
        close = closest(id, self.index.current.declared)
        if texts := self.files.complaints.get(f"agents/{id}.yaml"):
            return NotFound(
                f"agent {id} is not registered: agents/{id}.yaml: {'; '.join(texts)}", id=id
            )
        if close:
            meant = f"did you mean {close}? `synapse agents` lists those that are"
        else:
            command = f"`synapse register --id {id} --role engineer`"
            meant = f"register it: memory.register(Agent({id!r})), or {command}"
        return NotFound(f"agent {id} is not registered; {meant}", id=id)
