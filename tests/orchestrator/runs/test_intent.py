"""The same task has the same key, another one has not; likeness only warns."""

import pytest

from orchestrator.runs.intent import ALIKE, intent_of, similar

TASK = "Fix the landing page of v1.2"


def key(text=TASK, project="brain", agent="eng", intent=None):
    return intent_of(text, project=project, agent=agent, intent=intent)


@pytest.mark.parametrize(
    "text",
    [
        "  fix the  LANDING page\nof v1.2. ",
        "Fix “the landing page” of v1.2!",
        "- Fix the landing page of v1.2",
        TASK,
    ],
)
def test_spelling_makes_no_other_task(text):
    assert key(text) == key()


@pytest.mark.parametrize(
    "other",
    [
        {"text": "Fix the landing page of v1.3"},
        {"text": "Fix the landing page of v12"},
        {"text": "Fix the page landing of v1.2"},
        {"project": "other"},
        {"project": None},
        {"agent": "eng-2"},
        {"intent": TASK},
    ],
)
def test_another_task_has_another_key(other):
    assert key(**other) != key()


def test_an_explicit_intent_is_the_key_whatever_the_words():
    assert key("one", agent="a", intent="Landing page") == key(
        "two", agent="b", intent="landing  page"
    )
    assert key(intent="landing page", project="a") != key(intent="landing page", project="b")


def test_parts_cannot_run_together():
    assert key("c", project="a", agent="b") != key("b c", project="a", agent="")


def test_likeness():
    assert similar(TASK, TASK.upper()) == 1
    assert similar("", "") == 1
    assert similar("", TASK) == similar("alpha beta", "gamma delta") == 0
    long = (
        "Write the unit tests of the parser for dates and times in the module clock and"
        " run them twice"
    )
    assert (
        similar(long, long + " please")
        >= ALIKE
        > similar(long, "Write the parser for dates and times")
    )


def test_a_task_has_the_same_key_for_ever():
    # keys are on the disk: work that is given again is found by them
    assert key() == "d5314c06a3abcc8419a6379f4821a5b3"
    assert len(key()) == 32


@pytest.mark.parametrize(
    ("one", "other", "share"),
    [("a b", "a c", 1 / 5), ("a b", "a b c", 3 / 5), ("a", "a b", 1 / 3), ("a", "", 0)],
)
def test_likeness_is_the_share_of_words_and_pairs_in_common(one, other, share):
    assert similar(one, other) == similar(other, one) == share
