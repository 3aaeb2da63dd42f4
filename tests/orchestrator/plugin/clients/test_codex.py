"""Codex: its facts against samples of what it sends, its transcripts, its installation and its
wakes.
"""

import json
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from orchestrator.engines.protocol import Usage
from orchestrator.plugin import facts
from orchestrator.plugin.facts.event import Reply, read_event, reply_json
from orchestrator.plugin.install.change import Block, Target
from orchestrator.plugin.install.clients import codex
from orchestrator.plugin.transcripts.transcript import Spent, spent
from orchestrator.plugin.wakes import codex as wakes_codex

SAMPLES = Path(__file__).parents[1] / "samples/codex"
SESSION = "00000000-0000-4000-8000-000000000000"
CHILD = "00000000-0000-4000-8000-000000000002"
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
    # the message is sealed by its provider
    assert (new.kind, new.prompt, new.type) == ("spawn", "reader", None)


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
    answer = json.loads(
        reply_json(CODEX, event(name), Reply(context="no", again="Go on.", stop="no"))
    )
    assert answer == {"decision": "block", "reason": "Go on."}


def test_a_denied_call_is_one_that_codex_takes():
    answer = json.loads(
        reply_json(
            CODEX, event("PreToolUse-Bash"), Reply(context="Known.", deny="Done.", stop="no")
        )
    )
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
    assert spent("codex", str(SAMPLES / "transcript.jsonl")) == Spent(
        Usage(34_239, 57, 22_656), 3, "gpt-6.1-sol"
    )


def test_a_sub_agent_has_its_own_usage():
    path = SAMPLES / "transcript-agent.jsonl"
    assert spent("codex", str(path)) == Spent(Usage(22_363, 57, 14_976), 2, "gpt-6.1-sol")


def test_the_lines_of_a_parent_are_not_a_forks(tmp_path):
    fork = tmp_path / "rollout.jsonl"
    own = (SAMPLES / "transcript-agent.jsonl").read_text().splitlines(keepends=True)
    fork.write_text(own[0] + (SAMPLES / "transcript.jsonl").read_text() + "".join(own[1:]))
    assert spent("codex", str(fork)) == spent("codex", str(SAMPLES / "transcript-agent.jsonl"))


@pytest.mark.parametrize(
    "text",
    ["", "\0" * 99, '{"type":"token_usage_record"', '[1]\n"a"\n{"type":"token_usage_record"}\n'],
)
def test_what_is_no_transcript_tells_nothing(tmp_path, text):
    path = tmp_path / "rollout.jsonl"
    path.write_text(text)
    assert spent("codex", str(path)) is None
    assert spent("codex", str(tmp_path / "none")) is None


def test_the_files_of_a_patch_are_what_it_is_about():
    found = event("PreToolUse-apply_patch-v2")
    assert (found.kind, found.subjects) == ("edit", ("b.txt",))


def run(command):
    payload = json.loads((SAMPLES / "PreToolUse-Bash.json").read_text())
    found = read_event(CODEX, {**payload, "tool_input": {"command": command}})
    return found.kind, found.subjects


@pytest.mark.parametrize(
    "command",
    [
        "cat {}",
        "sed -n '1,80p' {}",
        "sed -n 1,9p {}",
        "nl -ba {}",
        "head -n 20 {}",
        "tail -5 '{}'",
        "cat {} | head -3",
    ],
)
def test_a_command_that_reads_a_file_is_a_look_at_it(command):
    assert run(command.format("src/app-2.py")) == ("read", ("src/app-2.py",))


@pytest.mark.parametrize(
    "command",
    [
        "rm a",
        "cat a > b",
        "cat a b",
        "cat a && rm b",
        "cat a | sh",
        "cat a | tee b",
        "git push\ncat a",
        "cat a\nrm b",
        "cat\n./a",
    ],
)
def test_any_other_command_is_a_run(command):
    assert run(command) == ("run", ())


# -- its installation ------------------------------------------------------------------------------


def target(tmp_path, user=False):
    folder = tmp_path / "it's mine/plugins"
    fields = {
        "project": str(tmp_path),
        "home": str(tmp_path),
        "folder": str(folder),
        "env": {"PATH": str(tmp_path)},
    }
    package = str(Path(facts.FOLDER).parent)
    return Target(
        "codex",
        root=str(tmp_path / "memory"),
        user=user,
        python=sys.executable,
        package=package,
        **fields,
    )


def test_every_event_has_a_hook_with_the_limit_of_its_cap(tmp_path):
    made = codex.hooks(target(tmp_path))
    assert made.keys() == CODEX.events.keys()
    for name, (group,) in made.items():
        (hook,) = group["hooks"]
        assert shlex.split(hook["command"]) == [target(tmp_path).hook]
        cap, limit = CODEX.events[name].cap, hook.get("additionalContextLimit", 2_500)
        assert cap == 0 or cap == limit * 4  # a limit is in tokens, of four bytes each
        assert hook["timeout"] <= (3 if name == "SessionEnd" else 10)


@pytest.mark.parametrize("user", [True, False])
def test_its_tables_are_toml_whatever_the_folder_is_called(tmp_path, user):
    (block,) = [
        change for change in codex.plan(target(tmp_path, user)) if isinstance(change, Block)
    ]
    assert tomllib.loads(block.text)["mcp_servers"]["synapse"]["command"] == target(tmp_path).mcp
    assert block.path == str(tmp_path / ".codex/config.toml")


def test_the_doctor_says_where_shells_may_not_write(tmp_path):
    away = target(tmp_path)._replace(root="/elsewhere/memory")
    (finding,) = codex.examine(away)
    assert (finding.check, finding.verdict) == ("shells", "warn")
    assert '"/elsewhere/memory/journal"' in finding.mend
    assert '"/elsewhere/memory"' not in finding.mend
    assert "agents" not in finding.mend
    config = tmp_path / ".codex/config.toml"
    config.parent.mkdir()
    config.write_text('[sandbox_workspace_write]\nwritable_roots = ["/elsewhere"]\n')
    assert [finding.verdict for finding in codex.examine(away)] == ["ok"]


# -- its wakes -------------------------------------------------------------------------------------


def queue(tmp_path, code):
    """Stands in the place of Codex: keeps its arguments, and ends with this code."""
    program = tmp_path / "codex"
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {tmp_path}/given\nexit {code}\n')
    program.chmod(0o755)
    return {"PATH": f"{tmp_path}:/usr/bin:/bin", "HOME": str(tmp_path)}


@pytest.mark.parametrize("code", [0, 1])
def test_a_wake_is_queued_word_by_word(tmp_path, code):
    env = queue(tmp_path, code)
    assert wakes_codex.wake(SESSION, '--thread "$HOME"', str(tmp_path), env) == (code == 0)
    assert (tmp_path / "given").read_text().splitlines() == [
        "queue",
        f"--thread={SESSION}",
        '--message=--thread "$HOME"',
    ]


def test_without_codex_nobody_is_woken(tmp_path):
    assert not wakes_codex.wake(SESSION, "Wake.", str(tmp_path), {"PATH": str(tmp_path)})


def test_no_session_is_woken_that_nobody_would_see(tmp_path):
    env, waits = queue(tmp_path, 0), "import sys; print(flush=True); sys.stdin.read()"
    for words, woken in (
        (["exec"], False),
        (["app-server", wakes_codex.SERVER], False),
        (["--no-daemon"], True),
    ):
        with subprocess.Popen([sys.executable, "-c", waits, *words], stdin=-1, stdout=-1) as client:
            client.stdout.readline()  # it is no copy of this process any more
            assert wakes_codex.wake(SESSION, "Wake.", str(tmp_path), env, client.pid) == woken
            client.communicate()
    assert not wakes_codex.wake(SESSION, "Wake.", str(tmp_path), env, client.pid)
