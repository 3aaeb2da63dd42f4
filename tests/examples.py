"""How many random examples a test is played with. Holds no test.

The suite plays a part of them, a few hundred at most, and `make soak` all: `conftest.py` says which
of the two runs.
"""

import pytest
from hypothesis import settings

PART, LEAST, MOST = 8, 25, 400
whole = False  # whether this is `make soak`


def examples(many, part=PART, **how):
    """Return a decorator: so many examples in the soak, an eighth of them in the suite, and there
    no fewer than 25 and no more than 400; or this part.
    """

    def decorate(test):
        if whole:
            return pytest.mark.soak(settings(max_examples=many, **how)(test))
        few = min(many, MOST, max(LEAST, many // part))
        return settings(max_examples=few, **how)(test)

    return decorate
