"""Two real sessions at work on one repository: one renames a function while the other, in a turn of
its own or between two, uses it. Who uses it is told before its first act on the old name, and once.
"""

import json
import subprocess

import pytest

import synapse
from orchestrator import Supervisor, Task
from orchestrator.engines import protocol
from orchestrator.engines.scripted import Move
from synapse import Agent
from tests.e2e.test_claude_plugin import MODEL, Project, asked, bash, requests
from tests.e2e.test_codex_plugin import NEW, call, texts
from tests.model_server import ModelServer

DB = "def fetch_all(conn):\n    return conn\n"
USERS = "from src.db import fetch_all\n\nprint(fetch_all(1))\n"
NOTICE = "lead-2 changed src/db.py just now: fetch_all is now fetch_page"
OLD_NAME = "fetch_all is now fetch_page"
PATCH = """*** Begin Patch
*** Update File: src/db.py
@@
-def fetch_all(conn):
+def fetch_page(conn, page=0):
*** End Patch
"""


@pytest.fixture
def project(claude, tmp_path):
    project = Project(claude, tmp_path.resolve())
    project.orchestrator("install", "claude-code")
    prepare(project.folder)
    return project


@pytest.fixture
def serve():
    """Starts model servers, and ends them."""
    servers = []

    def started(script):
        servers.append(ModelServer(script).start())
        return servers[-1]

    yield started
    for server in servers:
        server.stop()


def prepare(folder):
    (folder / "src").mkdir()
    (folder / "src/__init__.py").touch()
    (folder / "src/db.py").write_text(DB)
    (folder / "src/users.py").write_text(USERS)


def edit(path, old, new):
    arguments = {"file_path": str(path), "old_string": old, "new_string": new}
    return Move("", (("Edit", arguments),))


def read(path):
    return Move("", (("Read", {"file_path": str(path)}),))


def renames(project, seen):
    """What the session does that renames the function."""
    path = project.folder / "src/db.py"
    if seen.turn == 0:
        return read(path)
    if seen.turn == 1:
        return edit(path, "fetch_all(conn)", "fetch_page(conn, page=0)")
    return "It is renamed."


def test_who_uses_a_function_in_a_turn_of_its_own_is_told_that_another_renamed_it(project, serve):
    db, users = (project.folder / "src" / name for name in ("db.py", "users.py"))

    def script(seen):
        if asked(seen) == "TASK-A":
            return renames(project, seen)
        if seen.turn == 1:  # the other session comes and goes while this one thinks
            project.ask(server.url, "TASK-A")
        steps = (
            lambda: read(db),
            lambda: read(users),
            lambda: bash("grep -rn fetch_all src"),
            lambda: edit(users, "fetch_all(1)", "fetch_all(2)"),
            lambda: read(db),
            lambda: bash("python3 -m src.users"),
        )
        return steps[seen.turn]() if seen.turn < len(steps) else "Done."

    server = serve(script)
    project.ask(server.url, "TASK-B")
    sent = requests(server, "TASK-B")
    # the third request is the first after the rename: nothing was done on the old name yet
    assert [request.text.count(NOTICE) for request in sent] == [0, 0, 1, 1, 1, 1, 1]
    assert not any(OLD_NAME in request.text for request in requests(server, "TASK-A"))


@pytest.mark.soak
def test_who_goes_on_after_the_rename_is_told_with_what_it_is_asked(project, serve):
    db = project.folder / "src/db.py"

    def script(seen):
        if asked(seen) == "TASK-A":
            return renames(project, seen)
        return read(db) if seen.turn == 0 else "Done."

    server = serve(script)
    output = project.ask(server.url, "TASK-B", "--output-format", "json")
    project.ask(server.url, "TASK-A")
    session = json.loads(output)["session_id"]
    project.ask(server.url, "Go on.", "--resume", session)
    sent = requests(server, "TASK-B")
    assert [request.text.count(OLD_NAME) for request in sent] == [0, 0, 1]


@pytest.mark.soak
def test_sessions_in_two_work_trees_do_not_hear_of_each_other(project, serve):
    for words in (
        ("add", "src"),
        ("-c", "user.name=x", "-c", "user.email=x@x", "commit", "-qm", "x"),
        ("worktree", "add", "-q", str(project.base / "other")),
    ):
        subprocess.run(["git", *words], cwd=project.folder, check=True)

    def script(seen):
        if asked(seen) == "TASK-A":
            return renames(project, seen)
        if seen.turn == 1:
            project.ask(server.url, "TASK-A")
        steps = (
            lambda: read(project.base / "other/src/db.py"),
            lambda: bash("true"),
            lambda: read(project.base / "other/src/db.py"),
        )
        return steps[seen.turn]() if seen.turn < len(steps) else "Done."

    server = serve(script)
    project.ask(server.url, "TASK-B", "--add-dir", str(project.base / "other"))
    sent = requests(server, "TASK-B")
    assert len(sent) == 4
    assert not any("changed src/db.py" in request.text for request in sent)


@pytest.mark.soak
@pytest.mark.parametrize("how", ["apply_patch", "exec_command"])
def test_codex_tells_who_uses_a_function_that_another_renamed_it(codex_project, how):
    renaming = {"apply_patch": PATCH, "exec_command": {"cmd": f"apply_patch <<'EOF'\n{PATCH}EOF\n"}}

    def script(seen):
        first = next(message.text for message in seen.messages if "TASK-" in message.text)
        if "TASK-A" in first:
            done = seen.turn > 0
            return "It is renamed." if done else call(seen, **{how: renaming[how]})
        if seen.turn == 1:
            codex.codex(NEW, prompt="TASK-A: rename it")
        commands = ("cat src/db.py", "true", "grep -rn fetch_all src", "python3 -m src.users")
        if seen.turn < len(commands):
            return call(seen, exec_command={"cmd": commands[seen.turn]})
        return "Done."

    codex = codex_project(script)
    prepare(codex.work)
    codex.codex(NEW, prompt="TASK-B: use it")
    sent = [texts(body) for body in codex.requests if "TASK-B" in texts(body)]
    assert [text.count(NOTICE) for text in sent] == [0, 0, 1, 1, 1]


def test_a_client_that_a_supervisor_spawned_is_told_too(project, serve):
    db, users = (project.folder / "src" / name for name in ("db.py", "users.py"))

    def script(seen):
        if asked(seen) == "TASK-A":
            return renames(project, seen)
        if seen.turn == 1:
            project.ask(server.url, "TASK-A")
        steps = (
            lambda: read(db),
            lambda: read(users),
            lambda: bash("grep -rn fetch_all src"),
            lambda: edit(users, "fetch_all(1)", "fetch_all(2)"),
        )
        return steps[seen.turn]() if seen.turn < len(steps) else "Done."

    server = serve(script)
    with synapse.open(project.root) as memory:
        memory.register(Agent("ada", read=("*",), write=("*",)))
        given = {"env": project.env(server.url), "model": MODEL, "permissions": "own"}
        allowed = ("--allowedTools", "Bash,Edit,Read")
        engine = protocol.load("claude-code", **given, extra=allowed, timeout=100)
        with Supervisor(memory, engine=engine) as supervisor:
            task = Task("TASK-B", "ada", "folder", folder=str(project.folder))
            assert supervisor.run(task).text == "Done."
    sent = requests(server, "TASK-B")
    # the person's session is the only one
    notice = NOTICE.replace("lead-2", "lead")
    assert [request.text.count(notice) for request in sent] == [0, 0, 1, 1, 1]


@pytest.mark.soak
def test_codex_that_a_supervisor_spawned_is_told_too(codex_project):
    def script(seen):
        first = next(message.text for message in seen.messages if "TASK-" in message.text)
        if "TASK-A" in first:
            return "It is renamed." if seen.turn > 0 else call(seen, apply_patch=PATCH)
        if seen.turn == 1:
            codex.codex(NEW, prompt="TASK-A: rename it")
        commands = ("cat src/db.py", "true", "grep -rn fetch_all src", "python3 -m src.users")
        if seen.turn < len(commands):
            return call(seen, exec_command={"cmd": commands[seen.turn]})
        return "Done."

    codex = codex_project(script)
    prepare(codex.work)
    words = ("--sandbox", "workspace-write", "--dangerously-bypass-hook-trust")
    given = {"env": codex.env, "model": NEW, "permissions": "own", "extra": words}
    engine = protocol.load("codex", **given, timeout=100)
    with synapse.open(str(codex.root)) as memory, Supervisor(memory, engine=engine) as supervisor:
        task = Task("TASK-B: use it", "other", "work", folder=str(codex.work))
        assert supervisor.run(task).text == "Done."
    sent = [texts(body) for body in codex.requests if "TASK-B" in texts(body)]
    notice = NOTICE.replace("lead-2", "lead")
    assert [text.count(notice) for text in sent] == [0, 0, 1, 1, 1]
