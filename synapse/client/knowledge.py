"""`RemoteKnowledge`: facts, atoms, links, trails and times of a server, as the token's agent."""

from __future__ import annotations

from synapse.acts import knowledge as acts
from synapse.client.remote import remote
from synapse.client.session import Session


class RemoteKnowledge:
    """What an agent knows, on a server."""

    def __init__(self, agent_memory: Session) -> None:
        self.agent_memory = agent_memory

    remember = remote(acts.remember)
    atom = remote(acts.atom)
    link = remote(acts.link)
    links_of = remote(acts.links_of)
    forget = remote(acts.forget)
    why = remote(acts.why)
    recall = remote(acts.recall)
    recent = remote(acts.recent)
    agent_acts = remote(acts.agent_acts)
    timeline = remote(acts.timeline)
