"""Calls of a model that were sent and never answered, since their process was killed: each stands
in the ledger of its run once, and in `stats`. Real processes; the provider is a server on loopback
that counts what it is asked.
"""

import json
import os
import signal
import subprocess
import sys
import time
from itertools import count

import pytest

import synapse
from orchestrator import Supervisor, Task
from orchestrator.engines.openai import OpenAI
from orchestrator.nightly.semantic.model import Asker
from orchestrator.runs.files import ledger
from orchestrator.runs.files.folder import LEDGER, Folder
from tests.crash import kill
from tests.crash.lives import begin
from tests.model_server import ModelServer

SETTINGS = "prices:\n  gpt-5: {input: 1.0, output: 8.0}\n"


class Provider(ModelServer):
    """Answers in two turns; a request of `held` stays open, its client is killed meanwhile."""

    def __init__(self):
        super().__init__(self.answer, count=len)
        self.held = False

    def answer(self, seen):
        while self.held:
            time.sleep(0.005)
        return "Built."

    @property
    def served(self):
        return len(self.journal)


@pytest.fixture
def server():
    with Provider() as provider:
        yield provider
        provider.held = False


@pytest.fixture
def root(tmp_path):
    return workspace(tmp_path / "ws")


def workspace(path):
    with synapse.init(str(path)) as memory:
        memory.register(synapse.Agent("eng"))
    with (path / "synapse.yaml").open("a") as file:
        file.write(SETTINGS)
    return str(path)


def live(root, url):
    """Go on with the run, or begin it; once it has ended there is nothing to do."""
    with synapse.open(root) as memory:
        engine = OpenAI(base_url=f"{url}/v1", api_key="any", model="gpt-5", max_retries=0)
        with Supervisor(memory, engine=engine, attempts=1_000) as boss:
            results = boss.resume()
            if not boss.run_store.runs.all():
                results = [boss.run(Task("It", "eng"))]
            assert {result.status for result in results} <= {"done"}


def consolidate(root, url):
    """Ask the model once, as a night does."""
    import asyncio

    async def ask(memory):
        folder = Folder(root, "consolidation-2026-02-01").make()
        engine = OpenAI(base_url=f"{url}/v1", api_key="any", model="gpt-5", max_retries=0)
        asker = Asker(memory.store, root, folder, engine)
        await asker.ask("You sort.", "Sort this.")
        await asker.close()

    with synapse.open(root) as memory:
        asyncio.run(ask(memory))


def begun(work, root, server):
    return begin("-c", f"from {__name__} import {work.__name__} as w; w(*{(root, server.url)!r})")


def done(work, root, server):
    """Live to the end, in a process of its own."""
    _, err = (life := begun(work, root, server)).communicate(timeout=60)
    assert life.returncode == 0, err


def killed_at_the_call(work, root, server):
    """Kill a life of this work once the provider has its request."""
    server.held, served = True, server.served
    life = begun(work, root, server)
    until = time.monotonic() + 60
    while server.served == served:
        assert life.poll() is None, life.communicate()
        assert time.monotonic() < until
        time.sleep(0.005)
    life.send_signal(signal.SIGKILL)
    life.communicate(timeout=60)
    assert life.returncode == -signal.SIGKILL
    server.held = False


def lines_of(root, run=None):
    (run,) = [run] if run else [name for name in os.listdir(f"{root}/runs") if "eng-" in name]
    return ledger.read(Folder(root, run).lines(LEDGER))


def stats(root):
    words = [sys.executable, "-m", "orchestrator", "--root", root, "stats"]
    told = subprocess.run([*words, "--json"], capture_output=True, text=True, check=True).stdout
    said = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    return json.loads(told)["all"], said


@pytest.mark.parametrize("times", [1, 3])
def test_a_call_that_nobody_answered_stands_in_the_books_once(root, server, times):
    for _ in range(times):
        killed_at_the_call(live, root, server)
    done(live, root, server)
    lines = lines_of(root)
    stops = [line.stop for line in lines]
    assert (server.served, stops) == (times + 1, ["unanswered"] * times + ["done"])
    answered = lines[-1].usage
    for line in lines[:-1]:
        assert (line.usage.estimated, line.usage.output_tokens, line.got) == (True, 0, ())
        assert 0 < line.usage.input_tokens <= 2 * answered.input_tokens
        assert line.cost == pytest.approx(line.usage.input_tokens / 1e6)
    total, said = stats(root)
    tokens = sum(line.usage.input_tokens for line in lines[:-1])
    cost = sum(line.cost for line in lines[:-1])
    assert total["unanswered"] == {"calls": times, "tokens": tokens, "cost": pytest.approx(cost)}
    assert total["tokens"] == tokens + answered.input_tokens + answered.output_tokens
    count = "1 call was" if times == 1 else f"{times} calls were"
    assert f"{count} sent and never answered" in said


def test_looking_again_books_it_no_second_time(root, server):
    """While nobody has gone on with the run, `stats` says what is known."""
    killed_at_the_call(live, root, server)
    for _ in range(2):
        with synapse.open(root) as memory, Supervisor(memory, engine="scripted") as other:
            other.run_store.costs.forget_the_dead()
        assert [line.stop for line in lines_of(root)] == ["unanswered"]
        assert stats(root)[0]["unanswered"]["calls"] == 1
    done(live, root, server)
    assert [line.stop for line in lines_of(root)] == ["unanswered", "done"]


def test_a_call_of_a_night_stands_in_its_books(root, server):
    killed_at_the_call(consolidate, root, server)
    done(consolidate, root, server)
    lines = lines_of(root, "consolidation-2026-02-01")
    assert [line.stop for line in lines] == ["unanswered", "done"]


@pytest.mark.parametrize("most", [6, pytest.param(200, marks=pytest.mark.soak)])
def test_wherever_it_is_killed_what_was_served_is_in_the_books(tmp_path, server, most):
    """A call that was about to be sent may stand there too: nobody knows better."""
    numbers, served = count(), []

    def fresh():
        served.append(server.served)
        return workspace(tmp_path / f"ws{next(numbers)}"), server.url

    for at, (root, _) in kill.kills(live, fresh, most):
        first = server.served - served[-1]
        done(live, root, server)
        lines = lines_of(root)
        stops = [line.stop for line in lines]
        paid = server.served - served[-1]
        assert paid <= len(stops) <= paid + (first == 0), (at, stops)
        assert stops.count("done") == 1, (at, stops)
