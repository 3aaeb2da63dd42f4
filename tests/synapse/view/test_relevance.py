import pytest

from synapse.view.relevance import CLAUSES, clauses, concerns, coverage, forms

TASK = """Write client 2 of the users endpoint. Use what the team knows.
Task: client-2
Needs: the version of the users endpoint; the retry limit of service 3
Steps: 4"""


def test_a_text_is_cut_into_clauses_that_tell():
    assert clauses(TASK) == (
        "Write client 2 of the users endpoint.",
        "Use what the team knows.",
        "client-2",
        "the version of the users endpoint",
        "the retry limit of service 3",
    )
    assert clauses("") == clauses("Go on.") == clauses("Steps: 4") == ()
    assert clauses("e681fb9") == ("e681fb9",)
    assert (
        len(clauses("; ".join(f"item {n} of the list" for n in range(100)))) == CLAUSES
    )


def test_words_are_their_roots():
    assert forms("The retries of Services, retried") == {"retr", "servic"}
    assert forms("и в на") == frozenset()


@pytest.mark.parametrize(
    ("text", "concerned"),
    [
        ("Use v3 for the version of the users endpoint.", True),
        ("The retry limit of service 3 is f0ab12.", True),
        ("The retry limit of service 5 is f0ab12.", False),  # of another one
        ("The versions of all endpoints of users are in the wiki.", True),
        ("The header was rendered again after the layout had settled.", False),
        ("The team had lunch.", False),
        ("", False),
    ],
)
def test_a_text_concerns_a_task_by_one_of_its_clauses(text, concerned):
    assert concerns(TASK, text) is concerned


@pytest.mark.parametrize(
    ("task", "text"),
    [
        # two words of many
        ("The invoice of a customer lists shipping, tax and discount", "invoice tax"),
        # one word, which weighs most of the clause
        ("restart build7", "build7 passed"),
    ],
)
def test_a_text_that_is_near_in_one_way_alone_is_of_something_else(task, text):
    assert clauses(task) == (task,)
    assert not concerns(task, text)


def test_coverage_is_by_weight():
    wanted = forms("retry limit of service 3")
    assert coverage(wanted, wanted) == 1
    assert coverage(wanted, forms("retry limit of service 5")) == pytest.approx(3 / 5)
    assert coverage({"a": 3.0, "b": 1.0}, frozenset("a")) == 0.75
    assert coverage({}, frozenset("a")) == 0
