"""Pages, counts and unread numbers, compared with brute force over every entry there is."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

import synapse
from synapse.authority import visible
from synapse.errors import InvalidEntry, InvalidQuery
from synapse.index import names
from synapse.index.snapshot import Filter, Snapshot
from synapse.log.memory import MemoryLog
from synapse.model import namespace as ns
from synapse.model.agents import Agent, settled
from synapse.model.entry import NEVER, PRIORITIES, Entry
from synapse.model.records import Record
from synapse.store import Store
from synapse.testing import FrozenClock
from tests.examples import examples

AUTHORS = ("eng-a", "eng-b", "eng-c", "lead")
TEAMS = ("red", "blue")
# Enough namespaces, and one so rare, that pages take every path: lane by lane, sparse, and wide.
NAMESPACES = (
    "rare/one",
    "rare/two",
    *(f"wide/n{n}" for n in range(12)),
    "api",
    "api/v1",
    "api/v1/users",
    "team/red",
)
ADDRESSEES = (*(f"agent:{name}" for name in AUTHORS), *(f"team:{team}" for team in TEAMS))
TAGS = ("x", "y", "z")
HOUR = 3_600_000_000
SIZE = 700


class Shelf:
    """A store of many entries of every kind, and what brute force says about it."""

    def __init__(self):
        self.chance = random.Random(7)
        self.clock = FrozenClock()
        self.start = self.clock.at
        self.log = MemoryLog(self.clock)
        self.store = Store(self.log, self.clock)
        self.commit = self.store.commit
        for _ in range(SIZE):
            self.add()
            self.clock.advance("2m")
        self.store.refresh()
        self.cursor = self.store.index.cursor()
        self.entries = self.query.all(0)
        run = self.store.index.db.connection.execute
        self.hidden = dict(run("select seq, hidden from entries").fetchall())
        self.fates = run("select seq, hider, until from fates where lifted = 0").fetchall()
        self.by_seq = {entry.seq: entry for entry in self.entries}

    @property
    def query(self):
        return self.store.index.current

    def add(self):
        pick = self.chance
        namespace = (
            pick.choice(NAMESPACES[2:]) if pick.random() > 0.01 else pick.choice(NAMESPACES[:2])
        )
        to = (
            ("all",)
            if pick.random() < 0.7
            else tuple(sorted(pick.sample(ADDRESSEES, pick.randint(1, 2))))
        )
        entry = Entry(
            "", pick.choice(AUTHORS), "", namespace, pick.choice(PRIORITIES), "text", pick.choice(("1h", "12h", "30d")),
            to, tuple(pick.sample(TAGS, pick.randint(0, 2))), authority=pick.choice((40, 60)),
            topic=pick.choice((None, None, None, "t1", "t2")), staged=pick.random() < 0.05,
        )  # fmt: skip
        record = self.commit.append(Record.new("entry", entry.author, {}, entry))
        if entry.staged and pick.random() < 0.5:
            self.commit.append(Record.new("approve", "lead", {"entry": record.id}))
        if not entry.staged and pick.random() < 0.05:
            self.commit.archive([record.id], "lead", "done")
        if not entry.staged and pick.random() < 0.05:
            self.commit.append(Record.new("resolve", "lead", {"entry": record.id}))

    def is_hidden(self, seq, now, agent):
        """Whether an entry is hidden from all, or from this reader by something that it sees."""
        if self.hidden[seq] >= 0:
            return self.hidden[seq] > now
        return any(
            until > now
            and visible(self.by_seq[hider], agent)
            and (until == NEVER or self.stands(hider, agent))
            for old, hider, until in self.fates
            if old == seq
        )

    def stands(self, seq, agent):
        """Whether an entry outranks others still: it is in no archive, and nothing is in its place."""
        return (
            not self.by_seq[seq].archived
            and self.hidden[seq] != NEVER
            and not any(
                until == NEVER and self.hidden[seq] < 0 and visible(self.by_seq[hider], agent)
                for old, hider, until in self.fates
                if old == seq and hider in self.by_seq
            )
        )

    def matching(self, wanted, now, cursor, agent):
        for entry in reversed(self.entries):
            live = entry.expires > now and not self.is_hidden(entry.seq, now, agent)
            if (
                entry.seq > cursor
                or entry.archived != wanted.archived
                or not (live or wanted.archived)
            ):
                continue
            if wanted.priorities and entry.priority not in wanted.priorities:
                continue
            if wanted.namespaces and not ns.matches_any(wanted.namespaces, entry.namespace):
                continue
            if wanted.author not in (None, entry.author) or (
                wanted.tag and wanted.tag not in entry.tags
            ):
                continue
            if wanted.since is None or entry.at >= wanted.since:
                yield entry


@pytest.fixture(scope="module", params=["listed", "looked up"])
def shelf(request):
    """A store whose namespaces stand in the statements by their numbers, or are looked up."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "looked up":
            patch.setattr(names, "LISTED", 2)
        yield Shelf()


GLOBS = (
    "rare/*",
    "rare/one",
    "wide/*",
    "wide/n1",
    "wide/n2",
    "api/*",
    "api",
    "api/*/users",
    "*",
    "team/*",
    "none/*",
)
agents = st.builds(
    lambda id, read, teams: settled(Agent(id, read=read, write=(), teams=teams)),
    st.sampled_from((*AUTHORS, "stranger")),
    st.lists(st.sampled_from(GLOBS), max_size=3),
    st.lists(st.sampled_from(TEAMS), max_size=2, unique=True),
)
readers = st.none() | agents
moments = st.integers(-HOUR, SIZE * HOUR // 30 + 13 * HOUR)
filters = st.builds(
    Filter,
    st.lists(st.sampled_from(PRIORITIES), unique=True, max_size=3).map(
        lambda found: tuple(sorted(found))
    ),
    st.lists(st.sampled_from(GLOBS), max_size=3).map(tuple),
    st.none() | st.none() | st.sampled_from((*AUTHORS, "stranger")),
    st.none() | st.none() | st.sampled_from((*TAGS, "no such tag")),
    st.just(False) | st.just(False) | st.booleans(),
    st.none() | moments,
    st.none() | st.sampled_from((0, 1, 5, 50, 1_000)),
)


def bare(entries):
    return [entry._replace(disputed=()) for entry in entries]


@given(readers, filters, moments, st.none() | st.integers(0, SIZE))
@examples(600)
def test_a_page_is_what_brute_force_finds(shelf, agent, wanted, moment, cursor):
    now, cursor = shelf.start + moment, shelf.cursor if cursor is None else cursor
    wanted = wanted._replace(since=None if wanted.since is None else shelf.start + wanted.since)
    matching = [*shelf.matching(wanted, now, cursor, agent)]
    seen = [entry for entry in matching if visible(entry, agent)]
    snap = Snapshot(shelf.query.db, shelf.query.names, cursor)
    page = snap.page(agent, wanted, now)
    assert bare(page) == bare(seen[: wanted.limit])
    assert snap.count(agent, wanted, now) == len(seen)
    for entry in page:
        assert all(visible(shelf.query.entry(id, now), agent) for id in entry.disputed)


@given(readers, st.sampled_from(((), ("critical",), ("critical", "important"), ("info",))), moments)
@examples(200)
def test_the_plain_pages_too(shelf, agent, priorities, moment):
    wanted, now = Filter(priorities), shelf.start + moment
    seen = [
        entry for entry in shelf.matching(wanted, now, shelf.cursor, agent) if visible(entry, agent)
    ]
    assert bare(shelf.query.page(agent, wanted, now)) == bare(seen[:50])


def test_every_path_is_walked(shelf):
    """The narrow agent goes through its lanes, the others through the order of the log."""
    ran = []
    connection = shelf.store.index.db.connection
    connection.set_trace_callback(ran.append)
    narrow = settled(Agent("stranger", read=("rare/*",)))
    wide = settled(Agent("eng-a", read=("*",)))
    for agent in (narrow, wide, None):
        for priorities in ((), ("critical",), ("critical", "important")):
            shelf.query.page(agent, Filter(priorities), shelf.start)
        for namespaces in (("rare/*",), ("wide/*", "api/*")):
            shelf.query.page(agent, Filter((), namespaces), shelf.start)
    connection.set_trace_callback(None)
    paths = "entries_critical entries_weighty entries_lane entries_author entries_audience".split()
    listed = names.LISTED > 2
    reach = ["e.nid in (1"] if listed else ["e.nid in (select", "e.nid in (e.nid)"]
    for mark in (*paths, *reach):
        assert any(mark in text for text in ran), mark


@given(agents, moments, st.integers(0, SIZE + 50))
@examples(200)
def test_unread_is_what_brute_force_counts(shelf, agent, moment, floor):
    now = shelf.start + moment
    if floor:
        shelf.commit.append(Record.new("shown", agent.id, {"cursor": floor}))
        shelf.store.index.catch_up()
    floor = shelf.query.shown(agent.id)
    fresh = [
        entry
        for entry in shelf.matching(Filter(limit=None), now, NEVER, agent)
        if entry.seq > floor and entry.author != agent.id and visible(entry, agent)
    ]
    count, until = shelf.query.unread(agent, now)
    assert count == len(fresh)
    assert now < until <= min((entry.expires for entry in fresh), default=NEVER)


# -- by way of a seat ------------------------------------------------------------------


@pytest.fixture
def mem(clock):
    with synapse.open("memory:", clock=clock) as mem:
        for id in ("eng-a", "eng-b"):
            mem.register(
                Agent(id, read=("api/*", "blockers/*"), write=("api/*", "blockers/*", "vault/*"))
            )
        mem.register(Agent("lead", role="project-lead", read=("*",), write=("*",)))
        yield mem


steps = st.lists(
    st.one_of(
        st.tuples(
            st.just("write"),
            st.sampled_from(("eng-a", "eng-b", "lead")),
            st.sampled_from(("api/x", "vault/x")),
            st.sampled_from(PRIORITIES),
        ),
        st.tuples(st.just("mark"), st.sampled_from(("read", "briefing"))),
        st.tuples(st.just("wait"), st.sampled_from(("20m", "2h"))),
        st.tuples(st.just("archive"), st.integers(0, 9)),
        st.tuples(st.just("ask")),
    ),
    max_size=15,
)


@given(steps)
@examples(60)
def test_unread_after_any_marks(story):
    clock = FrozenClock()
    with synapse.open("memory:", clock=clock) as mem:
        for id in ("eng-a", "eng-b"):
            mem.register(Agent(id, read=("api/*",), write=("api/*", "vault/*")))
        mem.register(Agent("lead", role="cto"))
        me, unseen, ids = mem.as_agent("eng-a"), {}, []
        for step in [*story, ("ask",)]:
            if step[0] == "write":
                entry = mem.as_agent(step[1]).append("text", step[2], ttl="1h", priority=step[3])
                ids.append(entry.id)
                if step[1] != "eng-a" and step[2] == "api/x":
                    unseen[entry.id] = entry
            elif step[0] == "mark":
                shown = getattr(me, step[1])(mark=True)
                ids_shown = [entry.id for entry in shown] if step[1] == "read" else shown.shown
                for id in ids_shown:
                    unseen.pop(id, None)
            elif step[0] == "wait":
                clock.advance(step[1])
            elif step[0] == "archive" and ids:
                id = ids.pop(step[1] % len(ids))
                mem.as_agent("operator").archive(id)
                unseen.pop(id, None)
            assert me.unread() == sum(entry.expires > clock() for entry in unseen.values())


def test_a_page_tells_how_much_there_is(mem):
    for n in range(5):
        mem.as_agent("lead").append(f"{n}", "api/x" if n % 2 else "vault/x")
    page = mem.as_agent("eng-a").read(limit=1)
    assert (len(page), page.matched, page.visible, page.cursor) == (
        1,
        2,
        2,
        mem.store.index.cursor(),
    )
    assert page[0].body == "3"
    assert [entry.body for entry in page[:1]] == ["3"]
    empty = mem.as_agent("eng-a").read(namespace="vault/*")
    assert (list(empty), empty.matched, empty.visible) == ([], 0, 0)


def test_a_page_that_was_read_before_is_true_to_the_clock(mem, clock):
    me = mem.as_agent("eng-a")
    mem.as_agent("lead").append("old", "api/x", ttl="2h")
    clock.advance("1h")
    mem.as_agent("eng-b").append("new", "api/x", ttl="5h")
    assert [entry.body for entry in me.read()] == ["new", "old"]
    assert [entry.body for entry in me.read(since="90m")] == ["new", "old"]
    clock.advance("45m")
    assert [entry.body for entry in me.read(since="90m")] == ["new"]
    assert [entry.body for entry in me.read()] == ["new", "old"]
    clock.advance("20m")
    assert [entry.body for entry in me.read()] == ["new"]
    clock.advance("5h")
    assert list(me.read()) == []


def test_a_dispute_is_over_when_the_other_side_lapses(mem, clock):
    """Also on a page that holds only the one, and was read before."""
    kept = mem.as_agent("eng-a").append("mine", "api/x", topic="t", priority="critical", ttl="5h")
    other = mem.as_agent("eng-b").append("theirs", "api/x", topic="t", ttl="1h")
    me = mem.as_agent("lead")
    assert [entry.disputed for entry in me.read(priority="critical")] == [(other.id,)]
    clock.advance("2h")
    assert [(entry.id, entry.disputed) for entry in me.read(priority="critical")] == [(kept.id, ())]


@pytest.mark.parametrize(
    "asked",
    [
        {"since": "once"},
        {"since": "24"},
        {"priority": "urgent"},
        {"priority": ["critical", ""], "namespace": "API/*"},
        {"namespace": "../x"},
        {"limit": -1},
    ],
)
def test_what_cannot_be_asked_is_said(mem, asked):
    with pytest.raises((InvalidQuery, InvalidEntry)):
        mem.as_agent("eng-a").read(**asked)


def test_the_order_is_the_log_s_and_not_the_writer_s(mem, clock):
    first = mem.as_agent("eng-a").append("first", "api/x")
    clock.set(clock() - 300_000_000)  # five minutes
    second = mem.as_agent("eng-a").append("second", "api/x")
    assert [entry.id for entry in mem.as_agent("lead").read()] == [second.id, first.id]
    assert second.at > first.at


def test_an_agent_read_anew_reaches_what_its_new_globs_cover(mem):
    mem.as_agent("lead").append("text", "vault/x")
    assert len(mem.as_agent("eng-a").read()) == 0
    mem.register(Agent("eng-a", read=("vault/*",), write=("api/*",)))
    assert len(mem.as_agent("eng-a").read()) == 1


# -- runs ------------------------------------------------------------------------------


def run_record(mem, run, by="eng-a", **fields):
    return mem.store.commit.append(Record.new("run", by, {"run": run, **fields}, key=f"run:{run}"))


def runs_of(mem):
    root = {
        "epoch": 1,
        "state": "running",
        "agent": "cto",
        "project": "p",
        "root": "top",
        "holder": "h1",
    }
    run_record(mem, "top", "cto", **root, parent=None)
    for n in range(3):
        run_record(
            mem,
            f"kid-{n}",
            **root | {"agent": "eng-a", "project": "q", "parent": "top", "task": f"do {n}"},
        )
    run_record(mem, "kid-1", epoch=2, holder="h2")
    run_record(mem, "kid-1", epoch=2, state="ended", status="done", summary="it works")
    run_record(mem, "kid-1", epoch=2, debt=True)
    mem.store.index.catch_up()
    return mem.store.index.current


def test_a_run_is_the_sum_of_its_records():
    with synapse.open("memory:", clock=FrozenClock()) as mem:
        query = runs_of(mem)
        kid = query.run("kid-1")
        told = {
            name: kid[name]
            for name in ("run", "agent", "epoch", "state", "status", "holder", "task", "debt")
        }
        assert told == {
            "run": "kid-1", "agent": "eng-a", "epoch": 2, "state": "ended", "status": "done", "holder": "h2",
            "task": "do 1", "debt": True,
        }  # fmt: skip
        assert kid["at"] < kid["ended_at"]
        assert query.run("top")["ended_at"] is None
        assert query.run("nowhere") is None
        assert query.db.run("run", {"id": "kid-1"}).fetchone()[4] == mem.store.log.at(6).at


def test_runs_are_asked_for():
    with synapse.open("memory:", clock=FrozenClock()) as mem:
        query = runs_of(mem)

        def ids(**asked):
            return [run["run"] for run in query.runs(**asked)]

        assert ids() == ["kid-2", "kid-1", "kid-0", "top"]
        assert ids(state="running") == ["kid-2", "kid-0", "top"]
        assert ids(root="top", limit=2) == ["kid-2", "kid-1"]
        assert ids(agent="cto") == ids(project="p") == ["top"]
        assert ids(project="q", state="ended") == ["kid-1"]
        assert [run["run"] for run in query.children("top")] == ["kid-2", "kid-1", "kid-0"]
        assert query.children("kid-0") == []


def test_deliveries_are_asked_for():
    with synapse.open("memory:", clock=FrozenClock()) as mem:
        for agent, run, state, ids in (
            ("eng-a", "r", "offered", ["syn-1", "syn-2"]),
            ("eng-a", "r", "rendered", ["syn-1"]),
            ("eng-a", "r", "rendered", ["syn-1"]),
            ("eng-b", None, "acked", ["syn-1"]),
        ):
            fields = {"agent": agent, "state": state, "ids": ids, "how": "wake"} | (
                {"run": run, "epoch": 1} if run else {}
            )
            mem.store.commit.append(Record.new("delivery", agent, fields))
        mem.store.index.catch_up()
        query = mem.store.index.current

        def told(**asked):
            return [
                (each["agent"], each["run"], each["entry"], each["state"])
                for each in query.deliveries(**asked)
            ]

        mine = [
            ("eng-a", "r", "syn-1", "rendered"), ("eng-a", "r", "syn-1", "offered"), ("eng-a", "r", "syn-2", "offered"),
        ]  # fmt: skip
        assert told() == [("eng-b", "", "syn-1", "acked"), *mine]
        assert told(agent="eng-a") == told(run="r") == mine
        assert told(entry="syn-2", run="r") == mine[2:]
        assert told(limit=1) == [("eng-b", "", "syn-1", "acked")]


def test_runs_and_deliveries_are_derived_again_to_the_same_digest(tmp_path):
    with synapse.init(str(tmp_path / "memory")) as mem:
        runs_of(mem)
        mem.store.commit.append(
            Record.new("delivery", "eng-a", {"agent": "eng-a", "state": "acked", "ids": ["syn-1"]})
        )
        before, runs = mem.digest(), mem.store.index.current.runs()
        assert mem.rebuild().digest == before
        assert mem.store.index.current.runs() == runs
