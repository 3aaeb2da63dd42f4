"""What whoever started the server allows of notifications. Knows no SDK."""

from __future__ import annotations

from typing import NamedTuple

from synapse.webhooks.post import Wire


class Push(NamedTuple):
    """Where notifications may go beside public addresses, and what they go through."""

    hosts: tuple[str, ...] = ()
    wire: Wire = Wire()
