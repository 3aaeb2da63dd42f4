"""The real clients: installed from the lock into a folder beside .venv, each told where the model server is."""

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from orchestrator import engine
from orchestrator.engine import Place
from orchestrator.testing.model_server import ModelServer

HERE = Path(__file__).parent
FOLDER = HERE.parents[1] / ".clients"
ASKED = ("package.json", "package-lock.json")
PATIENCE = 600


class Wired(NamedTuple):
    """What makes a client talk to the model server: the name of a model, its variables, its settings."""

    model: str
    env: Mapping[str, str]
    files: Mapping[str, str] = {}


def wired(name, url, home):
    """How each client is told where its provider is."""
    if name == "claude-code":
        return Wired("claude-sonnet-4-5", {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "any"})
    if name == "codex":
        config = (
            'model_provider = "scripted"\ncheck_for_update_on_startup = false\nanalytics.enabled = false\n'
            f'[model_providers.scripted]\nname = "scripted"\nbase_url = "{url}/v1"\nenv_key = "OPENAI_API_KEY"\n'
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
    model = {"id": "scripted", "name": "scripted", "contextWindow": 200_000, "maxTokens": 4_096, "input": ["text"]}
    model |= {"reasoning": False, "cost": {"input": 1, "output": 2, "cacheRead": 0, "cacheWrite": 0}}
    provider = {"baseUrl": f"{url}/v1", "apiKey": "any", "api": "openai-completions", "models": [model]}
    config = {
        "models": {"providers": {"here": provider}},
        "agents": {"defaults": {"model": {"primary": "here/scripted"}, "workspace": f"{home}/workspace"}},
        "update": {"checkOnStart": False},
    }
    return Wired(
        "here/scripted", {"OPENCLAW_STATE_DIR": f"{home}/.openclaw"}, {".openclaw/openclaw.json": json.dumps(config)}
    )


@pytest.fixture(scope="session")
def installed():
    """The folder of the clients' programs."""
    wanted = hashlib.sha256(b"".join((HERE / name).read_bytes() for name in ASKED)).hexdigest()
    stamp = FOLDER / "stamp"
    if not stamp.exists() or stamp.read_text() != wanted:
        if shutil.which("npm") is None:
            pytest.fail("the long checks run the real clients, and need Node's npm on the PATH to install them")
        FOLDER.mkdir(exist_ok=True)
        for name in ASKED:
            shutil.copy(HERE / name, FOLDER / name)
        # Without their scripts: all but one of the clients have what they need in their packages.
        for command in (["ci", "--ignore-scripts"], ["rebuild", "@anthropic-ai/claude-code"]):
            done = subprocess.run(["npm", *command], cwd=FOLDER, capture_output=True, text=True, timeout=PATIENCE)
            assert done.returncode == 0, f"npm {command[0]} failed:\n{done.stderr[-2_000:]}"
        stamp.write_text(wanted)
    return FOLDER / "node_modules/.bin"


@pytest.fixture
def client(installed, tmp_path):
    """Makes an engine of this name whose model follows a script: the engine, its place, the server."""
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
        own = {"HOME": str(home), "PATH": path, **told.env, **(env or {})}
        options = {"model": told.model, "env": own, "timeout": 120, **options}
        return engine.load(name, **options), Place(str(work), output=str(tmp_path / "output")), server

    yield made
    for server in servers:
        server.stop()
