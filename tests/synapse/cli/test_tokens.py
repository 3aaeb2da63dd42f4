"""The verb `token`: what it makes is good, and for as long as was said."""

import json

from synapse.bearer import TokenFile, place
from synapse.model import clock


def test_a_token_ends_when_it_was_said(run, team):
    before = clock.now()
    for agent in ("eng-backend", "eng-frontend"):  # the file stays readable
        made = run("token", "new", agent, "--expires", "30d", "--json")
        assert made.code == 0, made.err
        token = TokenFile(place(str(team))).find(json.loads(made.out)["token"])
        assert token.agent == agent
        span = token.expires - before
        assert 30 * clock.DAY - clock.DAY < span <= 31 * clock.DAY
