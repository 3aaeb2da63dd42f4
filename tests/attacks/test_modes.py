"""Under a umask of 022, which most systems have, no file that the product writes shows other users
of the machine what is private: mail, entries, runs, keys, tokens, exports.

A file is open where its mode lets others read it, and each folder above lets them through.
"""

import os
import stat
import time
from pathlib import Path

import pytest

import synapse
from orchestrator import Supervisor, Task
from orchestrator.engines.scripted import Move, Scripted
from synapse import backup, cli
from synapse.compat import tables
from synapse.compat.brain import UnifiedBrain
from synapse.consolidate import run_nightly
from synapse.mail.mailbox import Mail
from synapse.model.agents import Agent
from synapse.model.clock import day

NAMES = "mail subject entry addressed staged task answer tool facade dropped".split()
PRIVATE = {name: f"{name}-otter-quay-{number}" for number, name in enumerate(NAMES)}
# Names and rights of agents, settings and programs: nothing that an agent wrote.
OPEN = ("synapse.yaml", ".gitignore", ".gitattributes", "agents/", "bin/")


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A person's folders, open to others as those often are."""
    before = os.umask(0o022)
    for name, variable in (("home", "HOME"), ("synapse", "SYNAPSE_HOME"), ("tmp", "TMPDIR")):
        (tmp_path / name).mkdir(mode=0o755)
        monkeypatch.setenv(variable, str(tmp_path / name))
    os.chmod(tmp_path, 0o755)
    yield tmp_path
    os.umask(before)


def play(home):
    """Do what a team does, and its operator: all that writes files."""
    root = home / "ws"
    with synapse.init(str(root)) as memory:
        for id in ("eng-a", "eng-b", "eng-c"):
            agent = Agent(id, "engineer", read=("*",), write=("*",), review_required=id == "eng-c")
            memory.register(agent)
        me = memory.as_agent("eng-a")
        me.append(PRIVATE["entry"], "api/x")
        me.append(PRIVATE["addressed"], "team/x", to="agent:eng-b")
        memory.as_agent("eng-c").append(PRIVATE["staged"], "api/x")
        Mail(me).send("eng-b", PRIVATE["mail"], subject=PRIVATE["subject"])
        (root / "inbox/eng-a/new/x.md").write_text(f"---\nfrom: no!\n---\n{PRIVATE['dropped']}")
        time.sleep(0.3)
        memory.store.refresh(whole=True)
        moves = iter([Move("I look.", [("look", {})])])

        def look() -> str:
            return PRIVATE["tool"]

        engine = Scripted(lambda seen: next(moves, PRIVATE["answer"]))
        with Supervisor(memory, engine=engine, tools=[look]) as supervisor:
            supervisor.run(Task(PRIVATE["task"], "eng-a"))
        memory.as_agent("eng-b").search("otter")
        backup.take(memory.store, str(home / "snapshots"))
        now = memory.store.clock()
        run_nightly(memory, day(now), now)
    for line in (
        ["view", "--agent", "eng-b", "--write"],
        ["export", str(home / "export.jsonl")],
        ["export", "--as-generation", "A", str(home / "files")],
        ["export", "--format", "json", str(home / "mail.json")],
        ["token", "new", "eng-a"],
        ["keys", "new", "eng-b"],
        ["doctor"],
    ):
        cli.main(["--root", str(root), *line])
    with UnifiedBrain(str(home / "brain.db"), "cto") as brain:
        brain.send("eng-b", PRIVATE["facade"], PRIVATE["facade"])
        return open_files(home)


def open_files(home):
    """Return the files that others can reach and read, by their path."""
    found = {}
    for path, folders, names in os.walk(home):
        folders[:] = [n for n in folders if os.lstat(os.path.join(path, n)).st_mode & stat.S_IXOTH]
        for full in (Path(path, name) for name in names):
            if stat.S_ISREG(full.lstat().st_mode) and full.lstat().st_mode & 0o044:
                found[str(full.relative_to(home))] = full.read_bytes()
    return found


def shown(found):
    """Return what is private in these files."""
    return {
        (path, name)
        for path, raw in found.items()
        for name, text in PRIVATE.items()
        if text.encode() in raw
    }


def test_no_other_user_reads_what_is_private(home, capsys):
    found = play(home)
    everything = b"".join(path.read_bytes() for path in home.rglob("*") if path.is_file())
    assert all(text.encode() in everything for text in PRIVATE.values())
    assert {path.name for path in home.iterdir()} >= {"export.jsonl", "files", "mail.json"}
    assert shown(found) == set()
    outside = [path for path in found if not path.partition("/")[2].startswith(OPEN)]
    assert outside == []


def test_a_file_of_mail_from_before_is_taken_back(home):
    path = home / "brain.db"
    with UnifiedBrain(str(path), "cto") as brain:
        brain.send("eng-b", "x", "x")
    path.chmod(0o644)
    with UnifiedBrain(str(path), "cto"):
        assert {
            stat.S_IMODE(file.stat().st_mode) for file in home.glob("brain.db*") if file.is_file()
        } == {0o600}


def test_a_facade_that_leaves_the_mode_to_the_umask_is_found_out(home, capsys, monkeypatch):
    monkeypatch.setattr(tables, "_make_private", lambda path: None)
    assert any(name == "facade" for _, name in shown(play(home)))
