"""A month of a memory, night by night: entries come every day, facts change, things are said twice;
and nightly runs file away what is superseded, or do not. No agents take part: what is measured is
consolidation itself.

Nights go by local dates, by the shipped rule for when one is due: the month crosses a change of the
clocks. Once the machine is off, and once a night dies in its third phase: who looks next goes on
with it, when its lease is over.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from random import Random
from typing import Any, NamedTuple

import synapse
from orchestrator.nightly import schedule
from orchestrator.testing.virtual import VirtualTime
from scenarios.data import ledger
from scenarios.data.schema import Scenario
from scenarios.play import first_line
from scenarios.play.recorder import Recorder, declared
from scenarios.play.world.truth import Truth, drawn, noise
from synapse.consolidate import PHASES, gather, plan, run_nightly
from synapse.model.agents import CONSOLIDATOR, OPERATOR
from synapse.model.clock import micros
from synapse.model.entry import SECOND
from synapse.model.records import filings
from synapse.model.settings import Settings

DAY = 86_400.0
REGIMES: dict[str, Callable[[int], bool]] = {
    "off": lambda day: False,
    "weekly": lambda day: day % 7 == 0,
    "nightly": lambda day: day != MISSED,
}
MISSED = 12  # a night on which the machine was off
DIED = 14  # a night that dies in its third phase
THIRD = PHASES[2]
# days, in the first night of which it is asked for every fact, before and after; and in the last
STRETCH = 10
BLOCKED = 3  # the day on which a blocker is reported that nobody resolves
HITS = 8


class NightlyRun(NamedTuple):
    """What came of a night: the local date it was run for, when it was due, how many acts it did;
    at which phase another went on, where it died; and whether it was run again when it was done.
    """

    on: date
    due: int
    acts: int
    resumed: str | None
    again: bool


class _Killed(BaseException):
    """The end of a process, which nothing in it can hinder."""


def play(scenario: Scenario, arm: str, seed: int, count: Any) -> ledger.Run:
    """Play one month."""
    return _Month(scenario, arm, seed, count).run()


def _asked(nightly_runs: Sequence[int]) -> set[int]:
    """Return the days of those nights after which every fact is searched for."""
    firsts = {day // STRETCH: day for day in reversed(nightly_runs)}
    return {*firsts.values(), DIED, *nightly_runs[-1:]}


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
        options = {
            name: scenario.params[name] for name in ("zone", "defrag") if name in scenario.params
        }
        self.due = schedule.plan_of(Settings(other=(("schedule", options),)))
        self.zone = schedule.zone_of(self.due.zone)
        self.nightly_runs: list[NightlyRun] = []
        self.asked = _asked(
            [day for day in range(1, int(scenario.params["days"]) + 1) if REGIMES[arm](day)]
        )
        # acts that second nights would have done, after the nights in which it is asked
        self.left = 0

    def run(self) -> ledger.Run:
        scenario = self.scenario
        self._note("begin", **first_line.fields(scenario, self.arm, self.seed))
        try:
            for member in scenario.agents:
                self.memory.register(declared(member))
            for day in range(1, int(scenario.params["days"]) + 1):
                self._day(day)
                self._end_day(day)
            self._end()
        finally:
            self.memory.close()
        return self.recorder.run()

    def _note(self, kind: str, **fields: Any) -> None:
        self.recorder.note(kind, at=self.recorder.now(), **fields)

    # -- a day --

    def _day(self, day: int) -> None:
        """Write the entries of a day: other news, changed facts, and repetitions."""
        self.time.elapsed = (day - 1) * DAY
        source = self.scenario.background
        authors = [member.id for member in self.scenario.agents]
        today: list[str] = []
        for n in range(self.random.randint(source.entries * 2 // 3, source.entries * 4 // 3)):
            self.time.elapsed += 60.0
            repeats = today and self.random.random() < 0.1
            body = (
                self.random.choice(today)
                if repeats
                else noise(drawn(source.tokens, self.random), self.random)
            )
            today.append(body)
            priority = "important" if self.random.random() < 0.1 else source.priority
            namespace = source.namespaces[n % len(source.namespaces)]
            self.memory.as_agent(self.random.choice(authors)).append(
                body, namespace, priority=priority
            )
        self._facts(day)
        if day == BLOCKED:
            text = f"Blocked: the crane waits for part {self.blocker}."
            self.memory.as_agent(authors[-1]).append(text, "blockers/yard", priority="critical")
        if day % 5 == 0:
            text = f"Between us: the driver's number is {self.secret}."
            for author in authors[1:3]:
                self.memory.as_agent(author).append(text, "team/yard", to=f"agent:{authors[0]}")

    def _facts(self, day: int) -> None:
        for n, fact in enumerate(self.scenario.facts):
            if (day + n) % int(self.scenario.params["change_every"]) and fact.id in self.current:
                continue
            if fact.id in self.current:
                self.truth.change(fact.id)
            body, before = self.truth.state(fact.id, n + day), self.current.get(fact.id)
            self._note(
                "fact",
                fact=fact.id,
                version=self.truth.version(fact.id),
                value=self.truth.now(fact.id),
                known=False,
            )
            agent_memory = self.memory.as_agent(str(fact.known))
            self.current[fact.id] = agent_memory.append(
                body, fact.namespace, priority=fact.priority, topic=fact.topic, supersedes=before
            ).id
            author = self.scenario.agents[n % len(self.scenario.agents)].id
            self.memory.as_agent(author).append(f"I was told: {body}", "status/yard")

    # -- a night --

    def _end_day(self, day: int) -> None:
        on = self._falls()
        live, tokens = self.recorder.live()
        if REGIMES[self.arm](day):
            asks = day in self.asked
            before = self._answered() if asks else 0
            done = self._consolidated(on, dies=day == DIED)
            self.nightly_runs.append(done)
            after_live, after_tokens = self.recorder.live()
            self._note(
                "consolidate",
                night=day,
                date=on.isoformat(),
                live_before=live,
                live_after=after_live,
                tokens_before=tokens,
                tokens_after=after_tokens,
                archived=done.acts,
                tokens=0,
            )
            if asks:
                self._note(
                    "probe", name="queries", value={"before": before, "after": self._answered()}
                )
                store = self.memory.store
                self.left += len(plan(gather(store, self.time()), self.time(), store.settings).acts)
                self._note("probe", name="second_night", value={"acts": self.left})
            live, tokens = after_live, after_tokens
        self._note("probe", name="day", value={"day": day, "live": live, "tokens": tokens})

    def _falls(self) -> date:
        """Night falls: the next local date for which one is due, at the very instant."""
        assert self.due.defrag is not None
        on = schedule.following(self.due.defrag, self.zone, self.time())
        at = schedule.instant(self.due.defrag, on, self.zone)
        self.time.elapsed = (at - micros(self.scenario.start)) / SECOND
        return schedule.due(self.due.defrag, self.zone, self.time())

    def _consolidated(self, on: date, *, dies: bool) -> NightlyRun:
        """Return the nightly run of a date. Where it dies, the next one goes on with it, once its
        lease is over; one that comes when it is done has nothing to do.
        """
        counts, phases, acts = self.time(), list[str](), 0

        def acted(done: int, of: int) -> None:
            nonlocal acts
            acts += 1
            if dies and phases[-1] == THIRD:
                raise _Killed

        def ran(at: int) -> bool:
            return run_nightly(self.memory, on.isoformat(), at, phases.append, acted).ran

        resumed = None
        try:
            ran(counts)
        except _Killed:
            dies, state = False, len(phases)
            while not ran(self.time()):
                self.time.elapsed += schedule.LOOK_EVERY
            resumed = phases[state]
        return NightlyRun(
            on, counts, acts, resumed, again=ran(self.time() + schedule.LOOK_EVERY * SECOND)
        )

    def _answered(self) -> int:
        """Return how many facts a search finds with their current values."""
        agent_memory = self.memory.as_agent(self.scenario.agents[-1].id)
        return sum(
            any(
                self.truth.now(fact.id) in hit.entry.body
                for hit in agent_memory.search(fact.subject, limit=HITS)
            )
            for fact in self.scenario.facts
        )

    def _end(self) -> None:
        """Check what must hold whatever was filed away."""
        entries = list(self.memory.as_agent(OPERATOR).read())
        reports = [
            entry.body
            for entry in entries
            if entry.author == CONSOLIDATOR and "all" in entry.addressees
        ]
        self._note("probe", name="answered", value=self._answered() / len(self.scenario.facts))
        leaks = [
            entry
            for entry in [*entries, *self.memory.as_agent(OPERATOR).read(archived=True)]
            if self.blocker in entry.body and "agent:operator" in entry.addressees
        ]
        self._note("probe", name="blocker_told", value=int(bool(leaks)))
        self._note("probe", name="retold", value=sum(self.secret in body for body in reports))
        before = self.memory.digest()
        self.memory.rebuild()
        self._note("probe", name="rebuilt", value=int(self.memory.digest() == before))
        reached = {
            entry.id
            for archived in (False, True)
            for entry in self.memory.as_agent(OPERATOR).read(archived=archived)
        }
        written = [record.id for record in self.memory.store.log.since(0) if record.kind == "entry"]
        self._note(
            "probe", name="reachable", value=sum(id in reached for id in written) / len(written)
        )
        self._note("probe", name="nights", value=self._kept())
        self._note("finish", elapsed=self.recorder.now(), tasks=0, ok=0, lost_results=0)

    def _kept(self) -> dict[str, int]:
        """Count the nights: dates, those begun at their time and those after a gap in it, those
        that were run again, what was filed away or made more than once, and nights that died and
        were gone on with.
        """
        assert self.due.defrag is not None
        clocks = [
            datetime.fromtimestamp(run.due / SECOND, UTC).astimezone(self.zone)
            for run in self.nightly_runs
        ]
        on_time = [at.time() == self.due.defrag for at in clocks]
        records = list(self.memory.store.log.since(0))
        filed = Counter(id for record in records for id, away in filings(record) if away)
        merges = Counter(
            tuple(record.fields["derived_from"])
            for record in records
            if record.by == CONSOLIDATOR and record.fields.get("derived_from")
        )
        return {
            "dates": len({at.date() for at in clocks} & {run.on for run in self.nightly_runs}),
            "on_time": sum(on_time),
            "after_gap": len(on_time) - sum(on_time),
            "again": sum(run.again for run in self.nightly_runs),
            "twice": sum(number - 1 for number in (filed + merges).values()),
            "gone_on": sum(run.resumed == THIRD for run in self.nightly_runs),
        }
