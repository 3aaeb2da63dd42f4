"""Agents in processes of their own, under the supervisor: bound to their run, ended with it."""

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest

import synapse
from orchestrator import Supervisor, Task
from orchestrator.engines.process import Process
from orchestrator.runs.files.folder import Folder
from tests.trusted import trust

CLIENT = """
import os, subprocess, sys, time
prompt = sys.stdin.read()
def shell(*words):
    return subprocess.run(["synapse", *words], capture_output=True, text=True)
{body}
"""


@pytest.fixture
def mem(tmp_path):
    with synapse.init(str(tmp_path / "ws")) as memory:
        memory.register(synapse.Agent("eng-a", department="web"))
        memory.register(synapse.Agent("boss", role="cto"))
        yield memory


@pytest.fixture
def client(tmp_path):
    def make(body, **options):
        script = tmp_path / "client.py"
        script.write_text(CLIENT.format(body=body))
        return Process([sys.executable, str(script)], grace=0.5, **options)

    return make


def run(mem, engine, **more):
    with Supervisor(mem, engine=engine) as supervisor:
        return supervisor.run(
            Task("Fix the page", "eng-a", project="web", folder=mem.store.root, **more)
        )


def test_a_client_writes_as_its_agent_within_its_run(mem, client):
    body = """
done = shell("write", "--namespace", "status/web", "half way")
other = shell("write", "--from", "boss", "--namespace", "decisions/api", "I am the boss")
print("wrote", done.returncode, other.returncode)
print(os.getcwd())
"""
    result = run(mem, client(body))
    assert result.status == "done", result
    assert result.text.startswith("wrote 0 4")
    assert Path(result.text.splitlines()[1]) == Path(mem.store.root)
    (entry,) = (
        each
        for each in mem.as_agent("boss").read(namespace="status/web")
        if each.body == "half way"
    )
    assert entry.author == "eng-a"
    assert len(mem.as_agent("boss").read(namespace="decisions/*")) == 0
    folder = Path(mem.store.root, "runs", result.run)
    assert "wrote 0 4" in (folder / "transcript.log").read_text()


def test_a_client_finds_the_workspace_from_any_folder(client, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    synapse.init("ws").close()
    # by a path that means something else in another folder
    with synapse.open("ws") as mem:
        mem.register(synapse.Agent("eng-a", department="web"))
        body = (
            'os.chdir("/"); print(os.environ["SYNAPSE_ROOT"], shell("where").stdout,'
            ' shell("read").returncode)'
        )
        result = run(mem, client(body))
    assert result.text.split()[0] == str(tmp_path / "ws")
    assert result.text.split()[1] == str(tmp_path / "ws")
    assert result.text.split()[-1] == "0"


def test_a_client_gets_the_view_and_the_task(mem, client):
    mem.as_agent("boss").append("Use /v2/users", "decisions/api", priority="critical")
    result = run(mem, client("print(prompt)"))
    assert "Use /v2/users" in result.text
    assert "## Your Task\nFix the page" in result.text
    assert "synapse write" in result.text  # it is told of the shell


def test_a_blocker_that_a_client_reports_blocks_its_run(mem, client):
    body = (
        'shell("write", "--namespace", "blockers/web", "--priority", "critical", "No'
        ' key"); print("I stop")'
    )
    result = run(mem, client(body))
    assert (result.status, result.text) == ("blocked", "I stop")
    assert mem.as_agent("boss").get(result.entry).body == "No key"


def test_a_client_that_fails_says_how(mem, client):
    result = run(mem, client("print('half'); sys.exit('the disk is gone')"))
    assert result.status == "failed"
    assert "the disk is gone" in mem.as_agent("boss").get(result.entry).body


def test_a_client_ends_with_its_run(mem, client, tmp_path):
    pid = tmp_path / "pid"
    body = (
        f"open({str(pid)!r}, 'w').write(str(os.getpid()) + chr(10)); print('begun',"
        f" flush=True); time.sleep(60)"
    )

    async def stopped():
        async with supervisor:
            run = await supervisor.start(Task("Fix", "eng-a", project="web"))
            for _ in range(400):
                await asyncio.sleep(0.025)
                if pid.exists() and pid.read_text().endswith("\n"):
                    break
            await supervisor.stop(run.id, "enough")
            return await supervisor.result(run)

    with Supervisor(mem, engine=client(body)) as supervisor:
        result = asyncio.run(stopped())
    assert (result.status, result.why) == ("stopped", "enough")
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


def test_what_is_critical_reaches_a_client_in_its_next_session(mem, client, tmp_path):
    body = f"""
first = not os.path.exists({str(tmp_path / "been")!r})
open({str(tmp_path / "been")!r}, "w").close()
if first:
    time.sleep(0.7)
print("first" if first else prompt)
"""

    async def told():
        async with supervisor:
            work = asyncio.create_task(supervisor.spawn(Task("Fix", "eng-a", project="web")))
            while not (tmp_path / "been").exists():
                await asyncio.sleep(0.02)
            mem.as_agent("boss").append("Stop using v1", "decisions/api", priority="critical")
            return await work

    with Supervisor(mem, engine=client(body)) as supervisor:
        result = asyncio.run(told())
        lines = list(
            supervisor.run_store.folder(supervisor.run_store.known(result.run)).lines(
                "ledger.jsonl"
            )
        )
    assert "Stop using v1" in result.text
    # it keeps no sessions: it is told what it said before
    assert "first" in result.text
    assert len(lines) == 2
    assert '"retry"' in lines[1]


def test_engines_are_declared_in_the_settings(tmp_path, client):
    script = client("print('declared')").command
    with synapse.init(str(tmp_path / "own")) as memory:
        memory.register(synapse.Agent("eng-a", engine="mine"))
    settings = tmp_path / "own" / "synapse.yaml"
    settings.write_text(
        f"{settings.read_text()}engines:\n  mine:\n    kind: process\n    command: {list(script)}\n"
    )
    trust(tmp_path / "own")
    with synapse.open(str(tmp_path / "own")) as memory, Supervisor(memory) as supervisor:
        assert supervisor.run(Task("Work", "eng-a")).text == "declared"


def test_what_a_lost_session_is_told_again_is_counted_as_retry(mem, client, tmp_path):
    """The client could resume, and did not have the session any more: the step began it again."""
    body = f"""
import json
been, lost = os.path.exists({str(tmp_path / "been")!r}), "--resume" in sys.argv
open({str(tmp_path / "been")!r}, "w").close()
if lost and {{lose}}:
    sys.exit("no such session")
print(json.dumps({{{{"text": "Fine." if been else "", "session": "s-1"}}}}))
"""
    labels = {}
    for lose in (True, False):
        rules = ({"text": "text", "session": "session"},)
        engine = client(
            body.format(lose=lose), form="lines", rules=rules, resume=["--resume", "{session}"]
        )
        engine.client = engine.client._replace(lost="no such session")
        result = run(mem, engine)
        (tmp_path / "been").unlink()
        lines = list(Folder(mem.store.root, result.run).lines("ledger.jsonl"))
        labels[lose] = [{segment[0] for segment in json.loads(line)["in"]} for line in lines]
    assert (result.status, len(lines)) == ("done", 2)
    # the second run is shown what the first one left
    assert labels[True] == [labels[False][0] - {"view"}, {"retry"}]
    assert labels[False][1] > {"retry", "task"}
