"""The idle sessions that have to be woken, and the entries for it: those that no hook has given.

`watch` asks for the session that started it. The daemon asks for all sessions whose client is woken
from outside, by its module `CLIENT.py` in this folder. An entry wakes a session once; the hooks of
the turn that begins give its text.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, NamedTuple

from orchestrator.plugin import facts
from orchestrator.plugin.facts import Facts
from orchestrator.plugin.install import record
from orchestrator.plugin.sessions import state
from orchestrator.plugin.sessions.news import read_news, waiting_news
from orchestrator.plugin.sessions.settings import clients
from orchestrator.plugin.sessions.state import MAIN, ClientSession
from orchestrator.runs.files.lease import client_pid, lives
from orchestrator.sessions.wake import NOW, standing
from synapse.core import Memory
from synapse.model.entry import Entry

BUSY = 10.0  # seconds that a session in the middle of a turn has to be told by its own hooks
SPACING = 6.0  # seconds between two wakes of a session: ten in a minute, as everywhere
IDLE = ("start", "stop", "end")  # events after which a session waits
DROPS = ("openclaw",)  # clients whose plugin takes a wake as a file in its folder
MOST = 3  # times that a wake which came to nothing is tried


class Wake(NamedTuple):
    """A session that is to be woken, and the entries that it is for."""

    root: str
    client: str
    session: str
    folder: str
    pid: int | None
    entries: tuple[Entry, ...]

    def send(self, env: Mapping[str, str]) -> bool:
        """Wake it, by what its client has for that; whether it was given the line."""
        module: Any = import_module(module_of(self.client))
        folders = (
            _plugin_folders(self.root, self.client, env) if self.client in DROPS else [self.folder]
        )
        text = line(self.entries)
        return any(module.wake(self.session, text, folder, env, pid=self.pid) for folder in folders)


def _plugin_folders(root: str, client: str, env: Mapping[str, str]) -> list[str]:
    """Return where a client's plugin lies: that of the workspace, and that of all projects."""
    home = env.get("HOME") or os.path.expanduser("~")
    folders = (record.plugin_folder(goal, client, env, home) for goal in (root, None))
    return [folder for folder in folders if os.path.isdir(folder)]


def due(memory: Memory, session: ClientSession) -> list[Entry]:
    """Return the entries that wake the main conversation's agent and that it was not given.

    The session is a copy: its hooks still give all of its news.
    """
    worker, store = session.workers.get(MAIN), memory.store
    if worker is None:
        return []
    store.refresh()
    agent = store.agents.all().get(worker.agent)
    if agent is None:
        return []
    settings = clients(dict(store.settings.other))
    agent = agent.joined(settings.project_of(store.root or ""))
    news, _ = read_news(store, worker, agent, woken=True)
    news += waiting_news(store, worker)
    urgent = [item for item in news if item.tier == NOW]
    return standing(store, urgent, agent) if urgent else []


def in_turn(client_facts: Facts, session: ClientSession) -> bool:
    """Return whether the newest event is of the middle of a turn, whose hooks tell what there
    is.
    """
    newest = max(session.fired, key=lambda hook: session.fired[hook], default="")
    event_facts = client_facts.events.get(newest)
    return event_facts is not None and event_facts.name not in IDLE


def line(entries: Sequence[Entry]) -> str:
    """Return the line that wakes: which entries, of whom. Their text is told by the turn's hook,
    fenced; here stands nothing that somebody wrote.
    """
    first = entries[0]
    more = f", and {len(entries) - 1} more" if len(entries) > 1 else ""
    return (
        f"Shared memory: {first.priority} entry {first.id} from {first.author} in"
        f" {first.namespace}{more}. "
        f"Its text is given beside this; else: synapse read {first.id}"
    )


def module_of(client: str) -> str:
    """Return the name of the module that wakes a client's sessions from outside."""
    return f"orchestrator.plugin.wakes.{client.replace('-', '_')}"


class Wakes:
    """The wakes of one workspace, as its daemon makes them."""

    def __init__(self, memory: Memory) -> None:
        self.memory, self.root = memory, memory.store.root or ""
        # by session, the entries that it was woken for
        self._woken: dict[str, set[str]] = {}
        # by session and entry, how often that came to nothing
        self._tries: dict[str, int] = {}
        self._at: dict[str, float] = {}
        self._noticed: dict[str, float] = {}
        self._looked: object = None

    def due(self) -> list[Wake]:
        """Return the sessions that are to be woken now. Looks where the log has grown, or somebody
        waits.
        """
        position, now = self.memory.store.log.mark(), time.monotonic()
        if position == self._looked and not self._noticed:
            return []
        self._looked, noticed, wakes = position, dict[str, float](), []
        for _, session in state.stored_sessions(self.root):
            key = f"{session.client} {session.session}"
            entries = [
                entry
                for entry in self._entries(session)
                if entry.id not in self._woken.get(key, ())
            ]
            if not entries:
                continue
            noticed[key] = self._noticed.get(key, now)
            busy = in_turn(facts.load(session.client), session) and now - noticed[key] < BUSY
            if not busy and now - self._at.get(key, -SPACING) >= SPACING:
                self._at[key] = now
                pid = client_pid(session.holder)
                wakes.append(
                    Wake(
                        self.root, session.client, session.session, session.cwd, pid, tuple(entries)
                    )
                )
        self._noticed = noticed
        return wakes

    def _entries(self, session: ClientSession) -> list[Entry]:
        """Return what a session is to be woken for, where its client is woken from outside."""
        if not has_module(session.client) or not lives(self.root, session.holder):
            return []
        return due(self.memory, session)

    def made(self, wake: Wake, well: bool) -> None:
        """Remember a wake. One that came to nothing is tried again, a few times: the entries stay
        due, and the session's next turn is told of them by its hooks.
        """
        key = f"{wake.client} {wake.session}"
        for entry in wake.entries:
            self._tries[f"{key} {entry.id}"] = tries = self._tries.get(f"{key} {entry.id}", 0) + 1
            if well or tries >= MOST:
                self._woken.setdefault(key, set()).add(entry.id)


def has_module(client: str) -> bool:
    """Return whether a client is woken from outside."""
    name = module_of(client).rpartition(".")[2]
    return os.path.exists(os.path.join(os.path.dirname(os.path.abspath(__file__)), f"{name}.py"))
