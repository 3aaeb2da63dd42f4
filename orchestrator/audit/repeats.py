"""Calls that were made before: by the same conversation, by another one of its session, or in
another session of the project within a week; whether their results were the same, and what they
took. Pure. Called by `figures`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from orchestrator.audit.conversations import Conversation, Made
from synapse.model.entry import SECOND

WEEK = 7 * 86_400 * SECOND
OWN, SIBLING, SESSION = "itself", "a sibling", "another session"
WHO = (OWN, SIBLING, SESSION)


class Repeat(NamedTuple):
    """A call that was made before: by whom, whether its result is the same, the tokens of that
    result over all turns that sent it, and whether the conversation then edited the file.
    """

    call: Made
    conversation: Conversation
    who: str
    same: bool
    tokens: int
    edited: bool


class Group(NamedTuple):
    """The sum of some repeats."""

    calls: int = 0
    tokens: int = 0
    usd: float = 0.0

    def plus(self, other: Group) -> Group:
        return Group._make(a + b for a, b in zip(self, other, strict=True))


def repeats(conversations: Iterable[Conversation]) -> Iterator[Repeat]:
    """Yield the calls that were made before, in the order of time. Who made it last counts: the
    conversation itself before a sibling, that before another session.
    """
    calls = [(call, conversation) for conversation in conversations for call in conversation.calls]
    calls.sort(key=lambda pair: (pair[0].at, pair[1].number))
    earlier: dict[str, dict[str, dict[int, Made]]] = defaultdict(dict)
    edits = {conversation.number: _last_edits(conversation) for _, conversation in calls}
    for call, conversation in calls:
        sessions = earlier[call.key]
        if (repeated := _before(sessions, call, conversation)) is not None:
            who, before = repeated
            edited = edits[conversation.number].get((call.path, call.emptied), -1) >= call.turn
            tokens = call.tokens * conversation.carried(call.turn, call.emptied)
            same = before.digest == call.digest
            yield Repeat(call, conversation, who, same, tokens, bool(call.path) and edited)
        own = sessions.pop(conversation.session, {})
        own.pop(conversation.number, None)
        sessions[conversation.session] = own | {conversation.number: call}


def _before(
    sessions: dict[str, dict[int, Made]], call: Made, conversation: Conversation
) -> tuple[str, Made] | None:
    """Return who made a call before, and that call. The newest of a session and the newest session
    stand last.
    """
    family = sessions.get(conversation.session, {})
    if conversation.number in family:
        return OWN, family[conversation.number]
    if family:
        return SIBLING, next(reversed(family.values()))
    for session in reversed(sessions.values()):
        before = next(reversed(session.values()))
        return (SESSION, before) if before.at >= call.at - WEEK else None
    return None


def _last_edits(conversation: Conversation) -> dict[tuple[str, int], int]:
    """Return after how many turns a conversation last edited each file, between two times that its
    context was emptied.
    """
    return {(edit.path, edit.emptied): edit.turn for edit in conversation.edits if not edit.refused}


def add_up(
    found: Sequence[Repeat], usd: Callable[[Repeat], float], key: Callable[[Repeat], str]
) -> dict[str, Group]:
    """Return the sums of repeats under each key."""
    sums: dict[str, Group] = defaultdict(Group)
    for repeat in found:
        sums[key(repeat)] = sums[key(repeat)].plus(Group(1, repeat.tokens, usd(repeat)))
    return dict(sums)


class Again(NamedTuple):
    """The reads of files, and those of a file of which the conversation, or only another one of its
    session, had read some part before.
    """

    reads: int
    own: Group
    sibling: Group


def files_again(
    conversations: Iterable[Conversation], usd: Callable[[Conversation, Made], float]
) -> Again:
    """Return how often files were read again, whatever part of them."""
    reads = [
        (call, conversation)
        for conversation in conversations
        for call in conversation.calls
        if call.kind == "read"
    ]
    reads.sort(key=lambda pair: (pair[0].at, pair[1].number))
    readers: dict[tuple[str, str], set[int]] = defaultdict(set)
    own = sibling = Group()
    for call, conversation in reads:
        before = readers[conversation.session, call.path]
        tokens = call.tokens * conversation.carried(call.turn, call.emptied)
        group = Group(1, tokens, usd(conversation, call))
        if conversation.number in before:
            own = own.plus(group)
        elif before:
            sibling = sibling.plus(group)
        before.add(conversation.number)
    return Again(len(reads), own, sibling)
