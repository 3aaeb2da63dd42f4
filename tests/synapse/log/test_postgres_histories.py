"""Whatever becomes of machines, connections and the server: nothing acknowledged is lost or doubled,
nothing refused is stored, no subscriber misses a record, and all copies are the database's lines.
"""

import json

import pytest

from tests.postgres_histories import Scale, play

FEW = Scale(
    harm=(
        ("end_backend", 4),
        ("stop_server", 1),
        ("kill_machine", 2),
        ("cut", 2),
        ("freeze", 1),
        ("swallow", 6),
    )
)
MANY = Scale(
    writers=8,
    texts=20_000,
    subscribers=10,
    harm=(
        ("end_backend", 50),
        ("stop_server", 20),
        ("kill_machine", 100),
        ("cut", 50),
        ("freeze", 20),
        ("freeze_server", 10),
        ("swallow", 200),
    ),
)
BUGS = {"acknowledge_early": "cut", "copy_early": "cut", "guess": "swallow"}


def test_a_history_of_harm_is_sound(tmp_path, postgres_server, url):
    assert play(tmp_path, postgres_server, url, FEW)[0] == []


@pytest.mark.parametrize("bug", BUGS)
def test_a_history_of_a_wrong_journal_is_caught(bug, tmp_path, postgres_server, url):
    scale = Scale(machines=2, harm=((BUGS[bug], 10),))
    assert play(tmp_path, postgres_server, url, scale, bug)[0]


@pytest.mark.soak
def test_a_long_history_of_harm_is_sound(tmp_path, postgres_server, url):
    wrong, counts = play(tmp_path, postgres_server, url, MANY)
    print(json.dumps(counts))
    assert wrong == []
