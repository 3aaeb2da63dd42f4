"""Reviews of reputation: the record that a nightly run writes where it is on, and the account for
people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from synapse.consolidate import reputation
from synapse.consolidate.reputation import ACTED, LIVED, PERIOD, SUPERSEDED, Deed, Step, steps
from synapse.errors import NotFound
from synapse.index.questions import outcomes
from synapse.index.snapshot import Snapshot
from synapse.model.agents import CONSOLIDATOR, Agent, general_authority
from synapse.model.records import Guard, Record
from synapse.system.typed import TYPE_CHECKING, Any, NamedTuple
from synapse.trust.persons import operators_alone

if TYPE_CHECKING:
    from synapse.core import Memory
    from synapse.store import Store


class Review(NamedTuple):
    """The change of one agent's authority by one review. `stands` is false where it was undone."""

    seq: int
    at: int
    since: int
    until: int
    move: int
    steps: tuple[Step, ...]
    stands: bool


class Account(NamedTuple):
    """An agent's authority: as declared, as moved by the reviews, and what the next one would
    move."""

    agent: str
    declared: int
    standing: int
    reviews: tuple[Review, ...]
    since: int
    steps: tuple[Step, ...]
    move: int


def accounts(mem: Memory, agent: str | None = None) -> list[Account]:
    """Return the account of every agent, or of one, step by step with the records behind it."""
    operators_alone("look into reputations")
    store = mem.store
    store.refresh()
    with store.snapshot() as snap:
        agents = snap.declared
        if agent is not None and agent not in agents:
            raise NotFound(f"there is no agent {agent}; `synapse agents` lists them", id=agent)
        now, past = store.clock(), outcomes.reviews(snap)
        since = _since(past, now)
        open_steps = steps(_deeds(snap, since, now), since, now, _counted(past))
    return [
        _account(store, agents[id], past, since, open_steps)
        for id in ([agent] if agent else sorted(agents))
    ]


def review(store: Store, run_name: str, now: int, guard: Guard) -> Record | None:
    """Write down what a whole period moved, once; None where none has passed, or reputation is not
    on."""
    if store.settings.reputation != "on":
        return None
    with store.snapshot() as snap:
        past = outcomes.reviews(snap)
        since = _since(past, now)
        first = store.log.at(1).at if snap.cursor else now
        if now - (since if past else first) < PERIOD:
            return None
        period_steps = steps(_deeds(snap, since, now), since, now, _counted(past))
        moves = {agent.id: _move(store, agent, period_steps) for agent in snap.declared.values()}
    fields = {
        "phase": "metrics",
        "night": run_name,
        "since": since,
        "until": now,
        "moves": {id: move for id, move in moves.items() if move},
        "steps": [_plain(step) for step in period_steps if step.move],
    }
    record = store.commit.append(
        Record.new("review", CONSOLIDATOR, fields), once=f"review:{run_name}", unless=guard
    )
    store.refresh()
    return record


def _since(past: list[tuple[Record, bool]], now: int) -> int:
    """Return where the open period began: at the last review, be it one that was undone, else a
    period ago."""
    return max((record.fields["until"] for record, _ in past), default=now - PERIOD)


def _counted(past: list[tuple[Record, bool]]) -> frozenset[tuple[str, str]]:
    """Return the entries that moved an authority before, each with `gain` or `loss`."""
    old = (_step(plain) for record, _ in past for plain in record.fields["steps"])
    return frozenset((step.deed.entry, "gain" if step.move > 0 else "loss") for step in old)


def _deeds(snap: Snapshot, since: int, until: int) -> Iterator[Deed]:
    for kind, ask in (
        (LIVED, outcomes.lived),
        (SUPERSEDED, outcomes.superseded),
        (ACTED, outcomes.acted_on),
    ):
        for fact in ask(snap, since, until):
            readers = outcomes.seen_by(snap, fact.entry, fact.at)
            yield Deed(kind, fact.author, fact.entry, fact.at, fact.by, readers, fact.records)


def _account(
    store: Store, agent: Agent, past: list[tuple[Record, bool]], since: int, open_steps: list[Step]
) -> Account:
    own = tuple(step for step in open_steps if step.deed.agent == agent.id)
    reviews = tuple(_review(agent.id, record, stands) for record, stands in past)
    declared = general_authority(agent, store.settings.flat)
    shift = store.agents.shift(agent.id)
    authority = general_authority(agent._replace(shift=shift), store.settings.flat)
    return Account(
        agent.id, declared, authority, reviews, since, own, reputation.total_move(authority, own)
    )


def _review(agent: str, record: Record, stands: bool) -> Review:
    fields = record.fields
    own = tuple(step for step in map(_step, fields["steps"]) if step.deed.agent == agent)
    return Review(
        record.seq,
        record.at,
        fields["since"],
        fields["until"],
        fields["moves"].get(agent, 0),
        own,
        stands,
    )


def _move(store: Store, agent: Agent, period_steps: list[Step]) -> int:
    authority = general_authority(
        agent._replace(shift=store.agents.shift(agent.id)), store.settings.flat
    )
    return reputation.total_move(
        authority, (step for step in period_steps if step.deed.agent == agent.id)
    )


def _plain(step: Step) -> Mapping[str, Any]:
    """Return a step as a review stores it: its deed, and how much it moved."""
    return {**step.deed._asdict(), "move": step.move, "why": step.why}


def _step(plain: Mapping[str, Any]) -> Step:
    values = {name: plain[name] for name in Deed._fields}
    values |= {name: tuple(values[name]) for name in ("seen_by", "records")}
    return Step(Deed(**values), plain["move"], plain["why"])
