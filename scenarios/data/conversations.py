"""Recorded conversations with questions whose answers stand in named turns, as a file has them: a
list of objects with `sample_id`, `conversation` (`session_N`, `session_N_date_time`) and `qa`
(`question`, `evidence`, `category`). Values, and how they are read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple

from scenarios.data.faults import fault

ADVERSARIAL = "adversarial"
CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: ADVERSARIAL}
MINUTE = 60_000_000
_TURN = re.compile(r"D\d+:\d+")


class BrokenConversations(ValueError):
    """The file cannot be read as conversations."""


class Turn(NamedTuple):
    """One message, at its time, in a session."""

    id: str
    speaker: str
    text: str
    session: int
    at: int


class Question(NamedTuple):
    """A question, the turns that hold the evidence for its answer, and what kind of question it
    is.
    """

    text: str
    evidence: frozenset[str]
    category: str


class Conversation(NamedTuple):
    """Turns in their order and the questions about them."""

    id: str
    turns: tuple[Turn, ...]
    questions: tuple[Question, ...]


def read(path: str) -> list[Conversation]:
    """Return the conversations of a file; BrokenConversations where it holds something else."""
    try:
        with open(path, encoding="utf-8") as file:
            samples = json.load(file)
        if not isinstance(samples, list) or not samples:
            raise BrokenConversations(f"{path}: not a list of conversations")
        return [_conversation(sample) for sample in samples]
    except BrokenConversations:
        raise
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise BrokenConversations(f"{path}: {fault(error)}") from error
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BrokenConversations(f"{path}: holds no conversations with questions") from error


def _conversation(sample: dict[str, Any]) -> Conversation:
    turns = tuple(_turns(sample["conversation"]))
    ids = {turn.id for turn in turns}
    questions = (_question(question, ids) for question in sample["qa"])
    return Conversation(
        str(sample["sample_id"]),
        turns,
        tuple(candidate for candidate in questions if candidate.evidence),
    )


def _turns(conversation: dict[str, Any]) -> Iterator[Turn]:
    numbers = sorted(int(name[8:]) for name in conversation if re.fullmatch(r"session_\d+", name))
    for number in numbers:
        start = _time(conversation[f"session_{number}_date_time"])
        for number_in_session, turn in enumerate(conversation[f"session_{number}"]):
            at = start + number_in_session * MINUTE
            yield Turn(turn["dia_id"], turn["speaker"], _text(turn), number, at)


def _time(text: str) -> int:
    moment = datetime.strptime(text, "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)
    return int(moment.timestamp()) * 1_000_000


def _text(turn: dict[str, Any]) -> str:
    """Return the text of a turn, with the caption and search words of a shared picture."""
    picture = " / ".join(turn[name] for name in ("blip_caption", "query") if turn.get(name))
    return f"{turn['text']} [{picture}]" if picture else str(turn["text"])


def _question(asked: dict[str, Any], known: set[str]) -> Question:
    ids = {id for text in asked["evidence"] for id in _TURN.findall(text)}
    category = CATEGORIES.get(asked["category"], str(asked["category"]))
    return Question(asked["question"], frozenset(ids & known), category)
