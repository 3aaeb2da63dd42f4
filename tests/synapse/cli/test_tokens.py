"""The verb `token`: what it makes is good, and for as long as was said."""

import json

from synapse.model import clock
from synapse.trust.bearer import TokenFile, new_token, place


def test_a_token_ends_when_it_was_said(run, team):
    before = clock.now()
    for agent in ("eng-backend", "eng-frontend"):  # the file stays readable
        made = run("token", "new", agent, "--expires", "30d", "--json")
        assert made.code == 0, made.err
        token = TokenFile(place(str(team))).find(json.loads(made.out)["token"])
        assert token.agent == agent
        span = token.expires - before
        assert 30 * clock.DAY - clock.DAY < span <= 31 * clock.DAY


def test_a_list_says_which_tokens_have_expired(run, team):
    run("token", "new", "eng-backend", "--expires", "30d")
    new_token(place(str(team)), "eng-frontend", expires=clock.now() - clock.DAY)
    good, over = run("token", "list").out.splitlines()
    assert "  until 2" in good
    assert "  expired 2" in over
