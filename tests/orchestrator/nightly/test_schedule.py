"""One run on every local date, whatever the clocks do; an alarm clock that never waits and never
gives up.
"""

import asyncio
import random
from datetime import UTC, date, datetime, time, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest

from orchestrator.nightly.schedule import (
    ATTEMPTS,
    EPOCH,
    Alarm,
    Job,
    Plan,
    due,
    following,
    instant,
    plan_of,
    zone_of,
)
from synapse.errors import InvalidEntry
from synapse.model.settings import Settings

ZONES = (
    "Africa/Cairo America/Havana America/Los_Angeles America/Nuuk America/Santiago"
    " Antarctica/Troll Asia/Beirut"
    " Australia/Lord_Howe Europe/Berlin Pacific/Chatham Africa/Casablanca Asia/Jerusalem"
).split()
# as of today; a law may change that
STEADY = ("Asia/Tehran", "Pacific/Apia", "Asia/Kathmandu", "UTC")
MINUTE, HOUR, DAY = 60_000_000, 3_600_000_000, 86_400_000_000
NIGHT = time(2, 30)


def micros(*when, zone=UTC, fold=0):
    return (datetime(*when, tzinfo=zone, fold=fold).astimezone(UTC) - EPOCH) // timedelta(
        microseconds=1
    )


def local(at, zone):
    return (EPOCH + timedelta(microseconds=at)).astimezone(zone)


def changes(zone, years=range(2025, 2036)):
    """When the clocks of a zone change: the microsecond, and the wall's time before it."""
    found, at, end = [], micros(years[0], 1, 1), micros(years[-1] + 1, 1, 1)
    while at < end:
        if local(at, zone).utcoffset() != local(at + DAY, zone).utcoffset():
            low, high = at, at + DAY
            while high - low > 1_000_000:
                middle = (low + high) // 2
                same = local(middle, zone).utcoffset() == local(at, zone).utcoffset()
                low, high = (middle, high) if same else (low, middle)
            found.append(high // MINUTE * MINUTE)
        at += DAY
    return found


@pytest.mark.parametrize(
    ("name", "at", "on", "told"),
    [
        ("UTC", "02:30", "2026-02-01", "2026-02-01 02:30:00+00:00"),
        ("Europe/Berlin", "02:30", "2026-03-29", "2026-03-29 03:00:00+02:00"),
        ("Europe/Berlin", "02:30", "2026-10-25", "2026-10-25 02:30:00+02:00"),
        ("America/Los_Angeles", "02:30", "2026-03-08", "2026-03-08 03:00:00-07:00"),
        ("Australia/Lord_Howe", "02:15", "2026-10-04", "2026-10-04 02:30:00+11:00"),
        ("Africa/Cairo", "00:30", "2026-04-24", "2026-04-24 01:00:00+03:00"),
        ("America/Nuuk", "23:30", "2026-03-28", "2026-03-29 00:00:00-01:00"),
    ],
)
def test_the_first_valid_instant_of_a_date(name, at, on, told):
    zone, at, on = zone_of(name), time.fromisoformat(at), date.fromisoformat(on)
    first = instant(at, on, zone)
    assert str(local(first, zone)) == told
    assert (due(at, zone, first - 1), due(at, zone, first)) == (on - timedelta(1), on)
    assert following(at, zone, first - 1) == on


def test_a_date_that_a_country_left_out_has_no_run():
    zone = zone_of("Pacific/Apia")
    days = [due(NIGHT, zone, micros(2011, 12, 28, 15) + n * HOUR) for n in range(60)]
    assert sorted({*days}) == [date(2011, 12, 28), date(2011, 12, 29), date(2011, 12, 31)]
    assert following(NIGHT, zone, micros(2011, 12, 30, 9)) == date(2011, 12, 31)


def test_dates_never_go_back():
    for name in ZONES:
        zone, rng = zone_of(name), random.Random(name)
        change = rng.choice(changes(zone))
        for at in (NIGHT, time(0, 0), time(23, 59)):
            days = [due(at, zone, change + n * 7 * MINUTE) for n in range(-500, 500)]
            assert all(
                after - before in (timedelta(0), timedelta(1)) for before, after in pairwise(days)
            )


# -- supervisors, clocks and nights that are worlds of their own -----------------------


class Claims:
    """The right to run, as a store gives it: a lease that lapses, and an end."""

    def __init__(self):
        self.held, self.runs, self.phases = {}, {}, {}

    def take(self, key, who, now):
        holder, until = self.held.get(key, (None, 0))
        if key in self.runs or (holder not in (None, who) and until > now):
            return False
        self.held[key] = (who, now + 15 * MINUTE)
        return True


def lived(claims, keyed, begin, end, rng, *, killed=()):
    """Five supervisors that look every ten minutes by clocks that are up to ten minutes off; one of
    them is a laptop that sleeps each night. A night takes six minutes; who is killed does half of
    it and is back in an hour.
    """
    skews = [
        0,
        10 * MINUTE,
        -10 * MINUTE,
        rng.randrange(-600, 600) * 1_000_000,
        rng.randrange(-600, 600) * 1_000_000,
    ]
    looks = sorted(
        (at, who)
        for who, skew in enumerate(skews)
        for at in range(begin + rng.randrange(600) * 1_000_000, end, 10 * MINUTE)
        if who != 4 or not 5 * HOUR < (at - begin) % DAY < 15 * HOUR
    )
    dead, busy = {}, {}
    for at, who in looks:
        if at < dead.get(who, 0) or at < busy.get(who, (0,))[0]:
            continue
        if who in busy:
            claims.runs[busy.pop(who)[1]] = who
        key = keyed(at + skews[who])
        if key is not None and claims.take(key, who, at):
            phases = claims.phases.setdefault(key, [])
            if key in killed and len(phases) < 3:
                phases += range(len(phases), 3)
                dead[who] = at + HOUR
            else:
                phases += range(len(phases), 6)
                busy[who] = (at + 6 * MINUTE, key)
    for _, key in busy.values():
        claims.runs[key] = -1


def missed(zone, at, change, keyed, to_date):
    """The dates about a change of the clocks that had not exactly one effective run, with how many
    they had.
    """
    rng = random.Random(f"{zone} {at} {change}")
    begin, end = change - 22 * HOUR, change + 26 * HOUR
    days = {local(t, zone).date() for t in range(begin, end, HOUR)}
    wanted = {on for on in days if begin + 2 * HOUR < instant(at, on, zone) < end - 2 * HOUR}
    claims = Claims()
    lived(
        claims,
        keyed,
        begin,
        end,
        rng,
        killed={rng.choice(sorted(wanted))} if to_date is None else (),
    )
    runs = [key if to_date is None else to_date(key) for key in claims.runs]
    assert all(phases == [0, 1, 2, 3, 4, 5] for phases in claims.phases.values())
    return {on: runs.count(on) for on in wanted if runs.count(on) != 1}


def by_date(at, zone):
    return lambda now: due(at, zone, now)


def by_instant(at, zone):
    """The naive one: whenever the wall shows the time, and known by the instant when it does."""

    def keyed(now):
        for on in (local(now, zone).date() - timedelta(back) for back in range(2)):
            for fold in (1, 0):
                moment = datetime.combine(on, at, zone).replace(fold=fold).astimezone(UTC)
                shown = moment.astimezone(zone).replace(tzinfo=None) == datetime.combine(on, at)
                if shown and moment <= local(now, UTC):
                    return moment
        return None

    return keyed


def in_gap_and_fold(zone, change):
    """The job's own time, and one in the middle of what the change leaves out or brings twice."""
    before, after = local(change - MINUTE, zone), local(change, zone)
    middle = min(before.replace(tzinfo=None), after.replace(tzinfo=None)) + timedelta(minutes=16)
    return sorted({NIGHT, middle.time()})


def check_changes(name, years):
    zone = zone_of(name)
    found = [micros(2026, 3, 29), micros(2030, 10, 27)]
    if name in ZONES:
        found = changes(zone, years)
        assert len(found) >= 2 * min(len(years), 10)
    for change in found:
        for at in in_gap_and_fold(zone, change):
            assert missed(zone, at, change, by_date(at, zone), None) == {}, (change, at)


@pytest.mark.parametrize("name", [*ZONES, *STEADY])
def test_one_run_a_date_at_every_change_of_the_clocks(name):
    check_changes(name, range(2026, 2028))


@pytest.mark.soak
@pytest.mark.parametrize("name", ZONES)
def test_one_run_a_date_at_every_change_of_the_clocks_in_ten_years(name):
    check_changes(name, range(2025, 2036))


def test_the_check_catches_who_goes_by_instants():
    zone = ZoneInfo("Europe/Berlin")
    spring, autumn = micros(2026, 3, 29, 1), micros(2026, 10, 25, 1)
    assert {spring, autumn} <= {*changes(zone)}
    for change, times in ((spring, 0), (autumn, 2)):
        found = missed(
            zone, NIGHT, change, by_instant(NIGHT, zone), lambda key: key.astimezone(zone).date()
        )
        assert [*found.values()] == [times]


def test_who_slept_over_the_time_makes_up_for_it():
    zone, claims = zone_of("Europe/Berlin"), Claims()
    for at in (
        micros(2026, 2, 1, 20),
        micros(2026, 2, 2, 9),
        micros(2026, 2, 4, 0, 30),
        micros(2026, 2, 4, 9),
    ):
        if claims.take(key := due(NIGHT, zone, at), 0, at):
            claims.runs[key] = 0
    assert [on.day for on in claims.runs] == [1, 2, 3, 4]


# -- what a workspace says -------------------------------------------------------------


def settings(**schedule):
    return Settings(other=(("schedule", schedule),))


def test_a_plan_is_read_from_the_settings():
    assert plan_of(Settings()) == Plan("UTC", NIGHT)
    assert plan_of(settings(zone="Europe/Berlin", defrag="03:15")) == Plan(
        "Europe/Berlin", time(3, 15)
    )
    assert plan_of(settings(defrag="off")).defrag is plan_of(settings(defrag=False)).defrag is None


@pytest.mark.parametrize(
    "wrong", [{"zone": "PST"}, {"zone": "../etc"}, {"defrag": "late"}, {"nap": "12:00"}]
)
def test_a_plan_that_cannot_be_is_refused(wrong):
    with pytest.raises(InvalidEntry, match="schedule"):
        plan_of(settings(**wrong))


# -- the alarm clock -------------------------------------------------------------------


def rung(act, clock, seconds=0.3, looks=5, at=NIGHT):
    notes = []

    async def live():
        async with Alarm([Job("defrag", at, act)], UTC, clock, notes.append) as alarm:
            await asyncio.sleep(seconds)
            for _ in range(looks):
                await alarm.look()
                await asyncio.sleep(0.02)
        return alarm

    return asyncio.run(live()), notes


def test_it_looks_at_the_start_and_does_each_date_once():
    acted, now = [], [micros(2026, 2, 1, 12)]

    async def act(on):
        acted.append(on)
        now[0] += DAY if len(acted) < 3 else 0
        return True

    rung(act, lambda: now[0])
    assert [on.day for on in acted] == [1, 2, 3]


def test_it_rings_at_the_time():
    """Once as it opens, and once at the job's own time; the next look is ten minutes away."""
    soon, asked = datetime.now(UTC) + timedelta(seconds=1.2), []

    async def act(on):
        asked.append(on)
        return False

    rung(
        act,
        lambda: micros(2026, 2, 1, 12),
        seconds=2,
        looks=0,
        at=soon.time().replace(microsecond=0),
    )
    assert len(asked) == 2


def test_where_somebody_else_is_at_it_it_looks_again():
    answers, asked = [False, False, True], []

    async def act(on):
        asked.append(on)
        return answers.pop(0)

    rung(act, lambda: micros(2026, 2, 1, 12))
    assert len(asked) == 3


def test_it_gives_up_a_date_that_fails_and_goes_on_with_the_next():
    now, asked = [micros(2026, 2, 1, 12)], []

    async def act(on):
        asked.append(on.day)
        if len(asked) > ATTEMPTS:
            return True
        now[0] += DAY if len(asked) == ATTEMPTS else 0
        raise RuntimeError("no disk")

    alarm, notes = rung(act, lambda: now[0])
    assert asked == [1] * ATTEMPTS + [2]
    assert len(notes) == ATTEMPTS
    assert "no disk" in notes[0]
    assert alarm.running == {}


def test_it_never_waits_for_a_job_and_cuts_it_off_at_its_end():
    cut = []

    async def act(on):
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cut.append(on)
            raise
        return True

    rung(act, lambda: micros(2026, 2, 1, 12))
    assert [on.day for on in cut] == [1]
