"""Whoever plays a ledger's runs again gets the same bytes, or is told which differ."""

import gzip
import json

import pytest

from scenarios import __main__ as shell
from scenarios.data import ledger
from scenarios.play import rerun

MINE = """schema: brain-suite/v1
id: mine
title: Mine
shows: A test.
seed: 3
runs: 2
project: web
arms: [isolated, shipped]
facts:
  - {id: width, subject: the width of the page, namespace: projects/web, known: a}
agents: [{id: a}, {id: b}]
tasks:
  - {id: one, agent: b, text: Do the page., needs: [width], steps: 3}
gates: [task_success == 1]
"""


@pytest.fixture
def folder(tmp_path):
    """Runs of a scenario that is not in the library, with its file beside them."""
    (tmp_path / "mine.yaml").write_text(MINE)
    asked = [
        "run",
        str(tmp_path / "mine.yaml"),
        "--quiet",
        "--jobs",
        "1",
        "--prompts",
        "--out",
        str(tmp_path / "out"),
    ]
    assert shell.main(asked) == 0
    return tmp_path


def verify(folder, *more):
    return shell.main(["verify", str(folder / "out"), "--jobs", "1", "--replay", *more])


def test_the_same_once_more_is_the_same_to_the_byte(folder, capsys):
    assert verify(folder, "--scenario", str(folder / "mine.yaml")) == 0
    assert "ok: 4 runs were played again, and are the same to the byte" in capsys.readouterr().out


def test_a_line_that_was_changed_is_named(folder, capsys):
    path = str(folder / "out" / "ledger.jsonl.gz")
    runs = ledger.read(path)
    event = next(event for event in runs[2].of("spawn"))
    # the digest of the ledger says that something is changed, playing again says what
    event["budget"] += 1
    number = runs[2].events.index(event) + 1
    ledger.write(path, [line for run in runs for line in ledger.lines_of(run)])
    found = rerun.rerun(path, [str(folder / "mine.yaml")])
    name = f"mine {runs[2].begin['arm']} {runs[2].begin['seed']}"
    assert [
        line.partition(" in the ledger")[0].partition(": '")[0] for line in found.differences
    ] == [f"{name}: line {number} differs"]
    assert verify(folder, "--scenario", str(folder / "mine.yaml")) == 1
    assert f"{name}: line {number} differs" in capsys.readouterr().out


def test_a_line_that_is_missing_is_named(folder):
    path = str(folder / "out" / "ledger.jsonl.gz")
    lines = list(ledger.lines(path))
    gone = next(
        number for number, line in enumerate(lines) if json.loads(line)["kind"] == "tool_call"
    )
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.writelines(line for number, line in enumerate(lines) if number != gone)
    found = rerun.rerun(path, [str(folder / "mine.yaml")])
    assert len(found.differences) == 1
    assert f"line {gone + 1} differs" in found.differences[0]


def test_a_scenario_that_was_changed_since_is_said_to_be(folder, capsys):
    (folder / "mine.yaml").write_text(MINE.replace("steps: 3", "steps: 4"))
    assert verify(folder, "--scenario", str(folder / "mine.yaml")) == 1
    out = capsys.readouterr().out
    assert "mine: its file has changed since: sha256" in out
    assert "played again" not in out


def test_what_cannot_be_played_again_is_said(folder, capsys):
    assert verify(folder) == 0
    assert (
        "not checked: the same once more: mine: not in the library; name its file: --scenario FILE"
        in (capsys.readouterr().out)
    )
