"""The other side of a wake: sessions that run, one after the other, and note when a prompt first
showed an entry.
"""

from __future__ import annotations

import re
import select
import sys
import time

import synapse
from bench.child import READY
from orchestrator import Supervisor, Task
from orchestrator.engines.scripted import Move, Scripted, Seen
from orchestrator.spend.limits import Limits
from orchestrator.tools.functions import tool_of

TURNS = 40
PATIENCE = 60.0
# wakes a minute that one author may cause: here one author writes them all
EVERYBODY = 10**9
_ID = re.compile(r"syn-[0-9-]+")


class Listening:
    """Sessions of one agent. `woken` and `viewed` hold when an entry was first in a prompt: as
    news, or in a view.
    """

    def __init__(self, root: str, agent: str, count: int) -> None:
        self.root, self.agent, self.count = root, agent, count
        self.first: dict[str, dict[str, int]] = {"wake": {}, "view": {}}
        self.sessions = self.turns = 0
        self.before: set[str] = set()

    async def all(self) -> dict[str, object]:
        with synapse.open(self.root) as memory:
            engine = Scripted(self.play)
            with Supervisor(
                memory, engine=engine, tools=[tool_of(rest)], limits=Limits(turns=TURNS + 1)
            ) as supervisor:
                supervisor.run_store.deliveries.feed.quota = EVERYBODY
                async with supervisor:
                    await self._go_on(supervisor)
        return {
            "woken": list(self.first["wake"].items()),
            "viewed": list(self.first["view"].items()),
        }

    async def _go_on(self, supervisor: Supervisor) -> None:
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end and not self._over():
            self.sessions += 1
            await supervisor.spawn(
                Task(
                    f"Watch, for the {self.sessions}. time.", self.agent, "alpha", view_budget=2_000
                )
            )

    def _over(self) -> bool:
        """Whether whoever writes has said that it is done, and all of it is here."""
        told = bool(select.select([sys.stdin], [], [], 0)[0])
        return told and sum(map(len, self.first.values())) >= self.count

    def play(self, seen: Seen) -> Move:
        now = time.monotonic_ns()
        for message in seen.messages:
            if message.label in self.first and message.text not in self.before:
                self.before.add(message.text)
                self._note(message.label, message.text, now)
        if self.sessions == 1 and seen.turn == 0:
            print(READY, flush=True)
        return Move("Enough.") if seen.turn >= TURNS else Move(calls=(("rest", {}),), takes=1e-3)

    def _note(self, label: str, text: str, now: int) -> None:
        new = set(_ID.findall(text)) - self.first["wake"].keys() - self.first["view"].keys()
        # what the first view shows was there before
        if self.sessions > 1 or label == "wake":
            self.first[label] |= dict.fromkeys(new, now)


async def rest() -> str:
    """Do nothing."""
    return "Rested."
