"""Recorded conversations in a report: their figures follow from data that stay where they are, or
are not believed.
"""

import json
import re
import shutil

import jsonschema
import pytest

from scenarios import __main__ as shell
from scenarios import running, verify
from scenarios.measure import retrieval
from scenarios.report import markdown, page, recorded, report, terminal, words
from scenarios.report.recorded import BrokenData

TALK = {
    "sample_id": "talk",
    "conversation": {
        "session_1": [
            {
                "speaker": "Ida",
                "dia_id": "D1:1",
                "text": "Where did you hide the spare fuse box key?",
            },
            {"speaker": "Olaf", "dia_id": "D1:2", "text": "Behind the blue teapot."},
        ],
        "session_1_date_time": "1:56 pm on 8 May, 2023",
    },
    "qa": [{"question": "Where is the key of the fuse box?", "evidence": ["D1:2"], "category": 4}],
}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A conversation, and a report with what is found in it."""
    found = tmp_path_factory.mktemp("recorded")
    (found / "talks.json").write_text(json.dumps([TALK]))
    asked = [
        "run",
        "telephone",
        "--runs",
        "2",
        "--arms",
        "isolated,shipped",
        "--no-grid",
        "--jobs",
        "1",
        "--quiet",
    ]
    data = ["--retrieval", str(found / "talks.json")]
    assert shell.main([*asked, *data, "--out", str(found / "report")]) in (0, 1)
    return found


@pytest.fixture
def copy(place, tmp_path):
    shutil.copytree(place, tmp_path / "copy")
    return tmp_path / "copy"


def changed(folder, change):
    """The report with something changed."""
    told = report.read(str(folder))
    change(told)
    report.write(str(folder), report.REPORT, report.dump(told))


def test_it_is_in_the_report_and_the_data_are_not(place):
    told = report.read(str(place / "report"))
    jsonschema.validate(told, report.schema())
    assert told["recorded"]["retrieval"]["questions"] == 1
    assert told["recorded"]["retrieval"]["units"]["without adversarial"]["any@5"] == 1
    for path in (place / "report").iterdir():
        if path.name != report.LEDGER:
            assert "teapot" not in path.read_text()
    told["recorded"]["retrieval"]["milliseconds"] = 3
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(told, report.schema())


def test_it_follows_from_the_data(place, capsys):
    assert verify.of_recorded(str(place / "report"), None) == []
    assert shell.main(["verify", str(place / "report"), "--jobs", "1"]) == 0
    out = capsys.readouterr().out
    assert "ok: retrieval follows from the data" in out


@pytest.mark.parametrize(
    "change",
    [
        lambda each: each["retrieval"]["data"].update(sha256="0" * 64),
        lambda each: each["retrieval"]["units"]["all questions"].update({"session any@10": 0.0123}),
        lambda each: each["retrieval"]["units"].pop("without adversarial"),
        lambda each: each["retrieval"]["figures"]["R@10"].update(lo=0.0123),
        lambda each: each["retrieval"]["one_workspace"].update(mrr=0.0123),
    ],
)
def test_any_figure_that_is_changed_is_found(copy, change):
    changed(copy / "report", lambda told: change(told["recorded"]))
    assert verify.of_recorded(str(copy / "report"), None)
    assert verify.differences(str(copy / "report")) == [], "the ledger knows nothing of it"


def test_data_that_are_changed_are_found(copy, capsys):
    asked = ["verify", str(copy / "report"), "--jobs", "1", "--retrieval", str(copy / "talks.json")]
    assert shell.main(asked) == 0, "moved, and the same"
    (copy / "talks.json").write_text((copy / "talks.json").read_text() + " ")
    assert shell.main(asked) == 1
    assert "recorded.retrieval.data.sha256" in capsys.readouterr().out


def test_without_its_data_it_is_not_checked_and_said_so(copy, capsys):
    changed(
        copy / "report",
        lambda told: [each["data"].update(path="gone") for each in told["recorded"].values()],
    )
    assert shell.main(["verify", str(copy / "report"), "--jobs", "1"]) == 0
    out = capsys.readouterr().out
    assert "not checked: retrieval: nothing lies at gone; say where it is: --retrieval FILE" in out
    assert "follows from the data" not in out


def test_a_report_that_is_made_again_keeps_it(copy, place):
    before = (copy / "report" / report.REPORT).read_bytes()
    assert shell.main(["report", str(copy / "report"), "--jobs", "1"]) in (0, 1)
    assert (copy / "report" / report.REPORT).read_bytes() == before
    assert (copy / "report" / report.PAGE).read_bytes() == (
        place / "report" / report.PAGE
    ).read_bytes()


def test_data_that_are_none_are_an_error_before_anything_is_played(tmp_path, capsys):
    (tmp_path / "none.json").write_text("[]")
    asked = ["run", "telephone", "--retrieval", str(tmp_path / "none.json"), "--quiet"]
    assert shell.main([*asked, "--out", str(tmp_path / "out")]) == 2
    assert "not a list of conversations" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    with pytest.raises(BrokenData):
        recorded.measured(str(tmp_path / "nowhere"))


def test_the_units_of_others_are_in_every_form(place):
    made = verify.again(str(place / "report"))[1]
    text, written = page.html(made), "\n".join(markdown.lines(made))
    assert "| without adversarial | 1 | 10 |" in written
    assert "<th scope='row'>without adversarial</th>" in text
    assert "all in one workspace" in text
    for form in (text, written):
        assert retrieval.COMPARABLE.replace("`", "") in re.sub(r"<[^>]+>|`", "", form)


# -- The three levels ------------------------------------------------------------------


def levels(**told):
    run = {"level": "L0", "runs": 12, "engines": []} | told.pop("run", {})
    return [(level, state) for level, _, state in words.levels({"run": run, **told})]


def test_what_was_not_played_is_never_passed():
    assert levels(run={"live": "skipped: no key"}) == [
        ("L0", "played: 12 runs"),
        ("L1", "not played: `brain-suite retrieval FILE`"),
        ("L2", "skipped: no key"),
    ]
    assert levels()[-1] == ("L2", "not asked for")
    live = levels(run={"level": "L2", "engines": ["anthropic m"]})
    assert (live[0], live[-1]) == (
        ("L0", "not played: `brain-suite run ID`"),
        ("L2", "played: 12 runs by anthropic m"),
    )


def test_a_key_alone_is_no_live_run():
    assert running.not_live({}) == "skipped: no key"
    assert running.not_live({"ANTHROPIC_API_KEY": "k"}) == "not asked for"


def in_80(made):
    return list(terminal.lines(markdown.lines(made)))


def test_every_form_tells_all_levels(place):
    made = verify.again(str(place / "report"))[1]
    without = made._replace(
        table={name: each for name, each in made.table.items() if name != "recorded"}
    )
    for shown, states in ((made, 0), (without, 1)):
        terminal = " ".join(" ".join(in_80(shown)).split())
        written, text = "\n".join(markdown.lines(shown)), page.html(shown)
        for level, what, state in words.levels(shown.table):
            assert f"{level} {what} {state}" in terminal
            assert f"| {level} | {what} | {state} |" in written
            assert f"<th scope='row'>{level}</th>" in text
        assert terminal.count("not played: `brain-suite re") == states
        assert text.count("not played: <code>brain-suite re") == states
    assert all(len(line) <= 80 for line in in_80(made))
