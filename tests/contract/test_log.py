"""The contract of the log, on every log there is."""

import pytest

import synapse
from synapse.errors import StoreError
from synapse.log.memory import MemoryLog
from synapse.model.records import Record
from synapse.testing import FrozenClock, LogContract, draft_entry


class Opened:
    """Logs with their index, closed after the test."""

    @pytest.fixture(autouse=True)
    def _opened(self, tmp_path):
        self.path, self.memories = tmp_path, []
        yield
        for memory in self.memories:
            memory.close()

    def _kept(self, memory):
        self.memories.append(memory)
        return memory.store.log


class TestFilesLog(Opened, LogContract):
    def make_log(self, clock):
        self.clock = clock
        return self._kept(synapse.init(str(self.path / f"log-{len(self.memories)}"), clock=clock))

    def reopened(self, log):
        return self._kept(synapse.open(log.root, clock=self.clock))


class TestFilesLogOfManySegments(TestFilesLog):
    """The same, with a new segment of the journal every few lines."""

    def _kept(self, memory):
        memory.store.log.journal.segment_bytes = 1_500
        return super()._kept(memory)


class TestMemoryLog(Opened, LogContract):
    def make_log(self, clock):
        return self._kept(synapse.open("memory:", clock=clock))


class Forgetful(MemoryLog):
    """A log that keeps an entry's id for the next one too."""

    def _claim(self, at, entry):
        return entry.id or "syn-2026-02-01-001"


class Unguarded(MemoryLog):
    """A log that decides on a guard before its turn."""

    def append(self, record, *, once=None, unless=None):
        return super().append(record)


class Skewed(MemoryLog):
    """A log whose order is the writers' clocks'."""

    def since(self, cursor=0):
        return iter(
            sorted(super().since(cursor), key=lambda record: record.fields.get("timestamp") or "")
        )


@pytest.mark.parametrize(
    ("kind", "tests"),
    [
        (Forgetful, ["ids_are_unique_for_ever", "ids_are_unique_among_any_number_of_writers"]),
        (
            Unguarded,
            [
                "once_returns_the_first_record",
                "unless_raises_and_writes_nothing",
                "guards_hold_together",
            ],
        ),
        (Skewed, ["an_author_s_timestamp_has_no_say_in_the_order"]),
    ],
)
def test_the_contract_catches_a_log_that_breaks_it(kind, tests):
    class Broken(LogContract):
        def make_log(self, clock):
            log = synapse.open("memory:", clock=clock).store.log
            log.__class__ = kind
            log.append(draft_entry("old", timestamp="2031-01-01T00:00:00Z"))
            log.append(Record.new("shown", "eng-a", {"cursor": 1}))
            return log

    for name in tests:
        with pytest.raises(AssertionError):
            getattr(Broken(), f"test_{name}")()


def test_a_log_without_its_index_says_so():
    with pytest.raises(StoreError, match="index"):
        MemoryLog(FrozenClock()).get("syn-2026-02-01-001")
