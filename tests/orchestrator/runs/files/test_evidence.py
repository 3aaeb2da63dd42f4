"""Steps that are not all there: a run is not gone on with, and the reason is told."""

import json
import shutil
from pathlib import Path

import pytest

from orchestrator.runs.files import evidence
from orchestrator.runs.files import folder as folders
from orchestrator.runs.files.folder import LEDGER, STEPS, Folder
from synapse.errors import StoreCorrupt


def turn(number, stop="done"):
    return json.dumps({"step": number, "stop": stop}) + "\n"


def step(number):
    return json.dumps({"kind": "turn", "ledger": turn(number)}) + "\n"


@pytest.fixture
def folder(tmp_path):
    folder = Folder(str(tmp_path), "eng-1").make()
    for number in range(2):
        folder.record(STEPS, step(number))
        folder.record(LEDGER, turn(number))
    return folder


def reason(folder, shown=True):
    """Return why a run is not gone on with; nothing where it is."""
    try:
        evidence.demand_all_steps(folder, shown)
    except StoreCorrupt as error:
        return str(error)
    return ""


def test_a_run_whose_steps_are_all_there_goes_on(folder):
    assert reason(folder) == ""
    folder.record(LEDGER, turn(2, stop="lost"))  # calls that nobody answered
    folder.record(LEDGER, turn(3, stop="unanswered"))
    assert reason(folder) == ""


@pytest.mark.parametrize(("more", "told"), [(1, "names a call"), (2, "names 2 calls")])
def test_calls_of_the_ledger_that_no_step_has_are_told(folder, more, told):
    for number in range(more):
        folder.record(LEDGER, turn(10 + number))
    assert told in reason(folder)


def test_steps_that_lost_their_end_are_told(folder):
    path = Path(folder.path, STEPS)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(step(0))])
    assert folders.SHORTER in reason(folder)
    path.write_bytes(whole)
    assert reason(folder) == ""


def test_a_copy_of_the_steps_is_told(folder):
    path = Path(folder.path, STEPS)
    shutil.copy(path, path.with_name("copy"))
    path.with_name("copy").replace(path)
    assert folders.COPY in reason(folder)
    Path(folder.path, "steps.mark").unlink()  # of an earlier version, which made none
    assert reason(folder) == ""


@pytest.mark.parametrize("mark", ["", "half", "1 2 3", "x y"])
def test_a_mark_that_cannot_be_read_says_nothing(folder, mark):
    Path(folder.path, "steps.mark").write_text(f"{mark}\n")
    assert reason(folder) == ""


@pytest.mark.parametrize("shown", [True, False])
def test_a_run_that_left_nothing_goes_on_unless_its_prompt_was_shown(tmp_path, shown):
    folder = Folder(str(tmp_path), "eng-2").make()
    assert (evidence.NONE in reason(folder, shown)) is shown
    Path(folder.path, STEPS).touch()
    assert (evidence.NONE in reason(folder, shown)) is shown
    Path(folder.path, STEPS).unlink()
    folder.record(LEDGER, turn(0))
    assert evidence.NONE in reason(folder, shown)
