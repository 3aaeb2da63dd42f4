"""Seasons: months of a team's days, each with its night. What still holds is found, what does not
is not taken for true, nothing is lost, and the memory does not grow. The same checker finds nights
out that drop or merge too much.

Every fact is of a subject with a name of its own, so that asking for it is a search for one word.
What its answer is at any time is kept by a ledger of the test's own, which knows nothing of how the
memory works.
"""

import random
import re
from collections import defaultdict
from itertools import combinations
from statistics import median
from typing import NamedTuple

import pytest

import synapse
from synapse.consolidate import apply, claim, run, run_history, run_nightly
from synapse.consolidate.acts import Act, archive_acts
from synapse.consolidate.plan import Plan, may_merge, merged
from synapse.model.agents import Agent
from synapse.model.clock import day
from synapse.model.entry import parse_ttl
from synapse.testing import FrozenClock

PEERS = ("ann", "bob", "cyn", "dan")
PLACES = ("api/users", "api/orders", "infra/ci", "decisions/data", "team/core")
SAYINGS = (
    "The port of {} is {}",
    "{} must not take more than {} ms",
    "Use {} with a limit of {}",
    "{} broke after {} runs",
)
FLAT = (
    1 / 3
    # of its median, while the longest time to live goes by: what the days' own ups and downs stay
    # below
)
ASKED = 60  # facts at a time, of those that hold, and of those that do not


class Said(NamedTuple):
    """What somebody wrote of a subject, and until when it holds of itself."""

    value: int
    id: str
    until: int
    team: bool


class Season(NamedTuple):
    """How long, how busy, and how long what is written lives."""

    days: int
    entries: tuple[int, int]
    ttls: tuple[str, ...]
    asks: int  # days between two rounds of questions


SHORT = Season(24, (20, 44), ("1d", "3d", "6d", "12d"), 4)
FULL = Season(150, (30, 80), ("7d", "14d", "30d", "90d"), 10)


class Team:
    """People who write for a season, and what they know of it."""

    def __init__(self, mem, clock, season, seed):
        self.mem, self.clock, self.season = mem, clock, season
        self.chance = random.Random(seed)
        for id, role in {"cto": "cto", **dict.fromkeys(PEERS, "engineer")}.items():
            mem.register(Agent(id, role=role, read=("*",), write=("*",), teams=("core",)))
        mem.register(Agent("guest", role="engineer", read=("*",), write=("status/*",)))
        # subject: what was said of it and not outdone since
        self.holds = defaultdict(list)
        self.superseded = defaultdict(list)
        self.places = {}  # subject: its namespace, its wording, its topic
        self.nights, self.views = [], []

    def work(self):
        """One day: mostly news, and answers to what was said before."""
        count = self.chance.randint(*self.season.entries)
        acts = (self.news, self.news, self.news, self.correct, self.repeat, self.dissent, self.chat)
        for _ in range(count):
            self.chance.choice(acts)()
            self.clock.advance(f"{14 * 3600 // count}s")

    def say(self, who, subject, value, supersedes=(), words=None, team=False):
        place, wording, topic = self.places[subject]
        ttl = self.chance.choice(self.season.ttls)
        text = words or wording.format(subject, value)
        to = "team:core" if team else "all"
        priority = "important" if self.chance.random() < 0.1 else "info"
        entry = self.mem.as_agent(who).append(
            text, place, ttl=ttl, supersedes=supersedes, topic=topic, to=to, priority=priority
        )
        self.holds[subject].append(Said(value, entry.id, self.clock() + parse_ttl(ttl), team))

    def news(self):
        subject = f"subject{len(self.places)}"
        self.places[subject] = (self.chance.choice(PLACES), self.chance.choice(SAYINGS), None)
        self.say(self.chance.choice(PEERS), subject, self.value(), team=self.chance.random() < 0.15)

    def correct(self):
        """A new value in place of all that is found of the old ones."""
        if subject := self.known():
            found = self.found(subject)
            team = any(said.team for said in self.holds[subject])
            self.superseded[subject] += self.holds.pop(subject)
            self.say("cto", subject, self.value(), [entry.id for entry in found], team=team)

    def repeat(self):
        """The same once more, by somebody else, in nearly the same words."""
        if (subject := self.known()) and self.places[subject][2] is None:
            said = self.holds[subject][-1]
            words = self.places[subject][1].format(subject, said.value)
            words = self.chance.choice(
                (f"{words}.", f"Please {words}", f"{words}!", f"FYI: {words}", words)
            )
            self.say(self.chance.choice(PEERS), subject, said.value, words=words, team=said.team)

    def dissent(self):
        """Two of one rank, who do not agree."""
        subject = f"subject{len(self.places)}"
        self.places[subject] = (self.chance.choice(PLACES), "{} needs {} replicas", subject)
        for who in self.chance.sample(PEERS, 2):
            self.say(who, subject, self.value())

    def chat(self):
        self.mem.as_agent(self.chance.choice(PEERS)).append(
            f"done with {self.value()}", "status/core", ttl="1d"
        )

    def known(self):
        """A subject of which something holds."""
        asked = self.chance.sample([*self.places], min(20, len(self.places)))
        return next((subject for subject in asked if self.standing(subject)), None)

    def standing(self, subject):
        return [said for said in self.holds.get(subject, ()) if said.until > self.clock()]

    def value(self):
        return self.chance.randint(1000, 999_999)

    def found(self, subject, who="ann", **more):
        return [hit.entry for hit in self.mem.as_agent(who).search(subject, **more)]


class Found(NamedTuple):
    """What became of the questions, and how the memory grew."""

    asked: int = 0
    answered: int = 0
    past: int = 0  # asked of what holds no more, in the archive
    kept: int = 0
    stale: int = 0  # what holds no more, and is shown as if it did
    leaked: int = 0  # what was said to the team, and is shown to a guest
    # by how much of its median it grows while the longest time to live goes by
    entries: float = 0.0
    bytes: float = 0.0
    view: float = 0.0

    @property
    def retention(self):
        return self.answered / self.asked


def ask(team, found):
    """Questions about some of what holds, and some of what does not."""
    subjects = [*team.places]
    holding = [subject for subject in subjects if team.standing(subject)]
    for subject in team.chance.sample(holding, min(ASKED, len(holding))):
        shown, standing = numbers(team.found(subject)), team.standing(subject)
        answered = sum(said.value in shown for said in standing)
        gone = {said.value for said in past(team, subject)} - {said.value for said in standing}
        found = found._replace(
            asked=found.asked + len(standing), answered=found.answered + answered
        )
        found = found._replace(stale=found.stale + len(gone & shown))
    once = [subject for subject in subjects if past(team, subject)]
    for subject in team.chance.sample(once, min(ASKED, len(once))):
        shown = numbers([*team.found(subject, archived=True, limit=50), *team.found(subject)])
        kept = [said.value in shown for said in past(team, subject)]
        found = found._replace(past=found.past + len(kept), kept=found.kept + sum(kept))
        if all(said.team for said in (*past(team, subject), *team.standing(subject))):
            guests = [*team.found(subject, "guest"), *team.found(subject, "guest", archived=True)]
            found = found._replace(leaked=found.leaked + len(guests))
    return found


def past(team, subject):
    lapsed = [said for said in team.holds.get(subject, ()) if said.until <= team.clock()]
    return [*team.superseded.get(subject, ()), *lapsed]


def numbers(entries):
    return {int(number) for entry in entries for number in re.findall(r"\b\d+\b", entry.body)}


def growth(values, span):
    """The slope by Theil and Sen, over a span of nights, as a share of the median."""
    slopes = [(b - a) / (y - x) for (x, a), (y, b) in combinations(enumerate(values), 2)]
    return median(slopes) * span / median(values)


def through(season, tidy, seed=1):
    """A season in a memory of its own."""
    clock = FrozenClock("2026-01-01T06:00:00Z")
    with synapse.open("memory:", clock=clock) as mem:
        team, found = Team(mem, clock, season, seed), Found()
        for number in range(season.days):
            clock.set(f"{day(midnight(number))}T06:00:00Z")
            team.work()
            clock.set(f"{day(midnight(number + 1))}T02:30:00Z")
            tidy(mem, day(clock()), clock())
            team.views.append(len(mem.as_agent("ann").briefing().markdown()))
            if (number + 1) % season.asks == 0:
                found = ask(team, found)
        longest = max(parse_ttl(ttl) for ttl in season.ttls) // parse_ttl("1d")
        nights = run_history(mem).runs[longest:]
        return found._replace(
            entries=growth([each.entries for each in nights], longest),
            bytes=growth([each.bytes for each in nights], longest),
            view=growth(team.views[longest:], longest),
        )


def midnight(number):
    """The start of a day, counted from the first."""
    return FrozenClock("2026-01-01T00:00:00Z")() + number * parse_ttl("1d")


def grows(found):
    """More than the days differ from one another."""
    return max(found.entries, found.bytes, found.view) > FLAT


def nothing_lost(found):
    return (
        found.retention >= 0.98
        and found.kept == found.past
        and not found.stale
        and not found.leaked
    )


def test_a_memory_keeps_what_holds_and_does_not_grow():
    found = through(SHORT, run_nightly)
    print(f"\n{found} retention {found.retention:.4f}")
    assert found.asked > 300
    assert found.past > 300
    assert nothing_lost(found)
    assert not grows(found)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(4))
def test_five_months_of_a_busy_team(seed):
    found = through(FULL, run_nightly, seed)
    print(f"\n{found} retention {found.retention:.4f}")
    assert nothing_lost(found)
    assert not grows(found)


# -- nights that are wrong, each as somebody might well have written it ----------------


def night_that_keeps_the_newest(mem, date, now):
    run_nightly(mem, date, now)
    found = mem.as_agent("operator").read(limit=None)
    away(mem, now, archive_acts("archive", "too many", [(entry.id, "") for entry in found[150:]]))


def night_that_merges_what_looks_alike(mem, date, now):
    run_nightly(mem, date, now)
    groups = defaultdict(list)
    for entry in reversed(mem.as_agent("operator").read(limit=None)):
        if may_merge(entry):
            groups[
                entry.namespace, entry.to, entry.priority, re.sub(r"\d+", "", entry.body)
            ].append(entry)
    alike = [group for group in groups.values() if len(group) > 1]
    ids = [tuple(entry.id for entry in group) for group in alike]
    away(
        mem,
        now,
        [
            Act("merge", "merge", ids[n], "alike", new_entry=merged(group, now))
            for n, group in enumerate(alike)
        ],
    )


def night_that_widens(mem, date, now):
    run_nightly(mem, date, now)
    acts = []
    for entry in mem.as_agent("operator").read(limit=None, since="24h"):
        if entry.to == "team:core" and may_merge(entry):
            made = merged([entry], now)
            made = made._replace(draft=made.draft._replace(addressees=("all",)))
            acts.append(Act("merge", "merge", (entry.id,), "alike", new_entry=made))
    away(mem, now, acts)


def night_that_files_nothing_away(mem, date, now):
    run(mem, claim(mem, "night", date, now), now, phases=("changelog", "metrics"))


def away(mem, now, acts):
    apply(mem, Plan(tuple(acts), mem.store.index.cursor(), now))


def test_a_night_that_drops_what_holds_is_found_out():
    assert through(SHORT, night_that_keeps_the_newest).retention < 0.98


def test_a_night_that_merges_too_much_is_found_out():
    assert through(SHORT, night_that_merges_what_looks_alike).retention < 0.98


def test_a_night_that_widens_is_found_out():
    assert through(SHORT, night_that_widens).leaked


def test_a_night_that_files_nothing_away_is_found_out():
    found = through(SHORT, night_that_files_nothing_away)
    print(found)
    assert grows(found)
    assert found.kept < found.past
