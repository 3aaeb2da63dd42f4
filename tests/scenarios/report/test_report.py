"""Reports: every number follows from the ledger, and whoever changes one is found out."""

import gzip
import json
import random
import shutil

import jsonschema
import pytest

from scenarios import __main__ as shell
from scenarios import running, verify
from scenarios.data import files, ledger
from scenarios.measure import findings, samples
from scenarios.measure.findings import Threshold
from scenarios.measure.samples import Sample
from scenarios.measure.statistics import Interval
from scenarios.measure.study import Study
from scenarios.report import plan, report, words


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A report of four arms, and of what comes of less careful reading."""
    found = tmp_path_factory.mktemp("report")
    arms = "isolated,broadcast,manager,shipped"
    asked = ["run", "landing_pages", "--runs", "2", "--arms", arms, "--out", str(found)]
    assert shell.main([*asked, "--no-grid", "--jobs", "1"]) in (0, 1)
    return found


@pytest.fixture
def copy(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "copy")
    return tmp_path / "copy"


def test_what_lies_there_is_what_the_ledger_says(folder, capsys):
    assert verify.differences(str(folder)) == []
    assert shell.main(["verify", str(folder / "report.json")]) == 0
    assert "follow from the ledger" in capsys.readouterr().out


def test_it_has_the_form_that_the_schema_says(folder):
    table = report.read(str(folder))
    jsonschema.validate(table, report.schema())
    table["metrics"]["shipped"]["tokens"]["worst"] = 1
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(table, report.schema())


def digits(text, part):
    """Where in a report's text the digits of a part stand."""
    begin = text.index(f'\n "{part}"')
    end = text.index("\n },\n" if part == "metrics" else "\n ],\n", begin)
    return [place for place in range(begin, end) if text[place].isdigit() and number(text, place)]


def number(text, place):
    """Whether a digit belongs to a number, and not to a name."""
    return text[text.rindex("\n", 0, place) : place].count('"') % 2 == 0


def test_any_digit_that_is_changed_is_found(copy):
    path = copy / "report.json"
    text, draw = path.read_text(), random.Random(5)
    _, made = verify.again(str(copy))
    places = digits(text, "metrics") + digits(text, "comparisons") + digits(text, "verdicts")
    assert len(places) > 3_000
    for place in draw.sample(places, 300):
        changed = json.loads(text[:place] + str(int(text[place]) % 9 + 1) + text[place + 1 :])
        assert any(
            list(verify.different(part, changed[part], made.table[part]))
            for part in ("metrics", "comparisons", "verdicts")
        ), text[place - 60 : place + 5]


def test_a_changed_figure_fails_the_command(copy, capsys):
    table = report.read(str(copy))
    table["metrics"]["shipped"]["co_memory"]["hi"] += 1e-9
    report.write(str(copy), report.REPORT, report.dump(table))
    assert shell.main(["verify", str(copy)]) == 1
    assert "metrics.shipped.co_memory.hi" in capsys.readouterr().out


@pytest.mark.parametrize(
    "change",
    [
        lambda table: table["metrics"].pop("manager"),
        lambda table: table["metrics"]["shipped"].pop("tokens"),
        lambda table: table["metrics"].update(better={}),
        lambda table: table["verdicts"][0].update(met=False),
        lambda table: table["warnings"].clear(),
        lambda table: table["thresholds"][0].update(limit=0.5),
        lambda table: table["thresholds"].pop(),
        lambda table: table["run"].update(tokenizer="cl100k_base"),
        lambda table: table["run"]["n"].update(shipped=30),
        lambda table: table["scenarios"]["landing_pages"].update(digest="0"),
    ],
)
def test_whatever_else_is_changed_is_found(copy, change):
    table = report.read(str(copy))
    change(table)
    report.write(str(copy), report.REPORT, report.dump(table))
    assert verify.differences(str(copy))


def test_a_changed_ledger_is_found(copy):
    path = copy / report.LEDGER
    lines = gzip.decompress(path.read_bytes()).decode().splitlines(keepends=True)
    at = next(n for n, line in enumerate(lines) if '"kind":"completion"' in line)
    for changed in (
        lines[:at] + lines[at + 1 :],
        [*lines[:at], lines[at].replace('"t":', '"t": '), *lines[at + 1 :]],
    ):
        ledger.write(str(path), changed)
        assert verify.differences(str(copy))


def test_a_ledger_that_is_cut_off_is_an_error(copy):
    path = copy / report.LEDGER
    path.write_bytes(path.read_bytes()[:-200])
    assert shell.main(["verify", str(copy)]) == 2


def test_it_is_made_again_from_its_ledger(copy, folder):
    for name in (report.TEXT,):
        (copy / name).unlink()
    assert shell.main(["report", str(copy), "--jobs", "1"]) in (0, 1)
    assert (copy / report.TEXT).read_bytes() == (folder / report.TEXT).read_bytes()
    assert (copy / report.REPORT).read_bytes() == (folder / report.REPORT).read_bytes()


def test_many_processes_find_the_same(folder, monkeypatch):
    monkeypatch.setattr(samples, "FEW", 1)
    path = str(folder / report.LEDGER)
    assert list(samples.of_file(path, 2)) == list(samples.of_file(path, 1))


# -- What is found of samples whose truth is known -------------------------------------


def made(arm, seed, tokens, cell=(), *, team=6, success=1.0, gated=False, scenario="trial"):
    tally = {f"{part}{how}": float(tokens) for part in ("work", "memory", "planning", "tokens")
             for how in ("", "_unique", "_discounted")}  # fmt: skip
    figures = {
        "tokens": float(tokens),
        "task_success": success,
        "usd": 1.0,
        "success": float(success == 1),
    }
    return Sample(
        scenario, "d", arm, tuple(cell), seed, gated, "o200k_base", "exact", team, 3, figures, tally
    )


def pairs(saving, cell=(), **more):
    for seed in range(10):
        base = 1_000 + 37 * seed
        yield made("isolated", seed, base, cell, **more)
        yield made("view", seed, base * (1 - saving), cell, gated=True, **more)


def test_a_saving_is_that_of_pairs():
    study = Study(pairs(0.4))
    assert study.saving("trial", "view", "isolated") == pytest.approx((0.4, 0.4, 0.4))
    (found,) = findings.build_findings(study, ()).comparisons
    assert (found["arm"], found["saving"]["value"]) == ("view", 0.4)
    assert found["p"] == found["p_holm"] == pytest.approx(2 / 2**10)
    assert found["no_worse"]
    assert not found["fragile"]


def test_a_saving_that_costs_success_is_told():
    samples = list(pairs(0.4))
    worse = [each._replace(figures=each.figures | {"task_success": 0.9}) if each.arm == "view" else each
             for each in samples]  # fmt: skip
    study = Study(worse)
    parts = findings.build_findings(study, ())
    assert not parts.comparisons[0]["no_worse"]
    assert any("may lose success" in warning for warning in report.warnings(study, {}, parts))


def test_what_flips_within_the_grid_is_fragile():
    cells = {0.9: 0.1, 0.7: -0.1}
    study = Study(
        [
            *pairs(0.4),
            *(each for p, saving in cells.items() for each in pairs(saving, (("p_read", p),))),
        ]
    )
    parts = findings.build_findings(
        study, [Threshold("trial", "net_saving >= 0.05", "net_saving", "view", ">=", 0.05)]
    )
    assert parts.verdicts[0]["met"]
    assert parts.verdicts[0]["flips"] == parts.comparisons[0]["flips"] == ["p_read=0.7"]


def test_every_cell_is_told_beside_the_one_that_is_judged():
    cells = {("n", 3): -0.2, ("n", 30): 0.6}
    study = Study(
        [*pairs(0.4), *(each for cell, saving in cells.items() for each in pairs(saving, (cell,)))]
    )
    gate = Threshold("trial", "net_saving >= 0.5", "net_saving", "view", ">=", 0.5)
    (verdict,) = findings.build_findings(study, [gate]).verdicts
    assert verdict["met"] is False, "as measured where it is judged, whatever another cell says"
    told = {cell: (round(each["value"], 3), each["met"]) for cell, each in verdict["cells"].items()}
    assert told == {"n=3": (-0.2, False), "n=30": (0.6, True)}
    rows = [
        (name, [found and found["met"] for _, found in told])
        for name, _, told in words.cells([verdict])
    ]
    assert rows == [("n=3", [False]), ("n=30", [True])]


def test_what_differs_with_the_team_is_no_fragility():
    study = Study([*pairs(0.4), *pairs(-0.2, (("n", 3),), team=3)])
    assert findings.build_findings(study, ()).comparisons[0]["fragile"] is False


def test_from_where_on_it_pays():
    sizes = {3: -0.2, 6: 0.1, 10: -0.01, 20: 0.2, 30: 0.4}
    cells = [each for n, saving in sizes.items() for each in pairs(saving, (("n", n),), team=n)]
    never = [each for n in (3, 6) for each in pairs(-0.1, (("n", n), ("overlap", 0.0)), team=n)]
    found = findings.build_findings(Study([*pairs(0.3, team=25), *cells, *never]), ()).break_even
    assert [(each["where"], each["team"]) for each in found] == [({}, 20), ({"overlap": 0.0}, None)]
    assert found[0]["teams"] == [3, 6, 10, 20, 25, 30]


def test_a_gate_whose_arm_was_not_played_is_neither_met_nor_missed():
    gate = Threshold("trial", "tokens < 5[shipped]", "tokens", "shipped", "<", 5)
    parts = findings.build_findings(Study(pairs(0.1)), [gate])
    assert parts.verdicts[0]["met"] is None
    assert running.code_of({"verdicts": parts.verdicts}) == 77
    absent = findings.build_findings(
        Study(pairs(0.1)), [gate._replace(arm="view", metric="poison")]
    )
    assert absent.verdicts[0]["met"] is False
    assert running.code_of({"verdicts": absent.verdicts}) == 1


RIVALS = ("file_tail", "tool_cache", "broadcast")


def held_against(seeds=10, **arms):
    """Runs of what ships and of others, `name=(tokens, dollars, success)`, each a little different
    by its seed.
    """
    for seed in range(seeds):
        for arm, (tokens, usd, success) in arms.items():
            each = made(arm, seed, tokens + seed, success=success, gated=arm == "shipped")
            yield each._replace(figures=each.figures | {"usd": usd + seed / 1_000})


def test_what_ships_is_held_against_the_cheapest_rival_that_does_as_much_right():
    study = Study(
        held_against(
            shipped=(600, 8.0, 0.99),
            isolated=(1_000, 10.0, 1.0),
            oracle=(100, 1.0, 1.0),
            broadcast=(500, 5.0, 0.9),
            file_tail=(700, 12.0, 0.98),
            tool_cache=(800, 9.0, 1.0),
        ),
        RIVALS,
    )
    assert (study.best("trial", "tokens"), study.best("trial", "usd")) == (
        "file_tail",
        "tool_cache",
    )
    figures = study.figures("trial", "shipped")
    assert figures["saving_vs_best"].value == pytest.approx(1 - 604.5 / 704.5, abs=1e-3)
    assert figures["usd_vs_best"].value == pytest.approx(1 - 8 / 9, abs=1e-3)
    assert (
        figures["saving_vs_best"].lo
        <= figures["saving_vs_best"].value
        <= figures["saving_vs_best"].hi
    )
    assert figures["success_vs_isolated"].value == pytest.approx(-0.01)
    assert figures["success_vs_best"].value == pytest.approx(-0.01)
    assert "saving_vs_best" not in study.figures("trial", "file_tail")
    told = findings.build_findings(study, ()).rivals
    assert [(each["unit"], each["rival"]) for each in told] == [
        ("tokens", "file_tail"),
        ("usd", "tool_cache"),
    ]


def test_the_best_rival_is_chosen_once_and_then_paired():
    """Not the cheapest of each seed: nobody could choose that beforehand."""
    each = [made("shipped", seed, 500, gated=True) for seed in (0, 1)]
    rivals = {"file_tail": (600, 900), "tool_cache": (1_000, 400)}
    each += [made(arm, seed, tokens[seed]) for arm, tokens in rivals.items() for seed in (0, 1)]
    study = Study(each, RIVALS)
    assert study.best("trial", "tokens") == "tool_cache"
    rows = study.rows("trial", "shipped")
    assert [row["saving_vs_best"] for row in rows] == [1 - 500 / 1_000, 1 - 500 / 400]


def test_where_no_rival_does_as_much_right_there_is_none_to_be_beaten_by():
    arms = {"shipped": (600, 8.0, 1.0), "isolated": (400, 1.0, 0.5), "file_tail": (300, 1.0, 0.5)}
    study = Study(held_against(**arms), RIVALS)
    assert study.best("trial", "tokens") is None
    gate = Threshold("trial", "saving_vs_best >= 0.2", "saving_vs_best", "shipped", ">=", 0.2)
    (verdict,) = findings.build_findings(study, [gate]).verdicts
    assert (verdict["met"], verdict["why"]) == (True, "no rival does as many tasks right")
    (absent,) = findings.build_findings(Study(held_against(**arms)), [gate]).verdicts
    assert absent["met"] is False, "none was played"


def test_no_saving_counts_where_success_was_missed():
    gates = [
        Threshold(
            "trial", "success_vs_isolated >= -0.02", "success_vs_isolated", "shipped", ">=", -0.02
        ),
        Threshold("trial", "saving_vs_best >= 0.2", "saving_vs_best", "shipped", ">=", 0.2),
        Threshold("trial", "tokens <= 700", "tokens", "shipped", "<=", 700),
    ]

    def met(success):
        arms = {
            "shipped": (500, 8.0, success),
            "isolated": (1_000, 10.0, 1.0),
            "file_tail": (800, 9.0, success),
        }
        return [
            verdict["met"]
            for verdict in findings.build_findings(
                Study(held_against(**arms), RIVALS), gates
            ).verdicts
        ]

    assert met(1.0) == [True, True, True]
    assert met(0.9) == [False, False, True]


def test_a_gate_can_be_about_a_cell():
    study = Study([*pairs(0.4), *pairs(-0.2, (("agents", "ideal"),))])
    gate = Threshold(
        "trial", "net_saving[agents=ideal] >= 0", "net_saving", "view", ">=", 0, "agents=ideal"
    )
    other = gate._replace(cell="p_read=0.0")
    ideal, absent = findings.build_findings(study, [gate, other]).verdicts
    assert (ideal["met"], ideal["value"], ideal["cells"]) == (False, pytest.approx(-0.2), {})
    assert absent["met"] is None


def test_arms_that_came_out_equal_are_said_to_be():
    samples = [
        made(arm, seed, 100 + seed) for arm in ("view", "capsule", "shipped") for seed in range(3)
    ]
    samples[3] = samples[3]._replace(figures=samples[3].figures | {"tokens": 99.0})
    parts = findings.build_findings(Study(samples), ())
    assert parts.equal == [{"scenario": "trial", "cell": "", "arms": ["view", "shipped"]}]
    assert "trial: view and shipped came out equal in every run" in report.warnings(
        Study(samples), {}, parts
    )


def test_names_say_which_scenario_only_where_there_are_several():
    one, two = Study(pairs(0.1)), Study([*pairs(0.1), *pairs(0.2, scenario="other")])
    assert set(findings.build_findings(one, ()).metrics) == {"isolated", "view"}
    assert set(findings.build_findings(two, ()).metrics) == {
        "trial/isolated",
        "trial/view",
        "other/isolated",
        "other/view",
    }


def test_every_digit_of_a_number_counts():
    assert findings.rounded(1 / 3) == 0.333333333
    assert Interval(1, 2, 3)._asdict() == {"value": 1, "lo": 2, "hi": 3}


# -- What is played --------------------------------------------------------------------


def test_every_arm_plays_the_same_seeds():
    orders = list(
        plan.planned(
            files.find("landing_pages"), "landing_pages", ["isolated", "view"], 3, grid=False
        )
    )
    assert [(order.arm, order.seed) for order in orders] == [
        (a, s) for a in ("isolated", "view") for s in (7, 8, 9)
    ]


def test_cells_of_the_grid_are_played_by_those_that_are_compared():
    text = files.find("redundant_discovery")
    orders = [order for order in plan.planned(text, "redundant_discovery") if order.cell]
    by_cell = {}
    for order in orders:
        by_cell.setdefault(order.cell, set()).add(order.arm)
    assert by_cell[("price", 0.5),] == {"isolated", "shipped"}
    assert by_cell[("n", 10),] == {
        "isolated",
        "shipped",
        "broadcast",
        "manager",
        "file_tail",
        "tool_cache",
    }
    assert by_cell[("agents", "ideal"),] == set(plan.available(files.load(text)))
    assert {
        cell: len([o for o in orders if o.cell == cell and o.arm == "shipped"]) for cell in by_cell
    } == {cell: 8 if cell == (("agents", "ideal"),) else 4 for cell in by_cell}
    full = list(plan.planned(text, "redundant_discovery", full=True))
    assert sum(order.cell == (("n", 10),) and order.arm == "isolated" for order in full) == 30
    assert not any(("n", 20) in order.cell and len(order.cell) == 1 for order in orders), (
        "that is its own"
    )


def test_isolated_agents_are_not_played_again_where_they_do_the_same():
    text = files.find("redundant_discovery")
    orders = list(plan.planned(text, "redundant_discovery"))
    assert {order.arm for order in orders if order.cell == (("tool_use", 0.3),)} == {"shipped"}
    heeded = text.replace("overlap: $overlap", "overlap: $p_read")
    orders = list(plan.planned(heeded, "heeded"))
    assert {order.arm for order in orders if order.cell == (("p_read", 0.7),)} == {
        "isolated",
        "shipped",
    }


def test_such_a_cell_is_held_against_the_isolated_runs_of_the_first():
    cell, other = (("p_read", 0.9),), (("price", 2.0),)
    study = Study([
        *(made("isolated", seed, 1_000 + seed) for seed in range(4)),
        *(made("view", seed, 500, cell) for seed in range(2)),
        *(made("view", seed, 500, other) for seed in range(2)),
    ])  # fmt: skip
    found = study.pairs("trial", "view", "isolated", "p_read=0.9")
    assert [(one.tally["tokens"], two.tally["tokens"]) for one, two in found] == [
        (500, 1_000),
        (500, 1_001),
    ]
    assert study.figures("trial", "view", "p_read=0.9")["net_saving"].value == pytest.approx(
        0.5, abs=1e-3
    )
    assert not study.pairs("trial", "view", "isolated", "price=2.0")


def test_isolated_agents_that_nobody_played_have_no_runs():
    played = (("p_read", 0.9),)
    alone = Threshold("trial", "tokens[isolated] > 0", "tokens", "isolated", ">", 0)
    study = Study([made("view", seed, 500, cell) for seed in range(3) for cell in ((), played)])
    assert study.of("trial", "isolated") == study.of("trial", "isolated", "p_read=0.9") == []
    assert study.of("another", "isolated") == study.of("trial", "isolated", "n=3") == []
    elsewhere = alone._replace(scenario="another")
    assert [
        each["met"] for each in findings.build_findings(study, (alone, elsewhere)).verdicts
    ] == [None, None]


def test_runs_that_stand_for_others_are_not_told_as_runs_of_their_cell():
    alone = Threshold("trial", "tokens[isolated] > 0", "tokens", "isolated", ">", 0)
    cell = (("p_read", 0.9),)
    runs = [*pairs(0.4), *(made("view", seed, 500, cell) for seed in range(3))]
    (verdict,) = findings.build_findings(Study(runs), (alone,)).verdicts
    assert (verdict["n"], verdict["cells"]) == (10, {})


@pytest.mark.parametrize(
    ("asked", "runs"), [({}, 5), ({"full": True}, 50), ({"full": True, "runs": 2}, 2)]
)
def test_a_scenario_says_how_often_it_is_played_in_full(asked, runs):
    orders = list(plan.planned(files.find("crash_resume"), "crash_resume", **asked))
    assert len({order.seed for order in orders}) == len(orders) == runs


def test_an_error_of_the_harness_is_no_missed_gate(monkeypatch, capsys):
    def broken(*_):
        raise KeyError("nobody thought of this")

    monkeypatch.setattr(running, "play", broken)
    assert shell.main(["run", "landing_pages"]) == 2
    assert "nobody thought of this" in capsys.readouterr().err


def test_a_scenario_plays_its_own_arms_alone(capsys):
    text = files.find("landing_pages")
    orders = plan.planned(text, "landing_pages", ["view", "nightly"], 1, grid=False)
    assert [order.arm for order in orders] == ["view"]
    assert shell.main(["run", "landing_pages", "--arms", "nightly"]) == 2
    assert "has none of nightly" in capsys.readouterr().err


def test_an_arm_that_there_is_not_is_an_error(capsys):
    assert shell.main(["run", "landing_pages", "--arms", "telepathy"]) == 2
    assert "there is no arm telepathy" in capsys.readouterr().err


def test_a_line_that_cannot_be_read_is_no_failure_of_the_harness(capsys):
    for line in ([], ["run"], ["run", "landing_pages", "--runs", "many"], ["play"]):
        assert shell.main(line) == 64
        error = capsys.readouterr().err
        assert error.startswith("brain-suite: ")
        assert "--help` shows what it takes" in error


def test_errors_under_json_are_json(tmp_path, capsys):
    lines = ((["retrieval", "--json"], 64), (["retrieval", str(tmp_path), "--json"], 2))
    for line, code in (*lines, (["retrieval", str(tmp_path / "none.json"), "--json"], 2)):
        assert shell.main(line) == code
        assert json.loads(capsys.readouterr().err)["error"]["message"]
