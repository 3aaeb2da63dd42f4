"""A task becomes a run, or is answered by one that did that work already."""

import pytest

from orchestrator.run_store.admission import RECENT
from synapse.model.entry import SECOND


def done(seen):
    return "Done."


@pytest.mark.parametrize(("later", "repeated"), [(-1, True), (0, False), (1, False)])
def test_the_answer_of_a_run_that_ended_lately_is_given_again(world, later, repeated):
    here = world(done)
    first = here.spawn("Work", "eng-a")
    ended = here.run(first).fields["ended_at"]
    here.time.elapsed += (ended + RECENT - here.time()) / SECOND + later
    again = here.spawn("Work", "eng-a")
    assert again.repeated is repeated
    assert (again.run == first.run) is repeated
