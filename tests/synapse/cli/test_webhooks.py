"""The verb `webhooks`, against a receiver on this machine."""

import json
import os
import signal
import subprocess
import sys

import pytest

import synapse
from synapse.errors import Forbidden, InvalidEntry, NotFound
from synapse.webhooks import outbox
from tests.synapse.webhooks.conftest import SECRET, VARIABLE, Receiver, declare, receiver, wait_for
from tests.synapse.webhooks.conftest import root as root_of_hooks

__all__ = ["receiver", "root_of_hooks"]  # fixtures


@pytest.fixture
def root(root_of_hooks, monkeypatch):
    monkeypatch.setenv("SYNAPSE_ROOT", str(root_of_hooks))
    return root_of_hooks


def test_what_is_declared_is_listed(root, run, receiver):
    assert "no webhook is declared" in run("webhooks").out
    declare(root, receiver.url, **{"as": "eng"})
    row = {"name": "chat", "state": "ready", "url": receiver.url, "reader": "eng"}
    assert json.loads(run("webhooks", "list", "--json").out) == {"webhooks": [row]}
    shown = run("webhooks").out
    assert all(text in shown for text in ("chat", "ready", "eng", receiver.url))


def test_what_is_not_ready_says_why(root, run, receiver, monkeypatch):
    declare(root, receiver.url, trusted=False)
    assert "synapse trust" in run("webhooks").out
    assert run("webhooks", "test", "chat").code == Forbidden.exit_code
    assert run("trust", "--yes").code == 0
    monkeypatch.delenv(VARIABLE)
    assert f"{VARIABLE} is not set" in run("webhooks").out
    assert receiver.heard == 0


def test_what_cannot_be_is_named(root, run):
    declare(root, "ftp://x", secret=SECRET, priorities=["loud"])
    shown = run("webhooks", "list", "--json").out
    ((row),) = json.loads(shown)["webhooks"]
    assert all(text in row["state"] for text in ("ftp://x", "never the secret itself", "loud"))
    assert SECRET not in shown
    assert run("webhooks", "test", "chat").code == InvalidEntry.exit_code
    assert SECRET not in run("trust", "--show").out


def test_a_test_says_what_came_of_it(root, run, receiver):
    declare(root, receiver.url)
    assert run("webhooks", "test", "chat").out == "a test of chat was taken: 200\n"
    receiver.answer = lambda *call: 503
    failed = run("webhooks", "test", "chat", "--json")
    assert (failed.code, json.loads(failed.out)["text"]) == (1, "503")
    assert run("webhooks", "test", "other").code == NotFound.exit_code


def test_a_sender_in_the_foreground_and_letters_sent_again(root, run, receiver):
    declare(root, receiver.url)
    folder = root / "runs/.webhooks"
    with synapse.open(str(root)) as mem:
        entry = mem.as_agent("eng").append("text", "api/x")
        outbox.made_folder(mem.store)
    letter = {"id": "msg_a", "type": "entry.created", "entry": entry.id, "seq": entry.seq}
    letter |= {"attempts": 20, "error": "500", "time": "2026-02-01T00:00:00Z"}
    (folder / "chat.dead.msg_a.json").write_text(json.dumps(letter))
    shown = run("webhooks", "status").out
    assert "no sender is up" in shown
    assert f"msg_a  {entry.id}  20 attempts: 500" in shown
    command = [sys.executable, "-m", "synapse", "webhooks", "run"]
    with subprocess.Popen(command, env=dict(os.environ), stderr=subprocess.PIPE) as sender:
        assert wait_for(lambda: "a sender is up" in run("webhooks", "status").out)
        assert run("webhooks", "resend", "msg_a").out == "1 to be sent again\n"
        assert wait_for(lambda: receiver.taken)
        sender.send_signal(signal.SIGTERM)
        assert (sender.wait(), sender.stderr.read()) == (0, b"sending; Ctrl-C ends it\n")
    assert receiver.taken[0][0]["webhook-id"] == "msg_a"
    (row,) = json.loads(run("webhooks", "status", "--json").out)["webhooks"]
    assert (row["sent"], row["dead"], row["pending"]) == (1, [], 0)
    assert run("webhooks", "resend", "msg_a").code == NotFound.exit_code
    assert run("webhooks", "resend", "chat").out == "0 to be sent again\n"


def test_the_doctor_names_every_target(root, run):
    assert "nothing is sent, and nothing comes in" in run("doctor", "--security").out
    declare(root, "https://hooks.example/in", **{"as": "eng"})
    with (root / "synapse.yaml").open("a") as file:
        file.write(
            "hooks:\n"
            f"  alarm: {{verify: token, secret: {VARIABLE}, agent: eng,"
            " namespace: team/alarms, body: '{text}'}\n"
            "  broken: {verify: token}\n"
        )
    shown = " ".join(run("doctor", "--security").out.split())
    assert "chat sends what eng may see to https://hooks.example/in: ready" in shown
    assert f"alarm: who knows {VARIABLE} writes as eng in team/alarms" in shown
    assert "hooks.broken: agent is missing" in shown


@pytest.mark.parametrize("words", [("test",), ("resend",), ("send",)])
def test_a_line_that_is_not_whole_is_refused(root, run, words):
    assert run("webhooks", *words).code == 64


def test_a_run_may_not(root, run, monkeypatch):
    monkeypatch.setenv("SYNAPSE_RUN", "r1")
    monkeypatch.setenv("SYNAPSE_AGENT", "eng")
    assert run("webhooks").code == Forbidden.exit_code


def test_a_workspace_that_may_not_be_written_is_read(root, run):
    with Receiver() as server:
        declare(root, server.url)
        assert run("webhooks", "status").code == 0
        assert not (root / "runs/.webhooks").exists()
