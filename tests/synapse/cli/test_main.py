import json
import os
import subprocess
import sys

import pytest

from orchestrator.engines.protocol import NoEngine
from orchestrator.prompts.templates import BrokenTemplate
from synapse import errors
from synapse.cli import alias, main
from synapse.cli.frame.options import Usage
from synapse.cli.verbs import OPERATORS, overview


def tree():
    found, left = [], [errors.SynapseError]
    while left:
        found.append(left.pop())
        left += found[-1].__subclasses__()
    return sorted(
        (each for each in found if each.__module__ == errors.__name__),
        key=lambda each: each.__name__,
    )


def test_help(run):
    for words in (["--help"], ["-h"], ["help"]):
        assert run(*words) == (0, overview(), "")
    for words in (["--help", "--all"], ["help", "--all"]):
        assert run(*words) == (0, overview(every=True), "")
    assert run("help", "write").out.startswith("usage: synapse write")


def test_version(run):
    done = run("--version")
    assert done.code == 0
    assert done.out.startswith("synapse ")
    assert "protocol 2" in done.out


@pytest.mark.parametrize(
    "words", [(), ("--json",), ("raed",), ("read", "--nonsense"), ("--nonsense", "read")]
)
def test_a_line_that_cannot_be_read(run, words):
    done = run(*words)
    assert (done.code, done.out) == (64, "")
    assert done.err.count("\n") == 1
    if "--json" not in words:
        assert done.err.startswith("synapse: ")


def test_errors_under_json_are_json(run):
    done = run("raed", "--json")
    assert json.loads(done.err) == {
        "error": {
            "type": "Usage",
            "message": "there is no verb 'raed'; did you mean 'read'?",
            "verb": "raed",
        }
    }


def test_no_exit_code_is_two():
    """Claude Code takes a 2 of a hook for 'block the prompt'."""
    kinds = [errors.SynapseError]
    for kind in kinds:
        kinds += kind.__subclasses__()
    assert {Usage, NoEngine, BrokenTemplate, errors.InvalidQuery} <= set(kinds)
    assert 2 not in {kind.exit_code for kind in kinds}


@pytest.mark.parametrize("kind", tree(), ids=lambda kind: kind.__name__)
def test_every_error_has_its_exit_code(kind, run, monkeypatch):
    def fail(call):
        raise kind("it\x1b[31m failed", id="syn-1", problems=["one"])

    monkeypatch.setattr("synapse.cli.read.read", fail)
    done = run("read")
    assert done == (kind.exit_code, "", "synapse: it\\x1b[31m failed\n")
    error = json.loads(run("read", "--json").err)["error"]
    assert error == {
        "type": kind.__name__,
        "message": "it\x1b[31m failed",
        "id": "syn-1",
        "problems": ["one"],
    }


@pytest.mark.parametrize(
    ("error", "code", "told"),
    [
        (OSError(28, "No space left on device"), 6, "No space left on device"),
        (PermissionError(13, "Permission denied", "/x"), 6, "/x: Permission denied"),
        (ValueError("what?"), 1, "this is a bug: ValueError: what?; --debug shows where"),
        (RecursionError("too deep"), 1, "RecursionError"),
        (KeyboardInterrupt(), 130, ""),
        (BrokenPipeError(), 141, ""),
    ],
)
def test_nothing_else_gets_out_either(error, code, told, run, monkeypatch):
    def fail(call):
        raise error

    monkeypatch.setattr("synapse.cli.read.read", fail)
    done = run("read")
    assert (done.code, done.out) == (code, "")
    assert told in done.err
    assert "Traceback" not in done.err
    assert bool(told) == bool(done.err)


def test_debug_shows_where(run, monkeypatch):
    monkeypatch.setattr("synapse.cli.read.read", lambda call: 1 / 0)
    done = run("read", "--debug")
    assert done.code == 1
    assert "Traceback" in done.err
    assert "ZeroDivisionError" in done.err.splitlines()[-1]


def test_a_reader_that_goes_away_is_no_error(wrote):
    for n in range(40):
        wrote(f"{n} " + "x" * 3000)
    line = f"{sys.executable} -m synapse.cli read --limit 0 | head -n 1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=True)
    first, code = done.stdout.splitlines()
    assert first.startswith("syn-")
    assert code == "141"
    assert done.stderr == ""


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_output_that_cannot_be_written_is_an_error(wrote):
    wrote()
    line = f"{sys.executable} -m synapse.cli read > /dev/full"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
    assert done.returncode == 6
    assert done.stderr == "synapse: [Errno 28] No space left on device\n"


def test_closed_standard_streams_are_survived(wrote):
    wrote()
    line = f"{sys.executable} -m synapse.cli read >&- 2>&-"
    assert subprocess.run(["bash", "-c", line], check=False).returncode == 0


def test_an_output_that_is_not_utf8_gets_escapes(wrote, shell):
    wrote("привет")
    done = shell("read", env={"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"})
    assert done.code == 0
    assert "\\u043f" in done.out


def test_module_and_package_can_be_run(tmp_path):
    for module in ("synapse", "synapse.cli"):
        done = subprocess.run(
            [sys.executable, "-m", module, "--help"], capture_output=True, text=True, check=True
        )
        assert done.stdout == overview()


def test_synapse_write_and_register(team, run, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["synapse-register", "--id", "eng-new", "--role", "engineer"])
    assert alias("synapse-register") == 0
    words = ["--from", "eng-new", "--namespace", "status/brain-suite", "--priority", "info", "--tags",
             "frontend,deployed", "--ttl", "7d", "Deployed landing pages"]  # fmt: skip
    monkeypatch.setattr("sys.argv", ["synapse-write", *words])
    capsys.readouterr()
    assert alias("synapse-write") == 0
    assert capsys.readouterr().out.startswith("syn-")
    assert "Deployed landing pages" in run("read").out
    monkeypatch.setattr("sys.argv", ["synapse-write", "--nonsense"])
    assert alias("synapse-write") == 64
    assert "`synapse-write --help`" in capsys.readouterr().err


def test_the_specification_s_commands_show_themselves_in_their_help(run):
    for name in ("write", "read", "view", "register"):
        shown = run(name, "--help", prog=f"synapse-{name}").out
        assert f"\n  synapse-{name} " in shown
        assert f"\n  synapse {name} " not in shown
        assert f"\n  synapse {name} " in run(name, "--help").out
    assert "synapse-read: all" in " ".join(run("read", "--help").out.split())


def test_an_error_of_the_system_names_the_file_and_no_number(wrote, run, tmp_path):
    wrote()
    done = run("export", tmp_path / "none" / "out.jsonl")
    assert (done.code, done.err) == (
        6,
        f"synapse: {tmp_path}/none/out.jsonl: No such file or directory\n",
    )
    (tmp_path / "file").touch()
    assert run("init", tmp_path / "file").err.endswith(
        "/file cannot be made a workspace: Not a directory\n"
    )


def test_main_takes_the_words_of_the_process(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["synapse", "help"])
    assert main() == 0
    assert capsys.readouterr().out == overview()


@pytest.fixture
def spawned(team, monkeypatch):
    monkeypatch.setenv("SYNAPSE_RUN", "run-1")
    monkeypatch.setenv("SYNAPSE_AGENT", "eng-backend")


def test_a_spawned_run_acts_as_its_agent(spawned, run):
    done = run("write", "--namespace", "api/x", "--json", "body")
    assert json.loads(done.out)["from"] == "eng-backend"
    assert run("read").code == 0
    assert run("read", "--agent", "eng-backend").code == 0
    assert run("unread").out == "0\n"
    assert run("log").code == 0


@pytest.mark.parametrize(
    "words",
    [
        ("write", "--from", "pl-brain", "--namespace", "api/x", "body"),
        ("read", "--agent", "eng-frontend"),
        ("read", "--agent", "operator"),
        ("search", "--agent", "operator", "word"),
        ("view", "eng-frontend"),
        ("unread", "--agent", "eng-frontend"),
        ("watch", "--agent", "operator", "--timeout", "0"),
        ("log", "--agent", "operator"),
        ("approve", "--from", "pl-brain"),
        ("archive", "--from", "operator", "syn-2026-02-01-001"),
    ],
)
def test_a_spawned_run_acts_as_nobody_else(spawned, run, words):
    done = run(*words, "--json")
    assert (done.code, done.out) == (4, "")
    assert json.loads(done.err)["error"]["type"] == "Forbidden"


@pytest.mark.parametrize("name", sorted(OPERATORS))
def test_a_spawned_run_may_not_do_the_operators_work(spawned, run, name, tmp_path):
    more = {
        "register": ["--id", "evil"],
        "import": ["file"],
        "backup": ["file"],
        "export": [tmp_path / "out"],
        "init": [tmp_path / "new"],
    }
    more |= {
        "undo": ["last"],
        "redact": ["x", "--reason", "y"],
        "revoke": ["x"],
        "token": ["list"],
        "webhooks": ["list"],
    }
    done = run(name, *more.get(name, []))
    assert (done.code, done.out) == (4, "")
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / "new").exists()


def test_a_run_without_an_agent_is_nobody(spawned, run, monkeypatch):
    monkeypatch.delenv("SYNAPSE_AGENT")
    assert run("read").code == 4
    assert run("read", "--agent", "eng-backend").code == 4


def test_a_reader_sees_only_its_own_even_when_the_environment_names_it(wrote, run, monkeypatch):
    wrote("for the lead", "--to", "agent:pl-brain")
    monkeypatch.setenv("SYNAPSE_AGENT", "eng-frontend")
    assert json.loads(run("read", "--json").out)["entries"] == []
    assert len(json.loads(run("read", "--json", "--agent", "operator").out)["entries"]) == 1


@pytest.mark.parametrize(
    "words",
    [
        ("read", "--agent", ""),
        ("write", "--from", "", "--namespace", "x", "x"),
        ("read", "--root", ""),
    ],
)
def test_an_empty_name_never_means_everything(team, run, words):
    done = run(*words)
    assert (done.code, done.out) == (64, "")
    assert "empty" in done.err
