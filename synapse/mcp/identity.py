"""The agent of a request: the same one for all, or the one of its token.

Opens the workspace when first asked.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock

from synapse.agent_memory import AgentMemory
from synapse.core import Memory
from synapse.errors import Forbidden, NotFound
from synapse.mcp.caller import Caller, Identify


class Opened:
    """A workspace that is opened by the first who asks, and tried again by the next where it
    could not be: a server may be started before its workspace is there, or is accepted."""

    def __init__(self, opens: Callable[[], Memory]) -> None:
        self._opens = opens
        self._lock = Lock()
        self._memory: Memory | None = None

    def memory(self) -> Memory:
        with self._lock:
            if self._memory is None or self._memory.store.outdated:
                self._memory = self._opens()
            return self._memory


def as_agent(opened: Opened, agent: str, run: str | None = None) -> Identify:
    """Return the identity of a server that acts as one agent, in a run (`RUN` or `RUN:EPOCH`) or
    in none."""
    agent_memories: list[AgentMemory] = []

    def identify(caller: Caller) -> AgentMemory:
        if not agent_memories:
            agent_memories.append(agent_memory_of(opened.memory(), agent, run))
        return agent_memories[0]

    return identify


def as_token(opened: Opened) -> Identify:
    """Return the identity of a server whose callers are who their tokens say."""

    def identify(caller: Caller) -> AgentMemory:
        if caller.agent is None:
            raise Forbidden(
                "the request has no token, so there is no agent to act as", action="act"
            )
        return opened.memory().as_agent(caller.agent)

    return identify


def agent_memory_of(memory: Memory, agent: str, run: str | None) -> AgentMemory:
    """Return an agent's agent memory, in the incarnation of a run that is current now unless one is
    named."""
    if run is None:
        return memory.as_agent(agent)
    name, colon, epoch = run.partition(":")
    if not colon:
        memory.store.refresh()
        with memory.store.snapshot() as snap:
            record = snap.run(name)
        if record is None:
            raise NotFound(f"there is no run {name}; `orchestrator ps` lists them", id=name)
        epoch = str(record["epoch"])
    elif not name or not (epoch.isascii() and epoch.isdigit()):
        raise Forbidden(f"run is {run!r}: write RUN, or RUN:EPOCH", action="act")
    mine = memory.as_agent(agent, run=name, epoch=int(epoch))
    mine.access.opens = True  # it answers a client, and no file of ours
    return mine
