"""What was shown: marks name what went in, and what is unread is what no mark names. Counted, and
by definition.
"""

import threading

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import synapse
import synapse.view.block
from synapse.authority import visible
from synapse.core import Memory
from synapse.errors import Forbidden, InvalidQuery, OverBudget
from synapse.history.sentences import Act, sentence
from synapse.index.derive.projector import Projector
from synapse.index.replay import snapshot_of
from synapse.index.snapshot import Filter
from synapse.log.memory import MemoryLog
from synapse.model.agents import Agent, settled
from synapse.model.entry import NEVER, PRIORITIES, RANK, Entry
from synapse.model.records import Record
from synapse.store import Store
from synapse.system.tokens import Tokens
from synapse.testing import FrozenClock
from synapse.view import news
from tests.examples import examples

HOUR = 3_600_000_000
NAMES = ("a", "b", "c")
READS = ((), ("api/*",), ("api/x", "status/*"), ("*",))
PLACES = st.integers(0, 30)
SOME = st.sets(PLACES, max_size=6)
ENTRY = st.tuples(
    st.just("entry"),
    st.sampled_from(NAMES),
    st.sampled_from(("api/x", "api/y", "status/p")),
    st.sampled_from(PRIORITIES),
    st.sampled_from((None, None, "t")),
    st.sets(PLACES, max_size=1),
    st.sampled_from(("1h", "3h", "30d")),
    st.sampled_from((("all",), ("all",), ("agent:a",), ("team:red",))),
)
MARK = st.tuples(st.just("mark"), st.sampled_from(NAMES), SOME, st.integers(0, 60))
OLD_MARK = st.tuples(st.just("everything"), st.sampled_from(NAMES), st.integers(0, 60))
RENDERED = st.tuples(st.just("rendered"), st.sampled_from(NAMES), SOME)
STAGED = st.tuples(st.just("staged"), st.sampled_from(NAMES))
RULE = st.tuples(st.sampled_from(("approve", "reject", "resolve", "vouch")), PLACES)
FILE = st.tuples(st.sampled_from(("archive", "restore")), st.sets(PLACES, min_size=1, max_size=3))
AGENT = st.tuples(st.just("agent"), st.sampled_from(NAMES), st.sampled_from(READS), st.booleans())
WAIT = st.tuples(st.just("wait"), st.sampled_from(("30m", "90m", "1d")))
VOID = st.tuples(st.just("void"), PLACES)
ACTS = st.lists(
    ENTRY
    | ENTRY
    | ENTRY
    | MARK
    | MARK
    | OLD_MARK
    | RENDERED
    | STAGED
    | RULE
    | FILE
    | AGENT
    | WAIT
    | VOID,
    max_size=30,
)


class Story:
    """A log in memory, told act by act."""

    def __init__(self):
        self.clock = FrozenClock()
        self.log = MemoryLog(self.clock)
        self.store = Store(self.log, self.clock)
        self.commit = self.store.commit
        self.ids = []
        for name in NAMES:
            self.agent(name, ("api/*",), False)

    def tell(self, acts):
        for kind, *rest in acts:
            if kind in ("approve", "reject", "resolve", "vouch"):
                self.rule(kind, *rest)
            else:
                getattr(self, kind)(*rest)

    def id(self, place):
        return self.ids[place % len(self.ids)] if self.ids else "syn-nothing"

    def put(self, entry, key=None):
        self.ids.append(
            self.commit.append(Record.new("entry", entry.author, {}, entry, key=key)).id
        )

    def entry(self, author, namespace, priority, topic, olds, ttl, to):
        olds = tuple(self.id(old) for old in olds)
        self.put(
            Entry(
                "",
                author,
                "",
                namespace,
                priority,
                "text",
                ttl,
                to,
                (),
                (),
                olds,
                topic,
                authority=60,
            )
        )

    def staged(self, author):
        self.put(
            Entry("", author, "", "api/x", "info", "waits", "30d", staged=True, authority=60),
            "staging",
        )

    def mark(self, agent, places, cursor):
        ids = [self.id(place) for place in sorted(places)]
        self.commit.append(
            Record.new(
                "shown", agent, {"cursor": cursor, "how": "read", "ids": ids, "of": len(ids)}
            )
        )

    def everything(self, agent, cursor):
        self.commit.append(
            Record.new("shown", agent, {"cursor": min(cursor, len(self.log.records))})
        )

    def rendered(self, agent, places):
        ids = [self.id(place) for place in sorted(places)]
        self.commit.append(
            Record.new(
                "delivery", agent, {"agent": agent, "state": "rendered", "ids": ids, "run": "r"}
            )
        )

    def rule(self, kind, place):
        self.commit.append(Record.new(kind, "c", {"entry": self.id(place)}))

    def archive(self, places):
        self.commit.archive([self.id(place) for place in sorted(places)], "c", "test")

    def restore(self, places):
        self.commit.restore([self.id(place) for place in sorted(places)], "c", "test")

    def agent(self, id, reads, red):
        agent = settled(Agent(id, read=reads, write=("*",), teams=("red",) if red else ()))
        self.commit.append(
            Record.new("agent", "operator", {"agent": agent._asdict(), "how": "registered"})
        )

    def wait(self, span):
        self.clock.advance(span)

    def void(self, place):
        self.commit.append(Record.new("void", "log", {"seq": place % len(self.log.records) + 1}))

    # -- the truth ---------------------------------------------------------------------------------

    def unread(self, agent, now):
        """The entries that count, by definition: live, another's, seen by the agent, and no mark
        shows them.
        """
        query = self.store.index.current
        voids = {record.fields["seq"] for record in self.log.since(0) if record.kind == "void"}
        records = [record for record in self.log.since(0) if record.seq not in voids]
        marks = [record for record in records if record.kind == "shown" and record.by == agent.id]
        floor = max(
            (record.fields["cursor"] for record in marks if "ids" not in record.fields), default=0
        )
        marks += [
            record for record in records if record.kind == "delivery" and record.by == agent.id
        ]
        named = {(id, record.seq) for record in marks for id in record.fields.get("ids", ())}
        return {
            entry.seq: entry
            for entry in query.page(None, Filter(limit=None), now)
            if entry.author != agent.id and visible(entry, agent) and entry.seq > floor
            if not any(id == entry.id and entry.seq < at for id, at in named)
        }


def faults(story):
    """Where the counts, and what is picked, differ from the definition: at the last record, before
    it and after it.
    """
    story.store.refresh()
    index = story.store.index
    for name in NAMES:
        agent = index.current.declared.get(name)
        for hours in (0, -2, 2, 24 * 40) if agent else ():
            now = story.clock.at + hours * HOUR
            due = story.unread(agent, now)
            if index.current.unread(agent, now)[0] != len(due):
                yield (name, hours, "count", index.current.unread(agent, now)[0], len(due))
            order = sorted(due, key=lambda seq: (RANK[due[seq].priority], seq))
            rows, counts = index.current.unread_rows(agent, Filter(limit=None), now)
            if [seq for seq, *_ in rows] != order or sum(counts) != len(due):
                yield name, hours, "rows", rows, order
            heavy = Filter(("critical", "important"), ("api/*",), limit=3)
            picked = [
                seq
                for seq in order
                if due[seq].priority != "info" and due[seq].namespace != "status/p"
            ]
            rows, counts = index.current.unread_rows(agent, heavy, now)
            if [seq for seq, *_ in rows] != picked[:3] or sum(counts) != len(picked):
                yield name, hours, "filtered", rows, picked


@given(ACTS, st.integers(1, 6))
@examples(120)
@example(
    acts=[("entry", "b", "api/x", "info", None, set(), "30d", ("all",)), ("mark", "a", set(), 60)],
    step=1,
)
def test_what_is_unread_is_what_no_mark_names(acts, step):
    """After anything that can happen, taken in a few records at a time; and derived anew, to the
    same digest.
    """
    story = Story()
    for start in range(0, len(acts), step):
        story.tell(acts[start : start + step])
        assert next(faults(story), None) is None
    story.store.refresh()
    digest = story.store.index.digest()
    assert snapshot_of(story.log, story.log.since(0)).db.digest() == digest
    assert Memory(story.store).rebuild().digest == digest
    assert next(faults(story), None) is None


PART = [("entry", "b", "api/x", "critical", None, set(), "30d", ("all",))] * 3 + [
    ("mark", "a", {1}, 60)
]


def test_the_checker_finds_marks_that_claim_everything(monkeypatch):
    """As it was: a mark moved a cursor, whatever it had shown."""
    named = Projector._shown

    def everything(self, record):
        fields = {name: value for name, value in record.fields.items() if name != "ids"}
        named(self, record._replace(fields=fields))

    story = Story()
    story.tell(PART)
    assert next(faults(story), None) is None
    monkeypatch.setattr(Projector, "_shown", everything)
    story = Story()
    story.tell(PART)
    assert next(faults(story), None) == ("a", 0, "count", 0, 2)


@pytest.mark.parametrize("statement", ["sweep_left", "left_since"])
def test_the_checker_finds_counts_that_miss_a_lapse(statement):
    story = Story()
    index = story.store.index
    index.db.sql[statement] = {"sweep_left": "select 1 where :at < 0", "left_since": "select 0"}[
        statement
    ]
    brief = ("entry", "b", "api/x", "critical", None, set(), "1h", ("all",))
    story.tell([brief, brief, ("mark", "a", {1}, 60)])
    assert [fault for fault in faults(story) if fault[1] == 0] == []
    story.tell(
        [
            ("wait", "90m"),
            *(
                [("entry", "a", "api/y", "info", None, set(), "1h", ("all",))]
                * (statement[0] == "s")
            ),
        ]
    )
    assert next(faults(story), None) is not None


def test_a_count_looks_at_what_was_marked_and_not_at_everything():
    """Each of 50 prompts shows 20 of 200 that came. No statement goes over what earlier ones left
    out.
    """
    story, steps = Story(), []
    for _ in range(50):
        start = len(story.ids)
        story.tell([("entry", "b", "api/x", "info", None, set(), "30d", ("all",))] * 200)
        story.mark("a", range(start, start + 20), len(story.log.records))
    story.store.refresh()
    index = story.store.index
    me = index.current.declared["a"]
    assert (
        max(len(str(record.fields)) for record in story.log.since(0) if record.kind == "shown")
        < 700
    )
    assert index.db.connection.execute("select count(*) from seen").fetchone() == (1_000,)
    index.db.connection.set_progress_handler(lambda: steps.append(1), 100)
    assert index.current.unread(me, story.clock())[0] == 50 * 180
    index.db.connection.set_progress_handler(None, 0)
    # instructions of SQLite's machine, in hundreds; a look at 9,000 rows takes over 1,000
    assert len(steps) < 20


# -- by way of a seat ------------------------------------------------------------------


@pytest.fixture
def mem(clock):
    with synapse.open("memory:", clock=clock) as mem:
        for id in ("eng-a", "eng-b"):
            mem.register(Agent(id, read=("api/*", "status/*"), write=("api/*", "status/*")))
        mem.register(Agent("lead", role="project-lead", read=("*",), write=("*",)))
        yield mem


@pytest.fixture
def me(mem):
    return mem.as_agent("eng-a")


def wrote(mem, *priorities, body="what follows from this is said here, at some length"):
    lead = mem.as_agent("lead")
    return [
        lead.append(f"{n}: {body}", "api/x", priority=priority).id
        for n, priority in enumerate(priorities)
    ]


def last_mark(mem):
    return next(record for record in mem.audit() if record.kind == "shown")


def test_a_view_marks_what_its_text_holds(mem, me):
    ids = wrote(mem, *["critical"] * 5, "info")
    view = me.briefing(260, mark=True)
    whole = [each.id for each in view.included if each.form == "whole"]
    assert (0 < len(whole) < 5, ids[-1] in whole) == (True, False)
    assert me.unread() == 6 - len(whole)
    mark = last_mark(mem)
    assert mark.fields == {"cursor": view.cursor, "how": "briefing", "ids": whole, "of": 6}
    number = "1 entry" if len(whole) == 1 else f"{len(whole)} entries"
    assert (
        sentence(Act(mark))
        == f"eng-a was shown {number} of 6, up to {view.cursor}: {', '.join(whole)}"
    )


def test_a_pointer_does_not_count(mem, me):
    (id,) = wrote(mem, "info")
    view = me.briefing(mark=True)
    assert [(each.id, each.form) for each in view.included] == [(id, "pointer")]
    assert me.unread() == 1
    assert sentence(Act(last_mark(mem))) == f"eng-a was shown 0 entries of 1, up to {view.cursor}"


def test_a_mark_of_before_shows_everything_up_to_its_cursor(mem, me):
    wrote(mem, "critical", "info")
    me.writer.act("shown", cursor=me.read().cursor, how="read")
    wrote(mem, "info")
    assert me.unread() == 1
    assert "was shown everything up to" in sentence(Act(last_mark(mem)))


@pytest.mark.parametrize(
    ("asked", "places"),
    [
        ({}, [2, 1, 0]),
        ({"limit": 1}, [2]),
        ({"limit": 0}, []),
        ({"priority": "critical"}, [0]),
        ({"unread": True, "limit": 1}, [0]),
        ({"unread": True, "priority": "info"}, [1]),
    ],
)
def test_a_page_marks_what_it_returned(mem, me, asked, places):
    ids = wrote(mem, "critical", "info", "important")
    assert [entry.id for entry in me.read(**asked, mark=True)] == [ids[place] for place in places]
    assert me.unread() == 3 - len(places)
    assert {entry.id for entry in me.read(unread=True)} == {*ids} - {ids[place] for place in places}


def test_what_came_between_the_page_and_its_mark_stays_unread(mem, me):
    wrote(mem, "info")
    page = me.read()
    wrote(mem, "critical")
    me.writer.shown([entry.id for entry in page], page.visible, page.cursor, "read")
    assert [entry.priority for entry in me.read(unread=True)] == ["critical"]


def test_what_an_agent_may_see_from_now_on_is_new_to_it(mem, me):
    mem.as_agent("lead").append("older", "vault/x")
    wrote(mem, "info")
    me.read(mark=True)
    assert me.unread() == 0
    mem.register(Agent("eng-a", read=("api/*", "vault/*"), write=("api/*",)))
    assert [entry.body for entry in me.read(unread=True)] == ["older"]
    assert me.unread() == 1


def test_what_is_new_comes_by_urgency_and_then_by_age(mem, me):
    ids = wrote(mem, "info", "critical", "important", "info", "critical")
    me.append("mine", "api/x", priority="critical")
    page = me.read(unread=True)
    assert [entry.id for entry in page] == [ids[place] for place in (1, 4, 2, 0, 3)]
    assert (page.visible, page.matched, page.left, page.pointers) == (5, 6, (0, 0, 0), ())
    cut = me.read(unread=True, limit=3)
    assert (len(cut), cut.visible, cut.left) == (3, 5, (0, 0, 2))
    assert cut.foot.startswith("-- 3 of 5 unread, 6 matching; cursor ")
    assert (
        "left out: 0 critical, 0 important, 2 info; all of it: `synapse read --agent eng-a --unread"
        in cut.foot
    )


def test_a_look_at_what_is_new_writes_nothing(mem, me):
    wrote(mem, "info")
    before = mem.store.log.mark()
    me.read(unread=True), me.read(unread=True, budget=200)
    assert mem.store.log.mark() == before
    me.read(unread=True, mark=True)
    after = mem.store.log.mark()
    assert before < after
    assert me.read(unread=True, mark=True).foot.startswith("-- 0 of 0 unread, 1 matching; cursor ")
    assert mem.store.log.mark() == after  # nothing was shown


@pytest.mark.parametrize(
    ("asked", "error", "words"),
    [
        ({"budget": 100}, InvalidQuery, "say unread too"),
        ({"unread": True, "archived": True}, InvalidQuery, "archived"),
        ({"unread": True, "namespace": "mail"}, InvalidQuery, "synapse inbox"),
        ({"unread": True, "limit": -1}, InvalidQuery, "negative"),
        ({"unread": True, "budget": 5}, OverBudget, "the last line alone takes"),
    ],
)
def test_what_makes_no_sense_is_refused_in_words(mem, me, asked, error, words):
    with pytest.raises(error, match=words):
        me.read(**asked)


def test_the_operator_has_no_news(mem):
    with pytest.raises(Forbidden, match="ask as an agent"):
        mem.as_agent("operator").read(unread=True)


BODIES = st.lists(
    st.tuples(
        st.sampled_from(PRIORITIES),
        st.text(
            st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=300
        ).filter(str.strip),
    ),
    max_size=12,
)


@given(BODIES, st.integers(60, 700))
@examples(60)
def test_a_budget_is_exact_and_page_by_page_everything_comes_once(bodies, budget):
    with synapse.open("memory:", clock=FrozenClock()) as mem:
        mem.register(Agent("eng-a", read=("api/*",)))
        mem.register(Agent("lead", role="cto"))
        me, lead = mem.as_agent("eng-a"), mem.as_agent("lead")
        due = [lead.append(body, "api/x", priority=priority) for priority, body in bodies]
        due.sort(key=lambda entry: (RANK[entry.priority], entry.seq))
        order, count = [entry.id for entry in due], Tokens().count
        while True:
            page = me.read(unread=True, budget=budget, mark=True)
            assert page.tokens == count(news.render(page)) <= budget
            assert (len(page.pointers) > 0) <= (len(page) < page.visible)
            assert page.visible == len(order) == me.unread() + len(page)
            if not page:
                break
            pointed = {entry.id for entry in page.pointers}
            fits = [id for id in order if id in {entry.id for entry in page}]
            assert [entry.id for entry in page] == fits, "in the order of urgency"
            behind = order[: order.index(fits[-1])]
            assert all(id in fits or count(whole_text(mem, id)) > budget - 60 for id in behind), (
                pointed
            )
            order = [id for id in order if id not in fits]
        assert all(count(whole_text(mem, id)) > budget - 60 for id in order), (
            "only what no page has room for"
        )


def whole_text(mem, id):
    return synapse.view.block.whole(mem.store.entry(id)).text


def test_two_that_mark_at_once_lose_nothing(tmp_path):
    """Each entry comes to one of them at least."""
    with synapse.init(str(tmp_path / "memory")) as mem:
        mem.register(Agent("eng-a", read=("api/*",)))
        mem.register(Agent("lead", role="cto"))
        agent_memories = [mem.as_agent("eng-a", *more) for more in ((), ())]
        got = set()
        over = threading.Event()
        ids = set()

        def look(agent_memory):
            while not over.is_set() or agent_memory.unread():
                got.update(
                    entry.id for entry in agent_memory.read(unread=True, budget=300, mark=True)
                )

        threads = [
            threading.Thread(target=look, args=(agent_memory,)) for agent_memory in agent_memories
        ]
        for thread in threads:
            thread.start()
        for n in range(60):
            ids.add(
                mem.as_agent("lead").append(f"note {n}", "api/x", priority=PRIORITIES[n % 3]).id
            )
        over.set()
        for thread in threads:
            thread.join()
        assert got == ids
        assert mem.as_agent("eng-a").unread() == 0


# -- what a view chooses ---------------------------------------------------------------


def test_view_after_view_shows_all_that_is_critical(mem, me):
    ids = wrote(mem, *["critical"] * 6, body="every client must send its key from now on " * 3)
    seen = []
    for _ in range(6):
        view = me.briefing(330, mark=True)
        seen += [id for id in view.shown if id not in seen]
        if len(seen) == 6:
            break
    assert sorted(seen) == ids
    assert me.unread() == 0


def test_what_is_important_is_in_each_view_whatever_was_shown(mem, me):
    """Who reads a view may have begun anew; who wants only what is new asks for that."""
    ids = wrote(mem, *["important"] * 8, body="the build takes the other path " * 4)
    views = [me.briefing(190, mark=True) for _ in range(3)]
    assert views[0].shown == views[1].shown == views[2].shown == tuple(ids[-2:])
    assert [entry.id for entry in me.read(unread=True)] == ids[:-2]


def test_order_and_section_do_not_depend_on_what_was_shown(mem, me):
    wrote(mem, "info", "important", "critical", "important", "critical")
    before = me.briefing().text
    me.read(priority="critical", limit=1, mark=True)
    after = me.briefing()
    assert after.text == before
    cut = me.briefing(after.tokens - 1)
    places = [after.text.index(each.id) for each in cut.included]
    assert places == sorted(places)


def test_a_view_is_made_again_as_it_was_whatever_was_shown_since(mem, me, clock):
    wrote(mem, *["critical"] * 6, *["important"] * 6)
    me.read(priority="critical", limit=2, mark=True)
    clock.advance("1m")
    view = me.briefing(400, mark=True)
    assert me.briefing(400).text != view.text
    assert me.briefing(400, as_of=view.at, until=view.cursor).text == view.text


# -- what a session is told of ---------------------------------------------------------


def test_what_a_wake_rendered_was_shown(mem, me):
    ids = wrote(mem, "critical", "critical")
    me.writer.delivery("offered", ids, "wake")
    assert me.unread() == 2
    me.writer.delivery("rendered", ids[:1], "wake")
    assert [entry.id for entry in me.read(unread=True)] == ids[1:]


def test_a_clock_that_stands_does_not_count_what_lapsed(mem, me, clock):
    mem.as_agent("lead").append("brief", "api/x", ttl="1h")
    wrote(mem, "info", "info")
    me.read(limit=1, mark=True)
    assert me.unread() == 2
    clock.advance("2h")
    assert me.unread() == len(me.read(unread=True)) == 1
    assert (
        NEVER > mem.store.index.current.unread(me.store.agents.get("eng-a"), clock())[1] > clock()
    )
