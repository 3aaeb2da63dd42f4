"""The conversation that a request to the MCP server comes from, by what the session's hooks wrote
down.

A client starts one server for a session and its sub-agents, or one for each. Nothing that a model
writes decides who it is: the client's own id of the call or of its thread does, or its process.
Called by `mcp.py`.
"""

from __future__ import annotations

from collections.abc import Iterator

from orchestrator.plugin.sessions import state
from orchestrator.plugin.sessions.runs import ClientRuns
from orchestrator.plugin.sessions.settings import clients
from orchestrator.plugin.sessions.spawns import open_calls
from orchestrator.plugin.sessions.state import MAIN, ClientSession, Worker
from orchestrator.runs.files.lease import client_holder
from synapse.agent_memory import AgentMemory
from synapse.core import Memory
from synapse.mcp.caller import Caller


def agent_memory_of(
    memory: Memory, client: str, caller: Caller, pid: int, lead: str = ""
) -> AgentMemory:
    """Return the agent memory of the conversation that calls. Where no hook has told of one, it is
    the lead's, in no run: its client has no hooks that run.
    """
    memory.store.refresh()
    conversation = _worker(memory, client, caller, pid)
    if conversation is None:
        is_registered = lead in memory.store.agents.all()
        return memory.as_agent(
            lead if is_registered else clients(dict(memory.store.settings.other)).lead
        )
    session, worker = conversation
    workers = ClientRuns(memory, session)
    return (
        workers.agent_memory(worker)
        if workers.is_running(worker)
        else memory.as_agent(worker.agent)
    )


def _worker(
    memory: Memory, client: str, caller: Caller, pid: int
) -> tuple[ClientSession, Worker] | None:
    """Return the session and the worker of a call: by its thread, by its id, or by the client's
    process.
    """
    root, caller_id = memory.store.root or "", caller.session
    holder = client_holder(pid)
    candidates: list[tuple[ClientSession, Worker]] = []
    for session in _newest(root, client):
        main = session.workers.get(MAIN)
        if caller_id in session.workers and caller_id != MAIN:
            return session, session.workers[caller_id]
        key = session.calls.get(caller.call or "")
        # The id of a session that was emptied is all that a server of its process may know.
        is_own = caller_id in ("", session.session) or session.holder == holder
        if key in session.workers and is_own:
            return session, session.workers[key]
        if main is not None and caller_id == session.session:
            return session, main
        if main is not None and not caller_id and session.holder == holder:
            candidates.append((session, _at_work(memory, session) or main))
    return candidates[0] if len(candidates) == 1 else None


def _at_work(memory: Memory, session: ClientSession) -> Worker | None:
    """Return the sub-agent at work of a client whose sub-agents are calls: while one is, the main
    conversation waits for it. Of several, one of the least authority: nobody can say whose call it
    is.
    """
    agents = memory.store.agents.all()
    workers = [
        session.workers[spawn["agent"]]
        for spawn in open_calls(session)
        if spawn["agent"] in session.workers
    ]
    return min(workers, key=lambda worker: agents[worker.agent].authority or 0, default=None)


def _newest(root: str, client: str) -> Iterator[ClientSession]:
    """Yield the client's sessions, those first that were heard of last."""
    sessions = [session for _, session in state.stored_sessions(root) if session.client == client]
    yield from sorted(sessions, key=lambda session: -max(session.fired.values(), default=0.0))
