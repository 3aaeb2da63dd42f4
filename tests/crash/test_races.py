"""Races among processes: `once` gives one record, guards are never oversold, a ruling is made once.

Each racer is a process of its own. They wait at a gate, so that they truly begin together.
"""

import json
import os
import time

import pytest

import synapse
from synapse.testing import FrozenClock
from tests.crash.lives import begin

RACERS = 8
RACER = """
import json, sys, time, synapse
from synapse.model.records import Record, epoch_is, none_live, sum_below
root, name, code = sys.argv[1:4]
with synapse.open(root) as memory:
    commit, me = memory.store.commit, memory.as_agent(name)
    me.read()
    results = []
    def attempt(act):
        try:
            results.append(act())
        except synapse.SynapseError as error:
            results.append(type(error).__name__)
    print("ready", flush=True)
    sys.stdin.readline()
    exec(code)
    print(json.dumps(results), flush=True)
"""


@pytest.fixture
def root(tmp_path):
    with synapse.init(str(tmp_path / "memory")) as memory:
        for n in range(RACERS):
            memory.register(synapse.Agent(f"eng-{n}", read=["*"], write=["*"]))
        for n in range(RACERS):
            memory.register(synapse.Agent(f"lead-{n}", role="cto"))
        memory.register(synapse.Agent("junior", read=["*"], write=["*"], review_required=True))
    return str(tmp_path / "memory")


def race(root, code, names=None):
    """What each of the racers got, in a list each."""
    names = names or ["eng-0"] * RACERS
    racers = [begin("-c", RACER, root, name, code) for name in names]
    for racer in racers:
        assert racer.stdout.readline() == "ready\n"
    for racer in racers:
        racer.stdin.write("go\n")
        racer.stdin.flush()
    found = [json.loads(racer.communicate(timeout=60)[0]) for racer in racers]
    assert [racer.returncode for racer in racers] == [0] * len(racers)
    return found


def records(root, **wanted):
    with synapse.open(root) as memory:
        assert memory.verify().problems == ()
        found = list(memory.store.log.since())
    return [
        record
        for record in found
        if all(getattr(record, name) == value for name, value in wanted.items())
    ]


def test_one_key_makes_one_entry(root):
    """Eight processes, five keys, each of them tried ten times over: five entries."""
    code = "for n in range(50): attempt(lambda: me.append(f'{n}', 'api/x', once=f'key-{n % 5}').id)"
    found = race(root, code)
    for key in range(5):
        assert len({ids[n] for ids in found for n in range(key, 50, 5)}) == 1
    assert len(records(root, kind="entry")) == 5


def test_a_key_is_its_author_s_own(root):
    found = race(
        root,
        "attempt(lambda: me.append('x', 'api/x', once='key').id)",
        [f"eng-{n}" for n in range(RACERS)],
    )
    assert len({ids[0] for ids in found}) == RACERS
    assert len(records(root, kind="entry", once="key")) == RACERS


def test_a_budget_is_never_oversold(root):
    code = """
for n in range(20):
    act = Record.new("reserve", name, {"amount": 7}, key="budget")
    attempt(lambda: commit.append(act, unless=sum_below("budget", 100)).seq)
"""
    found = race(root, code)
    taken = [result for results in found for result in results if result != "Conflict"]
    # the fifteenth is the one that begins below the limit
    assert len(taken) == len(set(taken)) == 15
    assert sum(record.fields["amount"] for record in records(root, key="budget")) == 105


def test_a_claim_has_one_holder_at_a_time(root):
    code = """
for n in range(15):
    def claim():
        seq = commit.append(Record.new("note", name, {}, key="task"), unless=none_live("task")).seq
        time.sleep(0.0005)
        commit.append(Record.new("note", name, {"end": True}, key="task"))
        return seq
    attempt(claim)
"""
    found = race(root, code, [f"eng-{n}" for n in range(RACERS)])
    acts = records(root, key="task")
    assert [bool(record.fields.get("end")) for record in acts] == [False, True] * (len(acts) // 2)
    assert all(one.by == two.by for one, two in zip(acts[::2], acts[1::2], strict=True))
    assert len(acts) == 2 * sum(result != "Conflict" for results in found for result in results)


def test_work_is_claimed_by_one_alone(root):
    """Eight processes want the same fifty pieces of work: each piece goes to exactly one of
    them.
    """
    code = "for n in range(50): attempt(lambda: me.claim(f'Work  {n}.').work)"
    found = race(root, code, [f"eng-{n}" for n in range(RACERS)])
    taken = sorted(result for results in found for result in results if result != "Conflict")
    assert taken == sorted(f"work {n}" for n in range(50))
    assert len(records(root, kind="claim")) == 50


def test_an_epoch_is_taken_once(root):
    code = """
for n in range(10):
    act = Record.new("run", name, {"run": "r", "epoch": n + 1}, key="run:r")
    attempt(lambda: commit.append(act, unless=epoch_is("run:r", n)).seq)
"""
    race(root, code)
    epochs = [record.fields["epoch"] for record in records(root, key="run:r")]
    assert epochs == list(range(1, len(epochs) + 1))
    assert epochs


def test_the_queue_for_review_is_never_longer_than_it_may_be(root):
    code = "for n in range(20): attempt(lambda: me.append(f'{n}', 'api/x').id)"
    with open(f"{root}/synapse.yaml", "a") as file:
        file.write("\n# at most\n")
    with open(f"{root}/synapse.yaml") as file:
        text = file.read().replace("limit: 100", "limit: 10")
    with open(f"{root}/synapse.yaml", "w") as file:
        file.write(text)
    found = race(root, code, ["junior"] * RACERS)
    assert sum(result != "QueueFull" for results in found for result in results) == 10
    with synapse.open(root) as memory:
        assert len(memory.as_agent("junior").staged()) == 10
        lead = memory.as_agent("lead-0")
        lead.approve(lead.staged()[0].id)
        memory.as_agent("junior").append("one more", "api/x")
        with pytest.raises(synapse.QueueFull):
            memory.as_agent("junior").append("too many", "api/x")


@pytest.mark.parametrize("others", ["approve", "reject"])
def test_an_entry_is_ruled_on_once(root, others):
    """Whoever comes first decides; and the place in the queue is given back once, not once per
    ruling.
    """
    with synapse.open(root) as memory:
        ids = [memory.as_agent("junior").append(f"{n}", "api/x").id for n in range(6)]
    code = f"""
import random
acts = [(id, kind) for id in {ids!r} for kind in ("approve", "{others}")]
random.Random(name).shuffle(acts)
for id, kind in acts:
    attempt(lambda: (getattr(me, kind)(id), kind)[1])
"""
    race(root, code, [f"lead-{n}" for n in range(RACERS)])
    rulings = [record for record in records(root) if record.kind in ("approve", "reject")]
    assert sorted(record.fields["entry"] for record in rulings) == ids
    approved = {record.fields["entry"] for record in rulings if record.kind == "approve"}
    with synapse.open(root) as memory:
        assert {entry.id for entry in memory.as_agent("lead-0").read()} == approved
        assert memory.as_agent("lead-0").staged() == []
        assert sum(record.fields.get("amount", 1) for record in records(root, key="staging")) == 0


def test_what_expires_while_it_is_ruled_on_is_ruled_on_once(tmp_path):
    clock = FrozenClock()
    with synapse.init(str(tmp_path / "memory"), clock=clock) as memory:
        memory.register(synapse.Agent("lead", role="cto"))
        memory.register(synapse.Agent("junior", read=["*"], write=["*"], review_required=True))
        id = memory.as_agent("junior").append("late", "api/x").id
        with synapse.open(str(tmp_path / "memory"), clock=clock) as other:
            waiting = other.as_agent("lead").staged()
            assert [entry.id for entry in waiting] == [id]
            clock.advance("8d")
            assert memory.as_agent("lead").staged() == []
            with pytest.raises(synapse.Conflict):
                other.as_agent("lead").approve(id)
        rulings = [
            record.kind
            for record in memory.store.log.since()
            if record.kind in ("approve", "reject")
        ]
        assert rulings == ["reject"]


def test_a_dropped_file_is_adopted_once_whoever_sees_it(root):
    """Eight processes look at the same moment: one entry, under one id."""
    code = """
from synapse.log import adopt
adopt.SETTLED = -1
for n in range(8):
    memory.store.refresh(whole=True)
    time.sleep(0.005)
attempt(lambda: len(me.read()))
"""
    names = ["eng-0"] * RACERS
    text = (
        "---\nid: syn-x-{0}\nfrom: eng-1\ntimestamp: 2026-02-01T00:00:00Z\npriority:"
        " info\n---\n\nbody {0}\n"
    )
    for n in range(40):
        for place in ("entries/api/x", "inbox/eng-1/new"):
            path = f"{root}/{place}"
            os.makedirs(path, exist_ok=True)
            with open(f"{path}/drop-{n}.md", "w") as file:
                file.write(
                    text.format(f"{place[0]}{n}").replace("priority", "namespace: api/x\npriority")
                )
    time.sleep(0.3)
    found = race(root, code, names)
    assert found == [[80]] * RACERS
    assert len(records(root, kind="entry")) == 80


def test_files_are_named_and_journalled_once_by_agents_edited_at_once(root):
    """An edit of the operator's is noticed by everybody and journalled by one."""
    before = len(records(root, kind="agent"))
    code = "time.sleep(0.3); memory.store.refresh(whole=True); memory.agents(); attempt(lambda: len(memory.agents()))"
    with open(f"{root}/agents/eng-3.yaml") as file:
        text = file.read()
    with open(f"{root}/agents/eng-3.yaml", "w") as file:
        file.write(text.replace("role: engineer", "role: specialist"))
    found = race(root, code)
    assert found == [[2 * RACERS + 1]] * RACERS
    assert len(records(root, kind="agent")) == before + 1


REBUILD = """
import sys, synapse
with synapse.open(sys.argv[1]) as memory:
    for _ in range(3):
        memory.rebuild()
"""


def test_who_reads_while_the_index_is_derived_anew_sees_all_of_it(root, monkeypatch):
    monkeypatch.setattr("os.fdatasync", lambda fd: None)
    count = 2_500  # more than is taken in at once
    with synapse.open(root) as memory:
        ids = [memory.as_agent("eng-0").append(f"{n}", f"api/n{n % 9}").id for n in range(count)]
        reader = memory.as_agent("eng-1")
        assert reader.unread() == len(reader.read()) == count
        process = begin("-c", REBUILD, root)
        looks = 0
        while process.poll() is None:
            with synapse.open(root) as other:
                fresh = other.as_agent("eng-1")
                assert (len(fresh.read()), fresh.unread(), fresh.get(ids[0]).id) == (
                    count,
                    count,
                    ids[0],
                )
            assert len(reader.read(namespace=f"api/n{looks % 9}", limit=100 + looks)) == 100 + looks
            assert reader.get(ids[0]).body == "0"
            looks += 1
        process.communicate()
        assert process.returncode == 0
        assert looks > 3


def test_what_is_on_its_way_is_no_damage(root):
    """`verify` among writers: their files follow their records, so a moment later, all is there."""
    code = """
import os
ids = []
while len(ids) < 60 or not os.path.exists(f"{root}.enough"):
    ids.append(me.append("text", f"api/n{len(ids) % 9}").id)
    if len(ids) % 20 == 0:
        me.archive(ids[-5:])
"""
    racers = [begin("-c", RACER, root, "eng-0", code) for _ in range(3)]
    for racer in racers:
        racer.stdin.write("go\n")
        racer.stdin.flush()
    problems, looks = [], 0
    with synapse.open(root) as memory:
        while any(racer.poll() is None for racer in racers):
            problems += memory.verify().problems
            looks += 1
            if looks > 5:  # at which the writers stop
                open(f"{root}.enough", "w").close()
    for racer in racers:
        racer.communicate()
    assert (problems, [racer.returncode for racer in racers]) == ([], [0] * 3)
    assert looks > 5
