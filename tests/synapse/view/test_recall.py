"""What a text's words find: each clause its own entry, where that holds enough, and nothing that may
not be seen.
"""

import pytest

import synapse
from synapse.model.agents import Agent
from synapse.model.entry import Entry
from synapse.testing import FrozenClock
from synapse.view.recall import _distinct, _on_topic, _tells_more, concerns, matches, questions
from synapse.view.requests import forms

TASK = "Tune it. Needs: the retry limit of service 3; the owner key of service 7"


@pytest.fixture
def mem():
    with synapse.open("memory:", clock=FrozenClock()) as mem:
        mem.register(Agent("lead", role="cto"))
        mem.register(Agent("eng", read=("projects/*",), write=("projects/*",)))
        mem.register(Agent("low", authority=40, read=("projects/*",), write=("projects/*",)))
        mem.store.clock.advance("1s")
        yield mem


def found(mem, text, agent="eng"):
    """Return what the text finds, as (body, whether it is the best of a clause), oldest first."""
    reader, now = mem.store.agents.get(agent), mem.store.clock()
    with mem.store.snapshot(words=True) as snap:
        all_matches = matches(snap, reader, text, now)
    return [(m.entry.body, m.best) for m in sorted(all_matches, key=lambda m: m.entry.seq)]


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
    reader = mem.store.agents.get("eng")
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
        known(number, "it is 99", authority) for number, authority in ((2, 40), (3, 60), (4, 80))
    )
    entries = [lower, topic, same, higher]
    assert _on_topic(entries, asked) == [topic, higher]
    rival = known(5, "42", 40, topic="retry limit")
    assert _on_topic([rival, topic, same], asked) == [rival, topic]
    assert _on_topic([lower, same], asked) == [lower, same]
    elsewhere = known(6, "7", 90, topic="another thing")
    assert _on_topic([elsewhere, lower], asked) == [elsewhere, lower]


# -- how much is enough ----------------------------------------------------------------


def fill(mem, count=60):
    for n in range(count):
        say(mem, f"Decision {n} is about colours, fonts and the look of pages.")


def test_one_word_is_enough_where_next_to_no_entry_has_it(mem):
    fill(mem)
    body = say(mem, "Refunds above 500 euro wait for a second approval.").body
    assert found(mem, "Implement partial refunds in the admin") == [(body, True)]
    assert found(mem, "Change the colours of the admin") == []


def test_words_that_each_many_entries_have_find_the_one_that_has_them_together(mem):
    fill(mem)
    for n in range(8):
        say(mem, f"The export of report {n} is done.")
        say(mem, f"The column of table {n} is wide.")
    body = say(mem, "The export keeps the order of its columns.").body
    assert found(mem, "Rewrite the export so that a column may be left out") == [(body, True)]


def test_the_best_come_first_whichever_clause_found_them(mem):
    fill(mem)
    one = say(mem, "The courier takes an umbrella.")
    two = say(mem, "Invoices are printed by weasyprint, whose glyphs are embedded.")
    text = "The courier is late. Invoices by weasyprint lack glyphs."
    reader, now = mem.store.agents.get("eng"), mem.store.clock()
    with mem.store.snapshot(words=True) as snap:
        ranked = matches(snap, reader, text, now)
    assert [match.entry.id for match in ranked] == [two.id, one.id]
    assert ranked[0].weight > ranked[1].weight
    assert ranked[0].share < 1


def test_who_names_another_number_is_of_something_else(mem):
    """Also where everything else agrees; a number that names nothing keeps nobody out."""
    fill(mem)
    say(mem, "The retry limit of service 5 is r50.")
    assert found(mem, "The retry limit of service 3") == []
    body = say(mem, "Uploads above 10 MB end in a timeout.").body
    assert found(mem, "Uploads of 15 MB end in a timeout") == [(body, True)]


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("Use v3 for the version of the users endpoint.", True),
        ("The retry limit of service 3 is f0ab12.", True),
        ("The retry limit of service 5 is f0ab12.", False),
        ("The header was rendered again after the layout had settled.", False),
        ("The team had lunch.", False),
        ("", False),
    ],
)
def test_one_entry_concerns_a_task_by_the_same_rule(mem, body, told):
    fill(mem)
    task = """Write client 2 of the users endpoint.
Needs: the version of the users endpoint; the retry limit of service 3"""
    with mem.store.snapshot(words=True) as snap:
        assert concerns(questions(snap, task), known(9_999, body)) is told
