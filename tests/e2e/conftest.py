"""The real clients: installed from the lock into a folder beside .venv, each told where the model
server is.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

import synapse
from orchestrator.engines import protocol
from orchestrator.engines.protocol import Place
from orchestrator.plugin.install import record
from orchestrator.plugin.install.change import Target
from orchestrator.plugin.install.clients import codex as install_codex
from synapse import Agent
from tests.model_server import ModelServer

HERE = Path(__file__).parent
FOLDER = HERE.parents[1] / ".clients"
ASKED = ("package.json", "package-lock.json")
CLAUDE = "@anthropic-ai/claude-code"
PATIENCE = 600
PROGRAMS = Path(sys.executable).parent
LONGEST = 90  # seconds of one session


class Wired(NamedTuple):
    """What makes a client talk to the model server: the name of a model, its variables, its
    settings.
    """

    model: str
    env: Mapping[str, str]
    files: Mapping[str, str] = {}


def wired(name, url, home):
    """How each client is told where its provider is."""
    if name == "claude-code":
        return Wired("claude-sonnet-4-5", {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "any"})
    if name == "codex":
        config = (
            'model_provider = "scripted"\ncheck_for_update_on_startup ='
            " false\nanalytics.enabled = false\n"
            f'[model_providers.scripted]\nname = "scripted"\nbase_url ='
            f' "{url}/v1"\nenv_key = "OPENAI_API_KEY"\n'
            'wire_api = "responses"\n'
        )
        env = {"CODEX_HOME": f"{home}/.codex", "OPENAI_API_KEY": "any"}
        return Wired("gpt-5", env, {".codex/config.toml": config})
    if name == "gemini":
        settings = {
            "privacy": {"usageStatisticsEnabled": False},
            "telemetry": {"enabled": False},
            "general": {"disableAutoUpdate": True},
            "security": {"auth": {"selectedType": "gemini-api-key"}},
        }
        env = {"GOOGLE_GEMINI_BASE_URL": url, "GEMINI_API_KEY": "any"}
        return Wired("gemini-2.5-flash", env, {".gemini/settings.json": json.dumps(settings)})
    model = {
        "id": "scripted",
        "name": "scripted",
        "contextWindow": 200_000,
        "maxTokens": 4_096,
        "input": ["text"],
    }
    model |= {
        "reasoning": False,
        "cost": {"input": 1, "output": 2, "cacheRead": 0, "cacheWrite": 0},
    }
    provider = {
        "baseUrl": f"{url}/v1",
        "apiKey": "any",
        "api": "openai-completions",
        "models": [model],
    }
    config = {
        "models": {"providers": {"here": provider}},
        "agents": {
            "defaults": {"model": {"primary": "here/scripted"}, "workspace": f"{home}/workspace"}
        },
        "update": {"checkOnStart": False},
    }
    return Wired(
        "here/scripted",
        {"OPENCLAW_STATE_DIR": f"{home}/.openclaw"},
        {".openclaw/openclaw.json": json.dumps(config)},
    )


@pytest.fixture(scope="session")
def installed(installing):
    """The folder of the clients' programs."""
    if shutil.which("npm") is None:
        pytest.fail(
            "the long checks run the real clients, and need Node's npm on the PATH to install them"
        )
    with installing(FOLDER):
        return _installed(FOLDER, _asked(HERE), CLAUDE)


@pytest.fixture(scope="session")
def readers(installed, installing):
    """The folder of the programs that have no plugin of ours, and read files of a project."""
    with installing(FOLDER / "readers"):
        return _installed(FOLDER / "readers", _asked(HERE / "readers"))


@pytest.fixture(scope="session")
def claude(installing):
    """Return the program of Claude Code, which every run of the tests installs, alone of the
    clients.
    """
    if shutil.which("npm") is None:
        pytest.skip(f"{CLAUDE} is not there: Node's npm, which installs it, is not on the PATH")
    folder = FOLDER / "claude-code"
    with installing(folder):
        return _installed(folder, _alone(CLAUDE), CLAUDE) / "claude"


def _asked(folder):
    return {name: (folder / name).read_text(encoding="utf-8") for name in ASKED}


def _installed(folder, files, *built):
    """Return the folder of the programs that npm installs from a package and its lock, once.
    `built` are packages whose scripts are run.
    """
    together = "".join(files[name] for name in ASKED)
    wanted = hashlib.sha256(together.encode()).hexdigest()
    stamp = folder / "stamp"
    if not stamp.exists() or stamp.read_text() != wanted:
        for name, text in files.items():
            (folder / name).write_text(text, encoding="utf-8")
        # Without their scripts: all but one of the clients have what they need in their packages.
        for command in (["ci", "--ignore-scripts"], *(["rebuild", name] for name in built)):
            done = subprocess.run(
                ["npm", *command], cwd=folder, capture_output=True, text=True, timeout=PATIENCE
            )
            assert done.returncode == 0, f"npm {command[0]} failed:\n{done.stderr[-2_000:]}"
        stamp.write_text(wanted)
    return folder / "node_modules/.bin"


def _alone(name):
    """Return a package that asks for one client only, and its part of the lock."""
    package, lock = (json.loads((HERE / file).read_text(encoding="utf-8")) for file in ASKED)
    wanted = {name: package["dependencies"][name]}
    root = {"name": package["name"], "dependencies": wanted}
    parts = {
        path: part
        for path, part in lock["packages"].items()
        if path.startswith(f"node_modules/{name}")
    }
    lock["packages"] = {"": root, **parts}
    return dict(zip(ASKED, (json.dumps({**root, "private": True}), json.dumps(lock)), strict=True))


def pytest_terminal_summary(terminalreporter):
    """Name the client whose tests were not run, and why: that is not passed over in silence."""
    reasons = {
        str(report.longrepr[2])
        for report in terminalreporter.stats.get("skipped", ())
        if report.longrepr
    }
    for reason in sorted(reason for reason in reasons if CLAUDE in reason):
        terminalreporter.write_line(f"NOT RUN: {reason}", yellow=True)


@pytest.fixture
def client(installed, tmp_path):
    """Makes an engine of this name whose model follows a script: the engine, its place, the
    server.
    """
    home, work = tmp_path / "home", tmp_path / "work"
    servers = []

    def made(name, script, env=None, **options):
        server = ModelServer(script).start()
        servers.append(server)
        told = wired(name, server.url, home)
        for path, text in told.files.items():
            (home / path).parent.mkdir(parents=True, exist_ok=True)
            (home / path).write_text(text)
        for folder in (home, work):
            folder.mkdir(exist_ok=True)
        path = os.pathsep.join((str(installed), os.environ["PATH"]))
        own = {"HOME": str(home), "CI": "1", "PATH": path, **told.env, **(env or {})}
        options = {"model": told.model, "env": own, "timeout": 120, **options}
        return (
            protocol.load(name, **options),
            Place(str(work), output=str(tmp_path / "output")),
            server,
        )

    yield made
    for server in servers:
        server.stop()


class CodexProject:
    """A repository, a home with Codex in it, and a model that follows a script."""

    confined = ()  # words that a session of Codex is started with

    def __init__(self, folder, programs, script):
        self.home, self.work = folder / "home", folder / "work"
        self.codex_home = self.home / ".codex"
        self.codex_home.mkdir(parents=True)
        self.work.mkdir()
        subprocess.run(["git", "init", "-q", str(self.work)], check=True)
        self.server = ModelServer(script).start()
        # the program, not its launcher
        vendor = next((Path(programs).parent / "@openai").glob("codex-*/vendor/*/bin"))
        path = os.pathsep.join((str(vendor), str(PROGRAMS), "/usr/bin", "/bin"))
        self.env = {
            "HOME": str(self.home),
            "CI": "1",
            "CODEX_HOME": str(self.codex_home),
            "OPENAI_API_KEY": "any",
            "PATH": path,
        }
        self.env |= {"TERM": "xterm-256color", "SHELL": "/bin/bash"}
        self.config = self.codex_home / "config.toml"
        self.config.write_text(
            'model_provider = "scripted"  # mine\ncheck_for_update_on_startup ='
            " false\nanalytics.enabled = false\n\n"
            f'[model_providers.scripted]\nname = "scripted"\nbase_url = "{self.server.url}/v1"\n'
            'env_key = "OPENAI_API_KEY"\nwire_api = "responses"\n\n'
            f'[projects."{self.work}"]\ntrust_level = "trusted"\n'
        )

    @property
    def root(self):
        return self.work / "shared-memory"

    @property
    def requests(self):
        return [taken.body for taken in self.server.journal if taken.path.endswith("/responses")]

    def run(self, *command, check=True):
        done = subprocess.run(
            command,
            cwd=self.work,
            env=self.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LONGEST,
        )
        assert not check or done.returncode == 0, done.stdout + done.stderr
        return done

    def install(self, *words):
        return self.run("orchestrator", "install", "codex", *words)

    def write(self, namespace, body, **fields):
        with synapse.open(str(self.root)) as memory:
            return memory.as_agent("other").append(body, namespace, **fields).id

    def codex(self, model, *words, prompt="MAIN: go on", trusts=True):
        bypass = ["--dangerously-bypass-hook-trust"] if trusts else []
        options = ["--json", "--model", model, "--sandbox", "workspace-write", *bypass]
        done = self.run(*self.confined, "codex", "exec", *options, *words, prompt)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def entries(self):
        with synapse.open(str(self.root)) as memory:
            return memory.as_agent("other").read().entries

    def runs(self):
        return json.loads(self.run("orchestrator", "ps", "--all", "--json").stdout)["runs"]

    def lead(self):
        """The session of the main conversation, and the process that runs its hooks."""
        run = next(run for run in self.runs() if run["agent"] == "lead")
        return run["attached"], int(run["holder"].split("-")[1])

    def target(self):
        folder = record.plugin_folder(str(self.root), "codex", self.env, str(self.home))
        package = str(Path(install_codex.__file__).parents[2])
        places = {
            "root": str(self.root),
            "project": str(self.work),
            "home": str(self.home),
            "folder": folder,
        }
        return Target(
            "codex", user=False, python=sys.executable, package=package, env=self.env, **places
        )


@pytest.fixture
def codex_project(installed, tmp_path):
    """Makes a project whose model follows a script; its plugin is installed unless told
    otherwise.
    """
    made = []

    def make(script, install=True):
        made.append(CodexProject(tmp_path, installed, script))
        if install:
            made[0].install()
            with synapse.open(str(made[0].root)) as memory:
                memory.register(Agent("other", read=("*",), write=("*",), projects=("work",)))
        return made[0]

    yield make
    for each in made:
        each.server.stop()
