"""Nights on random stores, killed anywhere: nothing is lost, whoever goes on comes to the same end,
all can be undone.

A night runs in a process of its own, which is killed at one of its calls of the system.
"""

import importlib
import os
import random
import shutil
from itertools import count

import pytest

import synapse
from synapse.consolidate import claim, gather, plan, run_nightly, state, undo
from synapse.consolidate.nightly import LEASE
from synapse.model.agents import Agent
from synapse.system.digest import sha256
from synapse.testing import FrozenClock
from tests.crash import kill

DATE = "2026-02-09"
START = "2026-01-31T00:00:00Z"
NIGHT = "2026-02-09T02:30:00Z"
AGENTS = {"cto": "cto", "lead": "project-lead", "a": "engineer", "b": "engineer", "c": "specialist"}
PLACES = ("api/users", "status/x", "blockers/x", "decisions/d")
SAID = (
    "The users endpoint takes {} ms",
    "the users endpoint takes {} ms.",
    "We do not use port {}",
    "we do use port {}",
)


def opened(root, at=NIGHT):
    return synapse.open(root, clock=FrozenClock(at))


def room_state(root, seed):
    """A store that has been warned: there is too much in it."""
    filled(root, seed)
    with open(f"{root}/synapse.yaml", "a") as file:
        file.write("size_limits: {per_namespace: 300, total_shared: 1KB}\n")
    with opened(root, "2026-02-08T02:30:00Z") as mem:
        mem.store.refresh(whole=True)
        assert {"warn"} <= {
            each.act.kind for each in run_nightly(mem, "2026-02-08", mem.store.clock()).acts
        }


def filled(root, seed, size=30):
    """A store with something of everything in it, the same for a seed; of what is past its time at
    NIGHT, all is.
    """
    chance, clock = random.Random(seed), FrozenClock(START)
    synapse.init(root, clock=clock).close()
    with synapse.open(root, clock=clock) as mem:
        for id, role in AGENTS.items():
            mem.register(Agent(id, role=role, read=("*",), write=("*",), teams=("red",)))
        ids = []
        for _ in range(size):
            author, place = chance.choice([*AGENTS]), chance.choice(PLACES)
            more = {
                "ttl": chance.choice(("1d", "7d", "30d", "90d", "never")),
                "to": chance.choice(("all", "team:red")),
            }
            more["priority"] = chance.choice(("info", "info", "important", "critical"))
            if chance.random() < 0.2:
                more["topic"] = chance.choice(("one", "two"))
            if ids and chance.random() < 0.2:
                more["supersedes"] = chance.choice(ids)
            body = chance.choice(SAID).format(chance.choice((80, 443)))
            ids.append(mem.as_agent(author).append(body, place, **more).id)
            clock.advance("20m")
        for id in chance.sample(ids, 2):
            mem.as_agent("cto").archive(id) if chance.random() < 0.3 else None


def originals(mem):
    """The digest of every entry that an agent wrote, as its record has it."""
    records = [
        record
        for record in mem.store.log.since(0)
        if record.kind == "entry" and record.by in AGENTS
    ]
    return {
        record.id: sha256(record.text.encode(), repr(sorted(record.fields.items())).encode())
        for record in records
    }


def stands(mem):
    """Where each entry stands, what it says and for whom, and what is shown of it."""
    mem.store.refresh()
    now = mem.store.clock()
    shown = {entry.id for entry in mem.as_agent("operator").read(limit=None)}
    entries = mem.store.index.current.all(now)
    return {
        each.id: (
            each.body,
            each.to,
            each.priority,
            each.disputed,
            each.archived,
            each.derived_from,
            each.id in shown,
        )
        for each in entries
    }


def without(found, kept):
    """The state of these alone; nothing else is shown."""
    assert not any(shown for id, (*_, shown) in found.items() if id not in kept)
    return {id: each for id, each in found.items() if id in kept}


# -- lives that are killed -------------------------------------------------------------------------


def night(root, now, at_once):
    state.AT_ONCE = int(at_once)
    with opened(root) as mem:
        run_nightly(mem, DATE, int(now))


def night_without_keys(root, *args):
    """Write what is new once for each process that carries out the act."""
    module = importlib.import_module("synapse.consolidate.apply")
    key = module._key_of
    module._key_of = lambda act, name: f"{key(act, name)} {os.getpid()}"
    night(root, *args)


class Store:
    """One store, of which each night has a copy, and what comes of a whole night."""

    def __init__(self, folder, seed, fill, at_once):
        self.whole = str(folder / "whole")
        self.copies = (str(folder / f"{n}") for n in count())
        self.at_once, self.now = at_once, FrozenClock(NIGHT)()
        fill(self.whole, seed)
        with opened(self.whole) as mem:
            self.before, self.first = originals(mem), stands(mem)
        with opened(self.fresh()[0]) as mem:
            assert run_nightly(mem, DATE, self.now).ran
            self.wanted = stands(mem)

    def fresh(self):
        root = shutil.copytree(self.whole, next(self.copies))
        return root, self.now, self.at_once

    def ends(self, work, most):
        """Kill a night at so many of its calls, and who goes on with it at as many, until one comes
        to its end; yield each time what is wrong then.
        """
        for n, (at, (root, now, at_once)) in enumerate(kill.kills(work, self.fresh, most)):
            # who dies here is followed at once, and so it is when the lease is over
            lease = LEASE * (n % 2)
            turns = (now + turn * lease for turn in (1, 2))
            all(kill.killed(work, root, then, at_once, at=at) for then in turns)
            with opened(root) as mem:
                run_nightly(mem, DATE, now + 3 * lease)
                yield [(at, what) for what in self.wrong(mem)]

    def wrong(self, mem):
        if run_nightly(mem, DATE, self.now + 99 * LEASE).ran:
            yield "it is run again"
        if stands(mem) != self.wanted:
            yield "another end"
        if plan(gather(mem.store, self.now), self.now, mem.store.settings).acts:
            yield "there is more to do"
        if run_nightly(mem, "2026-02-10", self.now).acts:
            yield "the next night does more"
        if stands(mem) != self.first:
            undo(mem, DATE)
            if without(stands(mem), self.first) != self.first:
                yield "it cannot be undone"
            undo(mem, "last")
            if stands(mem) != self.wanted:
                yield "it cannot be done again"
        if originals(mem) != self.before:
            yield "something is lost"
        yield from map(str, mem.verify().problems)


KINDS = {
    "filled": (filled, state.AT_ONCE),
    "with room to make": (room_state, state.AT_ONCE),
    "with few entries at once": (filled, 2),
}


@pytest.mark.parametrize(
    ("seeds", "most"), [(1, 6), pytest.param(60, 10, marks=pytest.mark.soak)], ids=["one", "many"]
)
@pytest.mark.parametrize("kind", KINDS)
def test_nights_killed_anywhere_come_to_the_same_end(tmp_path, monkeypatch, kind, seeds, most):
    fill, at_once = KINDS[kind]
    monkeypatch.setattr(state, "AT_ONCE", at_once)
    for seed in range(seeds):
        ends = [*Store(tmp_path / str(seed), seed, fill, at_once).ends(night, most)]
        assert ends == [[]] * len(ends)
        assert len(ends) >= most - 1  # the last call of one night may be none of another


def test_a_night_without_keys_is_found_out(tmp_path):
    ends = Store(tmp_path, 0, filled, state.AT_ONCE).ends(night_without_keys, 12)
    assert any("another end" in {what for _, what in wrong} for wrong in ends)


def test_the_random_stores_have_something_of_everything(tmp_path):
    kinds = set()
    for seed in range(6):
        filled(str(tmp_path / str(seed)), seed)
        with opened(str(tmp_path / str(seed))) as mem:
            acts = plan(
                gather(mem.store, mem.store.clock()), mem.store.clock(), mem.store.settings
            ).acts
            kinds |= {(act.kind, act.reason.partition(":")[0]) for act in acts}
    assert {
        ("archive", "superseded"),
        ("archive", "outranked"),
        ("archive", "past its time"),
    } <= kinds
    assert {"merge", "escalate"} <= {kind for kind, _ in kinds}


@pytest.mark.parametrize("leader", ["alone", "dead"])
def test_five_processes_run_one_night(tmp_path, leader):
    """Also where its leader has just died: one of them goes on, at once."""
    root = str(tmp_path / "memory")
    filled(root, 1)
    if leader == "dead":
        assert kill.killed(night, root, FrozenClock(NIGHT)(), state.AT_ONCE, at=150)
    read, write = os.pipe()
    for _ in range(5):
        if not os.fork():
            try:
                with opened(root) as mem:
                    mem.store.refresh()
                    os.write(
                        write, b"ran" if run_nightly(mem, DATE, mem.store.clock()).ran else b"-"
                    )
            finally:
                os._exit(0)
    for _ in range(5):
        os.wait()
    assert sorted(os.read(read, 99)) == sorted(b"ran----")
    os.close(read)
    os.close(write)


def test_a_leader_that_was_given_up_writes_nothing_when_it_wakes(tmp_path):
    root = str(tmp_path / "memory")
    filled(root, 2)
    with opened(root) as slow, opened(root) as other:
        now = slow.store.clock()

        def sleep(phase):
            if phase == "merge":
                assert run_nightly(other, DATE, now + LEASE).ran

        with pytest.raises(synapse.Conflict):
            run_nightly(slow, DATE, now, sleep)
        assert claim(slow, "night", DATE, now) is None
        epochs = [
            act.fields["epoch"] for act in slow.audit(agent="consolidator") if act.kind == "night"
        ]
        assert epochs == sorted(epochs, reverse=True)
