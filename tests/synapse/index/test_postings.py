"""Sums of entries as bits, against the same sums one by one."""

from hypothesis import given
from hypothesis import strategies as st

from synapse.index.postings import best, bits, newest, scaled, total

SETS = st.sets(st.integers(0, 200))
NUMBERS = st.lists(st.tuples(st.integers(0, 900), SETS), max_size=9)


def one_by_one(numbers):
    return {place: sum(number for number, held in numbers if place in held) for place in range(201)}


def sums(planes):
    return {
        place: sum((plane >> place & 1) << rank for rank, plane in enumerate(planes))
        for place in range(201)
    }


def planes_of(numbers):
    return total((number, bits(held)) for number, held in numbers)


@given(SETS, st.integers(0, 300))
def test_places_are_the_newest_first(seqs, count):
    assert newest(bits(seqs), count) == sorted(seqs, reverse=True)[:count]
    assert bits(seqs).bit_count() == len(seqs)


@given(NUMBERS)
def test_what_an_entry_has_is_summed_up(numbers):
    assert sums(planes_of(numbers)) == one_by_one(numbers)


@given(NUMBERS, st.integers(0, 15), st.integers(0, 15), SETS)
def test_sums_are_taken_times_a_factor(numbers, one, other, half):
    factors = [(one, bits(half)), (other, ((1 << 201) - 1) ^ bits(half))]
    expected = {
        place: value * (one if place in half else other)
        for place, value in one_by_one(numbers).items()
    }
    assert sums(scaled(planes_of(numbers), factors)) == expected


@given(NUMBERS, SETS, st.integers(1, 60))
def test_the_best_are_those_with_the_highest_sums(numbers, among, count):
    chosen, equals = best(planes_of(numbers), bits(among), count)
    values = one_by_one(numbers)
    sure, ties = set(newest(chosen, 999)), set(newest(equals, 999))
    assert sure | ties <= among
    assert not sure & ties
    assert len(sure) <= count
    rest = among - sure - ties
    assert len({values[place] for place in ties}) <= 1
    ranked = sorted((values[place] for place in among), reverse=True)
    assert sorted((values[place] for place in sure), reverse=True) == ranked[: len(sure)]
    if ties:
        assert len(sure) + len(ties) > count
        assert all(values[place] < min(values[tied] for tied in ties) for place in rest)
    else:
        assert len(sure) == min(count, len(among))
