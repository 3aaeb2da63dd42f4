import pytest

from synapse.view.requests import CLAUSES, clauses, forms, names, telling

TASK = """Write client 2 of the users endpoint. Use what the team knows.
Task: client-2
Needs: the version of the users endpoint; the retry limit of service 3
Steps: 4"""


def test_a_text_is_cut_into_clauses_that_tell():
    assert clauses(TASK) == (
        "Write client 2 of the users endpoint.",
        "Use what the team knows.",
        "Task:",
        "client-2",
        "the version of the users endpoint",
        "the retry limit of service 3",
    )
    assert clauses("") == clauses("Go on.") == ()
    many = clauses("; ".join(f"item {n} of the list" for n in range(100)))
    assert len(many) == CLAUSES


@pytest.mark.parametrize(
    "text",
    [
        "yes, thanks",
        "Looks good, go ahead.",
        "can you do the same for the other one?",
        "no, that is wrong, try again",
        "Run the tests again",
        "Show me the diff",
        "fix it",
        "22",
    ],
)
def test_a_text_that_names_nothing_has_no_word_that_tells(text):
    assert telling(text) == ()


def test_words_that_name_something_tell_in_their_order():
    assert telling("Please add retries to the pricing client") == ("retries", "pricing", "client")
    assert telling("the retry limit of service 3") == ("retry", "limit", "service", "3")
    assert telling("it answers 429 after 3 of them") == ("answers", "429")


def test_words_are_their_roots():
    assert forms("The retries of Services, retried") == {"retr", "servic"}
    assert forms("и в на") == frozenset()


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("the retry limit of service 3", {("servic", "3")}),
        ("Service-3 and service_12", {("servic", "3"), ("servic", "12")}),
        ("upgrade to 22", set()),
        ("client 2nd", set()),
        ("a 15MB file", set()),
    ],
)
def test_a_name_is_a_word_and_the_number_behind_it(text, named):
    assert names(text) == named
