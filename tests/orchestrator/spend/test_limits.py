"""Limits: what a workspace declares, where a run is counted, and what the error tells."""

import pytest

from orchestrator.spend import limits
from orchestrator.spend.limits import LimitReached, Limits, Policy, Scope, Unpriced
from synapse.errors import InvalidEntry
from synapse.formats.codec import parse_settings
from synapse.model.settings import Settings

AT = 1_769_900_400_000_000  # 2026-01-31T23:00:00Z
DECLARED = """
protocol: 1
limits:
  zone: Europe/Berlin
  run: {depth: 2, seconds: 30m}
  tree: {usd: 5.50}
  department:
    frontend: {tokens: 100000}
    '*': {tokens: 50000, live: none}
  day: {usd: 20, live: 4}
"""


def declared(text):
    return limits.policy(dict(parse_settings(text).other))


def test_the_defaults_are_stated():
    policy = limits.policy(dict(Settings().other))
    assert policy == Policy() == limits.DEFAULTS
    assert policy.run == Limits(depth=4, children=16, turns=40, seconds=3_600)
    assert policy.day == Limits(live=30)
    assert policy.tree == Limits()


def test_a_workspace_declares_its_own():
    policy = declared(DECLARED)
    assert policy.run == Limits(depth=2, children=16, turns=40, seconds=1_800)
    assert policy.tree == Limits(usd=5.5)
    assert policy.departments == {"frontend": Limits(tokens=100_000), "*": Limits(tokens=50_000)}
    assert policy.day == Limits(usd=20, live=4)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("limits: 3", "not a table"),
        ("limits: {year: {usd: 1}}", "'year' is not one of run, tree"),
        ("limits: {run: {dollars: 1}}", "'dollars' is not one of depth"),
        ("limits: {run: {usd: -1}}", "usd is"),
        ("limits: {run: {turns: 1.5}}", "turns is 1.5"),
        ("limits: {run: {seconds: soon}}", "seconds is 'soon'"),
        ("limits: {run: {seconds: never}}", "seconds is 'never'"),
        ("limits: {zone: Nowhere/Town}", "zone 'Nowhere/Town'"),
        ("limits: {department: {frontend: 3}}", "frontend: 3 is not a table"),
    ],
)
def test_what_cannot_be_read_is_said(text, told):
    with pytest.raises(InvalidEntry, match=told):
        declared(text)


def test_a_run_is_counted_in_its_scopes():
    policy = declared(DECLARED)
    found = limits.scopes(
        policy,
        run="b",
        root="a",
        department="backend",
        at=AT,
        own=Limits(turns=7),
        top=Limits(usd=2),
    )
    assert found == (
        Scope("run:b", policy.run._replace(turns=7)),
        Scope("tree:a", Limits(usd=2)),
        Scope("department:backend", Limits(tokens=50_000)),
        Scope("day:2026-02-01", Limits(usd=20)),
        Scope("workspace", Limits(live=4)),
    )


def test_a_root_has_no_parent_and_some_no_department():
    found = limits.scopes(Policy(), run=None, root="a", department=None, at=AT)
    assert [scope.name for scope in found] == ["tree:a", "day:2026-01-31", "workspace"]


def test_a_task_may_lower_what_holds_for_its_tree_but_not_raise_it():
    policy = Policy(tree=Limits(usd=5))
    trees = [
        limits.scopes(policy, run="a", root="a", department=None, at=AT, top=Limits(usd=usd))[1]
        for usd in (9, 1)
    ]
    assert [scope.limits.usd for scope in trees] == [5, 1]


def test_depth_is_limited():
    limits.check_depth("a", 4, Limits(depth=4))
    limits.check_depth("a", 99, Limits())
    with pytest.raises(
        LimitReached, match="run:a is at its limit of depth: 4 allowed, 4 taken, 1 asked for"
    ):
        limits.check_depth("a", 5, Limits(depth=4))


def test_wall_time_is_limited():
    assert limits.time_left("a", Limits(seconds=60), AT, AT + 59_500_000) == 0.5
    assert limits.time_left("a", Limits(), AT, AT + 10**15) is None
    with pytest.raises(LimitReached, match=r"limit of seconds: 60\.0 s allowed, 60\.0 s taken"):
        limits.time_left("a", Limits(seconds=60), AT, AT + 60_000_000)


def test_a_model_without_a_price_is_refused_where_money_is_limited():
    free = Scope("run:a", Limits(tokens=5))
    bound = Scope("day:2026-01-31", Limits(usd=5))
    assert limits.check_price((free, bound), "m", 0.25) == 0.25
    assert limits.check_price((free,), "m", None) == 0
    with pytest.raises(Unpriced, match="price of m is not known; give it one under prices"):
        limits.check_price((free, bound), "m", None)


@pytest.mark.parametrize(
    ("scope", "limit", "told"),
    [
        ("run:a", "usd", r"give the task more \(max_usd\), or raise limits.run.usd"),
        (
            "tree:a",
            "tokens",
            r"give the root task more \(max_tokens\), or raise limits.tree.tokens",
        ),
        ("tree:a", "children", "raise limits.tree.children"),
        ("department:web", "usd", "raise limits.department.web.usd"),
        ("day:2026-01-31", "usd", "go on tomorrow, or raise limits.day.usd"),
        ("workspace", "live", "wait until a run has ended, or raise limits.day.live"),
    ],
)
def test_the_error_says_what_to_do(scope, limit, told):
    error = limits.reached(scope, limit, 5, spent=4.5, reserved=0.25, asked=1)
    assert (error.scope, error.limit, error.bound) == (scope, limit, 5)
    assert (error.spent, error.reserved, error.asked, error.exit_code) == (4.5, 0.25, 1, 8)
    with pytest.raises(LimitReached, match=told):
        raise error


@pytest.mark.parametrize(
    ("spent", "reserved", "asked", "waits"),
    [
        (5, 4, 2, True),
        (8, 1, 2, True),  # it just fits
        (9, 1, 2, False),
        (8, 0, 3, False),
        (8, 0, 1, False),  # nothing is in flight that could be given back
    ],
)
def test_what_is_reserved_may_be_waited_for(spent, reserved, asked, waits):
    error = limits.reached("run:a", "turns", 10, spent=spent, reserved=reserved, asked=asked)
    assert error.waits is waits


@pytest.mark.parametrize(
    ("given", "bound"), [("0", 0), ("0.0", 0), ("none", None), ("7", 7), ("1e3", 1000)]
)
def test_a_bound_is_a_number_or_none(given, bound):
    assert declared(f"limits: {{run: {{turns: {given}}}}}").run.turns == bound


@pytest.mark.parametrize(("given", "bound"), [("0", 0), ("1.5", 1.5), ("2m", 120), ("none", None)])
def test_seconds_may_be_a_span(given, bound):
    assert declared(f"limits: {{run: {{seconds: {given}}}}}").run.seconds == bound


@pytest.mark.parametrize("given", ["inf", "nan", ".inf", "-1", "-0.5"])
def test_a_bound_has_an_end_and_is_not_negative(given):
    for key in ("usd", "turns", "seconds"):
        with pytest.raises(InvalidEntry, match=f"{key} is"):
            declared(f"limits: {{run: {{{key}: {given}}}}}")


@pytest.mark.parametrize(
    ("limit", "bound", "told"),
    [
        ("tokens", 99_999, "99999 allowed"),
        ("tokens", 100_000, "100,000 allowed"),
        ("turns", 7, "7 allowed"),
        ("usd", 2.5, "$2.5 allowed"),
        ("seconds", 60, "60.0 s allowed"),
    ],
)
def test_amounts_are_told_as_people_write_them(limit, bound, told):
    error = limits.reached("run:a", limit, bound, spent=0)
    assert f"limit of {limit}: {told}, " in error.details["facts"]
