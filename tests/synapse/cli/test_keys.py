"""Keys and personal data in the shell: what a person is told, in lines of 80 columns."""

import json
import os

from synapse.system import home


def test_keys_are_listed_in_a_table(team, run):
    assert "`synapse keys new AGENT` makes one" in run("keys").out
    ids = [run("keys", *act).out.split()[-1] for act in (["new", "eng-backend"], ["new"])]
    lines = run("keys", "list").out.splitlines()
    assert lines[0].split(maxsplit=4) == ["owner", "key", "state", "since", "private half"]
    assert [line.split()[:3] for line in lines[1:]] == [
        ["eng-backend", ids[0], "current"],
        ["@workspace", ids[1], "current"],
    ]
    assert max(map(len, lines)) <= 80
    listed = json.loads(run("keys", "list", "--json").out)["keys"]
    assert [(key["owner"], key["id"], key["here"]) for key in listed] == [
        ("eng-backend", ids[0], True),
        ("@workspace", ids[1], True),
    ]


def test_an_error_of_keys_says_what_to_do(team, run):
    done = run("keys", "rotate", "eng-backend")
    assert (done.code, "`synapse keys new eng-backend` makes one" in done.err) == (7, True)
    done = run("keys", "revoke", "eng-backend")
    assert (done.code, "`synapse keys list` lists them" in done.err) == (7, True)
    id = run("keys", "new", "eng-backend").out.split()[-1]
    for folder, _, names in os.walk(home.operator_home()):
        for name in names:
            if name == f"{id}.json":
                os.unlink(os.path.join(folder, name))
    assert run("keys", "list").out.splitlines()[1].endswith("not here")
    done = run("write", "--from", "eng-backend", "--namespace", "api/x", "text")
    assert (done.code, id in done.err) == (7, True)
    assert "`synapse keys rotate eng-backend` makes another key" in done.err
    assert run("keys", "rotate", "eng-backend").code == 0
    done = run("write", "--from", "eng-backend", "--namespace", "api/x", "text")
    assert done.code == 0


def test_how_long_personal_data_is_shown_is_told(team, run):
    for agent in ("eng-backend", "eng-frontend"):
        run("keys", "new", agent)
    words = ("write", "--from", "eng-backend", "--namespace", "api/x", "--to", "eng-frontend")
    done = run(*words, "--scope", "encrypted", "--pii", "Ask the tall one")
    id = done.out.strip()
    assert done.err == f"{id} holds personal data: it is shown for 24h\n"
    done = run(*words, "--scope", "encrypted", "--ttl", "3d", "ask maria.keller7@gmail.com")
    assert done.err.endswith("is shown for 3d\n")
    assert run(*words, "--scope", "encrypted", "Ask nobody").err == ""
    done = run(*words, "ask maria.keller7@gmail.com")
    assert (done.code, "was masked before it was stored (e-mail address)" in done.err) == (0, True)
    words = ("send", "--from", "eng-backend", "--to", "eng-frontend", "--pii", "Ask the tall one")
    assert run(*words).code == 7
    done = run(*words, "--scope", "encrypted")
    assert (done.code, done.err.endswith("is shown for 24h\n")) == (0, True)


def test_a_shell_that_acts_as_an_agent_revokes_nothing(team, run, wrote, monkeypatch):
    wrote()
    monkeypatch.setenv("SYNAPSE_AGENT", "junior")
    done = run("revoke", "eng-backend", "--reason", "x")
    assert (done.code, "env -u SYNAPSE_AGENT" in done.err) == (4, True)
