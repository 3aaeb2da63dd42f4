"""Runs over HTTP: who may ask, what is answered, and that a stop is written once."""

import json
import os

import pytest

from orchestrator.cli import main
from orchestrator.reports.rows import Source
from orchestrator.waiting.inbox import inbox

PATHS = (
    "/v1/runs",
    "/v1/runs/eng-1",
    "/v1/tree",
    "/v1/stats",
    "/v1/debts",
    "/v1/wakes",
    "/v1/limits",
    "/v1/waiting",
)


def test_runs_are_the_operators(worked, operator):
    lead, nobody = worked.client("lead"), worked.client()
    for path in PATHS:
        assert operator.get(path).status_code == 200, path
        refused = lead.get(path)
        assert refused.status_code == 403, path
        assert refused.json()["error"] == "Forbidden", path
        assert nobody.get(path).status_code == 401, path


def test_runs_are_found_by_their_fields(worked, operator):
    found = operator.get("/v1/runs").json()
    assert [run["run"] for run in found["runs"]] == ["eng-2", "eng-1", "lead-1"]
    assert found["matched"] == 3
    few = operator.get("/v1/runs", params={"limit": 1, "parent": "lead-1"}).json()
    assert (len(few["runs"]), few["matched"]) == (1, 2)
    for query, expected in (
        ({"state": "ended"}, ["eng-1"]),
        ({"agent": "eng-b"}, ["eng-2"]),
        ({"department": "backend"}, ["eng-1"]),
        ({"root": "none"}, []),
        ({"since": "24h", "model": "m"}, ["eng-2", "eng-1", "lead-1"]),
    ):
        rows = operator.get("/v1/runs", params=query).json()["runs"]
        assert [run["run"] for run in rows] == expected, query


def test_the_server_and_the_shell_say_the_same(worked, operator, capsys):
    root = worked.memory.store.root
    for verb, path in (
        (("stats", "--by", "agent"), "/v1/stats?by=agent"),
        (("unread",), "/v1/debts"),
        (("wakes",), "/v1/wakes"),
    ):
        capsys.readouterr()
        assert main(["--root", root, "--json", *verb]) == 0
        assert json.loads(capsys.readouterr().out) == operator.get(path).json()


def test_one_run_comes_with_its_steps_and_what_its_tokens_were_for(worked, operator):
    found = operator.get("/v1/runs/eng-1").json()
    assert [step["kind"] for step in found["steps"]] == ["prompt", "turn"]
    assert found["account"]["tokens"] == {"task": 90, "view": 10}
    assert found["account"]["memory"] == 10
    assert found["account"]["memory_cost"] == pytest.approx(0.001)
    assert found["result"] == "It is there."
    assert found["receipt"] is None
    assert found["readings"] == []
    parent = operator.get("/v1/runs/lead-1").json()
    assert [run["run"] for run in parent["children"]] == ["eng-1", "eng-2"]


def test_a_run_may_be_named_by_its_beginning(worked, operator):
    assert operator.get("/v1/runs/lead").json()["run"]["run"] == "lead-1"
    several = operator.get("/v1/runs/eng")
    assert several.status_code == 409
    assert operator.get("/v1/runs/none").status_code == 404


def test_a_tree_sums_up_what_is_below(worked, operator):
    (top,) = operator.get("/v1/tree").json()["trees"]
    assert [child["run"] for child in top["children"]] == ["eng-1", "eng-2"]
    assert top["total"]["runs"] == 3
    assert top["total"]["tokens"] == 360
    assert top["total"]["cost"] == pytest.approx(0.03)
    assert top["tokens"] == 120
    below = operator.get("/v1/tree", params={"run": "eng-1"}).json()["trees"]
    assert [node["run"] for node in below] == ["eng-1"]


def test_days_are_summed_up_too(worked, operator):
    found = operator.get("/v1/stats", params={"by": "day"}).json()
    assert [group["runs"] for group in found["groups"]] == [3]
    assert found["all"]["cost"] == pytest.approx(0.03)


def test_limits_are_told_beside_what_was_spent(worked, operator):
    found = operator.get("/v1/limits").json()
    assert found["day"]["scope"].startswith("day:")
    assert found["workspace"]["limits"]["live"] == 30
    assert found["run"]["turns"] == 40
    assert [one["scope"] for one in found["departments"]] == [
        "department:backend",
        "department:frontend",
    ]


def test_looking_at_limits_writes_no_file(site, operator):
    before = sorted(os.listdir(os.path.join(site.memory.store.root, "runs")))
    assert operator.get("/v1/limits").status_code == 200
    assert sorted(os.listdir(os.path.join(site.memory.store.root, "runs"))) == before


def test_a_stop_is_written_once(worked, operator):
    def stops():
        acts = worked.memory.store.acts(None, None, 0, None)
        return [record for record in acts if record.kind == "stop"]

    for _ in range(3):
        answer = operator.post("/v1/runs/eng-2/stop", json={"reason": "enough"})
        assert answer.status_code == 202
        assert answer.json() == {"stopped": "eng-2", "reason": "enough", "orphaned": False}
    assert [record.fields["reason"] for record in stops()] == ["enough"]
    assert operator.post("/v1/runs/lead-1/stop").status_code == 202
    assert len(stops()) == 2


def test_what_has_ended_cannot_be_stopped(worked, operator):
    answer = operator.post("/v1/runs/eng-1/stop")
    assert answer.status_code == 409
    assert answer.json()["error"] == "Conflict"
    assert worked.client("lead").post("/v1/runs/eng-2/stop").status_code == 403
    reading = worked.client("operator", read_only=True)
    assert reading.post("/v1/runs/eng-2/stop").status_code == 403


def test_half_a_character_of_a_model_is_answered(worked, operator):
    worked.office.turn("eng-2", 1, "\ud83d", agent="eng-b")
    answer = operator.get("/v1/runs/eng-2")
    assert answer.status_code == 200
    assert answer.json()["steps"][-1]["turn"]["text"] == "\ud83d"


def test_a_damaged_file_of_steps_is_named(worked, operator, browser):
    worked.office.folder("eng-1").record("steps.jsonl", "{}\n")
    found = operator.get("/v1/runs/eng-1").json()
    assert "damaged" in found["damaged"]
    assert found["steps"] == []
    assert "damaged" in browser.get("/runs/eng-1").text


def test_every_route_stands_in_the_description(site, operator):
    paths = operator.get("/openapi.json").json()["paths"]
    told = {path for path in paths if path.startswith("/v1/")}
    assert {
        "/v1/runs",
        "/v1/runs/{id}",
        "/v1/runs/{id}/stop",
        "/v1/tree",
        "/v1/stats",
        "/v1/debts",
        "/v1/wakes",
        "/v1/limits",
    } <= told


def test_what_waits_is_told_and_answered_over_http(worked, operator):
    """As the shell says it; and an answer ends what it is about, once."""
    eng = worked.memory.as_agent("eng-a")
    asked = eng.append("Which port?", "projects/web", to="operator")
    (item,) = operator.get("/v1/waiting").json()["waiting"]
    (shown,) = inbox(Source(worked.memory.store, worked.memory.store.root))
    assert item == shown.json(shown.at) | {"age": item["age"]}
    said = {"to": asked.id, "text": "8080"}
    done = operator.post("/v1/answer", json=said)
    assert done.status_code == 200
    assert (done.json()["entry"], done.json()["run"]) == (asked.id, "")
    assert eng.get(done.json()["entries"][0]).body == "8080"
    assert operator.post("/v1/answer", json=said).status_code == 409
    assert operator.post("/v1/answer", json=said | {"to": "no"}).status_code == 404
    assert operator.get("/v1/waiting").json() == {"waiting": []}
    assert worked.client("lead").get("/v1/waiting").status_code == 403
    assert worked.client("lead").post("/v1/answer", json=said).status_code == 403
    reading = worked.client("operator", read_only=True)
    assert reading.post("/v1/answer", json=said).status_code == 403
