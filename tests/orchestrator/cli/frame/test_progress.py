"""The progress of runs as `run`, `team` and `resume` show it: on a terminal and elsewhere."""

import io

import pytest

from orchestrator.cli.frame.progress import Progress
from orchestrator.engines.protocol import Usage


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def family(office):
    """A lead with two engineers, one of them at its end."""
    office.begin("lead-1", "lead", task="Ship it")
    office.begin("eng-a-1", "eng-a", "lead-1", "lead-1", task="Serve it")
    office.begin("eng-b-1", "eng-b", "lead-1", "lead-1", task="Draw it")
    office.turn("lead-1", 1, "I plan.", usage=(1_000, 0), cost=0.5, agent="lead")
    office.turn("eng-a-1", 1, "It is served.")
    office.turn("eng-b-1", 1, "I draw.", usage=(200, 34), cost=None, agent="eng-b")
    office.end("eng-a-1", status="blocked", summary="", why="no port is free")
    return office


def test_a_run_is_shown_with_what_all_below_it_took(family):
    rows = Progress(io.StringIO()).look(family.memory.store, "h")
    assert [(row.run["run"], row.depth) for row in rows] == [
        ("lead-1", 0),
        ("eng-a-1", 1),
        ("eng-b-1", 1),
    ]
    assert [row.tree.runs for row in rows] == [3, 1, 1]
    assert rows[0].tree.usage == Usage(1_300, 54)
    assert [row.tree.cost for row in rows] == [pytest.approx(0.51), 0.01, None]


def test_elsewhere_each_step_is_a_line_once(family):
    out = io.StringIO()
    with Progress(out) as progress:
        progress.show(progress.look(family.memory.store, "h"))
        first = out.getvalue().splitlines()
        progress.show(progress.look(family.memory.store, "h"))
        assert out.getvalue().splitlines() == first
        family.turn("eng-b-1", 2, "It is drawn.", agent="eng-b")
        progress.show(progress.look(family.memory.store, "h"))
    assert "lead-1 1  says     I plan.  (1,000 in, 0 out)" in first
    assert "eng-a-1 blocked: its own 120 tokens, $0.0100  no port is free" in first
    assert out.getvalue().splitlines()[len(first) :] == [
        "eng-b-1 2  says     It is drawn.  (100 in, 20 out)"
    ]


def test_on_a_terminal_it_is_a_table_that_goes(family, monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("LINES", "24")
    out = Terminal()
    with Progress(out) as progress:
        progress.show(progress.look(family.memory.store, "h"))
        progress._live.refresh()
        shown = out.getvalue()
    for word in ("cost", "1,354", "$0.5100", "blocked", "no port is free"):
        assert word in shown


def test_nothing_where_it_is_quiet(family):
    for out in (io.StringIO(), Terminal()):
        with Progress(out, quiet=True) as progress:
            progress.show(progress.look(family.memory.store, "h"))
        assert out.getvalue() == ""
