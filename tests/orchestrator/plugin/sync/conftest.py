"""A project on the disk with a workspace and a team, and `orchestrator sync` in it."""

import os
from pathlib import Path

import pytest

import synapse
from orchestrator.plugin.install.place import SYNC, place
from orchestrator.plugin.sync import sync as syncing
from orchestrator.plugin.sync.sources import FILES
from synapse import Agent

SECRET = "zebra"  # a word that is only in what may not be seen


class Project:
    """A folder with files of clients, and the memory of its team."""

    def __init__(self, folder: Path, home: Path) -> None:
        self.folder, self.home = folder, home
        self.root = folder / "shared-memory"
        folder.mkdir()
        with synapse.init(str(self.root)) as memory:
            memory.register(Agent("lead", "project-lead"))
            memory.register(Agent("engineer"))

    @property
    def target(self):
        return place(SYNC, str(self.folder), None, False, dict(os.environ)).target

    def sync(self, *names, dry_run=False):
        with synapse.open(str(self.root)) as memory:
            return syncing.sync(memory.store, self.target, names, dry_run)

    def undo(self, *names):
        return syncing.remove(self.target, names)

    def put(self, name, data):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        return path

    def read(self, name):
        path = self.folder / name
        return path.read_bytes() if path.exists() else None

    def files(self):
        return {name: self.read(name) for name in FILES}

    def write(self, body, namespace="decisions/api", author="lead", **more):
        with synapse.open(str(self.root)) as memory:
            return memory.as_agent(author).append(body, namespace, **more)

    def limit_reviews(self, count):
        path = self.root / "synapse.yaml"
        path.write_text(path.read_text().replace("limit: 100", f"limit: {count}"))

    def staged(self):
        with synapse.open(str(self.root)) as memory:
            return memory.as_agent("operator").staged()

    def rule(self, act, id):
        with synapse.open(str(self.root)) as memory:
            return getattr(memory.as_agent("operator"), act)(id)

    def records(self):
        with synapse.open(str(self.root)) as memory:
            return [record.kind for record in memory.store.log.since(0)]


@pytest.fixture
def project(tmp_path, monkeypatch):
    for name in [name for name in os.environ if name.startswith("SYNAPSE_")]:
        monkeypatch.delenv(name)
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home" / ".config"))
    return Project(tmp_path / "shop", tmp_path / "home")
