"""The console script `brain`: a conversation and what is known, from the shell; its tables
follow.
"""

import json
import os
import shlex
import sqlite3
from contextlib import closing

import pytest

from synapse.cli import brain
from synapse.cli.brain import FIRST, GROUPS, PROGRAM, overview
from synapse.cli.frame import parse
from synapse.cli.verbs import VERBS
from synapse.compat.brain import UnifiedBrain


@pytest.fixture
def run(capsys):
    def run(*words):
        capsys.readouterr()
        code = brain.main([str(word) for word in words])
        return code, *capsys.readouterr()

    return run


@pytest.fixture
def place(tmp_path, monkeypatch):
    path = str(tmp_path / "brain.db")
    UnifiedBrain(path).close()
    UnifiedBrain(path, "nova").close()
    monkeypatch.setenv("SYNAPSE_BRAIN", path)
    yield path
    os.environ.pop("SYNAPSE_ROOT", None)  # which `main` sets for its process


def rows(path, sql):
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(sql).fetchall()


def test_all_verbs_of_mail_and_knowledge_are_there():
    mail = "send inbox poll ack threads thread"
    knowledge = "remember forget atom link why provenance search recent migrate check"
    assert set(PROGRAM.verbs) >= {*mail.split(), *knowledge.split()}
    assert {verb.group for verb in PROGRAM.verbs.values()} == set(GROUPS)
    assert {"migrate", "check", "export"} <= PROGRAM.operators <= set(PROGRAM.verbs)
    for name, verb in PROGRAM.verbs.items():
        if name in VERBS:
            assert parse.function_of(verb) is parse.function_of(VERBS[name])


@pytest.mark.parametrize("name", PROGRAM.verbs)
def test_every_verb_has_help_with_an_example(run, name):
    code, out, _ = run(name, "--help")
    assert code == 0
    assert out.startswith(f"usage: brain {name}")
    words = shlex.split(PROGRAM.verbs[name].example.replace("\\\n", " ").partition(" > ")[0])
    assert words[0] == "brain"
    verb, rest = parse.split(words[1:])
    assert parse.arguments(PROGRAM.verbs[verb], rest)


def test_help_and_mistakes(run):
    assert run("--help") == (0, overview(), "")
    assert run("--help", "--all") == (0, overview(every=True), "")
    assert len(FIRST) == 10
    assert "`brain help --all` lists all" in overview()
    assert max(map(len, overview().splitlines())) <= 88
    assert run("--version")[1].startswith("brain ")
    assert run("write")[0] == 64, "entries are the other program's"
    assert run("sned")[2] == "brain: there is no verb 'sned'; did you mean 'send'?\n"


def test_a_conversation_and_what_came_of_it(run, place):
    sent = run("send", "--from", "helios", "--to", "nova", "--subject", "EV halt", "halt?")[
        1
    ].strip()
    assert rows(place, "select id, body from messages") == [(sent, "halt?")], (
        "the tables follow each command"
    )
    assert run("poll", "--agent", "nova")[1] == "1\n"
    assert "halt?" in run("inbox", "--agent", "nova", "--mark")[1]
    run("ack", "--from", "nova", sent, "--body", "yes")
    assert rows(place, "select agent_id, ack_body from acks") == [("nova", "yes")]
    fact = run("remember", "--from", "nova", "--scope", "group", "--cites", sent, "the halt works")[
        1
    ].strip()
    trail = run("why", "--agent", "helios", fact)
    assert trail[0] == 0
    assert sent in trail[1]
    assert run("provenance", "--agent", "helios", fact) == trail
    found = json.loads(run("search", "--agent", "helios", "--json", "halt")[1])
    assert {sent, fact} == {hit["id"] for hit in found["entries"]}
    assert fact in run("recent", "--agent", "helios")[1]
    assert run("forget", "--from", "nova", fact)[0] == 0
    assert rows(place, "select count(*) from stm") == [(0,)]


def test_rows_past_the_log_are_told(run, place):
    assert run("check") == (0, f"{place} is what the log says\n", "")
    with sqlite3.connect(place) as connection:
        connection.execute("insert into agents(id) values('ghost')")
    connection.close()
    code, out, _ = run("check", "--json")
    assert code == 6
    assert "agents ghost" in json.loads(out)["problems"][0]["where"]
    assert ("ghost",) not in rows(place, "select id from agents")
    assert run("check", "--rebuild")[0] == 0


def test_a_run_is_refused_what_is_the_operators(run, place, monkeypatch):
    monkeypatch.setenv("SYNAPSE_RUN", "run-1")
    monkeypatch.setenv("SYNAPSE_AGENT", "nova")
    assert run("check")[0] == run("migrate", "--cortex", ".")[0] == 4
    assert run("poll", "--agent", "nova")[0] == 0


def test_a_workspace_that_is_no_brains_has_no_tables(run, tmp_path, shell):
    shell("init", str(tmp_path / "w"))
    code, _, error = run("--root", tmp_path / "w", "check")
    assert code == 3
    assert "not the log of a brain" in error


def test_it_takes_its_place_from_the_environment(run, tmp_path, monkeypatch):
    monkeypatch.setenv("SYNAPSE_BRAIN", str(tmp_path / "none.db"))
    code, _, error = run("threads")
    os.environ.pop("SYNAPSE_ROOT", None)
    assert code == 3
    assert "none.db.log" in error
