"""Each fault that a workspace may have at 3 a.m. is named by `synapse doctor`, with the command that
comes next, and within seconds, whatever is held.
"""

import json
import os
import socket
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

import synapse
from synapse.cli import doctor
from synapse.log.begun import Begun
from synapse.model.clock import DAY, now
from synapse.server.announcement import Running, announce
from synapse.testing.contract import draft_entry
from synapse.trust import decisions
from synapse.trust.bearer import new_token, place
from synapse.trust.workspace_keys import WorkspaceKeys

BOUND = 60.0  # seconds on a busy machine; five on a quiet one


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("SYNAPSE_HOME", str(tmp_path / "home"))
    with synapse.init(tmp_path / "team") as memory:
        memory.register(synapse.Agent("eng", read=["*"], write=["*"]))
        for n in range(3):
            memory.as_agent("eng").append(f"entry {n}", "api/x")
        memory.as_agent("eng").read()
    return str(tmp_path / "team")


def told(root):
    """Return what the doctor says of a workspace that is not well."""
    command = [sys.executable, "-m", "synapse.cli", "--root", root, "doctor", "--json"]
    start = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert time.monotonic() - start < BOUND
    checks = json.loads(done.stdout)["checks"]
    return "\n".join(each["detail"] for each in checks if each["verdict"] != "ok")


def add_settings(root, text):
    with open(f"{root}/synapse.yaml", "a", encoding="utf-8") as file:
        file.write(text)


def journal_of(root):
    return Path(root, "journal/000000000001.jsonl")


def cut(root):
    raw = journal_of(root).read_bytes()
    journal_of(root).write_bytes(raw[: raw.rindex(b"\n", 0, -1) + 1])


def changed(root):
    raw = bytearray(journal_of(root).read_bytes())
    raw[raw.index(b'"api/x"') + 1] ^= 4
    journal_of(root).write_bytes(raw)


def ahead(root):
    with synapse.open(root, clock=lambda: now() + 400 * DAY) as memory:
        memory.as_agent("eng").append("from a time to come", "api/x")


def damaged_index(root):
    with open(f"{root}/.index/brain.db", "r+b") as file:
        file.seek(100)
        file.write(os.urandom(20_000))


def no_snapshot(root):
    add_settings(root, f"backup: {{dir: {os.path.dirname(root)}/snapshots}}\n")


def webhook(root):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    add_settings(
        root, f"webhooks: {{chat: {{url: 'http://127.0.0.1:{port}/', events: [entry.created]}}}}\n"
    )


def bad_token(root):
    os.makedirs(os.path.dirname(place(root)))
    new_token(place(root), "eng")
    with open(place(root), "a", encoding="utf-8") as file:
        file.write("what is this?\n")


def begun(root):
    Begun(root).note("act-of-a-later-version", {})  # one of this version is finished


def unsigned(root):
    with synapse.open(root) as memory:
        WorkspaceKeys(memory.store).new("eng")
        memory.store.commit.append(draft_entry("unsigned", author="eng"))


def gone_server(root):
    announce(root, Running("http://127.0.0.1:1", "secret", 1))


FAULTS = {
    "the journal is cut": (cut, "`synapse repair --dry-run`"),
    "a line is changed": (changed, "`synapse verify` names all"),
    "synapse.yaml is broken": (lambda root: add_settings(root, "ttl: [\n"), "synapse.yaml"),
    "a clock was ahead": (ahead, "the next write goes on"),
    "the index is damaged": (damaged_index, "brain.db.damaged was set aside"),
    "no snapshot is taken": (no_snapshot, "`synapse backup DIR`"),
    "a webhook sends nothing": (webhook, "`synapse webhooks"),
    "the token file is bad": (bad_token, "`synapse token new AGENT`"),
    "an act was cut short": (begun, "call the same command again"),
    "an author with a key did not sign": (unsigned, "`synapse vouch syn-"),
    "a server does not answer": (gone_server, "`synapse serve`"),
}
LOCKS = {
    "journal/lock": "nobody can write; see `kill -CONT",
    ".index/brain.db.lock": "readers are answered from the journal; see `kill -CONT",
}


def test_a_sound_workspace_has_none(root):
    assert told(root) == ""


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_named_with_what_comes_next(root, fault):
    plant, named = FAULTS[fault]
    plant(root)
    assert named in told(root)


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_that_is_held_is_named_with_its_process(root, holds, lock):
    holds(f"{root}/{lock}")
    assert LOCKS[lock] in told(root)


def test_a_foreign_lock_on_the_index_is_named(root):
    connection = sqlite3.connect(f"{root}/.index/brain.db", isolation_level=None)
    connection.execute("begin immediate")
    os.utime(f"{root}/.index/brain.db-shm", (0, 0))
    try:
        assert "brain.db" in told(root)
    finally:
        connection.close()


def test_a_disk_that_is_nearly_full_is_named(root, monkeypatch):
    real = os.statvfs

    def full(path):
        return os.statvfs_result((*real(path)[:3], 10, 10, *real(path)[5:]))

    monkeypatch.setattr(os, "statvfs", full)
    with synapse.open(root) as memory:
        found = [each.detail for each in doctor.live.disk(root, memory)]
    assert found == [f"0 MB are free: `du -sh {root}/*` shows what takes room"]


def test_a_webhook_that_a_person_trusts_wants_a_sender(root):
    webhook(root)
    with synapse.open(root) as memory:
        wants = decisions.asked(memory.store.settings, root)
    decisions.trust(root, wants, "2026-02-01")
    assert "`synapse webhooks run` is one" in told(root)


def test_what_the_operator_vouched_for_is_accepted(root):
    unsigned(root)
    with synapse.open(root) as memory:
        (problem,) = memory.verify().problems
        memory.as_agent("operator").vouch(problem.what.partition(":")[0])
        assert memory.verify().ok


def test_an_agent_vouches_for_no_unsigned_entry(root):
    unsigned(root)
    with synapse.open(root) as memory:
        memory.register(synapse.Agent("lead", role="project-lead", read=["*"], write=["*"]))
        (problem,) = memory.verify().problems
        with pytest.raises(synapse.Conflict, match="needs no voucher"):
            memory.as_agent("lead").vouch(problem.what.partition(":")[0])
