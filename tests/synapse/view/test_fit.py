"""What fits a section, and where it is cut: held against the same rule, spelled out at length."""

from itertools import pairwise, product

import pytest

from synapse.model.agents import Agent
from synapse.model.entry import SECOND, Entry
from synapse.model.worth import IMPORTANT, NAMED, NEAR, Worth
from synapse.view.block import POINTER, WHOLE, Block
from synapse.view.layout import Offer, Page, Scale
from synapse.view.view import (
    KEPT,
    _criticals,
    _first_kept,
    _fit,
    _roundest,
    _Tier,
    build,
)

DAY = 86_400 * SECOND
BLOCK, SHORT = Block("long", WHOLE), Block("short", POINTER)


def offer(seq, cost, short=1, share=2):
    return Offer(seq, seq, BLOCK, cost, SHORT, short, share)


def offers(costs, start=1, **more):
    return [offer(start + at, cost, **more) for at, cost in enumerate(costs)]


def test_the_roundest_number_has_the_largest_power_of_two():
    for low in range(40):
        for high in range(low + 1, 41):
            rounds = {number: number & -number for number in range(low + 1, high + 1)}
            best = max(rounds.values())
            assert rounds[_roundest(low, high)] == best


def cuts(given, room):
    """Return every cut whose rest fits and fills its share of the room, the oldest first."""
    sums = [sum(each.cost for each in given[at:]) for at in range(len(given) + 1)]
    first = next(at for at, total in enumerate(sums) if total <= room)
    found = [first]
    for at, (total, _) in enumerate(pairwise(sums)):
        if first <= at < len(given) - 1 and total - given[at].cost >= KEPT * room:
            found.append(at + 1)
        elif at >= first:
            break
    return found


@pytest.mark.parametrize("start", [1, 5, 30])
@pytest.mark.parametrize("room", [0, 1, 4, 7, 9, 10, 14, 20])
def test_a_section_is_cut_before_the_roundest_of_those_it_may_be_cut_before(
    room, start
):
    for costs in product((1, 3, 5), repeat=5):
        given = offers(costs, start)
        possible = cuts(given, room)
        cut = _first_kept(given, room)
        assert cut in possible
        assert sum(each.cost for each in given[cut:]) <= room
        if possible[0] in (0, len(given)):
            assert cut == possible[0]
        else:
            low = given[possible[0] - 1].seq
            roundest = _roundest(low, given[possible[-1]].seq)
            assert given[cut].seq >= roundest
            assert cut == possible[0] or given[cut - 1].seq < roundest


def taken(given, room):
    newest_first = _Tier(len(given), iter(reversed(given)))
    return [(each.seq, each.block.text) for each in _fit(newest_first, room)]


def test_what_fits_is_taken_in_the_order_of_the_log():
    assert taken(offers([2, 2, 2]), 6) == [(1, "long"), (2, "long"), (3, "long")]
    assert taken([], 6) == []


def test_one_too_large_for_its_share_falls_back():
    assert taken(offers([2, 7, 2]), 10) == [(1, "long"), (2, "short"), (3, "long")]
    # half of the room is its share
    assert taken(offers([5, 5, 5]), 10) == [(2, "long"), (3, "long")]
    assert taken(offers([6]), 10) == [(1, "long")]  # alone, it has all of the room


def test_one_without_a_share_takes_all_it_needs():
    assert taken(offers([2, 8], share=0), 9) == [(2, "long")]
    assert taken(offers([2, 8], share=0), 10) == [(1, "long"), (2, "long")]


def test_nothing_is_looked_at_behind_what_fits_in_no_form():
    looked = []

    def newest_first():
        for each in reversed(offers([1] * 20, short=1)):
            looked.append(each.seq)
            yield each

    _fit(_Tier(20, newest_first()), 5)
    assert looked == [20, 19, 18, 17, 16, 15]


def lengths(texts):
    return [len(text) for text in texts], False


@pytest.mark.parametrize(("age", "there"), [(7, True), (8, False)])
def test_what_is_older_than_seven_whole_days_leaves_before_the_rest(age, there):
    now = 1_769_904_000 * SECOND + 20 * DAY + 5 * SECOND

    def entry(number, at):
        return Entry(
            id=f"syn-2026-02-01-{number:03d}",
            timestamp="",
            author="eng",
            authority=60,
            at=at,
            seq=number,
            namespace="decisions/api",
            priority="important",
            body=f"Entry {number} says {'so ' * 30}",
            ttl="never",
        )

    # the later number is the older one by its time: age decides, and then the place
    usual, aged = entry(1, now - DAY), entry(2, (now - age * DAY) // DAY * DAY)
    one = build([usual], Agent("eng"), now, lengths).tokens
    built = build([usual, aged], Agent("eng"), now, lengths, one + 120)
    assert ("Entry 2" in built.markdown()) is there
    assert ("Entry 1" in built.markdown()) is not there


def critical(number, authority=60, size=100):
    return Entry(
        id=f"syn-2026-02-01-{number:03d}",
        timestamp="",
        author="eng",
        authority=authority,
        at=number,
        seq=number,
        namespace="decisions/api",
        priority="critical",
        body="x" * size,
        ttl="never",
    )


def bodies(texts):
    """Whole entries are as long as their bodies, pointers take ten."""
    return [10 if "`synapse" in text else text.count("x") for text in texts], False


def chosen(entries, room, known=()):
    page = Page(entries, Agent("eng"), None, Scale(bodies), 0, None, True, {})
    page.known = frozenset(known)
    found = _criticals(page, room)
    return {entries[position].seq: block.form for position, block in found.items()}


def test_of_what_is_critical_the_weighty_the_new_and_the_newest_come_first():
    entries = [critical(1), critical(2, 80), critical(3), critical(4)]
    assert chosen(entries, 200) == {2: WHOLE, 4: WHOLE}
    assert chosen(entries, 210) == {2: WHOLE, 4: WHOLE, 3: POINTER}
    assert chosen(entries, 300) == {2: WHOLE, 4: WHOLE, 3: WHOLE}
    assert chosen(entries, 200, known=(2, 4)) == {2: WHOLE, 3: WHOLE}
    assert chosen(entries, 200, known=(4,)) == {2: WHOLE, 3: WHOLE}
    assert chosen(entries, 400, known=(2, 4)) == dict.fromkeys((3, 1, 2, 4), WHOLE)
    assert chosen(entries, 5) == {}


def test_one_that_would_take_most_of_the_room_is_a_pointer():
    entries = [critical(1), critical(2, size=201)]
    assert chosen(entries, 400) == {2: POINTER, 1: WHOLE}
    assert chosen(entries, 402) == {2: WHOLE, 1: WHOLE}


@pytest.mark.parametrize(
    "about", [{}, {2: (1.0, True)}, {2: (0.5, False), 3: (1.0, True)}]
)
def test_what_is_left_out_is_counted_whether_the_task_asks_for_it_or_not(about):
    entries = [critical(number)._replace(priority="important") for number in (1, 2, 3)]
    built = build(entries, Agent("eng"), DAY, bodies, 15, about=about)
    assert "3 important" in built.markdown()
    whole = build(entries, Agent("eng"), DAY, bodies, about=about)
    assert [whole.markdown().count(entry.id) for entry in entries] == [1, 1, 1]


# -- what pays -------------------------------------------------------------------------------------

PAYS = Worth(1_000, 1.0, {IMPORTANT: 1.0, NAMED: 1.0, NEAR: 0.0}, 0, 10_000, 0)


def important(count, size=150):
    return [
        critical(number, size=size)._replace(priority="important")
        for number in range(1, count + 1)
    ]


def paid(entries, about=(), count=lengths, budget=None, **worth):
    return build(
        entries,
        Agent("eng"),
        DAY,
        count,
        budget,
        about=dict(about),
        worth=PAYS._replace(**worth),
    )


def forms(view):
    return {included.id[-3:]: included.form for included in view.included}


def test_the_frame_of_the_page_takes_of_the_room_for_what_pays():
    one, two = (paid(important(count)).tokens for count in (1, 2))
    shown = [len(forms(paid(important(2), most=most))) for most in range(two + 200)]
    first, second = shown.index(1), shown.index(2)
    assert shown == sorted(shown)
    assert (first >= one, second - first) == (True, two - one)
    assert forms(paid(important(2), most=first)) == {"002": WHOLE}


def test_what_a_clause_names_and_has_no_room_is_pointed_at():
    entries = important(3, size=400)
    about = [(seq, (1.0, True)) for seq in (1, 2)] + [(3, (1.0, False))]
    everything = paid(entries, about)
    assert forms(everything) == {"001": WHOLE, "002": WHOLE}
    tight = paid(entries, about, most=everything.tokens - 1)
    assert sorted(forms(tight).values()) == sorted((WHOLE, POINTER))
    assert tight.tokens < everything.tokens
    assert (tight.unfit, everything.unfit) == (1, 0)
    assert forms(paid(entries[2:], about[2:])) == {}


def test_what_is_dearer_than_what_it_saves_is_left_out():
    (entry,) = important(1)
    cost = paid([entry]).tokens - paid([]).tokens
    for saving, there in ((cost + 200, True), (10, False)):
        assert bool(forms(paid([entry], saving=saving))) is there
