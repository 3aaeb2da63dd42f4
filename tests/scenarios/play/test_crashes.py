"""A team that is killed: nothing is lost, whatever the moment."""

from scenarios.data import files
from scenarios.measure import metrics
from scenarios.play import crashes


def test_a_killed_team_finishes():
    scenario = files.load(files.find("crash_resume"), {"kills": 2})
    run = crashes.play(scenario, "crash_resume", "shipped", 5)
    found = metrics.measured(run)
    assert [event["ok"] for event in run.of("verdict")] == [True] * 4
    assert (found["lost_writes"], found["probe.crash.twice"], found["probe.crash.sound"]) == (
        0,
        0,
        1,
    )
    assert found["repeated_share"] < 0.2
    assert found["probe.crash.kills"] >= 1
