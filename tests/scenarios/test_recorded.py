"""Recorded runs in a report: their figures follow from data that stay where they are, or are not believed."""

import json
import shutil

import jsonschema
import pytest

from scenarios import __main__ as shell
from scenarios import markdown, page, pictures, recorded, replay, report, running, table, verify, words
from scenarios.recorded import BrokenData, Where

SAID = [
    ("human", "Find out about Port Arthur."),
    ("Lead (thought)", "Port Arthur first; ask Ada Byron about 4711."),
    ("Lead (-> WebSurfer)", "Open https://a.example/port please"),
    ("WebSurfer", "a page: Grand Hotel Zaza, 1234 rooms"),
    ("Lead (thought)", "so the Grand Hotel Zaza has 1234 rooms; ask Ada Byron."),
]
TALK = {
    "sample_id": "talk",
    "conversation": {
        "session_1": [
            {"speaker": "Ida", "dia_id": "D1:1", "text": "Where did you hide the spare fuse box key?"},
            {"speaker": "Olaf", "dia_id": "D1:2", "text": "Behind the blue teapot."},
        ],
        "session_1_date_time": "1:56 pm on 8 May, 2023",
    },
    "qa": [{"question": "Where is the key of the fuse box?", "evidence": ["D1:2"], "category": 4}],
}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Recorded runs of two kinds, a conversation, and a report with both."""
    found = tmp_path_factory.mktemp("recorded")
    for kind in ("long", "short"):
        (found / "traces" / kind).mkdir(parents=True)
        for number in range(2):
            history = [{"content": text, "role": author} for author, text in SAID[: 5 - number]]
            (found / "traces" / kind / f"{number}.json").write_text(json.dumps({"history": history}))
    (found / "talks.json").write_text(json.dumps([TALK]))
    asked = ["run", "telephone", "--runs", "2", "--arms", "isolated,view", "--no-grid", "--jobs", "1", "--quiet"]
    data = ["--traces", str(found / "traces"), "--retrieval", str(found / "talks.json")]
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
    kinds = told["recorded"]["replay"]["kinds"]
    assert {kind: each["runs"] for kind, each in kinds.items()} == {"long": 2, "short": 2}
    assert set(kinds["long"]["policies"]) == set(replay.policies())
    assert kinds["long"]["policies"]["everything"]["cost"] == {"value": 1.0, "lo": 1.0, "hi": 1.0}
    assert told["recorded"]["retrieval"]["questions"] == 1
    for path in (place / "report").iterdir():
        if path.name != report.LEDGER:
            assert "Zaza" not in path.read_text()
            assert "teapot" not in path.read_text()
    told["recorded"]["retrieval"]["milliseconds"] = 3
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(told, report.schema())


def test_it_follows_from_the_data(place, capsys):
    assert verify.of_recorded(str(place / "report"), Where()) == []
    assert shell.main(["verify", str(place / "report"), "--jobs", "1"]) == 0
    out = capsys.readouterr().out
    assert "ok: replay follows from the data" in out
    assert "ok: retrieval follows from the data" in out


@pytest.mark.parametrize(
    "change",
    [
        lambda each: each["replay"]["kinds"]["long"]["policies"]["last 1"]["availability"].update(value=0.0123),
        lambda each: each["replay"]["kinds"]["long"]["policies"].pop("last 2"),
        lambda each: each["replay"]["kinds"].pop("short"),
        lambda each: each["replay"].update(shipped="last 1"),
        lambda each: each["replay"]["data"].update(sha256="0" * 64),
        lambda each: each["retrieval"]["figures"]["R@10"].update(lo=0.0123),
        lambda each: each["retrieval"]["one_workspace"].update(mrr=0.0123),
    ],
)
def test_any_figure_that_is_changed_is_found(copy, change):
    changed(copy / "report", lambda told: change(told["recorded"]))
    assert verify.of_recorded(str(copy / "report"), Where())
    assert verify.differences(str(copy / "report")) == [], "the ledger knows nothing of it"


def test_data_that_are_changed_are_found(copy, capsys):
    where = ["--traces", str(copy / "traces"), "--retrieval", str(copy / "talks.json")]
    asked = ["verify", str(copy / "report"), "--jobs", "1", *where]
    assert shell.main(asked) == 0, "moved, and the same"
    (copy / "traces/short/1.json").write_text(json.dumps({"history": [{"role": "a", "content": "b"}] * 3}))
    assert shell.main(asked) == 1
    assert "recorded.replay.data.sha256" in capsys.readouterr().out


def test_without_its_data_it_is_not_checked_and_said_so(copy, capsys):
    changed(copy / "report", lambda told: [each["data"].update(path="gone") for each in told["recorded"].values()])
    assert shell.main(["verify", str(copy / "report"), "--jobs", "1"]) == 0
    out = capsys.readouterr().out
    assert "not checked: replay: nothing lies at gone; say where it is: --traces DIR" in out
    assert "not checked: retrieval" in out
    assert "follows from the data" not in out


def test_a_report_that_is_made_again_keeps_it(copy, place):
    before = (copy / "report" / report.REPORT).read_bytes()
    assert shell.main(["report", str(copy / "report"), "--jobs", "1"]) in (0, 1)
    assert (copy / "report" / report.REPORT).read_bytes() == before
    assert (copy / "report" / report.PAGE).read_bytes() == (place / "report" / report.PAGE).read_bytes()


@pytest.mark.parametrize("option", ["--traces", "--retrieval"])
def test_data_that_are_none_are_an_error_before_anything_is_played(tmp_path, option, capsys):
    (tmp_path / "none.json").write_text("[]")
    where = tmp_path if option == "--traces" else tmp_path / "none.json"
    assert shell.main(["run", "telephone", option, str(where), "--quiet", "--out", str(tmp_path / "out")]) == 2
    assert "no" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    with pytest.raises(BrokenData):
        recorded.measured(Where(str(tmp_path / "nowhere"), None))


def test_every_policy_is_drawn_and_told(place):
    made = verify.again(str(place / "report"))[1]
    drawn = list(pictures.replayed(made))
    assert [each.title.rpartition(": ")[2] for each in drawn] == ["long", "short"]
    text, written = page.html(made), "\n".join(markdown.lines(made))
    for name in replay.policies():
        if name != replay.EVERYTHING:
            assert f"<title>{name}: " in drawn[0].drawing
        assert f"| {name} |" in written or f"| **{name}** |" in written
    assert ">shipped</text>" in drawn[0].drawing
    assert drawn[0].drawing in text
    assert "all in one workspace" in text


def kind(**rows):
    return {"policies": {name.replace("_", " "): {"cost": {"value": cost}, "availability": {"value": share}}
                         for name, (cost, share) in rows.items()}}  # fmt: skip


def test_the_window_to_beat_costs_no_more():
    found = kind(ours=(0.2, 0.9), last_1=(0.1, 0.5), last_2=(0.2, 0.7), last_3=(0.3, 0.99))
    assert recorded.to_beat(found, "ours") == ("last 2", 0.7)
    assert recorded.to_beat(kind(ours=(0.2, 0.9), last_3=(0.3, 0.99)), "ours") is None


# -- The three levels --------------------------------------------------------------------------------------------------


def levels(**told):
    run = {"level": "L0", "runs": 12, "engines": []} | told.pop("run", {})
    return [(level, state) for level, _, state in words.levels({"run": run, **told})]


def test_what_was_not_played_is_never_passed():
    assert levels(run={"live": "skipped: no key"}) == [
        ("L0", "played: 12 runs"),
        ("L1", "not played: `brain-suite replay TRACES`"),
        ("L1", "not played: `brain-suite retrieval FILE`"),
        ("L2", "skipped: no key"),
    ]
    assert levels()[-1] == ("L2", "not asked for")
    live = levels(run={"level": "L2", "engines": ["anthropic m"]})
    assert (live[0], live[-1]) == (("L0", "not played: `brain-suite run ID`"), ("L2", "played: 12 runs by anthropic m"))


def test_a_key_alone_is_no_live_run():
    assert running.not_live({}) == "skipped: no key"
    assert running.not_live({"ANTHROPIC_API_KEY": "k"}) == "not asked for"


def test_every_form_tells_all_levels(place):
    made = verify.again(str(place / "report"))[1]
    without = made._replace(table={name: each for name, each in made.table.items() if name != "recorded"})
    for shown, states in ((made, 0), (without, 2)):
        terminal = " ".join(" ".join(table.lines(shown)).split())
        written, text = "\n".join(markdown.lines(shown)), page.html(shown)
        for level, what, state in words.levels(shown.table):
            assert f"{level} {what} {state}" in terminal
            assert f"| {level} | {what} | {state} |" in written
            assert f"<th scope='row'>{level}</th>" in text
        assert terminal.count("not played: `brain-suite re") == states
        assert text.count("not played: <code>brain-suite re") == states
    assert all(len(line) <= 80 for line in table.lines(made))
