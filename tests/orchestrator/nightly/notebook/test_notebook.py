"""Tidying a notebook is pure: nothing gets lost, and doing it again does nothing."""

from datetime import date

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.nightly.notebook.notes import Notebook, count, items_of, lost, overlap, tidied
from tests.examples import examples

TODAY = date(2026, 2, 10)
MEMORY = """\
# Memory

## User Context
- Prefers short answers
- Lives in Berlin (until 2026-01-31)

## Projects
- shop: sells one book
  in two editions
- shop:  Sells one book
  in two editions.

Some prose.
"""
NOTES = {
    date(2026, 1, 5): "# 2026-01-05\n- Lesson: an old one\n",
    date(
        2026, 2, 8
    ): "# Monday\n- Lesson: read the log first\n- had lunch\n\n## Decisions\n- no blue buttons\n",
    date(2026, 2, 10): (
        "- **Preference:** dark mode\n- lesson: Read the log first.\n- Project: a (until"
        " 2026-01-01)\n"
    ),
}
BOOK = Notebook(MEMORY, NOTES, {})


def after(book, plan):
    return Notebook(plan.memory, book.notes, {**book.archive, **plan.archive})


def test_what_notes_say_is_worth_keeping_is_kept():
    plan = tidied(BOOK, TODAY)
    assert plan.memory == (
        "# Memory\n\n## User Context\n- Prefers short answers\n- **Preference:** dark mode\n\n"
        "## Projects\n- shop: sells one book\n  in two editions\n\nSome prose.\n- no"
        " blue buttons\n\n"
        "## Lessons Learned\n\n- Lesson: read the log first\n"
    )
    assert [moved.reason for moved in plan.removed] == ["stands there twice", "outdated"]


def test_old_notes_and_what_leaves_go_into_the_archive_whole():
    plan = tidied(BOOK, TODAY)
    assert plan.filed == (date(2026, 1, 5),)
    assert NOTES[date(2026, 1, 5)] in plan.archive["2026-01"]
    assert "- Lives in Berlin (until 2026-01-31)" in plan.archive["2026-02"]
    assert lost(BOOK, after(BOOK, plan), today=TODAY) == []


def test_again_changes_nothing():
    book = after(BOOK, tidied(BOOK, TODAY))
    again = tidied(book, TODAY)
    assert (again.memory, again.archive, again.added, again.removed) == (book.memory, {}, (), ())


def test_a_note_that_was_written_to_since_is_copied_again():
    book = after(BOOK, tidied(BOOK, TODAY))
    grown = book._replace(notes={**NOTES, date(2026, 1, 5): NOTES[date(2026, 1, 5)] + "- more\n"})
    plan = tidied(grown, TODAY)
    assert plan.filed == (date(2026, 1, 5),)
    assert plan.archive["2026-01"].startswith(book.archive["2026-01"])


def test_it_stays_under_the_limit_and_what_left_does_not_come_back():
    lessons = "".join(f"- Lesson: number {n}\n" for n in range(80))
    book = Notebook("## Projects\n- one\n", {TODAY: lessons}, {})
    plan = tidied(book, TODAY)
    assert count(plan.memory) == 59
    assert "- Lesson: number 79" in plan.memory
    assert "- Lesson: number 0\n" not in plan.memory
    assert "- one" in plan.memory
    assert lost(book, after(book, plan), today=TODAY) == []
    assert tidied(after(book, plan), TODAY).added == ()


def test_code_is_no_bullet():
    text = "```\n- a\n- a\n```\n"
    assert [item.bullet for item in items_of(text)] == [False] * 5
    assert tidied(Notebook(text, {}, {}), TODAY).memory == text


def test_what_is_lost_is_found():
    plan = tidied(BOOK, TODAY)
    fine = after(BOOK, plan)
    assert lost(BOOK, fine._replace(memory="# Memory\n"), today=TODAY)
    assert lost(BOOK, fine._replace(archive={}), today=TODAY)
    assert lost(BOOK, fine._replace(notes={}), today=TODAY)
    assert lost(BOOK, fine._replace(memory=fine.memory + "- made up\n"), today=TODAY)
    assert lost(fine, fine._replace(archive={"2026-01": ""}), today=TODAY)


def test_overlap():
    assert overlap(["alpha beta"], "ALPHA gamma") == 0.5
    assert overlap([], "") == 1


LINE = st.sampled_from(
    [
        "- one",
        "- One.",
        "* one",
        "- Lesson: x",
        "  below",
        "## Projects",
        "",
        "prose",
        "```",
        "- y (until 2026-01-01)",
    ]
)
TEXT = st.lists(LINE, max_size=12).map(lambda lines: "\n".join(lines))


@given(TEXT, TEXT, TEXT, st.integers(2, 12))
@examples(100)
def test_nothing_is_lost_whatever_the_texts(memory, old, new, lines):
    book = Notebook(memory, {date(2026, 1, 5): old, TODAY: new}, {})
    plan = tidied(book, TODAY, lines)
    there = after(book, plan)
    assert lost(book, there, today=TODAY) == []
    assert "\n".join(item.text for item in items_of(memory)) == memory
    again = tidied(there, TODAY, lines)
    assert (again.memory, again.archive) == (there.memory, {})
