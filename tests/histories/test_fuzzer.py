"""The fuzzer of histories: it finds what is planted, and nothing in the product."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from synapse.access import review
from synapse.index.index import Index
from synapse.index.questions import mailbox
from synapse.integrity import repair
from synapse.log import mirror, proof, settle
from synapse.log.commit import Commit
from synapse.log.journal import Journal
from tests.histories.elsewhere import Elsewhere
from tests.histories.play import made_template, play

ROOT = Path(__file__).parents[2]
PLANTED_ACTS, SEEDS = 20, 30
SHORT = 6  # steps of the histories of every run; `make soak` plays longer ones


# -- planted bugs ----------------------------------------------------------------------------------


def lost_after_the_ack(patch):
    """Every ninth append is told to be written, and is not there."""
    real, calls = Journal.append, []

    def append(self, records, place=lambda record, tail, at: record):
        results = real(self, records, place)
        calls.append(results)
        if len(calls) % 9 == 0 and results[-1][1]:
            os.ftruncate(self._fd(self.segment), self.tail.start)
            self.tail = None
        return results

    patch.setattr(Journal, "append", append)


def doubled_under_one_key(patch):
    patch.setattr(Index, "first", lambda self, by, once: None)


def index_not_caught_up(patch):
    """Every third look at the log finds nothing new in it."""
    real, calls = Index.take_in, []

    def take_in(self):
        calls.append(self)
        if len(calls) % 3:
            real(self)

    patch.setattr(Index, "take_in", take_in)


def unread_not_delivered(patch):
    real = mailbox.unread
    patch.setattr(mailbox, "unread", lambda *asked: real(*asked)[:-1])


def repair_drops(patch):
    """Repair records every damaged file as lost, and deletes it."""

    def mend(found):
        files = [file for file in found.expected if file.path in found.wrong]
        for file in files:
            found.mirror.remove(file.path)
        return [], [file.id for file in files]

    for module in (proof, repair):
        patch.setattr(module, "mend", mend)


def refused_and_stored(patch):
    """What could not be synced is not taken back."""
    patch.setattr(Journal, "_void", lambda self, records: None)


def written_into_the_old_file(patch):
    """A journal that was replaced is not noticed by who has it open."""

    def named(self):
        fd = self._fd(self.segment)
        return fd, os.fstat(fd).st_size

    patch.setattr(Journal, "_named", named)


def torn_line_without_a_seal(patch):
    def seal(self, fd, tail, size):
        os.write(fd, b"~\n")
        self.tail = tail._replace(end=size + 2)

    patch.setattr(Journal, "_seal", seal)


def torn_line_taken_for_a_loss_by_nobody(patch):
    """A torn end is sealed before anybody looks what was lost there."""
    patch.setattr(Commit, "check", lambda self: None)


def page_torn_for_good(patch):
    patch.setattr(mirror, "_torn_at", len)


def file_passed_over(patch):
    patch.setattr(settle, "_raise_passing", lambda error: None)


def acknowledged_without_effect(patch):
    patch.setattr(review, "refuse_staged", lambda entry, action: None)


PLANTED = [
    lost_after_the_ack,
    doubled_under_one_key,
    index_not_caught_up,
    unread_not_delivered,
    repair_drops,
    refused_and_stored,
    written_into_the_old_file,
    torn_line_without_a_seal,
    torn_line_taken_for_a_loss_by_nobody,
]
# Those that the fuzzer found in the product: rarer, for it had passed many tests.
RARE = [page_torn_for_good, file_passed_over, acknowledged_without_effect]


@pytest.fixture(scope="module")
def stage(tmp_path_factory):
    elsewhere = Elsewhere()
    yield made_template(str(tmp_path_factory.mktemp("histories"))), elsewhere
    elsewhere.close()


def first_found(stage, tmp_path, seeds):
    for seed in range(seeds):
        if play(seed, PLANTED_ACTS, *stage, parent=str(tmp_path)).problems:
            return seed
    return None


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_it_finds_what_is_planted(stage, tmp_path, monkeypatch, plant):
    plant(monkeypatch)
    assert first_found(stage, tmp_path, SEEDS) is not None


@pytest.mark.soak
@pytest.mark.parametrize("plant", RARE, ids=lambda plant: plant.__name__)
def test_it_finds_what_was_in_the_product(stage, tmp_path, monkeypatch, plant):
    plant(monkeypatch)
    assert first_found(stage, tmp_path, 200) is not None


# -- the product -----------------------------------------------------------------------------------


def histories(*words):
    command = [sys.executable, "-m", "tests.histories", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_nothing_goes_wrong_in_eighty_histories():
    done = histories("--seeds", "0:80", "--acts", f"{SHORT}")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.soak
def test_nothing_goes_wrong_in_five_thousand_histories():
    done = histories("--seeds", "0:5000")
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_history_is_the_same_each_time():
    one, two = (
        histories("--seed", "7", "--verbose", "--acts", f"{SHORT}").stdout for _ in range(2)
    )
    assert one.splitlines()[:-1] == two.splitlines()[:-1]
    assert "acked" in one
