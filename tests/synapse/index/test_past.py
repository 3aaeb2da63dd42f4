"""The index as of an earlier record says what the log up to there says, derived from nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import synapse
from synapse.access import containment
from synapse.consolidate.undo import undo
from synapse.errors import SynapseError
from synapse.index.past import past_of
from synapse.index.replay import snapshot_of
from synapse.index.snapshot import Filter
from synapse.model.agents import Agent
from synapse.model.records import Record
from synapse.testing import FrozenClock
from synapse.view.briefing import candidates
from tests.examples import examples

HOUR = 3_600_000_000
NAMES = ("a", "b", "c")
PLACES = st.integers(0, 9)
AUTHOR = st.sampled_from(NAMES)
WRITE = st.tuples(
    st.just("write"),
    AUTHOR,
    st.sampled_from(("api/x", "api/y")),
    st.sampled_from(("critical", "important", "info")),
    st.sampled_from((None, "t", "t")),
    st.sampled_from(("1h", "30d")),
    st.sampled_from(("all", "all", "b")),
    st.sampled_from(("", "", "supersedes", "derived_from")),
    PLACES,
)
RULE = st.tuples(
    st.just("rule"), st.sampled_from(("archive", "restore", "resolve", "approve", "reject")), PLACES
)
ACT = st.tuples(st.sampled_from(("vouch", "taint", "untaint", "undo")), PLACES)
STAGED = st.tuples(st.just("staged"), st.sampled_from((None, "t")))
SHOWN = st.tuples(st.just("shown"), AUTHOR)
AGENT = st.tuples(st.just("agent"), AUTHOR, st.sampled_from(("api/x", "*", "")))
WAIT = st.tuples(st.just("wait"), st.sampled_from(("40m", "1d")))
ACTS = st.lists(WRITE | WRITE | WRITE | RULE | ACT | STAGED | SHOWN | AGENT | WAIT, max_size=16)


class Story:
    """A workspace in memory, told act by act. What is refused changes nothing."""

    def __init__(self):
        self.clock = FrozenClock()
        self.mem = synapse.open("memory:", clock=self.clock)
        self.ids = []
        for name in NAMES:
            self.agent(name, "api/*")
        self.lead = self.mem.as_agent("operator")

    def tell(self, acts):
        for kind, *rest in acts:
            try:
                getattr(self, kind)(*rest)
            except SynapseError:
                pass
            self.clock.advance("1s")
        return self

    def id(self, place):
        return self.ids[place % len(self.ids)] if self.ids else "syn-nothing"

    def write(self, who, namespace, priority, topic, ttl, to, link, place):
        more = {link: self.id(place)} if link and self.ids else {}
        entry = self.mem.as_agent(who).append(
            f"body {len(self.ids)}",
            namespace,
            priority=priority,
            topic=topic,
            ttl=ttl,
            to=to,
            **more,
        )
        self.ids.append(entry.id)

    def staged(self, topic):
        self.mem.register(Agent("c", write=("*",), review_required=True))
        self.write("c", "api/x", "important", topic, "30d", "all", "", 0)

    def vouch(self, place):
        stamps = {"authority": 70, "trust": "reviewed", "priority": "critical"}
        self.mem.store.commit.append(Record.new("vouch", "a", {"entry": self.id(place), **stamps}))

    def taint(self, place):
        containment.taint(self.lead.access, self.id(place), affected=place % 2 == 0)

    def untaint(self, place):
        containment.untaint(self.lead.access, self.id(place))

    def undo(self, place):
        undo(self.mem, "last" if place % 2 else self.id(place))

    def rule(self, kind, place):
        getattr(self.lead, kind)(self.id(place))

    def shown(self, who):
        self.mem.as_agent(who).read(limit=2, mark=True)

    def agent(self, who, reads):
        declared = Agent(who, read=(reads,), write=("*",))
        if reads:
            self.mem.register(declared)
        else:
            fields = {"agent": declared._asdict(), "how": "removed"}
            self.mem.store.commit.append(Record.new("agent", "operator", fields))

    def wait(self, span):
        self.clock.advance(span)


def told(snap, agent, now):
    """What a view asks, of either."""
    entries = candidates(snap, agent, now)
    ends = (entries[0].seq, entries[-1].seq) if entries else (0, 0)
    return (
        snap.cursor,
        dict(snap.declared),
        entries,
        snap.page(agent, Filter(("critical", "important"), limit=2), now),
        [snap.entry(entry.id, now) for entry in entries],
        snap.seen(agent, *ends) if agent else None,
    )


def faults(story, moments=4):
    """Where the index as of a record differs from the log up to there: records, some of all."""
    store = story.mem.store
    records = list(store.log.since(0))
    for cursor in range(len(records), 0, -max(1, len(records) // moments)):
        then = snapshot_of(store.log, records[:cursor])
        with store.snapshot() as live:
            if cursor % 2:
                live.entries.clear()  # else some were built as they are now
            for name in (None, *NAMES):
                agent = then.declared.get(name, Agent(name)) if name else None
                at = records[cursor - 1].at
                found = past_of(live, agent, at, cursor)
                assert found is not None
                for now in (at, at + 2 * HOUR):
                    if told(found, agent, now) != told(then, agent, now):
                        yield cursor, name, now - at


@given(ACTS)
@examples(200)
def test_the_past_is_what_the_log_says_of_it(acts):
    story = Story().tell(acts)
    assert next(faults(story), None) is None
    story.mem.close()


EVERY = [
    ("write", "a", "api/x", "important", "t", "30d", "all", "", 0),
    ("write", "b", "api/x", "important", "t", "30d", "all", "", 0),
    ("rule", "archive", 0),
    ("rule", "restore", 0),
    ("shown", "a"),
    ("vouch", 0),
    ("agent", "c", "api/y"),
    ("write", "c", "api/x", "info", None, "30d", "all", "supersedes", 1),
    ("rule", "resolve", 2),
    ("agent", "b", ""),
]
WRONG = {
    "an entry's changes are not kept": "drop trigger entry_changes",
    "a head's changes are not kept": "drop trigger head_changes",
    "a dispute was always there": "drop trigger dispute_begins",
    "a dispute that ended never was": "drop trigger dispute_ends",
}


def test_the_story_holds_every_kind_of_change():
    assert [*faults(Story().tell(EVERY), moments=99)] == []


@pytest.mark.parametrize("wrong", WRONG)
def test_the_checker_finds_what_is_not_kept(wrong):
    story = Story()
    story.mem.store.index.db.connection.execute(WRONG[wrong])
    assert next(faults(story.tell(EVERY), moments=99), None) is not None


@pytest.mark.parametrize("name", ["put_taking", "past_rows", "past_agents"])
def test_the_checker_finds_a_wrong_statement(name):
    story = Story()
    sql = story.mem.store.index.db.sql
    sql[name] = {
        "put_taking": "update taking set seq = 0 where ? > 0",
        "past_rows": sql["past_rows"].replace("record > :cursor", "record > 2 * :cursor"),
        "past_agents": sql["past_agents"].replace("<= :cursor", "<= 2 * :cursor"),
    }[name]
    assert next(faults(story.tell(EVERY), moments=99), None) is not None


@pytest.mark.parametrize(
    ("kind", "fields"), [("void", {"seq": 4}), ("shown", {"cursor": 3, "how": "read"})]
)
def test_what_only_the_log_can_say_is_left_to_it(kind, fields):
    """A record that was taken back, and a mark of before that showed an agent all."""
    story = Story().tell(EVERY)
    story.mem.store.commit.append(Record.new(kind, "a", fields))
    with story.mem.store.snapshot() as live:
        assert past_of(live, Agent("a"), story.clock()) is None
    view = story.mem.as_agent("a").briefing(as_of=story.clock())
    assert view.markdown() == story.mem.as_agent("a").briefing().markdown()


def test_where_time_steps_back_the_log_is_asked():
    story = Story().tell(EVERY)
    story.clock.at -= 48 * HOUR
    story.mem.as_agent("a").append("by another clock", "api/x")
    with story.mem.store.snapshot() as live:
        assert past_of(live, None, story.clock()) is None


def test_the_last_record_of_a_time_is_found_among_entries_and_acts():
    story = Story().tell(EVERY)
    records = list(story.mem.store.log.since(0))
    with story.mem.store.snapshot() as live:
        for at in (0, *(record.at + more for record in records for more in (-1, 0, 1))):
            last = max((r.seq for r in records if r.at <= at), default=0)
            assert past_of(live, None, at).cursor == last
