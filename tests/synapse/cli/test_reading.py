import json
import os
import pty
import subprocess
import sys
import termios

import pytest

from synapse.cli import alias


def entries(done):
    assert done.code == 0, done.err
    return [entry["body"] for entry in json.loads(done.out)["entries"]]


def test_read_lists_newest_first(wrote, run):
    first, second = wrote("first"), wrote("second", "--tags", "api")
    lines = run("read").out.splitlines()
    assert lines[0].startswith(f"{second} info api/endpoints eng-backend 20")
    assert lines[1:4] == ["    [tags api]", "    second", ""]
    assert lines[4].startswith(f"{first} info")
    assert lines[-1].startswith("-- 2 of 2 visible; cursor ")


def test_an_empty_page_is_verifiable(team, run):
    done = run("read", "--agent", "eng-frontend")
    assert done.code == 0
    assert done.out.startswith("-- 0 of 0 visible; cursor ")
    found = json.loads(run("read", "--json").out)
    assert sorted(found) == ["cursor", "entries", "matched", "visible"]
    assert (found["entries"], found["matched"], found["visible"]) == ([], 0, 0)


def test_json_has_the_fields_that_others_build_on(wrote, run):
    wrote()
    entry = json.loads(run("read", "--agent", "eng-frontend", "--json").out)["entries"][0]
    promised = (
        "id from to timestamp namespace priority ttl tags topic supersedes related trust body"
    ).split()
    assert set(promised) <= set(entry)


def test_an_agent_reads_what_it_subscribes_to(wrote, run):
    wrote("for all")
    wrote("for the lead", "--to", "agent:pl-brain")
    wrote("hidden away", namespace="status/x", who="eng-backend")
    assert run("register", "--id", "narrow", "--read", "api/*", "--write", "").code == 0
    assert entries(run("read", "--agent", "narrow", "--json")) == ["for all"]
    assert entries(run("read", "--agent", "pl-brain", "--json")) == [
        "hidden away",
        "for the lead",
        "for all",
    ]
    assert len(entries(run("read", "--json"))) == 3
    found = json.loads(run("read", "--agent", "narrow", "--json").out)
    assert (found["matched"], found["visible"]) == (1, 1)


def test_entries_by_id_come_with_the_same_counts(wrote, run):
    first, _ = wrote("one"), wrote("two")
    found = json.loads(run("read", first, "--json").out)
    page = json.loads(run("read", "--json").out)
    assert (found["cursor"], found["matched"], found["visible"]) == (page["cursor"], 1, 1)


def test_filters(wrote, run):
    wrote("one", "--priority", "critical", "--tags", "db")
    wrote("two", "--priority", "important", who="pl-brain")
    wrote("three", namespace="status/web")
    read = ("read", "--json")
    assert entries(run(*read, "--priority", "important,critical")) == ["two", "one"]
    assert entries(run(*read, "--priority", "critical")) == ["one"]
    assert entries(run(*read, "--namespace", "api/*")) == ["two", "one"]
    assert entries(run(*read, "--namespace", "status/web")) == ["three"]
    assert entries(run(*read, "--author", "pl-brain")) == ["two"]
    assert entries(run(*read, "--from", "pl-brain")) == ["two"]
    assert entries(run(*read, "--tag", "db")) == ["one"]
    assert entries(run(*read, "--since", "1h")) == ["three", "two", "one"]
    assert entries(run(*read, "--since", "2200-01-01")) == []


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (("--since", "once"), "write 24h, 7d, 2026-02-01, yesterday"),
        (("--priority", "high"), "critical, important, info"),
        (("--namespace", "../*"), "pattern"),
        (("--limit", "-1"), "whole number"),
        (("--agent", "nobody", "--nonsense"), "--nonsense"),
    ],
)
def test_a_filter_that_cannot_be_read_is_refused(team, run, more, told):
    done = run("read", *more)
    assert (done.code, done.out) == (64, "")
    assert told in done.err


@pytest.mark.parametrize(
    "verb",
    ["read", "search text", "recent", "log", "audit", "what-did eng-backend", "timeline web"],
)
def test_since_takes_phrases_everywhere(wrote, run, verb):
    id = wrote("text", namespace="blockers/web")
    for phrase in ("yesterday", "last tuesday", "3 days ago"):
        done = run(*verb.split(), "--since", phrase)
        assert (done.code, done.err) == (0, "")
        assert id in done.out
    assert run(*verb.split(), "--since", "once").code == 64


def test_the_limit(wrote, run):
    for n in range(55):
        wrote(str(n))
    assert len(entries(run("read", "--json"))) == 50
    assert entries(run("read", "--json", "--limit", "2")) == ["54", "53"]
    assert len(entries(run("read", "--json", "--limit", "0"))) == 55
    assert "50 of 55 visible" in run("read").out
    assert "--limit 0 shows all" in run("read").out


def test_single_entries_are_shown_whole(wrote, run):
    long = wrote("\n".join(f"line {n}" for n in range(40)))
    assert "... 28 more lines" in run("read").out
    done = run("read", long)
    assert done.out.splitlines()[-1] == "    line 39"
    assert "-- " not in done.out
    assert (
        entries(run("read", "--json", long, long))
        == ["\n".join(f"line {n}" for n in range(40))] * 2
    )


def test_what_an_agent_may_not_see_is_not_there(wrote, run):
    secret = wrote("for the lead", "--to", "agent:pl-brain")
    refused = run("read", secret, "--agent", "eng-frontend")
    missing = run("read", "syn-2020-01-01-001", "--agent", "eng-frontend")
    assert (refused.code, missing.code) == (3, 3)
    assert refused.out == ""
    assert "for the lead" not in refused.err
    assert run("read", secret, "--agent", "pl-brain").code == 0


def test_a_search_for_nothing_is_none(wrote, run):
    wrote()
    done = run("search", "--limit", "0", "users")
    assert (done.code, done.out) == (64, "")
    assert "'0' is not a whole number above 0" in done.err
    assert "1 found" in run("search", "--limit", "1", "users").out


def test_an_unknown_agent_is_told_how_to_register(team, run):
    done = run("read", "--agent", "nobody")
    assert done.code == 3
    assert "synapse register --id nobody" in done.err


def test_archived_shows_only_what_is_archived(wrote, run):
    old, _ = wrote("old"), wrote("new")
    assert run("archive", "--from", "eng-backend", old).code == 0
    assert entries(run("read", "--json")) == ["new"]
    assert entries(run("read", "--json", "--archived")) == ["old"]
    assert "(archived)" in run("read", "--archived").out


def test_mark_counts_as_shown(wrote, run):
    wrote()
    assert run("unread", "--agent", "eng-frontend").out == "1\n"
    run("read", "--agent", "eng-frontend")
    assert run("unread", "--agent", "eng-frontend").out == "1\n"
    run("read", "--agent", "eng-frontend", "--mark")
    assert run("unread", "--agent", "eng-frontend").out == "0\n"
    assert run("read", "--mark", "syn-2020-01-01-001").code == 64


def test_a_plain_read_writes_nothing(wrote, run, team):
    wrote()
    before = {path: path.stat().st_mtime_ns for path in (team / "journal").iterdir()}
    run("read", "--agent", "eng-frontend")
    assert {path: path.stat().st_mtime_ns for path in (team / "journal").iterdir()} == before


def test_controls_are_spelled_out(wrote, run):
    wrote("\x1b]0;owned\x07 evil\u202etxt")
    assert "\\x1b]0;owned\\x07 evil\\u202etxt" in run("read").out
    assert run("read", "--json").out.rstrip("\n").isprintable()
    assert entries(run("read", "--json")) == ["\x1b]0;owned\x07 evil\u202etxt"]


def test_synapse_read_is_the_concatenated_markdown(wrote, run, monkeypatch, capsys):
    for n in range(60):
        wrote(f"body {n}")
    monkeypatch.setattr("sys.argv", ["synapse-read", "--agent", "eng-frontend", "--since", "24h"])
    assert alias("synapse-read") == 0
    out = capsys.readouterr().out
    assert out.count("\nfrom: eng-backend\n") == 60
    assert out.startswith("---\nid: syn-")
    assert "\n---\n\nbody 59\n" in out


def test_synapse_read_says_its_own_name(run, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["synapse-read", "--help"])
    assert alias("synapse-read") == 0
    assert capsys.readouterr().out.startswith("usage: synapse-read [-h]")


def test_search_finds_and_ranks(wrote, run):
    wrote("the users endpoint moved to /v2/users")
    wrote("certificates renewed")
    done = run("search", "users", "endpoint", "--agent", "eng-frontend")
    assert done.code == 0
    assert "users" in done.out
    assert "the users endpoint" in done.out.splitlines()[1]
    # the other one stands in api/endpoints
    assert done.out.splitlines()[-1] == "-- 2 found"
    found = json.loads(run("search", "--json", "users").out)
    assert [entry["body"] for entry in found["entries"]] == [
        "the users endpoint moved to /v2/users"
    ]
    assert {"score", "excerpt", "marks"} <= set(found["entries"][0])
    assert found["partial"] is False
    assert run("search", "nothing").out == "-- 0 found\n"


def test_search_sees_no_more_than_reading(wrote, run):
    wrote("the users endpoint", "--to", "agent:pl-brain")
    assert (
        json.loads(run("search", "--json", "users", "--agent", "eng-frontend").out)["entries"] == []
    )
    assert (
        len(json.loads(run("search", "--json", "users", "--agent", "pl-brain").out)["entries"]) == 1
    )


def test_on_a_terminal_pages_are_folded_and_safe(wrote):
    wrote("\x1b]0;owned\x07 " + "word " * 40)
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 60))
    subprocess.run([sys.executable, "-m", "synapse.cli", "read"], stdout=theirs, check=True)
    os.close(theirs)
    text = os.read(ours, 1 << 16).decode()
    os.close(ours)
    lines = text.replace("\r\n", "\n").splitlines()
    assert "\x1b" not in text
    assert lines[1].startswith("    \\x1b]0;owned\\x07 word")
    assert max(map(len, lines[1:-1])) <= 60
    assert text.count("word") == 40


def test_a_single_entry_says_what_became_of_it(team, run):
    old = json.loads(
        run("write", "--from", "eng-backend", "--namespace", "api/x", "--json", "first").out
    )["id"]
    new = json.loads(
        run(
            "write",
            "--from",
            "eng-backend",
            "--namespace",
            "api/x",
            "--supersedes",
            old,
            "--json",
            "then",
        ).out
    )
    assert f"-- not shown: superseded by {new['id']}" in run("read", old).out
    assert "not shown" not in run("read", new["id"]).out
    fate = json.loads(run("read", old, "--json").out)["entries"][0]["fate"]
    assert (fate["reason"], fate["by"]) == ("superseded", new["id"])
    run("resolve", new["id"], "--from", "eng-backend")
    assert "-- not shown: resolved by eng-backend" in run("read", new["id"]).out


def test_unread_is_what_was_not_shown(wrote, run):
    info, critical = wrote("old news"), wrote("it breaks", "--priority", "critical")
    ask = ("read", "--agent", "eng-frontend", "--unread")
    lines = run(*ask).out.splitlines()
    assert [line for line in lines if line.startswith("  >")] == ["  > it breaks", "  > old news"]
    assert lines[-1].startswith("-- 2 of 2 unread, 2 matching; cursor ")
    assert run("unread", "--agent", "eng-frontend").out == "2\n"
    part = json.loads(run(*ask, "--limit", "1", "--mark", "--json").out)
    assert [entry["id"] for entry in part["entries"]] == [critical]
    assert (part["visible"], part["left"], part["pointers"]) == (
        2,
        {"critical": 0, "important": 0, "info": 1},
        [],
    )
    assert info in run(*ask, "--mark").out
    done = run(*ask, "--mark")
    assert (done.code, done.out.startswith("-- 0 of 0 unread, 2 matching; cursor ")) == (0, True)


def test_unread_knows_its_agent_from_the_environment(wrote, run, monkeypatch):
    wrote("news")
    monkeypatch.setenv("SYNAPSE_AGENT", "eng-frontend")
    assert "> news" in run("read", "--unread", "--mark", "--author", "eng-backend").out
    assert run("unread").out == "0\n"


def test_a_budget_bounds_what_is_printed_and_marked(wrote, run):
    for n in range(6):
        wrote(f"{n} " + "word " * 40)
    ask = ("read", "--agent", "eng-frontend", "--unread", "--budget", "220", "--mark")
    seen = []
    while whole := [line[4] for line in run(*ask).out.splitlines() if line.startswith("  >")]:
        assert len(whole) < 6
        seen += whole
    assert seen == list("012345")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--unread",), "missing --agent AGENT"),
        (("--mark",), "missing --agent AGENT"),
        (("--unread", "--agent", "operator"), "ask as an agent"),
        (("--mark", "--agent", "operator"), "the operator is not an agent"),
        (("--unread", "--agent", "eng-frontend", "--archived"), "leave out"),
        (("--budget", "9"), "--unread"),
        (
            ("--unread", "--agent", "eng-frontend", "--budget", "99", "--markdown"),
            "--budget cannot go with --markdown",
        ),
        (("--unread", "--agent", "eng-frontend", "--budget", "9"), "the last line alone takes"),
        (("--unread", "--agent", "eng-frontend", "--namespace", "mail"), "synapse inbox"),
        (
            ("--unread", "--agent", "eng-frontend", "syn-2026-02-01-001"),
            "cannot go with the ids of entries",
        ),
    ],
)
def test_what_does_not_go_with_what_is_new_is_refused(team, run, options, words):
    done = run("read", *options)
    assert done.code != 0
    assert done.out == ""
    assert words in done.err


def test_an_entry_that_a_listing_cuts_stays_unread(wrote, run):
    wrote("\n".join(f"line {n}" for n in range(20)))
    assert "8 more lines" in run("read", "--agent", "eng-frontend", "--mark").out
    assert run("unread", "--agent", "eng-frontend").out == "1\n"
    run("read", "--agent", "eng-frontend", "--mark", "--json")
    assert run("unread", "--agent", "eng-frontend").out == "0\n"


@pytest.mark.parametrize("more", [("--unread",), ()])
def test_what_nobody_could_read_was_not_shown(wrote, run, team, more):
    """Standard output is a pipe whose reader is gone."""
    wrote("news")
    read, write = os.pipe()
    os.close(read)
    words = ["read", "--root", str(team), "--agent", "eng-frontend", *more, "--mark"]
    try:
        done = subprocess.run(
            [sys.executable, "-m", "synapse.cli", *words], stdout=write, stderr=subprocess.PIPE
        )
    finally:
        os.close(write)
    assert done.returncode == 141
    assert run("unread", "--agent", "eng-frontend").out == "1\n"


def test_a_namespace_with_nothing_in_it_points_to_what_is_below(wrote, run):
    wrote("use /v2/users")
    for words in (("read", "--namespace", "api"), ("search", "--namespace", "api", "users")):
        done = run(*words)
        assert "nothing is in api itself; --namespace 'api/*' has what is below it" in done.err
        assert "use /v2/users" not in done.out
        assert run(*words, "--json").err == ""
    for place in ("api/*", "api/endpoints", "status"):
        assert run("read", "--namespace", place).err == ""
