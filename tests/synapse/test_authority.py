import importlib.util
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from synapse.authority import (
    MAX_BODY,
    MERGED,
    admit,
    check_form,
    check_when,
    is_merged,
    judge,
    may_close,
    may_overrule,
    may_replace,
    may_restore,
    may_rule,
    may_say,
    may_steer,
    may_vouch,
    may_write,
    passed_on,
    sees_work,
    visible,
    wakes,
)
from synapse.errors import Forbidden, InvalidEntry, NoKey
from synapse.model import kinds
from synapse.model.agents import CONSOLIDATOR, OPERATOR, Agent, Skill, settled
from synapse.model.entry import NEVER, Draft, Entry
from synapse.model.kinds import More
from synapse.model.settings import Settings
from tests.examples import examples

_SPEC = importlib.util.spec_from_file_location("oracle", Path(__file__).with_name("oracle.py"))
oracle = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(oracle)
resolve = oracle.resolve

SETTINGS = Settings()
ENG = settled(
    Agent(
        "eng-a", department="backend", teams=("red",), read=("api/*",), write=("api/*", "plans/*")
    )
)
LEAD = settled(Agent("lead", role="project-lead", read=("api/*",), write=("api/*",)))


def draft(body="text", namespace="api/x", author="eng-a", **more):
    return Draft(body, namespace, author, **more)


def entry(seq=1, author="eng-a", authority=60, **more):
    fields = {
        "namespace": "api/x",
        "priority": "info",
        "body": "text",
        "ttl": "30d",
        "at": seq,
    } | more
    return Entry(f"syn-{seq}", author, "", authority=authority, seq=seq, **fields)


# -- the form --------------------------------------------------------------------------


def test_every_field_of_a_draft_stands_in_its_entry():
    fields = {
        "body": "text",
        "namespace": "api/x",
        "author": "eng-a",
        "priority": "important",
        "ttl": "3d",
        "addressees": ("agent:lead",),
        "tags": ("one",),
        "related": ("syn-2026-02-01-001",),
        "replaces": ("syn-2026-02-01-002",),
        "topic": "retries",
        "scope": "team",
        "claim": "5 %",
        "derived_from": ("syn-2026-02-01-003",),
        "evidence": "a test",
        "when": "run git push",
        "timestamp": "2026-02-01T01:00:00Z",
        "id": "fact_0123456789ab",
        "kind": kinds.FACT,
        "more": More(confidence=0.5),
        "signature": "aa",
    }
    assert {*fields} == {*Draft._fields} - {"pii"}  # what is marked so is sealed
    stored = admit(Draft(**fields), ENG, SETTINGS)
    assert {name: getattr(stored, name) for name in fields} == fields


def test_a_draft_takes_its_canonical_form():
    found = check_form(draft("\n\n a\r\nb \n", addressees=("team:b", "a")))
    assert (found.body, found.addressees) == (" a\nb", ("agent:a", "team:b"))


@pytest.mark.parametrize(
    "more",
    [
        {"body": ""},
        {"body": " \n\t"},
        {"body": "a\0b"},
        {"body": "\ud800"},
        {"body": "x" * (MAX_BODY + 1)},
        {"body": "é" * (MAX_BODY // 2 + 1)},
        {"namespace": "../x"},
        {"namespace": "API"},
        {"priority": "urgent"},
        {"scope": "secret"},
        {"ttl": "soon"},
        {"ttl": "-1d"},
        {"topic": "a\0"},
        {"evidence": "\udfff"},
        {"tags": ("a\0",)},
        {"claim": "\ud800"},
        {"related": ("nothing",)},
        {"replaces": ("../syn-1",)},
        {"derived_from": ("",)},
        {"addressees": ("team:UPPER",)},
        {"addressees": ("group:x",)},
    ],
)
def test_a_malformed_draft_is_refused(more):
    with pytest.raises(InvalidEntry):
        check_form(draft(**more))


@pytest.mark.parametrize("more", [{"pii": True}, {"pii": True, "scope": "private"}])
def test_what_must_be_sealed_is_refused_without_a_key(more):
    with pytest.raises(NoKey, match="nothing was stored"):
        check_form(draft(**more))


def test_the_longest_body_is_taken():
    longest = draft("x" * 1_048_576)
    assert check_form(longest).body == longest.body
    with pytest.raises(InvalidEntry, match="longer than 1024 KiB"):
        check_form(draft("x" * 1_048_577))


def test_the_fields_of_a_kind_take_their_canonical_form():
    fact = draft("5 %", "knowledge", kind=kinds.FACT, more=More(categories=["a", "a"]))
    assert check_form(fact).more == kinds.check(kinds.FACT, "knowledge", fact.more, "info")
    assert check_form(fact).more != fact.more


def test_a_moment_that_never_comes_is_refused():
    check_when(draft())
    check_when(draft(when="run git push"))
    with pytest.raises(InvalidEntry, match="when"):
        check_when(draft(when="some day"))


# -- who may write ---------------------------------------------------------------------


def test_the_stamp_is_the_agent_s_and_never_the_text_s():
    found = admit(draft(claim="100"), ENG, SETTINGS)
    assert (found.author, found.authority, found.trust, found.claim, found.staged) == (
        "eng-a",
        60,
        "local",
        "100",
        False,
    )


def test_a_refusal_names_agent_namespace_and_what_is_allowed():
    with pytest.raises(Forbidden) as caught:
        admit(draft(namespace="secret/x"), ENG, SETTINGS)
    assert caught.value.details == {
        "agent": "eng-a",
        "namespace": "secret/x",
        "action": "write",
        "allowed": [
            "api/*", "plans/*", "projects/red/*", "status/red/*", "blockers/red/*",
            "projects/backend/*", "status/backend/*", "blockers/backend/*",
        ],
    }  # fmt: skip
    assert all(word in str(caught.value) for word in ("eng-a", "secret/x", "api/*"))
    with pytest.raises(Forbidden, match="no namespace"):
        admit(draft(), ENG._replace(write=(), teams=(), department=None), SETTINGS)


def test_authority_follows_skills_and_flatness():
    skilled = ENG._replace(skills=(Skill("db", 90, ("api/db/*",)), Skill("ui", 20, ("api/ui",))))
    found = [
        admit(draft(namespace=name), skilled, SETTINGS).authority
        for name in ("api/db/x", "api/ui", "api/other")
    ]
    assert found == [90, 20, 60]
    flat = SETTINGS._replace(flat=True)
    assert [
        admit(draft(namespace="api/db"), agent, flat).authority for agent in (skilled, LEAD)
    ] == [60, 60]
    assert admit(draft(), settled(Agent("cto", role="cto")), flat).authority == 100


def test_an_unknown_author_is_heard_without_authority():
    found = admit(draft(author="stranger", priority="critical", claim="100"), None, SETTINGS)
    assert (found.authority, found.trust, found.priority, found.claimed) == (
        0,
        "unverified",
        "important",
        "critical",
    )
    calm = admit(draft(author="stranger"), None, SETTINGS)
    assert (calm.priority, calm.claimed) == ("info", None)
    doubtful = admit(draft(priority="critical"), ENG, SETTINGS, trust="unverified")
    assert (doubtful.authority, doubtful.priority, doubtful.claimed) == (0, "important", "critical")


def test_a_scope_of_team_is_the_author_s_teams_unless_it_names_one():
    assert admit(draft(scope="team"), ENG, SETTINGS).addressees == ("team:backend", "team:red")
    assert admit(draft(scope="team", addressees=("team:blue",)), ENG, SETTINGS).addressees == (
        "team:blue",
    )
    for agent in (LEAD, None):
        with pytest.raises(InvalidEntry, match="in none"):
            admit(draft(scope="team", author="lead"), agent, SETTINGS)


def test_ttls_come_from_the_entry_the_topic_or_the_namespace():
    assert admit(draft(ttl="2h"), ENG, SETTINGS).ttl == "2h"
    assert admit(draft(), ENG, SETTINGS).ttl == "30d"
    assert admit(draft(topic="plan"), ENG, SETTINGS).ttl == "90d"
    assert (
        admit(draft(), ENG, SETTINGS._replace(ttl=(("api/x", "1d"), ("api/*", "2d")))).ttl == "1d"
    )


def test_what_needs_review_is_staged():
    assert admit(draft(), ENG._replace(review_required=True), SETTINGS).staged


def test_what_everybody_recalls_takes_authority():
    everywhere = ENG._replace(write=("*",))
    may_write(everywhere, "api/x", SETTINGS)
    may_write(LEAD._replace(write=("*",)), "global/x", SETTINGS)
    with pytest.raises(Forbidden, match="it takes authority 80, and it has 60") as told:
        may_write(everywhere, "global/x", SETTINGS, "define a fact")
    assert told.value.details == {
        "agent": "eng-a",
        "namespace": "global/x",
        "action": "define a fact",
        "allowed": ["*"],
    }
    may_write(everywhere, "global/x", SETTINGS._replace(global_write=60))
    may_write(LEAD, "global/x", SETTINGS)
    with pytest.raises(Forbidden) as told:
        may_write(ENG._replace(write=None), "global/x", SETTINGS)
    assert told.value.details["allowed"] == []


def test_a_place_that_is_allowed_anyway_is_named_once():
    agent = ENG._replace(write=("projects/*", "api/*"), teams=(), department="red")
    with pytest.raises(Forbidden) as told:
        admit(draft(namespace="secret/x"), agent, SETTINGS)
    assert told.value.details["allowed"] == [
        "projects/*", "api/*", "status/red/*", "blockers/red/*",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("trusts", "least"),
    [
        (["keyed", "local", "reviewed"], "local"),
        (["reviewed", "keyed"], "keyed"),
        (["local", "unverified", "keyed"], "unverified"),
        (["reviewed"], "reviewed"),
    ],
)
def test_what_is_made_of_others_is_trusted_as_the_least_of_them(trusts, least):
    assert passed_on(trusts) == least


def test_mail_and_knowledge_never_expire():
    fact = draft("5 %", "knowledge", kind=kinds.FACT, more=More(confidence=0.5))
    writer = ENG._replace(write=("*",))
    assert admit(fact, writer, SETTINGS).ttl == "never"


def test_a_message_has_no_topic():
    message = draft(namespace="mail", kind=kinds.MESSAGE, topic="plan")
    with pytest.raises(InvalidEntry, match="a message has no topic"):
        check_form(message)


def test_superseding_needs_the_right_to_write_there():
    may_replace(ENG, entry(), entry())
    with pytest.raises(Forbidden, match=r"supersede syn-1 in team/x"):
        may_replace(ENG, entry(namespace="team/x"), entry())


@pytest.mark.parametrize(
    ("agent", "target", "allowed"),
    [
        (LEAD, entry(), True),
        (LEAD, entry(author="lead"), False),
        (LEAD, entry(namespace="team/x"), False),
        (LEAD, entry(authority=81), False),
        (LEAD, entry(authority=80), True),
        (LEAD._replace(review_required=True), entry(), False),
        (LEAD._replace(authority=0), entry(authority=0), False),
        (LEAD._replace(authority=1), entry(authority=0), True),
        (ENG, entry(author="lead", authority=0), True),
    ],
)
def test_who_may_rule_on_an_entry(agent, target, allowed):
    if allowed:
        may_rule(agent, target, SETTINGS, "approve")
    else:
        with pytest.raises(Forbidden):
            may_rule(agent, target, SETTINGS, "approve")


@pytest.mark.parametrize(
    ("agent", "own", "needed"), [(LEAD, 81, 81), (LEAD._replace(authority=0), 0, 1)]
)
def test_a_refusal_to_rule_says_what_it_takes(agent, own, needed):
    with pytest.raises(Forbidden, match=f"it takes authority {needed} or more") as told:
        may_rule(agent, entry(authority=own), SETTINGS, "approve")
    assert told.value.details["allowed"] == ["api/*"]
    assert told.value.details["namespace"] == "api/x"
    with pytest.raises(Forbidden) as told:
        may_rule(LEAD._replace(write=None), entry(), SETTINGS, "approve")
    assert told.value.details["allowed"] == []


def test_a_message_is_replaced_by_its_own_author_in_its_own_thread():
    agent = ENG._replace(write=("*",))
    message = entry(kind=kinds.MESSAGE, namespace="mail", more=More({"thread": "a"}))
    may_replace(agent, message, message)
    for other in (
        message._replace(author="lead"),
        message._replace(more=More({"thread": "b"})),
        entry(),
    ):
        with pytest.raises(Forbidden, match="may not be replaced"):
            may_replace(agent, message, other)
        with pytest.raises(Forbidden, match="may not be replaced"):
            may_replace(agent, other, message)


def test_what_the_consolidation_made_wakes_nobody():
    made = entry(author=CONSOLIDATOR, priority="critical", tags=(MERGED,))
    assert is_merged(made) is True
    assert not wakes(made, ENG)
    for other in (made._replace(author="lead"), made._replace(tags=())):
        assert is_merged(other) is False
        assert wakes(other, ENG)
    assert is_merged(made._replace(trust="unverified")) is False


@pytest.mark.parametrize(
    ("agent", "target", "authority", "derived", "refused"),
    [
        (LEAD, {}, 60, False, None),
        (LEAD, {}, 80, False, None),
        (LEAD, {}, 81, False, "it takes authority 81 or more|takes authority 81"),
        (LEAD, {"namespace": "team/x"}, 60, False, "vouch for syn-1 in team/x"),
        (LEAD._replace(review_required=True), {}, 60, False, "without review"),
        (LEAD._replace(authority=0), {}, 0, False, "authority 1 or more.*it has 0"),
        # its own it knows, whatever it would count
        (ENG, {}, 100, False, None),
        (ENG._replace(review_required=True), {}, 60, False, "without review"),
        (ENG, {}, 60, True, "somebody else has to look at it"),
        (LEAD, {}, 60, True, None),
        (None, {}, 100, True, None),
        (None, {"author": OPERATOR}, 100, False, None),
        (LEAD, {"author": OPERATOR}, 60, False, "operator is no agent"),
        (None, {"author": CONSOLIDATOR}, 0, False, "consolidator is no agent"),
        (None, {"author": "all"}, 0, False, "all is no agent"),
    ],
)
def test_who_may_have_an_entry_believed(agent, target, authority, derived, refused):
    doubtful = entry(**({"author": "eng-a", "trust": "unverified"} | target))
    if refused is None:
        may_vouch(agent, doubtful, authority, SETTINGS, derived=derived)
        return
    with pytest.raises(Forbidden, match=refused):
        may_vouch(agent, doubtful, authority, SETTINGS, derived=derived)


def test_a_refusal_to_vouch_says_where_the_agent_may_write():
    with pytest.raises(Forbidden) as told:
        may_vouch(LEAD, entry(), 100, SETTINGS, derived=False)
    assert told.value.details == {
        "agent": "lead",
        "namespace": "api/x",
        "action": "vouch for syn-1",
        "allowed": ["api/*"],
    }


@pytest.mark.parametrize(
    ("by", "authority", "refused"),
    [
        ("lead", 80, True),
        ("peer", 60, False),
        ("below", 40, False),
        ("eng-a", 99, False),  # what it filed away itself
        ("gone", None, False),
        (CONSOLIDATOR, None, False),
        (OPERATOR, None, True),
    ],
)
@pytest.mark.parametrize("own", [60, 100])
def test_what_a_higher_authority_filed_away_stays_there(by, authority, refused, own):
    """Not even one of 100 stands as high as the operator."""
    agent = ENG._replace(authority=own)
    other = authority and settled(Agent(by, authority=authority, write=("*",)))
    refused = refused and (own == 60 or by == OPERATOR)
    if not refused:
        may_restore(agent, entry(author="eng-b"), by, other, SETTINGS)
        return
    with pytest.raises(Forbidden, match=f"{by} filed it away, and stands higher"):
        may_restore(agent, entry(author="eng-b"), by, other, SETTINGS)


def test_whose_words_are_reviewed_may_say_nothing_that_is_not():
    may_say(None, "rate it")
    may_say(ENG, "rate it")
    with pytest.raises(Forbidden, match="agent eng-a may not rate it"):
        may_say(ENG._replace(review_required=True), "rate it")


def test_an_author_may_close_its_own():
    may_close(ENG, entry(authority=100), SETTINGS, "resolve")
    with pytest.raises(Forbidden):
        may_close(ENG, entry(author="lead", authority=80), SETTINGS, "resolve")


# -- who may read ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "seen"),
    [
        ({}, True),
        ({"namespace": "team/x"}, False),
        ({"author": "eng-a", "namespace": "team/x"}, True),
        ({"addressees": ("agent:eng-a",), "namespace": "team/x"}, True),
        ({"addressees": ("agent:eng-b",)}, False),
        ({"addressees": ("agent:eng-b", "team:red")}, True),
        ({"addressees": ("team:backend",), "namespace": "team/x"}, True),
        ({"addressees": ("team:eng-a",)}, False),
        ({"staged": True}, False),
        ({"staged": True, "addressees": ("agent:eng-a",)}, False),
        ({"staged": True, "author": "eng-a"}, True),
        ({"trust": "unverified"}, True),
    ],
)
def test_visible(more, seen):
    target = entry(**({"author": "lead"} | more))
    assert visible(target, ENG) is seen
    assert visible(target, None)


@pytest.mark.parametrize(
    ("whose", "project", "seen"),
    [
        ("eng-a", None, True),  # its own
        ("eng-a", "vault", True),
        ("eng-b", None, False),
        ("eng-b", "shop", True),
        ("eng-b", "vault", False),
    ],
)
def test_who_may_know_of_work(whose, project, seen):
    agent = settled(Agent("eng-a", read=("projects/shop",)))
    assert sees_work(agent, whose, project) is seen
    assert sees_work(None, whose, project)


def test_a_thread_is_its_author_s_and_the_operator_s():
    first = entry(more=More(thread="th-1"))
    may_steer(ENG, first, "close")
    may_steer(None, first, "close")
    with pytest.raises(Forbidden, match="agent lead may not close thread th-1"):
        may_steer(LEAD, first, "close")
    with pytest.raises(Forbidden):
        may_steer(ENG, first._replace(trust="unverified"), "close")


def test_wakes():
    critical = entry(author="lead", priority="critical")
    assert wakes(critical, ENG)
    assert not wakes(critical._replace(author="eng-a", run="eng-a-1"), ENG)
    assert wakes(critical._replace(author="eng-a"), ENG), "no run of its wrote it"
    assert not wakes(critical._replace(trust="unverified"), ENG)
    assert not wakes(critical._replace(namespace="team/x"), ENG)
    assert not wakes(critical._replace(priority="important"), ENG)
    assert wakes(
        critical._replace(priority="important"), ENG._replace(notify=("critical", "important"))
    )
    assert not wakes(critical, ENG._replace(notify=()))


# -- who wins --------------------------------------------------------------------------


def standing(*entries):
    return resolve(entries)


def test_by_one_author_the_newer_replaces_the_older():
    found = standing(
        entry(1, topic="t"), entry(2, topic="t"), entry(3, topic="other"), entry(4, topic=None)
    )
    assert found.hidden == {1: NEVER}
    assert not found.disputed


def test_higher_authority_wins_until_it_lapses():
    low = entry(1, topic="t", expires=900)
    high = entry(2, "lead", 80, topic="t", expires=500)
    assert standing(low, high).hidden == {1: 500}
    assert standing(low._replace(seq=3, at=3), high).hidden == {3: 500}
    assert standing(low, high._replace(expires=NEVER)).hidden == {1: NEVER - 1}


def test_equals_are_in_dispute_and_both_shown():
    found = standing(entry(1, topic="t"), entry(2, "eng-b", topic="t"))
    assert found == ({}, {1: frozenset({2}), 2: frozenset({1})})


def test_a_lapsed_rival_is_none():
    assert standing(entry(1, topic="t", expires=2), entry(2, "eng-b", topic="t")) == ({}, {})
    assert standing(entry(1, "lead", 80, topic="t", expires=2), entry(2, topic="t")) == ({}, {})


def test_superseding_takes_effect_without_a_topic():
    old, new = entry(1), entry(2, "eng-b", replaces=("syn-1",))
    assert standing(old, new).hidden == {1: NEVER}
    assert standing(old, new._replace(authority=40)).hidden == {2: NEVER - 1}
    assert standing(old, new._replace(seq=0)).hidden == {}


def test_two_that_supersede_the_same_one_are_rivals():
    old = entry(1)
    one = entry(2, "eng-b", replaces=("syn-1",))
    two = entry(3, "eng-c", replaces=("syn-1",))
    assert standing(old, one, two) == ({1: NEVER}, {2: frozenset({3}), 3: frozenset({2})})
    assert standing(old, one, two._replace(authority=80)).hidden == {1: NEVER, 2: NEVER - 1}


def test_a_dispute_ends_when_someone_above_supersedes_both_or_an_author_gives_in():
    one, two = entry(1, topic="t"), entry(2, "eng-b", topic="t")
    third = entry(3, "eng-c", topic="t", replaces=("syn-1", "syn-2"))
    assert standing(one, two, third._replace(authority=80)) == ({1: NEVER, 2: NEVER}, {})
    assert standing(one, two, third).disputed == {1: {2, 3}, 2: {1, 3}, 3: {1, 2}}
    assert standing(one, two, entry(3, topic="t", replaces=("syn-1",))).disputed == {2: {3}, 3: {2}}
    given_in = entry(3, replaces=("syn-1",))
    assert standing(one, two, given_in) == ({1: NEVER}, {})


def test_a_doubtful_name_buries_nothing():
    mine = entry(1, topic="t")
    forged = entry(2, authority=0, topic="t", trust="unverified")
    assert standing(mine, forged).hidden == {2: NEVER - 1}
    assert standing(mine, forged._replace(replaces=("syn-1",), topic=None)).hidden == {2: NEVER - 1}
    powerless = mine._replace(authority=0)
    assert standing(powerless, forged._replace(replaces=("syn-1",))) == ({}, {1: {2}, 2: {1}})


def test_who_was_outranked_comes_back_when_the_winner_goes():
    low = entry(1, topic="t")
    high = entry(2, "lead", 80, topic="t", expires=NEVER)
    gone = entry(3, "lead", 80, topic="u", replaces=("syn-2",))
    assert standing(low, high, gone).hidden == {2: NEVER}
    assert standing(low, high, gone._replace(topic="t", expires=500)).hidden == {1: 500, 2: NEVER}


def test_an_entry_vouched_for_late_is_judged_at_its_own_place():
    older, newer = entry(1, topic="t"), entry(2, topic="t")
    effects = judge(older, (), (newer,), ())
    assert [(effect.seq, effect.by, effect.until) for effect in effects] == [(1, 2, NEVER)]


stories = st.lists(
    st.tuples(
        st.sampled_from((("a", 60), ("b", 60), ("c", 80), ("d", 40), ("a", 0))),
        st.sampled_from((None, "t", "u")),
        st.sets(st.integers(1, 11), max_size=2),
        st.sampled_from((4, 8, 10**6, NEVER)),
    ),
    max_size=12,
)


def told(story):
    return [
        entry(
            seq,
            author,
            authority,
            topic=topic,
            replaces=tuple(f"syn-{old}" for old in sorted(olds)),
            expires=min(seq + lives, NEVER),
            trust="local" if authority else "unverified",
        )
        for seq, ((author, authority), topic, olds, lives) in enumerate(story, 1)
    ]


@given(stories, st.randoms(use_true_random=False))
@examples(300)
def test_the_winner_depends_on_the_set_and_not_on_its_order(story, chance):
    entries = told(story)
    shuffled = chance.sample(entries, len(entries))
    assert resolve(shuffled) == resolve(entries)


@given(stories)
@examples(300)
def test_nothing_is_lost_without_a_winner(story):
    """Whoever is hidden at a moment is hidden by one that is live then; disputes are mutual and
    among the shown.
    """
    entries = told(story)
    hidden, disputed = resolve(entries)
    for seq, peers in disputed.items():
        assert all(seq in disputed[peer] for peer in peers)
        assert hidden.get(seq, 0) != NEVER
    for moment in (len(entries), len(entries) + 5, 10**7):
        alive = [e for e in entries if e.expires > moment]
        live = [e for e in alive if hidden.get(e.seq, 0) <= moment]
        for topic in {e.topic for e in alive if e.topic}:
            rivals = [e for e in alive if e.topic == topic]
            bare = [e for e in rivals if hidden.get(e.seq, 0) < NEVER]
            # Of those that nothing superseded for good, the highest of a topic is never hidden by a
            # lower one.
            best = max((e.authority for e in bare), default=0)
            superseders = any(e.replaces for e in entries)
            assert (
                superseders
                or not bare
                or any(e.authority == best for e in live if e.topic == topic)
            )


def test_resolve_is_quick():
    chance = random.Random(1)
    entries = [entry(seq, chance.choice("abcd"), topic=f"t{seq % 200}") for seq in range(1, 2_001)]
    assert len(resolve(entries).hidden) > 1_000


@pytest.mark.parametrize(
    ("by", "authority", "refused"),
    [
        ("lead", 80, True),
        ("peer", 60, False),
        ("below", 40, False),
        ("eng", 99, False),  # its own word
        ("gone", None, False),  # whoever that was
        (OPERATOR, None, True),
    ],
)
def test_the_word_of_a_higher_authority_is_not_overruled(by, authority, refused):
    agent = settled(Agent("eng", authority=60, write=("*",)))
    other = authority and settled(Agent(by, authority=authority, write=("*",)))
    try:
        may_overrule(agent, by, other, Settings(), "define it")
    except Forbidden:
        assert refused
    else:
        assert not refused
