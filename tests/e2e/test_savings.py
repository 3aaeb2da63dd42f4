"""The scenario of real clients, in its short form: one seed, with the plugin and without, and what
it came to.
"""

import json

import pytest

from scenarios import __main__ as suite
from scenarios.clients import figures

pytestmark = pytest.mark.soak

CELLS = ("brief", "apart")


@pytest.fixture(scope="module")
def played(installed, tmp_path_factory):
    """The folder that a run of the scenario leaves."""
    folder = tmp_path_factory.mktemp("clients")
    words = [
        "clients",
        "--command",
        str(installed / "claude"),
        "--cells",
        ",".join(CELLS),
        "--runs",
        "1",
    ]
    assert (
        suite.main([*words, "--p-read", "1", "--wrong-notes", "0", "--quiet", "--out", str(folder)])
        == 0
    )
    return folder


@pytest.fixture(scope="module")
def sessions(played):
    with open(played / "clients.jsonl", encoding="utf-8") as file:
        return figures.sessions(json.loads(line) for line in file)


def test_every_task_is_done_right_in_both_arms(sessions):
    assert len(sessions) == 2 * len(CELLS)
    assert {figures.figures(session).right for session in sessions.values()} == {2.0}


def test_without_the_plugin_nothing_of_it_is_there(sessions):
    for (_, arm, _), session in sessions.items():
        came = figures.figures(session)
        assert (came.hooks > 0, came.completions > 0) == ((arm == "plugin",) * 2)


def test_the_second_agent_redoes_nothing_that_the_first_said(sessions):
    alone, plugin = (figures.figures(sessions["brief", arm, 1]) for arm in ("without", "plugin"))
    assert (alone.read_twice, alone.fetched_twice) == (4, 1)
    assert (plugin.read_twice, plugin.fetched_twice) == (0, 0)
    assert plugin.tokens < alone.tokens


def test_where_nothing_is_shared_it_only_costs(sessions):
    alone, plugin = (figures.figures(sessions["apart", arm, 1]) for arm in ("without", "plugin"))
    assert (alone.read_twice, plugin.read_twice) == (0, 0)
    assert alone.tokens < plugin.tokens
    assert plugin.requests == alone.requests


def test_the_witnesses_agree_on_every_token(sessions):
    for (_, arm, _), session in sessions.items():
        runs = [record for record in session if record["kind"] == "run"]
        assert len(runs) == (3 if arm == "plugin" else 0)
        assert list(figures.wrong(session)) == []


def test_the_figures_are_made_again(played, capsys):
    assert suite.main(["clients", "--again", str(played)]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80
