"""A month of a memory, night by night: entries come every day, facts change, things are said twice; and nights file
away what is outdone, or do not. No agents take part: what is measured is consolidation itself.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import synapse
from orchestrator.testing.virtual import VirtualTime
from scenarios import ledger
from scenarios.recorder import PRICES, Recorder, declared
from scenarios.schema import Scenario
from scenarios.world import Truth, drawn, noise
from synapse.block import natural
from synapse.clock import seconds
from synapse.consolidate import gather, night, plan
from synapse.entry import Entry
from synapse.tokens import DEFAULT
from synapse.workspace import CONSOLIDATOR

DAY, MORNING, NIGHT = 86_400.0, 9 * 3_600.0, 17.5 * 3_600.0  # an entry a morning on; the night 17.5 h after nine
REGIMES: dict[str, Callable[[int], bool]] = {
    "off": lambda day: False,
    "weekly": lambda day: day % 7 == 0,
    "nightly": lambda day: day != MISSED,
}
MISSED = 12  # a night on which the machine was off
BLOCKED = 3  # the day on which a blocker is reported that nobody resolves
HITS = 8


def play(scenario: Scenario, arm: str, seed: int, count: Any) -> list[str]:
    """The lines of the ledger of one month."""
    return _Month(scenario, arm, seed, count).lines()


class _Month:
    def __init__(self, scenario: Scenario, arm: str, seed: int, count: Any) -> None:
        self.scenario, self.arm, self.seed, self.count = scenario, arm, seed, count
        self.time = VirtualTime(scenario.start)
        self.memory = synapse.open("memory:", clock=self.time)
        self.truth = Truth(scenario, seed)
        self.random = Random(f"{scenario.id} {seed} month")
        self.recorder = Recorder(scenario, self.time, self.memory, self.truth, count)
        self.secret = f"x{Random(f'{seed} secret').randrange(16**10):010x}"
        self.blocker = f"y{Random(f'{seed} blocker').randrange(16**10):010x}"
        self.current: dict[str, str] = {}  # fact -> the entry that holds it

    def lines(self) -> list[str]:
        scenario = self.scenario
        self._note("begin", format=ledger.FORMAT, scenario=scenario.id, digest=scenario.digest, arm=self.arm,
                   seed=self.seed, cell=dict(scenario.cell), encoding=DEFAULT, counting="exact",
                   gated=self.arm == scenario.gated, roster=[], tasks=[], facts=[fact.id for fact in scenario.facts],
                   prices=PRICES)  # fmt: skip
        try:
            for member in scenario.agents:
                self.memory.register(declared(member))
            for day in range(1, int(scenario.params["days"]) + 1):
                self._day(day)
                self._night(day)
            self._end()
        finally:
            self.memory.close()
        return self.recorder.lines()

    def _note(self, kind: str, **fields: Any) -> None:
        self.recorder.note(kind, at=self.recorder.now(), **fields)

    # -- a day --

    def _day(self, day: int) -> None:
        """What is written on a day: news about other things, facts that change, and what was said before."""
        self.time.elapsed = (day - 1) * DAY
        about, authors = self.scenario.background, [member.id for member in self.scenario.agents]
        today: list[str] = []
        for n in range(self.random.randint(about.entries * 2 // 3, about.entries * 4 // 3)):
            self.time.elapsed += 60.0
            again = today and self.random.random() < 0.1
            body = self.random.choice(today) if again else noise(drawn(about.tokens, self.random), self.random)
            today.append(body)
            priority = "important" if self.random.random() < 0.1 else about.priority
            place = about.namespaces[n % len(about.namespaces)]
            self.memory.as_agent(self.random.choice(authors)).append(body, place, priority=priority)
        self._facts(day)
        if day == BLOCKED:
            said = f"Blocked: the crane waits for part {self.blocker}."
            self.memory.as_agent(authors[-1]).append(said, "blockers/yard", priority="critical")
        if day % 5 == 0:
            said = f"Between us: the driver's number is {self.secret}."
            for author in authors[1:3]:
                self.memory.as_agent(author).append(said, "team/yard", to=f"agent:{authors[0]}")

    def _facts(self, day: int) -> None:
        for n, fact in enumerate(self.scenario.facts):
            if (day + n) % int(self.scenario.params["change_every"]) and fact.id in self.current:
                continue
            if fact.id in self.current:
                self.truth.change(fact.id)
            body, before = self.truth.state(fact.id, n + day), self.current.get(fact.id)
            self._note("fact", fact=fact.id, version=self.truth.version(fact.id), value=self.truth.now(fact.id),
                       known=False)  # fmt: skip
            seat = self.memory.as_agent(str(fact.known))
            self.current[fact.id] = seat.append(
                body, fact.namespace, priority=fact.priority, topic=fact.topic, supersedes=before
            ).id
            other = self.scenario.agents[n % len(self.scenario.agents)].id
            self.memory.as_agent(other).append(f"I was told: {body}", "status/yard")

    # -- a night --

    def _night(self, day: int) -> None:
        self.time.elapsed = (day - 1) * DAY + NIGHT
        live, tokens = self._live()
        if REGIMES[self.arm](day):
            before, date = self._answered(), seconds(self.time())[:10]
            done = night(self.memory, date, self.time())
            after_live, after_tokens = self._live()
            store = self.memory.store
            left = plan(gather(store, self.time()), self.time(), store.settings)
            self._note("consolidate", night=day, live_before=live, live_after=after_live, tokens_before=tokens,
                       tokens_after=after_tokens, archived=len(done.acts), tokens=0)  # fmt: skip
            self._note("probe", name="queries", value={"before": before, "after": self._answered()})
            self._note("probe", name="second_night", value={"acts": len(left.acts)})
            live, tokens = after_live, after_tokens
        self._note("probe", name="day", value={"day": day, "live": live, "tokens": tokens})

    def _live(self) -> tuple[int, int]:
        entries = self._entries()
        return len(entries), sum(self.count(natural(entry).text) for entry in entries)

    def _entries(self) -> list[Entry]:
        return list(self.memory.as_agent("operator").read())

    def _answered(self) -> int:
        """How many facts a search for them finds, as they are now."""
        seat = self.memory.as_agent(self.scenario.agents[-1].id)
        return sum(self._finds(seat, fact.subject, self.truth.now(fact.id)) for fact in self.scenario.facts)

    def _finds(self, seat: synapse.Seat, subject: str, value: str) -> bool:
        return any(value in hit.entry.body for hit in seat.search(subject, limit=HITS))

    def _end(self) -> None:
        """What has to be so whatever was filed away."""
        entries = self._entries()
        told = [entry.body for entry in entries if entry.author == CONSOLIDATOR and "all" in entry.addressees]
        self._note("probe", name="answered", value=self._answered() / len(self.scenario.facts))
        asked = [entry for entry in [*entries, *self.memory.as_agent("operator").read(archived=True)]
                 if self.blocker in entry.body and "agent:operator" in entry.addressees]  # fmt: skip
        self._note("probe", name="blocker_told", value=int(bool(asked)))
        self._note("probe", name="retold", value=sum(self.secret in body for body in told))
        before = self.memory.digest()
        self.memory.rebuild()
        self._note("probe", name="rebuilt", value=int(self.memory.digest() == before))
        reached = {entry.id for archived in (False, True)
                   for entry in self.memory.as_agent("operator").read(archived=archived)}  # fmt: skip
        written = [record.id for record in self.memory.store.log.since(0) if record.kind == "entry"]
        self._note("probe", name="reachable", value=sum(id in reached for id in written) / len(written))
        self._note("finish", elapsed=self.recorder.now(), tasks=0, ok=0, lost_results=0)
