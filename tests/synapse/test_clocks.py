"""Clocks that are wrong: ahead once, behind, never set. Nothing is hidden or kept for it, and time
goes on as soon as a clock is right.
"""

from __future__ import annotations

import random

import pytest

import synapse
from synapse.index.derive.corrections import Steps, corrected, steps_of
from synapse.index.replay import snapshot_of
from synapse.model.clock import AHEAD, DAY, stamp
from synapse.model.entry import SECOND
from synapse.model.records import Record
from synapse.testing import FrozenClock

HOUR = 3600 * SECOND


@pytest.fixture(params=["files", "memory"])
def opened(request, tmp_path):
    clock = FrozenClock()
    address = "memory:" if request.param == "memory" else str(tmp_path / "ws")
    if request.param == "files":
        synapse.init(address, clock=clock).close()
    with synapse.open(address, clock=clock) as memory:
        memory.register(synapse.Agent("ada", read=["*"], write=["*"]))
        memory.register(synapse.Agent("bob", read=["*"], write=["*"]))
        yield memory, clock


def test_a_clock_that_was_ahead_once_freezes_nothing(opened):
    memory, clock = opened
    ada = memory.as_agent("ada")
    ada.append("before", "projects/p", ttl="24h")
    clock.advance("365d")
    ada.append("a year ahead", "projects/p", ttl="24h")
    clock.advance("1s")
    clock.at -= 365 * DAY
    ada.append("right again", "projects/p", ttl="1h")
    clock.advance("30m")
    bodies = [entry.body for entry in memory.as_agent("bob").read(since="2h")]
    assert bodies == ["right again", "a year ahead", "before"]
    ats = [entry.at for entry in memory.as_agent("bob").read()]
    assert max(ats) <= clock()
    clock.advance("2h")
    assert len(memory.as_agent("bob").read(since="1h")) == 0
    bodies = [entry.body for entry in memory.as_agent("bob").read()]
    assert bodies == ["a year ahead", "before"]  # an hour is over
    clock.advance("24h")
    assert len(memory.as_agent("bob").read()) == 0
    assert memory.digest() == memory.rebuild().digest
    assert memory.verify().ok


def test_a_clock_that_is_behind_hides_nothing(opened):
    memory, clock = opened
    ada = memory.as_agent("ada")
    ada.append("for a month", "projects/p", ttl="30d")
    clock.at -= 200 * DAY
    ada.append("from a clock that is behind", "projects/p", ttl="30d")
    clock.advance("1s")
    clock.at += 200 * DAY
    ada.append("right again", "projects/p", ttl="30d")
    bodies = [entry.body for entry in memory.as_agent("bob").read()]
    assert bodies == ["right again", "from a clock that is behind", "for a month"]
    clock.advance("29d")
    assert len(memory.as_agent("bob").read()) == 3
    assert memory.digest() == memory.rebuild().digest


def test_ids_are_given_once_whatever_day_the_clock_says(opened):
    memory, clock = opened
    ada = memory.as_agent("ada")
    ids = [ada.append(f"{n}", f"projects/p{n}").id for n in range(5)]
    for _ in range(3):
        clock.advance("400d")
        ids.append(ada.append("ahead", "projects/x").id)
        clock.at -= 400 * DAY
        ids += [ada.append("again", f"projects/q{n}").id for n in range(3)]
    assert len(set(ids)) == len(ids)
    assert memory.digest() == memory.rebuild().digest


def test_a_view_of_an_earlier_time_is_what_it_was(opened):
    memory, clock = opened
    ada = memory.as_agent("ada")
    ada.append("first", "projects/p")
    clock.advance("365d")
    ada.append("ahead", "projects/p")
    clock.at -= 365 * DAY
    clock.advance("1h")
    ada.append("second", "projects/p")
    moment = clock()
    clock.advance("1h")
    ada.append("third", "projects/p")
    text = memory.as_agent("bob").briefing(4000, as_of=moment).text
    assert "second" in text
    assert "ahead" in text
    assert "third" not in text


def test_files_are_finished_behind_a_step(tmp_path):
    clock = FrozenClock()
    with synapse.init(str(tmp_path / "ws"), clock=clock) as memory:
        memory.register(synapse.Agent("ada", read=["*"], write=["*"]))
        clock.advance("365d")
        memory.as_agent("ada").append("ahead", "projects/p")
        clock.at -= 365 * DAY
        commit = memory.store.commit
        followers, commit.followers = commit.followers, []
        entry = memory.as_agent("ada").append("no file yet", "projects/p")
        commit.followers = followers
        clock.advance("10s")
        memory.store.refresh(whole=True)
        assert (tmp_path / "ws" / "entries" / "projects" / "p" / f"{entry.id}.md").exists()


# -- the rules, each against a history that is known ------------------------------------------------


def _records(times):
    return [Record.new("x", "a", {})._replace(seq=n, at=at) for n, at in enumerate(times, 1)]


def _stamped(clocks):
    times, last = [], 0
    for now in clocks:
        last = stamp(now, last)
        times.append(last)
    return times


@pytest.mark.parametrize("seed", range(200))
def test_a_clock_that_is_wrong_for_a_while_moves_nothing_by_more_than_it_was_wrong(seed):
    """Times as they truly were, a stretch of them stamped by a clock that is off."""
    draw = random.Random(seed)
    true, now = [], 1_800_000_000 * SECOND
    for _ in range(30):
        now += draw.choice((SECOND, 60 * SECOND, HOUR))
        true.append(now)
    first, end = sorted(draw.sample(range(1, 29), 2))
    off = draw.choice((-1, 1)) * draw.choice((HOUR, 5 * DAY, 400 * DAY))
    clocks = [at + off if first <= n < end else at for n, at in enumerate(true)]
    records = _records(_stamped(clocks))
    times = [record.at for record in corrected(records, steps_of(records))]
    assert times == sorted(times)
    assert all(times[n] == true[n] for n in range(first) if true[n] <= true[end])
    for n in range(end, 30):
        assert abs(times[n] - true[n]) <= 2 * HOUR + abs(off) % DAY
    for n in range(first, end):
        assert true[first - 1] <= times[n] <= max(true[end], times[end])


def test_without_corrections_an_hour_would_last_a_year():
    """The checker: what the rule of before makes of the same clocks."""
    clocks = [
        18 * 10**14,
        18 * 10**14 + 400 * DAY,
        *(18 * 10**14 + n * SECOND for n in range(2, 9)),
    ]
    times, last = [], 0
    for now in clocks:
        last = max(now, last + 1)
        times.append(last)
    assert times[-1] - clocks[-1] > 300 * DAY
    assert _stamped(clocks)[-1] == clocks[-1]


def test_a_clock_a_little_behind_or_never_set_is_held():
    assert stamp(18 * 10**14 - AHEAD, 18 * 10**14) == 18 * 10**14 + 1
    assert stamp(0, 18 * 10**14 + 7 * DAY) == 18 * 10**14 + 7 * DAY + 1
    assert stamp(17 * 10**14, 17 * 10**14 + AHEAD + 1) == 17 * 10**14


def test_no_step_changes_nothing():
    records = _records([10, 20, 30])
    assert steps_of(records) == Steps()
    assert corrected(records, Steps()) is records


def test_an_index_of_some_records_takes_times_as_the_whole(opened):
    memory, clock = opened
    memory.as_agent("ada").append("a", "projects/p")
    clock.advance("90d")
    memory.as_agent("ada").append("b", "projects/p")
    clock.at -= 90 * DAY
    memory.as_agent("ada").append("c", "projects/p")
    log = memory.store.log
    assert snapshot_of(log, log.since(0)).db.digest() == memory.digest()
