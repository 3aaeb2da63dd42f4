"""Nights on random stores, killed anywhere: nothing is lost, whoever goes on comes to the same end,
all can be undone.

A night runs in a process of its own, which kills itself at a phase, or before or after one of its
steps.
"""

import os
import random
import shutil
import signal
import traceback

import pytest

import synapse
from synapse import consolidate
from synapse.consolidate import PHASES, claim, gather, plan, run_nightly, undo
from synapse.consolidate.nightly import LEASE
from synapse.model.agents import Agent
from synapse.system.digest import sha256
from synapse.testing import FrozenClock

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


def state(mem):
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


class Death:
    """When a process dies: as a phase begins, or before or after its n-th step, be it a line of the
    log, within those that are written at once too, a page of the archive that is added to, or a
    file that goes.
    """

    def __init__(self, phase=None, step=None, after=False):
        self.phase, self.step, self.after, self.count = phase, step, after, 0

    def watch(self, log):
        for owner, name in ((log.journal, "_write"), (log.mirror, "_add"), (log.mirror, "remove")):
            setattr(owner, name, self.watched(getattr(owner, name)))

    def watched(self, act):
        def watched(*args):
            self.count += 1
            if self.count == self.step and not self.after:
                die()
            value = act(*args)
            if self.count == self.step:
                die()
            return value

        return watched

    def at(self, phase):
        if phase == self.phase:
            die()


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def apart(work):
    """Run it in a process of its own; whether that was killed."""
    child = os.fork()
    if not child:
        try:
            work()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    return os.WIFSIGNALED(status)


def night_until(root, death, now):
    def work():
        with opened(root) as mem:
            death.watch(mem.store.log)
            run_nightly(mem, DATE, now, death.at)

    return apart(work)


def deaths(chance):
    """Once at every phase, then anywhere."""
    yield from (Death(phase=phase) for phase in PHASES)
    while True:
        yield Death(step=chance.randint(1, 40), after=chance.random() < 0.5)


def check(tmp_path, seed, killed, fill=filled):
    """One store and a night on it, killed in these ways one after the other."""
    root, twin = str(tmp_path / f"s{seed}"), str(tmp_path / f"t{seed}")
    fill(root, seed)
    shutil.copytree(root, twin)
    with opened(root) as mem:
        before, first = originals(mem), state(mem)
    now = FrozenClock(NIGHT)()
    with opened(twin) as mem:
        assert run_nightly(mem, DATE, now).ran
        wanted = state(mem)
    # who dies here is followed at once, and so it is when the lease is over
    died, lease = 0, LEASE * (seed % 2)
    for turn, death in enumerate(killed):
        died += night_until(root, death, now + turn * lease)
    with opened(root) as mem:
        run_nightly(mem, DATE, now + len(killed) * lease)
        assert not run_nightly(mem, DATE, now + 99 * LEASE).ran
        assert state(mem) == wanted
        assert originals(mem) == before
        assert plan(gather(mem.store, now), now, mem.store.settings).acts == ()
        assert run_nightly(mem, "2026-02-10", now).acts == ()
        if state(mem) != first:
            undo(mem, DATE)
            assert without(state(mem), first) == first
            undo(mem, "last")
            assert state(mem) == wanted
        assert originals(mem) == before
        assert mem.verify().problems == ()
    shutil.rmtree(root)
    shutil.rmtree(twin)
    return died


def walk(tmp_path, seeds, fill=filled):
    chance, died = random.Random(7), 0
    ways = deaths(chance)
    for seed in seeds:
        died += check(tmp_path, seed, [next(ways) for _ in range(chance.randint(1, 3))], fill)
    return died


def test_nights_killed_anywhere_come_to_the_same_end(tmp_path):
    assert walk(tmp_path, range(8)) >= 6


def test_nights_that_make_room_come_to_the_same_end(tmp_path):
    assert walk(tmp_path, range(6), room_state) >= 4


def test_nights_that_hold_few_entries_at_once_come_to_the_same_end(tmp_path, monkeypatch):
    monkeypatch.setattr(consolidate.state, "AT_ONCE", 2)
    assert walk(tmp_path, range(20, 26)) >= 4


@pytest.mark.soak
def test_a_thousand_nights_killed_anywhere_come_to_the_same_end(tmp_path):
    assert walk(tmp_path, range(1_000)) >= 600


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


@pytest.mark.parametrize("after", [None, "archive"])
def test_five_processes_run_one_night(tmp_path, after):
    """Also where its leader has just died: one of them goes on, at once."""
    root = str(tmp_path / "memory")
    filled(root, 1)
    if after:
        assert night_until(root, Death(phase=after), FrozenClock(NIGHT)())
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
