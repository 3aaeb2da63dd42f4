"""A scenario is played with the overlap and the price of a team that was recorded."""

import json

import pytest

from scenarios import __main__ as shell
from scenarios.data.files import BrokenScenario, find, load
from scenarios.data.recorded_team import RecordedTeam, parameters_of, read_team
from scenarios.data.schema import drawn_needs

MAIN = find("redundant_discovery")


def found_again(overlap):
    """How much of what the agents need another one needs too, counted task by task."""
    scenario = load(MAIN, {"overlap": overlap})
    shares = []
    for seed in range(scenario.seed, scenario.seed + 5):
        earlier, again, count = set(), 0, 0
        for job in drawn_needs(scenario, seed).jobs:
            for need in job.needs:
                again, count = again + (need in earlier), count + 1
                earlier.add(need)
        shares.append(again / count)
    return sum(shares) / len(shares)


@pytest.mark.parametrize("again", [0.0, 0.048, 0.3, 0.64])
def test_agents_find_out_again_as_much_as_the_team(again):
    parameters = parameters_of(RecordedTeam(again, 3_000), MAIN)
    assert found_again(parameters["overlap"]) == pytest.approx(again, abs=0.03)
    assert parameters["price"] == 0.5  # a fact of this scenario takes 6,000 tokens


def test_a_scenario_without_an_overlap_has_none_of_a_team():
    with pytest.raises(BrokenScenario, match="has no overlap"):
        parameters_of(RecordedTeam(0.1, 100), find("stale_authority"))


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"team": {"again": 0.1}}', '{"team": 7}'])
def test_what_is_no_audit_says_how_to_make_one(tmp_path, text):
    path = tmp_path / "audit.json"
    path.write_text(text)
    with pytest.raises(BrokenScenario, match=r"audit\.json: "):
        read_team(str(path))


def test_the_report_says_what_was_played(tmp_path):
    path, out = tmp_path / "audit.json", tmp_path / "out"
    path.write_text(json.dumps({"team": {"again": 0.048, "tokens": 600.0}}))
    words = [
        "run",
        "redundant_discovery",
        "--from",
        str(path),
        "--runs",
        "1",
        "--no-grid",
        "--quiet",
    ]
    words += ["--arms", "isolated,shipped", "--set", "n=4", "--jobs", "1", "--out", str(out)]
    assert shell.main(words) in (0, 1)
    params = json.loads((out / "report.json").read_text())["scenarios"]["redundant_discovery"][
        "params"
    ]
    assert (params["price"], params["n"]) == (0.1, 4)
    assert f"Judged at n 4, overlap {params['overlap']}" in (out / "report.md").read_text()


def test_from_is_of_one_scenario(tmp_path, capsys):
    path = tmp_path / "audit.json"
    path.write_text(json.dumps({"team": {"again": 0.048, "tokens": 600.0}}))
    assert shell.main(["run", "all", "--from", str(path)]) == 2
    assert "name one scenario" in capsys.readouterr().err
