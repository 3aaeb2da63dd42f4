"""Questions of time from the shell."""

import json


def test_the_three_questions(wrote, run):
    id = wrote("the page is up", namespace="status/site")
    lines = run("recent").out.splitlines()
    assert lines[0].endswith(" UTC")
    assert lines[1].endswith(f"eng-backend entry {id} status/site: the page is up")
    assert (
        f"eng-backend wrote {id} status/site: the page is up" in run("what-did", "eng-backend").out
    )
    assert id in run("timeline", "site").out
    found = json.loads(run("timeline", "site", "--json").out)["moments"]
    assert [(each["id"], each["by"]) for each in found] == [(id, "eng-backend")]


def test_nothing_is_said_so(team, run):
    assert run("recent").out == "nothing was written\n"
    assert run("timeline", "site").out == "nothing of site that you may see\n"
    assert run("what-did", "nobody").code == 3
    assert run("recent", "--kind", "rumour").code == 64
