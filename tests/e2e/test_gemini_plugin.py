"""Gemini CLI with our extension, installed as its users install it, against a model server on
loopback.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import synapse
from orchestrator.engines.scripted import Move
from orchestrator.plugin.install import record
from orchestrator.runs.records import Runs
from synapse import Agent
from tests.model_server import ModelServer

pytestmark = pytest.mark.soak

RULE = "Never push to main on a Friday."
SETTINGS = (
    '{"privacy": {"usageStatisticsEnabled": false}, "telemetry": {"enabled": false},\n'
    ' "general": {"disableAutoUpdate": true}, "security": {"auth": {"selectedType":'
    ' "gemini-api-key"}}}\n'
)
TIMEOUT = 120


class Project:
    """A folder with a workspace, in which Gemini CLI runs; its home, and what was asked of the
    model.
    """

    def __init__(self, installed, folder, rules=(RULE,)):
        self.home = folder / "home"
        self.work = folder / "shop"
        self.root = folder / "shop/shared-memory"
        self.path = os.pathsep.join((str(installed), os.environ["PATH"]))
        self.errors, self.bodies = "", []
        (self.home / ".gemini").mkdir(parents=True)
        (self.home / ".gemini/settings.json").write_text(SETTINGS)
        self.work.mkdir()
        (self.work / "src").mkdir()
        (self.work / "src/tariff.py").write_text("RATE = 7\n")
        with synapse.init(str(self.root)) as memory:
            memory.register(Agent("cto", read=("*",), write=("*",)))
            memory.register(Agent("lead", role="project-lead", read=("*",), write=("*",)))
            memory.register(Agent("engineer", read=("*",), write=("*",)))
            for rule in rules:
                memory.as_agent("cto").append(rule, "decisions/all", priority="critical")

    def orchestrator(self, *words):
        """Run a verb as the user would."""
        env = {"HOME": str(self.home), "CI": "1", "PATH": self.path}
        command = [sys.executable, "-m", "orchestrator", *words]
        done = subprocess.run(
            command, cwd=self.work, env=env, capture_output=True, text=True, timeout=TIMEOUT
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def write(self, body, namespace="decisions/all", **fields):
        """Write as somebody else, in a process of their own."""
        words = [f"--{name}={value}" for name, value in fields.items()]
        command = [sys.executable, "-m", "synapse", "write", "--namespace", namespace, *words, body]
        env = {**os.environ, "SYNAPSE_ROOT": str(self.root), "SYNAPSE_AGENT": "cto"}
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=TIMEOUT)
        assert done.returncode == 0, done.stderr

    def gemini(self, script, prompt="do the work"):
        """Return the texts of the requests that a run of the client makes."""
        with ModelServer(script) as server:
            env = {"HOME": str(self.home), "CI": "1", "PATH": self.path, "GEMINI_API_KEY": "any"}
            env |= {"GOOGLE_GEMINI_BASE_URL": server.url, "GEMINI_CLI_TRUST_WORKSPACE": "true"}
            words = ["gemini", "--model", "gemini-2.5-flash", "--yolo", "--prompt", prompt]
            with open(os.devnull) as nothing:
                done = subprocess.run(
                    words,
                    cwd=self.work,
                    env=env,
                    stdin=nothing,
                    capture_output=True,
                    text=True,
                    timeout=TIMEOUT,
                    start_new_session=True,
                )
            self.errors = done.stderr
            assert done.returncode == 0, done.stderr
            self.bodies = [taken.body for taken in server.journal]
            return [str(body.get("contents")) for body in self.bodies]

    def runs(self):
        """Return the runs of the workspace by their agents."""
        with synapse.open(str(self.root)) as memory:
            return {run.agent: run for run in Runs(memory.store).all()}

    def entries(self, namespace):
        with synapse.open(str(self.root)) as memory:
            return [
                entry.body for entry in memory.as_agent("cto").read(namespace=namespace).entries
            ]

    def record(self, run):
        with synapse.open(str(self.root)) as memory:
            return memory.store.index.current.run(run)


@pytest.fixture
def project(installed, tmp_path):
    project = Project(installed, tmp_path)
    project.orchestrator("install", "gemini")
    return project


def is_child(seen):
    return any(tool.name == "complete_task" for tool in seen.tools)


def steps(*calls, child=(), answer="All of it is done."):
    """Make a script: the calls of the main conversation in their order, and those of a
    sub-agent.
    """

    def script(seen):
        of = child if is_child(seen) else calls
        if seen.turn < len(of):
            call = of[seen.turn]
            return Move("", (call() if callable(call) else call,))
        return answer

    return script


def completes(text):
    return ("complete_task", {"result": {"response": text}})


SPAWN = ("invoke_agent", {"agent_name": "generalist", "prompt": "Raise the rate in tariff.py"})
NEW = {"file_path": "src/notes.py", "content": "# notes"}
READ = ("read_file", {"file_path": "src/tariff.py"})


def test_the_view_reaches_both_and_the_completion_is_written_with_its_usage(project):
    requests = project.gemini(steps(SPAWN, child=(READ, completes("The rate is 8 now."))))
    assert RULE in requests[0]
    child = next(
        text for text in requests if "Raise the rate" in text and "functionCall" not in text
    )
    assert RULE in child
    run = project.runs()["engineer"]
    record = project.record(run.id)
    assert (record["state"], record["status"], record["summary"]) == (
        "ended",
        "done",
        "The rate is 8 now.",
    )
    assert record["usage"]["input_tokens"] > 1_000
    assert record["model"]
    assert any("The rate is 8 now." in body for body in project.entries("status/*"))
    lead = project.record(project.runs()["lead"].id)
    assert (lead["state"], lead["engine"]) == ("ended", "gemini")
    assert lead["usage"]["input_tokens"] > record["usage"]["input_tokens"]


TEXT = "The file src/tariff.py has 3 functions; each of them has a test, and all pass."


def test_its_last_message_is_written_as_it_was(project):
    """Its own event gives the pieces of a streamed message, and some of them again."""
    project.gemini(steps(READ, ("write_file", NEW), answer=TEXT))
    assert project.entries("status/*") == [f"Done: {TEXT}"]


def test_a_critical_of_another_process_reaches_a_turn_that_is_under_way(project):
    def reads():
        project.write("Stop: the rate is frozen.", priority="critical")
        return READ

    requests = project.gemini(steps(reads))
    assert "the rate is frozen" not in requests[0]
    assert "the rate is frozen" in requests[1]


def test_what_a_person_says_reaches_a_turn_that_is_under_way(project):
    printed = []

    def reads():
        printed.append(project.orchestrator("say", "Stop: the rate is frozen."))
        return READ

    requests = project.gemini(steps(reads))
    assert "lead   gemini  at its next tool call" in printed[0]
    assert [text.count("the rate is frozen") for text in requests] == [0, 1]


def test_a_critical_at_the_end_of_a_turn_has_it_go_on(project):
    def script(seen):
        if seen.turn == 0:
            project.write("Stop: the rate is frozen.", priority="critical")
        return f"Said after {seen.turn} replies."

    requests = project.gemini(script)
    assert len(requests) == 2
    assert "the rate is frozen" in requests[1]


def test_a_blocker_of_a_subagent_is_written(project):
    project.gemini(steps(SPAWN, child=(completes("Blocked: there is no schema of tariffs."),)))
    assert any("there is no schema of tariffs" in body for body in project.entries("blockers/*"))
    assert project.record(project.runs()["engineer"].id)["status"] == "blocked"


def test_what_concerns_a_file_stands_behind_what_was_read(project):
    def reads():
        project.write("src/tariff.py is generated: edit tariff.toml.", "projects/shop")
        return READ

    requests = project.gemini(steps(reads))
    assert "edit tariff.toml" in requests[1]


def test_an_entry_for_the_moment_before_a_call_is_given_in_its_place(project):
    project.write(
        "Ask ops before a push.", "decisions/git", priority="important", when="run git push"
    )
    command = {"command": "git push; touch pushed"}
    requests = project.gemini(steps(("run_shell_command", command)))
    assert "Ask ops before a push." in requests[1]
    assert not (project.work / "pushed").exists()


def test_the_memory_tools_work(project):
    note = {"fact": "Tariffs round half up.", "scope": "agent"}

    def script(seen):
        name = next(
            (tool.name for tool in seen.tools if tool.name.endswith("memory_remember")), None
        )
        assert name, [tool.name for tool in seen.tools]
        return Move("", ((name, note),)) if seen.turn == 0 else "Noted."

    requests = project.gemini(script)
    assert "mcp_synapse_memory_remember" in requests[1]
    with synapse.open(str(project.root)) as memory:
        assert memory.as_agent("lead").search("tariffs round half up").hits


@pytest.mark.parametrize("harm", ["missing", "readonly", "gone python"])
def test_the_client_goes_on_without_us(project, harm):
    if harm == "missing":
        project.root.rename(project.root.with_name("elsewhere"))
    elif harm == "readonly":
        for folder, _, names in os.walk(project.root):
            for name in names:
                os.chmod(os.path.join(folder, name), 0o444)
            os.chmod(folder, 0o555)
    else:
        folder = record.plugin_folder(str(project.root), "gemini", {}, str(project.home))
        hook = Path(folder) / "bin/hook"
        hook.write_text(hook.read_text().replace("hook.py", "gone.py"))
    requests = project.gemini(steps(READ))
    assert len(requests) == 2
    assert "RATE = 7" in requests[1]
    assert "failed for event" not in project.errors


def test_an_installation_leaves_no_trace_when_it_is_taken_back(project):
    assert list((project.home / ".gemini/extensions").iterdir())
    project.orchestrator("uninstall", "gemini")
    assert not (project.home / ".gemini/extensions").exists()
    assert (project.home / ".gemini/settings.json").read_text() == SETTINGS
    requests = project.gemini(steps(READ))
    assert RULE not in str(requests)


def test_the_extension_is_valid_and_at_work_in_its_project_alone(project, tmp_path):
    folder = next(path for path in (project.home / ".gemini/extensions").iterdir() if path.is_dir())
    env = {"HOME": str(project.home), "CI": "1", "PATH": project.path}
    words = ["gemini", "extensions", "validate", str(folder)]
    done = subprocess.run(
        words, env=env, capture_output=True, text=True, timeout=TIMEOUT, cwd=project.work
    )
    assert done.returncode == 0, done.stdout + done.stderr
    other = tmp_path / "other"
    other.mkdir()
    synapse.init(str(other / "shared-memory")).close()
    (other / "src").mkdir()
    (other / "src/tariff.py").write_text("RATE = 9\n")
    project.work = Path(other)
    assert len(project.gemini(steps(READ))) == 2
    with synapse.open(str(other / "shared-memory")) as memory:
        assert not Runs(memory.store).all()
