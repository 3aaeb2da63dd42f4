"""How many random examples a test is played with. Holds no test.

The suite plays a part of them, `make soak` all: `conftest.py` says which of the two runs.
"""

import pytest
from hypothesis import settings

PART, LEAST = 4, 25
whole = False  # whether this is `make soak`


def examples(many, part=PART, **how):
    """Return a decorator: so many examples in the soak, a quarter of them in the suite, or this
    part.
    """

    def decorate(test):
        if whole:
            return pytest.mark.soak(settings(max_examples=many, **how)(test))
        few = min(many, max(LEAST, many // part))
        return settings(max_examples=few, **how)(test)

    return decorate
