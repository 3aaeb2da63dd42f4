"""What an agent is shown: entries as Markdown, cut to an exact token budget. Pure.

Counting comes in as an argument. The text depends on nothing but the entries, the day and the
budget, keeps the order of the log, and changes as near to its end as it can, so that a provider's
cache of prompts hits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from synapse.errors import OverBudget
from synapse.model.agents import Agent
from synapse.model.clock import DAY
from synapse.model.entry import Entry
from synapse.model.worth import (
    ADDRESSED,
    CHANCES,
    CRITICAL,
    IMPORTANT,
    KINDS,
    NAMED,
    NEAR,
    SMALL,
    STATUS,
    THEIRS,
    Candidate,
    Worth,
    choose,
)
from synapse.system.typed import NamedTuple
from synapse.view.block import POINTER, Block, stands_whole
from synapse.view.layout import DEAR, Count, Offer, Page, Scale, Shown
from synapse.view.layout import FULL as FULL
from synapse.view.layout import HEADINGS as HEADINGS
from synapse.view.layout import NOTE as NOTE
from synapse.view.layout import About as About
from synapse.view.layout import Fits as Fits
from synapse.view.layout import Included as Included
from synapse.view.layout import LeftOut as LeftOut
from synapse.view.layout import View as View

STATED = Worth(1e9, 1.0, CHANCES, 0, 0, 0)  # where nothing is said: all may be used
DECISIONS = "decisions"  # where decisions stand
LIKELIEST = 256  # entries that are weighed for a task
KEPT = 0.7  # of its room: a section that must be cut is cut down to this at most


def build(
    entries: Sequence[Entry],
    agent: Agent | None,
    now: int,
    count: Count,
    budget: int | None = None,
    *,
    title: str | None = None,
    encoding: str = "o200k_base",
    only: str | None = None,
    commands: bool = True,
    shown: Shown | None = None,
    about: About | None = None,
    fits: Fits | None = None,
    worth: Worth | None = None,
) -> View:
    """Return the view of these entries: live ones, visible to the agent, in the order of the log.

    To fit a budget, info leaves first, then important entries older than 7 days; then critical ones
    become pointers, the other important ones leave, and then the pointers: the oldest first, and in
    blocks. Its reader is taken to know nothing: what was `shown` to its agent before decides only
    which critical entry is there first where not all are. The last line counts what was left out.
    OverBudget only where that line alone does not fit. `only` one priority: the other entries are
    counted as left out. Without `commands`, the text names none of the shell's.

    Entries that are `about` the reader's task stand whole, at the end, unless they are critical.
    Of them and of what is important and recent, those are there first that are the likeliest to be
    used for a token; how well they fit their reader among its team (`fits`) is part of that.
    With `worth`, the budget is only the most: what is critical has a reserve of its own, what is
    important a floor, and the rest is there where it pays.
    """
    # Whole days: otherwise entries would cross the line one by one, and no prompt's prefix would
    # last.
    edge = (now - 7 * DAY) // DAY * DAY
    page = Page(entries, agent, title, Scale(count), edge, only, commands, about or {}, fits)
    if worth is not None:
        page.shown_before = frozenset(shown(entries)) if shown and entries else None
        paying = _paying(page, agent, worth, budget)
        if budget is not None and paying.tokens > budget:
            paying = _cut(page, agent, budget)
        return paying._replace(budget=budget, encoding=encoding)
    view = page.everything(budget)
    if view is None:
        assert budget is not None  # without one, everything fits
        page.shown_before = frozenset(shown(entries)) if shown and entries else None
        view = _cut(page, agent, budget)
    return view._replace(budget=budget, encoding=encoding)


def _cut(page: Page, agent: Agent | None, budget: int) -> View:
    """Return the best view within a budget that not everything fits."""
    page.heavy = budget // 8
    room = budget - page.frame()
    chances = _chances(page, _kinds(page, agent), STATED) if page.about or page.fits else {}
    while room >= 0:
        view = page.finish(_filled(_tiers(page, room, chances), room))
        if view.tokens <= budget:
            return view
        # only where counts are bounds, or the last line's came out above its longest
        room -= view.tokens - budget
    view = page.last_line_only()
    if view.tokens <= budget:
        return view
    everything = page.everything(None)
    needed = min(view.tokens, everything.tokens) if everything else view.tokens
    message = f"the shortest view takes {needed} tokens, and the budget is {budget}"
    raise OverBudget(message, needed=needed, budget=budget)


# -- What pays -------------------------------------------------------------------------------------


def _paying(page: Page, agent: Agent | None, worth: Worth, budget: int | None) -> View:
    """Return the view of what is critical, of what is important as far as its floor goes, of a few
    decisions for everybody, and of the rest what is expected to save more than it costs.
    """
    page.sparse = True
    frame = page.frame()
    free = worth.criticals + worth.most if budget is None else budget
    chosen = _criticals(page, min(worth.criticals, free - frame))
    room = min(worth.most, free - sum(map(page.weight, chosen.values()))) - frame
    free = room - worth.least
    floor = _decisions(page, agent.rank if agent else 0, min(worth.decisions, free))
    floor |= _floor(page, min(worth.floor, free - sum(map(page.weight, floor.values()))))
    chosen |= floor
    room -= sum(map(page.weight, floor.values()))
    kinds = _kinds(page, agent)
    candidates = [
        candidate for candidate in _candidates(page, kinds, worth) if candidate.place not in floor
    ]
    choice = choose(candidates, worth, room)
    chosen |= {place: page.whole(place) for place in choice}
    room -= sum(candidate.tokens for candidate in candidates if candidate.place in choice)
    chosen |= _pointed(
        page,
        [candidate for candidate in candidates if candidate.best and candidate.place not in choice],
        room,
    )
    paid = {
        candidate.place
        for candidate in candidates
        if candidate.tokens <= worth.pays_up_to(candidate.chance) or candidate.best
    }
    page.reasons = {
        position: FULL if position in paid or page.entries[position].priority == CRITICAL else DEAR
        for position in range(len(page.entries))
        if position not in chosen
    }
    concern = {
        position for position, (kind, _) in kinds.items() if kind in (NAMED, ADDRESSED)
    } & paid
    in_full = {position for position, block in chosen.items() if block.form != POINTER}
    view = page.finish(chosen, {position: kind for position, (kind, _) in kinds.items()})
    return view._replace(unfit=len(concern - in_full))


def _criticals(page: Page, room: int) -> dict[int, Block]:
    """Return what is critical, whole, as far as the room goes: by authority, and the newest first.
    The first that was never shown to the agent is second at the latest, so that view after view
    comes to all of it. One that would take most of the room alone is a pointer, and so is the first
    that does not fit.
    """
    page.heavy = room // 2
    positions = [
        position
        for rank in _by_authority(page, page.shown(CRITICAL))
        for position in reversed(rank)
    ]
    owed = next(
        (
            position
            for position in page.unshown(positions)
            if page.offer(position).cost <= page.heavy
        ),
        None,
    )
    if owed is not None and owed not in positions[:2]:
        positions.remove(owed)
        positions.insert(1, owed)
    chosen: dict[int, Block] = {}
    remaining = room
    for position in positions:
        offer = page.offer(position)
        if offer.cost > page.heavy or offer.cost > remaining:
            offer = offer.fallback()
        if offer.cost > remaining:
            break
        chosen[position] = offer.block
        remaining -= offer.cost
    return chosen


def _floor(page: Page, room: int) -> dict[int, Block]:
    """Return what is important, whole, as far as the room goes: that of the last 7 days before the
    rest, by authority, and of equals the newest. It is cut in blocks.
    """
    page.heavy = max(room, 0) // 2
    ranks = [
        rank
        for positions in page.by_age(page.shown(IMPORTANT))
        for rank in _by_authority(page, positions)
    ]
    return _filled((_Tier(len(rank), page.offers(rank)) for rank in ranks), room)


def _decisions(page: Page, rank: int, room: int) -> dict[int, Block]:
    """Return the important decisions to all of the last 7 days, from an authority above this rank,
    whole, where all of them have room: a few are rules for everybody; many are a list from
    which the words choose. What has a topic is found by it.
    """
    recent, _ = page.by_age([*page.shown(IMPORTANT), *page.for_task])
    positions = [place for place in recent if _is_for_everybody(page.entries[place], rank)]
    if len(positions) * SMALL > room:
        return {}
    page.weigh_whole(positions)
    blocks = {place: page.whole(place) for place in positions}
    return blocks if sum(map(page.weight, blocks.values())) <= room else {}


def _is_for_everybody(entry: Entry, rank: int) -> bool:
    """Return whether an entry is a decision to all, of no topic, that binds an agent of a rank."""
    return (
        entry.priority == IMPORTANT
        and entry.namespace.split("/", 1)[0] == DECISIONS
        and entry.addressees == ("all",)
        and entry.authority > rank
        and not entry.topic
    )


def _pointed(page: Page, candidates: Iterable[Candidate], room: int) -> dict[int, Block]:
    """Return pointers to what a clause found and what has no room, as far as this room goes."""
    chosen: dict[int, Block] = {}
    for candidate in candidates:
        block = page.pointer(candidate.place)
        if page.weight(block) <= min(room, candidate.tokens):
            chosen[candidate.place] = block
            room -= page.weight(block)
    return chosen


def _kinds(page: Page, agent: Agent | None) -> dict[int, tuple[str, float]]:
    """Return the kind of each entry that is not critical, and the share of a clause that it
    holds.
    """
    names = agent.names if agent else frozenset[str]()
    kinds: dict[int, tuple[str, float]] = {}
    for position, entry in enumerate(page.entries):
        share, best = page.about.get(entry.seq, (0.0, False))
        if entry.priority == CRITICAL:
            continue
        if share:
            named = best and page.fit(position) > THEIRS
            kinds[position] = (NAMED if named else NEAR, share)
        elif not names.isdisjoint(entry.addressees):
            kinds[position] = (ADDRESSED, 1.0)
        else:
            kinds[position] = (IMPORTANT if entry.priority == IMPORTANT else STATUS, 1.0)
    return kinds


def _chances(page: Page, kinds: dict[int, tuple[str, float]], worth: Worth) -> dict[int, float]:
    """Return the chance of entries to be used. Of most of them their kind, fit and age tell that
    they do not pay: these are left out.
    """
    newer = dict.fromkeys(KINDS, 0)
    best = max(page.fits.values(), default=1.0)
    most = {kind: worth.paying(kind, max(best, 1.0)) for kind in KINDS}
    chances: dict[int, float] = {}
    for position in sorted(kinds, key=lambda place: (page.fit(place), place), reverse=True):
        kind, share = kinds[position]
        fit = page.fit(position)
        if kind in (NAMED, NEAR):
            chances[position] = worth.chance(kind, share, fit=fit)
        elif newer[kind] < most[kind] and (kind != STATUS or stands_whole(page.entries[position])):
            chances[position] = worth.chance(kind, newer=newer[kind], fit=fit)
            newer[kind] += 1
    return chances


def _candidates(
    page: Page, kinds: dict[int, tuple[str, float]], worth: Worth
) -> Iterator[Candidate]:
    """Yield what may pay, each with its price; what does not is neither made nor weighed."""
    chances = _chances(page, kinds, worth)
    page.weigh_whole(list(chances))
    for position, chance in chances.items():
        yield Candidate(
            position, page.weight(page.whole(position)), chance, kinds[position][0] == NAMED
        )


# -- What is chosen --------------------------------------------------------------------------------


class _Tier(NamedTuple):
    """Places that are kept or given up together, and what each would take, the newest first, made
    when asked for. Where they stand in the order of their `value`, one that does not fit makes room
    for the next, and nothing is cut in blocks.
    """

    size: int
    offers: Iterable[Offer]
    by_value: bool = False


def _filled(tiers: Iterable[_Tier], room: int) -> dict[int, Block]:
    """Return the entries that fit, each in its form. Tier after tier; the first that must be cut is
    the last.
    """
    chosen: dict[int, Block] = {}
    for tier in tiers:
        offers = (_fit_by_value if tier.by_value else _fit)(tier, room)
        chosen.update((offer.place, offer.block) for offer in offers)
        room -= sum(offer.cost for offer in offers)
        if len(offers) < tier.size:
            break
    return chosen


def _tiers(page: Page, room: int, chances: dict[int, float]) -> Iterator[_Tier]:
    """Yield what goes into a view, the dearest to its reader first: the order of sacrifice,
    backwards.

    What is critical stands by authority first, so that no flood of a lower one hides it: each is
    pointed at before anything of a lower authority. Of what its agent was never shown, the oldest
    of the highest authority is there whole wherever it leaves room for a pointer at what stands
    higher, so that one view after the other comes to all of them.
    """
    critical, important, info = (page.shown(priority) for priority in HEADINGS)
    recent, old = page.by_age(important)
    ranks = _by_authority(page, critical)
    first = None if page.shown_before is None else _owed(page, ranks, room)
    if first:
        yield _Tier(1, [first._replace(share=0)])
        ranks = [[position for position in rank if position != first.place] for rank in ranks]
    for rank in ranks:
        yield _short(page, rank)
    if chances:
        yield _by_value(page, [*page.for_task, *recent], chances)
    else:
        yield _Tier(len(recent), page.offers(recent))
    for rank in ranks:
        yield _upgrades(page, rank, room)
    yield _Tier(len(old), page.offers(old))
    yield _Tier(len(info), page.offers(info))


def _by_authority(page: Page, positions: list[int]) -> list[list[int]]:
    """Return these places by the authority of what stands there, the highest first."""
    ranks: dict[int, list[int]] = {}
    for position in positions:
        ranks.setdefault(page.entries[position].authority, []).append(position)
    return [ranks[rank] for rank in sorted(ranks, reverse=True)]


def _owed(page: Page, ranks: list[list[int]], room: int) -> Offer | None:
    """Return the oldest critical entry of the highest authority that the agent was never shown and
    that fits beside a pointer at the newest of those above it.
    """
    for rank in ranks:
        unshown = page.unshown(rank)
        for position in unshown:
            offer = page.offer(position)
            if offer.cost <= room:
                return offer
        if len(unshown) < len(rank):
            room -= min(room, page.offer(rank[-1]).short_cost)
    return None


def _short(page: Page, positions: list[int]) -> _Tier:
    """Return these critical entries in their short form."""
    return _Tier(len(positions), (offer.fallback() for offer in page.offers(positions, share=0)))


def _upgrades(page: Page, positions: list[int], room: int) -> _Tier:
    """Return these critical entries in their natural form. One that alone would burst the page
    stays a pointer, and costs the others nothing.
    """
    offers = [offer for offer in page.offers(positions) if offer.cost <= room]
    return _Tier(len(offers), [offer.upgrade() for offer in offers])


def _by_value(page: Page, positions: list[int], chances: dict[int, float]) -> _Tier:
    """Return what a task needs: of the likeliest, those first that are so for the fewest tokens."""
    likely = sorted(positions, key=lambda position: chances.get(position, 0.0))[-LIKELIEST:]
    offers = sorted(
        page.offers(likely),
        key=lambda offer: (-chances.get(offer.place, 0.0) / max(offer.cost, 1), -offer.seq),
    )
    return _Tier(len(positions), offers, True)


def _fit_by_value(tier: _Tier, room: int) -> list[Offer]:
    """Return the offers that fit, the first ones first; then pointers at the others, as far as
    there is room."""
    chosen: list[Offer] = []
    others: list[Offer] = []
    for offer in tier.offers:
        if offer.cost <= room:
            chosen.append(offer)
            room -= offer.cost
        else:
            others.append(offer)
    for offer in map(Offer.fallback, others):
        if offer.cost <= room:
            chosen.append(offer)
            room -= offer.cost
    return chosen


def _fit(tier: _Tier, room: int) -> list[Offer]:
    """Return the newest offers that fit. One too large for its share of the room falls back; else
    it would push out all that came before it. Nothing is looked at behind the first that does not
    fit in any form.
    """
    offers: list[Offer] = []
    total = least = 0
    for offer in tier.offers:
        offers.append(offer)
        total += offer.cost
        least += offer.short_cost if offer.cost * offer.share > room else offer.cost
        if least > room:
            break
    offers.reverse()
    if total <= room:
        return offers
    offers = [offer.fallback() if offer.cost * offer.share > room else offer for offer in offers]
    return offers[_first_kept(offers, room) :]


def _first_kept(offers: list[Offer], room: int) -> int:
    """Return where to cut: the index of the oldest offer that stays.

    Anything between what must go and what may go, down to 70 % of the room, would do; the cut is
    made before the roundest seq in that range. It stays the roundest while entries are added one by
    one, so the section keeps its beginning for a while, without any memory of earlier cuts.
    """
    first, total = len(offers), 0
    while first and total + offers[first - 1].cost <= room:
        first -= 1
        total += offers[first].cost
    if first in (0, len(offers)):
        return first
    last = first
    while last + 1 < len(offers) and total - offers[last].cost >= KEPT * room:
        total -= offers[last].cost
        last += 1
    cut = _roundest(offers[first - 1].seq, offers[last].seq)
    return next((index for index in range(first, last) if offers[index].seq >= cut), last)


def _roundest(low: int, high: int) -> int:
    """Return the number in (low, high] that the largest power of two divides."""
    zeros = max((low ^ high).bit_length() - 1, 0)
    return high >> zeros << zeros
