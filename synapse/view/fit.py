"""How well entries fit what their reader is to do, beside others of their kind. Pure.

What no word of a task finds is mostly about something else, and some of it shows that. `members`
says for which of a team an entry is, where the task names one. Called by `briefing`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from synapse.model.entry import Entry
from synapse.model.worth import THEIRS
from synapse.view.members import Team, text_of
from synapse.view.requests import Name, asked, forms, names

PLAN = "plan"  # the topic of plans


def fits(team: Team, entries: Iterable[Entry], found: Collection[int]) -> dict[int, float]:
    """Return how well entries fit, by their places in the log; one that fits as well as others of
    its kind is not there. The task's words `found` some of them.
    """
    listed = list(entries)
    is_strange = _strange_to(team)
    strange = {
        entry.seq: THEIRS
        for entry in listed
        if (entry.topic == PLAN and team.is_of_another(entry))
        or (entry.seq not in found and is_strange(entry))
    }
    return team.fits(listed) | strange


def _strange_to(team: Team) -> Callable[[Entry], bool]:
    """Return a test for what a task's words did not find: whether it names another thing of the
    same kind, or is a status that shares no word with the task or is its reader's own. A text that
    asks nothing says nothing of it.
    """
    words, named = asked(team.asked), names(team.asked)

    def is_strange(entry: Entry) -> bool:
        text = text_of(entry)
        return _names_another(text, named) or (
            entry.priority == "info"
            and (entry.of_run_of(team.reader) or words.isdisjoint(forms(text)))
        )

    return is_strange if words else lambda _: False


def _names_another(text: str, named: frozenset[Name]) -> bool:
    """Return whether a text names others of what is named by number, and none of these: of service
    3 and service 5, one is meant.
    """
    own = names(text) if named else frozenset[Name]()
    kinds = {kind for kind, _ in named}
    return own.isdisjoint(named) and any(kind in kinds for kind, _ in own)
