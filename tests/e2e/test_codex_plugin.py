"""Codex with the plugin, against a model server on loopback: what its agents are given and leave,
in both generations of its tools; its windows, its trust, its wakes; and that nothing of ours keeps
it from its work.
"""

import json
import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from orchestrator.engines.scripted import Move
from orchestrator.plugin import facts

pytestmark = pytest.mark.soak

PROGRAMS = Path(sys.executable).parent
# a model that it does not know is given the older tools
OLD, NEW = "gpt-5", "gpt-6.1-sol"
MODELS = (OLD, NEW)
UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
NOTE, GONE = "The login endpoint is /v2/login.", "STOP using /v1: it is gone."
PATIENCE = 90
MOUNT = 'mount --bind "$1" "$1" && mount -o remount,ro,bind "$1" && shift && exec "$@"'


# -- scripts ---------------------------------------------------------------------------------------


def is_child(seen):
    asked = [message.text for message in seen.messages if message.role == "user"]
    return any("CHILD" in text for text in asked) and not any("MAIN" in text for text in asked)


def call(seen, **calls):
    """The call of a tool in the form that this generation has for it: exec(name=arguments)."""
    names = [tool.name for tool in seen.tools]
    if "exec" not in names:
        return Move(
            "",
            tuple(
                (next(each for each in names if each.endswith(name)), calls[name]) for name in calls
            ),
        )
    lines = (f"text(await tools.{name}({json.dumps(calls[name])}))" for name in calls)
    return Move("", (("exec", {"input": ";".join(lines)}),))


def spawn(seen, text):
    names = [tool.name for tool in seen.tools]
    if "collaboration__spawn_agent" in names:
        asked = {"task_name": "reader", "message": text, "fork_turns": "none"}
        return Move("", (("collaboration__spawn_agent", asked),))
    return Move("", (("multi_agent_v1__spawn_agent", {"message": text}),))


def wait(seen):
    names = [tool.name for tool in seen.tools]
    if "collaboration__wait_agent" in names:
        return Move("", (("collaboration__wait_agent", {"timeout_ms": 20_000}),))
    child = UUID.search(seen.messages[-1].text)[0]
    return Move("", (("multi_agent_v1__wait_agent", {"targets": [child], "timeout_ms": 20_000}),))


def leads(child):
    """A lead that has a sub-agent do this, and then says so."""

    def script(seen):
        if is_child(seen):
            return child(seen)
        if seen.turn == 0:
            return spawn(seen, "CHILD: find the login endpoint")
        return wait(seen) if seen.turn == 1 else "The child is done."

    return script


def said(events):
    return [
        event["item"]["text"]
        for event in events
        if event.get("item", {}).get("type") == "agent_message"
    ]


def texts(body):
    """What a request says to the model, without its tools."""
    return json.dumps([item for item in body["input"] if item.get("type") != "additional_tools"])


def of_child(body):
    return "CHILD" in texts(body) and "MAIN" not in texts(body)


# -- what its agents are given, and leave ----------------------------------------------------------


def test_the_first_request_has_the_tools_of_the_memory(codex_project):
    codex = codex_project(lambda seen: "Done.")
    codex.codex(OLD)
    first, *_ = codex.requests
    names = json.dumps(first["tools"])
    assert all(name in names for name in ("memory_search", "report_blocker"))


@pytest.mark.parametrize("model", MODELS)
def test_main_and_sub_agent_start_with_their_views_and_leave_entries(codex_project, model):
    def child(seen):
        if seen.turn == 0:
            entry = {"namespace": "status/work", "body": "Half of the login is found."}
            prefix = "mcp__synapse__" if model == NEW else ""
            return call(
                seen, **{f"{prefix}memory_search": {"query": "login"}, f"{prefix}append": entry}
            )
        return "The login endpoint is at /v2/login, in auth.py."

    codex = codex_project(leads(child))
    codex.write("decisions/login", NOTE, priority="important")
    events = codex.codex(model)
    assert said(events)[-1] == "The child is done."
    main = next(body for body in codex.requests if not of_child(body))
    assert NOTE in texts(main)
    first, second = [body for body in codex.requests if of_child(body)][:2]
    assert NOTE in texts(first)
    # what the tool of the memory gave
    assert "decisions/login" in texts({"input": second["input"][len(first["input"]) :]})
    runs = {run["agent"]: run for run in codex.runs()}
    assert runs["engineer"]["parent"] == runs["lead"]["run"]
    assert all(run["usage"]["input_tokens"] > 1_000 for run in runs.values())
    written = {
        entry.body: entry.author for entry in codex.entries() if entry.namespace == "status/work"
    }
    # its own call of a tool of the memory
    assert written["Half of the login is found."] == "engineer"
    assert written["Done: The login endpoint is at /v2/login, in auth.py."] == "engineer"


@pytest.mark.parametrize("model", MODELS)
def test_a_critical_of_another_process_reaches_a_session_at_work(codex_project, model):
    def script(seen):
        if seen.turn == 0:
            codex.write("decisions/login", GONE, priority="critical")
        return call(seen, exec_command={"cmd": "true"}) if seen.turn < 2 else "Done."

    codex = codex_project(script)
    assert said(codex.codex(model)) == ["Done."]
    assert ["STOP using /v1" in texts(body) for body in codex.requests] == [False, True, True]
    assert all(texts(body).count("STOP using /v1") <= 1 for body in codex.requests)


def test_what_a_person_says_reaches_a_session_at_work(codex_project):
    printed = []

    def script(seen):
        if seen.turn == 0:
            printed.append(codex.run("orchestrator", "say", "STOP using /v1").stdout)
        return call(seen, exec_command={"cmd": "true"}) if seen.turn < 2 else "Done."

    codex = codex_project(script)
    codex.codex(NEW)
    assert "lead   codex  at its next tool call" in printed[0]
    assert [texts(body).count("STOP using /v1") for body in codex.requests] == [0, 1, 1]


@pytest.mark.parametrize("model", MODELS)
def test_a_critical_at_the_very_end_keeps_the_agent_going(codex_project, model):
    def script(seen):
        if seen.turn == 0:
            codex.write("decisions/login", GONE, priority="critical")
        return f"Reply {seen.turn}."

    codex = codex_project(script)
    assert said(codex.codex(model)) == ["Reply 0.", "Reply 1."]
    assert "STOP using /v1" in texts(codex.requests[-1])


@pytest.mark.parametrize("model", MODELS)
def test_a_blocker_of_a_sub_agent_is_written(codex_project, model):
    codex = codex_project(leads(lambda seen: "Blocked: there is no key for the login service."))
    codex.codex(model)
    (blocker,) = [entry for entry in codex.entries() if entry.namespace.startswith("blockers/")]
    assert "no key for the login service" in blocker.body
    assert blocker.priority == "critical"


@pytest.mark.parametrize("model", MODELS)
def test_before_a_call_it_is_told_what_is_for_it(codex_project, model):
    def script(seen):
        return (
            call(seen, exec_command={"cmd": "touch pushed # git push"})
            if seen.turn < 2
            else "Done."
        )

    codex = codex_project(script)
    codex.write("decisions/push", "Never push on a Friday.", when=("run git push",))
    codex.codex(model)
    first, second, *_ = codex.requests
    assert "Never push on a Friday" not in texts(first)
    assert "Never push on a Friday" in texts(second)
    assert "blocked by PreToolUse hook" in texts(second)
    assert (codex.work / "pushed").exists()  # asked again, it is done: it was told once


def test_before_it_reads_a_file_it_is_told_what_is_known_of_it(codex_project):
    def script(seen):
        if seen.turn == 0:
            codex.write("decisions/login", "auth.py is generated: never edit it.")
        return call(seen, exec_command={"cmd": "cat auth.py"}) if seen.turn < 2 else "Done."

    codex = codex_project(script)
    codex.codex(NEW)
    assert ["auth.py is generated" in texts(body) for body in codex.requests] == [False, True, True]
    assert texts(codex.requests[-1]).count("auth.py is generated") == 1


def test_two_agents_hear_that_they_edit_one_file(codex_project):
    patch = "*** Begin Patch\n*** Add File: {}.txt\n+hello\n*** End Patch\n"

    def script(seen):
        if is_child(seen):
            return (
                call(seen, apply_patch=patch.format("ab"[seen.turn])) if seen.turn < 2 else "Done."
            )
        steps = (
            lambda: call(seen, apply_patch=patch.format("a")),
            lambda: spawn(seen, "CHILD: go on"),
            lambda: wait(seen),
        )
        return steps[seen.turn]() if seen.turn < len(steps) else "Done."

    codex = codex_project(script)
    codex.codex(NEW)
    told = [
        "lead changed a.txt just now" in texts(body) for body in codex.requests if of_child(body)
    ]
    assert told == [False, True, True]
    assert (codex.work / "b.txt").read_text() == "hello\n"


# -- nothing of ours keeps it from its work --------------------------------------------------------


def looks(seen):
    return call(seen, exec_command={"cmd": "echo on"}) if seen.turn == 0 else "Done."


def broken_program(codex):
    Path(codex.target().hook).write_text("#!/bin/sh\necho '{no json'; exit 3\n")


def no_programs(codex):
    shutil.rmtree(codex.target().folder + "/bin")


def no_workspace(codex):
    shutil.rmtree(codex.root)


def broken_settings(codex):
    (codex.root / "synapse.yaml").write_text("{")


@pytest.mark.parametrize("harm", [broken_program, no_programs, no_workspace, broken_settings])
def test_codex_goes_on_without_us(codex_project, harm):
    codex = codex_project(looks)
    harm(codex)
    assert said(codex.codex(OLD)) == ["Done."]
    assert "on\\n" in texts(codex.requests[-1])


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting takes root")
def test_where_nothing_can_be_written_it_has_its_view(codex_project):
    codex = codex_project(looks)
    codex.write("decisions/login", NOTE, priority="important")
    codex.confined = ("unshare", "-m", "sh", "-c", MOUNT, "sh", str(codex.root))
    assert said(codex.codex(OLD)) == ["Done."]
    assert NOTE in texts(codex.requests[0])
    assert codex.runs() == []


@pytest.mark.parametrize("event", ["SessionStart", "UserPromptSubmit", "PostToolUse"])
def test_the_caps_of_the_facts_are_the_clients(codex_project, event):
    about = facts.load("codex").events[event]
    codex = codex_project(looks)
    hook = Path(codex.target().hook)
    for more, whole in ((0, True), (1, False)):
        text = "é" * (about.cap // 2) + "x" * more
        answer = {"hookSpecificOutput": {"hookEventName": event, "additionalContext": text}}
        (codex.work / "answer").write_text(json.dumps(answer))
        hook.write_text(
            f'#!/bin/sh\ngrep -q \'"hook_event_name":"{event}"\' && cat {codex.work}/answer\n'
        )
        codex.server.journal.clear()
        codex.codex(OLD)
        assert (json.dumps(text)[1:-1] in texts(codex.requests[-1])) == whole


def test_a_session_of_our_own_supervisor_is_left_alone(codex_project):
    codex = codex_project(lambda seen: "Done.")
    codex.write("decisions/login", NOTE, priority="important")
    codex.env |= {"SYNAPSE_RUN": "run-of-ours", "SYNAPSE_AGENT": "lead"}
    codex.codex(OLD)
    assert NOTE not in texts(codex.requests[0])


@pytest.mark.parametrize("words", [(), ("--user",)])
def test_its_configuration_is_as_it_was_after_uninstall(codex_project, words):
    codex = codex_project(lambda seen: "Done.", install=False)
    hooks = codex.codex_home / "hooks.json" if words else codex.work / ".codex/hooks.json"
    hooks.parent.mkdir(exist_ok=True)
    own = '{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "true # mine"}]}]}}'
    hooks.write_text(own)
    before = codex.config.read_text()
    codex.install(*words)
    codex.install(*words)
    assert "true # mine" in hooks.read_text()
    assert said(codex.codex(OLD)) == ["Done."]
    codex.run("orchestrator", "uninstall", "codex", *words)
    assert hooks.read_text() == own
    assert codex.config.read_text() == before
    assert not (codex.work / ".codex/config.toml").exists()
    assert said(codex.codex(OLD)) == ["Done."]


def test_the_version_is_the_one_that_the_facts_are_of(codex_project):
    codex = codex_project(looks, install=False)
    assert codex.run("codex", "--version").stdout.split()[-1] == facts.load("codex").verified
