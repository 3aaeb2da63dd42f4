"""Knowledge from the shell: keeping, linking, forgetting, and asking why."""

import json

import pytest


@pytest.fixture
def known(team, run):
    def known(*words):
        done = run(*words, "--from", "eng-backend")
        assert done.code == 0, done.err
        return done.out.strip()

    return known


def test_a_fact_is_kept_and_found_and_forgotten(known, run):
    id = known(
        "remember", "the sandbox resets at noon", "--categories", "env,time", "--importance", "2"
    )
    assert id.startswith("fact_")
    found = json.loads(run("read", "--json", id).out)["entries"][0]
    own = found["more"]
    assert (found["kind"], own["categories"], own["importance"]) == ("fact", ["env", "time"], 2)
    assert id in run("search", "sandbox").out
    done = run("forget", "--from", "eng-backend", id, "--reason", "it moved")
    assert (done.code, done.out) == (0, f"forgot {id}; it stays in the log\n")
    assert id not in run("search", "sandbox").out
    assert "it moved" in run("log").out


def test_atoms_are_linked_and_trailed(known, run):
    first = known("atom", "deploy", "skipped the migration", "login failed", "two hours of outage")
    second = known("atom", "support", "was flooded", "answers took a day")
    assert (
        known("link", first, second, "--type", "enables", "--strength", "0.8")
        == f"{first} enables {second} (0.8)"
    )
    fact = known("remember", "migrate before you deploy", "--cites", second)
    lines = run("why", fact).out.splitlines()
    assert [line.split()[0] for line in lines] == ["fact", "made", "enables"]
    assert first in lines[2]
    trail = json.loads(run("why", "--json", fact).out)
    assert trail["sources"][0]["sources"][0]["id"] == first


def test_what_is_wrong_is_said(known, run, team):
    for words, code, what in (
        (("remember", "x", "--importance", "much"), 2, "'much' is not a number"),
        (("remember", "x", "--confidence", "7"), 1, "confidence 7.0 is not between 0 and 1"),
        (("remember", "x", "--scope", "global"), 1, "global_write"),
        (("remember", "x", "--cites", "fact_000000000000"), 1, "there is no entry"),
        (("link", "fact_000000000000", "atom_000000000000"), 1, "there is no entry"),
        (("forget", "syn-2026-01-01-001"), 1, "there is no entry"),
        (("why", "nothing"), 1, "nothing"),
    ):
        done = run(*words, *(() if words[0] == "why" else ("--from", "eng-backend")))
        assert (done.code != 0, done.code == code or done.code > 1) == (True, True), words
        assert what in done.err, words


def test_nobody_in_particular_remembers_nothing(team, run):
    assert run("remember", "x").code == 64
    assert run("remember", "x", "--from", "operator").code != 0
