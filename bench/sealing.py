"""Sealing: an envelope for few and for many recipients, and one opened. No workspace is asked."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from bench.figures import Goal, Row, timed
from bench.ground import Ground
from synapse import crypto
from synapse.model.entry import Entry

GOALS = {1: 0.5e-3, 10: 2e-3, 30: 4e-3}
OPENED = Goal("p50", 0.5e-3)


def sealing(ground: Ground) -> Iterator[Row]:
    """A body of 400 characters, sealed and signed, for so many recipients; and opened by one."""
    entry = Entry("", "eng-a", "2026-02-01T01:00:00Z", "team/web", "info", "text " * 80, "7d")
    entry = entry._replace(scope="encrypted", addressees=("team:web",))
    header, author = crypto.header(entry), crypto.new_key("eng-a")
    keys = [crypto.new_key(f"eng-{number}").public for number in range(max(GOALS))]
    for count, goal in GOALS.items():
        seal = partial(crypto.seal, entry.body, header, keys[:count], author)
        yield Row(
            "seal: so many recipients", count, timed(seal).values(), None, (Goal("p50", goal),)
        )
    sealed = crypto.seal(entry.body, header, [author.public, *keys[:9]], author)
    open_ = partial(crypto.unseal, sealed, header, author, author.public)
    yield Row("seal: opened by one of ten", 10, timed(open_).values(), None, (OPENED,))
