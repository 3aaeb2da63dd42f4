"""The contract of `Log` and of its `Commit`, sentence by sentence, as tests. Needs no test
framework.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from time import monotonic
from typing import Any

from synapse.errors import Conflict, NotFound
from synapse.log.commit import Commit
from synapse.model.agents import Agent, settled
from synapse.model.entry import is_id
from synapse.model.protocols import Log
from synapse.model.records import Guard, Record, all_of, entry_of, none_live, sum_below
from synapse.model.settings import Settings
from synapse.testing.tools import FrozenClock, draft_entry, refused, same, together


class LogContract:
    """Every sentence of `Log` and `Commit`, as a test. Subclass it, say how to make a log with its
    commit, and let pytest collect it.
    """

    def make_commit(self, clock: FrozenClock) -> Commit:
        """Return the commit of a log of its own for each call, empty and ready for use, which takes
        its time from the clock.
        """
        raise TypeError(
            f"{type(self).__name__} does not say how to make a log: give it a make_commit"
        )

    def reopened(self, commit: Commit) -> Commit | None:
        """Return the same log as another process would open it now; None for one that dies with its
        process.
        """
        return None

    def _commit(self, clock: FrozenClock | None = None) -> Commit:
        return self.make_commit(clock or FrozenClock())

    def _views(self, commit: Commit) -> Iterable[Commit]:
        """Return the log itself, and the log as it is for others."""
        reopened = self.reopened(commit)
        return (commit, reopened) if reopened is not None else (commit,)

    # -- order -------------------------------------------------------------------------------------

    def test_is_a_log(self) -> None:
        commit = self._commit()
        assert isinstance(commit.log, Log)
        assert isinstance(commit.log.settings(), Settings)

    def test_seq_grows_by_one_per_record(self) -> None:
        commit = self._commit()
        seqs = [commit.append(draft_entry(f"{n}")).seq for n in range(5)]
        seqs += [commit.append(Record.new("shown", "eng-a", {"cursor": 5})).seq]
        assert seqs == list(range(seqs[0], seqs[0] + 6))
        assert [record.seq for record in commit.log.since(seqs[0] - 1)] == seqs

    def test_at_decreases_only_behind_a_clock_that_was_ahead(self) -> None:
        clock = FrozenClock()
        commit = self._commit(clock)
        times = [commit.append(draft_entry("today")).at]
        for moment, goes_back in (
            ("2026-02-01T08:55:00Z", False),  # a little behind
            ("2026-03-01T00:00:00Z", False),
            ("1999-12-31T23:59:59Z", False),  # never set
            ("2026-02-01T09:00:00Z", True),
            ("2026-02-01T09:00:01Z", False),
        ):
            clock.set(moment)
            times.append(commit.append(draft_entry(moment)).at)
            assert (times[-1] <= times[-2]) == goes_back

    def test_an_author_s_timestamp_has_no_say_in_the_order(self) -> None:
        commit = self._commit()
        first = commit.append(draft_entry("first", timestamp="2031-01-01T00:00:00Z"))
        second = commit.append(draft_entry("second", timestamp="2001-01-01T00:00:00Z"))
        assert (first.seq, first.at) < (second.seq, second.at)
        assert [record.seq for record in commit.log.since(first.seq - 1)] == [first.seq, second.seq]

    # -- reading -----------------------------------------------------------------------------------

    def test_since_gives_what_is_after_every_cursor(self) -> None:
        commit = self._commit()
        for n in range(40):
            commit.append(draft_entry(f"body {n} " + "x" * (n * 40)))
        for view in self._views(commit):
            every = list(view.log.since())
            for cursor in range(len(every) + 3):
                assert [r.seq for r in view.log.since(cursor)] == [
                    r.seq for r in every if r.seq > cursor
                ]
            assert all(same(view.log.at(record.seq), record) for record in every)

    def test_since_goes_as_far_as_the_log_goes_now(self) -> None:
        commit = self._commit()
        first = commit.append(draft_entry("one"))
        assert next(iter(commit.log.since(first.seq)), None) is None
        second = commit.append(draft_entry("two"))
        assert [record.seq for record in commit.log.since(first.seq)] == [second.seq]

    def test_readers_at_a_cursor_miss_nothing_and_get_nothing_twice(self) -> None:
        commit = self._commit()
        start = commit.append(Record.new("shown", "eng-a", {"cursor": 0})).seq
        until = monotonic() + 60

        def write(name: str) -> list[int]:
            return [commit.append(draft_entry(f"{name} {n}", author=name)).seq for n in range(25)]

        def read() -> list[int]:
            seqs, cursor = list[int](), start
            while cursor < start + 100 and monotonic() < until:
                seqs += [record.seq for record in commit.log.since(cursor)]
                cursor = seqs[-1] if seqs else start
            return seqs

        writers = [lambda name=name: write(name) for name in ("eng-a", "eng-b", "eng-c", "eng-d")]
        results = together(*writers, read, read)
        written = sorted(seq for seqs in results[:4] for seq in seqs)
        assert written == list(range(start + 1, start + 101))
        for seqs in results[4:]:
            assert seqs == written, seqs

    def test_mark_grows_whenever_the_log_does(self) -> None:
        commit = self._commit()
        marks = [commit.log.mark()]
        for n in range(5):
            commit.append(
                draft_entry(f"{n}") if n % 2 else Record.new("shown", "eng-a", {"cursor": n})
            )
            assert commit.log.mark() == commit.log.mark()
            marks.append(commit.log.mark())
        assert marks == sorted(set(marks))
        assert all(view.log.mark() == marks[-1] for view in self._views(commit))

    def test_what_is_not_there_is_not_found(self) -> None:
        commit = self._commit()
        last = commit.append(draft_entry()).seq
        for act in (
            lambda: commit.get("syn-2026-02-01-999"),
            lambda: commit.log.at(last + 1),
            lambda: commit.log.at(0),
        ):
            refused(NotFound, act)

    # -- appending ---------------------------------------------------------------------------------

    def test_append_returns_the_record_as_stored(self) -> None:
        commit = self._commit()
        pending = draft_entry(
            "body\n\nwith lines", tags=("a", "b"), replaces=("syn-2026-01-01-001",), topic="t"
        )
        stored = commit.append(pending, once="key")
        assert (stored.kind, stored.by, stored.once) == ("entry", "eng-a", "key")
        entry = entry_of(stored)
        assert (entry.body, entry.tags, entry.topic) == ("body\n\nwith lines", ("a", "b"), "t")
        for view in self._views(commit):
            assert same(view.get(stored.id or ""), stored)
            assert same(view.log.at(stored.seq), stored)
            assert entry_of(view.log.at(stored.seq)) == entry

    def test_any_text_and_any_fields_come_back(self) -> None:
        commit = self._commit()
        texts = [
            "\u2028\u0085 lines",
            "emoji 🧠, Ж, \u202e",
            '{"text":"x"}\n,"text":"',
            "---\n---\n",
            "\ttab\r\nend",
            "x" * 200_000,
        ]
        fields: list[dict[str, Any]] = [
            {"text": "x"},
            {"a": 1, "text": "y", "f": {"text": 1}},
            {"n": [1, None, {"é": "\u2028"}]},
        ]
        entries = [commit.append(draft_entry(text)) for text in texts]
        acts = [
            commit.append(Record.new("note", "eng-a", expected, key='a,"text":b'))
            for expected in fields
        ]
        for view in self._views(commit):
            view.append(draft_entry("and it goes on"))
            for record in (*entries, *acts):
                assert same(view.log.at(record.seq), record)
            bodies = [entry_of(view.log.at(record.seq)).body for record in entries]
            assert bodies == [entry_of(record).body for record in entries]

    def test_what_was_appended_survives_without_being_closed(self) -> None:
        commit = self._commit()
        stored = [commit.append(draft_entry(f"{n}")) for n in range(3)]
        for view in self._views(commit):
            reread = {record.seq: record for record in view.log.since()}
            assert all(same(reread[record.seq], record) for record in stored)

    def test_an_append_that_raises_leaves_nothing(self) -> None:
        def raises(records: Iterable[Record]) -> bool:
            raise ZeroDivisionError

        commit = self._commit()
        before = commit.append(draft_entry("before"))
        refused(
            ZeroDivisionError,
            lambda: commit.append(draft_entry("no"), unless=Guard("k", "raises", raises)),
        )
        refused(ValueError, lambda: commit.append(draft_entry("no", tags=("x" * 9_000,))))
        after = commit.append(draft_entry("after"))
        for view in self._views(commit):
            bodies = [entry_of(record).body for record in view.log.since(before.seq - 1)]
            assert bodies == ["before", "after"]
        assert after.seq == before.seq + 1

    # -- ids ---------------------------------------------------------------------------------------

    def test_ids_are_unique_for_ever(self) -> None:
        clock = FrozenClock("2026-02-01T23:59:00Z")
        commit = self._commit(clock)
        ids = [commit.append(draft_entry(f"{n}")).id for n in range(3)]
        commit.archive([ids[0] or ""], "eng-a", "done")
        clock.advance("1d")
        ids += [commit.append(draft_entry("the next day")).id]
        clock.advance("365d")
        clock.set("2026-02-01T00:00:00Z")
        ids += [commit.append(draft_entry("the clock went back")).id]
        assert len(set(ids)) == len(ids)
        assert all(is_id(id or "") for id in ids)

    def test_ids_are_unique_among_any_number_of_writers(self) -> None:
        commit = self._commit()

        def write(view: Commit, name: str) -> list[str | None]:
            return [view.append(draft_entry(f"{n}", author=name)).id for n in range(20)]

        views = list(self._views(commit)) * 2
        results = together(
            *[lambda view=view, n=n: write(view, f"eng-{n}") for n, view in enumerate(views)]
        )
        ids = [id for result in results for id in result]
        assert len(set(ids)) == len(ids) == 20 * len(views)
        assert {commit.get(id).by for id in ids} == {f"eng-{n}" for n in range(len(views))}

    def test_ids_grow_past_999(self) -> None:
        commit = self._commit()
        ids = [commit.append(draft_entry("x")).id or "" for _ in range(1_003)]
        assert len(set(ids)) == 1_003
        assert commit.get(ids[-1]).seq == commit.get(ids[0]).seq + 1_002

    # -- once and unless ---------------------------------------------------------------------------

    def test_once_returns_the_first_record(self) -> None:
        commit = self._commit()
        first = commit.append(draft_entry("first"), once="key")
        for view in self._views(commit):
            assert same(view.append(draft_entry("second"), once="key"), first)
        last = commit.append(draft_entry("another key"), once="other")
        assert last.seq == first.seq + 1

    def test_once_is_the_author_s_own(self) -> None:
        commit = self._commit()
        first = commit.append(draft_entry("mine"), once="key")
        second = commit.append(draft_entry("theirs", author="eng-b"), once="key")
        assert first.seq != second.seq
        assert same(commit.append(Record.new("note", "eng-b", {}), once="key"), second)

    def test_once_comes_before_the_guard(self) -> None:
        commit = self._commit()
        note = Record.new("note", "eng-a", {}, key="k")
        first = commit.append(note, once="key", unless=none_live("k"))
        assert same(commit.append(note, once="key", unless=none_live("k")), first)
        refused(Conflict, lambda: commit.append(note, unless=none_live("k")))

    def test_once_holds_in_a_race(self) -> None:
        commit = self._commit()
        views = list(self._views(commit)) * 4
        results = together(
            *[lambda view=view: view.append(draft_entry("x"), once="key") for view in views]
        )
        assert len({record.seq for record in results}) == 1
        assert len([record for record in commit.log.since() if record.once == "key"]) == 1

    def test_append_all_is_so_many_appends_each_under_its_key(self) -> None:
        commit = self._commit()
        first = commit.append(draft_entry("one"), once="1")
        batch = {
            "1": draft_entry("not this"),
            "2": draft_entry("two"),
            "3": Record.new("note", "eng-a", {"n": 3}, key="k"),
        }
        records = commit.append_all(batch, unless=none_live("k"))
        assert [record.seq for record in records] == [first.seq, first.seq + 1, first.seq + 2]
        assert [record.once for record in records] == ["1", "2", "3"]
        for view in self._views(commit):
            assert all(same(view.log.at(record.seq), record) for record in records)
            assert all(
                same(*pair)
                for pair in zip(view.append_all(batch, unless=none_live("k")), records, strict=True)
            )
        assert commit.append_all({}) == []

    def test_append_all_writes_nothing_where_its_guard_does_not_hold(self) -> None:
        commit = self._commit()
        commit.append(Record.new("note", "eng-a", {}, key="k"))
        mark = commit.log.mark()
        batch = {"1": draft_entry("one"), "2": draft_entry("two")}
        refused(Conflict, lambda: commit.append_all(batch, unless=none_live("k")))
        assert commit.log.mark() == mark

    def test_unless_raises_and_writes_nothing(self) -> None:
        commit = self._commit()
        act = Record.new("note", "eng-a", {}, key="task")
        lease = commit.append(act, unless=none_live("task"))
        for view in self._views(commit):
            error = refused(Conflict, partial(view.append, act, unless=none_live("task")))
            assert "task" in str(error)
        assert next(iter(commit.log.since(lease.seq)), None) is None
        commit.append(Record.new("note", "eng-a", {"end": True}, key="task"))
        assert commit.append(act, unless=none_live("task")).seq == lease.seq + 2

    def test_a_guard_sees_its_key_alone(self) -> None:
        commit = self._commit()
        for key in ("a", "b", "a", None):
            commit.append(Record.new("note", "eng-a", {"amount": 2}, key=key))
        amounts: list[list[Any]] = []

        def look(records: Iterable[Record]) -> bool:
            amounts.append([record.fields["amount"] for record in records])
            return False

        pending = Record.new("note", "eng-a", {})
        refused(Conflict, lambda: commit.append(pending, unless=Guard("a", "look", look)))
        assert amounts == [[2, 2]]

    def test_guards_hold_together(self) -> None:
        commit = self._commit()
        first = commit.append(Record.new("note", "eng-a", {}, key="taken"))
        free, claimed = none_live("free"), none_live("taken")
        for both in (all_of(free, claimed), all_of(None, claimed, free)):
            for view in self._views(commit):
                error = refused(
                    Conflict, partial(view.append, Record.new("note", "eng-a", {}), unless=both)
                )
                assert "taken" in str(error)
            refused(Conflict, partial(commit.archive, [], "eng-a", "why", both))
            refused(Conflict, partial(commit.restore, [], "eng-a", "why", both))
        assert next(iter(commit.log.since(first.seq)), None) is None
        commit.append(Record.new("note", "eng-a", {"end": True}, key="taken"))
        assert (
            commit.append(Record.new("note", "eng-a", {}), unless=all_of(claimed, free)).seq
            == first.seq + 2
        )

    def test_a_guard_is_never_oversold(self) -> None:
        commit = self._commit()
        views = list(self._views(commit)) * 4
        act = Record.new("reserve", "eng-a", {"amount": 3}, key="budget")

        def reserve(view: Commit) -> int:
            count = 0
            for _ in range(6):
                try:
                    view.append(act, unless=sum_below("budget", 10))
                except Conflict:
                    continue
                count += 1
            return count

        results = together(*[lambda view=view: reserve(view) for view in views])
        assert sum(results) == 4
        assert (
            sum(record.fields["amount"] for record in commit.log.since() if record.key == "budget")
            == 12
        )

    # -- archive -----------------------------------------------------------------------------------

    def test_archive_and_restore_change_no_id_no_order_and_no_text(self) -> None:
        commit = self._commit()
        stored = [commit.append(draft_entry(f"body {n}")) for n in range(3)]
        ids = [record.id or "" for record in stored]
        away = commit.archive(ids[:2], "eng-b", "done")
        assert (away.kind, away.by, list(away.fields["ids"])) == ("archive", "eng-b", ids[:2])
        assert away.fields["reason"] == "done"
        back = commit.restore(ids[:1], "eng-b", "not done")
        assert (back.kind, list(back.fields["ids"])) == ("restore", ids[:1])
        commit.archive(ids[:2], "eng-b", "twice over")
        for view in self._views(commit):
            assert all(same(view.get(record.id or ""), record) for record in stored)
            assert [record.seq for record in view.log.since(stored[0].seq - 1)][:3] == [
                r.seq for r in stored
            ]

    def test_filing_away_what_is_not_there_is_refused_or_recorded_and_nothing_between(self) -> None:
        commit = self._commit()
        stored = commit.append(draft_entry("body"))
        for file in (commit.archive, commit.restore):
            before = len(list(commit.log.since()))
            try:
                record = file([stored.id or "", "syn-2001-01-01-001"], "eng-b", "done")
            except NotFound:
                assert len(list(commit.log.since())) == before
            else:
                assert same(commit.log.at(record.seq), record)
            assert same(commit.get(stored.id or ""), stored)

    # -- what the operator declares ----------------------------------------------------------------

    def test_register_declares_an_agent(self) -> None:
        commit = self._commit()
        agent = settled(Agent("eng-b", department="backend", teams=("core",), read=("api/*",)))
        record = commit.register(agent, "operator")
        assert (record.kind, record.by) == ("agent", "operator")
        assert record.fields["agent"]["id"] == "eng-b"
        later = agent._replace(authority=40)
        changed = commit.register(later, "operator", agent)
        assert changed.fields["was"]["authority"] == agent.authority
        for view in self._views(commit):
            assert [settled(declared) for declared in view.log.agents()] == [later]

    # -- threads and the end -----------------------------------------------------------------------

    def test_everything_may_be_called_from_several_threads(self) -> None:
        commit = self._commit()
        first = commit.append(draft_entry("first"))

        def read() -> int:
            for _ in range(30):
                assert commit.get(first.id or "").seq == first.seq
                commit.log.mark(), list(commit.log.agents()), commit.log.settings()
                assert [record.seq for record in commit.log.since(first.seq - 1)][:1] == [first.seq]
            return 30

        def write() -> int:
            for n in range(15):
                record = commit.append(
                    draft_entry(f"{n}"), once=f"{n % 5}", unless=sum_below("none", 1)
                )
                commit.archive([record.id or ""], "eng-a", "x")
            return 30

        assert together(read, write, read, write) == [30, 30, 30, 30]

    def test_close_may_be_called_again(self) -> None:
        commit = self._commit()
        commit.append(draft_entry())
        commit.log.close()
        commit.log.close()
