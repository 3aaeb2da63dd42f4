"""`answer`, `--wait`, `resume` and `stop` of what waits for a person."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

import synapse
from orchestrator.cli.frame.live import NOT_DONE, WAITING

PLAYS = """
import os
from orchestrator.engines.scripted import Move
def noted(seen):
    with open(os.environ["TAKEN"], "a") as taken:
        print(seen.system.split("\\n")[0].split()[2].strip(",.:"), seen.turn, file=taken)
def team(seen):
    from tests.team_play import play
    noted(seen)
    first = seen.system.split("\\n")[0]
    if "eng-backend" in first and "vault" not in seen.messages[-1].text:
        return "Blocked: Which key is it?"
    if "eng-backend" in first:
        return "Deployed with the key of the vault."
    return play(seen)
def stuck_team(seen):
    from tests.team_play import play
    noted(seen)
    if "eng-backend" in seen.system.split("\\n")[0]:
        return Move("Deployed.", takes=float(os.environ["TAKES"]))
    return play(seen)
def asks(seen):
    with open(os.environ["TAKEN"], "a") as taken:
        print(seen.turn, file=taken)
    told = seen.messages[-1].text
    if seen.turn == 0:
        return Move("", (("memory_search", {"query": "key"}),))
    if "vault" in told:
        return "Deployed with the key of the vault."
    return "Blocked: Which key is it?"
"""
QUESTION = "Which key is it?"
LONG = 90  # seconds, on a machine that is busy
LINE = [sys.executable, "-m", "orchestrator"]


@pytest.fixture
def here(run, tmp_path, monkeypatch):
    """The example workspace, with a script that asks for a key; where its turns are noted."""
    assert run("init").code == 0
    (tmp_path / "plays.py").write_text(PLAYS)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, "plays", raising=False)
    monkeypatch.setenv("TAKEN", str(tmp_path / "taken"))
    return tmp_path / "shared-memory"


SCRIPT = ("--script", "plays:asks")
WORK = ("run", "--agent", "eng-backend", "--memory-tools", "always", *SCRIPT)


def taken():
    with open(os.environ["TAKEN"]) as file:
        return file.read().split()


def waits(run, *more):
    """A run that waits: its id, and the entry that says for what."""
    done = run(*WORK, "--json", *more, "Deploy it")
    assert done.code == WAITING
    return done.json["run"], done.json["entry"]


def test_a_run_that_waits_has_a_code_of_its_own_and_says_what_to_type(here, run):
    done = run(*WORK, "Deploy it")
    (row,) = run("ps", "--all", "--json").json["runs"]
    assert (done.code, row["state"], row["status"]) == (WAITING, "waiting", "blocked")
    said = done.err.replace("\n  ", "\n")
    assert f"{row['run']} waits for you: {QUESTION}\n" in said
    assert f'orchestrator answer {row["entry"]} "..."\n' in said


@pytest.mark.parametrize("by", ["run", "entry", "beginning"])
def test_an_answer_lets_it_go_on_here(here, run, by):
    id, entry = waits(run)
    name = {"run": id, "entry": entry, "beginning": id[:14]}[by]
    done = run("answer", name, *SCRIPT, "It is in the vault")
    assert (done.code, done.out) == (0, "Deployed with the key of the vault.\n")
    assert taken() == ["0", "1", "2"], "no turn is taken again"
    (row,) = run("ps", "--all", "--json").json["runs"]
    assert (row["run"], row["state"], row["epoch"]) == (id, "done", 2)
    assert "answered, and goes on" in run("tail", id).out
    again = run("answer", name, "It is in the vault")
    assert again.code == 5
    assert "it is resolved" in again.err or "it is done" in again.err


def test_an_answer_from_standard_input_and_as_json(here, run, shell):
    id, entry = waits(run)
    done = shell("answer", id, "-", *SCRIPT, "--json", stdin="In the vault\n")
    assert (done.code, done.json["entry"], done.json["run"]) == (0, entry, id)
    assert done.json["result"]["status"] == "done"


def test_an_answer_that_does_not_help_waits_again(here, run):
    id, _ = waits(run)
    done = run("answer", id, *SCRIPT, "Ask somebody else")
    assert done.code == WAITING
    assert "orchestrator answer syn-" in done.err
    assert run("answer", id, *SCRIPT, "In the vault").code == 0


def test_without_its_program_it_is_answered_and_left(here, run):
    """And goes on where somebody has what it needs."""
    id, _ = waits(run)
    done = run("answer", id, "In the vault")
    assert done.code == NOT_DONE
    assert f"orchestrator resume {id}" in done.err
    assert taken() == ["0", "1"]
    assert run("resume", id, *SCRIPT).code == 0
    assert taken() == ["0", "1", "2"]


def test_resume_of_what_nobody_answered_says_so(here, run):
    id, entry = waits(run)
    done = run("resume", id, *SCRIPT)
    assert done.code == WAITING
    assert f"orchestrator answer {entry}" in done.err
    assert run("resume", *SCRIPT).out.startswith("nothing to go on with")


def test_stop_ends_what_waits(here, run):
    id, _ = waits(run)
    assert run("stop", id).out == f"stopped: {id}\n"
    (row,) = run("ps", "--all", "--json").json["runs"]
    assert (row["state"], row["why"]) == ("stopped", "stopped by the operator")
    done = run("answer", id, "In the vault")
    assert (done.code, "it is stopped" in done.err) == (5, True)
    assert run("stop", id).code == 5


def test_a_blocker_that_no_run_waits_for_is_answered_too(here, run):
    with synapse.open(str(here)) as memory:
        entry = memory.as_agent("lead").append(
            "Blocked: no disk", "blockers/web", priority="critical"
        )
        asked = memory.as_agent("lead").append(
            "May I delete it?", "projects/web", to="agent:operator"
        )
    for id in (entry.id, asked.id):
        done = run("answer", id, "Yes")
        assert done.code == 0
        assert done.out.startswith(f"answered {id}: syn-")
        assert run("answer", id, "Yes").code == 5


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("nobody", "Yes"), 3),
        (("syn-2020-01-01-001", "Yes"), 3),
        (("ENTRY", "Yes"), 5),
        (("RUN", " "), 64),
    ],
)
def test_what_cannot_be_answered_is_refused(here, run, words, code):
    id, _ = waits(run)
    with synapse.open(str(here)) as memory:
        entry = memory.as_agent("lead").append("A plan", "projects/web")
    words = [{"RUN": id, "ENTRY": entry.id}.get(word, word) for word in words]
    assert run("answer", *words).code == code
    assert run("ps", "--all", "--json").json["runs"][0]["state"] == "waiting"


# -- a process that waits --------------------------------------------------------------


@pytest.fixture
def process(here, monkeypatch):
    """A run of another process, which waits for a person on its standard input."""
    monkeypatch.setattr("orchestrator.cli.control.answer.OTHERS_WITHIN", 60.0)
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen(
        [*LINE, *WORK, "--wait", "Deploy it"], cwd=here.parent, text=True, **pipes
    ) as process:
        yield process
        process.kill()


def asked(run):
    """The run, once it waits."""
    end = time.monotonic() + LONG
    while time.monotonic() < end:
        for row in run("ps", "--all", "--json").json["runs"]:
            if row["state"] == "waiting":
                return row
        time.sleep(0.05)
    raise AssertionError("nothing waits")


def test_wait_takes_the_answer_from_standard_input(here, run, process):
    row = asked(run)
    out, err = process.communicate("Somewhere\nIn the vault\n", timeout=LONG)
    assert (process.returncode, out) == (0, "Deployed with the key of the vault.\n")
    assert f"eng-backend waits for you: {QUESTION}" in err
    assert run("ps", "--all", "--json").json["runs"][0]["run"] == row["run"]
    assert taken() == ["0", "1", "2", "3"]


def test_who_waits_goes_on_with_an_answer_from_elsewhere(here, run, process):
    """Whoever answers leaves it to the process that waits, though its own has no script."""
    row = asked(run)
    done = run("answer", row["run"], "In the vault", "--json")
    assert (done.code, done.json["goes_on"] != "") == (0, True)
    out, _ = process.communicate(timeout=LONG)
    assert (process.returncode, out) == (0, "Deployed with the key of the vault.\n")


def test_ctrl_c_while_it_waits_leaves_it_waiting(here, run, process):
    row = asked(run)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=LONG)
    assert process.returncode == 130
    assert f"orchestrator answer {row['entry']}" in err
    assert asked(run)["run"] == row["run"]


# -- a team that goes by a plan --------------------------------------------------------

BRIEF = ("team", "--project", "shop", "--brief", "A page that sells one book")


def test_a_team_goes_on_with_what_comes_after_the_answer(here, run):
    """QA and the report wait for it; nothing that was done is done again."""
    done = run(*BRIEF, "--script", "plays:team")
    assert done.code == WAITING
    before = taken()
    rows = {row["run"]: row["state"] for row in run("ps", "--all", "--json").json["runs"]}
    assert sorted(rows.values()) == ["done", "done", "done", "waiting"]
    (root,) = run("tree", "--json").json["trees"]
    done = run("answer", root["run"], "--script", "plays:team", "In the vault")
    assert done.code == 0
    assert "2 of 2" in done.out
    after = run("ps", "--all", "--json").json["runs"]
    assert {row["state"] for row in after} == {"done"}
    assert len(after) == len(rows) + 2, "QA and the report, in the same tree"
    assert len(run("tree", "--json").json["trees"]) == 1
    fresh = list(zip(*[iter(taken()[len(before) :])] * 2, strict=True))
    assert sorted(fresh) == [("eng-backend", "1"), ("lead", "0"), ("qa", "0")]


def test_a_team_that_waits_takes_the_answer_from_standard_input(here, shell):
    done = shell(*BRIEF, "--script", "plays:team", "--wait", stdin="In the vault\n")
    assert done.code == 0
    assert "The project is done." in done.out


def test_ctrl_c_leaves_a_team_that_resume_goes_on_with(here, run, monkeypatch):
    """With its plan: what was left, and what would have come after it."""
    env = {**os.environ, "TAKES": "600"}
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen(
        [*LINE, *BRIEF, "--script", "plays:stuck_team"],
        cwd=here.parent,
        env=env,
        text=True,
        **pipes,
    ) as process:
        end = time.monotonic() + LONG
        while time.monotonic() < end:
            running = run("ps", "--json").json["runs"]
            if [row["agent"] for row in running] == ["eng-backend"]:
                break
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=LONG)
    (root,) = run("tree", "--json").json["trees"]
    assert process.returncode == 130
    assert f"`orchestrator resume {root['run']}` goes on" in " ".join(err.split())
    monkeypatch.setenv("TAKES", "0")
    done = run("resume", root["run"], "--script", "plays:stuck_team")
    assert done.code == 0
    rows = run("ps", "--all", "--json").json["runs"]
    assert {row["state"] for row in rows} == {"done"}
    assert sorted(row["agent"] for row in rows) == sorted(
        ["cto", "lead", "lead", "eng-backend", "eng-frontend", "qa"]
    )


@pytest.mark.parametrize("whole", [False, True])
def test_the_daemon_goes_on_with_what_was_answered(here, run, monkeypatch, whole):
    """In a process that has what it needs, with the team if it is one; whoever answers is told
    where."""
    monkeypatch.setattr("orchestrator.cli.control.answer.OTHERS_WITHIN", 60.0)
    script = ("--script", "plays:team" if whole else "plays:asks")
    if whole:
        assert run(*BRIEF, *script).code == WAITING
        id = run("inbox", "--json").json["waiting"][0]["run"]
    else:
        id, _ = waits(run)
    env = {**os.environ, "PYTHONPATH": str(here.parent)}
    daemon = subprocess.Popen(
        [*LINE, "up", *script], env=env, stderr=subprocess.DEVNULL, cwd=here.parent
    )
    try:
        end = time.monotonic() + LONG
        while run("status").code and time.monotonic() < end:
            time.sleep(0.05)
        done = run("answer", id, "In the vault")
        assert (done.code, "goes on in another process" in done.out) == (0, True)
        while time.monotonic() < end:
            rows = json.loads(run("ps", "--all", "--json").out)["runs"]
            states = [row["state"] for row in rows]
            if states == ["done"] * (6 if whole else 1):
                break
            time.sleep(0.05)
        assert states == ["done"] * (6 if whole else 1)
        assert id in [row["run"] for row in rows]
        assert len(run("tree", "--json").json["trees"]) == 1
    finally:
        daemon.send_signal(signal.SIGTERM)
        daemon.wait(LONG)
