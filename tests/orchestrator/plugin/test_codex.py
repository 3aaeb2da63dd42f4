"""Codex: its facts against samples of what it sends, its transcripts, its installation and its wakes."""

import json
from pathlib import Path

import pytest

from orchestrator.engine import Usage
from orchestrator.plugin import facts
from orchestrator.plugin.event import Reply, read_event, reply_json
from orchestrator.plugin.transcripts import Spent, spent

SAMPLES = Path(__file__).parent / "samples/codex"
SESSION, CHILD = "00000000-0000-4000-8000-000000000000", "00000000-0000-4000-8000-000000000002"
CODEX = facts.load("codex")


def event(name):
    found = read_event(CODEX, json.loads((SAMPLES / f"{name}.json").read_text()))
    assert found is not None
    return found


@pytest.mark.parametrize("path", sorted(SAMPLES.glob("*.json")), ids=lambda path: path.stem)
def test_every_event_is_of_the_session(path):
    found = event(path.stem)
    assert (found.session, found.client) == (SESSION, "codex")
    assert ("agent" in path.stem.split("-")) <= (found.agent is not None)


def test_a_sub_agent_of_either_generation_is_spawned_by_what_can_be_read():
    old, new = event("PreToolUse-spawn_agent"), event("PreToolUse-spawn_agent-v2")
    assert (old.kind, old.prompt, old.type) == ("spawn", "CHILD task: read a.txt", "explorer")
    assert (new.kind, new.prompt, new.type) == ("spawn", "reader", None)  # the message is sealed by its provider


def test_the_end_of_a_sub_agent_names_its_own_transcript():
    found = event("SubagentStop")
    assert (found.name, found.agent, found.type) == ("agent-stop", CHILD, "explorer")
    assert found.transcript is not None
    assert found.transcript.endswith(f"{CHILD}.jsonl")
    assert found.message == "child done: found X"


def test_a_sub_agents_prompt_is_its_own():
    found = event("UserPromptSubmit-agent")
    assert (found.name, found.agent, found.prompt) == ("prompt", CHILD, "CHILD task: read a.txt")


@pytest.mark.parametrize("name", ["Stop", "SubagentStop"])
def test_the_end_takes_a_reason_and_no_context(name):
    answer = json.loads(reply_json(CODEX, event(name), Reply(context="no", again="Go on.", stop="no")))
    assert answer == {"decision": "block", "reason": "Go on."}


def test_a_denied_call_is_one_that_codex_takes():
    answer = json.loads(reply_json(CODEX, event("PreToolUse-Bash"), Reply(context="Known.", deny="Done.", stop="no")))
    assert answer == {
        "hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "permissionDecision": "deny",
            "permissionDecisionReason": "Done.",
            "additionalContext": "Known.",
        }
    }


def test_a_conversation_has_the_usage_of_each_reply():
    # Three replies: 11370, 11409 and 11460 tokens were sent.
    assert spent("codex", str(SAMPLES / "transcript.jsonl")) == Spent(Usage(34_239, 57, 22_656), 3, "gpt-6.1-sol")


def test_a_sub_agent_has_its_own_usage():
    path = SAMPLES / "transcript-agent.jsonl"
    assert spent("codex", str(path)) == Spent(Usage(22_363, 57, 14_976), 2, "gpt-6.1-sol")


def test_the_lines_of_a_parent_are_not_a_forks(tmp_path):
    fork = tmp_path / "rollout.jsonl"
    own = (SAMPLES / "transcript-agent.jsonl").read_text().splitlines(keepends=True)
    fork.write_text(own[0] + (SAMPLES / "transcript.jsonl").read_text() + "".join(own[1:]))
    assert spent("codex", str(fork)) == spent("codex", str(SAMPLES / "transcript-agent.jsonl"))


@pytest.mark.parametrize(
    "text", ["", "\0" * 99, '{"type":"token_usage_record"', '[1]\n"a"\n{"type":"token_usage_record"}\n']
)
def test_what_is_no_transcript_tells_nothing(tmp_path, text):
    path = tmp_path / "rollout.jsonl"
    path.write_text(text)
    assert spent("codex", str(path)) is None
    assert spent("codex", str(tmp_path / "none")) is None


def test_the_files_of_a_patch_are_what_it_is_about():
    found = event("PreToolUse-apply_patch-v2")
    assert (found.kind, found.subjects) == ("edit", ("b.txt",))
