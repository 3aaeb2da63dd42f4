"""Real models in the place of the cast: asked over the wire, on record, played again; a scripted
server answers.
"""

import json
import re

import pytest

from orchestrator.engines.protocol import Call, Message, Request, Tool, Turn, Usage
from orchestrator.engines.scripted import Move
from orchestrator.testing.contract import Fault
from scenarios import __main__ as shell
from scenarios import verify
from scenarios.data import cassette
from scenarios.data.cassette import BrokenCassette, Cassette, Missed, Played
from scenarios.play.agents import live
from scenarios.report import report
from tests.model_server import ModelServer

KEY = "sk-ant-secret-secret-secret-secret"
SCENARIO = """
schema: brain-suite/v1
id: one_fact
title: Two agents and a fact
shows: A model finds out, or is told.
seed: 3
arms: [isolated, shipped]
facts:
  - {id: depth, subject: the depth of the lake, value: int, low: 100, high: 999, unit: m, priority: critical,
     known: scout, namespace: decisions/lake, cost: {turns: 1, tokens: 300}}
agents:
  - {id: scout, read: ["decisions/*"], write: ["decisions/*"]}
  - {id: diver, read: ["decisions/*"], write: [status/*]}
tasks:
  - {id: dive, agent: diver, text: Dive to the ground of the lake., needs: [depth], steps: 1}
gates:
  - task_success == 1
"""
VALUE = re.compile(
    r"depth of the lake(?: is(?: now)?|:) (\d+)|[Uu]se (\d+) m for the depth", re.IGNORECASE
)


def diver(seen):
    """A model that can read: it looks for the depth in what it was told, else finds out, then works
    and hands in.
    """
    called = [call.name for message in seen.messages for call in message.calls]
    found = VALUE.search("\n".join(message.text for message in seen.messages))
    if found is None:
        return Move("I find out.", (("investigate", {"subject": "the depth of the lake"}),))
    using = f"the depth of the lake = {found[1] or found[2]}"
    if "work" not in called:
        return Move("I work.", (("work", {"task": "dive", "using": using}),))
    if "submit" not in called:
        return Move(f"I hand in, by {KEY}.", (("submit", {"task": "dive", "using": using}),))
    return "It is done."


@pytest.fixture
def server(monkeypatch):
    with ModelServer(diver) as found:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", found.url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
        yield found


@pytest.fixture
def run(tmp_path, monkeypatch):
    path = tmp_path / "one.yaml"
    path.write_text(SCENARIO)

    def go(*more, out="out", runs=2):
        asked = [
            "run",
            str(path),
            "--live",
            "anthropic",
            "--runs",
            str(runs),
            "--quiet",
            "--out",
            str(tmp_path / out),
        ]
        return shell.main([*asked, *more])

    return go


def test_without_a_key_it_is_skipped(run, monkeypatch, capsys, tmp_path):
    for name in live.KEYS["anthropic"]:
        monkeypatch.delenv(name, raising=False)
    assert run() == 77
    assert "skipped: no ANTHROPIC_API_KEY" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_client_without_tools_is_skipped(run, capsys):
    assert run("--live", "claude-code") == 77
    assert "by tools alone" in capsys.readouterr().err


def test_a_model_plays_and_is_told_as_such(run, server, tmp_path):
    assert run() == 0
    table = report.read(str(tmp_path / "out"))
    assert (table["run"]["level"], table["run"]["engines"]) == (
        "L2",
        ["anthropic claude-sonnet-4-6"],
    )
    assert table["metrics"]["shipped"]["task_success"]["value"] == 1
    assert table["metrics"]["isolated"]["discoveries"]["value"] == 1
    assert table["metrics"]["shipped"]["discoveries"]["value"] == 0
    assert table["metrics"]["shipped"]["usd"]["value"] > 0
    assert verify.differences(str(tmp_path / "out")) == []
    assert report.ONLY_CHANCE not in (tmp_path / "out" / "report.html").read_text()


def test_a_cassette_plays_the_same_run_without_anybody(run, server, tmp_path, monkeypatch):
    tape = str(tmp_path / "tape.jsonl")
    assert run("--cassette", tape) == 0
    asked = len(server.journal)
    assert asked == len((tmp_path / "tape.jsonl").read_text().splitlines()) - 1
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    assert run("--cassette", tape, "--cassette-mode", "replay", out="again") == 0
    assert len(server.journal) == asked
    first, second = (report.read(str(tmp_path / name)) for name in ("out", "again"))
    assert first["run"]["ledger"] == second["run"]["ledger"]
    assert first["metrics"] == second["metrics"]
    assert second["run"]["cassette"] == {"played": asked, "asked": 0}


def test_what_is_not_on_the_cassette_is_an_error(run, server, tmp_path, capsys):
    tape = str(tmp_path / "tape.jsonl")
    assert run("--cassette", tape, runs=1) == 0
    assert run("--cassette", tape, "--cassette-mode", "replay", runs=2, out="more") == 2
    assert "is not on" in capsys.readouterr().err
    assert not (tmp_path / "more" / "report.json").exists()
    assert run("--cassette", tape, runs=2, out="more") == 0, "the rest is asked"


def test_no_secret_is_recorded(run, server, tmp_path):
    tape = tmp_path / "tape.jsonl"
    assert run("--cassette", str(tape)) == 0
    assert KEY not in tape.read_text()
    assert cassette.SECRET in tape.read_text()


def test_money_ends_before_it_is_spent(run, server, tmp_path, capsys):
    assert run("--max-usd", "0.00001") == 2
    assert "--max-usd" in capsys.readouterr().err
    assert server.journal == []
    code = run("--max-usd", "0.12", runs=8)
    table = report.read(str(tmp_path / "out"))
    assert code in (0, 1)
    assert 0 < table["run"]["runs"] < 16
    assert "that is more than --max-usd 0.12" in table["run"]["stopped"]
    assert table["run"]["stopped"] in table["warnings"]
    spent = sum(
        figures["usd"]["value"] * figures["usd"]["n"] for figures in table["metrics"].values()
    )
    assert spent < 0.12
    assert verify.differences(str(tmp_path / "out")) == []


def test_a_model_without_a_price_needs_one(run, server, capsys):
    assert run("--model", "homegrown", runs=1) == 2
    assert "give --price" in capsys.readouterr().err
    assert run("--model", "homegrown", "--price", "1,2", runs=1) == 0
    assert run("--model", "homegrown", "--price", "cheap", runs=1) == 2


def test_a_key_that_is_refused_is_no_result(run, server, capsys):
    server.fail(*[Fault("status", status=401)] * 20)
    assert run(runs=1) == 2
    assert "brain-suite:" in capsys.readouterr().err


def test_parameters_of_scripted_agents_are_none_of_a_model_s(run, server, capsys):
    assert run("--set", "p_read=0.5") == 2
    assert "p_read: says how scripted agents behave" in capsys.readouterr().err
    assert server.journal == []


def test_tokens_end_before_they_are_spent(run, server, tmp_path, capsys):
    assert run("--max-tokens", "100") == 2
    assert "that is more than --max-tokens 100" in capsys.readouterr().err
    assert server.journal == []
    run("--max-tokens", "20000", runs=8)
    table = report.read(str(tmp_path / "out"))
    assert 0 < table["run"]["runs"] < 16
    assert "more than --max-tokens 20000" in table["run"]["stopped"]


# -- Cassettes -------------------------------------------------------------------------


def asked(text="Hello.", **more):
    return Request("You are diver.", (Message("user", text, "task"),), model="m", **more)


def test_a_question_is_known_whatever_differs_by_chance():
    one = (
        "At 2026-02-01T09:00:00Z <memory-0123456789abcdef01234567> syn-2026-02-01-001 in"
        " /tmp/a1/b says 4."
    )
    two = (
        "At 2026-02-02T10:11:12.5Z <memory-aaaaaaaaaaaaaaaaaaaaaaaa> syn-2026-02-02-017"
        " in /tmp/zz/q says 4."
    )
    assert cassette.key_of(asked(one)) == cassette.key_of(asked(two))
    assert cassette.key_of(asked(one)) != cassette.key_of(asked(one.replace("4.", "5.")))
    assert cassette.key_of(asked(tools=(Tool("t", "does", {}),))) != cassette.key_of(asked())
    assert cassette.key_of(asked(max_tokens=5)) != cassette.key_of(asked())
    both = "syn-2026-02-01-001 and syn-2026-02-01-{}"
    assert cassette.key_of(asked(both.format("001"))) != cassette.key_of(asked(both.format("002")))


def test_ids_of_calls_are_put_aside():
    def request(id):
        said = Message("assistant", "", "work_out", (Call(id, "work", {}),))
        told = Message("tool", "ok", "work_obs", answers=id)
        return Request("s", (Message("user", "go", "task"), said, told), model="m")

    assert cassette.key_of(request("toolu_01")) == cassette.key_of(request("toolu_99"))


def test_a_question_asked_twice_has_two_answers(tmp_path):
    path = str(tmp_path / "tape.jsonl")
    tape = Cassette(path)
    for text in ("one", "two"):
        tape.keep(asked(), Played(Turn(text, usage=Usage(5, 2)), 1.5, 0.25), "2026-02-01T09:00:00Z")
    again = Cassette(path, "replay")
    assert [again.find(asked()).turn.text for _ in range(2)] == ["one", "two"]
    with pytest.raises(Missed):
        again.find(asked())
    assert Cassette(path, "new").find(asked("other")) is None


def test_modes_keep_their_word(tmp_path):
    path = str(tmp_path / "tape.jsonl")
    with pytest.raises(BrokenCassette, match="no such"):
        Cassette(path, "replay")
    Cassette(path, "once").keep(asked(), Played(Turn("one"), 0, 0), "t")
    with pytest.raises(BrokenCassette, match="once means once"):
        Cassette(path, "once")
    assert Cassette(path, "new").find(asked()).turn.text == "one"
    assert Cassette(path, "all").find(asked()) is None
    with pytest.raises(Missed):
        Cassette(path, "replay").find(asked())
    with pytest.raises(BrokenCassette):
        Cassette(None, "replay")
    for text in ("{}\n", "no json\n", ""):
        (tmp_path / "bad.jsonl").write_text(text)
        with pytest.raises(BrokenCassette):
            Cassette(str(tmp_path / "bad.jsonl"))


@pytest.mark.parametrize(
    "secret",
    ["sk-ant-api03-abcdefghijklmnop", "AIzaSyA1234567890abcdefghijklmnopqrstuv", "ghp_abcdefghijklmnopqrstuvwxyz",
     "AKIAIOSFODNN7EXAMPLE", "Bearer abcdefghijklmnop.qrst", "hunter2-hunter2"],
)  # fmt: skip
def test_secrets_are_taken_out(tmp_path, secret):
    path = tmp_path / "tape.jsonl"
    tape = Cassette(str(path), env={"MY_API_KEY": "hunter2-hunter2"})
    tape.keep(asked(f"Use {secret} here."), Played(Turn(f"I use {secret}."), 0, 0), "t")
    assert secret not in path.read_text()
    assert json.loads(path.read_text().splitlines()[1])["response"]["text"] in (
        f"I use {cassette.SECRET}.",
        f"I use {cassette.SECRET}",
    )
