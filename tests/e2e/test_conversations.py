"""Conversations of real clients, one after the other: sessions in a row, sub-agents of one type,
contexts that are emptied. Each is given what is critical and what was decided, and its view and its
tools are of one agent.
"""

import json

import pytest

import synapse
from orchestrator.engines.scripted import Move
from orchestrator.runs.records import Runs
from synapse import Agent
from tests.e2e import test_claude_plugin as claude_code
from tests.e2e import test_codex_plugin as codex_exec
from tests.e2e import test_gemini_plugin as gemini_cli
from tests.e2e.terminal import Terminal
from tests.e2e.test_codex_window import Window
from tests.model_server import ModelServer

RULE = "Call /v2/users, never /v1/users."
DECIDED = tuple(
    f"Decided: the {name} page uses nav {n}."
    for n, name in enumerate(("home", "about", "jobs", "press"))
)
ALL = (RULE, *DECIDED)
EMPTIED = ("TASK-COMPACT", "TASK-CLEAR")
PARTS = ("Look for the first part", "Find out about the second")


def given(text):
    """Return which of the entries stand in what a model was sent, once each."""
    return [entry for entry in ALL if text.count(entry) == 1]


def said_by_user(seen):
    return "\n".join(m.text for m in seen.messages if m.role == "user")


def decide(write):
    write(RULE, priority="critical")
    for text in DECIDED:
        write(text, priority="important")


# -- Claude Code -----------------------------------------------------------------------------------


@pytest.fixture
def project(claude, tmp_path):
    project = claude_code.Project(claude, tmp_path.resolve())
    project.orchestrator("install", "claude-code")
    with synapse.open(project.root) as memory:
        memory.register(Agent("boss", "project-lead", read=("*",), write=("*",)))
    decide(project.write)
    return project


def test_three_sessions_and_two_sub_agents_of_a_type_are_each_told(project):
    def script(seen):
        if "TASK-1: go on" in said_by_user(seen) and seen.turn < 2:
            return claude_code.agent(PARTS[seen.turn])
        return "It is done."

    with ModelServer(script) as server:
        for session in range(3):
            project.ask(server.url, f"TASK-{session}: go on")
        for task in (*(f"TASK-{session}: go on" for session in range(3)), *PARTS):
            assert given(claude_code.requests(server, task)[0].text) == [*ALL], task
        project.ask(server.url, "--continue", "TASK-3: and then")
        assert given(claude_code.requests(server, "TASK-2: go on")[-1].text) == [*ALL]
        assert "TASK-3: and then" in str(server.journal[-1].body["messages"])
    agents = [run.agent for run in claude_code.runs(project)]
    assert sorted(agents) == [*["engineer"] * 2, *["lead"] * 4]


@pytest.mark.soak
def test_a_window_that_is_compacted_and_cleared_is_told_again(project):
    """The client compacts by an agent of its own, which leaves nothing; after `/clear` the tools go
    on as the agent whose view it is.
    """
    tool = "mcp__plugin_synapse_synapse__append"
    note = {"namespace": "decisions/nav", "body": "The nav is dark."}

    def script(seen):
        if "TASK-CLEAR" in said_by_user(seen) and seen.turn < 2:
            select = ("ToolSearch", {"query": f"select:{tool}"})
            return Move("", ((select, (tool, note))[seen.turn],))
        return "<summary>It was said.</summary>"

    with ModelServer(script) as server:
        terminal = Terminal(project.command(), str(project.folder), project.env(server.url))

        def answered(task):
            return lambda: (
                task in str([taken.body for taken in server.journal]) and claude_code.idle(project)
            )

        try:
            assert terminal.wait(lambda: "forshortcuts" in terminal.text)
            terminal.say("TASK-MAIN: hello", answered("TASK-MAIN"))
            terminal.say("/compact", lambda: "ompacted" in terminal.text)
            terminal.say("TASK-COMPACT: go on", answered("TASK-COMPACT"))
            terminal.say("/clear", lambda: "SessionEnd" in fired(project))
            terminal.say("TASK-CLEAR: note it", lambda: written(project, "The nav is dark."))
        finally:
            terminal.close()
        for task in ("TASK-MAIN", *EMPTIED):
            sent = next(
                str(taken.body["messages"])
                for taken in server.journal
                if task in str(taken.body["messages"][-1])
            )
            assert given(sent) == [*ALL], task
            assert "You are `lead` " in sent, task
    (entry,) = written(project, "The nav is dark.")
    found = {run.id: run for run in claude_code.runs(project)}
    assert {run.agent for run in found.values()} == {"lead"}
    assert len(found) == 2
    assert entry.author == "lead"
    assert found[entry.run].task.text.startswith("TASK-CLEAR")
    assert not claude_code.entries(project, "status/*"), "the summary is nobody's result"


def fired(project):
    sessions = claude_code.state.stored_sessions(project.root)
    return [name for _, session in sessions for name in session.fired]


def written(project, body):
    return [entry for entry in claude_code.entries(project, "decisions/*") if entry.body == body]


# -- Codex -----------------------------------------------------------------------------------------


@pytest.mark.soak
@pytest.mark.parametrize("model", codex_exec.MODELS)
def test_three_sessions_of_codex_and_two_sub_agents_are_each_told(codex_project, model):
    codex = codex_project(codex_exec.leads(lambda seen: "It is found."))
    decide(lambda text, **fields: codex.write("decisions/nav", text, **fields))
    for session in range(3):
        codex.server.journal.clear()
        codex.codex(model)
        firsts = {
            codex_exec.texts(body)
            for body in codex.requests
            if not any(item.get("type") == "function_call" for item in body["input"])
        }
        assert len(firsts) >= 2, "the main conversation, and its sub-agent"
        assert [given(text) for text in firsts] == [[*ALL]] * len(firsts), session


@pytest.mark.soak
def test_a_window_of_codex_that_is_compacted_and_cleared_is_told_again(codex_project):
    codex = codex_project(lambda seen: f"Said after {seen.turn}.")
    decide(lambda text, **fields: codex.write("decisions/nav", text, **fields))
    window = Window(codex, "--no-daemon", "--dangerously-bypass-hook-trust")

    def sent(task):
        """Return what the model was sent with a text of its user; another request asks for a title
        of the session.
        """
        texts = [json.dumps(body["input"]) for body in codex.requests]
        return [text for text in texts if task in text and "punctuation" not in text]

    try:
        window.until(lambda _: False, 3)
        for command, task in ((None, "MAIN-1"), *zip(("/compact", "/clear"), EMPTIED, strict=True)):
            if command:
                window.type(command)
                window.until(lambda _: False, 8)
            window.type(f"{task}: go on")
            assert window.until(lambda _, task=task: sent(task)), window.text()
            window.until(lambda _: False, 2)
            assert given(sent(task)[0]) == [*ALL], task
            assert "You are `lead` " in sent(task)[0], task
    finally:
        window.close()
    assert [run["agent"] for run in codex.runs()] == ["lead", "lead"]


# -- Gemini CLI ------------------------------------------------------------------------------------


@pytest.fixture
def gemini(installed, tmp_path):
    project = gemini_cli.Project(installed, tmp_path, rules=())
    project.orchestrator("install", "gemini")
    decide(project.write)
    return project


@pytest.mark.soak
def test_three_sessions_of_gemini_and_two_sub_agents_are_each_told(gemini):
    for session in range(3):
        found = gemini_cli.completes("The rate is 8 now.")
        calls = (gemini_cli.SPAWN, gemini_cli.SPAWN) if session == 1 else ()
        requests = gemini.gemini(gemini_cli.steps(*calls, child=(found,)))
        firsts = [text for text in requests if "functionCall" not in text]
        assert len(firsts) == (3 if session == 1 else 1)
        assert [given(text) for text in firsts] == [[*ALL]] * len(firsts), session


class GeminiWindow:
    """An interactive session of Gemini, and what the model was sent."""

    def __init__(self, gemini, server):
        env = {
            "HOME": str(gemini.home),
            "CI": "1",
            "PATH": gemini.path,
            "GEMINI_API_KEY": "any",
            "GOOGLE_GEMINI_BASE_URL": server.url,
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
            "TERM": "xterm-256color",
        }
        words = ["gemini", "--model", "gemini-2.5-flash", "--yolo"]
        self.server = server
        self.terminal = Terminal(words, str(gemini.work), env)
        assert self.terminal.wait(lambda: "Typeyourmessage" in self.terminal.text)
        self.terminal.wait(lambda: False, 3)

    def say(self, text, seconds):
        self.terminal.type(text)
        self.terminal.wait(lambda: False, 2)
        self.terminal.type("\r")
        self.terminal.wait(lambda: False, seconds)

    def sent(self, task):
        """Return the first request that answers what its user said."""
        return next(
            text
            for taken in list(self.server.journal)
            if task in (text := str(taken.body.get("contents")))
            and "state_snapshot> based on" not in text
        )


def compresses(seen):
    """Answer as a model that also writes the client's summaries."""
    if "state_snapshot" in seen.messages[-1].text:
        return "<state_snapshot>It was said.</state_snapshot>"
    return f"Said {seen.turn}: " + " ".join(str(n * 7_919 % 997) for n in range(99))


@pytest.mark.soak
def test_a_window_of_gemini_that_is_compressed_and_cleared_is_told_again(gemini):
    with ModelServer(compresses) as server:
        window = GeminiWindow(gemini, server)
        try:
            for command, task in (
                (None, "MAIN-1"),
                *zip(("/compress", "/clear"), EMPTIED, strict=True),
            ):
                if command:
                    window.say(command, 8)
                window.say(f"{task}: go on", 5)
                assert given(window.sent(task)) == [*ALL], task
                assert "You are `lead` " in window.sent(task), task
        finally:
            window.terminal.close()
    with synapse.open(str(gemini.root)) as memory:
        assert [run.agent for run in Runs(memory.store).all()] == ["lead", "lead"]


@pytest.mark.soak
def test_gemini_that_compresses_by_itself_is_told_again_with_the_next_prompt(gemini):
    """Here it does so with each prompt, before it asks the model."""
    path = gemini.home / ".gemini/settings.json"
    settings = json.loads(path.read_text())
    settings["model"] = {"compressionThreshold": 0.000001}
    path.write_text(json.dumps(settings))
    with ModelServer(compresses) as server:
        window = GeminiWindow(gemini, server)
        try:
            for task, entries in (("MAIN-1", ALL), ("MAIN-2", ()), ("MAIN-3", ALL)):
                window.say(f"{task}: go on", 8)
                assert given(window.sent(task)) == [*entries], task
        finally:
            window.terminal.close()
