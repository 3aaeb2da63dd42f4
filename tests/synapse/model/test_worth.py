"""What pays: an entry is taken while what it is expected to save is more than it costs."""

from hypothesis import given
from hypothesis import strategies as st

from synapse.model.worth import IMPORTANT, KINDS, NAMED, SPREAD, Candidate, Worth, choose

WORTH = Worth(1_000.0, 10.0, dict.fromkeys(KINDS, 0.5), 2_000, 2_000, 100)
candidates = st.lists(
    st.tuples(st.integers(1, 300), st.floats(0, 1), st.booleans()), max_size=40
).map(lambda rows: [Candidate(place, *row) for place, row in enumerate(rows)])


def test_a_chance_falls_with_what_is_newer_and_with_what_is_missing():
    assert WORTH.chance(NAMED) == 0.5
    assert WORTH.chance(NAMED, match=0.8) == 0.4
    assert WORTH.chance(IMPORTANT, newer=SPREAD) == 0.25
    assert WORTH.chance("no such kind") == 0


def test_what_costs_more_than_it_saves_is_left_out():
    assert WORTH.pays_up_to(0.5) == 50
    assert choose([Candidate(0, 50, 0.5), Candidate(1, 51, 0.5)], WORTH, 2_000) == {0}


def test_the_best_of_a_clause_is_there_without_a_sum():
    dear = [
        Candidate(0, 60, 0.2, best=True),
        Candidate(1, 60, 0.1, best=True),
        Candidate(2, 60, 0.1),
    ]
    assert choose(dear, WORTH, 2_000) == {0}, "as far as its tokens go, the surest first"


@given(candidates, st.integers(-10, 400), st.integers(0, 200))
def test_the_room_is_kept_and_nothing_that_does_not_pay_is_bought(rows, room, least):
    worth = WORTH._replace(least=least)
    chosen = choose(rows, worth, room)
    taken = [each for each in rows if each.place in chosen]
    assert sum(each.tokens for each in taken) <= max(room, 0)
    unpaid = [each for each in taken if each.tokens > worth.pays_up_to(each.chance)]
    assert all(each.best for each in unpaid)
    assert sum(each.tokens for each in unpaid) <= least
    left = room - sum(each.tokens for each in taken)
    dropped = [
        each
        for each in rows
        if each.place not in chosen and each.tokens <= worth.pays_up_to(each.chance)
    ]
    assert all(each.tokens > left for each in dropped), "what pays and has room is there"
