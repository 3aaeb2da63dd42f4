"""Where the tokens or the money of a run are limited."""

import pytest


def done(seen):
    return "Done."


@pytest.mark.parametrize(
    ("own", "bounded"),
    [
        ({}, False),
        ({"max_tokens": 100_000}, True),
        ({"max_usd": 1.0}, True),
        ({"timeout": 60}, False),
    ],
)
def test_a_run_is_bounded_where_its_tokens_are(world, own, bounded):
    here = world(done)
    result = here.spawn("Work", "eng-a", **own)
    run = here.run(result)
    assert here.supervisor.run_store.costs.bounded(run) is bounded
