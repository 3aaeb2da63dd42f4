"""The figures of the README that `make suite` prints, played again."""

import re
from pathlib import Path

import pytest

from scenarios.__main__ import main

README = Path(__file__).parents[2] / "README.md"


@pytest.mark.soak
def test_the_readme_has_the_figures_of_the_main_scenario(tmp_path, capsys):
    words = ["run", "landing_pages", "--runs", "2", "--no-grid", "--quiet"]
    assert main([*words, "--out", str(tmp_path / "suite")]) in (0, 1)
    shown = capsys.readouterr().out
    text = " ".join(README.read_text(encoding="utf-8").split())
    isolated = re.search(r"^\*shipped .*? (\d+)% (\[\d+, \d+\])", shown, re.MULTILINE)
    assert f"take {isolated[1]} % fewer tokens {isolated[2]} than" in text
    for rival, place in (("file_tail", "NOTES.md"), ("native_store", "LangGraph")):
        fewer = re.search(rf"^{rival} +█.* (\d+)% (\[\d+, \d+\])$", shown, re.MULTILINE)
        assert re.search(
            rf"\| [^|]*{place}[^|]*\|[^|]*\|[^|]* {fewer[1]} % fewer tokens"
            rf" {re.escape(fewer[2])} ᵃ",
            text,
        )
