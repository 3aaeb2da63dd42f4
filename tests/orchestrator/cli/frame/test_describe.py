"""`tail`, `replay`, `unread`, `wakes`, `stop`."""

import json
import threading
import time

import pytest

from orchestrator.engines.protocol import Call as Asked
from orchestrator.runs.files import steps
from orchestrator.runs.files.folder import STEPS


@pytest.fixture
def lived(office):
    """A run of several steps."""
    office.begin("r")
    office.prompt("r", ["syn-1"])
    office.turn("r", 1, "I look.", [("c1", "read", {"namespace": "api/*", "limit": 3})])
    office.step("r", 2, "result", **steps.result(Asked("c1", "read", {}), "two\nlines", "capsule"))
    office.step("r", 3, "message", **steps.message("This arrived.", "wake", "wake", ids=["syn-2"]))
    office.turn("r", 4, "Finished.\nMore")
    office.end("r", turns=2)
    return office


def test_tail(lived, run):
    assert run("tail", "r").out.splitlines() == [
        "   0  prompt   1 entry shown; Do it well",
        "   1  says     I look.  (100 in, 20 out)",
        "   1  calls    read(namespace='api/*', limit=3)",
        "   2  result   two lines",
        "   3  wake     syn-2: This arrived.",
        "   4  says     Finished. More  (100 in, 20 out)",
        "      done: its own 120 tokens, $0.0100  All is well",
    ]


def test_tail_json_is_the_record(lived, run):
    told = [json.loads(line) for line in run("tail", "r", "--json").out.splitlines()]
    assert told == [json.loads(line) for line in lived.folder("r").lines(STEPS)]


def test_tail_follows_until_the_end(office, run):
    office.begin("r")
    office.prompt("r")

    def live():
        time.sleep(0.3)
        office.turn("r", 1, "Late")
        office.end("r")

    thread = threading.Thread(target=live)
    thread.start()
    lines = run("tail", "r", "--follow").out.splitlines()
    thread.join(5)
    assert [line.split()[1] for line in lines[:2]] == ["prompt", "says"]
    assert lines[2].startswith("      done: ")


def test_replay_prints_the_prompt_and_nothing_else(office, run):
    office.begin("r")
    parts = office.prompt("r")
    assert run("replay", "r") == (0, parts.text, "")
    assert run("replay", "r", "--json").json["sha256"] == parts.sha256


def test_replay_shows_nothing_that_is_not_the_prompt(office, run):
    office.begin("r")
    assert run("replay", "r").code == 3
    office.prompt("r")
    path = f"{office.folder('r').path}/{STEPS}"
    with open(path, encoding="utf-8") as file:
        text = file.read()
    with open(path, "w", encoding="utf-8") as file:
        file.write(text.replace("news", "lies"))
    done = run("replay", "r")
    assert (done.code, done.out) == (6, "")


def test_unread_results(office, run):
    for id in ("lead-1", "lead-2"):
        office.begin(id, "lead")
    for id in ("read", "unread", "by-entry", "free"):
        office.begin(id, parent="lead-1", root="lead-1")
        office.end(id, turns=int(id != "free"), entry=f"syn-{id}", summary=f"{id} result")
    # which hands its result on
    office.begin("of-a-client", parent="lead-1", root="lead-1", attached="s1")
    office.end("of-a-client", turns=1, entry="syn-c", summary="its result")
    office.begin("waits", parent="lead-2", root="lead-2")
    office.end("waits")
    office.prompt("lead-1", agent="lead")
    office.step("lead-1", 1, "message", **steps.message("x", "plan", "unread", read=["read"]))
    office.end("lead-1", "lead")
    office.begin("qa", parent="lead-1", root="lead-1")
    office.prompt("qa", ["syn-by-entry"])
    lines = run("unread").out.splitlines()
    assert [line.split()[:5] for line in lines[1:]] == [
        ["unread", "done", "120", "$0.0100", "lead-1"]
    ]
    assert run("debts", "--json").json["tokens"] == 120
    assert run("unread", "--project", "other").out == "no unread results\n"


def test_wakes(office, run):
    write = office.memory.as_agent("lead").append
    first = write("the API moved\nmore", "blockers/web", priority="critical").id
    second = write("nobody knows", "blockers/web", priority="critical").id
    write("by the way", "blockers/web")
    office.begin("r")
    at = office.memory.store.clock()
    fields = {"agent": "eng-a", "run": "r", "epoch": 1, "ids": [first]}
    office.record("delivery", "eng-a", **fields, state="rendered", offered={first: at})
    office.record("delivery", "eng-a", **fields, state="acked")
    office.begin("s", "eng-b")
    office.prompt("s", [first], agent="eng-b")
    office.end("s", "eng-b")
    found = {(wake["entry"], wake["agent"]): wake for wake in run("wakes", "--json").json["wakes"]}
    assert {key: wake["state"] for key, wake in found.items()} == {
        (first, "eng-a"): "acked",
        (first, "eng-b"): "rendered",
        (first, "cto"): "stored",
        (second, "eng-a"): "queued",
        (second, "eng-b"): "stored",
        (second, "cto"): "stored",
    }
    acked = found[first, "eng-a"]
    assert 0 < acked["offered"] <= acked["rendered"] <= acked["acked"]
    assert (acked["run"], found[first, "eng-b"]["offered"]) == ("r", None)
    lines = run("wakes", "--agent", "eng-a").out.splitlines()
    assert [line.split()[2] for line in lines[1:]] == ["queued", "acked"]
    assert len(run("wakes", "--pending").out.splitlines()) == 5


def test_of_several_runs_of_an_agent_the_one_that_it_is_at_is_meant(office, run):
    for id in ("lead-1", "lead-2", "lead-3"):
        office.begin(id, "lead")
    office.end("lead-1", "lead")
    assert run("stop", "lead").code == 5
    office.end("lead-2", "lead")
    assert run("stop", "lead").out == "asked to stop: lead-3\n"


def test_stop(office, run):
    office.begin("r")
    office.begin("s")
    office.end("s")
    assert run("stop", "r", "--reason", "too dear").out == "asked to stop: r\n"
    office.memory.store.index.catch_up()
    (asked,) = office.memory.store.index.keyed("stop:r")
    assert asked.fields == {"run": "r", "reason": "too dear"}
    assert run("stop", "s").code == 5
    assert run("stop").code == 64
    assert run("stop", "r", "--all").code == 64
    assert run("stop", "--all", "--json").json == {"stopped": ["r"], "orphaned": []}
    assert run("stop", "nobody").code == 3
