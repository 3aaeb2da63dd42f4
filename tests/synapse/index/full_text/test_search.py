"""Full text over everything: what is found, in which order, and for whom."""

import random
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

import synapse
from synapse.errors import InvalidEntry, InvalidQuery
from synapse.index.full_text import search as full_text
from synapse.index.full_text.ranking import rarity, says
from synapse.index.names import Names
from synapse.index.snapshot import Filter, Snapshot
from synapse.model import kinds
from synapse.model.entry import PRIORITIES, Draft, Entry
from synapse.model.records import Record
from synapse.testing.tools import FrozenClock
from tests.examples import examples

START = "2026-02-03T09:00:00Z"


@pytest.fixture
def clock():
    return FrozenClock(START)


@pytest.fixture
def mem(clock):
    with synapse.open("memory:", clock=clock) as mem:
        for id in ("ana", "ben", "eve"):
            mem.register(
                synapse.Agent(
                    id, role="cto" if id == "ana" else "engineer", read=["*"], write=["*"]
                )
            )
        mem.register(synapse.Agent("deaf", read=["nowhere"], write=["*"]))
        yield mem


def thread():
    return kinds.new_thread(uuid.uuid4().bytes)


def say(mem, who, text, where, to=("all",), priority="info", **more):
    more = kinds.More(thread=where, **more)
    id = kinds.new_id("message", uuid.uuid4().bytes)
    draft = Draft(text, "mail", who, priority, addressees=to, id=id, kind="message", more=more)
    return mem.as_agent(who).write(draft)


def know(mem, who, text, kind="fact", **more):
    id = kinds.new_id(kind, uuid.uuid4().bytes)
    return mem.as_agent(who).write(
        Draft(text, "global", who, id=id, kind=kind, more=kinds.More(**more))
    )


def found(hits):
    return [hit.body for hit in hits]


def test_one_ranking_over_every_kind(mem):
    me = mem.as_agent("ana")
    me.append("the gateway drops tokens", "api/x")
    say(mem, "ben", "gateway tokens again", thread(), subject="tokens")
    know(mem, "ana", "tokens of the gateway last an hour")
    know(
        mem,
        "ana",
        "what was seen",
        "atom",
        subject="gateway",
        action="drops tokens",
        outcome="retry",
    )
    assert {hit.entry.kind for hit in me.search("why does the gateway drop tokens?")} == set(
        kinds.KINDS
    )
    for kind in kinds.KINDS:
        assert {hit.entry.kind for hit in me.search("gateway tokens", kind=kind)} == {kind}
    assert len(me.search("gateway", kind="fact,atom")) == 2


@pytest.mark.parametrize("space", [" ", "\n"])
def test_a_short_text_is_found_before_a_long_one(mem, space):
    me = mem.as_agent("ana")
    me.append("gateway", "api/x")
    long = space.join(["gateway", *(f"w{number}" for number in range(200))])
    me.append(long, "api/x")
    assert found(me.search("gateway")) == ["gateway", long]


def test_the_answer_is_found_by_the_question_before_it(mem):
    other, talk = thread(), thread()
    say(mem, "ana", "where do we keep the signing certificates?", talk)
    say(mem, "eve", "nothing to add", other)
    answer = say(mem, "ben", "in the vault, second shelf", talk)
    hits = mem.as_agent("eve").search("where are the signing certificates kept")
    assert found(hits)[:2] == ["where do we keep the signing certificates?", answer.body]
    assert "nothing to add" not in found(hits)
    assert found(mem.as_agent("eve").search("certificates")) == [
        "where do we keep the signing certificates?"
    ]


def test_who_says_it_is_found_before_long_texts_between_others_that_do(mem):
    """An agent's messages are pages: what one of them holds is not what the next is about."""
    filler = " ".join(f"w{number}" for number in range(400))
    own, between = thread(), thread()
    said = say(mem, "ana", f"gateway vault {filler}", own)
    for text in ("vault", "vault", "gateway", "vault", "vault"):
        say(mem, "ben", f"{text} {filler}", between)
    assert mem.as_agent("eve").search("gateway vault")[0].id == said.id


@pytest.mark.parametrize(
    "question",
    ["what did she recommend for the gateway vault", "please summarize the gateway vault"],
)
def test_a_question_for_answers_finds_long_ones_by_what_they_answer(mem, question):
    """A page that answers a question is about it, though it says none of its words."""
    talk = thread()
    for name in ("north", "south", "east"):
        say(mem, "ana", f"the gateway {name}", thread())
        say(mem, "ana", f"the vault {name}", thread())
    asked = say(mem, "ana", "how do we open the gateway vault?", talk)
    answer = say(mem, "ben", " ".join(f"w{number}" for number in range(400)), talk)
    assert [hit.id for hit in mem.as_agent("eve").search(question)[:2]] == [asked.id, answer.id]
    assert mem.as_agent("eve").search("open the gateway vault")[1].id != answer.id


def test_neighbours_that_the_reader_may_not_see_add_nothing(mem):
    talk = thread()
    say(mem, "ana", "the zebra password is in the vault", talk, to=("agent:ben",))
    say(mem, "ben", "thank you", talk)
    assert found(mem.as_agent("eve").search("zebra password")) == []
    assert "thank you" in found(mem.as_agent("ben").search("zebra password"))


def test_author_and_day_count_beside_the_text(mem, clock):
    say(mem, "ana", "deployed the gateway", thread())
    clock.advance("24h")
    say(mem, "ben", "deployed the gateway", thread())
    me = mem.as_agent("eve")
    assert me.search("gateway deployed by ana")[0].author == "ana"
    assert me.search("gateway deployed by ben")[0].author == "ben"
    assert me.search("gateway deployed on 3 february")[0].author == "ana"
    assert me.search("gateway deployed wednesday")[0].author == "ben"
    assert me.search("gateway deployed yesterday")[0].author == "ana"
    assert {hit.author for hit in me.search("ana")} == {"ana"}


def test_of_equals_the_weightier_the_higher_and_the_newer_come_first(mem):
    me = mem.as_agent("eve")
    me.append("rotate keys old", "api/x")
    mem.as_agent("ana").append("rotate keys high", "api/x")
    me.append("rotate keys new", "api/x")
    me.append("rotate keys loud", "api/x", priority="critical")
    expected = ["rotate keys loud", "rotate keys high", "rotate keys new", "rotate keys old"]
    assert found(me.search("rotate")) == found(me.search("rotate keys")) == expected


def test_forms_of_words_are_one_in_english_and_russian(mem):
    me = mem.as_agent("ana")
    me.append("migrating the endpoints", "api/x")
    me.append("Решили обновлённые сервера перенести", "api/y")
    assert found(me.search("endpoint migration")) == ["migrating the endpoints"]
    assert found(me.search("кто перенёс сервер?")) == ["Решили обновлённые сервера перенести"]
    assert found(me.search("СЕРВЕРАМИ")) == ["Решили обновлённые сервера перенести"]


def test_filters(mem, clock):
    ana, ben = mem.as_agent("ana"), mem.as_agent("ben")
    first = ana.append("backup plan", "infra/x", priority="critical", tags=["db"])
    clock.advance("24h")
    second = ben.append("backup done", "infra/x")
    clock.advance("24h")
    third = ben.append("backup checked", "api/x", priority="important", tags=["db"])
    me = mem.as_agent("eve")

    def ids(**asked):
        return {hit.id for hit in me.search("backup", **asked)}

    assert ids() == {first.id, second.id, third.id}
    assert ids(namespace="infra/*") == {first.id, second.id}
    assert ids(author="ben") == {second.id, third.id}
    assert ids(priority="critical,important") == ids(tag="db") == {first.id, third.id}
    assert ids(since="yesterday") == ids(when="since yesterday") == {second.id, third.id}
    assert ids(until="yesterday") == ids(when="before today") == {first.id, second.id}
    assert ids(when="yesterday") == ids(when="wednesday") == {second.id}
    assert ids(when="last week") == set()
    assert ids(author="ben", since="today") == {third.id}
    assert ids(author="nobody") == set()
    ana.archive([first.id])
    assert ids() == {second.id, third.id}
    assert ids(archived=True) == {first.id}


def test_a_filter_keeps_the_context_of_what_it_leaves_out(mem):
    talk = thread()
    say(mem, "ana", "who rotates the signing certificates?", talk)
    say(mem, "ben", "carol does", talk)
    assert found(mem.as_agent("eve").search("who rotates the certificates", author="ben")) == [
        "carol does"
    ]


@pytest.mark.parametrize(
    "asked",
    [
        {"kind": "poem"},
        {"priority": "loud"},
        {"namespace": "../x"},
        {"since": "foo"},
        {"when": ""},
        {"limit": -1},
    ],
)
def test_a_filter_that_means_nothing_is_refused(mem, asked):
    with pytest.raises((InvalidQuery, InvalidEntry)):
        mem.as_agent("ana").search("x", **asked)
    with pytest.raises(InvalidQuery):
        mem.as_agent("ana").search("x", when="today", since="yesterday")


HOSTILE = (
    '"', "AND", "a AND b", "NOT", "*", "-", "--", "^", "(", "col:x", "NEAR(a b)", "\0", "a\0b", "'; drop table words;",
    "🧠", "x²", "ﬁ", "\ud800", "İ", "ß", "x" * 10_000, "word " * 5_000, '"' * 10_000, "e\u0301", "\u202e", "東京",
    "हिन्दी", "%_", "{nids}", ":me", "?1",
)  # fmt: skip


@pytest.mark.parametrize("query", HOSTILE, ids=range(len(HOSTILE)))
def test_whatever_is_typed_is_answered(mem, query):
    me = mem.as_agent("ana")
    text = query.replace("\0", " ").replace("\ud800", "").strip() or "x"
    me.append(f"before {text} after", "api/x")
    for asked in (query, f"{query} before", f"{query} nothing"):
        for hit in me.search(asked):
            assert all(0 <= start < end <= len(hit.excerpt) for start, end in hit.marks)


@examples(60)
@given(text=st.text(max_size=80))
def test_any_text_finds_itself(text):
    with synapse.open("memory:") as mem:
        mem.register(synapse.Agent("ana", read=["*"], write=["*"]))
        me = mem.as_agent("ana")
        try:
            entry = me.append(text, "api/x")
        except InvalidEntry:
            me.search(text)
            return
        words = full_text.terms.sought(text)
        ids = [hit.id for hit in me.search(text)]
        assert ids in ([entry.id], []) if not text.isascii() else ids == [entry.id] * bool(words)


def test_excerpts_are_one_line_with_the_words_marked(mem):
    me = mem.as_agent("ana")
    me.append("intro " * 60 + "\nthe Gateways\tdrop requests " + "outro " * 60, "api/x")
    (hit,) = me.search("gateway dropping")
    assert "\n" not in hit.excerpt
    assert len(hit.excerpt) <= full_text.EXCERPT + 2
    assert [hit.excerpt[start:end] for start, end in hit.marks] == ["Gateways", "drop"]
    assert hit.excerpt.startswith("…")
    assert hit.excerpt.endswith("…")


def test_more_than_are_weighed_are_said_to_match(mem):
    me = mem.as_agent("ana")
    rare = me.append("common zebra", "api/x")
    for _ in range(2 * full_text.SEEDS):
        me.append("common", "api/x")
    hits = me.search("common zebra", limit=5)
    assert hits[0].id == rare.id
    assert hits.partial
    assert full_text.SEEDS <= hits.ranked < 2 * full_text.SEEDS
    assert not me.search("zebra nowhere").partial


def bodies_of(mem, text, **asked):
    """Return the bodies of what answers a question, the best first."""
    return [hit.entry.body for hit in mem.as_agent("ana").search(text, **asked)]


def test_a_rare_word_is_found_behind_any_number_of_common_ones(mem):
    me = mem.as_agent("ana")
    me.append("zebra", "api/x")
    for _ in range(100):
        me.append("common usual ordinary plain", "api/x", priority="critical")
    question = "plain zebra usual ordinary common"
    assert bodies_of(mem, question)[0] == "zebra"
    assert bodies_of(mem, question, namespace="api/*", author="ana")[0] == "zebra"


@pytest.mark.parametrize("words", ["zebra quokka", "zebra quokka lemur"])
def test_who_holds_several_words_is_found_behind_those_with_one(mem, words):
    me = mem.as_agent("ana")
    me.append(words, "api/x")
    for _ in range(60):
        for word in words.split():
            me.append(word, "api/x", priority="critical")
    assert bodies_of(mem, words)[0] == words
    assert bodies_of(mem, words, namespace="api/x")[0] == words


def test_two_words_are_found_behind_rarer_ones(mem):
    me = mem.as_agent("ana")
    me.append("lemur okapi", "api/x")
    for place in range(300):
        rare = ["zebra", "quokka"] * (place < 15)
        for word in (*rare, *(["lemur", "okapi"] if place < 40 else ["usual"])):
            me.append(word, "api/x")
    assert bodies_of(mem, "zebra quokka lemur okapi")[0] == "lemur okapi"


def test_what_the_filter_leaves_is_found_behind_what_it_does_not(mem):
    me = mem.as_agent("ana")
    me.append("lemur", "api/y")
    for place in range(60):
        for word in ("lemur", *(["zebra", "quokka"] if place < 15 else [])):
            me.append(word, "api/x")
    assert bodies_of(mem, "zebra quokka lemur", namespace="api/y") == ["lemur"]


def test_a_short_text_is_found_behind_any_number_of_long_ones(mem):
    """Pages of an agent hold nearly any two words: the line that is about them comes first."""
    me = mem.as_agent("ana")
    short = me.append("gateway vault", "api/x")
    filler = " ".join(f"w{number}" for number in range(400))
    for number in range(3 * full_text.SEEDS):
        me.append(f"gateway vault {number} {filler}", "api/x", priority="important")
    assert me.search("gateway vault")[0].id == short.id
    assert me.search("vault")[0].id == short.id


def test_of_any_number_of_equals_the_weightiest_are_found(mem):
    me = mem.as_agent("ana")
    first = [me.append("gateway vault", "api/x", priority=name) for name in PRIORITIES[:2]]
    for _ in range(250):
        me.append("gateway vault", "api/x")
    for question in ("gateway vault", "gateway"):
        assert [hit.id for hit in me.search(question)][:2] == [entry.id for entry in first]


def test_what_is_believed_now_weighs_as_much_as_it_claims(mem):
    fields = ("", "ben", "", "api/x", "important", "gateway vault", "7d")
    entry = Entry(*fields, trust="unverified", claimed="critical")
    doubtful = mem.store.commit.append(Record.new("entry", "ben", {}, entry)).id
    me = mem.as_agent("ana")
    for _ in range(2 * full_text.SEEDS):
        me.append("gateway vault", "api/x", priority="important")
    assert doubtful not in [hit.id for hit in me.search("gateway vault")]
    me.vouch(doubtful)
    assert me.search("gateway vault")[0].id == doubtful


WORDS = ("gateway", "vault", "token", "shelf", "key")


@examples(30)
@given(
    texts=st.lists(
        st.tuples(st.sets(st.sampled_from(WORDS)), st.sampled_from((0, 70, 150, 700))),
        min_size=1,
        max_size=120,
    ),
    asked=st.sets(st.sampled_from(WORDS), min_size=2),
    limit=st.integers(1, 12),
)
def test_what_is_weighed_has_the_best_of_all(texts, asked, limit):
    """Nobody scores every entry; what is found is what scoring every entry would find."""
    with synapse.open("memory:") as mem:
        mem.register(synapse.Agent("ana", read=["*"], write=["*"]))
        me = mem.as_agent("ana")
        score_of: dict[str, float] = {}
        counts = {word: sum(word in said for said, _ in texts) for word in WORDS}
        written = []
        for said, filler in texts:
            text = " ".join([*sorted(said), "other", *(f"w{number}" for number in range(filler))])
            written.append((me.append(text, "api/x"), said, len(text.split()) + 1))
        size = max(entry.seq for entry, *_ in written)
        for entry, said, length in written:
            worth = sum(rarity(counts[word], size) for word in said & asked)
            score_of[entry.id] = worth * says(length)
        hits = me.search(" ".join(sorted(asked)), limit=limit)
        best = sorted((score for score in score_of.values() if score), reverse=True)[:limit]
        assert [score_of[hit.id] for hit in hits] == pytest.approx(best, rel=1e-2)


def test_a_reader_of_little_finds_its_own_among_much(mem):
    me = mem.as_agent("deaf")
    mine = me.append("common thing", "nowhere")
    for _ in range(8 * full_text.SEEDS):
        mem.as_agent("ana").append("common", "api/x")
    assert [hit.id for hit in me.search("common")] == [mine.id]
    assert [hit.id for hit in me.search("common thing")] == [mine.id]


def test_words_follow_in_batches_to_the_same_end(mem, monkeypatch):
    me = mem.as_agent("ana")
    dice = random.Random(4)
    talk = thread()
    for _ in range(40):
        say(mem, "ana", " ".join(dice.choices("gateway token vault key shelf".split(), k=3)), talk)
    before = [(hit.id, hit.score) for hit in me.search("gateway vault key", limit=40)]
    mem.rebuild()
    monkeypatch.setattr(full_text, "BATCH", 7)
    assert [(hit.id, hit.score) for hit in me.search("gateway vault key", limit=40)] == before


def test_a_question_finds_the_same_for_whoever_asks_and_when(mem):
    """What a process keeps of the words, and adds to, is what another one reads anew."""
    me, dice = mem.as_agent("ana"), random.Random(5)
    index, question = mem.store.index, "gateway token shelf"
    for place in range(60):
        long = " ".join(f"w{n}" for n in range(place % 3 * 90))
        said = " ".join(dice.choices(WORDS, k=2))
        entry = me.append(f"{said} {long}", "api/x", priority=dice.choice(PRIORITIES))
        if place % 7 == 3:
            me.archive([entry.id])
        me.search(question)
        kept = full_text.Search(index.current, None, Filter(), mem.store.clock())
        anew = full_text.Search(
            Snapshot(index.db, Names(index.db), index.current.cursor),
            None,
            Filter(),
            mem.store.clock(),
        )
        assert kept.words(question) == anew.words(question)
        assert kept.sums(kept.words(question)) == anew.sums(anew.words(question))


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 3)), max_size=90),
    st.integers(1, 50),
)
def test_what_is_not_read_could_not_have_been_among_the_best(ranks, limit):
    ranked = sorted(
        (-score, prio, -seq, authority) for seq, (score, prio, authority) in enumerate(ranks)
    )

    def best(rows):
        return sorted(rows, key=lambda row: (*row[:2], -row[3], row[2]))[:limit]

    kept = full_text._contenders(ranked, limit)
    assert best(kept) == best(ranked[: max(2 * limit, full_text.SETTLED)])


def test_as_many_hits_come_back_as_are_asked_for(mem):
    me = mem.as_agent("ana")
    for n in range(90):
        me.append(f"gateway vault, note {n}", "api/x")
    for limit in (1, 63, 65, 90):
        assert len(me.search("gateway vault", limit=limit).hits) == limit
