"""Replaying recorded runs: what counts as used, what a policy costs, and that the figures can come out bad."""

import json
from pathlib import Path

import pytest

from scenarios import __main__ as shell
from scenarios import replay
from scenarios.replay import Trace
from synapse.condense import Said


def trace(*said: tuple[str, str]) -> Trace:
    return Trace("t", said[0][1], {}, tuple(Said(author, text, replay._prints(author)) for author, text in said))


RUN = trace(
    ("human", "Find out about Port Arthur."),
    ("Lead (thought)", "Port Arthur first; ask Ada Byron about 4711."),
    ("Lead (-> WebSurfer)", "Open https://a.example/port please"),
    ("WebSurfer", "a page: Grand Hotel Zaza, 1234 rooms"),
    ("Lead (thought)", "so the Grand Hotel Zaza has 1234 rooms; ask Ada Byron."),
)


def test_what_a_step_used_is_found() -> None:
    found = {step.at: step.needs for step in replay.steps(RUN)}
    assert found[4] == {"Grand Hotel Zaza", "1234", "Ada Byron"}
    assert 3 not in found, "a browser reads nothing"
    assert not found[1], "what the task says is no dependency"


def test_everything_shows_everything_and_nothing_shows_nothing() -> None:
    taken = list(replay.steps(RUN))
    whole = replay.summary([replay.score(RUN, replay.everything, taken)])
    assert whole["availability"] == [1.0, 1.0, 1.0]
    assert whole["cost"] == [1.0, 1.0, 1.0]
    empty = replay.summary([replay.score(RUN, lambda trace, at: [], taken)])
    assert empty["availability"][0] == 0
    assert empty["cost"][0] < 1


def test_a_window_misses_what_is_older() -> None:
    taken = list(replay.steps(RUN))
    one = replay.summary([replay.score(RUN, replay.last(1), taken)])
    assert one["availability"][0] == pytest.approx(2 / 3)


def test_cost_counts_the_roles_prompt_each_time() -> None:
    told = RUN._replace(roles={"Lead (thought)": "You lead. " * 50})
    plain, dear = ([*replay.steps(each)] for each in (RUN, told))
    assert sum(step.fixed for step in dear) > sum(step.fixed for step in plain) + 2 * 50


def test_a_folder_of_traces(tmp_path: Path) -> None:
    for kind in ("long", "short"):
        (tmp_path / kind).mkdir()
        for number in range(3):
            history = [{"content": each.text, "role": each.author} for each in RUN.said]
            (tmp_path / kind / f"{number}.json").write_text(
                json.dumps({"history": history, "system_prompt": "{'Lead (thought)': 'You lead.'}"})
            )
    (tmp_path / "note.json").write_text("[1]")
    report = replay.report(tmp_path)
    assert set(report["policies"]) == {"long", "short"}
    assert report["policies"]["long"]["everything"]["runs"] == 3
    assert all(len(line) <= 80 for line in replay.table(report))


def test_the_same_report_twice(tmp_path: Path) -> None:
    taken = list(replay.steps(RUN))
    scores = [replay.score(RUN, policy, taken) for policy in replay.policies().values()]
    assert replay.summary(scores) == replay.summary(scores)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "0.json: is no recorded run: JSONDecodeError"),
        ('{"history": [{"content": "a"}]}', "0.json: is no recorded run: KeyError: 'role'"),
        ('{"history": ["a"]}', "0.json: is no recorded run: AttributeError"),
        ('{"history": [{"role": "human", "content": "Find it out."}]}', "no recorded runs there"),
        ("[1]", "no recorded runs there"),
    ],
)
def test_what_is_no_run_is_told(tmp_path: Path, capsys, text: str, told: str) -> None:
    (tmp_path / "0.json").write_text(text)
    assert shell.main(["replay", str(tmp_path)]) == 2
    assert told in capsys.readouterr().err


def test_a_run_in_which_nobody_answers_is_left_out(tmp_path: Path) -> None:
    for number, said in enumerate((RUN.said, RUN.said[:1])):
        history = [{"content": each.text, "role": each.author} for each in said]
        (tmp_path / f"{number}.json").write_text(json.dumps({"history": history}))
    (rows,) = replay.report(tmp_path)["policies"].values()
    assert rows["everything"]["runs"] == 1


def test_messages_without_a_text_cost_nothing(tmp_path: Path) -> None:
    history = [{"role": "human", "content": ""}, {"role": "Lead", "content": None}]
    (tmp_path / "0.json").write_text(json.dumps({"history": history}))
    (rows,) = replay.report(tmp_path)["policies"].values()
    assert rows["everything"]["cost"] == [0, 0, 0]
