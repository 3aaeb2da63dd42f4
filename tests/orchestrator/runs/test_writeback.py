"""What a run leaves in the memory when it ends, made from its outcome."""

import pytest

from orchestrator.runs import writeback
from orchestrator.runs.task import Outcome, Result
from orchestrator.runs.writeback import LONGEST, Note

OUTPUT = "runs/eng-1/output.md"


@pytest.mark.parametrize(
    ("outcome", "note"),
    [
        (
            Outcome("done", "# Report\n\nIt works.\n\nMore."),
            Note("Done: It works.", "status/shop", "info", "ended", OUTPUT),
        ),
        (Outcome("done", ""), Note("Done: nothing was said", "status/shop", "info", "ended")),
        (
            Outcome("blocked", "I ask.", "Which key?"),
            Note("Blocked: Which key?", "blockers/shop", "critical", "blocked", OUTPUT),
        ),
        (
            Outcome("blocked", "Which key?"),
            Note("Blocked: Which key?", "blockers/shop", "critical", "blocked", OUTPUT),
        ),
        (
            Outcome("blocked", "A part waits.", "its run", "syn-1", below=("eng-2",)),
            Note("Blocked: its run; so far: A part waits.", "status/shop", "info", "ended", OUTPUT),
        ),
        (
            Outcome("timeout", "Half.", "an hour is over"),
            Note(
                "Out of time: an hour is over; so far: Half.",
                "status/shop",
                "important",
                "ended",
                OUTPUT,
            ),
        ),
        (
            Outcome("refused", "", "it will not"),
            Note("Refused: it will not", "status/shop", "important", "ended"),
        ),
    ],
)
def test_each_outcome_leaves_an_entry_in_its_place(outcome, note):
    assert writeback.settle("eng-1", "shop", outcome) == [note]


@pytest.mark.parametrize(
    "outcome",
    [
        Outcome("failed", "", "no key", operational=True),
        Outcome("blocked", "", "no key", blocker="syn-1"),
    ],
)
def test_what_stands_elsewhere_is_not_written_again(outcome):
    assert writeback.settle("eng-1", "shop", outcome) == []


def test_a_run_that_died_too_often_is_for_a_person_to_look_at():
    reason = "the run died 3 times without moving, and is not tried again"
    assert writeback.dead_letter("eng-1", "shop", 3) == Note(
        f"Blocked: {reason}", "blockers/shop", "critical", "dead", "runs/eng-1/"
    )
    assert writeback.question(f"Blocked: {reason}") == reason


@pytest.mark.parametrize("more", [-1, 0, 1, 2])
def test_an_entry_has_its_longest_length_at_most(more):
    text = "x" * (LONGEST - len("Done: ") + more)
    (note,) = writeback.settle("eng-1", "shop", Outcome("done", text))
    if more <= 0:
        assert note.body == f"Done: {text}"
    else:
        assert note.body == f"Done: {'x' * (LONGEST - len('Done: ') - 1)}…"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("# Head\n\n---\n\nFirst\nline.\n\nSecond.", "First line."),
        ("# Head\r\n\r\n First. \r\n\r\nSecond.", "First."),
        ("```\n~~~\n*** \n\n__ ==", ""),
        ("-a-", "-a-"),
        ("", ""),
    ],
)
def test_a_summary_is_the_first_paragraph_that_says_something(text, sentence):
    assert writeback.summary(text) == sentence


def test_a_flattened_text_says_all_in_one_paragraph():
    assert writeback.flattened("# Head\r\n\r\nDone: it\n---\n\n works. ") == "it works."


def test_a_parent_is_given_four_thousand_characters_of_a_result():
    whole = Result("done", "x" * 4_000, "eng-1")
    assert writeback.for_parent(whole) == whole.text
    longer = whole._replace(text="x" * 4_000 + "y")
    assert writeback.for_parent(longer) == (f"{'x' * 4_000}\n… (all of it: runs/eng-1/output.md)")


@pytest.mark.parametrize(
    ("result", "text"),
    [
        (Result("done", "All.", "eng-1", why="late"), "All."),
        (Result("failed", "Half.", "eng-1", why="no key"), "no key\n\nHalf."),
        (Result("failed", "There is no\n key.", "eng-1", why="no key"), "There is no\n key."),
        (
            Result("failed", "I tried, but there is\nno  key for it.", "eng-1", why="no key"),
            "I tried, but there is\nno  key for it.",
        ),
        (Result("failed", "", "eng-1", why="no key"), "no key"),
    ],
)
def test_a_parent_is_told_why_a_result_is_not_whole(result, text):
    assert writeback.for_parent(result) == text
