"""What nights measure, the curve of it, and what there is to worry about."""

import pytest

import synapse
from synapse.consolidate import run_history, run_nightly, undo
from synapse.consolidate.metrics import idleness, plot, shape
from synapse.model.agents import Agent
from synapse.testing import FrozenClock


@pytest.fixture
def world(tmp_path):
    clock = FrozenClock()
    synapse.init(str(tmp_path / "shared"), clock=clock).close()
    with synapse.open(str(tmp_path / "shared"), clock=clock) as mem:
        for id in ("a", "b"):
            mem.register(Agent(id, read=("*",), write=("*",), department="backend"))
        yield mem, clock, tmp_path / "shared"


def busy(mem):
    me = mem.as_agent("a")
    me.append("new", "api", supersedes=me.append("old", "api").id)
    me.append("secret word", "api", to="agent:b")
    for id in "ab":
        mem.as_agent(id).append(f"{id} is right", "decisions/x", topic="who")


def test_a_night_measures_what_it_found_and_did(world):
    mem, clock, _ = world
    busy(mem)
    run_nightly(mem, "2026-02-02", clock())
    (found,) = run_history(mem).runs
    assert (found.date, found.written, found.filed, found.merged, found.disputed) == (
        "2026-02-02",
        5,
        1,
        0,
        2,
    )
    rows = {name: (entries, was > size) for name, entries, size, was in found.namespaces}
    assert rows == {"api": (2, True), "decisions/x": (2, False), "system/changelog": (1, False)}
    assert found.entries == 5
    assert 0 < found.compression < 1


def test_a_night_tells_people_what_happened(world):
    mem, clock, root = world
    busy(mem)
    run_nightly(mem, "2026-02-02", clock())
    (told,) = mem.as_agent("a").read(namespace="system/*")
    assert (told.author, told.priority, told.namespace) == (
        "consolidator",
        "important",
        "system/changelog",
    )
    assert "1 filed away: superseded" in told.body
    page = (root / "changelog/2026-02-01.md").read_text()
    assert "a wrote syn-2026-02-01-002 api superseding syn-2026-02-01-001: new" in page
    assert "archived syn-2026-02-01-001: superseded" in page
    assert "secret word" not in page
    assert "secret word" in (root / "views/b.md").read_text()
    for name in ("backend", "b"):
        assert "b is right" in (root / f"views/{name}.md").read_text()
    assert mem.verify().ok
    undo(mem, "2026-02-02")
    assert [entry.body for entry in mem.as_agent("a").read(namespace="system/*")] == []


def test_quiet_nights_say_nothing_of_themselves(world):
    mem, clock, _ = world
    busy(mem)
    for day in range(2, 25):
        run_nightly(mem, f"2026-02-{day:02d}", clock.advance("24h"))
    assert (
        len(
            [
                entry
                for entry in mem.store.log.since(0)
                if entry.fields.get("namespace") == "system/changelog"
            ]
        )
        == 1
    )
    assert [each.written for each in run_history(mem).runs] == [5, *[0] * 22]


def test_shape_and_idleness_are_worries():
    day = 86_400_000_000
    assert list(shape(f"n{n}" for n in range(11))) == [
        "11 at the top level, more than 10: hard to follow"
    ]
    assert list(shape(["a/b/c", "a/b/c/d"])) == ["a/b/c/d is deeper than 3 levels"]
    assert list(idleness([], None, 9 * day)) == []
    assert list(idleness([], 6 * day, 9 * day)) == []
    assert list(idleness([], 5 * day, 9 * day)) == [
        "no night since 1970-01-06: run `synapse defrag`, or have one run every night"
    ]


def test_growth_is_a_worry_where_nights_file_less_away(world):
    mem, clock, _ = world
    for day in range(1, 8):
        assert run_history(mem).worries == ()
        for n in range(20):
            mem.as_agent("a").append(f"fact {day} {n}", "api", ttl="90d")
        run_nightly(mem, f"2026-02-0{day}", clock.advance("24h"))
    assert run_history(mem).worries == (
        "140 entries were written in the last 7 nights, and 0 filed away: it grows",
    )


def test_a_curve_fits_its_width():
    lines = plot(range(1_000), 69)
    assert len(lines) == 6
    assert max(map(len, lines)) == 79
    assert lines[0].lstrip().startswith("999 |")
    assert lines[-1].startswith("       0 |████")
    assert plot([0, 0], 10)[-1] == "       0 |"
