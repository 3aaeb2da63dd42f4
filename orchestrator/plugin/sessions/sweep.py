"""The end of runs whose client is gone without a word, or has emptied their conversation. Called by
the daemon, and by each start.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from orchestrator.plugin.sessions import state
from orchestrator.plugin.sessions.runs import HOST, ClientRuns
from orchestrator.plugin.sessions.state import MAIN, ClientSession
from orchestrator.runs.files.lease import lives
from orchestrator.runs.records import Run, Runs
from synapse.core import Memory
from synapse.errors import StoreBusy, SynapseError

GONE, QUIET = "its client is gone", "nothing was heard of it for 12 hours"
# A client whose server outlives its windows never says that one was closed.
IDLE = 12 * 3_600  # seconds


def sweep(memory: Memory) -> list[str]:
    """End the runs of clients that are gone, and return their ids.

    Looks only at the sessions that have running runs: it is called often, and there are files of
    many sessions that are over.
    """
    root, ended = memory.store.root or "", list[str]()
    running = Runs(memory.store).all(state="running")
    attached = [run for run in running if run.fields.get("attached")]
    sessions = {(str(run.fields["engine"]), str(run.fields["attached"])) for run in attached}
    for client, id in sorted(sessions):
        session = state.load(state.path_of(root, client, id))
        runs: list[str] = []
        if session is not None:
            runs = [worker.run for worker in session.workers.values()]
            with suppress(SynapseError):
                ended += _end_session(memory, session)
        ended += _end_lost(
            memory,
            [
                run
                for run in attached
                if (run.fields["engine"], run.fields["attached"]) == (client, id)
                and run.id not in runs
            ],
        )
    return ended


def end_emptied(client_runs: ClientRuns, holder: str) -> None:
    """End the conversation that a client has emptied: the session's own, or the only one that this
    holder has, where its client goes on under another id and may tell of the end later. Its agent
    is free for the new one.
    """
    session, root = client_runs.session, client_runs.root
    if MAIN in session.workers:
        client_runs.end_all(session.client)
    elif holder:
        open_sessions = [
            stored
            for _, stored in state.stored_sessions(root)
            if (stored.client, stored.holder) == (session.client, holder)
            and any(map(client_runs.is_running, stored.workers.values()))
        ]
        if len(open_sessions) == 1:
            client, id = session.client, open_sessions[0].session
            # where it is held for long, its own end is under way
            with suppress(StoreBusy), state.hold_session(root, client, id) as emptied:
                ClientRuns(client_runs.memory, emptied).end_all(client)
    client_runs.store.refresh()  # so that another run begins


def _end_session(memory: Memory, stored: ClientSession) -> list[str]:
    """End the runs of a session whose client is gone or long silent, and return their ids."""
    root = memory.store.root or ""
    is_idle = time.time() - max(stored.fired.values(), default=0.0) > IDLE
    is_here = _is_here(root, stored.holder, stored.host)
    if not stored.holder or (is_here and not is_idle):
        return []
    with state.hold_session(root, stored.client, stored.session) as session:
        client_runs = ClientRuns(memory, session)
        workers = filter(client_runs.is_running, session.workers.values())
        running = [worker.run for worker in workers]
        is_gone = not _is_here(root, session.holder, session.host)
        if running and (is_gone or is_idle):
            reason = GONE if is_gone else QUIET
            client_runs.end_all(session.client, "stopped", reason)
            return running
    return []


def _is_here(root: str, holder: str, host: str) -> bool:
    """Tell whether a session's client is there, as far as that can be known: the processes of
    another machine or container that shares the workspace cannot be seen.
    """
    return host not in ("", HOST) or lives(root, holder)


def _end_lost(memory: Memory, runs: Sequence[Run]) -> list[str]:
    """End those of these runs whose client is gone; no session's file knows them. Return their
    ids.
    """
    root, ended = memory.store.root or "", []
    for run in runs:
        if run.fields.get("host") == HOST and not lives(root, run.holder or ""):
            with suppress(SynapseError):  # somebody else ended it
                end: dict[str, Any] = {"summary": "", "why": GONE, "debt": [], "entry": None}
                Runs(memory.store).end(run, "stopped", **end)
                ended.append(run.id)
    return ended
