"""The engine for agents of A2A, against a real one on loopback."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time

import pytest
from a2a.types import TaskState

import synapse
from orchestrator import Supervisor, Task
from orchestrator.engines.protocol import (
    Broken,
    Message,
    NoEngine,
    Place,
    Rejected,
    Request,
    Unavailable,
    load,
)
from synapse import Agent
from tests.a2a_agent import PartnerServer


@pytest.fixture
def mem(tmp_path):
    with synapse.init(str(tmp_path / "ws")) as memory:
        memory.register(Agent("eng-a"))
        yield memory


def asking(text, output=None, session=None):
    place = Place(".", output=str(output)) if output else None
    return Request(
        "You are it.", (Message("user", text, "task"),), key="r/1", place=place, session=session
    )


def step(engine, request):
    async def take():
        try:
            return await engine.step(request, asyncio.Event())
        finally:
            await engine.close()

    return asyncio.run(take())


@pytest.mark.parametrize("streaming", [True, False])
def test_a_run_is_a_task_whose_artifacts_come_back(mem, streaming):
    with (
        PartnerServer(streaming) as server,
        Supervisor(mem, engine=load("a2a", url=server.url)) as here,
    ):
        result = here.run(Task("Fix the page", "eng-a", project="web"))
    assert (result.status, result.text) == ("done", "It is done, 1."), result
    assert (result.usage.input_tokens, result.usage.output_tokens) == (120, 30)
    assert result.cost == 0.25
    assert len(server.partner.asked) == 1
    assert "Fix the page" in server.partner.asked[0]
    assert "shell" not in server.partner.asked[0]
    bodies = [entry.body for entry in mem.as_agent("operator").read(namespace="status/web")]
    assert any("It is done, 1." in body for body in bodies)


@pytest.mark.parametrize("streaming", [True, False])
def test_a_task_that_takes_longer_is_waited_for(streaming):
    with PartnerServer(streaming) as server:
        done = threading.Timer(1, server.partner.go.set)
        done.start()
        assert step(load("a2a", url=server.url), asking("slow")).text == "It is done, 1."
        done.join()


def test_a_later_step_goes_on_in_its_context():
    with PartnerServer() as server:
        first = step(load("a2a", url=server.url), asking("One"))
        step(load("a2a", url=server.url), asking("Two", session=first.session))
    assert len(set(server.partner.contexts)) == 1


def test_without_a_report_the_usage_is_estimated():
    with PartnerServer() as server:
        for told in (None, {"input_tokens": -1, "output_tokens": 2}, {"input_tokens": "many"}):
            server.partner.usage = told
            assert step(load("a2a", url=server.url), asking("One")).usage.estimated


def test_how_a_task_may_end():
    with PartnerServer() as server:
        partner = server.partner
        partner.state, partner.why = TaskState.TASK_STATE_FAILED, "no disk"
        with pytest.raises(Broken, match="no disk") as failed:
            step(load("a2a", url=server.url), asking("One"))
        assert failed.value.usage.input_tokens == 120
        partner.state = TaskState.TASK_STATE_REJECTED
        with pytest.raises(Rejected, match="no disk"):
            step(load("a2a", url=server.url), asking("One"))
        partner.state, partner.why = TaskState.TASK_STATE_INPUT_REQUIRED, "Which page?"
        assert step(load("a2a", url=server.url), asking("One")).blocked == "Which page?"


def test_who_does_not_wait_any_more_cancels_the_task():
    with PartnerServer() as server:
        engine = load("a2a", url=server.url, timeout=2)
        with pytest.raises(Broken, match="did not end within 2 s"):
            step(engine, asking("slow"))
        assert server.partner.cancelled == 1


def test_what_a_card_may_not_say_and_who_is_not_there(tmp_path):
    with PartnerServer(elsewhere="http://192.0.2.1") as server:
        with pytest.raises(Rejected, match="names no address"):
            step(load("a2a", url=server.url), asking("One"))
        with pytest.raises(Rejected, match="was trusted as a public address"):
            step(load("a2a", url=server.url, trusted="public"), asking("One"))
    with pytest.raises(Unavailable) as gone:
        step(load("a2a", url=server.url), asking("One"))
    assert not gone.value.sent
    with pytest.raises(NoEngine, match="needs the address"):
        load("a2a")


def test_a_step_that_is_taken_again_finds_its_task(tmp_path):
    output = tmp_path / "transcript"
    with PartnerServer() as server:
        first = step(load("a2a", url=server.url), asking("One", output))
        again = step(load("a2a", url=server.url), asking("One", output))
        assert len(server.partner.asked) == 1
    assert again == first
    with PartnerServer() as other:  # one that has forgotten it
        anew = step(load("a2a", url=other.url), asking("One", output))
        assert (anew.anew, len(other.partner.asked)) == (True, 1)


PROGRAM = """
import sys
import synapse
from orchestrator import Supervisor, Task
from orchestrator.engines.protocol import load
with synapse.open(sys.argv[1]) as memory:
    with Supervisor(memory, engine=load("a2a", url=sys.argv[2])) as supervisor:
        result = supervisor.run(Task("A slow page", "eng-a"))
        print(result.status, result.text)
"""


@pytest.mark.parametrize("streaming", [True, False])
def test_a_run_that_is_killed_goes_on_with_its_task_and_pays_once(tmp_path, mem, streaming):
    words = [sys.executable, "-c", PROGRAM, mem.store.root]
    with PartnerServer(streaming) as server:
        with subprocess.Popen([*words, server.url], stdout=subprocess.PIPE, text=True) as first:
            until = time.monotonic() + 60
            while not noted(mem.store.root):
                assert first.poll() is None
                assert time.monotonic() < until
                time.sleep(0.02)
            first.send_signal(signal.SIGKILL)
        assert server.partner.cancelled == 0
        server.partner.go.set()
        done = subprocess.run(
            [*words, server.url], capture_output=True, text=True, timeout=120, check=False
        )
        assert done.stdout == "done It is done, 1.\n", done.stderr
        assert len(server.partner.asked) == 1


def noted(root):
    """Whether a run has noted the task that the agent gave it."""
    for folder, _, names in os.walk(os.path.join(root, "runs")):
        if "transcript.log" in names:
            with open(os.path.join(folder, "transcript.log"), encoding="utf-8") as file:
                if '"task": "' in file.read().replace('"task": ""', ""):
                    return True
    return False
