"""What a client's own transcript says that a conversation used. Reads files of clients, writes none."""

from __future__ import annotations

from typing import NamedTuple

from orchestrator.engine import Usage


class Spent(NamedTuple):
    """The usage of a conversation, its turns, and the model that answered last."""

    usage: Usage
    turns: int
    model: str | None


def spent(client: str, path: str | None) -> Spent | None:
    """Return what the transcript at a path says; None where there is none, or it cannot be read."""
    return None
