"""The report of a migration: what was read, what of it was new, and who was met. Values.

`migrate` makes it; the shell and callers of the library read it.
"""

from __future__ import annotations

from collections.abc import Mapping

from synapse.system.typed import NamedTuple


class Count(NamedTuple):
    """Of one kind: how many were read, how many of those only repeat another, how many were new
    here and how many were here before. What was read is the sum of the others.
    """

    kind: str
    read: int
    repeated: int
    written: int
    there: int


class Migration(NamedTuple):
    """A report: the counts, the agents that were registered, of the names that had to change what
    they became, and whose mail is unverified, because they were here before.
    """

    counts: tuple[Count, ...]
    agents: tuple[str, ...]
    renamed: Mapping[str, str]
    written: bool
    unverified: tuple[str, ...] = ()
