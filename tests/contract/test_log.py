"""The contract of the log, on every log there is."""

import pytest

import synapse
from synapse.errors import Conflict
from synapse.index.index import Index
from synapse.log.commit import Commit
from synapse.log.memory import MemoryLog
from synapse.model.records import Record
from synapse.testing import LogContract, draft_entry


class Opened:
    """Logs with their commit, closed after the test."""

    @pytest.fixture(autouse=True)
    def _opened(self, tmp_path):
        self.path, self.memories = tmp_path, []
        yield
        for memory in self.memories:
            memory.close()

    def _kept(self, memory):
        self.memories.append(memory)
        return memory.store.commit


class TestFilesLog(Opened, LogContract):
    def make_commit(self, clock):
        self.clock = clock
        return self._kept(synapse.init(str(self.path / f"log-{len(self.memories)}"), clock=clock))

    def reopened(self, commit):
        return self._kept(synapse.open(commit.log.root, clock=self.clock))


class TestFilesLogOfManySegments(TestFilesLog):
    """The same, with a new segment of the journal every few lines."""

    def _kept(self, memory):
        memory.store.log.journal.segment_bytes = 1_500
        return super()._kept(memory)


class TestMemoryLog(Opened, LogContract):
    def make_commit(self, clock):
        return self._kept(synapse.open("memory:", clock=clock))


class Forgetful(MemoryLog):
    """A log that forgets how many ids it gave."""

    def _write(self, record, place, keeper):
        self.tail = self.tail._replace(n=0)
        return super()._write(record, place, keeper)


class Unguarded(MemoryLog):
    """A log that writes what it is given, whatever is decided about it."""

    def _write(self, record, place, keeper):
        def lenient(record, tail, at):
            try:
                placed = place(record, tail, at)
            except Conflict:
                placed = record
            return placed if not placed.seq else record._replace(seq=0)

        return super()._write(record, lenient, keeper)


class Skewed(MemoryLog):
    """A log whose order is the writers' clocks'."""

    def since(self, cursor=0, texts=True):
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
        def make_commit(self, clock):
            log = kind(clock)
            commit = Commit(log, Index(log, ":memory:"))
            commit.append(draft_entry("old", timestamp="2031-01-01T00:00:00Z"))
            commit.append(Record.new("shown", "eng-a", {"cursor": 1}))
            return commit

    for name in tests:
        with pytest.raises(AssertionError):
            getattr(Broken(), f"test_{name}")()
