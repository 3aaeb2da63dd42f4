"""What an author may still write in an hour, and when there is room again."""

import pytest

from synapse.errors import QueueFull
from synapse.index.questions.allowance import HOUR, Allowances, Exceeded
from synapse.log.memory import MemoryLog
from synapse.model.settings import Settings
from synapse.store import Store
from synapse.testing import FrozenClock, draft_entry

MINUTE = 60_000_000
SETTINGS = Settings(hourly=(("entries", "3"), ("criticals", "1"), ("bytes", "1000")))
FREE = Settings(hourly=(("entries", "off"), ("criticals", "off"), ("bytes", "off")))


class Author:
    """A log in memory, and the allowance of its one author."""

    def __init__(self, settings=SETTINGS):
        self.settings = settings
        self.clock = FrozenClock()
        self.log = MemoryLog(self.clock)
        self.store = Store(self.log, self.clock)
        self.commit = self.store.commit
        self.notes = []
        self.allowances = Allowances(
            lambda: self.settings, self.clock, self.store.snapshot, self.note
        )

    def ask(self, body="body", **more):
        """Return what is exceeded by one more entry, which is not written."""
        entry = draft_entry(body, **more).entry
        return self.allowances.spend(entry, self.clock())

    def admit(self, body="body", **more):
        entry = draft_entry(body, **more).entry
        return self.allowances.admit(entry)

    def note(self, record, once):
        self.notes.append((record.by, record.fields, once))

    def write(self, **more):
        return self.commit.append(draft_entry("body", **more))


def test_so_many_entries_fit_into_an_hour_and_no_more():
    author = Author()
    now = author.clock()
    asked = [author.ask() for _ in range(4)]
    assert asked == [None, None, None, Exceeded("entries", 3, now + HOUR)]
    assert author.ask(author="another") is None


def test_so_many_bytes_fit_into_an_hour_and_no_more():
    author = Author()
    full = Exceeded("bytes", 1000, author.clock() + HOUR)
    assert author.ask("x" * 1001) == full
    assert [author.ask("x" * size) for size in (999, 2, 1, 1)] == [None, full, None, full]


def test_a_critical_entry_beyond_the_limit_counts_as_another():
    author = Author()
    now = author.clock()
    asked = [author.ask(priority="critical") for _ in range(4)]
    assert asked == [
        None,
        Exceeded("criticals", 1, now + HOUR),
        Exceeded("criticals", 1, now + HOUR),
        Exceeded("entries", 3, now + HOUR),
    ]


def test_nothing_is_exceeded_where_there_is_no_limit():
    author = Author(FREE)
    assert [author.ask("x" * 10**6, priority="critical") for _ in range(9)] == [None] * 9


def test_what_was_written_in_the_last_hour_counts():
    author = Author()
    first = author.write(priority="critical")
    author.clock.advance("10m")
    author.write()
    author.clock.advance("10m")
    assert author.ask(priority="critical") == Exceeded("criticals", 1, first.at + HOUR)
    assert author.ask() == Exceeded("entries", 3, first.at + HOUR)
    author.clock.at = first.at + HOUR + 1
    assert [author.ask() is None for _ in range(3)] == [True, True, False]


def test_an_author_is_counted_anew_after_a_minute_or_where_time_steps_back():
    author = Author()
    for _ in range(3):
        author.ask()
    asked = author.clock.at
    for at, has_room in (
        (asked, False),
        (asked + MINUTE - 1, False),
        (asked + MINUTE, True),
        (asked - 1, True),
    ):
        author.clock.at = at
        assert (author.ask() is None) is has_room
        if has_room:
            assert (author.ask(), author.ask()) == (None, None)


def test_the_hour_lets_in_refuses_and_notes_it():
    author = Author()
    now, hour = author.clock(), author.clock() // HOUR
    entry = author.admit(priority="critical")
    assert (entry.priority, entry.claimed, author.notes) == ("critical", None, [])
    entry = author.admit(priority="critical")
    assert (entry.priority, entry.claimed) == ("important", "critical")
    note = ("eng-a", {"limit": "criticals", "most": 1}, f"limit:criticals:{hour}")
    assert author.notes == [note]
    author.admit()
    with pytest.raises(QueueFull) as caught:
        author.admit()
    assert str(caught.value) == (
        "agent eng-a has written what it may in an hour (3 entries): there is room again from"
        " 2026-02-01T10:00:00Z; `hourly.entries` in synapse.yaml is the operator's to change"
    )
    assert now + HOUR == 1_769_940_000_000_000
    note = ("eng-a", {"limit": "entries", "most": 3}, f"limit:entries:{hour}")
    assert author.notes[1:] == [note]


def test_what_nobody_vouched_for_uses_up_no_hour():
    author = Author()
    for _ in range(5):
        author.write(trust="unverified")
    assert [author.ask() is None for _ in range(4)] == [True, True, True, False]
