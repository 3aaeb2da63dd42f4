"""The pages of an index over a log in memory, whose first record is an entry: what is on them, how
many there are, and what is unread.
"""

from itertools import product

import pytest

import synapse
from synapse.index import pages
from synapse.index.index import Index
from synapse.index.pages import Filter
from synapse.log.commit import Commit
from synapse.log.memory import MemoryLog
from synapse.mail.mailbox import Mail
from synapse.model.agents import Agent, settled
from synapse.model.entry import NEVER
from synapse.model.kinds import new_id
from synapse.model.records import Record
from synapse.testing import FrozenClock, draft_entry

READER = settled(Agent("r", read=("*",), write=("*",)))


class Team:
    """A log in memory, with its index."""

    def __init__(self):
        self.clock = FrozenClock()
        self.log = MemoryLog(self.clock)
        self.index = Index(self.log, ":memory:")
        self.commit = Commit(self.log, self.index)

    def write(self, body="body", **more):
        return self.commit.append(draft_entry(body, **more))

    def mark(self, *entries, **fields):
        ids = {"ids": [entry.id for entry in entries]} if entries else {}
        self.commit.append(Record.new("shown", "r", ids | fields | {"how": "read"}))

    def snapshot(self):
        self.index.catch_up()
        return self.index.current

    def page(self, agent=None, **wanted):
        rows = self.snapshot().page(agent, Filter(**wanted), self.clock())
        return [entry.seq for entry in rows]

    def unread(self):
        """Return the places of what the reader was not shown, having compared the counts."""
        snap, now = self.snapshot(), self.clock()
        rows, counts = snap.unread_rows(READER, Filter(limit=None), now)
        assert sum(counts) == snap.unread(READER, now)[0] == len(rows)
        return [seq for seq, *_ in rows]


@pytest.fixture
def team():
    return Team()


def test_an_index_that_took_nothing_in_knows_nothing(team):
    assert (team.index.current.cursor, team.index.current.turn) == (0, -1)
    assert team.page() == []
    assert team.unread() == []


def test_a_page_has_fifty_entries_unless_it_is_asked_for_more(team):
    for _ in range(52):
        team.write()
    assert team.page() == list(range(52, 2, -1))
    assert team.page(limit=51) == list(range(52, 1, -1))
    assert team.page(limit=None) == list(range(52, 0, -1))


def test_mail_is_on_a_page_that_asks_for_it_however_much_there_is():
    with synapse.open("memory:") as mem:
        mem.register(Agent("eng", read=("*",), write=("*",)))
        me = mem.as_agent("eng")
        entry = me.append("an entry", "api/x").id
        letters = [
            Mail(me).send("agent:eng", f"letter {number}", subject="s").id for number in range(3)
        ]
        now, agent = mem.store.clock(), settled(Agent("eng", read=("*",)))
        with mem.store.snapshot() as snap:
            for wanted, ids in (
                (Filter(), [entry]),
                (Filter(mail=True), [*letters[::-1], entry]),
                (Filter(limit=None), [entry]),
                (Filter(limit=2, mail=True), letters[:0:-1]),
            ):
                for reader in (None, agent):
                    page = snap.page(reader, wanted, now)
                    assert [one.id for one in page] == ids


def test_facts_and_atoms_are_on_every_page(team):
    team.write()
    for kind in ("fact", "atom"):
        team.write(kind=kind, id=new_id(kind, b"123456"))
    for prios in ((), ("info",), ("critical", "important", "info")):
        assert team.page(priorities=prios) == [3, 2, 1]


def test_an_entry_is_built_once(team):
    team.write()
    (before,) = team.snapshot().page(None, Filter(), team.clock())
    team.write()
    assert team.snapshot().page(None, Filter(), team.clock())[1] is before


def test_no_more_entries_are_held_than_there_is_room_for(team, monkeypatch):
    monkeypatch.setattr(pages, "CACHED", 3)
    for number in range(1, 6):
        team.write()
        assert team.page() == list(range(number, 0, -1))
        if number <= 3:
            assert len(team.index.current.entries) == number
    team.page(limit=1)
    assert len(team.index.current.entries) == 5


def test_places_of_a_time(team):
    records = [team.write(), team.write(), team.write()]
    snap, (first, second, third) = team.snapshot(), [record.at for record in records]
    times = (first - 1, first, second, third, third + 1)
    assert [snap.floor(at) for at in times] == [0, 0, 1, 2, 2**62]
    assert [snap.ceiling(at) for at in times] == [0, 0, 1, 2, 3]
    assert (snap.floor(None), snap.ceiling(None)) == (0, 2**62)


def test_a_dispute_with_what_was_approved_is_shown_beside_either():
    with synapse.open("memory:") as mem:
        mem.register(Agent("lead", role="cto", read=("*",), write=("*",)))
        for name, review in (("a", False), ("b", True)):
            mem.register(Agent(name, read=("*",), write=("*",), review_required=review))
        staged = mem.as_agent("b").append("one", "api/x", topic="t")
        other = mem.as_agent("a").append("another", "api/x", topic="t")
        mem.as_agent("lead").approve(staged.id)
        for author, peer in (("b", other.id), ("a", staged.id)):
            (entry,) = mem.as_agent("a").read(author=author)
            assert entry.disputed == (peer,)


def test_a_count_is_that_of_the_page(team):
    written = [
        team.write(
            namespace=namespace, author=author, priority=priority, tags=tags, addressees=addressees
        )
        for namespace, author, priority, tags, addressees in (
            ("api/x", "a", "info", (), ("all",)),
            ("api/y", "b", "critical", ("t",), ("all",)),
            ("api/x", "r", "important", ("t",), ("all",)),
            ("db/x", "r", "info", (), ("agent:a",)),
            ("api/x", "b", "critical", (), ("all",)),
            ("db/x", "b", "info", ("t",), ("all",)),
            ("api/y", "a", "info", (), ("all",)),
        )
    ]
    filed = {"ids": [written[0].id]}
    team.commit.append(Record.new("archive", "operator", filed))
    snap, now, sizes = team.snapshot(), team.clock(), set()
    narrow = settled(Agent("r", read=("api/*",), write=("*",)))
    for reader, since, prios, places, author, tag, archived in product(
        (None, READER, narrow),
        (None, written[0].at, written[3].at, now + NEVER // 2),
        ((), ("critical",), ("important", "info")),
        ((), ("api/x",), ("api/*", "db/x")),
        (None, "b"),
        (None, "t"),
        (False, True),
    ):
        wanted = Filter(prios, places, author, tag, archived=archived, since=since, limit=None)
        size = len(snap.page(reader, wanted, now))
        assert snap.count(reader, wanted, now) == size
        sizes.add(size)
    assert sizes == set(range(7))


def test_the_first_record_is_unread_until_it_is_shown(team):
    one, two = team.write(), team.write(priority="critical")
    assert team.unread() == [2, 1]
    team.mark(two, cursor=2)
    assert team.unread() == [1]
    team.mark(one, cursor=2)
    assert team.unread() == []


def test_what_was_shown_by_name_beyond_the_cursor_is_read(team):
    *_, three = (team.write() for _ in range(3))
    team.mark(three, cursor=1)
    assert team.unread() == [1, 2]
    team.mark(cursor=1)
    assert team.unread() == [2]


def test_what_was_shown_by_name_after_all_was_is_read(team):
    team.write()
    team.mark(cursor=1)
    team.write()
    team.mark(team.write(), cursor=1)
    assert team.unread() == [3]


def test_a_mark_of_records_to_come_shows_none_of_them(team):
    one = team.write()
    team.mark(one, cursor=99)
    team.write()
    team.write()
    assert team.unread() == [3, 4]


def test_what_lapsed_before_it_was_shown_is_unread_no_more(team):
    team.write(ttl="1h")
    team.mark(team.write(), cursor=2)
    assert team.unread() == [1]
    team.clock.advance("2h")
    assert team.unread() == []
    team.write()
    assert team.unread() == [4]


def test_the_next_lapse_is_said_with_the_count(team):
    entry = team.write(ttl="1h")
    snap = team.snapshot()
    assert snap.unread(READER, team.clock())[1] == snap.all(0)[0].expires
    assert snap.unread(READER, entry.at + 2**42) == (0, NEVER)
    assert snap.next_change(team.clock()) == snap.all(0)[0].expires
    assert snap.next_change(entry.at + 2**42) == NEVER


def test_unread_entries_are_counted_by_priority(team):
    for priority in ("info", "critical", "info", "important", "info", "important"):
        team.write(priority=priority)
    snap, now = team.snapshot(), team.clock()
    rows, counts = snap.unread_rows(READER, Filter(limit=4), now)
    assert ([seq for seq, *_ in rows], counts) == ([2, 4, 6, 1], (1, 2, 3))
    _, counts = snap.unread_rows(READER, Filter(("important",)), now)
    assert counts == (0, 2, 0)


def test_who_hears_of_little_sees_the_newest_of_it(team):
    few = settled(Agent("f", read=("few/*",), write=("*",)))
    for number in range(120):
        team.write(namespace="many/x")
        if number in (3, 50):
            team.write(namespace="few/x" if number == 3 else "few/y")
    mine = [team.write(namespace="many/x", author="f").seq]
    mine.append(team.write(namespace="many/x", addressees=("agent:f",)).seq)
    seqs = sorted((5, 53, *mine), reverse=True)
    for limit in range(1, 6):
        assert team.page(few, limit=limit) == seqs[:limit]
        assert team.page(few, limit=limit, namespaces=("few/*",)) == [53, 5][:limit]
    assert team.page(few, limit=0) == []
