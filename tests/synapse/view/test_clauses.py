"""What a task's words find: each clause its own entry, and nothing that may not be seen."""

import pytest

import synapse
from synapse.model.agents import Agent
from synapse.testing import FrozenClock
from synapse.view.clauses import FEW, KEPT, matches

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
    for n in range(FEW + 1):
        say(mem, f"The login page has problem p{n}x.")
    assert found(mem, "Mend the login page") == []


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
    assert len(found(mem, TASK)) == KEPT


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
    ["", "\0", '"', "NEAR(a b) OR *; ^x", "the of and", "日本語のテスト", "a" * 70_000],
)
def test_any_text_is_asked_for(mem, text):
    say(mem, "The retry limit of service 3 is r30.")
    assert found(mem, text) == []


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
