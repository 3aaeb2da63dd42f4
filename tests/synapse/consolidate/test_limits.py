"""Too little room: a warning first, then the oldest and least used go; what has to stay, stays."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import synapse
from synapse.consolidate import gather, plan, run_history, run_nightly, undo
from synapse.consolidate.limits import (
    ALL,
    PLACE,
    entries_to_archive,
    format_size,
    limit_of,
    over_limit,
)
from synapse.consolidate.state import measure
from synapse.errors import InvalidEntry
from synapse.formats.declared import parse_settings, render_settings
from synapse.index.questions.maintenance import Sized
from synapse.model.agents import Agent
from synapse.model.settings import Settings, parse_size
from synapse.testing import FrozenClock
from tests.examples import examples

LIMITS = "size_limits: {per_namespace: 5KB, total_shared: 20KB}\n"
TEXT = "x" * 800


@pytest.fixture
def world(tmp_path):
    clock = FrozenClock()
    synapse.init(str(tmp_path / "shared"), clock=clock).close()
    with open(tmp_path / "shared/synapse.yaml", "a") as file:
        file.write(LIMITS)
    with synapse.open(str(tmp_path / "shared"), clock=clock) as mem:
        for id in ("a", "b"):
            mem.register(Agent(id, read=("*",), write=("*",)))
        mem.as_agent("a").claim("runs")  # anything, so that the log is not empty
        yield mem, clock


def fill(mem, count, namespace="api", **more):
    """So many entries of about 900 bytes, each of its own."""
    found = []
    for n in range(count):
        mem.store.clock.advance("1m")
        found.append(
            mem.as_agent("a").append(f"{TEXT} {namespace} {n}", namespace, ttl="never", **more).id
        )
    return found


def nights(mem, clock, *dates):
    """What each night filed away, and what it warned of."""
    told = []
    for date in dates:
        clock.advance("24h")
        acts = [
            each.act for each in run_nightly(mem, date, clock()).acts if each.act.phase == "enforce"
        ]
        warned = [act.new_entry.draft.tags[1] for act in acts if act.kind == "warn"]
        told.append((warned, [id for act in acts for id in act.ids]))
    return told


def warnings(mem):
    return [entry.tags[1] for entry in mem.as_agent("a").read(namespace=PLACE)]


def rendered(mem, ids, times, agent="b"):
    for n in range(times):
        mem.as_agent(agent).writer.act(
            "shown", cursor=1, how="spawn", run=f"run-{n}", epoch=1, ids=list(ids)
        )


def test_it_is_warned_of_once_and_tidied_the_night_after(world):
    mem, clock = world
    ids = fill(mem, 7)
    first, again = nights(mem, clock, "2026-02-02", "2026-02-03")
    assert first == (["api"], [])
    assert again[0] == []
    assert again[1][:-1] == ids[: len(again[1]) - 1]
    assert sum(size for name, size in measure(mem.store, clock()).sizes if name == "api") <= 5_000
    assert len(again[1]) <= 4  # no more than it takes, and the warning
    assert warnings(mem) == []
    assert nights(mem, clock, "2026-02-04", "2026-02-05") == [([], []), ([], [])]
    fill(mem, 4)
    assert [warned for warned, _ in nights(mem, clock, "2026-02-06", "2026-02-07")] == [["api"], []]


def test_a_warning_stands_for_half_a_day_at_least(world):
    mem, clock = world
    fill(mem, 7)
    assert nights(mem, clock, "2026-02-02") == [(["api"], [])]
    clock.advance("11h")
    assert plan(gather(mem.store, clock()), clock(), mem.store.settings).acts == ()
    clock.advance("61m")
    assert plan(gather(mem.store, clock()), clock(), mem.store.settings).acts


def test_what_was_warned_of_and_is_in_order_again_is_no_longer_warned_of(world):
    mem, clock = world
    ids = fill(mem, 7)
    nights(mem, clock, "2026-02-02")
    assert warnings(mem) == ["api"]
    mem.as_agent("a").archive(ids)
    ((warned, gone),) = nights(mem, clock, "2026-02-03")
    assert (warned, len(gone), warnings(mem)) == ([], 1, [])


def test_what_is_used_stays_longer(world):
    mem, clock = world
    ids = fill(mem, 7)
    rendered(mem, ids[:1], 3)
    rendered(mem, ids[1:2], 3, agent="a")  # one's own prompts are no use to others
    (_, (_, gone)) = nights(mem, clock, "2026-02-02", "2026-02-03")
    assert ids[0] not in gone
    assert ids[1] in gone
    act = next(record for record in mem.audit(entry=ids[1]) if record.kind == "archive")
    assert act.fields["reason"].startswith("api held 6.")
    assert "in 0 prompts" in act.fields["notes"][0]


def test_decisions_and_what_is_critical_go_last(world):
    mem, clock = world
    critical = fill(mem, 2, priority="critical")
    others = fill(mem, 5)
    blockers = fill(mem, 8, "blockers/x", priority="critical")
    decisions, status = fill(mem, 5, "decisions/x"), fill(mem, 5, "status/x")
    gone = nights(mem, clock, "2026-02-02", "2026-02-03")[1][1]
    assert set(gone).isdisjoint(critical)
    assert set(gone) & set(others)
    assert set(gone).isdisjoint(blockers)  # they have to be resolved
    assert "blockers/x" in warnings(mem)
    assert set(decisions).isdisjoint(gone)
    assert [id for id in gone if id in status] == []  # younger than what went


def test_disputes_and_what_holds_others_back_stay(world):
    mem, clock = world
    for id in ("a", "b"):
        mem.as_agent(id).append(f"{id} is right {TEXT}", "api", topic="who", ttl="never")
    low = mem.as_agent("a").append("low", "api", topic="port", ttl="never")
    mem.register(Agent("lead", role="project-lead", read=("*",), write=("*",)))
    high = mem.as_agent("lead").append(f"high {TEXT}", "api", topic="port", ttl="10d")
    fill(mem, 6)
    gone = nights(mem, clock, "2026-02-02", "2026-02-03")[1][1]
    assert gone
    left = {entry.id for entry in mem.as_agent("a").read(namespace="api", limit=None)}
    assert high.id in left
    assert (
        len(
            [
                entry
                for entry in mem.as_agent("a").read(namespace="api", limit=None)
                if entry.disputed
            ]
        )
        == 2
    )
    assert low.id not in {*gone, *left}


def test_all_namespaces_together_have_a_limit_too(world):
    mem, clock = world
    ids = [id for n in range(6) for id in fill(mem, 5, f"n{n}")]
    (first, then) = nights(mem, clock, "2026-02-02", "2026-02-03")
    assert first[0] == [ALL]
    assert set(then[1]) >= set(ids[:5])
    assert sum(size for _, size in measure(mem.store, clock()).sizes) <= 20_000


def test_what_was_taken_back_stays_and_counts_no_more(world):
    mem, clock = world
    ids = fill(mem, 7)
    nights(mem, clock, "2026-02-02", "2026-02-03")
    undo(mem, "2026-02-03")
    assert {entry.id for entry in mem.as_agent("a").read(namespace="api", limit=None)} == set(ids)
    assert warnings(mem) == ["api"]
    assert plan(gather(mem.store, clock()), clock(), mem.store.settings).acts == ()
    undo(mem, "last")
    assert warnings(mem) == []


def test_limits_that_are_off_file_nothing_away(world):
    mem, clock = world
    fill(mem, 7)
    found = gather(mem.store, clock())
    for text, subjects in (
        ("off", []),
        ("{per_namespace: off}", []),
        ("{api: 1MB}", []),
        ("{api/*: 1KB}", ["api"]),
    ):
        settings = parse_settings(f"protocol: 1\nsize_limits: {text}\n")
        made = [
            act.new_entry.draft.tags[1]
            for act in plan(found, clock(), settings).acts
            if act.kind == "warn"
        ]
        assert made == subjects


def test_what_breaks_other_limits_is_only_told_of(world):
    mem, clock = world
    long = mem.as_agent("a").append("x" * 3_000, "api").id
    mem.as_agent("a").append("deep", "a/b/c/d")
    with open(f"{mem.store.root}/synapse.yaml", "a") as file:
        file.write("quota: {default: 1, b: off}\nnamespaces: [api/*]\n")
    mem.store.refresh(whole=True)
    settings = mem.store.settings._replace(sizes=(*mem.store.settings.sizes, ("per_entry", "1KB")))
    mem.store.operator_files.declare(settings)
    wanted = {
        "a/b/c/d is deeper than 3 levels",
        "a/b/c/d is none of the namespaces in synapse.yaml",
        f"{long} holds 3 KB: longer than 1 KB",
        "a wrote 2 entries on 2026-02-01, over its quota of 1",
    }
    assert set(plan(gather(mem.store, clock()), clock(), settings).remarks) == wanted
    before = {entry.id for entry in mem.as_agent("a").read(limit=None)}
    assert run_nightly(mem, "2026-02-02", clock()).acts == ()
    assert {entry.id for entry in mem.as_agent("a").read(limit=None)} == before
    noted = [
        record.fields for record in mem.audit(agent="consolidator") if "remarks" in record.fields
    ]
    assert set(noted[0]["remarks"]) == wanted
    assert "a/b/c/d is deeper than 3 levels" in run_history(mem).remarks
    mem.as_agent("a").append("over its quota, and heard", "api")


rows = st.builds(
    Sized,
    seq=st.integers(1, 999),
    id=st.uuids().map(str),
    namespace=st.sampled_from(("api", "decisions/x", "blockers/x", PLACE)),
    rank=st.integers(0, 2),
    at=st.integers(0, 10**14),
    bytes=st.integers(1, 5_000),
    uses=st.integers(0, 60),
    stays=st.booleans(),
)


@given(st.lists(rows, max_size=30, unique_by=lambda row: row.id), st.integers(-100, 60_000))
@examples(100)
def test_no_more_goes_than_has_to_and_nothing_that_must_stay(found, excess):
    gone = entries_to_archive(found, excess)
    freed = sum(row.bytes for row in gone)
    assert not any(row.stays or row.namespace == PLACE for row in gone)
    assert not any(row.rank == 0 and row.namespace == "blockers/x" for row in gone)
    assert freed - gone[-1].bytes < excess if gone else True
    free = [row for row in found if not row.stays and row.namespace != PLACE]
    free = [row for row in free if not (row.rank == 0 and row.namespace == "blockers/x")]
    assert freed >= excess or len(gone) == len(free)
    weighty = [row.rank == 0 or row.namespace == "decisions/x" for row in gone]
    assert weighty == sorted(weighty)


def test_limits_are_read_and_written():
    text = (
        "protocol: 1\nsize_limits: {per_namespace: 1MB, 'api/*': off, archive_retention:"
        " 90d}\nquota: {a: 5}\n"
    )
    settings = parse_settings(text)
    assert parse_settings(render_settings(settings)) == settings
    assert [limit_of(name, settings) for name in ("api/x", "b")] == [None, 1_000_000]
    assert [settings.daily(name) for name in ("a", "b")] == [5, None]
    assert parse_settings("quota: 7").daily("b") == 7
    assert limit_of("api", Settings()) == 500_000
    assert list(
        over_limit([("api", 500_001), ("b", 4_600_000)], parse_settings("size_limits: {b: off}"))
    ) == [("api", 500_001, 500_000), (ALL, 5_100_001, 5_000_000)]
    assert [parse_size(size) for size in ("1", "2kb", "3 MiB", "off")] == [1, 2_000, 3 << 20, None]
    assert [format_size(size) for size in (9, 1_000, 6_450, 5_000_000)] == [
        "9 bytes",
        "1 KB",
        "6.5 KB",
        "5 MB",
    ]
    for wrong in (
        "size_limits: {per_namespace: much}",
        "size_limits: 5MB",
        "size_limits: {'a//b': 1KB}",
        "quota: few",
    ):
        with pytest.raises(InvalidEntry):
            parse_settings(wrong)
