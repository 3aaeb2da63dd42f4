"""One team across clients: a lead in Claude Code, an engineer in Codex, another through the API, QA
in Gemini, at work on one workspace at the same time. They see each other's entries and a critical
one, each once.
"""

import json
import os
import signal
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from threading import Condition
from typing import NamedTuple

import pytest

import synapse
from orchestrator.engines.scripted import Move
from synapse import Agent
from tests.model_server import ModelServer

pytestmark = pytest.mark.soak

PATIENCE = 120
PROGRAMS = Path(sys.executable).parent
CRITICAL = "STOP deploying to the old cluster: it is being taken down."
WORK = "Work at the checkout service."
# Who is who: the memory's agent, its client, and what it tells the others.
TEAM = {
    "lead": ("claude-code", "The checkout service moves to the new cluster this week."),
    "backend": ("codex", "The checkout service retries a payment three times."),
    "worker": ("anthropic", "The checkout service keeps its queue in PostgreSQL."),
    "qa": ("gemini", "The checkout service has no test of a refund."),
}
DECLARED = {"read": ("*",), "write": ("*",), "projects": ("shop",)}


class Team:
    """The models of all four. Each waits for the others at the steps where they have to be
    together. A step may be asked for twice: the news of a critical entry has an agent's turn begun
    anew.
    """

    def __init__(self, running):
        self.running = running
        self.at_work = {}
        self.given = {}
        self._reached = defaultdict(set)
        self._news = Condition()

    def __call__(self, seen):
        who = next(
            (name for name in TEAM if seen.tools and f"TASK-{name.upper()}." in seen.text), None
        )
        if who is None:
            return "Nothing."
        self.given[who] = "\n".join(
            message.text for message in seen.messages if message.role != "assistant"
        )
        steps = (self._begin, self._go_on, self._hear)
        return (
            steps[seen.turn](who, seen)
            if seen.turn < len(steps)
            else f"{who} is done with its part."
        )

    def _begin(self, who, seen):
        """All are at work; each tells the others something."""
        self._meet("begun", who)
        if who == "lead":
            self.at_work = self.running()
        self._meet("seen", who)
        return write(seen, who, TEAM[who][1], "important")

    def _go_on(self, who, seen):
        """All have told it; now the lead warns, while the others are in the middle of a turn."""
        self._meet("written", who)
        if who == "lead":
            return write(seen, who, CRITICAL, "critical")
        self._meet("warned", who)
        return idle(seen)

    def _hear(self, who, seen):
        """The warning is written before the others' next call is over."""
        self._meet("warned", who)
        return idle(seen)

    def _meet(self, step, who):
        """Wait until all of the team have come to a step."""
        with self._news:
            self._reached[step].add(who)
            self._news.notify_all()
            assert self._news.wait_for(lambda: len(self._reached[step]) == len(TEAM), PATIENCE), (
                f"{step}: {set(TEAM) - self._reached[step]} did not come"
            )


def tool(seen, *names):
    """Return the name of the first of these tools that there is."""
    return next(known.name for name in names for known in seen.tools if known.name.endswith(name))


def write(seen, who, body, priority):
    """Write an entry: in the shell of a session that has one, else by the memory's tool."""
    command = f"{PROGRAMS}/synapse write --namespace decisions/{who} --priority {priority} '{body}'"
    shells = {
        "Bash": {"command": command, "description": "tell the others"},
        "exec_command": {"cmd": command},
    }
    for name, arguments in shells.items():
        if any(each.name == name for each in seen.tools):
            return Move("", ((name, arguments),))
    return Move(
        "",
        (
            (
                tool(seen, "append"),
                {"namespace": f"decisions/{who}", "body": body, "priority": priority},
            ),
        ),
    )


def idle(seen):
    """A call that does nothing, in whatever shell there is; else a search of the memory."""
    shells = {"Bash": {"command": "true", "description": "wait"}, "exec_command": {"cmd": "true"}}
    shells |= {"run_shell_command": {"command": "true"}}
    for name, arguments in shells.items():
        if any(each.name == name for each in seen.tools):
            return Move("", ((name, arguments),))
    return Move("", ((tool(seen, "memory_search"), {"query": "nothing of this kind"}),))


class Shop(NamedTuple):
    """The repository of the team, the homes of its users, and what every process of it has around
    it.
    """

    home: Path
    work: Path
    path: str

    @property
    def root(self):
        return self.work / "shared-memory"

    def env(self, **more):
        return {
            "HOME": str(self.home),
            "CI": "1",
            "PATH": self.path,
            "TERM": "xterm-256color",
            "SHELL": "/bin/bash",
            **more,
        }

    def orchestrator(self, *words):
        command = [sys.executable, "-m", "orchestrator", *words]
        done = subprocess.run(
            command, cwd=self.work, env=self.env(), capture_output=True, text=True, timeout=PATIENCE
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def running(self):
        """Return what `orchestrator ps` shows: the engine of each agent that is at work."""
        return {run["agent"]: run for run in json.loads(self.orchestrator("ps", "--json"))["runs"]}

    def log(self, name):
        return self.home / f"{name}.log"

    def start(self, name, words, **env):
        with open(self.log(name), "w") as log:
            more = {
                "stdin": subprocess.DEVNULL,
                "stdout": log,
                "stderr": log,
                "start_new_session": True,
            }
            return subprocess.Popen(words, cwd=self.work, env=self.env(**env), **more)


@pytest.fixture(scope="module")
def shop(installed, tmp_path_factory):
    folder = tmp_path_factory.mktemp("team").resolve()
    vendor = next((Path(installed).parent / "@openai").glob("codex-*/vendor/*/bin"))
    path = os.pathsep.join((str(vendor), str(installed), str(PROGRAMS), os.environ["PATH"]))
    shop = Shop(folder / "home", folder / "shop", path)
    for place in (shop.home / ".codex", shop.home / ".gemini", shop.home / ".claude", shop.work):
        place.mkdir(parents=True)
    subprocess.run(["git", "init", "-q", str(shop.work)], check=True)
    (shop.work / "checkout.py").write_text("RETRIES = 3\n")
    with synapse.init(str(shop.root)) as memory:
        memory.register(Agent("lead", role="project-lead", **DECLARED))
        for name in ("backend", "worker", "qa"):
            memory.register(Agent(name, role="engineer", **DECLARED))
    return shop


@pytest.fixture(scope="module")
def worked(shop):
    """The team after its work: what each was given, who was seen at work, and what each process
    printed.
    """
    team = Team(shop.running)
    with ModelServer(team) as server:
        configure(shop, server.url)
        for client in ("claude-code", "codex", "gemini"):
            shop.orchestrator("install", client)
        processes = {
            name: shop.start(name, command(shop, name), **env(name, server.url)) for name in TEAM
        }
        try:
            codes = {name: process.wait(PATIENCE) for name, process in processes.items()}
        finally:
            for process in processes.values():
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
    assert set(codes.values()) == {0}, {name: shop.log(name).read_text()[-2_000:] for name in TEAM}
    return team


def configure(shop, url):
    """Write what each client's user has: where the model is, and that this folder is trusted."""
    trusted = {"projects": {str(shop.work): {"hasTrustDialogAccepted": True}}}
    (shop.home / ".claude.json").write_text(json.dumps(trusted))
    (shop.home / ".claude/settings.json").write_text(
        json.dumps({"permissions": {"allow": ["Bash"]}})
    )
    (shop.home / ".codex/config.toml").write_text(
        'model_provider = "scripted"\ncheck_for_update_on_startup ='
        " false\nanalytics.enabled = false\n"
        f'[model_providers.scripted]\nname = "scripted"\nbase_url ='
        f' "{url}/v1"\nenv_key = "OPENAI_API_KEY"\n'
        f'wire_api = "responses"\n[projects."{shop.work}"]\ntrust_level = "trusted"\n'
    )
    auth = {
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "telemetry": {"enabled": False},
    }
    auth |= {"privacy": {"usageStatisticsEnabled": False}, "general": {"disableAutoUpdate": True}}
    (shop.home / ".gemini/settings.json").write_text(json.dumps(auth))


def command(shop, name):
    """Return the command of a member of the team."""
    task = f"{WORK} Your part is TASK-{name.upper()}."
    orchestrator = (sys.executable, "-m", "orchestrator", "--root", str(shop.root))
    options = (
        "--project",
        "shop",
        "--engine",
        "anthropic",
        "--model",
        "claude-sonnet-4-5",
        "--memory-tools",
        "always",
    )
    trusted = "--dangerously-bypass-hook-trust"
    words = {
        "lead": ("claude", "-p", task, "--model", "claude-sonnet-4-5"),
        "backend": (
            "codex",
            "exec",
            "--model",
            "gpt-5",
            "--sandbox",
            "workspace-write",
            trusted,
            task,
        ),
        "worker": (*orchestrator, "run", "--agent", "worker", *options, task),
        "qa": ("gemini", "--model", "gemini-2.5-flash", "--yolo", "--prompt", task),
    }
    return words[name]


def env(name, url):
    """Return the variables of a member: where its model is, and who it is in the memory."""
    anthropic = {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "any"}
    gemini = {
        "GEMINI_API_KEY": "any",
        "GOOGLE_GEMINI_BASE_URL": url,
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
    }
    return {
        "lead": {
            **anthropic,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "SYNAPSE_AGENT": "lead",
        },
        "backend": {"OPENAI_API_KEY": "any", "SYNAPSE_AGENT": "backend"},
        "worker": anthropic,
        "qa": {**gemini, "SYNAPSE_AGENT": "qa"},
    }[name]


def test_all_of_the_team_are_seen_at_work_at_once(worked):
    assert {agent: run["engine"] for agent, run in worked.at_work.items()} == {
        name: client for name, (client, _) in TEAM.items()
    }


def test_each_is_given_what_the_others_wrote_and_once(worked):
    for who in TEAM:
        told = {
            name: worked.given[who].count(text) for name, (_, text) in TEAM.items() if name != who
        }
        assert told == dict.fromkeys(told, 1), who


def test_a_critical_of_the_lead_reaches_the_others_in_mid_turn_and_once(worked):
    assert {who: worked.given[who].count(CRITICAL) for who in TEAM if who != "lead"} == {
        "backend": 1,
        "worker": 1,
        "qa": 1,
    }


def test_every_entry_is_by_who_wrote_it(worked, shop):
    with synapse.open(str(shop.root)) as memory:
        entries = memory.as_agent("lead").read(namespace="decisions/*").entries
    assert {entry.body: entry.author for entry in entries} == {
        **{text: who for who, (_, text) in TEAM.items()},
        CRITICAL: "lead",
    }


def test_every_run_has_ended_with_its_usage(worked, shop):
    runs = {
        run["agent"]: run for run in json.loads(shop.orchestrator("ps", "--all", "--json"))["runs"]
    }
    assert {run["status"] for run in runs.values()} == {"done"}
    assert set(runs) == set(TEAM)
    assert all(run["usage"]["input_tokens"] > 0 for run in runs.values())
