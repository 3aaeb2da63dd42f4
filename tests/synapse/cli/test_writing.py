import io
import json
import re
import sys

import pytest

ID = re.compile(r"syn-\d{4}-\d\d-\d\d-\d{3,}\n")


def test_write_prints_the_id_alone(team, run):
    done = run("write", "--from", "eng-backend", "--namespace", "api/endpoints", "use /v2/users")
    assert (done.code, done.err) == (0, "")
    assert ID.fullmatch(done.out)


def test_write_json_is_the_stored_entry(team, run):
    done = run(
        "write", "--json", "--from", "eng-backend", "--namespace", "api/endpoints", "--priority", "critical",
        "--tags", "api, v2", "--tags", "users", "--ttl", "30d", "--to", "team:frontend,agent:pl-brain",
        "--topic", "users", "--related", "syn-2026-02-01-001", "--evidence", "commit 1234", "--scope", "team", "body",
    )  # fmt: skip
    entry = json.loads(done.out)
    assert done.code == 0, done.err
    assert entry["from"] == "eng-backend"
    assert entry["to"] == ["agent:pl-brain", "team:frontend"]
    assert (entry["namespace"], entry["priority"], entry["ttl"]) == (
        "api/endpoints",
        "critical",
        "30d",
    )
    assert entry["tags"] == ["api", "v2", "users"]
    assert (entry["topic"], entry["scope"], entry["body"]) == ("users", "team", "body")
    assert ID.fullmatch(entry["id"] + "\n")


@pytest.mark.parametrize("words", [("-",), ()])
def test_the_body_may_come_on_standard_input(team, shell, words):
    body = "один\n\n  двa 👍\n"
    done = shell(
        "write", "--from", "eng-backend", "--namespace", "api/x", "--json", *words, stdin=body
    )
    assert done.code == 0, done.err
    assert json.loads(done.out)["body"] == body.rstrip()


def test_the_author_may_come_from_the_environment(team, run, monkeypatch):
    monkeypatch.setenv("SYNAPSE_AGENT", "eng-frontend")
    assert (
        json.loads(run("write", "--namespace", "api/x", "--json", "body").out)["from"]
        == "eng-frontend"
    )
    done = run("write", "--namespace", "api/x", "--from", "eng-backend", "--json", "body")
    assert json.loads(done.out)["from"] == "eng-backend"


def test_without_an_author_nothing_is_written(team, run):
    done = run("write", "--namespace", "api/x", "body")
    assert (done.code, done.out) == (64, "")
    assert "missing --from AGENT" in done.err


def test_without_a_body_at_a_terminal_it_says_so(team, run, monkeypatch):
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    monkeypatch.setattr(sys, "stdin", terminal)
    done = run("write", "--from", "eng-backend", "--namespace", "api/x")
    assert done.code == 64
    assert "no body" in done.err


def test_input_that_is_not_utf8_is_refused(team, run, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"caf\xe9")))
    done = run("write", "--from", "eng-backend", "--namespace", "api/x", "-")
    assert done.code == 64
    assert "byte 3" in done.err


@pytest.mark.parametrize(
    ("more", "code", "told"),
    [
        (("--namespace", "decisions/db", "x"), 4, "api/*, blockers/*, status/*"),
        (("--namespace", "../x", "x"), 64, "namespace '../x' is not valid"),
        (("--namespace", "api/x", "--priority", "high", "x"), 64, "critical, important, info"),
        (("--namespace", "api/x", "--ttl", "soon", "x"), 64, "ttl 'soon' is not valid"),
        (("--namespace", "api/x", "--pii", "x"), 7, "needs a key"),
        (("--namespace", "api/x", "--scope", "private", "x"), 7, "needs a key"),
        (("--namespace", "api/x", ""), 64, "the body is empty"),
        (
            ("--namespace", "api/x", "--supersedes", "syn-2020-01-01-001", "x"),
            3,
            "syn-2020-01-01-001",
        ),
        (("x",), 64, "--namespace"),
    ],
)
def test_a_refused_write_says_why(team, run, more, code, told):
    done = run("write", "--from", "eng-backend", *more)
    assert (done.code, done.out) == (code, "")
    assert told in done.err
    assert "Traceback" not in done.err
    assert run("read", "--json").out.startswith('{"entries": []')


def test_a_retry_writes_once(team, wrote, run):
    first = wrote("body", "--once", "step-1")
    assert wrote("body", "--once", "step-1") == first
    assert len(json.loads(run("read", "--json").out)["entries"]) == 1


def test_a_staged_entry_says_that_it_waits(team, run):
    done = run("write", "--from", "junior", "--namespace", "status/x", "may I?")
    assert done.code == 0
    assert done.err.startswith(f"{done.out.strip()} waits for review")
    assert (
        json.loads(run("write", "--from", "junior", "--namespace", "status/x", "--json", "?").out)[
            "staged"
        ]
        is True
    )


@pytest.mark.parametrize(
    ("whom", "why"),
    [
        ("", "to whom? Name an agent, a team, several, or all"),
        (" ", "to whom? Name an agent, a team, several, or all"),
        (",", "',' names nothing: write words with commas between them"),
    ],
)
def test_an_empty_addressee_is_not_everybody(team, run, whom, why):
    words = (
        "write",
        "--from",
        "eng-backend",
        "--namespace",
        "api/x",
        "--to",
        whom,
        "for the one in $WHOM",
    )
    done = run(*words)
    assert (done.code, done.err) == (64, f"synapse: {why}\n")
    assert "0 of 0 visible" in run("read").out


def test_losing_to_a_higher_authority_is_said(team, run, wrote):
    winner = wrote("the lead's word", "--topic", "users", who="pl-brain")
    done = run(
        "write", "--from", "eng-backend", "--namespace", "api/endpoints", "--topic", "users", "mine"
    )
    assert done.code == 0
    assert ID.fullmatch(done.out)
    assert winner in done.err
    assert "outranked" in done.err


def test_a_tie_is_said_to_be_in_dispute(team, run, wrote):
    other = wrote("one way", "--topic", "users", who="eng-frontend")
    done = run(
        "write",
        "--from",
        "eng-backend",
        "--namespace",
        "api/endpoints",
        "--topic",
        "users",
        "the other",
    )
    assert "dispute" in done.err
    assert other in done.err


def test_a_body_that_begins_with_a_dash(team, run):
    done = run("write", "--from", "eng-backend", "--namespace", "api/x", "--json", "- an item")
    assert json.loads(done.out)["body"] == "- an item"
    done = run("write", "--from", "eng-backend", "--namespace", "api/x", "--json", "--", "--json")
    assert json.loads(done.out)["body"] == "--json"


@pytest.mark.parametrize("ttl", ["0d", "0s", "00h"])
def test_a_time_to_live_of_nothing_is_refused(team, run, ttl):
    done = run(
        "write", "--from", "eng-backend", "--namespace", "api/x", "--ttl", ttl, "born expired"
    )
    assert (done.code, "is over at once: write a longer one" in done.err) == (64, True)
    assert run("read", "--limit", "0").out.count("born expired") == 0


@pytest.mark.parametrize(
    ("when", "why"),
    [
        ("", "write tool:NAME, run git push"),
        (" ", "write tool:NAME, run git push"),
        (",", "',' names nothing"),
    ],
)
def test_a_moment_of_nothing_is_refused(team, run, when, why):
    done = run(
        "write", "--from", "eng-backend", "--namespace", "api/x", "--when", when, "for no moment"
    )
    assert (done.code, why in done.err) == (64, True)
    assert run("read", "--limit", "0").out.count("for no moment") == 0


@pytest.mark.parametrize("to", ["bob", "agent:bob", "team:bobs", "eng-frontend,bob"])
def test_an_addressee_whom_nobody_knows_is_refused_as_in_mail(team, run, to):
    words = ("--from", "eng-backend", "--to", to)
    written = run("write", *words, "--namespace", "api/x", "for bob")
    sent = run("send", *words, "for bob")
    assert (written.code, sent.code) == (3, 3)
    assert "there is no agent and no team" in written.err
    assert "for bob" not in run("read", "--limit", "0").out
    for known in ("all", "team:backend", "eng-frontend", "operator"):
        assert (
            run(
                "write", "--from", "eng-backend", "--to", known, "--namespace", "api/x", "hello"
            ).code
            == 0
        )
