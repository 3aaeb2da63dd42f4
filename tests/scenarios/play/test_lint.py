"""Scenarios of one's own: the example that they begin with, and what is found wrong with them."""

import pytest

from scenarios.__main__ import main
from scenarios.data.files import library, load
from scenarios.measure import metrics
from scenarios.play.harness import Counts, play
from scenarios.play.lint import example, problems


@pytest.mark.parametrize("name", library())
def test_what_is_shipped_is_sound(name):
    assert list(problems(name)) == []


def test_the_example_is_sound_and_shows_what_it_says(tmp_path, capsys):
    path = tmp_path / "mine.yaml"
    assert main(["new", "mine", str(path)]) == 0
    assert main(["lint", str(path)]) == 0
    assert main(["new", "mine", str(path)]) == 2  # what is there stays
    scenario, count = load(path.read_text()), Counts()
    assert scenario.id == "mine"
    ideal = load(path.read_text(), {"agents": "ideal"})
    run, base = (play(ideal, arm, 1, count) for arm in (scenario.gated, "isolated"))
    found = metrics.measured(run) | metrics.compared(run, base)
    assert (found["task_success"], found["duplicate_work"]) == (1, 0)
    assert found["net_saving"] > 0


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("arms: [isolated,", "arms: [isolated, telepathy,", "there is no arm telepathy"),
        ("net_saving[", "net_savings[", "net_savings is no figure"),
        ("net_saving[agents=ideal]", "net_saving[n=3]", "n=3 is no cell of the grid"),
        ("Build part {i} of the shop.", "Build part 100 to 999: $numbers", "can be read in"),
    ],
)
def test_what_is_wrong_is_found(tmp_path, capsys, old, new, problem):
    path = tmp_path / "wrong.yaml"
    text = example("wrong")
    assert old in text
    path.write_text(
        text.replace(old, new.replace("$numbers", " ".join(map(str, range(100, 1000)))))
    )
    assert main(["lint", str(path)]) == 1
    assert problem in capsys.readouterr().out


def test_what_cannot_be_read_is_told(tmp_path, capsys):
    path = tmp_path / "broken.yaml"
    path.write_text("id: broken\n")
    assert main(["lint", str(path)]) == 1
    assert "title is missing" in capsys.readouterr().out
