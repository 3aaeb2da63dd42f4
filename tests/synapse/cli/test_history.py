import contextlib
import json
import os
import pty
import re
import subprocess
import sys

import pytest


def test_log_tells_by_day_newest_last(wrote, run):
    first = wrote("the first\nof two lines", "--priority", "critical")
    second = wrote("the second")
    run("archive", "--from", "eng-backend", first, "--reason", "done")
    lines = run("log").out.splitlines()
    assert re.fullmatch(r"\d{4}-\d\d-\d\d UTC", lines[0])
    assert all(re.match(r"  \d\d:\d\d  ", line) for line in lines[1:])
    told = [line[9:] for line in lines[1:]]
    assert told[0].startswith("operator registered pl-brain")
    assert told[-3:] == [
        f"eng-backend wrote {first} critical api/endpoints: the first",
        f"eng-backend wrote {second} api/endpoints: the second",
        f"eng-backend archived {first}: done",
    ]


def test_log_limits(wrote, run):
    ids = [wrote(f"body {n}") for n in range(30)]
    assert run("log", "--limit", "2").out.count("\n  ") == 2
    assert ids[-1] in run("log", "--limit", "1").out
    assert len(json.loads(run("log", "--limit", "0", "--json").out)["log"]) == 34
    assert run("log", "--since", "2200-01-01").out == "nothing happened\n"
    assert run("log", "--since", "tomorrow").code == 64


def test_log_json(wrote, run):
    id = wrote()
    act = json.loads(run("log", "--json").out)["log"][-1]
    assert (act["kind"], act["by"], act["entries"]) == ("entry", "eng-backend", [id])
    assert act["what"].endswith(": use /v2/users")
    assert act["time"].endswith("Z")


def test_log_tells_an_agent_only_of_what_it_may_see(wrote, run):
    secret = wrote("a secret", "--to", "agent:pl-brain")
    run("resolve", "--from", "pl-brain", secret, "--note", "hush")
    public = wrote("in public")
    seen = run("log", "--agent", "eng-frontend").out
    assert public in seen
    assert secret not in seen
    assert "secret" not in seen
    assert "hush" not in seen
    assert secret in run("log", "--agent", "pl-brain").out


def test_log_escapes(wrote, run):
    wrote("\x1b[2Jgone")
    assert "\\x1b[2Jgone" in run("log").out


def test_audit_has_everything_there_is(wrote, run):
    id = wrote()
    run("read", "--agent", "eng-frontend", "--mark")
    run("resolve", "--from", "eng-backend", id, "--note", "done")
    lines = run("audit").out.splitlines()
    assert f"eng-backend wrote {id} api/endpoints" in lines[-3]
    assert f"eng-frontend was shown 1 entry of 1, up to 5: {id}" in lines[-2]
    assert lines[-1].endswith(f"eng-backend resolved {id}: done")
    assert [int(line.split()[0]) for line in lines] == sorted(
        int(line.split()[0]) for line in lines
    )


def test_audit_of_an_entry_has_what_took_its_place(wrote, run):
    old = wrote("old")
    new = wrote("new", "--supersedes", old)
    lines = run("audit", "--entry", old).out.splitlines()
    assert len(lines) == 2
    assert lines[1].endswith(f"eng-backend wrote {new} api/endpoints superseding {old}")
    assert len(run("audit", "--entry", new).out.splitlines()) == 1
    low = wrote("low", "--topic", "db")
    high = wrote("high", "--topic", "db", who="pl-brain")
    assert (
        run("audit", "--entry", low)
        .out.splitlines()[1]
        .endswith(f"pl-brain wrote {high} api/endpoints on db")
    )
    assert f"wrote {high} api/endpoints on db: high" in run("log").out


def test_audit_by_agent_entry_and_time(wrote, run):
    first, second = wrote("one"), wrote("two", who="pl-brain")
    run("archive", "--from", "pl-brain", first, "--reason", "old")

    def kinds(*more):
        return [
            (r["kind"], r["by"]) for r in json.loads(run("audit", "--json", *more).out)["audit"]
        ]

    assert kinds("--agent", "pl-brain") == [("entry", "pl-brain"), ("archive", "pl-brain")]
    assert kinds("--entry", first) == [("entry", "eng-backend"), ("archive", "pl-brain")]
    assert kinds("--entry", second) == [("entry", "pl-brain")]
    assert kinds("--limit", "1") == [("archive", "pl-brain")]
    assert kinds("--since", "2200-01-01") == []
    assert run("audit", "--entry", "syn-2020-01-01-001").out == "nothing is on record\n"


@pytest.mark.parametrize(("answer", "archived"), [("n", True), ("y", False)])
def test_undo_last_asks_on_a_terminal(team, wrote, run, answer, archived):
    """It shows first what it takes back."""
    id = wrote("kept")
    run("archive", "--from", "eng-backend", id)
    main, side = pty.openpty()
    words = [sys.executable, "-m", "synapse.cli", "--root", str(team), "undo", "last"]
    done = subprocess.Popen(words, stdin=side, stdout=side, stderr=side)
    os.close(side)
    text = b""
    while b"[y/N]" not in text:
        text += os.read(main, 1_000)
    assert b"would undo: 1 came back" in text
    os.write(main, f"{answer}\n".encode())
    with contextlib.suppress(OSError):  # the terminal is gone with its last process
        while more := os.read(main, 1_000):
            text += more
    assert (done.wait(30), b"nothing was changed" in text) == (0, archived)
    os.close(main)
    assert (id in run("read", "--archived").out) == archived


def test_audit_as_json_has_a_record_and_no_more(wrote, run):
    keys = "at by fields id key kind once path seq sha text time".split()
    assert {tuple(sorted(each)) for each in json.loads(run("audit", "--json").out)["audit"]} == {
        tuple(keys)
    }
