"""Claude Code with the plugin, as its user runs it, against the scripted model server: what reaches
the model, what is written into the memory, what wakes a session, and that the client goes on
whatever happens.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import NamedTuple

import pytest

import synapse
from orchestrator.engines.scripted import Move
from orchestrator.plugin import facts
from orchestrator.plugin.install import record
from orchestrator.plugin.sessions import state
from orchestrator.plugin.transcripts.transcript import spent
from orchestrator.runs.records import Runs
from synapse import Agent
from tests.e2e.terminal import Terminal
from tests.model_server import ModelServer

KEY = "sk-any-000000000000000000000000000000"
MODEL = "claude-sonnet-4-5"
STREAM = ("--input-format", "stream-json", "--output-format", "stream-json", "--verbose")
RULE = "Call /v2/users, never /v1/users."
FOUND = "parser.py reads the whole file at once: mind the memory."
NEWS = "Stop using the staging database: it is being moved."
# "1 monitor" below the prompt, less the letter that may stand there already: only changes are drawn
MONITOR = "nitor"


class Project:
    """A repository with the plugin, the home of its user, and the memory's root."""

    def __init__(self, claude, base):
        self.claude, self.base = claude, base
        self.home, self.folder = base / "home", base / "work"
        for folder in (self.home, self.folder):
            folder.mkdir()
        subprocess.run(["git", "init", "-q", str(self.folder)], check=True)
        (self.folder / "parser.py").write_text("print('parsed')\n")
        # What the client keeps once its user has begun, and said that the folder is trusted.
        state = {
            "hasCompletedOnboarding": True,
            "theme": "dark",
            "customApiKeyResponses": {"approved": [KEY[-20:]], "rejected": []},
            "projects": {str(self.folder): {"hasTrustDialogAccepted": True}},
        }
        (self.home / ".claude.json").write_text(json.dumps(state))

    @property
    def root(self):
        return str(self.folder / "shared-memory")

    @property
    def settings(self):
        return self.folder / ".claude/settings.local.json"

    def env(self, url="http://127.0.0.1:9"):
        quiet = ("TELEMETRY", "ERROR_REPORTING", "AUTOUPDATER")
        return {
            "PATH": os.pathsep.join((str(self.claude.parent), os.environ["PATH"])),
            "HOME": str(self.home),
            "SYNAPSE_HOME": os.environ["SYNAPSE_HOME"],  # as this process has it
            "CI": "1",
            "TERM": "xterm-256color",
            "ANTHROPIC_BASE_URL": url,
            "ANTHROPIC_API_KEY": KEY,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            **{f"DISABLE_{name}": "1" for name in quiet},
        }

    def orchestrator(self, *words):
        """Run the command line; what it printed."""
        command = [sys.executable, "-m", "orchestrator", *words]
        done = subprocess.run(
            command, cwd=self.folder, env=self.env(), capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def command(self, *words):
        allowed = ("--allowedTools", "Agent,Bash,Edit,Read,ToolSearch,mcp__plugin_synapse_synapse")
        return [str(self.claude), *words, "--model", MODEL, *allowed]

    def ask(self, url, *words, seconds=100):
        """Run one question; what the client printed."""
        command = self.command("-p", *words)
        given = {"cwd": self.folder, "env": self.env(url), "stdin": subprocess.DEVNULL}
        done = subprocess.run(command, **given, capture_output=True, text=True, timeout=seconds)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def write(self, text, **fields):
        """Write an entry as another process would, by the command line."""
        options = [f"--{name}={value}" for name, value in fields.items()]
        self.synapse("write", "--from=boss", "--namespace=decisions/api", *options, text)

    def synapse(self, *words):
        command = [sys.executable, "-m", "synapse", "--root", self.root, *words]
        done = subprocess.run(command, env=self.env(), capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture
def project(claude, tmp_path):
    project = Project(claude, tmp_path.resolve())
    project.orchestrator("install", "claude-code")
    with synapse.open(project.root) as memory:
        memory.register(Agent("boss", "project-lead", read=("*",), write=("*",)))
    project.write(RULE, priority="critical")
    return project


@pytest.fixture
def serve():
    """Starts model servers, and ends them."""
    servers = []

    def started(script, **options):
        servers.append(ModelServer(script, **options).start())
        return servers[-1]

    yield started
    for server in servers:
        server.stop()


class Request(NamedTuple):
    """One request as the model got it: what it was asked for, and all of its text."""

    texts: tuple[str, ...]
    answered: tuple[str, ...]

    @property
    def text(self):
        return "\n".join((*self.texts, *self.answered))


def requests(server, containing):
    """Return the requests whose first message holds a text of the task."""
    chosen = []
    for taken in list(server.journal):
        messages = taken.body.get("messages", [])
        parts = [part for message in messages for part in parts_of(message["content"])]
        first = "".join(part.get("text", "") for part in parts_of(messages[0]["content"]))
        if containing in first:
            texts = tuple(part.get("text", "") for part in parts if part["type"] == "text")
            results = tuple(
                json.dumps(part["content"]) for part in parts if part["type"] == "tool_result"
            )
            chosen.append(Request(texts, results))
    return chosen


def parts_of(content):
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def asked(seen):
    """Return the task of a conversation, MAIN or the letter of a sub-agent's."""
    text = "\n".join(message.text for message in seen.messages if message.role == "user")
    return next((task for task in ("TASK-MAIN", "TASK-A", "TASK-B") if task in text), "")


def agent(prompt, type="general-purpose"):
    arguments = {
        "description": "a part",
        "prompt": prompt,
        "subagent_type": type,
        "run_in_background": False,
    }
    return Move("", (("Agent", arguments),))


def bash(command):
    return Move("", (("Bash", {"command": command, "description": "run it"}),))


def eventually(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.05)
    return condition()


def entries(project, namespace):
    with synapse.open(project.root) as memory:
        return memory.as_agent("boss").read(namespace=namespace).entries


# -- what is installed -----------------------------------------------------------------------------


def plugin_folder(project):
    return record.plugin_folder(str(project.root), "claude-code", {}, str(project.home))


def test_the_client_itself_finds_the_plugin_valid(project):
    folder = plugin_folder(project)
    command = [str(project.claude), "plugin", "validate", folder]
    done = subprocess.run(command, env=project.env(), capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout
    assert "Validation passed" in done.stdout
    assert "error" not in done.stdout.lower()


def test_the_version_is_the_one_that_the_facts_are_of(project):
    done = subprocess.run(
        [str(project.claude), "--version"], env=project.env(), capture_output=True, text=True
    )
    assert facts.load("claude-code").verified in done.stdout


@pytest.mark.soak
def test_a_session_loads_all_of_the_plugin_with_no_question(project, serve):
    server = serve(lambda seen: "Done.")
    output = project.ask(server.url, "hello", "--output-format", "stream-json", "--verbose")
    init = next(json.loads(line) for line in output.splitlines() if '"init"' in line)
    assert "synapse" in [plugin["name"] for plugin in init["plugins"]]
    assert not init.get("plugin_errors")
    assert "synapse:engineer" in init["agents"]
    assert {"synapse:status", "synapse:blockers"} <= set(init["slash_commands"])
    statuses = {server["name"]: server["status"] for server in init["mcp_servers"]}
    assert statuses["plugin:synapse:synapse"] in ("pending", "connected")


@pytest.mark.soak
def test_the_commands_show_the_memory(project, serve):
    server = serve(lambda seen: "Done.")
    project.ask(server.url, "/synapse:status")
    text = str(server.journal[0].body["messages"])
    assert re.search(r"lead-[0-9a-f]{10} +running", text)
    assert "boss wrote" in text
    assert "synapse:status" not in str(server.journal[0].body.get("system"))


@pytest.mark.soak
def test_shells_of_a_session_have_the_command_line(project, serve):
    server = serve(lambda seen: "Done." if seen.turn else bash("synapse where"))
    project.ask(server.url, "TASK-MAIN")
    assert project.root in requests(server, "TASK-MAIN")[-1].answered[0]


def test_after_uninstall_the_client_is_as_before(claude, tmp_path, serve):
    project = Project(claude, tmp_path.resolve())
    project.settings.parent.mkdir()
    own = '{ "model":"claude-sonnet-4-5",   "env": {"A": "1"} }'
    project.settings.write_text(own)
    server = serve(lambda seen: "Done.")
    project.orchestrator("install", "claude-code")
    project.ask(server.url, "hello")
    assert len(list(runs(project))) == 1
    project.orchestrator("uninstall", "claude-code")
    assert project.settings.read_text() == own
    known = project.home / ".claude/plugins/known_marketplaces.json"
    assert "synapse" not in known.read_text()
    assert not os.path.exists(plugin_folder(project))
    project.ask(server.url, "hello again")
    assert len(list(runs(project))) == 1
    assert "hook additional context" not in str(server.journal[-1].body)


def runs(project):
    with synapse.open(project.root) as memory:
        yield from Runs(memory.store).all()


# -- a session with sub-agents ---------------------------------------------------------


@pytest.fixture(scope="module")
def worked(claude, tmp_path_factory):
    """A session whose two sub-agents did their parts: the project, and what the model was sent."""
    project = Project(claude, tmp_path_factory.mktemp("worked").resolve())
    project.orchestrator("install", "claude-code")
    with synapse.open(project.root) as memory:
        memory.register(Agent("boss", "project-lead", read=("*",), write=("*",)))
    project.write(RULE, priority="critical")
    project.write(FOUND)

    def script(seen):
        task = asked(seen)
        if task == "TASK-A":
            if seen.turn == 0:
                return Move("", (("Read", {"file_path": str(project.folder / "parser.py")}),))
            if seen.turn == 1:
                # by another process, while this agent is at work
                project.write(NEWS, priority="critical")
                return bash("echo running")
            return "The parser works with /v2/users; checked by running it."
        if task == "TASK-B":
            return "Blocked: which port does the gateway listen on?"
        if task == "TASK-MAIN" and seen.turn < 2:
            return agent(("TASK-A: mend the parser", "TASK-B: find the gateway's port")[seen.turn])
        return "Both parts are done."

    with ModelServer(script) as server:
        output = project.ask(server.url, "TASK-MAIN: mend it all", "--output-format", "json")
        return project, server, json.loads(output)


def test_the_view_is_in_the_first_request_of_a_session_and_of_each_sub_agent(worked):
    _, server, result = worked
    assert result["result"] == "Both parts are done."
    for task in ("TASK-MAIN", "TASK-A", "TASK-B"):
        first = requests(server, task)[0]
        assert first.text.count(RULE) == 1, task
        assert "shared memory" in first.text


def test_what_another_agent_wrote_of_a_file_is_told_before_it_is_read(worked):
    _, server, _ = worked
    before, after = requests(server, "TASK-A")[:2]
    known = FOUND in before.text
    assert known or "PreToolUse:Read hook additional context" in after.text
    assert after.text.count(FOUND) == 1


def test_a_critical_that_another_process_writes_reaches_a_running_sub_agent(worked):
    _, server, _ = worked
    _, before, after = requests(server, "TASK-A")[:3]
    assert NEWS not in before.text
    assert after.text.count(NEWS) == 1
    assert "PostToolUse:Bash hook additional context" in after.text


def run_of(project, entry):
    """Return the run that an entry came of. The client does not wait for its last hooks."""
    until = time.monotonic() + 20
    while True:
        for run in runs(project):
            if run.fields.get("entry") == entry.id:
                return run
        assert time.monotonic() < until, "no run has this entry"
        time.sleep(0.1)


def test_the_completion_is_written_with_its_usage(worked):
    project, _, _ = worked
    entry = next(
        entry for entry in entries(project, "status/*") if "The parser works" in entry.body
    )
    assert entry.author == "engineer"
    run = run_of(project, entry)
    assert (run.state, run.status) == ("ended", "done")
    transcript = next(Path(project.home).glob(".claude/projects/*/*/subagents/*.jsonl"))
    parts = [spent("claude-code", str(path)) for path in transcript.parent.glob("*.jsonl")]
    assert run.fields["usage"]["input_tokens"] in [part.usage.input_tokens for part in parts]
    assert run.fields["usage"]["output_tokens"] > 0
    assert (run.fields["usage"]["estimated"], run.fields["model"], run.fields["turns"]) == (
        False,
        MODEL,
        3,
    )


def test_a_last_message_that_says_blocked_becomes_a_blocker(worked):
    project, _, _ = worked
    entry = next(iter(entries(project, "blockers/*")))
    assert "which port does the gateway listen on" in entry.body
    assert (
        next(run.status for run in runs(project) if run.fields.get("entry") == entry.id)
        == "blocked"
    )


def test_the_session_is_a_run_that_has_ended_with_all_that_it_used(worked):
    project, _, result = worked
    assert eventually(lambda: {run.state for run in runs(project)} == {"ended"})
    main = next(run for run in runs(project) if run.parent is None)
    assert (main.agent, main.state, main.fields["engine"]) == ("lead", "ended", "claude-code")
    used, said = main.fields["usage"], result["usage"]
    sent = sum(said[f"{kind}input_tokens"] for kind in ("", "cache_creation_", "cache_read_"))
    assert (used["input_tokens"], used["output_tokens"]) == (sent, said["output_tokens"])


def test_nothing_went_wrong_and_nobody_was_left_behind(worked):
    project, _, _ = worked
    assert eventually(lambda: processes(project) == [])
    assert not os.path.exists(f"{project.root}/runs/.hooks.log")


def processes(project):
    """Return the command lines of what the plugin started and that still runs."""
    lines = subprocess.run(
        ["ps", "-eo", "args"], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    return [
        line
        for line in lines
        if str(project.base) in line and "/claude " not in line.partition("-p")[0]
    ]


def test_a_prompt_is_given_what_its_words_find_and_one_that_asks_nothing_is_not(project, serve):
    """Beside the view of the start, which has no more than a line of each note."""
    note = "Uploads above 8 MB are cut by the proxy: client_max_body_size is its limit."
    project.write(note, priority="info")
    for n in range(30):
        project.write(f"Decision {n} is about colours and fonts.", priority="info")
    server = serve(lambda seen: "Done.")
    for prompt, times in (("Why do big uploads end early?", 1), ("yes, thanks", 0)):
        project.ask(server.url, prompt)
        text = requests(server, prompt)[0].text
        assert text.count(note) == times
        assert text.count("From the shared memory:") == times


# -- wakes -----------------------------------------------------------------------------------------


def idle(project):
    """Tell whether the newest event of the session was the end of a turn."""
    known = [session for _, session in state.stored_sessions(project.root)]
    return bool(known) and max(known[0].fired, key=known[0].fired.get) == "Stop"


class Stream:
    """A session that a program talks to over the client's standard streams."""

    def __init__(self, project, url):
        command = project.command("-p", *STREAM)
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        self.process = subprocess.Popen(
            command, cwd=project.folder, env=project.env(url), text=True, **pipes
        )
        self.results = []
        self.reader = threading.Thread(target=self._read)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            event = json.loads(line)
            if event["type"] == "result":
                self.results.append(event["result"])

    def say(self, text):
        message = {"type": "user", "message": {"role": "user", "content": text}}
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()

    def close(self, seconds):
        """Hang up; the exit code."""
        self.process.stdin.close()
        code = self.process.wait(seconds)
        self.reader.join(10)
        self.process.stdout.close()
        return code


def test_a_critical_wakes_an_idle_session_that_a_program_talks_to(project, serve):
    server = serve(lambda seen: f"Said after {seen.turn} replies.")
    session = Stream(project, server.url)
    try:
        session.say("TASK-MAIN: wait")
        assert eventually(lambda: session.results and idle(project))
        project.write("The weather is fine.")
        project.write(NEWS, priority="critical")
        assert eventually(lambda: len(session.results) == 2)
        last = requests(server, "TASK-MAIN")[-1]
        assert last.text.count(NEWS) == 1
        assert "UserPromptSubmit hook additional context" in last.text
        assert "The weather is fine." not in last.text
        # the second wake of the session
        project.write("And back up what you have.", priority="critical")
        assert eventually(lambda: len(session.results) == 3)
        assert requests(server, "TASK-MAIN")[-1].text.count(NEWS) == 1
    finally:
        # the client waits thirty seconds for a hook that does not end
        assert session.close(20) == 0
    assert eventually(lambda: processes(project) == [])
    assert len(server.journal) == 3


def test_what_a_person_says_is_heard_in_mid_turn_and_wakes_who_waits(project, serve):
    printed = []

    def script(seen):
        if asked(seen) == "TASK-A" and not seen.turn:
            printed.append(project.orchestrator("say", NEWS))
            return bash("true")
        return "Done."

    server = serve(script)
    session = Stream(project, server.url)
    command = [sys.executable, "-m", "orchestrator", "--root", project.root]
    with open(project.base / "watched", "w+") as seen:
        watching = subprocess.Popen([*command, "ps", "--watch"], stdout=seen)
        try:
            session.say("TASK-MAIN: wait")
            assert eventually(lambda: session.results and idle(project))
            project.ask(server.url, "TASK-A: work")
            assert eventually(lambda: len(session.results) == 2)
        finally:
            assert session.close(20) == 0
            watching.terminate()
            assert watching.wait(20) == 0
        seen.seek(0)
        watched = seen.read()
    for words in ("asked  TASK-A: work", "does   Bash true", "said   Done."):
        assert f"  {words}\n" in watched
    assert "claude-code  waits for its user" in watched
    rows = [line.split(maxsplit=2) for line in printed[0].splitlines()[1:4]]
    assert rows == [
        ["agent", "with", "hears it"],
        ["lead", "claude-code", "is woken"],
        ["lead-2", "claude-code", "at its next tool call"],
    ]
    assert "boss, engineer" in printed[0]
    assert [each.text.count(NEWS) for each in requests(server, "TASK-A")] == [0, 1]
    assert [each.text.count(NEWS) for each in requests(server, "TASK-MAIN")] == [0, 1]


def test_what_is_written_in_its_name_is_told_to_it_but_not_its_own_words(project, serve):
    """By a person in another shell; and by the session itself, in its own."""
    fields = "--from lead --namespace status/work --priority critical"
    own = "We ship on Friday."

    def script(seen):
        if seen.turn == 0:
            project.synapse("write", *fields.split(), NEWS)
            return bash("true")
        if seen.turn == 1:
            return bash(f"synapse write {fields} '{own}'")
        return bash("true") if seen.turn == 2 else "Done."

    server = serve(script)
    project.ask(server.url, "TASK-MAIN: work")
    assert [entry.body for entry in entries(project, "status/work")][1:3] == [own, NEWS]
    first, *later = requests(server, "TASK-MAIN")
    assert NEWS not in first.text
    assert [each.text.count(NEWS) for each in later] == [1, 1, 1]
    assert [each.text.count(own) for each in later] == [0, 0, 0]


@pytest.mark.soak
def test_a_critical_wakes_an_idle_session_that_a_person_sits_before(project, serve):
    server = serve(lambda seen: f"Said after {seen.turn} replies.")
    terminal = Terminal(project.command(), str(project.folder), project.env(server.url))
    try:
        assert terminal.wait(lambda: MONITOR in terminal.text), terminal.text[-500:]
        terminal.type("TASK-MAIN: wait")
        assert terminal.wait(lambda: "TASK-MAIN" in terminal.text)
        terminal.type("\r")
        assert terminal.wait(lambda: len(server.journal) == 1 and idle(project))
        project.write("The weather is fine.")
        project.write(NEWS, priority="critical")
        assert terminal.wait(lambda: len(requests(server, "TASK-MAIN")) == 2), terminal.text[-500:]
        last = requests(server, "TASK-MAIN")[-1]
        assert last.text.count(NEWS) == 1
        assert "Monitor event" in last.text
        assert "The weather is fine." not in last.text
        terminal.kill()  # as hard as can be: nobody tells the monitor
        assert eventually(lambda: processes(project) == [])
    finally:
        terminal.close()


@pytest.mark.soak
def test_an_idle_session_costs_no_request_when_the_memory_is_taken_away(project, serve):
    server = serve(lambda seen: "Done.")
    terminal = Terminal(project.command(), str(project.folder), project.env(server.url))
    try:
        assert terminal.wait(lambda: MONITOR in terminal.text), terminal.text[-500:]
        assert eventually(lambda: processes(project))
        os.rename(project.root, project.base / "taken-away")
        assert not terminal.wait(lambda: server.journal, seconds=8), str(server.journal[0].body)[
            -3_000:
        ]
    finally:
        terminal.close()


# -- whatever happens ------------------------------------------------------------------------------


def gone(project):
    shutil.rmtree(project.root)


def no_workspace(project):
    plugin = f"{project.root}/runs/.plugins"
    for name in os.listdir(project.root):
        path = f"{project.root}/{name}"
        if name != "runs":
            shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)
    assert os.path.isdir(plugin)


def no_python(project):
    for name in ("hook", "mcp", "watch"):
        path = Path(f"{plugin_folder(project)}/bin/{name}")
        path.write_text(path.read_text().replace(sys.executable, "/nowhere/python"))


def torn(project):
    for path in Path(f"{project.root}/journal").glob("*.jsonl"):
        path.write_text("{torn")
    shutil.rmtree(f"{project.root}/.index")


@pytest.mark.parametrize(
    "harm",
    [
        gone,
        torn,
        *(pytest.param(harm, marks=pytest.mark.soak) for harm in (no_workspace, no_python)),
    ],
    ids=lambda harm: harm.__name__,
)
def test_the_client_goes_on_without_the_memory(project, serve, harm):
    harm(project)
    server = serve(lambda seen: "Done." if seen.turn else bash("echo it runs"))
    assert project.ask(server.url, "TASK-MAIN").strip() == "Done."
    last = requests(server, "TASK-MAIN")[-1]
    assert "it runs" in last.answered[0]
    assert "hook error" not in str(server.journal[-1].body)
    assert "Traceback" not in str(server.journal[-1].body)


# -- the memory's tools ----------------------------------------------------------------


def test_the_model_calls_the_memory_tools(project, serve):
    tool = "mcp__plugin_synapse_synapse__memory_search"

    def script(seen):
        if seen.turn == 0:
            return Move("", (("ToolSearch", {"query": f"select:{tool}", "max_results": 5}),))
        if seen.turn == 1:
            return Move("", ((tool, {"query": "users endpoint"}),))
        return "Done."

    server = serve(script)
    project.ask(server.url, "TASK-MAIN")
    assert "/v2/users" in requests(server, "TASK-MAIN")[-1].answered[-1]
