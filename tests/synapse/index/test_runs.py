"""Questions about runs: each answers as a look at all runs would, and costs as much as it gives."""

from itertools import combinations

import pytest

import synapse
from synapse.model.records import Record
from synapse.testing.tools import FrozenClock

AGENTS, PROJECTS = ("lead", "eng-a", "eng-b"), ("shop", "site", "", None)


def work(mem, trees):
    """Begin and end trees of five runs, one after the other; every tenth run goes on."""
    for tree in range(trees):
        begun, ended = {}, {}
        for n in range(5):
            number, agent = tree * 5 + n, AGENTS[n % 3]
            id = f"lead-{tree}" if n == 0 else f"{agent}-{tree}-{n}"
            parent = None if n == 0 else f"lead-{tree}" if n < 3 else f"eng-a-{tree}-1"
            if n == 4 and tree % 4 == 3:
                parent = "nobody-1"  # whose record this journal does not have
            fields = {"run": id, "agent": agent, "epoch": 1, "state": "running"}
            fields |= {"parent": parent, "root": f"lead-{tree}", "project": PROJECTS[number % 4]}
            fields |= {"role": "engineer", "model": f"m{tree % 3}"}
            fields |= {"department": ("web", "api", "", None)[number % 4]}
            begun[f"begin {id}"] = Record.new("run", agent, fields, key=f"run:{id}")
            end = {"run": id, "state": "waiting" if n == 3 else "ended"}
            end |= {"status": ("done", "failed", "blocked")[tree % 3]}
            if number % 10 != 9:
                ended[f"end {id}"] = Record.new("run", agent, end, key=f"run:{id}")
        mem.store.commit.append_all(begun)
        mem.store.clock.advance("1h")
        mem.store.commit.append_all(ended)


def filled(trees):
    mem = synapse.open("memory:", clock=FrozenClock())
    for name in AGENTS:
        mem.register(synapse.Agent(name, role="engineer", read=("*",), write=("*",)))
    work(mem, trees)
    mem.store.refresh()
    return mem


@pytest.fixture(scope="module")
def mem():
    mem = filled(12)
    yield mem
    mem.close()


def group(run, name):
    return run.get(name) or "-"


TIME = FrozenClock("2026-02-01T15:00:00Z")()
ASKED = {
    "prefix": ("eng-a-1", lambda run, value: run["run"].startswith(value)),
    "parent": ("lead-2", lambda run, value: run.get("parent") == value),
    "root": ("lead-3", lambda run, value: run["root"] == value),
    "state": ("ended", lambda run, value: run["state"] == value),
    "ended_since": (TIME, lambda run, value: (run["ended_at"] or 0) >= value),
    "since": (TIME, lambda run, value: run["at"] >= value),
    "until": (TIME, lambda run, value: run["at"] < value),
    "agent": ("eng-b", lambda run, value: run["agent"] == value),
    "project": ("shop", lambda run, value: run.get("project") == value),
    "no_project": (True, lambda run, value: not run.get("project")),
    "before": (60, lambda run, value: run["seq"] < value),
    "department": ("-", lambda run, value: group(run, "department") == value),
    "role": ("engineer", lambda run, value: group(run, "role") == value),
    "model": ("m1", lambda run, value: group(run, "model") == value),
    "statuses": ('["failed","done"]', lambda run, value: run.get("status") in ("failed", "done")),
    "no_statuses": (
        '["failed","done"]',
        lambda run, value: run.get("status") not in ("failed", "done"),
    ),
}


@pytest.mark.parametrize("number", [0, 1, 2, 3])
def test_what_is_asked_holds_of_what_is_found(mem, number):
    with mem.store.snapshot() as snap:
        everything = snap.runs()
        assert [run["seq"] for run in everything] == sorted(
            (run["seq"] for run in everything), reverse=True
        )
        for names in combinations(ASKED, number):
            asked = {name: ASKED[name][0] for name in names}
            expected = [
                run
                for run in everything
                if all(ASKED[name][1](run, ASKED[name][0]) for name in names)
            ]
            assert snap.runs(**asked) == expected, names
            assert snap.runs(**asked, limit=2) == expected[:2], names
            assert snap.count_runs(**asked) == len(expected), names


def test_each_condition_leaves_some_out_and_lets_some_in(mem):
    with mem.store.snapshot() as snap:
        for name, (value, _) in ASKED.items():
            count = snap.count_runs(**{name: value})
            assert 0 < count < snap.count_runs() or name == "role", name
        with pytest.raises(ValueError, match="stat"):
            snap.runs(stat="ended")


def test_trees_are_whole_and_the_newest(mem):
    with mem.store.snapshot() as snap:
        everything = snap.runs()
        ids = {run["run"] for run in everything}
        tops = [run["run"] for run in everything if run.get("parent") not in ids]
        assert len(tops) == 12 + 3
        for limit in (1, 4, 99, None):
            found = {run["run"] for run in snap.trees(limit)}
            below = set(tops[:limit])
            while more := {run["run"] for run in everything if run.get("parent") in below} - below:
                below |= more
            assert found == below
            assert snap.trees(limit) == [run for run in everything if run["run"] in below]
        assert len(snap.below(["eng-a-5-1"])) == 3


def steps(mem, ask):
    """Return how many steps SQLite takes for a question, in tens."""
    count = 0

    def another():
        nonlocal count
        count += 1

    connection = mem.store.index.db.connection
    with mem.store.snapshot() as snap:
        connection.set_progress_handler(another, 10)
        ask(snap)
        connection.set_progress_handler(None, 10)
    return count


QUESTIONS = {
    "newest": lambda snap: snap.runs(limit=20),
    "of an agent": lambda snap: snap.runs(agent="eng-a", limit=20),
    "of a project": lambda snap: snap.runs(project="site", limit=20),
    "ended": lambda snap: snap.runs(state="ended", limit=20),
    "of an ended state": lambda snap: snap.runs(state="ended", statuses='["done"]', limit=5),
    "since": lambda snap: snap.runs(since=snap.last_stamp() - 7_200_000_000),
    "ended since": lambda snap: snap.runs(
        state="ended", ended_since=snap.last_stamp() - 7_200_000_000, agent="eng-a"
    ),
    "trees": lambda snap: snap.trees(3),
    "below": lambda snap: snap.below(["lead-7"]),
    "by a name": lambda snap: snap.runs(prefix="eng-a-7-", limit=5),
    "children": lambda snap: snap.children("lead-7"),
    "last night": lambda snap: snap.last_maintenance(),
}


def test_a_question_costs_what_it_gives_however_many_runs_there_are():
    few, many = filled(20), filled(200)
    found = {name: (steps(few, ask), steps(many, ask)) for name, ask in QUESTIONS.items()}
    few.close()
    many.close()
    assert {name: cost for name, cost in found.items() if cost[1] > cost[0] * 1.3 + 20} == {}
