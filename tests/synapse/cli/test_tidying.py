"""`synapse defrag` and `synapse undo`: what would be done, what was, and taking it back."""

import json

import pytest

from synapse import cli


@pytest.fixture
def run(tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("SYNAPSE_AGENT", raising=False)
    monkeypatch.delenv("SYNAPSE_RUN", raising=False)

    def run(*words):
        capsys.readouterr()
        code = cli.main([words[0], "--root", str(tmp_path / "shared"), *words[1:]])
        told = capsys.readouterr()
        return (told.out if not code else f"exit {code}: {told.err}").strip()

    run("init", str(tmp_path / "shared"))
    run("register", "--id", "a", "--read", "*", "--write", "*")
    run("write", "--from", "a", "--namespace", "api", "port 1")
    old = run("write", "--from", "a", "--namespace", "api", "port 2").split()[0]
    run("write", "--from", "a", "--namespace", "api", "--supersedes", old, "port 3")
    run.old = old
    return run


def test_a_plan_says_what_and_why_and_does_nothing(run):
    told = run("defrag", "--plan")
    assert f"would file away {run.old}: superseded by syn-" in told
    assert "\n" not in told
    assert run("defrag", "--plan") == told
    assert "past its time" in run("defrag", "--plan", "--phase", "archive", "--as-of", "2100-01-01")
    assert run("defrag", "--plan", "--phase", "archive") == "nothing to do"


def test_defrag_says_what_it_did_and_undo_takes_it_back(run):
    done = json.loads(run("defrag", "--json"))["acts"]
    assert [
        (act["kind"], act["reason"], [entry["id"] for entry in act["entries"]]) for act in done
    ] == [("archive", "superseded", [run.old])]
    assert run("defrag").startswith("nothing to file away; views/ and changelog/ are those of 20")
    assert run.old in run("read", "--archived")
    assert f"back  {run.old}" in run("undo", str(done[0]["act"]))
    assert f"away  {run.old}" in run("undo", "last")
    assert json.loads(run("undo", "last", "--json"))["undo"]["back"] == [run.old]
    assert "undid" in run("log")


@pytest.mark.parametrize(
    "words", [("--phase", "sleep"), ("--as-of", "7d"), ("--plan", "--as-of", "someday")]
)
def test_what_cannot_be_is_refused(run, words):
    assert run("defrag", *words).startswith("exit")


def test_there_is_nothing_to_undo_yet(run):
    assert "to undo" in run("undo", "last")


def test_stats_tell_of_the_nights(run):
    assert "no night yet" in run("stats")
    run("defrag")
    told = run("stats")
    assert told.splitlines()[0] == "entries"
    assert max(map(len, told.splitlines())) <= 80
    (night,) = json.loads(run("stats", "--json"))["nights"]
    assert (night["filed"], night["written"]) == (1, 3)
    assert {row["name"] for row in night["namespaces"]} == {"api", "system/changelog"}


def test_the_night_of_a_date_is_run_once(run):
    assert run.old in run("defrag", "--date", "2026-02-03")
    assert "the maintenance of 2026-02-03 is done" in run("defrag", "--date", "2026-02-03")
    assert run("defrag").startswith("nothing to file away")
    assert run("undo", "2026-02-03").startswith("undo")
    for words in (
        ("--date", "2026-02-04", "--plan"),
        ("--date", "2999-01-01"),
        ("--date", "tomorrow"),
    ):
        assert run("defrag", *words).startswith("exit 64")


def test_stats_warn_of_namespaces_that_are_hard_to_follow(run):
    run("write", "--from", "a", "--namespace", "a/b/c/d", "deep")
    assert "warning: a/b/c/d is deeper than 3 levels" in run("stats")
    assert json.loads(run("stats", "--json"))["warnings"] == ["a/b/c/d is deeper than 3 levels"]


def test_undo_last_takes_back_what_was_done_last(run):
    run("defrag")
    (live,) = [
        entry["id"]
        for entry in json.loads(run("read", "--namespace", "api", "--json", "--limit", "1"))[
            "entries"
        ]
    ]
    run("archive", "--from", "operator", live)
    plan = run("undo", "last", "--plan")
    assert plan.startswith("would undo: 1 came back")
    assert f"operator archived {live}: archived by hand" in plan
    assert f"back  {live}" in run("undo", "last")
    assert live in run("read", "--namespace", "api")
    number = json.loads(run("audit", "--entry", live, "--json"))["audit"][-1]["seq"]
    assert f"away  {live}" in run("undo", str(number))
    assert "no way to undo act 1 (agent by operator)" in run("undo", "1")


def test_undo_from_an_agent_takes_back_its_own(run):
    live = run("write", "--from", "a", "--namespace", "api", "port 4").split()[0]
    run("resolve", "--from", "a", live)
    run("register", "--id", "b", "--read", "*", "--write", "*")
    assert run("undo", "--from", "b", "last").startswith("exit 3")
    assert f"shown {live}" in run("undo", "--from", "a", "last")


def test_a_forgotten_fact_is_found_again(run):
    fact = run("remember", "--from", "a", "resets at noon").split()[0]
    run("forget", "--from", "a", fact)
    assert f"a forgot {fact}" in run("audit")
    assert f"shown {fact}" in run("undo", "last")
    assert fact in run("search", "noon")


def test_a_defrag_with_nothing_to_file_writes_views_and_changelog(run, tmp_path):
    run("defrag")
    views, pages = tmp_path / "shared" / "views", tmp_path / "shared" / "changelog"
    run("write", "--from", "a", "--namespace", "api", "--priority", "critical", "BREAKING: port 5")
    before = json.loads(run("audit", "--json"))["audit"]
    assert run("defrag").startswith("nothing to file away; views/ and changelog/ are those of ")
    assert "BREAKING: port 5" in (views / "a.md").read_text()
    (page,) = pages.glob("*.md")
    assert "BREAKING: port 5" in page.read_text()
    (night,) = json.loads(run("stats", "--json"))["nights"][-1:]
    assert (night["filed"], night["written"]) == (0, 1)
    after = json.loads(run("audit", "--json"))["audit"][len(before) :]
    assert {act["kind"] for act in after} == {"night"}, "no entry tells of it"
    run("register", "--id", "new", "--read", "*")
    assert run("defrag", "--phase", "archive") == "nothing to file away"
    assert not (views / "new.md").exists()
    run("defrag")
    assert (views / "new.md").exists(), "an agent that came since has its view"


def test_the_night_of_a_date_that_files_nothing_away_says_what_it_did(run):
    run("defrag")
    assert run("defrag", "--date", "2026-02-05").startswith(
        "nothing to file away; views/ and changelog/ are those of"
    )
    assert json.loads(run("defrag", "--date", "2026-02-06", "--json")) == {"acts": []}
