"""Questions of time from the shell."""

import json

import pytest


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


@pytest.mark.parametrize(
    ("words", "name"),
    [(["log"], "log"), *((words, "moments") for words in (["recent"], ["what-did", "eng-backend"], ["timeline", "site"]))],
)  # fmt: skip
def test_older_ones_are_asked_for_by_what_is_named(wrote, run, words, name):
    for n in range(5):
        wrote(f"step {n}", namespace="status/site")
    whole = json.loads(run(*words, "--json", "--limit", "0").out)
    assert whole["next"] is None
    said = run(*words, "--limit", "2")
    older = said.err.removeprefix("there are older ones: ").split()
    page, before = (
        json.loads(run(*words, "--json", "--limit", "2", *more).out) for more in ([], older)
    )
    assert older == ["--before", page["next"]]
    rows = page[name] + before[name] if words == ["recent"] else before[name] + page[name]
    assert rows == (whole[name][:4] if words == ["recent"] else whole[name][-4:])


def test_nothing_is_said_so(team, run):
    assert run("recent").out == "nothing was written\n"
    assert run("timeline", "site").out == "nothing of site that you may see\n"
    assert run("what-did", "nobody").code == 3
    assert run("recent", "--kind", "rumour").code == 64
