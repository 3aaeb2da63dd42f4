"""The worth of entries in a prompt: what each is expected to save its reader, beside what it costs.
Pure.

The view asks which entries pay. Who makes prompts says what a token of a view costs in a run, what
an entry saves that is used, and how likely it is used: nothing here knows runs or ledgers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from synapse.system.typed import NamedTuple

# Why an entry is in a view: it is critical; it is the best that a clause of the task finds, or one
# of the next; it is addressed to the agent, or important, or a status.
CRITICAL, NAMED, NEAR, ADDRESSED = "critical", "named", "near", "addressed"
IMPORTANT, STATUS = "important", "status"
KINDS = (NAMED, NEAR, ADDRESSED, IMPORTANT, STATUS)
# The chance that an entry is used where no history says it: the best that a clause of the task
# finds, the next ones, what is addressed to the agent, the newest of what is important, and of
# statuses.
CHANCES = {NAMED: 0.3, NEAR: 0.1, ADDRESSED: 0.3, IMPORTANT: 0.03, STATUS: 0.02}
SPREAD = 4  # newer entries of its kind, by which an entry's chance halves
THEIRS = 0.1  # how well an entry fits its reader that is for others
SMALL = 24  # tokens of the smallest entry there is


class Worth(NamedTuple):
    """By what a view is chosen. A token of it costs `price`, an entry that is used saves `saving`,
    both in billed tokens of the run; `chances` are those of each kind of entry to be used. What is
    critical may take `criticals` tokens, the rest with the page's frame `most`. Of that, `least`
    are for the best of each clause and `floor` for what is important, whatever it saves;
    `decisions`, for the recent decisions where all of them take no more."""

    saving: float
    price: float
    chances: Mapping[str, float]
    criticals: int
    most: int
    least: int
    floor: int = 0
    decisions: int = 0

    def chance(self, kind: str, match: float = 1.0, newer: int = 0, fit: float = 1.0) -> float:
        """Return the chance of an entry to be used. Where words found it, the share of them that it
        holds lowers it; else the number of newer ones does, for no task needs all there are. How
        well it fits its reader among the others of its team multiplies it."""
        return min(self.chances.get(kind, 0.0) * match * fit / (1 + newer / SPREAD), 1.0)

    def pays_up_to(self, chance: float) -> float:
        """Return the tokens up to which an entry with this chance saves more than it costs."""
        return chance * self.saving / self.price if self.price else 0.0

    def paying(self, kind: str, fit: float = 1.0) -> int:
        """Return how many of the newest entries of a kind, that fit so well, may pay, were they as
        small as can be.
        """
        top = self.pays_up_to(self.chance(kind, fit=fit))
        return max(int(SPREAD * (top / SMALL - 1)) + 1, 0) if top >= SMALL else 0


class Candidate(NamedTuple):
    """An entry that may be chosen, by its place, and the tokens that it takes. `best`: of a
    clause.
    """

    place: int
    tokens: int
    chance: float
    best: bool = False


def choose(candidates: Iterable[Candidate], worth: Worth, room: int) -> set[int]:
    """Return the places of those that are taken: the best of each clause as far as `least` goes,
    the surest first, then all that pay, those first that save the most for a token.
    """
    remaining, chosen = room, set[int]()
    sure = sorted(
        candidates, key=lambda candidate: (-candidate.chance, candidate.tokens, -candidate.place)
    )
    least = min(worth.least, room)
    for candidate in sure:
        if candidate.best and candidate.tokens <= least:
            least -= candidate.tokens
            remaining -= candidate.tokens
            chosen.add(candidate.place)
    paying = [
        candidate for candidate in sure if candidate.tokens <= worth.pays_up_to(candidate.chance)
    ]
    for candidate in sorted(
        paying,
        key=lambda candidate: (-candidate.chance / max(candidate.tokens, 1), -candidate.place),
    ):
        if candidate.place not in chosen and candidate.tokens <= remaining:
            remaining -= candidate.tokens
            chosen.add(candidate.place)
    return chosen
