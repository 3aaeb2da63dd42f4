import json
import os
import subprocess
import sys
from typing import NamedTuple

import pytest

import synapse
from orchestrator.cli import main
from orchestrator.engines.protocol import Call, Turn, Usage
from orchestrator.prompts.render import Prompt
from orchestrator.runs.files import ledger, steps
from orchestrator.runs.files.folder import LEDGER, OUTPUT, STEPS, Folder
from orchestrator.runs.files.lease import Lease
from synapse.model.records import Record


class Ran(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self):
        return json.loads(self.out)


@pytest.fixture(autouse=True)
def nowhere(tmp_path, monkeypatch):
    """No environment, no home and no workspace of whoever runs the tests; no keys."""
    for name in [
        name for name in os.environ if name.startswith(("SYNAPSE_", "ANTHROPIC_", "OPENAI_"))
    ]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def run(capsysbinary):
    """One command line in this process."""

    def run(*words):
        capsysbinary.readouterr()
        code = main([str(word) for word in words])
        out, err = capsysbinary.readouterr()
        return Ran(code, out.decode(), err.decode())

    return run


@pytest.fixture
def shell(tmp_path):
    """One command line in a process of its own; `pty` is one at a terminal of 80 columns."""

    def shell(*words, stdin="", timeout=60):
        done = subprocess.run(
            [sys.executable, "-m", "orchestrator", *map(str, words)],
            input=stdin,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=timeout,
            check=False,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    return shell


class Office:
    """A workspace with the records and the files of runs, as a supervisor leaves them."""

    def __init__(self, memory):
        self.memory = memory
        self.holder = Lease(memory.store.root, "h")
        for agent in (
            synapse.Agent("cto", role="cto"),
            synapse.Agent("lead", role="project-lead"),
            synapse.Agent("eng-a", department="backend"),
            synapse.Agent("eng-b", department="frontend"),
        ):
            memory.register(agent)

    def record(self, kind, by, key=None, **fields):
        self.memory.store.commit.append(Record.new(kind, by, fields, key=key))

    def begin(
        self, id, agent="eng-a", parent=None, root=None, task="Do it\nwell", project="web", **more
    ):
        fields = {
            "epoch": 1,
            "state": "running",
            "agent": agent,
            "project": project,
            "task": task,
            "parent": parent,
        }
        fields |= {
            "root": root or id,
            "depth": 0,
            "holder": "h",
            "attempts": 1,
            "role": "engineer",
            "asked": {},
        }
        fields |= {
            "department": self.memory.store.agents.all()[agent].department,
            "engine": "scripted",
            "model": "m",
        }
        fields |= {"needs": {"engines": {"scripted": {"kind": "scripted"}}}}
        self.record("run", agent, f"run:{id}", run=id, **(fields | more))
        return id

    def prompt(self, id, ids=(), agent="eng-a", epoch=1):
        parts = Prompt(
            "You are eng-a.\n", "## Shared Memory Context\n- news\n", "## Your Task\nDo it\nwell\n"
        )
        self.step(id, 0, "prompt", **Prompt(*parts)._asdict(), ids=list(ids), tools=[], cursor=1)
        shown = {
            "cursor": 1,
            "how": "spawn",
            "run": id,
            "epoch": epoch,
            "ids": list(ids),
            "prompt": parts.sha256,
        }
        self.record("shown", agent, **shown)
        return parts

    def turn(self, id, n, text="", calls=(), usage=(100, 20), cost=0.01, agent="eng-a"):
        reply = Turn(
            text,
            tuple(Call(*call) for call in calls),
            "tools" if calls else "done",
            Usage(*usage),
            "m",
        )
        sent = (ledger.Segment("view", 10), ledger.Segment("task", 90))
        line = ledger.Line(id, n, agent, "m", "o200k_base", "exact", sent, (), Usage(*usage), cost)
        self.step(id, n, "turn", **steps.turn(reply, "work_out", ledger.dump(line)))
        self.folder(id).record(LEDGER, ledger.dump(line))

    def step(self, id, n, kind, **fields):
        self.folder(id).record(STEPS, steps.dump(steps.Step(n, 1, kind, fields)))

    def end(self, id, agent="eng-a", status="done", summary="All is well", turns=1, **more):
        usage = Usage(100, 20)._asdict()
        fields = {
            "status": status,
            "summary": summary,
            "turns": turns,
            "usage": usage,
            "cost": 0.01,
            "why": "",
        }
        fields |= {"overhead": [10, 0, 90, 10, 0, 90], "debt": [], "entry": None}
        fields = {"state": "ended", **fields, **more}
        self.record("run", agent, f"run:{id}", run=id, epoch=1, **fields)
        self.folder(id).write(OUTPUT, summary)

    def folder(self, id):
        return Folder(self.memory.store.root, id).make()


@pytest.fixture
def office(tmp_path):
    with synapse.init(str(tmp_path / "shared-memory")) as memory:
        office = Office(memory)
        yield office
        office.holder.close()
