import re
import sys

import pytest

from synapse.cli.frame.table import draw_table, table

ROWS = [("r2d2", "cto", "100"), ("eng-frontend", "engineer", "60")]


def test_columns_are_aligned():
    assert table(("id", "role", "authority"), ROWS) == (
        "id            role      authority\nr2d2          cto       100\neng-frontend  engineer  60"
    )


def test_cells_are_clean():
    assert "\x1b" not in table(("id",), [("\x1b[31m",)])


def test_without_a_terminal_it_is_plain():
    assert draw_table(("id", "role", "authority"), ROWS) == table(("id", "role", "authority"), ROWS)


def test_on_a_terminal_it_is_folded_to_the_width(monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    shown = draw_table(("check", "detail"), [("[bold]sqlite", "word " * 60)])
    assert "[bold]sqlite" in shown
    assert max(len(re.sub(r"\x1b\[[0-9;]*m", "", line)) for line in shown.splitlines()) <= 80
    assert shown.count("word") == 60


@pytest.mark.parametrize("rows", [[], [("a",)]])
def test_one_column(rows):
    assert table(("id",), rows).splitlines()[0] == "id"
