"""The limits of runs, trees, departments and days, and the error that says which one was reached.
Values and pure functions; `reservations` keeps what was spent, and asks before each call.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from synapse.errors import InvalidEntry, SynapseError
from synapse.model import clock
from synapse.model.entry import parse_ttl

LEVELS = ("run", "tree", "department", "day")


class Limits(NamedTuple):
    """Bounds of one scope; None is no bound."""

    depth: int | None = None  # how far below its root a run may be; a root has depth 0
    # runs begun: by a run, in a tree, by a department, on a day
    children: int | None = None
    # runs alive at once; a day's is the workspace's at any time
    live: int | None = None
    turns: int | None = None  # calls of a model, retries included
    tokens: int | None = None  # read and written, as the provider bills them
    usd: float | None = None  # dollars
    # a run's wall time; above it, the sum of what its calls took
    seconds: float | None = None


NO_LIMITS = Limits()
RUN = Limits(depth=4, children=16, turns=40, seconds=3_600.0)
DAY = Limits(live=30)


class Policy(NamedTuple):
    """The limits of a workspace. `departments` has `*` for those that it does not name."""

    run: Limits = RUN
    tree: Limits = NO_LIMITS
    departments: Mapping[str, Limits] = {}
    day: Limits = DAY
    zone: str = "UTC"


DEFAULTS = Policy()


class Amount(NamedTuple):
    """What calls take. Whoever asks before a call asks for the most that it can take."""

    turns: int = 0
    tokens: int = 0
    usd: float = 0.0
    seconds: float = 0.0


class Scope(NamedTuple):
    """Something that is counted on its own, and its bounds: `run:ID`, `tree:ROOT`,
    `department:NAME`, `day:DATE`.
    """

    name: str
    limits: Limits


class LimitReached(SynapseError):
    """A limit forbids it; nothing was spent. `.scope .limit .bound .spent .reserved .asked`"""

    exit_code = 8
    spent: float
    reserved: float
    asked: float
    bound: float

    @property
    def waits(self) -> bool:
        """Return whether it fits once calls in flight give back what is reserved for them."""
        return self.reserved > 0 and self.spent + self.asked <= self.bound


class Unpriced(SynapseError):
    """A limit on money holds and the model has no price. `.model .scope`"""

    exit_code = 8


def policy(settings: Mapping[str, object]) -> Policy:
    """Return the limits that synapse.yaml declares under `limits:`, with the defaults above for the
    others.
    """
    declared = _table(settings.get("limits"), "limits")
    for key in declared:
        if key not in (*LEVELS, "zone"):
            raise InvalidEntry(f"limits: {key!r} is not one of {', '.join(LEVELS)}, zone")
    departments = _table(declared.get("department"), "limits: department")
    zone = str(declared.get("zone") or "UTC")
    day_of(0, zone)
    return Policy(
        _limits(declared.get("run"), "limits: run", RUN),
        _limits(declared.get("tree"), "limits: tree", NO_LIMITS),
        {
            name: _limits(section, f"limits: department: {name}", NO_LIMITS)
            for name, section in departments.items()
        },
        _limits(declared.get("day"), "limits: day", DAY),
        zone,
    )


def overridden(limits: Limits, own: Limits) -> Limits:
    """Return these limits, replaced by a task's own where it sets any."""
    return Limits._make(
        new if new is not None else old for old, new in zip(limits, own, strict=True)
    )


def tightened(limits: Limits, own: Limits) -> Limits:
    """Return the lower of both limits: a task cannot raise what holds for all."""
    pairs = zip(limits, own, strict=True)
    return Limits._make(
        min((bound for bound in pair if bound is not None), default=None) for pair in pairs
    )


def scopes(
    policy: Policy,
    *,
    run: str | None,
    root: str,
    department: str | None,
    at: int,
    own: Limits = NO_LIMITS,
    top: Limits = NO_LIMITS,
) -> tuple[Scope, ...]:
    """Return the scopes in which a run is counted. `own` are its task's limits, `top` its root
    task's: they hold for the tree.

    For a spawn `run` and `own` are the parent's, and None for a root; the rest is the child's.
    """
    result = []
    if run is not None:
        result.append(Scope(f"run:{run}", overridden(policy.run, own)))
    tree = Limits(tokens=top.tokens, usd=top.usd)
    result.append(Scope(f"tree:{root}", tightened(policy.tree, tree)))
    if department:
        limits = policy.departments.get(department, policy.departments.get("*", NO_LIMITS))
        result.append(Scope(f"department:{department}", limits))
    result.append(Scope(f"day:{day_of(at, policy.zone)}", policy.day._replace(live=None)))
    result.append(Scope("workspace", Limits(live=policy.day.live)))
    return tuple(result)


def span_of(day: str, zone: str = "UTC") -> tuple[int, int]:
    """Return when a day where the workspace is began, and when the next one does."""
    from datetime import datetime, timedelta
    from zoneinfo import ZoneInfo

    first = datetime.fromisoformat(day)
    began, ended = (
        (first + timedelta(days=more)).replace(tzinfo=ZoneInfo(zone)) for more in (0, 1)
    )
    return int(began.timestamp()) * 1_000_000, int(ended.timestamp()) * 1_000_000


def day_of(at: int, zone: str = "UTC") -> str:
    """Return the date of a time where the workspace is."""
    if zone == "UTC":
        return clock.day(at)
    from datetime import datetime
    from zoneinfo import ZoneInfo

    try:
        return datetime.fromtimestamp(at / 1_000_000, ZoneInfo(zone)).date().isoformat()
    except (LookupError, ValueError, OSError) as error:
        raise InvalidEntry(
            f"limits: zone {zone!r} is not known; write one such as Europe/Berlin, or UTC"
        ) from error


def check_depth(run: str, depth: int, limits: Limits) -> None:
    if limits.depth is not None and depth > limits.depth:
        raise reached(f"run:{run}", "depth", limits.depth, spent=depth - 1, asked=1)


def time_left(run: str, limits: Limits, started: int, now: int) -> float | None:
    """Return the seconds until a run's wall time is over; None where it has no end."""
    if limits.seconds is None:
        return None
    elapsed = (now - started) / 1_000_000
    if elapsed >= limits.seconds:
        raise reached(f"run:{run}", "seconds", limits.seconds, spent=elapsed)
    return limits.seconds - elapsed


def check_price(scopes: tuple[Scope, ...], model: str, usd: float | None) -> float:
    """Return the money to reserve for a call that costs this at most. A call without a price is
    refused where money is limited.
    """
    if usd is not None:
        return usd
    for scope in scopes:
        if scope.limits.usd is not None:
            raise Unpriced(
                f"{scope.name} has a limit on money and the price of {model} is not"
                f" known; give it one under prices: in synapse.yaml, such as {model}:"
                f" {{input: 3.0, output: 15.0}} (dollars per million tokens)",
                model=model,
                scope=scope.name,
            )
    return 0.0


def reached(
    scope: str, limit: str, bound: float, *, spent: float, reserved: float = 0, asked: float = 0
) -> LimitReached:
    """Return the error that says which limit was reached, and what it would take to go on."""
    level = scope.partition(":")[0]
    amounts = [f"{_format_amount(limit, bound)} allowed", f"{_format_amount(limit, spent)} taken"]
    amounts += (
        [f"{_format_amount(limit, reserved)} reserved by calls in flight"] if reserved else []
    )
    amounts += [f"{_format_amount(limit, asked)} asked for"] if asked else []
    facts = f"{scope} is at its limit of {limit}: {', '.join(amounts)}"
    return LimitReached(
        f"{facts}; {_advice(level, scope, limit)}",
        facts=facts,
        scope=scope,
        limit=limit,
        bound=bound,
        spent=spent,
        reserved=reserved,
        asked=asked,
    )


def of_call(error: LimitReached, prompt: int, reply: int) -> LimitReached:
    """Return the error of a call that was not made: what it asked for is held back for its prompt
    and for the longest reply, in tokens.
    """
    if error.details.get("limit") not in ("usd", "tokens"):
        return error
    facts = (
        f"{error.details['facts']}, which is the reserve for a prompt of {prompt:,} tokens and the"
        f" longest reply, {reply:,} tokens"
    )
    _, _, advice = str(error).partition("; ")
    return LimitReached(
        f"{facts}; let replies be shorter (max_reply, --max-reply), or {advice}",
        **{**error.details, "facts": facts},
    )


def for_a_model(error: LimitReached) -> str:
    """Return the error as an agent is told that cannot raise a limit."""
    if error.details["limit"] == "live":
        return f"{error.details['facts']}; wait until a run has ended"
    return (
        f"{error.details['facts']}; give out no more: do the rest yourself, or end with"
        f" what there is"
    )


def _advice(level: str, scope: str, limit: str) -> str:
    key = {"workspace": "day", "department": f"department.{scope.partition(':')[2]}"}.get(
        level, level
    )
    raise_it = f"raise limits.{key}.{limit} in synapse.yaml"
    if limit == "live":
        return f"wait until a run has ended, or {raise_it}"
    if level == "day":
        return f"go on tomorrow, or {raise_it}"
    if level in ("run", "tree") and limit in ("turns", "tokens", "usd"):
        return (
            f"give the {'root ' if level == 'tree' else ''}task more (max_{limit}), or {raise_it}"
        )
    return raise_it


def _format_amount(limit: str, number: float) -> str:
    if limit == "usd":
        return f"${number:.6g}"
    return (
        f"{number:.1f} s"
        if limit == "seconds"
        else f"{number:g}"
        if number < 100_000
        else f"{number:,.0f}"
    )


def _table(value: object, where: str) -> Mapping[str, object]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InvalidEntry(f"{where}: {value!r} is not a table of names and values")
    return value


def _limits(value: object, where: str, defaults: Limits) -> Limits:
    values = defaults._asdict()
    for key, bound in _table(value, where).items():
        if key not in Limits._fields:
            raise InvalidEntry(f"{where}: {key!r} is not one of {', '.join(Limits._fields)}")
        values[key] = _bound(key, bound, where)
    return Limits(**values)


def _bound(key: str, value: object, where: str) -> float | None:
    """Return a bound: a number, for seconds also a span such as 30m, or None for `none`."""
    if value is None or value == "none":
        return None
    try:
        number = float(str(value))
    except ValueError:
        number = _span(str(value)) if key == "seconds" else -1.0
    if not 0 <= number < float("inf") or (key not in ("usd", "seconds") and number != int(number)):
        raise InvalidEntry(
            f"{where}: {key} is {value!r}; write a number that is not negative, or none"
        )
    return number if key in ("usd", "seconds") else int(number)


def _span(text: str) -> float:
    try:
        span = parse_ttl(text)
    except InvalidEntry:
        span = None
    return -1.0 if span is None else span / 1_000_000
