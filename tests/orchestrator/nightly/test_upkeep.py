"""What comes due now and then, on a thread of its own."""

import os
import threading
import time

import pytest

import synapse
from orchestrator.nightly.upkeep import FOLDED, Upkeep
from synapse.errors import StoreError


@pytest.fixture
def mem(tmp_path):
    with synapse.init(str(tmp_path / "ws")) as memory:
        memory.register(synapse.Agent("eng-a", department="web"))
        yield memory


def dropped(mem):
    path = os.path.join(mem.store.root, "entries", "status", "web", "note.md")
    os.makedirs(os.path.dirname(path))
    with open(path, "w", encoding="utf-8") as file:
        file.write(
            "---\nfrom: eng-a\ntimestamp: 2026-02-01T01:00:00Z\nnamespace:"
            " status/web\npriority: info\n---\nHi\n"
        )


def adopted(mem):
    """Whether the log has it, asked without looking for it."""
    return any(record.kind == "entry" for record in mem.store.log.since(0))


def within(seconds, true):
    end = time.monotonic() + seconds
    while not true() and time.monotonic() < end:
        time.sleep(0.02)
    return true()


def test_what_is_dropped_is_found_while_somebody_is_busy(mem):
    busy = threading.Event()
    upkeep = Upkeep(mem.store, busy.is_set)
    try:
        dropped(mem)
        assert not within(1.0, lambda: adopted(mem))
        busy.set()
        assert within(20.0, lambda: adopted(mem))
    finally:
        upkeep.close()


def test_a_look_that_fails_is_not_the_last(mem, monkeypatch):
    """Whoever looks on the way of something is told; this one tries again."""
    look, failures = mem.store.refresh, []

    def fails(**more):
        if len(failures) < 3:
            failures.append(1)
            raise StoreError("the disk is full")
        look(**more)

    monkeypatch.setattr(mem.store, "refresh", fails)
    upkeep = Upkeep(mem.store, lambda: True)
    try:
        dropped(mem)
        assert within(20.0, lambda: adopted(mem))
    finally:
        upkeep.close()
    assert len(failures) == 3


def test_it_folds_what_the_index_took_in(mem):
    upkeep = Upkeep(mem.store, lambda: True)
    try:
        for n in range(FOLDED):
            mem.as_agent("eng-a").append(f"note {n}", "status/web")
            mem.store.index.catch_up()
        assert within(20.0, lambda: mem.store.index.taken < FOLDED)
    finally:
        upkeep.close()


def test_it_leaves_nothing_open(mem):
    def connections():
        return len(mem.store.index.db.opened)

    before, threads = connections(), set(threading.enumerate())
    for _ in range(3):
        mem.store.index.taken = FOLDED
        upkeep = Upkeep(mem.store, lambda: True)
        assert within(20.0, lambda: connections() > before)
        upkeep.close()
    assert connections() == before
    assert set(threading.enumerate()) <= threads
