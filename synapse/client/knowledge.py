"""`RemoteKnowledge`: facts, atoms, links, trails and times of a server, as the token's agent.

The methods are the functions of `synapse.knowledge` and `synapse.history`, without their first
argument.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from synapse.client.arguments import Names, moment, path, several
from synapse.client.session import Session
from synapse.history.timeline import Moment
from synapse.index.questions.links import Link
from synapse.knowledge.capsule import Capsule
from synapse.knowledge.provenance import DEPTH, Step
from synapse.model.dates import When
from synapse.model.entry import Entry, addressees, words
from synapse.system.checks import checked
from synapse.system.typed import Any
from synapse.wire import parse

ALL = 1_000_000  # moments, where no limit is given


@checked
class RemoteKnowledge:
    """What an agent knows, on a server."""

    def __init__(self, agent_memory: Session) -> None:
        self.agent_memory = agent_memory
        self.transport = agent_memory.transport

    def remember(
        self,
        fact: str,
        *,
        scope: str = "agent",
        categories: Names = (),
        importance: float = 1.0,
        confidence: float = 1.0,
        ttl: str | None = None,
        cites: Names = (),
        supersedes: Names = (),
        source: str = "agent",
        to: Names = "all",
        once: str | None = None,
    ) -> Entry:
        """Keep a fact for oneself, a group or everybody."""
        form = {
            "fact": fact,
            "scope": scope,
            "categories": list(words(categories)),
            "importance": importance,
            "confidence": confidence,
            "ttl": ttl,
            "cites": list(words(cites)),
            "supersedes": list(words(supersedes)),
            "source": source,
            "to": list(addressees(to)),
        }
        return parse.entry(self.transport.post("/v1/facts", form, once))

    def atom(
        self,
        subject: str,
        action: str,
        outcome: str,
        consequences: str = "",
        *,
        scope: str = "agent",
        confidence: float = 1.0,
        cites: Names = (),
        source: str = "agent",
        to: Names = "all",
        once: str | None = None,
    ) -> Entry:
        """Keep a unit of cause and effect."""
        form = {
            "subject": subject,
            "action": action,
            "outcome": outcome,
            "consequences": consequences,
            "scope": scope,
            "confidence": confidence,
            "cites": list(words(cites)),
            "source": source,
            "to": list(addressees(to)),
        }
        return parse.entry(self.transport.post("/v1/atoms", form, once))

    def link(self, cause: str, effect: str, type: str = "causes", strength: float = 0.5) -> Link:
        """Say what one atom does to another."""
        form = {"cause": cause, "effect": effect, "type": type, "strength": strength}
        return parse.fields(Link, self.transport.post_once("/v1/links", form))

    def links_of(self, id: str) -> list[Link]:
        """Return the links from and to an atom, if this agent may see both ends."""
        answer = self.transport.get(path("atoms", self.agent_memory.known(id), "links"))
        return [parse.fields(Link, form) for form in answer["links"]]

    def forget(self, id: str, reason: str | None = None, *, once: str | None = None) -> Entry:
        """Take a fact or an atom out of everything that is shown. It stays in the log."""
        url = path("knowledge", self.agent_memory.known(id), "forget")
        return parse.entry(self.transport.post(url, {"reason": reason}, once))

    def why(self, id: str, depth: int = DEPTH) -> Step:
        """Return the whole trail of an item or a run, as far as this agent may see it."""
        url = path("why", self.agent_memory.known(id))
        return _step(self.transport.get(url, depth=depth))

    def recall(
        self, query: str, scope: str = "all", top_k: int = 5, max_capsule_bytes: int = 2_048
    ) -> Capsule:
        """Return the facts, entries and messages that answer best, as text within a limit of
        bytes."""
        form = self.transport.get(
            "/v1/recall", q=query, scope=scope, top_k=top_k, max_capsule_bytes=max_capsule_bytes
        )
        entries = tuple(parse.entries(form["shown"]))
        return parse.fields(Capsule, {**form, "shown": entries})

    # -- times -------------------------------------------------------------------------------------

    def recent(
        self, since: When = "24h", kinds: Iterable[str] = (), limit: int | None = 50
    ) -> list[Moment]:
        """Return what was written lately, of all kinds or of some, newest first."""
        return self._moments(
            "/v1/recent", since=moment(since), kind=several(tuple(kinds)), limit=limit
        )

    def agent_acts(self, agent: str, since: When = None, limit: int = 0) -> list[Moment]:
        """Return what an agent wrote, decided and ran."""
        url = path("agents", self.agent_memory.known(agent), "acts")
        return self._moments(url, since=moment(since), limit=limit)

    def timeline(self, project: str, since: When = None, limit: int | None = None) -> list[Moment]:
        """Return the plans, decisions, blockers and runs of a project."""
        url = path("timeline", self.agent_memory.known(project))
        return self._moments(url, since=moment(since), limit=limit)

    def _moments(self, place: str, limit: int | None, **asked: Any) -> list[Moment]:
        most = ALL if limit is None else limit
        answer = self.transport.get(place, limit=most, **asked)
        return [parse.fields(Moment, form) for form in answer["moments"]]


def _step(form: Mapping[str, Any]) -> Step:
    sources = tuple(_step(source) for source in form["sources"])
    return parse.fields(Step, {**form, "sources": sources})
