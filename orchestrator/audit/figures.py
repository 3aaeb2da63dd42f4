"""The figures of an audit, and the one sentence that sums them up. Called by the shell's `audit`
and by the page.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from statistics import fmean
from typing import Any, NamedTuple

from orchestrator.audit import reading
from orchestrator.audit.conversations import Conversation, Conversations, Made
from orchestrator.audit.lost import Stale, Unused, Waits, stale_edits, unused_results, waits
from orchestrator.audit.paid import Paid, PriceList, group, total
from orchestrator.audit.policy import Policy
from orchestrator.audit.repeats import OWN, Again, Group, Repeat, add_up, files_again, repeats
from orchestrator.audit.sources import File
from synapse.privacy.secrets import mask

TOP = 10  # repeated calls that are named
MILLION = 1_000_000
KINDS = {  # of calls that are compared, as people read them
    "read": "file",
    "run": "command",
    "grep": "search in files",
    "fetch": "address",
    "search": "web search",
    "tool": "tool",
}


class Row(NamedTuple):
    """Repeats of one kind of call, by whom it was made before, and whether the result was the
    same; `edited` are those of files that the conversation then edited itself.
    """

    kind: str
    who: str
    same: bool
    all: Group
    edited: Group


class Call(NamedTuple):
    """A call that was often repeated with the same result."""

    label: str
    kind: str
    sum: Group


class Team(NamedTuple):
    """The figures that the suite can play, `brain-suite run --from`: the share of calls that
    another agent had made before, and of them those with the same result; the tokens of a result,
    and the turns of a conversation.
    """

    again: float
    same: float
    tokens: float
    turns: float


class Audit(NamedTuple):
    """The figures. `first` and `last` are the times of the first and the last step."""

    read: Mapping[str, int]
    first: int
    last: int
    sessions: int
    agents: int
    paid: Paid
    by: Mapping[str, Mapping[str, Paid]]
    calls: int
    team: Team
    repeats: Sequence[Row]
    top: Sequence[Call]
    again: Again
    stale: Stale
    unused: Unused
    waits: Waits
    policy: Policy | None = None

    @property
    def twice(self) -> Group:
        """Return the sum of the calls whose result was there before, and the same."""
        return _sum(row.all for row in self.repeats if row.same)

    @property
    def twice_edited(self) -> Group:
        """Return those of them whose file the conversation then edited, so that it needed it."""
        return _sum(row.edited for row in self.repeats if row.same)

    def share(self, sum: Group) -> float:
        """Return a sum as a share of all that was paid, in dollars where prices are known."""
        if self.paid.usd and not self.paid.unpriced:
            return sum.usd / self.paid.usd
        return sum.tokens / self.paid.tokens if self.paid.tokens else 0.0

    def sentence(self) -> str:
        """Return what it comes to."""
        if not self.paid.turns:
            return "No recorded session was found."
        days = max((self.last - self.first) // (86_400 * MILLION), 0) + 1
        span = f"{days} day{'s' * (days != 1)}"
        sessions = f"{self.sessions:,} session{'s' * (self.sessions != 1)}"
        cost = f"${self.paid.usd:,.2f}" if self.paid.usd else f"{self.paid.tokens:,} tokens"
        if not self.twice.tokens:
            return f"{span}, {sessions}: {cost}, and nothing was looked up twice."
        return (
            f"{span}, {sessions}: {cost}, of which {self.share(self.twice):.1%} paid for results"
            f" that were there before, unchanged; {self.share(self.twice_edited):.1%} for files"
            " among them that were then edited."
        )

    def json(self) -> dict[str, Any]:
        """Return the figures as JSON."""
        return {"sentence": self.sentence(), **_plain(self._asdict())}


def audit(
    files: Sequence[File], since: int = 0, progress: reading.Progress = lambda read, of: None
) -> Audit:
    """Return the figures of the sessions in these files."""
    conversations, count = Conversations(), Counter[str]()
    first, last = 0, 0
    for client, step in reading.steps(files, count, since, progress):
        conversations.add(client, step)
        first, last = min(first or step.at, step.at), max(last, step.at)
    return figures(conversations, count, first, last)


def figures(conversations: Conversations, count: Counter[str], first: int, last: int) -> Audit:
    """Return the figures of conversations."""
    every, price_list = [*conversations.all.values()], PriceList()

    def usd(conversation: Conversation, call: Made) -> float:
        turns = conversation.carried(call.turn, call.emptied)
        return price_list.carry(conversation, call.tokens, turns, call.at)

    repeated = [*repeats(every)]
    by = {
        "project": group(every, price_list, lambda one, turn: _project(one)),
        "agent": group(every, price_list, lambda one, turn: mask(one.type)),
        "day": dict(sorted(group(every, price_list, lambda one, turn: _day(turn.at)).items())),
        "model": group(every, price_list, lambda one, turn: mask(turn.model) or "unknown"),
    }
    return Audit(
        dict(count),
        first,
        last,
        len({(one.client, one.session) for one in every}),
        sum(bool(one.agent) for one in every),
        total(by["model"].values()),
        by,
        sum(len(one.calls) for one in every),
        _team(every, repeated),
        _rows(repeated, lambda repeat: usd(repeat.conversation, repeat.call)),
        _top(repeated, conversations.labels, lambda repeat: usd(repeat.conversation, repeat.call)),
        files_again(every, usd),
        stale_edits(every),
        unused_results(every, price_list),
        waits(every),
    )


def _team(every: Sequence[Conversation], found: Sequence[Repeat]) -> Team:
    tokens = [call.tokens for one in every for call in one.calls]
    turns = [len(one.turns) for one in every if one.turns]
    others = [repeat.same for repeat in found if repeat.who != OWN]
    means = (fmean(values) if values else 0.0 for values in (others, tokens, turns))
    return Team(len(others) / max(len(tokens), 1), *(round(mean, 4) for mean in means))


def _rows(found: Sequence[Repeat], usd: Any) -> list[Row]:
    """Return the sums of repeats, the dearest first."""
    keys = {(repeat.call.kind, repeat.who, repeat.same) for repeat in found}
    rows = []
    for kind, who, same in keys:
        chosen = [
            repeat
            for repeat in found
            if (repeat.call.kind, repeat.who, repeat.same) == (kind, who, same)
        ]
        sums = add_up(chosen, usd, lambda repeat: str(repeat.edited))
        edited = sums.get("True", Group())
        rows.append(Row(kind, who, same, _sum(sums.values()), edited))
    return sorted(rows, key=lambda row: (-row.all.tokens, *row[:3]))


def _top(found: Sequence[Repeat], labels: Mapping[str, str], usd: Any) -> list[Call]:
    """Return the calls whose repeats with the same result took most."""
    same = [repeat for repeat in found if repeat.same]
    kinds = {repeat.call.key: repeat.call.kind for repeat in same}
    sums = add_up(same, usd, lambda repeat: repeat.call.key)
    dearest = sorted(sums.items(), key=lambda item: (-item[1].tokens, labels[item[0]]))[:TOP]
    return [Call(mask(labels[key]), kinds[key], sum) for key, sum in dearest if sum.tokens]


def _sum(groups: Any) -> Group:
    return Group(*map(sum, zip(*groups, strict=True))) if (groups := [*groups]) else Group()


def _project(conversation: Conversation) -> str:
    """Return the name of a conversation's project, without the folders above it; a work tree in a
    hidden folder of a project is part of it.
    """
    folder = conversation.folder.partition("/.")[0].rstrip("/") or conversation.folder
    return mask(os.path.basename(folder) or "unknown")


def _day(at: int) -> str:
    return datetime.fromtimestamp(at / MILLION, UTC).date().isoformat()


def _plain(value: Any) -> Any:
    """Return values of named tuples as objects of JSON."""
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return _plain(value._asdict())
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value
