"""The page: whole, by itself, with what there is to draw and a word about what there is not."""

import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from importlib import resources
from itertools import pairwise

import pytest

from scenarios.measure.findings import Threshold
from scenarios.measure.samples import Sample
from scenarios.report import charts, markdown, page, pictures, report, terminal, words
from scenarios.report.charts import Bar, Frame, Point, Series

VOID = {"meta", "br", "link"}
SVG = re.compile(r"<svg.*?</svg>", re.DOTALL)


class Checked(HTMLParser):
    """Reads a page; whether every element that is opened is closed, in turn."""

    def __init__(self):
        super().__init__()
        self.open, self.wrong = [], []

    def handle_starttag(self, tag, attrs):
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append((tag, self.getpos()))


def sample(
    arm,
    seed,
    tokens,
    cell=(),
    *,
    team=6,
    gated=False,
    scenario="redundant_discovery",
    waits=(),
    days=(),
    **more,
):
    tally = {f"{part}{how}": float(tokens) for part in ("work", "memory", "planning", "tokens")
             for how in ("", "_unique", "_discounted")}  # fmt: skip
    tally["usd"] = tokens / 1e6
    figures = {"tokens": float(tokens), "tokens.system": tokens / 2, "tokens.view": tokens / 2, "task_success": 1.0,
               "usd": tokens / 1e6, "success": 1.0, "wake_delivery": 1.0, **more}  # fmt: skip
    return Sample(
        scenario,
        "d",
        arm,
        tuple(cell),
        seed,
        gated,
        "o200k_base",
        "exact",
        team,
        3,
        figures,
        tally,
        waits,
        days,
    )


def everything():
    """Runs of which every chart can be drawn."""
    for seed in range(4):
        for n in (3, 6, 20):
            for overlap in (0.0, 0.75):
                cell = (("n", n), ("overlap", overlap))
                cell = tuple(pair for pair in cell if pair not in (("n", 20), ("overlap", 0.75)))
                yield sample("isolated", seed, 1_000 * n + seed, cell, team=n)
                yield sample("broadcast", seed, 1_300 * n, cell, team=n)
                yield sample(
                    "view", seed, 1_000 * n - 200 * n * (overlap - 0.1), cell, team=n, gated=True
                )
        for arm in ("isolated", "manager", "view"):
            about = {"context_reduction": 0.8, "needed_recall": 0.97} | {
                f"fidelity.{hop}": 1 / hop for hop in range(1, 9)
            }
            yield sample(arm, seed, 900, scenario="telephone", gated=arm == "view", waits=(1.0, 2.5),
                         days=((1, 100.0), (2, 150.0)), **about)  # fmt: skip


def reported(samples, thresholds=()):
    samples = sorted(samples, key=lambda each: (each.scenario, len(each.cell)))
    told = {"title": "A <b>title</b>", "shows": "what & why", "headline": "", "digest": "d", "gated": "view",
            "params": {"n": 20, "overlap": 0.75}, "arms": {},
            "missing": {"native_store": "langgraph is not installed"}}  # fmt: skip
    names = dict.fromkeys(each.scenario for each in samples)
    run = {"level": "L0", "version": "0", "git": None}
    return report.made(samples, dict.fromkeys(names, told), thresholds, "0" * 64, run)


@pytest.fixture(scope="module")
def whole():
    gates = [
        Threshold("redundant_discovery", "net_saving >= 0.9", "net_saving", "view", ">=", 0.9),
        Threshold("telephone", "asr_act == 0", "asr_act", "view", "==", 0),
        Threshold("telephone", "task_success == 1", "task_success", "view", "==", 1),
    ]
    return reported(everything(), gates)


def test_every_chart_is_drawn(whole):
    drawn = list(pictures.of(whole))
    assert [each.title for each in drawn if not each.drawing] == []
    assert len(drawn) == 8
    for each in drawn:
        for svg in SVG.findall(each.drawing):
            ET.fromstring(svg)


def test_the_page_is_whole_and_needs_nothing_else(whole):
    text = page.html(whole)
    checked = Checked()
    checked.feed(text)
    assert (checked.wrong, checked.open) == ([], [])
    assert not re.search(r"<script|<link|<img|@import|url\(|https?://", text)
    assert "prefers-color-scheme: dark" in text
    assert "<b>title</b>" not in text
    assert report.ONLY_CHANCE in text
    for level in ("L0", "L1", "L2"):
        assert level in text


def test_why_it_is_judged_there_and_what_all_other_cells_come_to(whole):
    headline = 'For <20> & "more" agents, as first written.'
    told = {name: each | {"headline": headline} for name, each in whole.table["scenarios"].items()}
    shown = whole._replace(table=whole.table | {"scenarios": told})
    text, written = page.html(shown), "\n".join(markdown.lines(shown))
    assert "Judged at n 20, overlap 0.75. For &lt;20&gt; &amp; &quot;more&quot; agents" in text
    assert f"Judged at n 20, overlap 0.75. {headline}" in " ".join(shown_in_80(shown))
    # nothing in it begins a tag of HTML
    told = headline.replace("<", "&lt;")
    assert f"Judged at n 20, overlap 0.75. {told}" in written
    cells = whole.table["verdicts"][0]["cells"]
    assert len(cells) == 5
    assert len({each["met"] for each in cells.values()}) == 1, (
        "all miss it: each has to bear the mark"
    )
    for cell, figures in cells.items():
        value = words.amount("net_saving", figures["value"])
        (row,) = re.findall(rf"<tr>\n<th scope='row'>{cell}</th>(.*?)</tr>", text, re.DOTALL)
        assert f">{value}" in row
        assert re.search(r", n 4 (</small>)?<strong>!</strong></td>", row)
        (row,) = [line for line in written.splitlines() if line.startswith(f"| {cell} |")]
        assert f" {value}" in row
        assert row.endswith(", n 4 **!** |")
    for form in (text, written):
        assert form.count("<details") == form.count("</details>")
        assert "<summary>The other 5 cells of" in form


def test_a_cell_within_the_limit_bears_no_mark(whole):
    (verdict,) = [
        each for each in whole.table["verdicts"] if each["scenario"] == "redundant_discovery"
    ]
    met = verdict | {
        "cells": {cell: each | {"met": True} for cell, each in verdict["cells"].items()}
    }
    shown = whole._replace(table=whole.table | {"verdicts": [met]})
    assert "**!** |" not in "\n".join(markdown.lines(shown))
    assert "<strong>!</strong></td>" not in page.html(shown)
    one = verdict | {"cells": dict(list(met["cells"].items())[:1])}
    shown = whole._replace(table=whole.table | {"verdicts": [one]})
    for form in ("\n".join(markdown.lines(shown)), page.html(shown)):
        assert "<summary>The other cell of" in form


def test_what_was_missed_is_told_with_its_reason(whole):
    text = page.html(whole)
    assert "redundant_discovery, view: net_saving &gt;= 0.9 came to" in text
    assert "asr_act == 0: nothing was measured" in text
    assert "langgraph is not installed" in text


def test_what_was_not_played_is_left_out_and_said_so():
    text = page.html(
        reported(
            sample(arm, seed, 900, scenario="other")
            for arm in ("isolated", "view")
            for seed in (1, 2)
        )
    )
    for title in (
        "Net saving against the size of the team",
        "Thirty days of a memory",
        "What is left after so many hops",
    ):
        assert f"<li>{title}: <code>brain-suite run" in text
    assert "brain-suite run telephone" in text


@pytest.mark.parametrize(
    ("low", "high"), [(0, 1), (-0.3, 0.62), (3, 30), (0, 0), (1e5, 9e5), (0.9, 1.0)]
)
def test_ticks_are_round_and_reach_over_everything(low, high):
    found = charts.ticks(low, high)
    assert found[0] <= low
    assert found[-1] >= high
    assert 2 <= len(found) <= 8


def test_labels_keep_apart():
    series = [Series(f"arm{n}", [Point(1, 0.5), Point(2, 0.5 + n / 1_000)], n) for n in range(8)]
    svg = charts.lines("close", Frame("x", "y", charts.plain, charts.percent), series)
    places = sorted(float(y) for y in re.findall(r'class="name" x="[\d.]+" y="([\d.]+)"', svg))
    assert len(places) == 8
    assert min(b - a for a, b in pairwise(places)) >= charts.LINE - 0.2


def test_marks_say_their_values():
    frame = Frame("n", "saved", charts.plain, charts.percent)
    svg = charts.lines(
        "it", frame, [Series("a&b", [Point(3, 0.5, 0.4, 0.6, 30), Point(6, 0.7)], 1)]
    )
    assert "<title>a&amp;b: 50 % [40 %, 60 %] at 3, n = 30</title>" in svg
    svg = charts.stacked(
        "it",
        [Bar("view", [("work", 750.0), ("memory", 250.0)])],
        {"work": 1, "memory": 2},
        charts.thousands,
    )
    assert "<title>view: memory 250</title>" in svg
    assert ">1 k<" in svg


def test_figures_in_words():
    assert (
        words.figure("net_saving", {"value": 0.4567, "lo": 0.4, "hi": 0.5}) == "45.7% [40.0%, 50%]"
    )
    assert words.figure("tokens", {"value": 12345.6, "lo": 12345.6, "hi": 12345.6}) == "12,346"
    assert words.figure("usd", None) == "–"
    one = {"arm": "view", "where": {"overlap": 0.0, "n": 3}, "teams": [3, 6], "team": None}
    assert (
        words.pays(one) == "view at overlap 0.0: it does not pay at any size that was played (3, 6)"
    )
    assert words.pays(one | {"where": {}, "team": 6}) == "view: it pays from 6 agents on (of 3, 6)"


def shown_in_80(made):
    return list(terminal.lines(markdown.lines(made)))


def test_the_table_fits_the_terminal(whole):
    lines = shown_in_80(whole)
    assert max(map(len, lines)) <= 80
    assert any(line.startswith("*view") for line in lines)
    assert any("missed" in line and "net_saving >= 0.9" in line for line in lines)
    assert any("it pays from" in line for line in lines)


def test_markdown_has_whole_tables(whole):
    told = [line for line in markdown.lines(whole) if line.startswith("|")]
    assert any("**missed**" in line for line in told)
    blocks = "\n".join(markdown.lines(whole)).split("\n\n")
    for block in (block for block in blocks if block.startswith("|")):
        assert len({line.count("|") for line in block.splitlines()}) == 1


def test_parts_of_a_prompt_add_up_where_some_runs_lack_one():
    some = [
        sample("view", seed, 100, **({"tokens.capsule": 40.0} if seed else {})) for seed in range(4)
    ]
    assert reported(some).study.figures("redundant_discovery", "view")["tokens.capsule"].value == 30


def test_the_grid_is_drawn_of_the_team_and_one_other_parameter(whole):
    (drawn,) = [
        each.drawing for each in pictures.of(whole) if each.title == "Net saving over the grid"
    ]
    assert re.findall(r"scope='(?:col|row)'>([^<]+)<", drawn) == ["3", "6", "20", "0.0", "0.75"]
    assert drawn.count("n 4</small>") == 6


def test_a_parameter_that_never_varies_with_the_team_is_no_grid_of_it():
    cells = [(), (("entries", 140),), (("entries", 560),)]
    alone = [sample(arm, seed, 900, cell, gated=arm == "view")
             for cell in cells for arm in ("isolated", "view") for seed in (1, 2)]  # fmt: skip
    (drawn,) = [
        each for each in pictures.of(reported(alone)) if each.title == "Net saving over the grid"
    ]
    assert drawn.missing == "brain-suite run redundant_discovery"


def test_a_name_stands_on_no_other_name():
    marks = [
        Series(name, [Point(0.95 + at / 100, 0.5)], 1)
        for at, name in enumerate(("one", "other", "third"))
    ]
    frame = Frame("cost", "there", charts.percent, charts.percent, 0.0, 1.0, x_from=0.0)
    svg = charts.points("it", frame, marks)
    places = sorted(float(y) for y in re.findall(r'class="name" x="[\d.]+" y="([\d.]+)"', svg))
    assert len(places) == 3
    assert min(b - a for a, b in pairwise(places)) >= charts.LINE - 0.2


@pytest.mark.parametrize(
    ("tokens", "told"),
    [(940, "940"), (999.7, "1k"), (9_849, "9.85k"), (775_992, "776k"), (999_700, "1M"), (20_700_000, "20.7M"),
     (999_600_000, "1,000M"), (2_208_000_000, "2,208M")],
)  # fmt: skip
def test_tokens_in_the_table_have_three_digits(tokens, told):
    assert words.thousands(tokens) == told


@pytest.mark.parametrize(
    ("value", "told"),
    [(0.0674, "$0.067"), (9.99, "$9.99"), (40.5, "$40.5"), (999.4, "$999"), (12_345, "$12k")],
)
def test_dollars_in_the_table_have_six_signs(value, told):
    assert words.dollars(value) == told


def test_columns_of_the_table_never_touch():
    wild = {
        "co_memory": 31.877,
        "co_plan": 0.9996,
        "co_task": 250.0,
        "redundancy": 1.0,
        "needed_recall": 1.0,
    }
    samples = [sample("isolated", seed, 1e7) for seed in (1, 2)]
    samples += [
        sample("view_capsule", seed, 3.9e7 + seed * 1e6, gated=True, **wild) for seed in (1, 2)
    ]
    (row,) = [line for line in shown_in_80(reported(samples)) if line.startswith("view_capsule ")]
    assert row.split() == ["view_capsule", "2", "40.5M", "$40.5", "-305%", "[-310,", "-300]", "100%", "250x", "3188%",
                           "100%", "100%"]  # fmt: skip
    assert len(row) <= 80


def test_warnings_that_say_the_same_are_told_once():
    found = ["a: it is fragile: x", "b: it is fragile: x", "stopped", "a: other"]
    assert list(words.together(found)) == ["a, b: it is fragile: x", "stopped", "a: other"]


def test_the_parameters_of_a_scenario_are_its_own():
    assert words.parameters({"p_read": 1.0, "n": 20, "overlap": 0.75}) == "n 20, overlap 0.75"
    assert words.parameters({"p_read": 1.0}) == "p_read 1.0"


def luminance(colour):
    digits = colour.lstrip("#")
    digits = "".join(each * 2 for each in digits) if len(digits) == 3 else digits
    parts = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    red, green, blue = (
        each / 12.92 if each <= 0.03928 else ((each + 0.055) / 1.055) ** 2.4 for each in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one, other):
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_whatever_is_written_can_be_read(scheme):
    style = (resources.files("orchestrator.reports") / "page.css").read_text(encoding="utf-8")
    colours = dict(
        re.findall(r"--(\w+): (#[0-9a-f]+)", style.split("(prefers-color-scheme: dark)")[scheme])
    )
    written = ["ink", "soft", "good", "bad", "warn", *(f"c{number}" for number in range(11))]
    faint = {name: round(contrast(colours[name], colours[ground]), 2) for name in written
             for ground in ("paper", "panel") if contrast(colours[name], colours[ground]) < 4.5}  # fmt: skip
    assert faint == {}
    assert contrast("#000", "#fff") == pytest.approx(21)


def test_cells_fit_the_terminal_whatever_their_number_and_names():
    params = (("n", 3), ("overlap", 0.0), ("something_long", 12_345))
    arms = (("isolated", 900), ("view", 9e6))
    samples = [sample(arm, seed, tokens, cell, gated=arm == "view")
               for cell in ((), params) for seed in (1, 2) for arm, tokens in arms]  # fmt: skip
    names = ("net_saving", "tokens", "task_success", "usd", "co_memory_somewhat_long")
    gates = [
        Threshold("redundant_discovery", f"{name} == 1", name, "view", "==", 1) for name in names
    ]
    made = reported(samples, gates)
    made.table["scenarios"]["redundant_discovery"]["headline"] = "As first written."
    lines = shown_in_80(made)
    assert max(map(len, lines)) <= 80
    assert any("10,000x as many" in line for line in lines)
    text = " ".join(" ".join(lines).split())
    told = text.partition("n=3,overlap=0.0,something_long=12345: ")[2]
    assert told.startswith(
        "net_saving == 1 -999900%, n 2 !; tokens == 1 9,000,000, n 2 !; task_success == 1 100%, n 2;"
        " usd == 1 $9.000, n 2 !"
    )


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("**missed** by &lt;all&gt; of `x`", "missed by <all&gt; of `x`"),
        ("\\*view", "*view"),
        ("*rivals:*", "rivals:"),
        ("a * b ** c", "a * b ** c"),
        ("[x]\\(y)", "[x](y)"),
    ],
)
def test_a_terminal_shows_no_marks(text, told):
    assert terminal.plain(text) == told


def test_folded_figures_are_left_to_the_page(whole):
    lines = shown_in_80(whole)
    assert "The other 5 cells of the grid, in which nothing is judged:" in lines
    assert not any("context_reduction" in line for line in lines)
    assert "context_reduction" in page.html(whole)


def test_what_a_table_cannot_hold_in_80_columns_is_a_sentence():
    rows = [("a", "x" * 30, "y" * 30, "z" * 30), ("b", "–", "", "1")]
    told = list(terminal.lines(markdown.grid(("name", "one", "two", "three"), rows)))
    assert told == [
        f"  a: one {'x' * 30}; two {'y' * 30};",
        f"      three {'z' * 30}",
        "  b: three 1",
    ]
