"""What the real clients printed is understood: transcripts of the versions that their facts were
verified with.
"""

import io
import re
from pathlib import Path

import pytest

from orchestrator.engines import clients, output_rules
from orchestrator.engines.output_rules import Rule, Said, understand
from orchestrator.engines.protocol import Usage

TRANSCRIPTS = Path(__file__).with_name("transcripts")
PRESETS = {
    each.name: each
    for each in (clients.CLAUDE_CODE, clients.CODEX, clients.GEMINI, clients.OPENCLAW)
}
SESSION = "00000000-0000-4000-8000-000000000000"


def understood(name, what):
    client = PRESETS[name]
    ends = "json" if client.form == "json" else "jsonl"
    with open(TRANSCRIPTS / f"{name}-{client.verified}-{what}.{ends}", "rb") as file:
        return understand(
            getattr(output_rules, "whole" if ends == "json" else "lines")(file), client.rules
        )


@pytest.mark.parametrize("name", PRESETS)
def test_a_session_is_understood(name):
    first, resumed = understood(name, "first"), understood(name, "resumed")
    assert (first.text, resumed.text) == ("Said after 1 replies.", "Said after 2 replies.")
    assert first.session == resumed.session == SESSION
    assert first.error == ""
    assert first.usage.input_tokens > first.usage.cached_tokens > 1_000
    assert first.usage.output_tokens > 10
    assert (first.usage.cost is None) == (name in ("codex", "gemini"))


def test_usage_is_of_the_step_or_of_the_whole_session():
    for name, client in PRESETS.items():
        first = understood(name, "first").usage
        resumed = understood(name, "resumed").usage
        assert (resumed.input_tokens > first.input_tokens) == client.totals, name


@pytest.mark.parametrize("name", ["claude-code", "codex", "gemini"])
def test_an_error_is_understood(name):
    assert re.search(
        "too long|context window|maximum number of tokens", understood(name, "too-long").error
    )


@pytest.mark.parametrize("name", ["claude-code", "codex"])
def test_a_structured_result_is_understood(name):
    assert output_rules.reported(understood(name, "blocked")) == (
        "Half of it.",
        "There is no schema.",
    )


def test_every_transcript_is_of_a_preset_in_its_version():
    known = tuple(f"{client.name}-{client.verified}-" for client in PRESETS.values())
    assert [path.name for path in TRANSCRIPTS.iterdir() if not path.name.startswith(known)] == []


def said(piece, *rules):
    return understand([piece], rules)


def test_paths():
    piece = {
        "a": {"x": {"n": 1}, "y": {"n": 2}},
        "list": [{"t": "one"}, {"t": ""}, {"t": "two"}],
        "zero": 0,
        "yes": True,
    }
    assert said(piece, Rule(input=("a.*.n",), output=("none | zero",))).usage == Usage(3, 0)
    assert said(piece, Rule(text="list.*.t")).text == "one\n\ntwo"
    assert said(piece, Rule(text="a.x.n.more", cost="yes")) == Said(understood=1)
    assert said(piece, Rule({"yes": True, "a.x.n": 1}, text="zero")).text == "0"
    assert said(piece, Rule({"yes": False}, text="zero")) == Said()


def test_later_pieces_override_and_some_continue():
    pieces = [{"t": "a"}, {"t": "b"}, {"other": 1}]
    assert understand(pieces, [Rule(text="t")]).text == "b"
    assert understand(pieces, [Rule(text="t", continues=True)]).text == "ab"
    assert (
        understand(pieces, [Rule({"t": "b"}, clears=True), Rule(text="t", continues=True)]).text
        == "b"
    )


@pytest.mark.parametrize(
    "data",
    [b"", b"\n", b"nothing", b"{", b"[1]\n", b'{"a": \xff}\n', b'{"a":' * 5_000 + b"\n", b"\x00{}"],
)
def test_what_is_no_message_is_passed_over(data):
    assert list(output_rules.lines(io.BytesIO(data))) == []
    assert list(output_rules.whole(io.BytesIO(data))) == []


def test_a_json_text_after_chatter():
    assert list(output_rules.whole(io.BytesIO(b'Loading ...\n{\n "a": 1\n}\n'))) == [{"a": 1}]
    assert list(output_rules.lines(io.BytesIO(b'Loading ...\n{"a": 1}\n{"b": 2}'))) == [
        {"a": 1},
        {"b": 2},
    ]


def test_a_report_that_is_none():
    assert output_rules.reported(Said("plain words", blocked="why")) == ("plain words", "why")
    assert output_rules.reported(Said('{"summary": "s", "blocked": null}')) == ("s", None)
