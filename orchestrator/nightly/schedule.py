"""The schedule of jobs that run once on every local date, and the alarm clock that starts them.
Knows no job's work.

A date is due from the first valid instant at or after its time of day: where clocks jump over that
time, the instant after the gap; where it comes twice, the first. Runs are known by their dates, so
that no change of the clocks makes a second run or loses one. The right to run is not decided here:
a job claims its date in the store, and any number of alarm clocks may ring.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import TYPE_CHECKING, NamedTuple

from synapse.errors import InvalidEntry
from synapse.model.settings import Settings

if TYPE_CHECKING:
    from apscheduler.schedulers.asyncio import AsyncIOScheduler

NIGHTLY = "02:30"
ZONE = "UTC"
LOOK_EVERY = 600  # seconds: how late a machine is at most that slept over the time
ATTEMPTS = 3  # of one alarm clock at one date, where the job fails
DAY = timedelta(days=1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Plan(NamedTuple):
    """What synapse.yaml says: `schedule: {zone: Europe/Berlin, defrag: "02:30"}`. No time:
    never.
    """

    zone: str
    defrag: time | None


class Job(NamedTuple):
    """`act` does the work of a date. It answers whether that is done now, by whomever; False where
    somebody else is at it, who may yet die.
    """

    name: str
    at: time
    act: Callable[[date], Awaitable[bool]]


def plan_of(settings: Settings) -> Plan:
    """Return the schedule of a workspace; InvalidEntry says which part of it is not valid."""
    declared = dict(settings.other).get("schedule") or {}
    if not isinstance(declared, Mapping):
        raise InvalidEntry('schedule: write a block such as {zone: Europe/Berlin, defrag: "02:30"}')
    if unknown := sorted(set(declared) - {"zone", "defrag"}):
        raise InvalidEntry(f"schedule: {unknown[0]!r} is not one of zone, defrag")
    zone = str(declared.get("zone") or ZONE)
    zone_of(zone)
    return Plan(zone, _time_of(declared.get("defrag", NIGHTLY)))


def zone_of(name: str) -> tzinfo:
    """Return a zone by its name. An abbreviation such as PST means different things in summer, and
    is none.
    """
    if name == "UTC":
        return UTC
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise InvalidEntry(
            f"schedule: zone {name!r} is not known; write one such as Europe/Berlin, or UTC"
        ) from error


def instant(at: time, on: date, zone: tzinfo) -> int:
    """Return the microsecond from which the time of day has come on that date: the first valid one
    at or after it.
    """
    local = datetime.combine(on, at, zone)
    first, second = (_utc(local.replace(fold=fold)) for fold in (0, 1))
    if first <= second:
        return _micros(first)
    # in a gap: whose end lies between what the two offsets say
    while first - second > timedelta(seconds=1):
        middle = second + (first - second) / 2
        jumped = middle.astimezone(zone).replace(tzinfo=None) >= local.replace(tzinfo=None)
        first, second = (middle, second) if jumped else (first, middle)
    return _micros(first.replace(microsecond=0))


def due(at: time, zone: tzinfo, now: int) -> date:
    """Return the newest local date whose instant has passed. It makes up for those before it."""
    today = _local(now, zone)
    return next(
        on
        for on in (today - DAY * back for back in range(4))
        if _exists(on, zone) and instant(at, on, zone) <= now
    )


def following(at: time, zone: tzinfo, now: int) -> date:
    """Return the next local date whose instant is yet to come."""
    on = due(at, zone, now) + DAY
    return on if _exists(on, zone) else on + DAY


def _exists(on: date, zone: tzinfo) -> bool:
    """Return whether the calendar of the zone has the date: a country that crosses the date line
    leaves one out.
    """
    return _local(_micros(_utc(datetime.combine(on, time(12), zone))), zone) == on


def _local(now: int, zone: tzinfo) -> date:
    return (EPOCH + timedelta(microseconds=now)).astimezone(zone).date()


def _utc(moment: datetime) -> datetime:
    return moment.astimezone(UTC)


def _micros(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(microseconds=1)


def _time_of(value: object) -> time | None:
    if value is False or value == "off":
        return None
    try:
        moment = time.fromisoformat(str(value))
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is not None:
        raise InvalidEntry(
            f'schedule: {value!r} is no time of day; write one such as "02:30", or off'
        )
    return moment


class Alarm:
    """Rings in the running event loop for as long as it is open: at each job's time, at the start,
    and every ten minutes, in case this machine slept, its clock was set, or whoever ran the job
    died.
    """

    def __init__(
        self,
        jobs: Iterable[Job],
        zone: tzinfo,
        clock: Callable[[], int],
        note: Callable[[str], None],
    ) -> None:
        self.jobs = list(jobs)
        self.zone = zone
        self.clock = clock
        self.note = note
        self.running: dict[str, asyncio.Task[None]] = {}
        self.done: dict[str, date] = {}
        self.failed: Counter[tuple[str, date]] = Counter()
        self._rings: AsyncIOScheduler | None = None

    async def look(self) -> None:
        """Start what is due and not known to be done. Never wait for it."""
        for job in self.jobs:
            on = due(job.at, self.zone, self.clock())
            if (
                job.name in self.running
                or self.done.get(job.name) == on
                or self.failed[job.name, on] >= ATTEMPTS
            ):
                continue
            self.running[job.name] = asyncio.create_task(self._do(job, on), name=f"{job.name} {on}")

    async def _do(self, job: Job, on: date) -> None:
        try:
            if await job.act(on):
                self.done[job.name] = on
        except Exception as error:  # whatever a job's code raises: the alarm rings on
            self.failed[job.name, on] += 1
            self.note(
                f"{job.name} of {on} failed, attempt {self.failed[job.name, on]} of"
                f" {ATTEMPTS}: {error}"
            )
        finally:
            del self.running[job.name]

    async def __aenter__(self) -> Alarm:
        from apscheduler.schedulers.asyncio import AsyncIOScheduler
        from apscheduler.triggers.cron import CronTrigger
        from apscheduler.triggers.interval import IntervalTrigger

        # A job store that processes share would let each of them run: this one is in memory, and
        # the claim decides.
        self._rings = AsyncIOScheduler(timezone=self.zone)
        rules = {"coalesce": True, "max_instances": 1, "misfire_grace_time": None}
        for job in self.jobs:
            daily = CronTrigger(
                hour=job.at.hour, minute=job.at.minute, second=job.at.second, timezone=self.zone
            )
            self._rings.add_job(self.look, daily, id=job.name, **rules)
        often = IntervalTrigger(seconds=LOOK_EVERY, timezone=UTC)
        self._rings.add_job(self.look, often, id="look", next_run_time=datetime.now(UTC), **rules)
        self._rings.start()
        return self

    async def __aexit__(self, *about: object) -> None:
        """Cut off what runs: another process may take over its claim."""
        assert self._rings is not None
        self._rings.shutdown(wait=False)
        tasks = list(self.running.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
