"""A method that meets a damaged index asks once more, of the one that is derived in its place."""

import pytest

from synapse.index.database import IndexDamaged
from synapse.index.reading import asks_again


@asks_again("sought")
class Index:
    """An index that turns out to be damaged so many times."""

    def __init__(self, times):
        self.times, self.asked = times, []

    def sought(self, word, *, limit=1):
        """Say what there is of it."""
        self.asked.append((word, limit))
        if len(self.asked) <= self.times:
            raise IndexDamaged("it is no database")
        return [word] * limit


@pytest.mark.parametrize("times", [0, 1])
def test_the_second_answer_counts(times):
    index = Index(times)
    assert index.sought("courier", limit=2) == ["courier", "courier"]
    assert index.asked == [("courier", 2)] * (times + 1)


def test_what_is_damaged_twice_is_an_error():
    index = Index(2)
    with pytest.raises(IndexDamaged):
        index.sought("courier")
    assert len(index.asked) == 2


def test_it_says_of_itself_what_it_did():
    assert Index.sought.__doc__ == "Say what there is of it."
