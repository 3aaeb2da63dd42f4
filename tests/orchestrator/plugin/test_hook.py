"""The hook's program, as a client starts it: whatever it is given, the client goes on."""

import asyncio
import fcntl
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

import synapse
from orchestrator import Supervisor, plugin
from orchestrator.daemon import Daemon
from orchestrator.engines.scripted import Scripted
from orchestrator.plugin import hook
from orchestrator.plugin.hook import DAEMON_WITHIN, LARGEST, LONGEST_LOG
from orchestrator.plugin.sessions import state
from orchestrator.runs.records import Runs
from tests.orchestrator.plugin.conftest import context

HOOK = os.path.abspath(os.path.join(os.path.dirname(plugin.__file__), "hook.py"))


# Gives up the right to write anywhere, and becomes the program that is named.
CONFINED = (
    "import os, sys; from confined import landlock; landlock() or sys.exit(1);"
    " os.execvp(sys.argv[1], sys.argv[1:])"
)


def started(folder, *words, env=None):
    """Start the hook's program as a client does."""
    own = {"PATH": os.environ["PATH"], "HOME": folder, "CI": "1", **(env or {})}
    own.setdefault("SYNAPSE_HOME", os.environ["SYNAPSE_HOME"])  # that of the daemon's here
    command = [sys.executable, "-I", "-S", HOOK, *(words or ("claude-code",))]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, env=own, cwd=folder, **pipes)


def run(folder, text, *words, env=None):
    """Return the exit code and what the program printed and complained of."""
    process = started(folder, *words, env=env)
    out, err = process.communicate(
        text if isinstance(text, bytes) else json.dumps(text).encode(), timeout=60
    )
    return process.returncode, out.decode(), err.decode()


def event(folder, name="SessionStart", **fields):
    return {"session_id": "s1", "cwd": folder, "hook_event_name": name, **fields}


def log(folder):
    """Return the lines of the hooks' logs, of the workspace and of the home folder."""
    paths = (f"{folder}/shared-memory/runs/.hooks.log", f"{folder}/.local/state/synapse/hooks.log")
    return "".join(Path(path).read_text(encoding="utf-8") for path in paths if os.path.exists(path))


@pytest.fixture
def folder(memory):
    memory.as_agent("boss").append("Call /v2/users.", "decisions/api", priority="critical")
    return os.path.dirname(memory.store.root)


def test_it_gives_the_view_and_exits_with_0(folder):
    code, out, err = run(folder, event(folder, source="startup"))
    assert (code, err) == (0, "")
    assert "Call /v2/users." in context(json.loads(out))
    assert log(folder) == ""


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\xff\xfe\x00garbage",
        b"[1, 2",
        b"[]",
        b"null",
        b'{"hook_event_name": 7, "session_id": [], "cwd": {}}',
        b'{"hook_event_name": "SessionStart", "session_id": "s1", "cwd": "/nowhere/at/all"}',
        (
            b'{"hook_event_name": "PreToolUse", "session_id": "s1", "tool_name": [1],'
            b' "tool_input": "x", "agent_id": 3}'
        ),
        b'{"hook_event_name": "SubagentStop", "session_id": "\\ud800", "agent_id": "\\ud800", '
        b'"last_assistant_message": "\\ud800"}',
        b"[" * 200_000,
        b'{"hook_event_name": "SessionStart", "session_id": "' + b"s" * 100_000 + b'"}',
    ],
)
def test_garbage_is_answered_with_nothing_and_0(folder, text):
    code, out, err = run(folder, text)
    assert (code, err) == (0, "")
    assert out == "" or json.loads(out)


def test_a_template_that_asks_for_more_than_names_is_rendered_too(folder, memory):
    prompts = Path(memory.store.root) / "prompts"
    prompts.mkdir()
    template = (
        "{% if agent %}Of {{ agent.id|upper }}:\n{% endif %}{{ opening }}{{ view }}{{ closing -}}"
    )
    (prompts / "client.md.j2").write_text(template)
    _, out, _ = run(folder, event(folder, source="startup"))
    assert context(json.loads(out)).startswith("Of LEAD:\n<memory-")
    assert log(folder) == ""


def test_half_a_surrogate_pair_is_stored_as_text(folder, memory):
    for name, more in (
        ("SubagentStart", {}),
        ("SubagentStop", {"last_assistant_message": "It is \ud800 done."}),
    ):
        assert run(folder, event(folder, name, agent_id="a1", agent_type="\ud800", **more))[0] == 0
    assert [found.status for found in Runs(memory.store).all(agent="engineer")] == ["done"]


def test_a_character_that_no_entry_may_have_costs_no_entry(folder, memory):
    agent = {"agent_id": "a1", "agent_type": "general-purpose"}
    run(folder, event(folder, "SubagentStart", **agent))
    run(
        folder,
        event(folder, "SubagentStop", **agent, last_assistant_message="The limit\x00 is 17."),
    )
    assert log(folder) == ""
    assert "is 17." in next(
        each.fields["summary"] for each in Runs(memory.store).all(state="ended")
    )


def test_a_link_in_a_workspace_leads_no_hook_astray(folder):
    os.makedirs(f"{folder}/shared-memory/runs", exist_ok=True)
    for name in ("hooks.log", "clients"):
        target = os.path.join(folder, name)
        os.symlink(target, f"{folder}/shared-memory/runs/.{name}")
    os.mkdir(f"{folder}/clients")
    mine = Path(folder, "hooks.log")
    mine.write_text("mine" * LONGEST_LOG, encoding="utf-8")
    run(folder, event(folder, session_id="s2"))
    run(folder, b"[")
    assert mine.read_text(encoding="utf-8") == "mine" * LONGEST_LOG
    assert os.listdir(f"{folder}/clients") == []


def test_too_much_is_left_unread(folder):
    code, out, _ = run(folder, b'{"x": "' + b"a" * (LARGEST + 10) + b'"}')
    assert (code, out) == (0, "")
    assert "more than" in log(folder)


def test_an_event_that_never_ends_is_not_waited_for(folder, monkeypatch):
    process = started(folder)
    process.stdin.write(b'{"hook_event')
    process.stdin.flush()
    assert process.wait(timeout=30) == 0
    assert process.stdout.read() == b""
    assert "did not come to its end" in log(folder)
    for pipe in (process.stdin, process.stdout, process.stderr):
        pipe.close()


def test_without_a_workspace_nothing_happens(tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    assert run(str(empty), event(str(empty))) == (0, "", "")
    assert os.listdir(empty) == []


def test_an_unknown_client_is_a_line_in_the_log(folder):
    assert run(folder, event(folder), "emacs")[:2] == (0, "")
    assert "no client 'emacs' is known" in log(folder)


def test_a_run_of_our_own_supervisor_is_left_alone(folder):
    assert run(folder, event(folder), env={"SYNAPSE_RUN": "eng-1:1"}) == (0, "", "")


def test_the_environment_names_the_agent_of_a_session(folder, memory):
    memory.register(synapse.Agent("ada", role="engineer"))
    run(folder, event(folder), env={"SYNAPSE_AGENT": "ada"})
    assert [found.agent for found in Runs(memory.store).all()] == ["ada"]


def test_where_nothing_can_be_written_the_view_is_given(folder, memory):
    memory.register(synapse.Agent("lead", role="project-lead"))
    memory.close()
    probe = subprocess.run(
        [sys.executable, "-c", CONFINED, "true"], cwd=Path(__file__).parents[2] / "crash"
    )
    if probe.returncode:
        pytest.skip("this system has no way to take the right to write from a process (landlock)")
    words = [sys.executable, "-c", CONFINED, sys.executable, "-I", "-S", HOOK, "claude-code"]
    before = sorted(os.walk(folder))
    done = subprocess.run(
        words, input=json.dumps(event(folder)).encode(), capture_output=True, timeout=60,
        cwd=Path(__file__).parents[2] / "crash",
        env={"PATH": os.environ["PATH"], "HOME": folder, "CI": "1"},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, b"")
    assert "Call /v2/users." in context(json.loads(done.stdout))
    assert sorted(os.walk(folder)) == before


def test_a_damaged_state_is_begun_anew(folder, memory):
    run(folder, event(folder))
    path = state.path_of(memory.store.root, "claude-code", "s1")
    for text in (
        "",
        "{",
        "[]",
        '{"workers": 3}',
        '{"workers": {"": {"agent": 7}}, "client": "x", "session": "s1"}',
    ):
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        code, out, _ = run(folder, event(folder))
        assert code == 0
        assert "Call /v2/users." in context(json.loads(out))


@pytest.mark.parametrize("kind", ["stale", "silent", "rude"])
def test_a_dead_or_hanging_daemon_is_no_matter(folder, kind):
    path = daemon_file(folder, "sock")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    here = os.getcwd()
    os.chdir(os.path.dirname(path))
    server = socket.socket(socket.AF_UNIX)
    server.bind(os.path.basename(path))
    os.chdir(here)
    if kind != "stale":
        server.listen()
    if kind == "rude":

        def serve():
            line, _ = server.accept()
            line.recv(100)
            line.sendall(b"no JSON\n")
            line.close()

        threading.Thread(target=serve, daemon=True).start()
    try:
        code, out, err = run(folder, event(folder))
    finally:
        server.close()
    assert (code, err) == (0, "")
    assert "Call /v2/users." in context(json.loads(out))


def test_a_daemon_that_is_late_answers_nothing_and_gives_nothing_away(folder, memory, monkeypatch):
    """The desk of the daemon is busy until the hook has answered itself."""
    memory.close()
    monkeypatch.setenv("XDG_STATE_HOME", f"{folder}/.local/state")

    async def story():
        with (
            synapse.open(f"{folder}/shared-memory") as own,
            Supervisor(own, engine=Scripted(lambda seen: "Done.")) as supervisor,
        ):
            daemon = Daemon(f"{folder}/shared-memory", supervisor)
            up = asyncio.create_task(daemon.run())
            while not os.path.exists(daemon.socket):
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.3)
            busy = asyncio.create_task(supervisor.memory_thread(time.sleep, 3.5))
            await asyncio.sleep(0.1)
            done = await asyncio.to_thread(run, folder, event(folder))
            await busy
            again = await asyncio.to_thread(run, folder, event(folder, source="compact"))
            daemon.down.set()
            await up
            return done, again

    for code, out, err in asyncio.run(story()):
        assert (code, err) == (0, "")
        assert "Call /v2/users." in context(json.loads(out))
    assert log(folder) == ""


def test_the_daemon_answers_where_one_is_up(folder, memory):
    root = memory.store.root
    daemon = up(root)
    try:
        code, out, err = run(folder, event(folder), "claude-code", env={"PYTHONHOME": ""})
        assert (code, err) == (0, "")
        assert "Call /v2/users." in context(json.loads(out))
        big = event(
            folder,
            "PostToolUse",
            tool_name="Bash",
            tool_input={},
            tool_use_id="c",
            tool_response="x" * 10**6,
        )
        assert run(folder, big) == (0, "", "")
        assert log(folder) == ""
    finally:
        daemon.terminate()
        daemon.wait(20)


def daemon_file(folder, kind):
    """Return a file of the daemon that the hooks of a workspace ask, whose home is the folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", f"{folder}/.local/state")
        return hook.daemon_file(f"{folder}/shared-memory", kind)


def up(root):
    """Return a daemon of a workspace, once it listens."""
    folder = os.path.dirname(root)
    words = [sys.executable, "-m", "orchestrator", "--root", root, "up", "--engine", "scripted"]
    env = os.environ | {"XDG_STATE_HOME": f"{folder}/.local/state"}
    process = subprocess.Popen(words, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    end, path = time.monotonic() + 30, daemon_file(folder, "sock")
    while not os.path.exists(path) and time.monotonic() < end:
        time.sleep(0.05)
    return process


def change(root, client="claude-code", **fields):
    """Change what the state of the session says; of another client, in a file of its own."""
    path = state.path_of(root, "claude-code", "s1")
    with open(path, encoding="utf-8") as file:
        known = json.load(file)
    with open(state.path_of(root, client, "s1"), "w", encoding="utf-8") as file:
        json.dump({**known, "client": client, **fields}, file)


def test_a_daemon_outlives_what_is_wrong_with_its_clients(folder, memory):
    root = memory.store.root
    run(folder, event(folder))
    change(root, "codex")  # a live session that the daemon looks at
    change(root, holder="client-999999999-1")  # and one that is to be ended
    with open(f"{root}/synapse.yaml", "a", encoding="utf-8") as file:
        file.write("\nclients: {lead: Not A Name}\n")
    daemon = up(root)
    try:
        memory.as_agent("boss").append("Stop.", "decisions/api", priority="critical")
        time.sleep(2)  # a few looks of the daemon
        assert daemon.poll() is None
        assert run(folder, event(folder)) == (0, "", "")
    finally:
        daemon.terminate()
        daemon.wait(20)


def test_what_a_slow_daemon_did_not_answer_in_time_is_given_once(folder, memory):
    root = memory.store.root
    run(folder, event(folder))
    daemon = up(root)
    try:
        id = memory.as_agent("boss").append("Stop.", "decisions/api", priority="critical").id
        after = event(folder, "PostToolUse", tool_name="Bash", tool_input={}, tool_response="x")
        with state.hold_lock(f"{state.path_of(root, 'claude-code', 's1')}.lock"):
            process = started(folder)
            process.stdin.write(json.dumps(after).encode())
            process.stdin.close()
            time.sleep(DAEMON_WITHIN + 1)
        first = process.stdout.read().decode()
        assert process.wait(20) == 0
        process.stdout.close()
        process.stderr.close()
        _, second, _ = run(folder, after)
        assert f"{first}{second}".count(f"{id} (") == 1
    finally:
        daemon.terminate()
        daemon.wait(20)


@pytest.mark.parametrize("many", [4, pytest.param(12, marks=pytest.mark.soak)])
def test_many_hooks_at_once_give_each_conversation_everything_once(folder, memory, many):
    run(folder, event(folder))
    agents = [f"a{n}" for n in range(many)]

    def one(agent):
        more = {"agent_id": agent, "agent_type": "general-purpose"}
        texts = [run(folder, event(folder, "SubagentStart", **more))]
        for n in range(2):
            call = {
                "tool_name": "Bash",
                "tool_input": {},
                "tool_use_id": f"{agent}-{n}",
                "tool_response": "x",
            }
            texts.append(run(folder, event(folder, "PostToolUse", **more, **call)))
        return agent, texts

    with ThreadPoolExecutor(many) as pool:
        futures = [pool.submit(one, agent) for agent in agents]
        ids = [
            memory.as_agent("boss").append(f"Rule {n}", "decisions/x", priority="critical").id
            for n in range(10)
        ]
        told = dict(future.result() for future in futures)
    assert {code for texts in told.values() for code, _, _ in texts} == {0}
    found = Runs(memory.store).all(state="running")
    assert len({each.agent for each in found}) == len(found) == many + 1
    for agent in agents:
        call = {
            "tool_name": "Bash",
            "tool_input": {},
            "tool_use_id": f"{agent}-last",
            "tool_response": "x",
        }
        for _ in range(2):
            told[agent].append(
                run(folder, event(folder, "PostToolUse", agent_id=agent, agent_type="x", **call))
            )
        text = "".join(out for _, out, _ in told[agent])
        assert [text.count(f"{id} (") for id in ids] == [1] * len(ids)
    assert log(folder) == ""


@pytest.mark.parametrize("kills", [6, pytest.param(24, marks=pytest.mark.soak)])
def test_a_killed_hook_leaves_a_workspace_that_works(folder, memory, kills):
    run(folder, event(folder))
    for n in range(kills):
        process = started(folder)
        agent = {"agent_id": f"k{n}", "agent_type": "general-purpose"}
        process.stdin.write(json.dumps(event(folder, "SubagentStart", **agent)).encode())
        process.stdin.close()
        time.sleep(0.02 + 0.12 * n / kills)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        process.stderr.close()
    code, out, _ = run(
        folder, event(folder, "SubagentStart", agent_id="last", agent_type="general-purpose")
    )
    assert code == 0
    assert "Call /v2/users." in context(json.loads(out))
    assert memory.verify().ok
    run(folder, event(folder, "SessionEnd", reason="exit"))


# A client that is gone without a word as soon as its hook has answered.
CLIENT = (
    "import subprocess, sys;"
    " subprocess.run(sys.argv[1:], stdin=sys.stdin, stdout=sys.stdout, check=True)"
)


def test_a_session_is_gone_on_with_whose_client_was_killed(folder, memory):
    hook_words = [sys.executable, "-I", "-S", HOOK, "claude-code"]
    for source in ("startup", "resume"):
        subprocess.run(
            [sys.executable, "-c", CLIENT, *hook_words],
            input=json.dumps(event(folder, source=source)).encode(), timeout=60, cwd=folder,
            env={"PATH": os.environ["PATH"], "HOME": folder, "CI": "1"}, check=True,
        )  # fmt: skip
    assert log(folder) == ""
    found = Runs(memory.store).all(agent="lead")
    assert sorted(run.status or run.state for run in found) == ["running", "stopped"]


@contextmanager
def held(root, kind):
    """Hold the log or its index as another process does that is stopped in the middle."""
    if kind == "index":
        with closing(sqlite3.connect(f"{root}/.index/brain.db", isolation_level=None)) as other:
            other.execute("begin exclusive")
            yield
        return
    path = {"index's lock": ".index/brain.db.lock", "log": "journal/lock"}[kind]
    with open(f"{root}/{path}", "a", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@pytest.mark.parametrize("kind", ["index", "index's lock", "log"])
@pytest.mark.parametrize("who", ["alone", "with the daemon"])
def test_who_holds_the_log_or_its_index_is_not_waited_for(folder, memory, kind, who):
    root = memory.store.root
    memory.close()
    agent = {"agent_id": "a1", "agent_type": "general-purpose"}
    run(folder, event(folder))
    run(folder, event(folder, "SubagentStart", **agent))
    daemon = up(root) if who == "with the daemon" else None
    try:
        with held(root, kind):
            for session in ("s2", "s3"):
                code, out, err = run(folder, event(folder, session_id=session))
                assert (code, err) == (0, "")
                assert "Call /v2/users." in context(json.loads(out))
                assert run(folder, event(folder, session_id=session), "claude-code", "--more")
            call = {"tool_name": "Bash", "tool_input": {}, "tool_use_id": "c1"}
            assert run(folder, event(folder, "PreToolUse", **call)) == (0, "", "")
            last = event(folder, "SubagentStop", **agent, last_assistant_message="It is 17.")
            assert run(folder, last) == (0, "", "")
            assert os.path.exists(daemon_file(folder, "locked"))
            assert log(folder).count("StoreBusy") == 1
        with synapse.open(root) as memory:
            end = time.monotonic() + 60
            while not (ended := Runs(memory.store).all(agent="engineer", state="ended")):
                assert time.monotonic() < end
                time.sleep(0.1)
                memory.store.refresh()
            assert [found.status for found in ended] == ["done"]
        end = time.monotonic() + 60
        while os.path.exists(daemon_file(folder, "locked")):
            assert time.monotonic() < end
            run(folder, event(folder, "PreToolUse", **call))
    finally:
        if daemon is not None:
            daemon.terminate()
            daemon.wait(20)
