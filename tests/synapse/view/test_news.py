"""What is new on a page: whole, as pointers, or counted in its last line."""

from synapse.model.entry import Entry
from synapse.view import news
from synapse.view.block import pointer, whole


def entry(number, size=10):
    return Entry(
        id=f"syn-2026-02-01-{number:03d}",
        timestamp="2026-02-01T00:00:00Z",
        author="eng",
        authority=60,
        at=0,
        seq=number,
        namespace="decisions/api",
        priority="important",
        body=f"{number} " + "x" * size,
        ttl="never",
    )


def weigh(texts):
    """Whole entries are as long as their bodies, pointers three."""
    return [3 if "`synapse" in text else text.count("x") for text in texts]


def fitted(sizes, room, batch=100):
    entries = [entry(number, size) for number, size in enumerate(sizes, 1)]
    batches = [entries[at : at + batch] for at in range(0, len(entries), batch)]
    whole_ones, pointers, used = news._fit(iter(batches), weigh, room)
    return [each.seq for each in whole_ones], [each.seq for each in pointers], used


def test_forms_are_weighed_as_they_are_here():
    (one,) = weigh([whole(entry(1, 50)).text])
    (short,) = weigh([pointer(entry(1, 5_000)).text])
    assert (one, short) == (50, 3)


def test_all_that_fits_is_whole():
    assert fitted([10, 10, 10], 30) == ([1, 2, 3], [], 30)
    assert fitted([], 30) == ([], [], 0)


def test_from_the_first_that_does_not_fit_on_the_rest_are_pointers():
    assert fitted([10, 10, 10, 1], 29) == ([1, 2], [3, 4], 26)
    assert fitted([10, 10, 10, 1], 22) == ([1, 2], [], 20)
    assert fitted([10, 10, 10, 1], 23) == ([1, 2], [3], 23)


def test_one_that_could_never_fit_costs_the_others_nothing():
    assert fitted([10, 31, 10], 30) == ([1, 3], [2], 23)
    assert fitted([10, 30, 10], 30) == ([1], [2, 3], 16)


def test_no_more_is_read_than_pointers_could_take():
    read = []

    def batches():
        for number in range(50):
            read.append(number)
            yield [entry(number + 1, 1_000 - 5 * news._LEAST)]

    news._fit(batches(), weigh, 1_000)
    # one stands whole, five may stand as pointers, and the sixth is one too many
    assert len(read) == 7
