"""The daemon sends webhooks, from when some are declared on, and beside no other sender."""

import json
import os
import subprocess
import sys
import time

import pytest

import synapse
from tests.orchestrator.test_daemon import SERVE
from tests.synapse.webhooks.conftest import declare, receiver, root, wait_for

__all__ = ["receiver", "root"]  # fixtures


@pytest.fixture
def daemon(root):
    process = subprocess.Popen([sys.executable, "-c", SERVE, str(root)], env=dict(os.environ))
    yield process
    process.kill()
    process.wait(10)


def test_the_daemon_sends_what_is_declared_while_it_is_up(root, receiver, daemon):
    from orchestrator.daemon import is_up
    from orchestrator.plugin.daemon import ask

    assert wait_for(lambda: is_up(str(root)))
    declare(root, receiver.url)
    assert wait_for(lambda: (root / "runs/.webhooks/chat.json").exists())
    with synapse.open(str(root)) as mem:
        entry = mem.as_agent("eng").append("text", "api/x", priority="critical")
    (root / "entries/api").mkdir(parents=True, exist_ok=True)
    (root / "entries/api/dropped.md").write_text(
        "---\nid: x\nfrom: eng\ntimestamp: 2026-02-01T01:00:00Z\nnamespace: api\npriority: critical\n---\ndropped by cat\n"
    )
    assert wait_for(lambda: len(receiver.taken) == 2)
    assert json.loads(receiver.taken[0][1])["data"]["id"] == entry.id
    assert "dropped by cat" in receiver.bodies()
    assert set(receiver.ids().values()) == {1}
    ask(str(root), "down")
    assert daemon.wait(10) == 0
    time.sleep(0.1)
    state = json.loads((root / "runs/.webhooks/chat.json").read_text())
    assert state["sent"] == 2


def test_a_run_that_waits_for_a_person_is_sent(root, receiver, daemon):
    """Once, with the rights of any other entry, and with the line that answers it."""
    from orchestrator import Supervisor, Task
    from orchestrator.daemon import is_up
    from orchestrator.engines.scripted import Scripted

    assert wait_for(lambda: is_up(str(root)))
    declare(root, receiver.url)
    assert wait_for(lambda: (root / "runs/.webhooks/chat.json").exists())
    engine = Scripted(lambda seen: "Blocked: no key")
    with Supervisor(str(root), engine=engine) as boss:
        result = boss.run(Task("Work", "eng", project="web"))
    assert result.waiting
    assert wait_for(lambda: len(receiver.taken) == 2)
    bodies = [json.loads(body) for _, body, *_ in receiver.taken]
    assert {body["type"] for body in bodies} == {"entry.created", "run.waiting"}
    (waits,) = [body["data"] for body in bodies if body["type"] == "run.waiting"]
    assert waits["id"] == result.entry
    assert waits["answer"] == f'orchestrator answer {result.entry} "..."'
    assert set(receiver.ids().values()) == {1}
