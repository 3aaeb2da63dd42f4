"""Two reports: what became worse is found, and chance is not taken for it."""

import copy

import pytest

from scenarios import __main__ as shell
from scenarios.report import compare_reports, report


@pytest.fixture
def before():
    def figure(value, width):
        return {"value": value, "lo": value - width, "hi": value + width, "n": 30}

    return {
        "schema": report.SCHEMA,
        "metrics": {"view": {
            "net_saving": figure(0.5, 0.03), "tokens": figure(1_000.0, 50), "co_memory": figure(0.04, 0),
                             "turns": figure(9.0, 1)}},
        "verdicts": [{"scenario": "s", "gate": "net_saving >= 0.4", "met": True}],
    }  # fmt: skip


def test_what_did_not_change_is_not_told(before):
    assert list(compare_reports.changes(before, copy.deepcopy(before))) == []


@pytest.mark.parametrize(
    ("metric", "value", "worse"),
    [
        ("net_saving", 0.40, [True]),
        ("net_saving", 0.60, [False]),
        ("net_saving", 0.48, []),  # within its interval
        ("tokens", 1_100.0, [True]),
        ("tokens", 900.0, [False]),
        ("co_memory", 0.055, []),  # beyond its interval, and less than the tolerance
        ("co_memory", 0.07, [True]),
        ("turns", 90.0, []),  # neither good nor bad
    ],
)
def test_what_moved_is_judged_by_its_good_side(before, metric, value, worse):
    after = copy.deepcopy(before)
    after["metrics"]["view"][metric]["value"] = value
    assert [change.worse for change in compare_reports.changes(before, after)] == worse


def test_a_gate_that_is_missed_now_is_worse(before):
    for met in (False, None):
        after = copy.deepcopy(before)
        after["verdicts"][0]["met"] = met
        assert [change.worse for change in compare_reports.changes(before, after)] == [True]
        assert [change.worse for change in compare_reports.changes(after, before)] == [False]


def test_what_is_gone_is_worse(before):
    after = copy.deepcopy(before)
    del after["metrics"]["view"]["tokens"]
    assert [change.worse for change in compare_reports.changes(before, after)] == [True]
    after["metrics"] = {}
    assert [change.after for change in compare_reports.changes(before, after)] == ["not played"]


def test_the_command_is_a_gate(before, tmp_path, capsys):
    after = copy.deepcopy(before)
    after["metrics"]["view"]["tokens"]["value"] = 2_000.0
    for name, table in (("a.json", before), ("b.json", after)):
        report.write(str(tmp_path), name, report.dump(table))
    a, b = str(tmp_path / "a.json"), str(tmp_path / "b.json")
    assert shell.main(["compare", a, a]) == 0
    assert shell.main(["compare", a, b]) == 1
    assert "WORSE  view tokens: 1000 -> 2000" in capsys.readouterr().out
    assert shell.main(["compare", b, a]) == 0
    assert shell.main(["compare", a, str(tmp_path / "none.json")]) == 2


def test_runs_for_which_others_stand_are_not_missed(before):
    before["metrics"] |= {
        key: {}
        for key in ("isolated", "isolated@p_read=0.9", "isolated@n=3,p_read=0.9", "isolated@n=3")
    }
    after = copy.deepcopy(before)
    del after["metrics"]["isolated@p_read=0.9"]
    assert list(compare_reports.changes(before, after)) == []
    del after["metrics"]["isolated@n=3"], after["metrics"]["isolated@n=3,p_read=0.9"]
    assert [change.worse for change in compare_reports.changes(before, after)] == [True, True]
    del after["metrics"]["isolated"]
    assert len(list(compare_reports.changes(before, after))) == 4, (
        "nothing stands for them any more"
    )
