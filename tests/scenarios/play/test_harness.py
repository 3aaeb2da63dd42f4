"""A run of a scenario: what it is made of, and that it is the same every time."""

import json
import os
import subprocess
import sys
from functools import cache

import pytest

from scenarios.data import files, ledger
from scenarios.data.ledger import BrokenLedger
from scenarios.measure import samples
from scenarios.play import batch
from scenarios.play.harness import Counts, play


@pytest.fixture(scope="module")
def count():
    return Counts()


@pytest.fixture(scope="module")
def landing():
    return files.load(files.find("landing_pages"))


@pytest.fixture(scope="module")
def played(landing, count):
    return cache(lambda arm: play(landing, arm, 7, count))


@pytest.fixture
def lines(played):
    return list(ledger.lines_of(played("view")))


@pytest.mark.parametrize("arm", ["isolated", "view"])
def test_a_run_is_whole(played, arm):
    run = played(arm)
    assert [event["ok"] for event in run.of("verdict")] == [True] * 7
    assert len(run.of("spawn")) == len(run.of("end")) == 7
    prompts, replies = run.of("prompt"), run.of("completion")
    assert sorted((e["run"], e["step"]) for e in prompts) == sorted(
        (e["run"], e["step"]) for e in replies
    )
    assert all(event["segments"] for event in prompts)


def test_the_same_seed_gives_the_same_bytes_in_another_process(lines, tmp_path):
    code = "import sys; from scenarios.data import files as r, ledger;"
    code += "from scenarios.play import harness;"
    code += (
        "sys.stdout.writelines(ledger.lines_of(harness.play(r.load(r.find('landing_pages')),"
        " 'view', 7)))"
    )
    env = os.environ | {"PYTHONHASHSEED": "3", "TZ": "Asia/Tokyo"}
    told = subprocess.run(
        [sys.executable, "-c", code],
        env=env,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert told.stdout == "".join(lines)


def test_another_seed_gives_another_run(played, landing, count):
    assert play(landing, "view", 8, count).events[1:] != played("view").events[1:]


def test_a_line_is_never_later_than_the_last(count):
    """Also where the past that the memory was given adds up to a hair less than its days."""
    small = files.load(files.find("context_explosion"), {"n": 3, "entries": 17})
    for seed in range(2):
        lines = list(ledger.lines_of(play(small, "isolated", seed, count)))
        assert max(json.loads(line)["t"] for line in lines) == json.loads(lines[-1])["t"]
        assert len(list(ledger.runs(lines))) == 1


def test_a_ledger_comes_back_from_its_file(lines, tmp_path):
    for name in ("a.jsonl", "a.jsonl.gz"):
        path = str(tmp_path / name)
        ledger.write(path, [*lines, *lines])
        again = ledger.read(path)
        assert [list(ledger.lines_of(run)) for run in again] == [lines] * 2
    assert again[0].key == ("landing_pages", "view", "", 7)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda lines: lines[1:], "before any begin"),
        (lambda lines: lines[:-1], "no finish"),
        (lambda lines: [*lines[:5], lines[0], *lines[5:]], "within a run"),
        (lambda lines: [*lines[:5], "{}\n"], "KeyError"),
        (lambda lines: [lines[0].replace("ledger-v1", "ledger-v0")], "format"),
        (lambda lines: [lines[0], lines[-2], *lines[1:]], "earlier"),
    ],
)
def test_a_broken_ledger_is_found_out(lines, change, problem):
    with pytest.raises(BrokenLedger, match=problem):
        list(ledger.runs(change(lines)))


@pytest.mark.parametrize(
    ("name", "arm"),
    [("blocker_two_answers", "view_capsule"), ("poisoned_memory", "broadcast"), ("telephone", "manager"),
     ("defrag_30_days", "nightly")],
)  # fmt: skip
def test_what_was_played_is_what_its_lines_say(name, arm):
    """The figures are taken from what was played; `verify` takes them from the lines."""
    cell = (("days", 3),) if name == "defrag_30_days" else ()
    (made,) = batch.played([batch.Order(name, arm, 5, cell)])
    assert [made.sample] == samples.of_lines(made.text.splitlines(keepends=True))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda events: events[1:], "before any begin"),
        (lambda events: events[:-1], "no finish"),
        (lambda events: [*events[:5], events[0], *events[5:]], "within a run"),
        (lambda events: [*events[:5], {"kind": "guess", "t": 0}], "no kind of event"),
        (lambda events: [events[0], events[-2], *events[1:]], "earlier"),
    ],
)
def test_a_broken_run_is_found_out_before_it_is_written(played, change, problem):
    assert ledger.checked(played("view")).events == played("view").events
    with pytest.raises(BrokenLedger, match=problem):
        batch.of_run(ledger.Run(change(list(played("view").events))))
