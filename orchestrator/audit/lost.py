"""What else went wrong in recorded sessions: edits on a stale read, results of sub-agents that
nobody used, and waits for a person. Pure. Called by `figures`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median
from typing import NamedTuple

from orchestrator.audit.conversations import Conversation
from orchestrator.audit.paid import Paid, PriceList, total


class Stale(NamedTuple):
    """Edits of files that another conversation had edited since this one saw them: those that were
    made, and those that the client refused; with all edits beside them.
    """

    edits: int
    made: int
    refused: int


class Unused(NamedTuple):
    """Results of sub-agents that have names in them, those of which no name is in their parent's
    words later, and what these sub-agents paid.
    """

    judged: int
    unused: int
    paid: Paid


class Waits(NamedTuple):
    """How often a blocker or a question waited for a person, how many had no answer, and how long
    the others waited, in microseconds.
    """

    blockers: int
    questions: int
    unanswered: int
    middle: int
    longest: int


def stale_edits(conversations: Iterable[Conversation]) -> Stale:
    """Return how many edits were made on a stale read."""
    touches = [
        (call.at, 0, conversation.number, call.path, False)
        for conversation in conversations
        for call in conversation.calls
        if call.kind == "read"
    ]
    edits = [
        (edit.at, 1, conversation.number, edit.path, edit.refused)
        for conversation in conversations
        for edit in conversation.edits
    ]
    sights: dict[tuple[int, str], int] = {}
    changed: dict[str, tuple[int, int]] = {}  # when, and by whom
    count = refused = 0
    for at, is_edit, number, path, was_refused in sorted(touches + edits):
        refused += was_refused
        if is_edit and not was_refused:
            when, by = changed.get(path, (0, number))
            count += by != number and 0 < sights.get((number, path), 0) < when
            changed[path] = (at, number)
        if not was_refused:
            sights[number, path] = at
    return Stale(len(edits), count, refused)


def unused_results(conversations: Sequence[Conversation], price_list: PriceList) -> Unused:
    """Return what was paid for results of sub-agents that nobody used."""
    agents = {(one.session, one.agent): one for one in conversations if one.agent}
    handed = [(one.session, result) for one in conversations for result in one.handed]
    unused = [
        agents[session, result.agent]
        for session, result in handed
        if not result.used and (session, result.agent) in agents
    ]
    turns = (turn for conversation in unused for turn in conversation.turns.values())
    return Unused(len(handed), len(unused), total(map(price_list.paid, turns)))


def waits(conversations: Iterable[Conversation]) -> Waits:
    """Return what waited for a person."""
    conversations = [*conversations]
    answered = [wait for conversation in conversations for wait in conversation.waits]
    open_ones = [one for one in conversations if one.blocked]
    open_questions = sum(len(conversation.asked) for conversation in conversations)
    took = [wait.took for wait in answered]
    blockers = sum(not wait.question for wait in answered) + len(open_ones)
    questions = sum(wait.question for wait in answered) + open_questions
    middle = int(median(took)) if took else 0
    return Waits(blockers, questions, len(open_ones) + open_questions, middle, max(took, default=0))
