"""Nothing that was masked, refused, sealed or redacted is in any file of a person's machine, after
days and nights of exports, views, searches, runs, snapshots and restores.
"""

import os
import tempfile

import pytest

from orchestrator.runs.files import folder
from synapse import crypto
from synapse.index.index import Index
from synapse.integrity import redaction
from synapse.log import commit
from synapse.log import redact as in_log
from synapse.privacy import personal
from tests.privacy.season import Season, Size

SHORT = Size(nights=3, personal=84, secrets=66, redactions=9, restores=2)
LONG = Size(nights=50, personal=1_000, secrets=1_000, redactions=100, restores=10)
LEAST = Size(nights=2, personal=28, secrets=22, redactions=3, restores=2)


@pytest.fixture
def begun(tmp_path, monkeypatch):
    """Return what begins a season in a folder that holds all that it writes."""
    for name in ("home", "tmp"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("SYNAPSE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr(tempfile, "tempdir", None)
    seasons = []

    def begin(size):
        seasons.append(Season(tmp_path, size))
        return seasons[-1]

    yield begin
    for season in seasons:
        season.close()


def counts(season):
    return tuple(map(len, (season.refused, season.sealed, season.masked, season.redacted)))


def test_nothing_is_left_of_it(begun, capsys):
    season = begun(SHORT)
    assert season.play() == []
    assert all(count >= 9 for count in counts(season))


@pytest.mark.soak
def test_nothing_is_left_of_it_after_fifty_nights(begun, capsys):
    season = begun(LONG)
    found = season.play()
    with capsys.disabled():
        print(f"\nrefused, sealed, masked, redacted: {counts(season)}")
        print(f"{season.looks} looks through {season.read >> 20} MiB")
    assert found == []
    assert len(season.redacted) >= LONG.redactions


# -- the checker itself ----------------------------------------------------------------------------


def taken(value, *more):
    """Take it as it is."""
    return value


def nothing(*args):
    """Take nothing out of anything."""
    return set()


SEAL, OPEN = crypto.seal, []


def aside(body, *more):
    """Seal it, and leave the text in a temporary file."""
    with tempfile.NamedTemporaryFile("w", delete=False) as file:
        file.write(body)
    return SEAL(body, *more)


def held(body, *more):
    """Seal it, and leave the text in a file that has no name."""
    fd, path = tempfile.mkstemp()
    os.write(fd, body.encode())
    os.unlink(path)
    OPEN.append(fd)
    return SEAL(body, *more)


@pytest.mark.parametrize(
    ("owner", "name", "wrong", "where"),
    [
        (personal, "checked", taken, "not refused"),
        (commit, "safe", taken, "/journal/"),
        (folder, "mask_json", taken, "/runs/"),
        (redaction, "_overwrite", nothing, "/runs/"),
        (Index, "purge", nothing, "/.index/brain.db"),
        (in_log, "remove", nothing, "/entries/"),
        (in_log, "blank", nothing, "/out/export"),
        (crypto, "seal", aside, "/tmp/"),
        (crypto, "seal", held, "open"),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_what_forgets_a_place_is_found_out(begun, capsys, monkeypatch, owner, name, wrong, where):
    monkeypatch.setattr(owner, name, wrong)
    found = begun(LEAST).play(where)
    while OPEN:
        os.close(OPEN.pop())
    assert any(where in str(what) for what in found)
