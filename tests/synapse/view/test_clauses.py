"""What a task's words find: each clause its own entry, and nothing that may not be seen."""

import pytest

import synapse
from synapse.index.full_text.ranking import rarity
from synapse.model.agents import Agent
from synapse.model.entry import Entry
from synapse.testing import FrozenClock
from synapse.view.clauses import (
    UNKNOWN,
    _Asked,
    _distinct,
    _on_topic,
    _tells_more,
    matches,
)
from synapse.view.relevance import SPECIFIC, forms

TASK = "Tune it. Needs: the retry limit of service 3; the owner key of service 7"


@pytest.fixture
def mem():
    with synapse.open("memory:", clock=FrozenClock()) as mem:
        mem.register(Agent("lead", role="cto"))
        mem.register(Agent("eng", read=("projects/*",), write=("projects/*",)))
        mem.register(
            Agent("low", authority=40, read=("projects/*",), write=("projects/*",))
        )
        mem.store.clock.advance("1s")
        yield mem


def found(mem, text, agent="eng"):
    """Return what the text finds, as (body, whether it is the best of a clause)."""
    reader, now = mem.store.agent(agent), mem.store.clock()
    with mem.store.snapshot(words=True) as snap:
        return [(m.entry.body, m.best) for m in matches(snap, reader, text, now)]


def say(mem, body, namespace="projects/x", who="lead", **more):
    return mem.as_agent(who).append(body, namespace, **more)


def test_each_clause_finds_its_entry_among_thousands(mem):
    """An entry that holds all of a clause drops those that hold most of it."""
    wanted = [
        say(mem, "The retry limit of service 3 is r30.").body,
        say(mem, "The owner key of service 7 is k77.").body,
    ]
    for n in range(10, 1_500):
        say(mem, f"The {('retry limit', 'owner key')[n % 2]} of service {n} is x{n}y.")
    assert found(mem, TASK) == [(body, True) for body in wanted]


def test_of_another_number_nothing_is_said(mem):
    """Where the very thing is not known, a near miss is no answer."""
    for n in range(10, 40):
        say(mem, f"The retry limit of service {n} is x{n}y.")
    assert found(mem, TASK) == []


def test_other_words_for_it_find_it_too(mem):
    for n in range(40):
        say(mem, f"The retry limit of service {n} is x{n}y.")
    assert found(mem, "Find out how often service 3 is retried") == [
        ("The retry limit of service 3 is x3y.", True)
    ]


def test_a_clause_that_many_hold_finds_none(mem):
    for n in range(12):
        say(mem, f"The login page has problem p{n}x.")
    assert len(found(mem, "The problem of the login page")) == 3
    say(mem, "The login page has problem p12x.")
    assert found(mem, "The problem of the login page") == []


def test_of_what_states_the_same_one_is_taken(mem):
    """The short one; and of what contradicts it, the others too, the author of most authority
    first.
    """
    say(
        mem,
        (
            "Done: after a long day, and much else that came to nothing. The retry limit"
            " of service 3 is r30."
        ),
    )
    short = say(mem, "The retry limit of service 3 is r30.").body
    other = say(mem, "The retry limit of service 3 is r99.", who="low").body
    assert found(mem, TASK) == [(short, True), (other, False)]
    for n in range(5):
        say(mem, f"The retry limit of service 3 is r{n}00.")
    assert len(found(mem, TASK)) == 3


def test_what_the_task_says_itself_is_not_told_it(mem):
    say(mem, "Tune it: the retry limit of service 3")
    assert found(mem, TASK) == []


@pytest.mark.parametrize(
    "seal", ["vault", "addressed", "superseded", "resolved", "expired", "archived"]
)
def test_what_may_not_be_seen_or_stands_no_more_is_never_found(mem, seal):
    """The read gate, and live versions only."""
    lead, body = mem.as_agent("lead"), "The retry limit of service 3 is r30."
    if seal == "vault":
        say(mem, body, "vault/x")
    elif seal == "addressed":
        say(mem, body, "vault/x", to="agent:low")
    else:
        id = say(mem, body, ttl="1d").id
        assert found(mem, TASK) == [(body, True)]
        if seal == "superseded":
            lead.append("It is known no more.", "projects/x", supersedes=id)
        elif seal == "resolved":
            lead.resolve(id)
        elif seal == "archived":
            lead.archive(id)
        else:
            mem.store.clock.advance("2d")
    assert found(mem, TASK) == []


def test_it_reads_no_further_than_its_cursor(mem):
    reader = mem.store.agent("eng")
    with mem.store.snapshot() as snap:
        before = snap
    say(mem, "The retry limit of service 3 is r30.")
    assert len(found(mem, TASK)) == 1
    assert matches(before, reader, TASK, mem.store.clock()) == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\0",
        '"',
        "NEAR(a b) OR *; ^x",
        "the of and",
        "日本語のテスト",
        "a" * 70_000,
        "Mend ab\u19b0cd of the courier",  # one word here, two to the tokenizer of SQLite
    ],
)
def test_any_text_is_asked_for(mem, text):
    say(mem, "The retry limit of service 3 is r30.")
    assert found(mem, text) == []


@pytest.mark.parametrize("left", [1, 2, 99])
def test_a_clause_has_its_parts_looked_up_while_there_are_lookups_left(mem, left):
    say(mem, "The retry limit of the courier is r30.")
    now = mem.store.clock()
    with mem.store.snapshot(words=True) as snap:
        asked = _Asked(snap, mem.store.agent("eng"), now)
        asked.left = left
        found = asked.clause("the retry limit of every courier")
    assert len(found) == (left > 1)


def test_a_word_weighs_by_how_rare_it_is_and_more_where_it_is_a_name(mem):
    say(mem, "The retry limit of the courier is r30.")
    with mem.store.snapshot(words=True) as snap:
        asked = _Asked(snap, mem.store.agent("eng"), mem.store.clock())
        once, never = rarity(1, snap.cursor), rarity(0, snap.cursor)
        assert asked._weight("courier") == once
        assert asked._weight("r30") == SPECIFIC * once
        assert asked._weight("r31") == SPECIFIC * never
        assert asked._weight("nobody") == UNKNOWN


def test_two_rare_words_of_many_find_the_entry_that_holds_both(mem):
    """Though no entry holds three of them."""
    wanted = say(mem, "The courier takes an umbrella, and no more than one.").body
    for n, word in enumerate(("boat", "harbour", "ticket") * 20):
        say(mem, f"A {word} for number {n}.")
    assert found(mem, "courier umbrella boat harbour ticket") == [(wanted, True)]


@pytest.mark.parametrize(
    ("body", "more"),
    [
        ("The retry limit of service is r30.", True),  # a name that the task has not
        ("The retry limit of service k_77.", False),
        ("The retry limit.", False),
        ("The courier takes an umbrella.", True),  # words of its own
    ],
)
def test_an_entry_tells_more_by_a_name_or_by_words_of_its_own(body, more):
    text = "Find the retry limit of service k_77"
    assert _tells_more(known(1, body), text, forms(text)) is more


def test_the_first_two_dozen_entries_that_a_task_names_are_found(mem):
    ids = [say(mem, f"Part {n} is x{n}y.").id for n in range(25)]
    assert len(found(mem, " ".join(ids))) == 24


def test_an_entry_that_the_task_names_is_found(mem):
    """By its id, whatever it says, while it stands and as far as its reader may see it."""
    one, two = say(mem, "Done."), say(mem, "Done.", who="low")
    secret, old = say(mem, "Done.", "decisions/x"), say(mem, "Done.")
    say(mem, "Redone.", supersedes=old.id)
    text = f"Look at {one.id}, ({two.id}) and {secret.id}; not at {old.id} or syn-2026-01-01-999."
    assert found(mem, text) == [("Done.", True), ("Done.", True)]
    assert len(found(mem, text, "lead")) == 3


def test_who_has_it_for_a_topic_goes_before_who_mentions_it(mem):
    """Unless that one has more authority."""
    say(
        mem,
        "dig(service 3): The retry limit of service 3 is r30.",
        topic="dig: the retry limit of service 3",
        who="eng",
    )
    say(mem, "Done: The retry limit of service 3 is r99.", who="eng")
    assert [body[:3] for body, _ in found(mem, TASK)] == ["dig"]
    say(mem, "The retry limit of service 3 is r31.")
    assert [body[-4:] for body, _ in found(mem, TASK)] == ["r30.", "r31."]


def known(number, body, authority=60, topic=None, author="eng"):
    return Entry(
        id=f"syn-2026-02-01-{number:03d}",
        timestamp="",
        author=author,
        authority=authority,
        at=0,
        seq=number,
        namespace="projects/x",
        priority="info",
        body=body,
        ttl="7d",
        topic=topic,
    )


def test_of_entries_that_state_the_same_figure_the_shortest_by_far_is_taken():
    long = known(1, f"the retry limit of service 3 is 41 {'as was said ' * 5}")
    half = known(2, long.body[: len(long.body) // 2 + 1])
    short = known(3, long.body[: len(long.body) // 2 - 1])
    other = known(4, "the retry limit of service 3 is 99")
    clause = "the retry limit of service 3"
    assert _distinct([long, other, half], clause) == [long, other]
    assert _distinct([long, other, short], clause) == [short, other]
    assert _distinct([short, long], clause) == [short]


def test_without_a_figure_it_is_the_words_and_their_author_that_are_the_same():
    one = known(1, "nobody knows that yet")
    again, other = known(2, one.body), known(3, one.body, author="lead")
    assert _distinct([one, again, other], "a clause") == [one, other]


def test_beside_the_topic_stands_only_what_has_more_authority():
    asked = forms("retry limit")
    topic = known(1, "41", 60, topic="retry limit")
    lower, same, higher = (
        known(number, "it is 99", authority)
        for number, authority in ((2, 40), (3, 60), (4, 80))
    )
    entries = [lower, topic, same, higher]
    assert _on_topic(entries, asked) == [topic, higher]
    rival = known(5, "42", 40, topic="retry limit")
    assert _on_topic([rival, topic, same], asked) == [rival, topic]
    assert _on_topic([lower, same], asked) == [lower, same]
    elsewhere = known(6, "7", 90, topic="another thing")
    assert _on_topic([elsewhere, lower], asked) == [elsewhere, lower]
