"""A shell that acts as an agent gives nobody a key to the server: no token, no login."""

import os

import pytest

from synapse.trust.bearer import place

ACTS = [("token", "new", "eng-backend"), ("token", "new", "operator"), ("dashboard",)]


@pytest.mark.parametrize("words", ACTS, ids=" ".join)
@pytest.mark.parametrize("name", ["SYNAPSE_AGENT", "SYNAPSE_RUN"])
def test_an_agent_is_given_no_key(words, name, run, team, monkeypatch):
    monkeypatch.setenv(name, "eng-backend")
    done = run(*words)
    assert (done.code, done.out) == (4, "")
    assert (name in done.err, " may not " in done.err) == (True, True)
    assert not os.path.exists(place(str(team)))


@pytest.mark.parametrize("words", ACTS, ids=" ".join)
def test_a_person_is_not_refused(words, run, team):
    done = run(*words)
    assert " may not " not in done.err
    assert os.path.exists(place(str(team))) == (words[0] == "token")
