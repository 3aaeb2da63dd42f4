"""`init`, `run`, `team`, `resume`: work from the shell, with scripted agents."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
import time

import pytest

import synapse
from orchestrator import Supervisor, Task
from orchestrator.cli.frame import engines
from orchestrator.cli.frame.live import NOT_DONE, WAITING
from orchestrator.cli.work import example
from orchestrator.engines.scripted import Scripted
from synapse.formats.declared import parse_agent
from tests.trusted import trust

PLAYS = """
from orchestrator.engines.scripted import Move
def blocked(seen):
    return Move("I cannot.", blocked="There is no key.")
def says_blocked(seen):
    return "Blocked: there is no key."
def team_blocked(seen):
    from tests.team_play import play
    return says_blocked(seen) if "eng-backend" in seen.system.split("\\n")[0] else play(seen)
def works(seen):
    return "It is done."
def stuck(seen):
    return Move("Never said", takes=60)
def doubles(seen):
    return Move("", (("double", {"number": 21}),)) if seen.turn == 0 else seen.messages[-1].text
def double(number: int) -> int:
    \"\"\"Twice the number.\"\"\"
    return 2 * number
def lists(seen):
    return str([tool.name for tool in seen.tools])
def hostile(seen):
    return "\\x1b[2Jdone"
"""

DOWN = "down; the next hook of a client starts one again\n"


@pytest.fixture
def here(run, tmp_path, monkeypatch):
    """The example workspace, where agents are played, and a module of scripts beside it."""
    assert run("init").code == 0
    with (tmp_path / "shared-memory" / "synapse.yaml").open("a") as file:
        file.write("engine: scripted\n")
    (tmp_path / "plays.py").write_text(PLAYS)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, "plays", raising=False)
    return tmp_path / "shared-memory"


# -- init ------------------------------------------------------------------------------


def test_init_writes_an_example_that_the_memory_takes(here, run):
    with synapse.open(str(here)) as memory:
        assert [agent.id for agent in memory.agents()] == sorted(example.AGENTS)
        assert memory.verify().ok
        assert dict(memory.store.settings.other)["limits"] == {
            "run": {"turns": 40, "seconds": 3600}
        }
        assert parse_agent(example.AGENTS["lead"]).role == "project-lead"


def test_init_leaves_what_is_there(here, run):
    (here / "team.yaml").write_text("mine")
    done = run("init")
    assert (done.code, done.out.splitlines()[0]) == (
        0,
        "shared-memory is ready; nothing in it was changed",
    )
    assert (here / "team.yaml").read_text() == "mine"
    assert run("init", "other", "--json").json["files"] == [
        *[f"agents/{id}.yaml" for id in example.AGENTS],
        "team.yaml",
    ]


# -- run -------------------------------------------------------------------------------


def test_run(here, run):
    words = ("--agent", "eng-backend", "--project", "web", "--script", "plays:works")
    done = run("run", *words, "Fix it")
    assert (done.code, done.out) == (0, "It is done.\n")
    (last,) = [line for line in done.err.splitlines() if ": done; " in line]
    assert last.startswith("eng-backend-")
    assert re.search(r"; memory took \d+, [\d.]+% of the \d+ of its work, and spared no call", last)
    assert "overhead" not in done.err
    assert any("says     It is done.  (" in line for line in done.err.splitlines())


def test_run_json_is_the_result_alone(here, run):
    words = ("--agent", "eng-backend", "--script", "plays:works", "--json")
    done = run("run", *words, "Fix it")
    assert (done.json["status"], done.json["text"], done.err) == ("done", "It is done.", "")
    assert run("tree", "--json").json["trees"][0]["run"] == done.json["run"]


def test_run_reads_the_task_from_standard_input(here, shell):
    done = shell("run", "--agent", "eng-backend", "--quiet", stdin="Fix it\nat once\n")
    assert (done.code, done.out) == (0, "(played) Nobody did this: Fix it\n")
    assert shell("run", "--agent", "eng-backend", stdin=" \n").code == 64


def test_run_ends_with_zero_only_when_it_is_done(here, run):
    done = run("run", "--agent", "eng-backend", "--script", "plays:blocked", "Fix it")
    assert (done.code, done.out) == (WAITING, "I cannot.\n")
    *_, why, asks, line = done.err.splitlines()
    assert why.endswith("There is no key.")
    assert asks.endswith(" waits for you: There is no key.")
    assert line.split()[:2] == ["orchestrator", "answer"]
    done = run("run", "--agent", "eng-backend", "--script", "plays:says_blocked", "Fix it now")
    assert (done.code, done.out) == (WAITING, "Blocked: there is no key.\n")
    assert done.err.splitlines()[-3].endswith("; there is no key.")
    done = run(
        "run", "--agent", "eng-backend", "--script", "plays:stuck", "--timeout", "0.3", "Fix this"
    )
    assert (done.code, "timeout" in done.err) == (NOT_DONE, True)
    done = run("run", "--agent", "eng-backend", "--max-tokens", "10", "Fix that")
    assert (done.code, "limit of tokens" in done.err) == (NOT_DONE, True)


def test_once_the_same_work_is_not_done_twice(here, run):
    words = ("run", "--agent", "eng-backend", "--script", "plays:works")
    first = run(*words, "--json", "Fix it").json["run"]
    again = run(*words, "--once", "fix  it")
    assert again.out.startswith(f"an earlier result: {first} did it ")
    assert run(*words, "--once", "--json", "Fix it").json["run"] == first
    assert run(*words, "--json", "Fix it").json["run"] != first


def test_run_with_a_tool(here, run):
    words = (
        "run",
        "--agent",
        "eng-backend",
        "--script",
        "plays:doubles",
        "--tool",
        "plays:double",
        "Double it",
    )
    done = run(*words)
    assert (done.code, done.out) == (0, "42\n")
    assert "calls    double(number=21)" in done.err


@pytest.mark.parametrize(
    ("top", "line"),
    [
        ('if __name__ == "__main__":\n    print("begun")\n', None),
        ('LIMITS = dict(port=8080)\nprint("begun")\n', 5),
        ('with open("/dev/null") as file:\n    print("begun")\n', 4),
    ],
)
def test_whose_import_runs_a_program_is_told(here, run, tmp_path, top, line):
    tool = "def port() -> int:\n    'Return the port.'\n    return 8080\n"
    (tmp_path / f"own{line}.py").write_text(tool + top)
    done = run("resume", "--tool", f"own{line}:port")
    assert done.code == 0
    assert ("begun" in done.out) == (line is not None)
    told = f"importing own{line} runs the program at its line {line}"
    assert (told in done.err) == (line is not None)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--agent", "nobody", "x"), 3),
        (("x",), 64),
        (("--agent", "eng-backend", "--engine", "warp", "x"), 64),
        (("--agent", "eng-backend", "--engine", "process", "x"), 64),
        (("--agent", "eng-backend", "--project", "Web Shop", "x"), 64),
        (("--agent", "eng-backend", "--project", "Web Shop", "--dry-run", "x"), 64),
        (("--agent", "eng-backend", "--max-usd", "nan", "x"), 64),
        (("--agent", "eng-backend", "--max-usd", "lots", "x"), 64),
        (("--agent", "eng-backend", "--timeout", "-1", "x"), 64),
        (("--agent", "eng-backend", "--mcp", "no-such-server", "x"), NOT_DONE),
        (("--agent", "eng-backend", "--tool", "nothing", "x"), 64),
        (("--agent", "eng-backend", "--tool", "nothing:here", "x"), 64),
        (("--agent", "eng-backend", "--view-budget", "some", "x"), 64),
    ],
)
def test_run_says_what_is_wrong(here, run, words, code):
    done = run("run", *words)
    assert (done.code, done.out) == (code, "")
    assert done.err.splitlines()[-1].startswith("orchestrator: ")
    assert "bug" not in done.err
    assert "could not convert" not in done.err


def files(root):
    return sorted(
        (str(path), path.stat().st_mtime_ns)
        for path in root.rglob("*")
        if ".index" not in str(path)
    )


def test_a_dry_run_calls_and_writes_nothing(here, run):
    with synapse.open(str(here)) as memory:
        memory.as_agent("lead").append("Use /v2", "projects/web", priority="critical")
    before = files(here)
    done = run("run", "--agent", "eng-backend", "--project", "web", "--dry-run", "Fix it")
    assert done.code == 0
    for told in (
        "> Use /v2",
        "## Your Task\nFix it",
        "Nothing was called",
        "  system",
        "  view",
        "Shown: 1 entry",
    ):
        assert told in done.out
    assert done.out.splitlines()[-1].startswith("Price: the first turn at most $0.00")
    assert (
        sorted(
            (str(path), path.stat().st_mtime_ns)
            for path in here.rglob("*")
            if ".index" not in str(path)
        )
        == before
    )


def test_a_dry_run_knows_prices_without_a_key(here, run):
    words = ("run", "--agent", "eng-backend", "--dry-run", "--json", "--engine")
    cost = run(*words, "anthropic", "--model", "claude-sonnet-4-5", "Fix it").json["cost"]
    assert 0 < cost["first_turn_at_most"] < 1
    assert cost["run"] > 0
    assert run(*words, "openai", "--model", "unheard-of", "Fix it").json["cost"]["run"] is None


def test_a_dry_run_knows_the_engines_that_are_declared(here, run):
    with (here / "synapse.yaml").open("a") as file:
        file.write(
            "engines: {mine: {kind: process, command: echo}, local: {kind:"
            " openai-chat, model: gpt-5}}\n"
        )
    words = ("run", "--agent", "eng-backend", "--dry-run", "Do it", "--engine")
    done = run(*words, "mine")
    assert (done.code, "Your shell has the memory" in done.out) == (0, True)
    assert done.out.endswith("Price: not known, for no model is named\n")
    local = run(*words, "local", "--json").json
    assert (local["model"], local["cost"]["run"] > 0) == ("gpt-5", True)
    assert "there is no engine 'warp'; it is one of" in run(*words, "warp").err


def test_the_prompt_of_a_run_is_the_one_of_its_dry_run(here, run):
    script = ("--script", "plays:works")
    run("run", "--agent", "qa", *script, "First")
    words = (
        "--agent",
        "eng-backend",
        "--project",
        "web",
        "--view-budget",
        "500",
        "--json",
        "Fix it",
    )
    dry = run("run", "--dry-run", *script, *words).json
    id = run("run", *script, *words).json["run"]
    assert run("replay", id).out == dry["prompt"]
    done = run("receipt", id)
    assert done.out.startswith(f"Run {id}, epoch 1, of eng-backend")
    assert run("receipt", id, "--json").json["receipt"]["prompt"] == dry["receipt"]["prompt"]


@pytest.mark.parametrize("left", [None, b"", b"\0" * 900, b'{"run": "eng'])
def test_a_receipt_that_an_earlier_version_kept_in_the_steps_is_read(here, run, left):
    """It stood in both, and a power cut could take the file."""
    id = run("run", "--agent", "qa", "First", "--json").json["run"]
    before = run("receipt", id).out
    path = here / "runs" / id / "receipt.json"
    first, *others = (here / "runs" / id / "steps.jsonl").read_text().splitlines(keepends=True)
    first = json.dumps(json.loads(first) | {"receipt": path.read_text()}) + "\n"
    (here / "runs" / id / "steps.jsonl").write_text("".join([first, *others]))
    path.unlink()
    if left is not None:
        path.write_bytes(left)
    assert run("receipt", id).out == before


def test_a_prompt_is_made_again_from_the_log(here, run):
    script = ("--script", "plays:works")
    run("run", "--agent", "qa", *script, "First")
    words = ("--agent", "eng-backend", "--view-budget", "500", "--json")
    id = run("run", *script, *words, "Fix it").json["run"]
    prompt = run("replay", id).out
    os.unlink(here / "runs" / id / "steps.jsonl")
    run("run", "--agent", "lead", *script, "Later")
    assert run("replay", id).out == prompt


def test_which_model_an_engine_gets():
    assert engines.model_of("openai", None, {"openai": "mine"}) == "mine"
    assert engines.model_of("openai", "this", {"openai": "mine"}) == "this"
    assert engines.model_of("scripted", None) is None


# -- team ------------------------------------------------------------------------------


def test_team_runs_at_once(here, run):
    words = ("--project", "hello", "--brief", "Say what you know")
    done = run("team", *words, "--script", "tests.team_play:play")
    assert done.code == 0
    lines = done.out.splitlines()
    assert lines[0] == "2 of 2 tasks are done; I was shown what 2 of them left in the memory."
    assert lines[-1] == "The project is done."
    assert len(run("tree").out.splitlines()) == 6
    assert run("unread").out == "no unread results\n"


def test_team_json_and_file(here, run, tmp_path):
    (tmp_path / "two.yaml").write_text(
        "lead: lead\nengineers: [eng-backend]\nscript: tests.team_play:play\n"
    )
    done = run("team", "--project", "p", "--brief", "b", "--file", "two.yaml", "--json")
    assert [each["status"] for each in done.json["runs"]] == ["done"] * 3
    assert run("team", "--project", "p", "--brief", "b", "--file", "none.yaml").code == 3
    assert run("team", "--project", "p", "--brief", " ").code == 64


def test_a_blocked_team_is_not_done(here, run):
    done = run("team", "--project", "p", "--brief", "b", "--script", "plays:blocked")
    assert done.code == WAITING
    (cto,) = (line.split()[0] for line in done.out.splitlines() if line.startswith("cto-"))
    assert (
        done.out.splitlines()[-1] == f"The project is blocked: {cto} is blocked: There is no key."
    )
    done = run(
        "team", "--project", "q", "--brief", "b", "--script", "plays:team_blocked", "--quiet"
    )
    assert done.code == WAITING
    print(repr(done.err))
    (line, *_) = done.err.splitlines()
    assert (line.startswith("eng-backend-"), line.endswith("; there is no key.")) == (True, True)


# -- where no engine is named ----------------------------------------------------------


@pytest.fixture
def unnamed(here):
    """The example workspace as `init` writes it: nothing in it names an engine."""
    path = here / "synapse.yaml"
    path.write_text(path.read_text().replace("engine: scripted\n", ""))
    return here


WORK = ("run", "--agent", "eng-backend", "Delete the production database")
BRIEF = ("team", "--project", "shop", "--brief", "Build me a shop")


@pytest.mark.parametrize("words", [WORK, BRIEF, (*BRIEF, "--engine", "auto")])
def test_nothing_begins_where_no_engine_is_named(unnamed, run, words):
    for more in ((), ("--quiet",)):
        done = run(*words, *more)
        assert (done.code, done.out) == (64, "")
        told, to_work, to_play = done.err.splitlines()
        assert told.endswith("no key is set: nothing was begun")
        assert "export ANTHROPIC_API_KEY=... or export OPENAI_API_KEY=..." in to_work
        assert "--engine scripted" in to_play
    error = run(*words, "--json").err
    assert '"type": "NoEngineNamed"' in error
    assert run("ps", "--all").out == "no runs\n"
    with synapse.open(str(unnamed)) as memory:
        assert len(memory.as_agent("cto").read()) == 0


def test_what_names_an_engine_begins(unnamed, run):
    assert run(*WORK, "--engine", "scripted").code == 0
    assert run(*WORK[:-1], "List the tools", "--script", "plays:lists").out == "[]\n"
    path = unnamed / "agents" / "eng-backend.yaml"
    path.write_text(path.read_text().replace("# engine: claude-code", "engine: scripted"))
    assert run(*WORK).code == 0


def test_one_member_of_a_team_without_an_engine_holds_up_all_of_it(unnamed, run):
    for agent in ("cto", "lead", "eng-backend", "eng-frontend"):
        path = unnamed / "agents" / f"{agent}.yaml"
        path.write_text(path.read_text().replace("# engine: claude-code", "engine: scripted"))
    done = run(*BRIEF)
    assert (done.code, "no engine is named for qa" in done.err) == (64, True)
    assert run("ps", "--all").out == "no runs\n"


def test_a_dry_run_without_an_engine_has_no_price(unnamed, run):
    done = run(*WORK, "--dry-run")
    assert (done.code, "## Your Task" in done.out) == (0, True)
    assert done.out.endswith("Price: not known, for no engine is named and no key is set\n")
    done = run(*WORK, "--dry-run", "--json").json
    assert (done["engine"], done["cost"]["run"]) == (None, None)


def test_the_upkeep_of_a_workspace_needs_no_engine(unnamed, run):
    assert run("resume").out.startswith("nothing to go on with")
    assert run("up", "--detach").code == 0
    assert run("down").out == DOWN


# -- on a terminal, and in the end -----------------------------------------------------


def at_a_terminal(*words, after=None, do=None, width=80):
    """What a command shows on a terminal of its own; `do` happens once `after` was shown."""
    child, terminal = pty.fork()
    if child == 0:
        os.environ.pop("COLUMNS", None)
        os.execv(sys.executable, [sys.executable, "-m", "orchestrator", *words])
    import fcntl
    import struct
    import termios

    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    shown, end = b"", time.monotonic() + 30
    while time.monotonic() < end:
        try:
            data = os.read(terminal, 65_536)
        except OSError:
            break
        shown += data
        if after and after in shown:
            after = None
            do(child, terminal)
    os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), shown.decode(errors="replace")


def test_progress_on_a_terminal_and_ctrl_c(here, run):
    words = ("run", "--agent", "eng-backend", "--script", "plays:stuck", "Get stuck")
    code, shown = at_a_terminal(
        *words, after=b"running", do=lambda child, terminal: os.write(terminal, b"\x03")
    )
    assert code == 130
    (left,) = run("ps", "--json").json["runs"]
    assert (left["state"], left["holder"]) == ("orphaned", None)
    said = " ".join(shown.split())
    assert f"`orchestrator resume {left['run']}` goes on" in said
    assert f"`orchestrator stop {left['run']}` ends it" in said
    assert run("stop", left["run"]).out == f"stopped: {left['run']}\n"
    (ended,) = run("ps", "--all", "--json").json["runs"]
    assert (ended["state"], ended["why"]) == ("stopped", "stopped by the operator")
    assert f"{ended['run']}  stopped\n  stopped by the operator\n" in run("ps").out
    with synapse.open(str(here)) as memory:
        assert len(memory.as_agent("cto").read(namespace="status/*")) == 0


def test_a_terminal_gets_no_control_from_an_agent(here):
    code, shown = at_a_terminal(
        "run", "--agent", "eng-backend", "--script", "plays:hostile", "--quiet", "Do it"
    )
    assert code == 0
    assert "\\x1b[2Jdone" in shown
    assert "\x1b[2J" not in shown


def test_tables_keep_to_the_terminal(here, run):
    run(
        "team",
        "--project",
        "hello",
        "--brief",
        "Say what you know, and say it in so many words that no line holds it",
    )
    for verb in (["ps", "--all"], ["tree"], ["stats"], ["wakes"]):
        _, shown = at_a_terminal(*verb)
        plain = re.sub("\x1b\\[[0-9;]*m", "", shown.replace("\r", ""))
        assert max(map(len, plain.split("\n"))) <= 80
        assert "…" not in plain.split("\n")[0]


def test_no_figure_is_cut(here, run):
    """Where a terminal is too narrow for them, the first column gives way, and then the line
    breaks.
    """
    run(
        "run",
        "--agent",
        "eng-backend",
        "--script",
        "plays:doubles",
        "--tool",
        "plays:double",
        "Double",
    )
    for width in (78, 60):
        _, shown = at_a_terminal("stats", width=width)
        head, row = re.sub("\x1b\\[[0-9;]*m", "", shown.replace("\r", "")).split("\n")[:2]
        assert head.split()[1:] == [
            "runs",
            "done",
            "blocked",
            "failed",
            "running",
            "blockers",
            "tokens",
            "cost",
            "overhead",
        ]
        assert (row.split()[1:7], row[-1]) == (["1", "1", "0", "0", "0", "0"], "%")


def test_what_nobody_reported_is_told_as_an_estimate(here, run):
    with (here / "synapse.yaml").open("a") as file:
        file.write("engines: {mine: {kind: process, command: echo done}}\n")
    trust(here)
    done = run("run", "--agent", "eng-backend", "--engine", "mine", "--json", "Do it")
    assert (
        done.code,
        done.json["usage"]["estimated"],
        done.json["usage"]["input_tokens"] > 100,
    ) == (0, True, True)
    told = run("ps", "--all").out.split("\n")[1].split()[3]
    assert told[0] == "~"
    assert int(told[1:]) == done.json["usage"]["input_tokens"] + done.json["usage"]["output_tokens"]
    assert f" {told} tokens" in run("tree").out
    assert run("tail", done.json["run"]).out.count("~") == 3
    assert run("stats").out.endswith("\n~: some of it was not reported, or could not be counted\n")
    assert run("stats", "--json").json["all"]["estimated"]


def test_a_stop_ends_what_no_process_holds(here, run):
    line = [
        sys.executable,
        "-m",
        "orchestrator",
        "run",
        "--agent",
        "eng-backend",
        "--script",
        "plays:stuck",
        "Work",
    ]
    process = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    end = time.monotonic() + 20
    while not run("ps", "--json").json["runs"] and time.monotonic() < end:
        time.sleep(0.05)
    process.kill()
    process.wait(10)
    done = run("stop", "--all", "--json").json
    assert (len(done["stopped"]), done["orphaned"]) == (1, [])
    assert run("ps", "--all", "--json").json["runs"][0]["state"] == "stopped"
    assert run("resume", done["stopped"][0]).code == 5


def test_a_damaged_folder_hides_no_prompt_and_holds_up_nobody(here, run):
    id = run("run", "--agent", "eng-backend", "--json", "Do it").json["run"]
    before, steps = run("replay", id).out, here / "runs" / id / "steps.jsonl"
    steps.write_text('{"n": 0}\n')
    assert run("replay", id).out == before
    done = run("tail", id)
    assert (done.code, done.err.startswith("orchestrator: a line of steps.jsonl is damaged: ")) == (
        6,
        True,
    )


def test_a_run_that_is_killed_is_gone_on_with(here, run, tmp_path):
    line = [
        sys.executable,
        "-m",
        "orchestrator",
        "run",
        "--agent",
        "eng-backend",
        "--script",
        "plays:stuck",
        "Work",
    ]
    process = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    end = time.monotonic() + 10
    while not (runs := run("ps", "--json").json["runs"]) and time.monotonic() < end:
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait(10)
    id = runs[0]["run"]
    waits = "waits for its own program: engine scripted, which its program made"
    assert [run("ps", "--json").json["runs"][0][key] for key in ("state", "waits")] == [
        "orphaned",
        waits,
    ]
    done = run("resume")
    assert (done.code, done.out) == (NOT_DONE, f"{id}: {waits}\n")
    assert "--script" in done.err
    assert run("resume", "--json").json == {"resumed": [], "left": {id: waits}}
    done = run("resume", "--script", "plays:works")
    assert (done.code, done.out.split()[:2]) == (0, [f"{id}:", "done;"])
    assert run("resume").out.startswith("nothing to go on with")
    assert run("ps", "--all", "--json").json["runs"][0]["epoch"] == 2


SHELF = """
from mcp.server import MCPServer
server = MCPServer("shelf")
@server.tool()
def find(title: str) -> str:
    return title
server.run("stdio")
"""


def test_resume_with_the_tools_of_a_server(here, run, tmp_path):
    (tmp_path / "shelf.py").write_text(SHELF)
    server = ("--mcp", f"{sys.executable} {tmp_path / 'shelf.py'}")
    words = (
        "run",
        "--agent",
        "eng-backend",
        "--script",
        "plays:stuck",
        "--memory-tools",
        "never",
        *server,
        "Work",
    )
    line = [sys.executable, "-m", "orchestrator", *words]
    process = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    end = time.monotonic() + 60
    while not (runs := run("ps", "--json").json["runs"]) and time.monotonic() < end:
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait(10)
    done = run("resume", "--script", "plays:lists")
    assert (done.code, done.out) == (
        NOT_DONE,
        f"{runs[0]['run']}: waits for its own program: tool find(title)\n",
    )
    done = run("resume", "--script", "plays:lists", *server, "--json")
    assert (done.code, done.json["resumed"][0]["text"]) == (0, "['find']")


def test_up_status_down(here, run):
    assert run("status").code == run("down").code == 3
    up = run("up", "--detach")
    assert up.code == 0
    try:
        assert re.match(
            rf"{re.escape(up.out.strip())} for \d+ s; it holds these runs: none", run("status").out
        )
        assert run("up").code == run("up", "--detach").code == 5
    finally:
        assert run("down").out == DOWN
    assert run("status").code == 3


def test_a_daemon_that_does_not_come_up_says_why(here, run):
    settings = (here / "synapse.yaml").read_text()
    (here / "synapse.yaml").write_text(
        re.sub(r"(?m)^schedule:.*$", "schedule: {zone: Mars/Olympus}", settings)
    )
    up = run("up", "--detach")
    assert up.code == 6
    assert (
        "did not come up: schedule: zone 'Mars/Olympus' is not known; write one such"
        " as Europe/Berlin"
    ) in up.err


def test_a_time_limit_is_seconds_or_has_a_unit(here, run):
    words = ("--agent", "eng-backend", "--engine", "scripted", "--quiet", "--timeout")
    assert run("run", *words, "5m", "Say hello").code == 0
    soon = run("run", *words, "soon", "Say hello")
    assert (
        soon.code,
        "'soon' is not a time: write seconds, or a number and s, m, h or d" in soon.err,
    ) == (64, True)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("limit: {run: {usd: 0.01}}", "limit is not known: did you mean limits?"),
        ("budget: {usd: 5}", "budget is not known"),
        ("backup: {dri: /srv}", "backup.dri is not known: did you mean dir?"),
        ("prices: {my-model: {input: 3.0, ouput: 15.0}}", "did you mean output?"),
        ("engines: {fast: {knd: openai}}", "did you mean kind?"),
        ("engines: {fast: openai}", "engines: fast in synapse.yaml needs a kind"),
        ("schedule: {zon: UTC}", "did you mean zone?"),
        ("x: [", "line"),
    ],
)
def test_no_run_begins_by_settings_that_are_not_understood(here, run, text, told):
    path = here / "synapse.yaml"
    good = path.read_text()
    key = text.partition(":")[0]
    path.write_text(
        "\n".join(line for line in good.split("\n") if not line.startswith(f"{key}:")) + f"{text}\n"
    )
    words = ("run", "--agent", "eng-backend", "Work")
    for more in ((), ("--dry-run",)):
        done = run(*words, *more)
        assert (done.code, "no run begins by these settings" in done.err) == (64, True), done.err
        assert told in done.err
    assert run("ps", "--all").out == "no runs\n", "what reads goes on"
    path.write_text(good + "x-mine: {limit: 1}\nreputation: maybe\n")
    assert run(*words).code == 0, "what only the memory goes by stops no run"


def test_settings_that_are_spoiled_later_begin_no_more_runs(here):
    engine = Scripted(lambda seen: "It is done.")
    with synapse.open(str(here)) as memory, Supervisor(memory, engine=engine) as supervisor:
        assert supervisor.run(Task("Work", "eng-backend")).status == "done"
        with (here / "synapse.yaml").open("a") as file:
            file.write("limit: {run: {usd: 0.01}}\n")
        memory.store.refresh(whole=True)
        with pytest.raises(synapse.InvalidEntry, match="did you mean limits"):
            supervisor.run(Task("Work more", "eng-backend"))


def test_an_agent_that_is_not_there_may_be_meant_otherwise(here, run):
    done = run("run", "--agent", "eng-bakend", "Work")
    assert (done.code, "did you mean eng-backend?" in done.err) == (3, True)
    with (here / "team.yaml").open("a") as file:
        file.write("max_us: 1\n")
    done = run("team", "--project", "p", "--brief", "b")
    assert (done.code, "max_us is not known: did you mean max_usd?" in done.err) == (64, True)
