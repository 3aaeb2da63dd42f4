from datetime import UTC, date, datetime

import pytest

import synapse
from synapse import Conflict, Forbidden, InvalidEntry, InvalidQuery, NoKey, NotFound, QueueFull
from synapse.cli.knowledge import known_to
from synapse.model.agents import Agent
from synapse.model.entry import Entry
from synapse.model.records import Record
from synapse.model.settings import Settings
from synapse.testing import together
from tests.synapse.served import mail_of, served

WRITE = ("api/*", "blockers/*", "vault/*")


@pytest.fixture(params=["library", "client"])
def mem(request, clock, tmp_path):
    """A team's memory, as the library has it and as a client of a server does."""
    with synapse.open("memory:", clock=clock) as mem:
        for id in ("eng-a", "eng-b"):
            mem.register(Agent(id, read=("api/*", "blockers/*"), write=WRITE))
        mem.register(Agent("lead", role="project-lead", read=("*",), write=("*",)))
        mem.register(Agent("cto", role="cto"))
        mem.register(Agent("junior", read=("api/*",), write=("api/*",), review_required=True))
        mem.register(
            Agent("trainee", read=("api/*",), write=("api/*",), review_required=True, authority=90)
        )
        if request.param == "library":
            yield mem
        else:
            with served(mem, tmp_path) as both:
                yield both


@pytest.fixture
def me(mem):
    return mem.as_agent("eng-a")


def shown(mem, who="lead"):
    return {entry.body for entry in mem.as_agent(who).read()}


# -- writing ---------------------------------------------------------------------------


def test_an_entry_is_what_was_written_and_who_wrote_it(mem, me):
    entry = me.append(
        "text\n",
        "api/x",
        priority="critical",
        ttl="2h",
        tags="a, b",
        to="eng-b",
        topic="t",
        evidence="commit 1",
    )
    assert entry == me.get(entry.id)
    assert (entry.author, entry.authority, entry.trust, entry.to, entry.tags) == (
        "eng-a", 60, "local", "agent:eng-b", ("a", "b"),
    )  # fmt: skip
    assert (entry.body, entry.topic, entry.evidence) == ("text", "t", "commit 1")
    assert entry.expires == entry.at + 2 * 3_600_000_000


@pytest.mark.parametrize(
    ("more", "error"),
    [
        ({"namespace": "team/x"}, Forbidden),
        ({"namespace": "../x"}, InvalidEntry),
        ({"body": " "}, InvalidEntry),
        ({"pii": True}, NoKey),
        ({"scope": "private"}, NoKey),
        ({"scope": "team"}, InvalidEntry),
        ({"to": "group:x"}, InvalidEntry),
        ({"to": []}, InvalidEntry),
        ({"once": ""}, InvalidEntry),
        ({"ttl": "soon"}, InvalidEntry),
        ({"supersedes": "syn-2026-02-01-999"}, NotFound),
        ({"supersedes": "no id"}, InvalidEntry),
        ({"derived_from": "syn-2026-02-01-999"}, NotFound),
        ({"tags": ["x" * 9_000]}, InvalidEntry),
    ],
)
def test_what_is_refused_leaves_nothing(mem, me, more, error):
    before = mem.store.log.mark()
    with pytest.raises(error):
        me.append(**({"body": "text", "namespace": "api/x"} | more))
    assert mem.store.log.mark() == before


def test_once_is_once(mem, me):
    first = me.append("first", "api/x", once="key")
    assert me.append("second", "api/x", once="key") == first
    assert mem.as_agent("eng-b").append("mine", "api/x", once="key").id != first.id
    found = together(*[lambda: me.append("race", "api/x", once="other").id] * 6)
    assert len(set(found)) == 1
    assert shown(mem) == {"first", "mine", "race"}


def test_superseding_needs_the_right_in_both_places_and_to_see_the_old(mem, me):
    theirs = mem.as_agent("lead").append("plan", "projects/x", to="eng-a")
    with pytest.raises(Forbidden, match=f"supersede {theirs.id} in projects/x"):
        me.append("better", "api/x", supersedes=theirs.id)
    hidden = mem.as_agent("eng-b").append("hidden", "vault/x")
    with pytest.raises(NotFound):
        me.append("better", "vault/x", supersedes=hidden.id)
    old = mem.as_agent("eng-b").append("old", "api/x")
    new = me.append("new", "vault/y", supersedes=old.id)
    assert new.supersedes == old.id
    assert shown(mem) == {"plan", "hidden", "new"}
    assert me.fate(old.id)[:2] == ("superseded", new.id)


def test_what_outranks_cannot_be_superseded_and_comes_back(mem, me, clock):
    decision = mem.as_agent("lead").append("decision", "api/x", ttl="1h")
    mine = me.append("mine", "api/x", supersedes=decision.id)
    assert shown(mem) == {"decision"}
    assert me.fate(mine.id) == ("outranked", decision.id, decision.expires)
    clock.advance("61m")
    assert shown(mem) == {"mine"}
    assert me.fate(mine.id) is None
    assert me.fate(decision.id).reason == "expired"


def test_the_operator_and_strangers_write_nothing(mem):
    operator = mem.as_agent("operator")
    mem.as_agent("eng-a").append("text", "api/x")
    for act in (
        lambda: operator.append("text", "api/x"),
        lambda: operator.read(mark=True),
        lambda: operator.briefing(mark=True),
        operator.unread,
    ):
        with pytest.raises(Forbidden):
            act()
    with pytest.raises(NotFound, match="register"):
        mem.as_agent("nobody")


def test_the_operator_rules_in_its_own_name(mem):
    """Whatever the author's authority; the acts are the operator's, and undone like others."""
    operator, boss = mem.as_agent("operator"), mem.as_agent("eng-a")
    entry = boss.append("Blocked: no key", "blockers/web", priority="critical")
    operator.resolve(entry.id, "it is in the vault")
    assert boss.fate(entry.id)[:2] == ("resolved", "operator")
    filed = boss.append("old", "api/x")
    operator.archive(filed.id)
    assert boss.get(filed.id).archived
    acts = {record.kind: record.by for record in mem.audit()}
    assert acts["resolve"] == acts["archive"] == "operator"


def test_a_plain_read_writes_nothing(mem, me):
    me.append("text", "api/x")
    before = mem.store.log.mark()
    (
        me.read(),
        me.briefing(),
        me.search("text"),
        me.unread(),
        [*me.follow(0, timeout=0)],
        me.staged(),
    )
    assert mem.store.log.mark() == before
    me.read(mark=True)
    assert mem.store.log.mark() > before


def test_a_briefing_that_does_not_fit_was_not_shown(mem, me):
    mem.as_agent("lead").append("text", "api/x", priority="critical")
    with pytest.raises(synapse.OverBudget):
        me.briefing(1, mark=True)
    assert me.unread() == 1


# -- time ------------------------------------------------------------------------------


def test_an_entry_lives_as_long_as_its_ttl(mem, me, clock):
    me.append("short", "api/x", ttl="1h")
    me.append("by namespace", "blockers/x")
    me.append("for ever", "api/x", ttl="never")
    assert shown(mem) == {"short", "by namespace", "for ever"}
    clock.advance("61m")
    assert shown(mem) == {"by namespace", "for ever"}
    clock.advance("7d")
    assert shown(mem) == {"for ever"}
    clock.advance("3650d")
    assert shown(mem) == {"for ever"}
    assert [hit.body for hit in mem.as_agent("lead").search("short")] == []


# -- topics ----------------------------------------------------------------------------


def test_a_topic_is_one_thing_at_a_time(mem, me, clock):
    me.append("first", "api/x", topic="port")
    me.append("second", "api/x", topic="port")
    me.append("elsewhere", "blockers/x", topic="port")
    assert shown(mem) == {"second", "elsewhere"}
    high = mem.as_agent("lead").append("decided", "api/x", topic="port", ttl="2h")
    assert shown(mem) == {"decided", "elsewhere"}
    mem.as_agent("eng-b").append("late", "api/x", topic="port")
    assert shown(mem) == {"decided", "elsewhere"}
    assert me.fate(high.id) is None
    clock.advance("121m")
    assert shown(mem) == {"second", "late", "elsewhere"}


def test_equals_are_in_dispute_until_it_is_settled(mem, me):
    one = me.append("one", "api/x", topic="port")
    two = mem.as_agent("eng-b").append("two", "api/x", topic="port")
    assert me.get(one.id).disputed == (two.id,)
    assert {entry.disputed for entry in me.read()} == {(one.id,), (two.id,)}
    third = mem.as_agent("lead").append("settled", "api/x", supersedes=[one.id, two.id])
    assert shown(mem) == {"settled"}
    assert me.get(one.id).disputed == ()
    assert me.fate(two.id).by == third.id


def test_an_author_ends_a_dispute_by_giving_in(mem, me):
    one = me.append("one", "api/x", topic="port")
    mem.as_agent("eng-b").append("two", "api/x", topic="port")
    me.append("agreed", "api/y", supersedes=one.id)
    assert shown(mem) == {"two", "agreed"}
    assert all(entry.disputed == () for entry in me.read())


def test_whose_winner_is_gone_comes_back(mem, me):
    for way in ("resolve", "archive", "supersede", "replace"):
        where = f"api/{way}"
        me.append(f"low {way}", where, topic="t")
        high = mem.as_agent("lead").append(f"high {way}", where, topic="t", ttl="never")
        assert f"low {way}" not in shown(mem)
        lead = mem.as_agent("lead")
        if way == "resolve":
            lead.resolve(high.id)
        elif way == "archive":
            lead.archive(high.id)
        elif way == "supersede":
            lead.append("moved", "api/else", supersedes=high.id)
        else:
            lead.append("higher", where, topic="t", ttl="1h")
        assert (f"low {way}" in shown(mem)) is (way != "replace")
    assert "higher" in shown(mem)


# -- resolving, archiving --------------------------------------------------------------


def test_resolve(mem, me):
    mine = me.append("mine", "blockers/x")
    theirs = mem.as_agent("lead").append("theirs", "blockers/x")
    me.resolve(mine.id, note="fixed")
    assert me.fate(mine.id)[:2] == ("resolved", "eng-a")
    with pytest.raises(Forbidden):
        me.resolve(theirs.id)
    mem.as_agent("cto").resolve(theirs.id)
    assert shown(mem) == set()
    assert mem.audit(entry=mine.id)[0].fields["note"] == "fixed"


def test_archive_and_restore(mem, me):
    one, two = me.append("one", "api/x"), me.append("two", "api/x")
    me.read()
    found = me.archive([one.id], "done")
    assert [entry.archived for entry in found] == [True]
    assert shown(mem) == {"two"}
    assert [(entry.body, entry.archived) for entry in me.read(archived=True)] == [("one", True)]
    assert [hit.body for hit in me.search("one", archived=True)] == ["one"]
    assert list(me.search("one")) == []
    assert me.fate(one.id).reason == "archived"
    with pytest.raises(Forbidden):
        mem.as_agent("junior").archive([one.id, two.id])
    me.restore(one.id)
    assert [(entry.body, entry.archived) for entry in me.read()] == [("two", False), ("one", False)]
    mem.as_agent("operator").archive([one.id, two.id])
    assert shown(mem) == set()
    with pytest.raises(InvalidEntry, match="nothing to archive"):
        me.archive([])


# -- vouching --------------------------------------------------------------------------


@pytest.fixture
def doubtful(mem):
    entry = Entry(
        "",
        "eng-a",
        "",
        "api/x",
        "important",
        "doubtful",
        "7d",
        trust="unverified",
        claimed="critical",
    )
    return mem.store.commit.append(Record.new("entry", "eng-a", {}, entry)).id


def test_a_voucher_makes_it_count(mem, doubtful):
    mem.register(Agent("low", read=["*"], write=["*"], authority=59))
    for who in ("low", "junior"):
        with pytest.raises(Forbidden):
            mem.as_agent(who).vouch(doubtful)
    found = mem.as_agent("eng-b").vouch(doubtful)
    assert (found.trust, found.priority, found.authority) == ("reviewed", "critical", 60)
    assert [entry.trust for entry in mem.as_agent("eng-b").read(priority="critical")] == [
        "reviewed"
    ]
    with pytest.raises(Conflict, match="no voucher"):
        mem.as_agent("eng-b").vouch(doubtful)


def test_what_is_made_of_doubtful_things_is_doubtful(mem, doubtful):
    made = mem.as_agent("eng-b").append(
        "derived", "api/y", priority="critical", derived_from=doubtful
    )
    assert (made.trust, made.authority, made.priority, made.claimed) == (
        "unverified",
        0,
        "important",
        "critical",
    )
    good = mem.as_agent("eng-b").append("good", "api/y")
    assert mem.as_agent("eng-b").append("more", "api/y", derived_from=[good.id]).trust == "local"
    assert (
        mem.as_agent("eng-b").append("worse", "api/y", derived_from=[good.id, made.id]).trust
        == "unverified"
    )


# -- review ----------------------------------------------------------------------------


def test_what_is_staged_is_seen_by_its_author_and_its_judges(mem, me):
    entry = mem.as_agent("junior").append("waits", "api/x", priority="critical")
    assert entry.staged
    assert shown(mem) == set()
    for who in ("junior", "lead", "cto", "eng-a", "operator"):
        assert [found.id for found in mem.as_agent(who).staged()] == [entry.id]
        assert mem.as_agent(who).get(entry.id).body == "waits"
    assert mem.as_agent("trainee").staged() == []
    with pytest.raises(NotFound):
        mem.as_agent("trainee").get(entry.id)
    assert me.unread() == 0
    assert list(me.search("waits")) == []


def test_approval_is_when_it_begins(mem, me, clock):
    entry = mem.as_agent("junior").append("waits", "api/x", ttl="1h")
    clock.advance("3h")
    me.append("meanwhile", "api/x")
    found = mem.as_agent("lead").approve(entry.id)
    assert (found.staged, found.trust, found.at) == (False, "reviewed", clock() + 1)
    assert [each.body for each in me.read()] == ["waits", "meanwhile"]
    assert me.unread() == 1
    clock.advance("2h")
    assert shown(mem) == {"meanwhile"}


def test_nobody_approves_its_own_or_above_itself(mem):
    for who, judge in (
        ("junior", "junior"),
        ("junior", "trainee"),
        ("trainee", "eng-a"),
        ("trainee", "lead"),
    ):
        entry = mem.as_agent(who).append("waits", "api/x")
        for act in ("approve", "reject"):
            with pytest.raises((Forbidden, NotFound)):
                getattr(mem.as_agent(judge), act)(entry.id)
    assert shown(mem) == set()


def test_a_key_stands_for_one_kind_of_act(mem, me):
    entry = me.append("first", "api/x", once="key")
    before = mem.store.log.mark()
    for act in (
        lambda: me.resolve(entry.id, once="key"),
        lambda: known_to(me).remember("a fact", once="key"),
        lambda: mail_of(me).send("all", "text", once="key"),
        lambda: me.claim("the build", once="key"),
    ):
        with pytest.raises(Conflict, match="stands for another act"):
            act()
    assert mem.store.log.mark() == before
    assert me.fate(entry.id) is None


def test_work_is_given_back_once(mem, me):
    """Who asks again, for it heard no answer, is told the same."""
    me.claim("the build")
    given = me.release("the build", once="key")
    mem.as_agent("eng-b").claim("the build")
    before = mem.store.log.mark()
    assert me.release("the build", once="key") == given
    with pytest.raises(NotFound, match="nothing to give back"):
        me.release("the build", once="another")
    assert mem.store.log.mark() == before


def test_a_ruling_is_made_once(mem):
    entry = mem.as_agent("junior").append("waits", "api/x")
    plain = mem.as_agent("eng-a").append("plain", "api/x")
    mem.as_agent("lead").reject(entry.id, "no")
    assert mem.as_agent("junior").fate(entry.id).reason == "rejected"
    for id in (entry.id, plain.id):
        for act in ("approve", "reject"):
            with pytest.raises(Conflict, match="does not wait"):
                getattr(mem.as_agent("lead"), act)(id)
    entry = mem.as_agent("junior").append("again", "api/x")
    judges = [mem.as_agent(id) for id in ("lead", "cto", "eng-a", "eng-b")]
    acts = [lambda j=j: j.approve(entry.id) for j in judges] + [
        lambda j=j: j.reject(entry.id) for j in judges
    ]
    found = together(*acts)
    assert sum(isinstance(each, Conflict) for each in found) == 7
    assert len([act for act in mem.audit(entry=entry.id) if act.kind in ("approve", "reject")]) == 1


def test_the_queue_is_bounded(mem):
    mem.store.operator_files.declare(Settings(staging_limit=3))
    junior = mem.as_agent("junior")
    staged = [junior.append(f"{n}", "api/x") for n in range(3)]
    with pytest.raises(QueueFull, match="3 entries wait"):
        junior.append("one too many", "api/x")
    mem.as_agent("lead").approve(staged[0].id)
    mem.as_agent("lead").reject(staged[1].id)
    found = together(*[lambda: junior.append("race", "api/x")] * 5)
    assert sum(isinstance(each, QueueFull) for each in found) == 3
    assert len(junior.staged()) == 3


def test_what_nobody_reviews_expires_and_makes_room(mem, clock):
    mem.store.operator_files.declare(Settings(staging_limit=1, staging_ttl="1d"))
    junior = mem.as_agent("junior")
    entry = junior.append("waits", "api/x")
    clock.advance("23h")
    assert len(junior.staged()) == 1
    clock.advance("2h")
    assert junior.staged() == []
    assert junior.fate(entry.id).reason == "rejected"
    with pytest.raises(Conflict):
        mem.as_agent("lead").approve(entry.id)
    junior.append("next", "api/x")
    assert [act.by for act in mem.audit(entry=entry.id) if act.kind == "reject"] == ["log"]


def test_what_was_approved_counts_as_superseding_from_then_on(mem, me):
    old = mem.as_agent("junior").append("old", "api/x")
    mem.as_agent("lead").approve(old.id)
    new = mem.as_agent("junior").append("new", "api/x", supersedes=old.id)
    assert shown(mem) == {"old"}
    mem.as_agent("lead").approve(new.id)
    assert shown(mem) == {"new"}


# -- searching -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "query",
    ["", " ", '"', "*", "(", "a OR", "NEAR(", "-y", "col:y", "\0", "'; drop table words", "🧠"],
)
def test_any_query_is_words(mem, me, query):
    me.append("text", "api/x")
    assert list(me.search(query)) == []


def test_every_word_counts(mem, me):
    me.append("users endpoint moved", "api/x")
    me.append("users", "api/y")
    assert [hit.namespace for hit in me.search("USERS endpoint")] == ["api/x", "api/y"]
    assert {hit.namespace for hit in me.search("users nothing")} == {"api/x", "api/y"}
    assert [hit.namespace for hit in me.search("users", namespace="api/y", limit=1)] == ["api/y"]
    with pytest.raises(InvalidEntry):
        me.search("users", namespace="../x")


def test_a_bound_on_hits_is_not_negative(mem, me):
    with pytest.raises(InvalidQuery, match="negative"):
        me.search("users", limit=-1)


@pytest.mark.parametrize("act", ["resolve", "archive", "restore"])
def test_what_has_not_taken_effect_is_neither_closed_nor_filed(mem, act):
    """Nothing would come of it: approved, the entry would be shown after all."""
    waits = mem.as_agent("junior").append("waits", "api/x").id
    turned_away = mem.as_agent("junior").append("turned away", "api/x").id
    mem.as_agent("lead").reject(turned_away)
    count = len(mem.audit())
    for who, id in (("junior", waits), ("lead", waits), ("junior", turned_away)):
        with pytest.raises(Conflict, match="has not taken effect"):
            getattr(mem.as_agent(who), act)(id)
    assert len(mem.audit()) == count
    mem.as_agent("lead").approve(waits)
    assert shown(mem) == {"waits"}
    if act != "restore":
        getattr(mem.as_agent("junior"), act)(waits)
        assert shown(mem) == set()


def test_a_staged_entry_knows_when_it_was_received(mem):
    mem.register(synapse.Agent("novice", write=["api/*"], read=["api/*"], review_required=True))
    agent_memory = mem.as_agent("novice")
    entry = agent_memory.append("mine", "api/x")
    assert (agent_memory.get(entry.id).at, agent_memory.get(entry.id).expires) == (
        entry.at,
        entry.expires,
    )


def test_since_is_a_phrase_or_a_datetime(mem, me, clock):
    clock.set("2026-02-04T12:00:00Z")
    me.append("before", "api/x")
    clock.set("2026-02-05T23:59:50Z")
    me.append("after", "api/x")

    def bodies(since):
        return [entry.body for entry in me.read(since=since)]

    assert bodies("today") == ["after"]
    assert bodies("yesterday") == ["after", "before"]
    assert bodies(datetime(2026, 2, 5, tzinfo=UTC)) == bodies(datetime(2026, 2, 5)) == ["after"]
    assert bodies(date(2026, 2, 4)) == ["after", "before"]
    clock.set("2026-02-06T00:00:01Z")
    assert bodies("today") == [], "the page of a day is not kept beyond it"
    with pytest.raises(InvalidQuery, match="yesterday"):
        bodies("once")
