"""What is measured of a model is what it does: servers of known behaviour are asked, and
estimated.
"""

import json
import re
import shlex
import sys
from random import Random

import pytest

from orchestrator.engines.scripted import Move
from scenarios import __main__ as shell
from scenarios import verify
from scenarios.data import parameters
from scenarios.data.parameters import MEASURED, BrokenParameters
from scenarios.data.schema import PARAMETERS
from scenarios.play import calibrate, probes
from scenarios.report import report
from tests.model_server import ModelServer

VALUE = r"[a-f][0-9][0-9a-f]{5}"


class Model:
    """A model that sees text and tools alone, and does what it was made to do, each with its
    chance.

    `reads`: takes in what its prompt or a search shows; `searches`: asks memory first; `beside`:
    notes beside its next call; `otherwise`: words a claim another way; `bare`: leaves the number
    out of a query; `chatters`: a turn's note without a finding; `errs`: notes a wrong value;
    `checks`: looks up what a helper says.
    """

    def __init__(self, **chances):
        self.chances = (
            dict.fromkeys(("reads", "searches", "beside", "checks", "notes", "claims"), 1.0)
            | chances
        )

    def lot(self, name, *about):
        return Random(f"{name} {about}").random() < self.chances.get(name, 0.0)

    def __call__(self, seen):
        text = "\n".join(message.text for message in seen.messages if message.role != "assistant")
        needs = re.search(r"^Needs: (.+)$", text, re.MULTILINE)[1].split("; ")
        tools = {tool.name for tool in seen.tools}
        calls = [call for message in seen.messages for call in message.calls]
        values = {need: self.value(need, text, needs, calls) for need in needs}
        move = self.next(needs, values, calls, tools, text)
        return (
            self.with_notes(move, needs, values, calls, tools, text) if "append" in tools else move
        )

    def value(self, need, text, needs, calls):
        found = re.findall(rf"{re.escape(need)} is ({VALUE})", text, re.IGNORECASE)
        if not found:
            return None
        dug = any(
            call.name == "investigate" and call.arguments["subject"] == need for call in calls
        )
        searched = any(call.name == "memory_search" for call in calls)
        if dug or (
            self.lot("reads", needs, searched)
            and not ("(helper" in text and self.lot("checks", needs))
        ):
            return found[-1]
        return None

    def next(self, needs, values, calls, tools, text):
        missing = [need for need in needs if values[need] is None]
        for need in missing:
            made = [
                call.name
                for call in calls
                if need in str(call.arguments) or call.name == "memory_search"
            ]
            if (
                "memory_search" in tools
                and "memory_search" not in made
                and self.lot("searches", needs)
            ):
                query = need.rsplit(" ", 1)[0] if self.lot("bare", needs) else need
                return Move("", (("memory_search", {"query": query}),))
            claimed = any(call.name == "claim" and need in call.arguments["work"] for call in calls)
            if "claim" in tools and not claimed and self.lot("claims", need):
                form = "looking into {}" if self.lot("otherwise", need) else "find out {}"
                return Move("", (("claim", {"work": form.format(need)}),))
            return Move("", (("investigate", {"subject": need}),))
        if not any(call.name == "submit" for call in calls):
            using = "; ".join(f"{need} = {values[need]}" for need in needs)
            return Move("", (("submit", {"task": "part-1", "using": using}),))
        return Move("It is done.")

    def with_notes(self, move, needs, values, calls, tools, text):
        noted = " ".join(str(call.arguments.get("body")) for call in calls if call.name == "append")
        dug = [call.arguments["subject"] for call in calls if call.name == "investigate"]
        new = [
            need
            for need in dug
            if values.get(need) and need not in noted and self.lot("notes", need)
        ]
        notes = []
        for need in dict.fromkeys(new):
            value = "a0fffff" if self.lot("errs", need) else values[need]
            notes.append(
                ("append", {"namespace": "projects/survey", "body": f"{need} is {value}."})
            )
        if notes and not self.lot("beside", needs):
            move = Move()
        if self.lot("chatters", needs, len(calls)):
            notes.append(("append", {"namespace": "projects/survey", "body": "Going on well."}))
        if move == Move():
            return Move(calls=tuple(notes))
        return move._replace(calls=(*notes, *move.calls)) if move.calls else move


@pytest.fixture
def measure(tmp_path, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-not-a-key-at-all")

    def go(script, *more, runs=24, code=0):
        with ModelServer(script) as server:
            monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
            out = str(tmp_path / "params.json")
            asked = [
                "calibrate",
                "--live",
                "anthropic",
                "--runs",
                str(runs),
                "--max-usd",
                "50",
                "--quiet",
            ]
            assert shell.main([*asked, "--out", out, *more]) == code
        return json.loads((tmp_path / "params.json").read_text()) if code == 0 else None

    return go


def share(found, name):
    """The share that was measured, how sure, and of how many."""
    one = found["params"][name]
    return one["value"], one["lo"], one["hi"], one["n"]


def near(found, name, chance):
    value, lo, hi, n = share(found, name)
    return n >= 20 and lo <= chance <= hi and abs(value - chance) < 0.2


def test_a_perfect_model_is_measured_as_such(measure, capsys):
    found = measure(Model(), runs=6)
    values = {name: one["value"] for name, one in found["params"].items()}
    assert values == {"p_read": 1, "tool_use": 1, "beside": 1, "claims_otherwise": 0, "bare_queries": 0,
                      "chatter": 0, "wrong_notes": 0, "heeds": 1}  # fmt: skip
    assert set(found["details"]["p_read by place"]) == {"start", "middle", "end", "search"}
    assert set(found["details"]["notes"]) == {"word for word"}
    assert found["source"]["model"] == "claude-sonnet-4-6"
    out = capsys.readouterr().out
    assert out.startswith("L2, measured: anthropic claude-sonnet-4-6")
    assert all(len(line) <= 80 for line in out.splitlines() if "brain-suite" not in line)


@pytest.mark.parametrize(
    "chances",
    [
        {"reads": ("p_read", 0.7), "searches": ("tool_use", 0.6), "otherwise": ("claims_otherwise", 0.25),
         "errs": ("wrong_notes", 0.2)},
        {"beside": ("beside", 0.3), "bare": ("bare_queries", 0.5), "chatters": ("chatter", 0.3),
         "checks": ("heeds", 0.5)},
    ],
)  # fmt: skip
def test_each_chance_is_found_again_and_the_others_stay(measure, chances):
    found = measure(
        Model(**{behaviour: chance for behaviour, (_, chance) in chances.items()}), runs=24
    )
    perfect = {"p_read": 1, "tool_use": 1, "beside": 1, "heeds": 1}
    for name, chance in chances.values():
        assert near(found, name, chance), (name, share(found, name))
        _, lo, hi, _ = share(found, name)
        assert not lo <= perfect.get(name, 0) <= hi, (
            f"{name}: a perfect model is outside of the interval"
        )
    for name in set(MEASURED) - {name for name, _ in chances.values()}:
        assert share(found, name)[0] == perfect.get(name, 0), name


def test_a_model_that_calls_nothing_has_no_use_of_memory(measure):
    found = measure(lambda seen: "I am done.", runs=10)
    assert share(found, "p_read")[0] == share(found, "tool_use")[0] == 0
    assert share(found, "p_read")[2] < 0.35
    for name in set(MEASURED) - {"p_read", "tool_use"}:
        assert share(found, name) == (None, None, None, 0), name


def test_without_a_key_nothing_is_measured(measure, monkeypatch, tmp_path, capsys):
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    measure(Model(), code=77)
    assert "skipped: no ANTHROPIC_API_KEY" in capsys.readouterr().err
    assert not (tmp_path / "params.json").exists()


# A program that plays a client: it has the prompt and its folder, and does as its chances say.
CLIENT = """
import re, sys
from random import Random
reads, checks = map(float, sys.argv[1:])
prompt = sys.stdin.read()
(need,) = re.findall(r"^Needs: (.+)$", prompt, re.MULTILINE)
pattern = re.escape(need) + " is ([a-f][0-9][0-9a-f]{5})"
shown = re.findall(pattern, prompt, re.IGNORECASE)
if "(helper" in prompt and Random("checks" + need + str(shown)).random() < checks:
    shown = re.findall(pattern, open("records.txt").read(), re.IGNORECASE)
elif Random("reads" + need + str(shown)).random() >= reads:
    shown = []
with open(sys.argv[0] + ".log", "a") as log:
    print("helper" if "(helper" in prompt else "lead", shown and shown[-1] in prompt, shown != [], file=log)
print("I did my part.")
print(f"- **{need}** = `{shown[-1] if shown else 'unknown'}`")
"""


@pytest.fixture
def client(tmp_path, capsys):
    (tmp_path / "client.py").write_text(CLIENT)

    def go(reads, checks, *more, runs=40, script="client.py", code=0):
        out = str(tmp_path / "params.json")
        command = shlex.join([sys.executable, str(tmp_path / script)])
        asked = [
            "calibrate",
            "--live",
            "process",
            "--command",
            f"{command} {reads} {checks}",
            "--runs",
            str(runs),
        ]
        assert shell.main([*asked, "--quiet", "--out", out, *more]) == code
        return json.loads((tmp_path / "params.json").read_text()) if code == 0 else None

    return go


def test_a_client_is_measured_by_its_last_message(client, tmp_path, capsys):
    found = client(0.7, 0.5)
    assert near(found, "p_read", 0.7), share(found, "p_read")
    did = [line.split() for line in (tmp_path / "client.py.log").read_text().splitlines()]
    read = [answers for author, _, answers in did if author == "lead"]
    looked = [lies for author, lies, answers in did if author == "helper" and answers == "True"]
    assert share(found, "p_read")[::3] == (round(read.count("True") / 40, 4), 40)
    assert share(found, "heeds")[::3] == (
        round(looked.count("False") / len(looked), 4),
        len(looked),
    )
    for name in ("p_read", "heeds"):
        _, lo, hi, _ = share(found, name)
        assert not lo <= 0 <= hi, f"{name}: who ignores memory is outside of the interval"
        assert not lo <= 1 <= hi, f"{name}: a perfect client is outside of the interval"
    assert set(found["details"]["p_read by place"]) == {"start", "middle", "end"}
    for name in set(MEASURED) - {"p_read", "heeds"}:
        assert share(found, name) == (None, None, None, 0), name
    out = capsys.readouterr().out
    assert out.startswith("L2, measured: process (own model)")
    assert "$0.00, 80 sessions without a known cost" in out
    assert re.search(r"^tool_use +not seen", out, re.MULTILINE)


def test_a_client_that_ignores_the_memory_reads_nothing(client):
    found = client(0, 0, runs=8)
    assert share(found, "p_read")[0] == 0
    assert share(found, "p_read")[2] < 0.35
    assert share(found, "heeds") == (None, None, None, 0)


def test_a_client_that_repeats_the_lie_heeds_nothing_and_one_that_looks_does(client):
    assert share(client(1, 0, runs=4), "heeds")[0] == 0
    assert share(client(1, 1, runs=4), "heeds")[0] == 1


def test_a_client_that_repeats_its_whole_prompt_has_read_nothing(client, tmp_path):
    (tmp_path / "echo.py").write_text("import sys; print(sys.stdin.read())")
    assert share(client(1, 1, runs=6, script="echo.py"), "p_read")[0] == 0


def test_the_folder_of_a_client_holds_nothing_that_its_prompt_shows(client, tmp_path):
    """Who gives what the files of its folder say, and nothing else, has read nothing and looks up
    everything.
    """
    (tmp_path / "files.py").write_text(
        "import os; print(*(open(os.path.join(at, file)).read().replace(' is ', ' = ')"
        " for at, _, files in os.walk('.') for file in files))"
    )
    found = client(0, 0, runs=6, script="files.py")
    assert (share(found, "p_read")[0], share(found, "heeds")[0]) == (0, 1)


def test_the_shell_of_a_client_reaches_the_memory_of_its_trial_alone(client, tmp_path):
    """Its value comes from `synapse search` there, and from nowhere else that it can see."""
    searching = (
        "import re, subprocess, sys; need = re.findall('^Needs: (.+)$',"
        " sys.stdin.read(), re.MULTILINE)[0]\n"
        "hits = subprocess.run(['synapse', 'search', need], capture_output=True,"
        " text=True, check=True).stdout\n"
        f"print(need, '=', re.findall(re.escape(need) + ' is ({VALUE})', hits, re.IGNORECASE)[0])\n"
    )
    (tmp_path / "searching.py").write_text(searching)
    found = client(1, 1, runs=3, script="searching.py")
    assert share(found, "p_read")[0] == 1
    assert share(found, "heeds")[0] == 0, "what it found there is the lie"


def test_a_client_on_a_cassette_is_measured_again_without_it(client, tmp_path):
    tape = ["--cassette", str(tmp_path / "tape.jsonl")]
    first = client(0.5, 0.5, *tape, runs=4)
    again = client(0, 0, *tape, "--cassette-mode", "replay", runs=4, script="none.py")
    assert again["params"] == first["params"]


def test_a_client_that_is_not_there_is_skipped(measure, capsys):
    asked = ["--live", "claude-code", "--command", "no-such-client"]
    measure(Model(), *asked, code=77)
    assert "skipped: no-such-client is not there to be run. npm install" in capsys.readouterr().err
    measure(Model(), "--live", "process", code=2)
    assert "--command COMMAND" in capsys.readouterr().err
    measure(Model(), "--command", "my-agent", code=2)
    assert "--command is for a client" in capsys.readouterr().err


def test_the_next_session_of_a_client_is_one_that_can_be_paid(client, tmp_path, capsys):
    """A session costs a dollar: three are paid of 3.50, and the fourth is not begun."""
    said = json.dumps({"type": "result", "result": "unknown", "total_cost_usd": 1.0, "usage": {}})
    (tmp_path / "dear.py").write_text(f"print({said!r})")
    found = client(0, 0, "--live", "claude-code", "--max-usd", "3.5", script="dear.py")
    assert (found["source"]["trials"], found["source"]["usd"]) == (3, 3.0)
    assert "that is more than --max-usd 3.5" in found["source"]["stopped"]


def test_where_the_money_ends_what_was_measured_is_kept_and_said(measure, capsys):
    found = measure(Model(), "--max-tokens", "60000")
    assert 0 < found["source"]["trials"] < 96
    assert "more than --max-tokens 60000" in found["source"]["stopped"]
    assert found["source"]["stopped"] in capsys.readouterr().out
    measure(Model(), "--max-usd", "0.00001", code=2)
    assert "--max-usd" in capsys.readouterr().err


def test_a_cassette_measures_the_same_without_anybody(measure, tmp_path, monkeypatch):
    tape = ["--cassette", str(tmp_path / "tape.jsonl")]
    first = measure(Model(reads=0.5), *tape, runs=3)
    second = measure(lambda seen: "I am another model.", *tape, "--cassette-mode", "replay", runs=3)
    assert first["params"] == second["params"]
    assert first["details"] == second["details"]


# -- Playing with what was measured ----------------------------------------------------


FILE = {
    "schema": parameters.SCHEMA,
    "source": {"engine": "anthropic", "model": "claude-x", "date": "2026-11-22"},
    "params": {"p_read": {"value": 0.5, "lo": 0.4, "hi": 0.6, "n": 90}, "tool_use": 0.25,
               "beside": {"value": None, "lo": None, "hi": None, "n": 0}},
}  # fmt: skip


@pytest.fixture
def play(tmp_path):
    path = tmp_path / "measured.json"
    path.write_text(json.dumps(FILE))

    def go(*more):
        asked = [
            "run",
            "telephone",
            "--arms",
            "isolated,shipped",
            "--runs",
            "1",
            "--no-grid",
            "--quiet",
            "--jobs",
            "1",
        ]
        return shell.main([*asked, "--params", str(path), "--out", str(tmp_path / "out"), *more])

    return go


def test_scripted_agents_play_with_what_was_measured(play, tmp_path):
    assert play() in (0, 1)
    table = report.read(str(tmp_path / "out"))
    assert table["scenarios"]["telephone"]["params"]["p_read"] == 0.5
    assert table["scenarios"]["telephone"]["params"]["tool_use"] == 0.25
    assert table["run"]["parameters"]["values"]["p_read"] == FILE["params"]["p_read"]
    assert "beside" not in table["run"]["parameters"]["values"]
    assert verify.differences(str(tmp_path / "out")) == []
    for form in (report.TEXT, report.PAGE):
        text = (tmp_path / "out" / form).read_text()
        assert (
            "measured on anthropic claude-x 2026-11-22: p_read 50% [40.0%, 60.0%] n"
            " 90, tool_use 25.0%"
        ) in text
    assert play("--set", "p_read=0.75") in (0, 1), "what is asked for goes before what was measured"
    table = report.read(str(tmp_path / "out"))
    assert table["scenarios"]["telephone"]["params"]["p_read"] == 0.75
    assert "p_read" not in table["run"]["parameters"]["values"]


def test_what_a_model_was_measured_as_is_played_by_scripted_agents(measure, tmp_path, monkeypatch):
    """From `calibrate` to `run --params` with the file between them, and nobody asked any more."""
    measured = measure(Model(reads=0.7, beside=0.3, checks=0.5, errs=0.2, otherwise=0.25), runs=6)
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    monkeypatch.delenv("ANTHROPIC_BASE_URL")
    tables = []
    for n, params in enumerate((["--params", str(tmp_path / "params.json")], [])):
        out = str(tmp_path / f"played-{n}")
        asked = [
            "run",
            "telephone",
            "--arms",
            "isolated,shipped",
            "--runs",
            "1",
            "--no-grid",
            "--quiet",
            "--jobs",
            "1",
        ]
        assert shell.main([*asked, *params, "--out", out]) in (0, 1)
        assert verify.differences(out) == []
        tables.append(report.read(out))
    played, usual = tables
    values = {name: one["value"] for name, one in measured["params"].items()}
    assert set(values) == set(MEASURED)
    assert None not in values.values()
    assert 0 < values["p_read"] < 1
    params = played["scenarios"]["telephone"]["params"]
    assert {name: params[name] for name in MEASURED} == values
    assert played["run"]["parameters"]["values"] == measured["params"]
    assert played["run"]["level"] == "L0"
    assert "parameters" not in usual["run"]
    assert played["run"]["ledger"] != usual["run"]["ledger"]


def test_a_model_plays_as_it_does_and_not_by_parameters(play, monkeypatch, capsys):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-not-a-key-at-all")
    assert play("--live", "anthropic") == 2
    assert "p_read, tool_use: says how scripted agents behave" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"schema": "other"}, 'write "schema": "brain-suite/params-v1"'),
        ({"source": {}}, "where the figures come from"),
        ({"params": [1]}, 'write "params": {NAME: VALUE}'),
        ({"params": {"p_reed": 0.5}}, "there is no parameter p_reed; there are agents, p_read"),
        ({"params": {"p_read": 1.5}}, "p_read is 1.5: write a number from 0 to 1"),
        ({"params": {"p_read": "often"}}, "write a number from 0 to 1"),
        ({"params": {"p_read": True}}, "write a number from 0 to 1"),
    ],
)
def test_a_file_of_something_else_is_refused(play, tmp_path, capsys, change, problem):
    (tmp_path / "measured.json").write_text(json.dumps(FILE | change))
    assert play() == 2
    assert problem in capsys.readouterr().err
    with pytest.raises(BrokenParameters):
        parameters.load(str(tmp_path / "measured.json"))


def test_what_was_written_is_read_again(tmp_path):
    one = parameters.Parameters(
        {"model": "m"},
        {"p_read": calibrate.estimate([True, False]), "beside": calibrate.estimate([])},
    )
    (tmp_path / "p.json").write_text(parameters.dump(one))
    assert parameters.load(str(tmp_path / "p.json")) == one
    assert one.values == {"p_read": 0.5}


def test_trials_are_the_same_each_time_and_tell_no_value():
    first, second = (list(probes.trials(6)) for _ in range(2))
    assert first == second
    for trial in first:
        assert not any(fact.value in probes.brief(trial) for fact in trial.needs)
        if trial.probe in (probes.FIND, probes.HEED):
            assert not any(fact.value in text for fact in trial.needs for _, text in trial.entries)
    assert {trial.place for trial in first if trial.probe == probes.READ} == set(probes.PLACES)
    assert set(MEASURED) <= set(PARAMETERS)
