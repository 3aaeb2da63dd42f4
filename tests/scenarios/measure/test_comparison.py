"""The product beside its rivals: on the same seeds, by the fewest tokens of those that do their
tasks.
"""

import re
from pathlib import Path

import pytest

from scenarios import verify
from scenarios.data.files import library
from scenarios.data.schema import agents_as
from scenarios.measure import comparison
from scenarios.measure.samples import Sample
from scenarios.report import markdown, page, pictures, report, summary, terminal

KINDS = {"shipped": "product", "file_tail": "rival", "broadcast": "rival", "manager_lossy": "rival",
         "isolated": "control", "view": "ablation"}  # fmt: skip
LINES = {"shipped": "what ships", "file_tail": "a file", "broadcast": "all to all", "manager_lossy": "a guess",
         "isolated": "nothing", "view": "a part"}  # fmt: skip
WORSE = (("agents", "degraded"),)


def run(arm, seed, tokens, usd=None, cell=(), success=1.0, scenario="pages", **more):
    tally = {f"{part}{how}": float(tokens) for part in ("work", "memory", "planning", "tokens")
             for how in ("", "_unique", "_discounted")}  # fmt: skip
    tally["usd"] = tokens / 1e6 if usd is None else usd
    figures = {
        "tokens": float(tokens),
        "usd": tally["usd"],
        "task_success": success,
        "success": float(success == 1),
    }
    return Sample(scenario, "d", arm, tuple(cell), seed, arm == "shipped", "o200k_base", "exact", 3, 3,
                  {**figures, "co_task": 0.1 + seed / 100, "co_memory": 0.02, **more}, tally)  # fmt: skip


def reported(samples, kinds=KINDS):
    told = {"title": "Pages", "shows": "it", "headline": "", "digest": "d", "gated": "shipped",
            "params": agents_as("ideal") | {"n": 4}, "kinds": dict(kinds),
            "arms": {arm: LINES[arm] for arm in kinds}, "missing": {}}  # fmt: skip
    names = dict.fromkeys(each.scenario for each in samples)
    return report.made(
        samples,
        dict.fromkeys(names, told),
        (),
        "0" * 64,
        {"level": "L0", "version": "0", "git": None},
    )


def usual(cell=(), saved=0.8, scenario="pages"):
    """Five seeds; `manager_lossy` takes least and does a third less; `broadcast` is dearer, not in
    dollars.
    """
    for seed in range(5):
        yield run("shipped", seed, 1_000 * saved, 0.001, cell, scenario=scenario)
        yield run("file_tail", seed, 1_000, 0.003, cell, scenario=scenario)
        yield run("broadcast", seed, 1_250, 0.002, cell, scenario=scenario)
        yield run("manager_lossy", seed, 100, 0.0001, cell, success=2 / 3, scenario=scenario)
        yield run("isolated", seed, 5_000, 0.01, cell, scenario=scenario)
        yield run("view", seed, 1_000 * saved, 0.001, cell, scenario=scenario)


def test_the_best_rival_is_the_cheapest_of_those_that_do_their_tasks():
    (row,) = reported(list(usual())).table["against"]
    assert (row["product"], row["best"], row["best_usd"]) == ("shipped", "file_tail", "broadcast")
    assert set(row["bars"]) == {"shipped", "file_tail", "broadcast", "manager_lossy"}, (
        "every rival is shown, no control, no ablation"
    )
    assert row["beside"]["file_tail"]["tokens"]["value"] == pytest.approx(0.2)
    assert row["beside"]["broadcast"]["usd"]["value"] == pytest.approx(0.5)
    assert row["runs"]["co_task"] == {"least": 0.1, "most": 0.14}
    assert (row["agents"], row["lacks"]) == ("ideal", {})


def test_only_seeds_that_all_of_them_played_count():
    samples = [each for each in usual() if each.arm != "broadcast" or each.seed < 2]
    samples += [run("file_tail", seed, 9e9, 9e9) for seed in (7, 8)]
    (row,) = reported(samples).table["against"]
    assert row["n"] == 2
    assert row["bars"]["file_tail"]["tokens"]["value"] == 1_000


def test_degraded_agents_come_first_and_are_said_to_be_degraded():
    samples = [*usual(), *usual(WORSE, 1.5)]
    made = reported(samples)
    first, second = made.table["against"]
    assert first["agents"] == "degraded"
    assert (first["lacks"]["p_read"], first["lacks"]["tool_use"]) == (0.9, 0.6)
    assert second["agents"] == "ideal"
    told = summary.sentence(made.table)
    assert told.startswith(
        "shipped takes 50 % more tokens [50, 50] and 50 % fewer dollars [50, 50] than"
        " the best rivals (file_tail;"
        " broadcast by dollars), with agents as degraded as p_read 0.9, tool_use 0.6,"
    )
    assert told.endswith("; tasks done right: 100% v 100%; 5 runs of each, the same seeds.")


def test_a_cell_in_which_something_else_differs_is_no_other_agents():
    made = reported([*usual(), *usual((("n", 9),))])
    assert [row["cell"] for row in made.table["against"]] == [""]


def test_several_scenarios_make_one_sentence():
    made = reported([*usual(), *usual(saved=1.1, scenario="other")])
    assert summary.sentence(made.table) == (
        "shipped takes fewer tokens than the best rival in 1 of 2 scenarios, with"
        " ideal agents: from 20 %"
        " fewer (pages, file_tail) to 10 % more (other, file_tail); dollars from 50 %"
        " fewer to 50 % fewer; tasks done"
        " right: no fewer in any."
    )


def test_a_product_that_does_less_is_said_to():
    samples = [each for each in usual() if each.arm != "shipped"] + [
        run("shipped", seed, 500, 0.001, success=0.5) for seed in range(5)
    ]
    made = reported([*samples, *usual(scenario="other")])
    assert "tasks done right: fewer in pages (50% v 66.7%)" in summary.sentence(made.table)


def test_no_other_arm_stands_for_the_product():
    without = [each for each in usual() if each.arm != "shipped"]
    kinds = {arm: kind for arm, kind in KINDS.items() if kind != "product"}
    made = reported(without, kinds)
    assert made.table["against"] == []
    assert (
        summary.sentence(made.table)
        == "The product was not played: nothing here says what it saves."
    )
    alone = reported([each for each in usual() if each.arm in ("shipped", "isolated")])
    assert "held against no rival" in summary.sentence(alone.table)


def test_arms_that_came_out_equal_are_said_to_be():
    made = reported(list(usual()))
    assert [each["arms"] for each in made.table["equal"]] == [["shipped", "view"]]
    assert list(summary.equals(made.table)) == [
        "shipped and view came out equal, run by run, in pages."
    ]
    once = [
        run("view", 3, 801, 0.001) if each.arm == "view" and each.seed == 3 else each
        for each in usual()
    ]
    assert reported(once).table["equal"] == []


def in_80(made):
    return list(terminal.lines(markdown.lines(made)))


def test_where_no_rival_does_as_many_tasks_it_is_said():
    made = reported([each for each in usual() if each.arm in ("shipped", "manager_lossy")])
    (row,) = made.table["against"]
    assert (row["best"], row["best_usd"]) == (None, None)
    told = "No rival does as many tasks right as shipped, with ideal agents: 100% v 66.7% at most"
    assert summary.sentence(made.table) == f"{told}; 5 runs of each, the same seeds."
    for text in (page.html(made), "\n".join(markdown.lines(made)), "\n".join(in_80(made))):
        assert summary.NO_RIVAL in text
    both = reported(
        [
            *(each for each in usual() if each.arm in ("shipped", "manager_lossy")),
            *usual(scenario="other"),
        ]
    )
    assert summary.sentence(both.table).endswith("; in pages no rival does as many tasks right.")


def test_every_form_begins_with_the_sentence_and_says_what_each_arm_is():
    made = reported(list(usual()))
    sentence = summary.sentence(made.table)
    forms = {
        "terminal": " ".join(" ".join(in_80(made)).split()),
        "markdown": "\n".join(markdown.lines(made)),
        "page": re.sub(r"<[^>]+>", " ", page.html(made).partition("<body>")[2]),
    }
    for form, text in forms.items():
        assert 0 <= text.index(sentence) < 150, form
        plain = " ".join(text.split())
        for about in summary.KINDS.values():
            assert about[0].upper() + about.partition(":")[0][1:] in plain, form
        assert all(line in plain for line in LINES.values()), form
        assert "came out equal" in plain, form
    assert max(map(len, in_80(made))) <= 80


def test_the_first_picture_is_of_the_product_and_every_rival():
    made = reported([*usual(), *usual(WORSE)])
    first, second = pictures.headlines(made)
    assert first.title == "pages, degraded agents"
    assert second.title == "pages, ideal agents"
    names = re.findall(r'class="name(?: strong)?"[^>]*>(\w+)<', first.drawing)
    assert names == ["shipped", "manager_lossy", "file_tail", "broadcast"]
    assert "the best rival is file_tail, by dollars broadcast." in first.caption


def test_rows_of_the_table_have_a_cell_for_each_head():
    made = reported([*usual(), *usual(WORSE)])
    lines = list(markdown.rivals(made.table))
    assert lines[0] == f"| {' | '.join(summary.HEAD)} |"
    cells = ["pages", "degraded (n 5)", "+20 % [20, 20] v file_tail", "+50 % [50, 50] v broadcast"]
    assert lines[2] == f"| {' | '.join([*cells, '100% v 100%', '–', '–', '12.0%', '2.0%'])} |"


def test_an_arm_that_poses_as_another_kind_is_found():
    told = {"scenarios": {"pages": {"kinds": {"isolated": "rival", "shipped": "product"}}}}
    assert list(verify._other_kinds(told)) == [
        "scenarios.pages.kinds.isolated: 'rival' in the report, 'control' by the arm itself"
    ]


def test_ideal_agents_lack_nothing():
    assert comparison.imperfect(agents_as("ideal")) == {}
    assert set(comparison.imperfect(agents_as("degraded"))) >= {"p_read", "tool_use", "beside"}
    assert comparison.imperfect({"claims": False, "beside": 0.0, "price": 0.5}) == {
        "beside": 0.0,
        "claims": False,
    }


def test_the_results_have_the_rows_that_the_command_prints():
    page = Path(__file__).parents[3] / "docs/brain-suite/results.md"
    text = page.read_text(encoding="utf-8")
    told = text.partition("<!-- brain-suite report --table -->\n")[2].partition(
        "<!-- end of the table -->"
    )[0]
    head, rule, *rows = told.splitlines()
    printed = list(markdown.rivals(reported(list(usual())).table))
    assert [head, rule] == printed[:2]
    table = [row.strip("| ").split(" | ") for row in rows if row.startswith("|")]
    assert {len(row) for row in table} == {len(summary.HEAD)}
    assert {row[0] for row in table} <= set(library())
    assert rows[-1].startswith(summary.MEANT)
