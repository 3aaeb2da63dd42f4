"""What clients' own transcripts say of tokens: excerpts of real ones, and files that are none."""

import json
import os
from pathlib import Path

import pytest

from orchestrator.engines.protocol import Usage
from orchestrator.plugin.transcripts import transcript
from orchestrator.plugin.transcripts.transcript import Spent, spent

SAMPLES = Path(__file__).parents[1] / "samples"


def reply(id, output, **more):
    usage = {
        "input_tokens": 3,
        "cache_read_input_tokens": 20,
        "cache_creation_input_tokens": 100,
        "output_tokens": output,
    }
    message = {"id": id, "model": "claude-sonnet-4-5", "usage": usage}
    return json.dumps({"type": "assistant", "message": message, **more})


def test_a_session_of_claude_code_has_the_usage_of_each_reply_once():
    # Four replies, with two lines each: 18927, 19175, 19240 and 19323 tokens were sent.
    assert spent("claude-code", str(SAMPLES / "claude-code/transcript.jsonl")) == Spent(
        Usage(76_665, 109, 57_342, 19_323), 4, "claude-sonnet-4-5"
    )


def test_a_sub_agent_of_claude_code_has_its_own_usage():
    assert spent("claude-code", str(SAMPLES / "claude-code/transcript-agent.jsonl")) == Spent(
        Usage(22_150, 33, 10_855, 11_295), 2, "claude-sonnet-4-5"
    )


def test_the_last_line_of_a_reply_has_its_usage_complete(tmp_path):
    path = tmp_path / "session.jsonl"
    path.write_text("\n".join((reply("a", 1), reply("a", 40), reply("b", 2), "")))
    assert spent("claude-code", str(path)) == Spent(Usage(246, 42, 40, 200), 2, "claude-sonnet-4-5")


def test_what_a_client_says_in_the_place_of_the_model_is_no_usage(tmp_path):
    path = tmp_path / "session.jsonl"
    path.write_text(f"{reply('a', 5)}\n{reply('b', 5, isApiErrorMessage=True)}\n")
    assert spent("claude-code", str(path)).turns == 1


@pytest.mark.parametrize(
    "debris", ["{", "null", "[]", '{"type": "assistant", "message": {"usage": 3}}', "\x00\xff"]
)
def test_a_torn_transcript_is_read_as_far_as_it_goes(tmp_path, debris):
    path = tmp_path / "session.jsonl"
    path.write_text(f'{debris}"usage"\n{reply("a", 5)}\n{reply("b", 5)[:60]}', encoding="latin-1")
    assert spent("claude-code", str(path)).usage.output_tokens == 5


def test_counts_that_are_none_count_nothing(tmp_path):
    path = tmp_path / "session.jsonl"
    usage = {"input_tokens": "many", "output_tokens": -4, "cache_read_input_tokens": None}
    message = {"id": "a", "model": 7, "usage": usage}
    path.write_text(json.dumps({"type": "assistant", "message": message}) + "\n")
    assert spent("claude-code", str(path)) == Spent(Usage(), 1, None)


def test_a_huge_transcript_is_read_in_part_and_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(transcript, "LARGEST", 4_000)
    path = tmp_path / "session.jsonl"
    path.write_text("".join(f"{reply(str(n), 1)}\n" for n in range(100)))
    usage = spent("claude-code", str(path)).usage
    assert usage.estimated
    assert 0 < usage.output_tokens < 100


def test_a_line_that_is_too_long_is_passed_over(tmp_path, monkeypatch):
    monkeypatch.setattr(transcript, "LONGEST_LINE", 1_000)
    path = tmp_path / "session.jsonl"
    path.write_text(f"{reply('a', 1)}\n{reply('b', 1, image='x' * 5_000)}\n{reply('c', 1)}\n")
    assert spent("claude-code", str(path)) == Spent(
        Usage(246, 2, 40, 200, estimated=True), 2, "claude-sonnet-4-5"
    )
    path.write_text(f"{reply('a', 1)}\n{reply('b', 1, image='x' * 5_000)}\n")
    assert spent("claude-code", str(path)).usage.estimated


def test_where_there_is_no_transcript_nothing_is_known(tmp_path):
    pipe, empty = tmp_path / "pipe", tmp_path / "empty"
    os.mkfifo(pipe)
    empty.touch()
    for path in (None, "", str(tmp_path / "none"), str(tmp_path), str(pipe), str(empty)):
        assert spent("claude-code", path) is None
    assert spent("no-client", str(SAMPLES / "claude-code/transcript.jsonl")) is None


CHAT = '{"type": "gemini", "id": "1", "content": "It has 3 functions."}\n'


@pytest.mark.parametrize(
    ("told", "text"),
    [
        ("It has 3 functions. s 3 functions.", "It has 3 functions."),
        ("It has 3 functions.", "It has 3 functions."),
        ("Another turn's words.", "Another turn's words."),
        ("", ""),
    ],
)
def test_the_last_message_is_the_transcripts_where_that_has_it(tmp_path, told, text):
    chat = tmp_path / "chat.jsonl"
    chat.write_text(CHAT + '{"type": "gemini", "id": "2", "content": ""}\n{"type": "us')
    assert transcript.last_message("gemini", str(chat), told) == text


def test_the_last_message_is_the_events_where_there_is_no_transcript(tmp_path):
    for path in (None, str(tmp_path), str(tmp_path / "none")):
        assert transcript.last_message("gemini", path, "Done.") == "Done."
    assert transcript.last_message("codex", "any", "Done.") == "Done."
