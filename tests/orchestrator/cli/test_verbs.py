import re
import subprocess
import sys

import pytest

from orchestrator.cli.verbs import FIRST, GROUPS, PROGRAM, VERBS, overview
from synapse.cli.frame import parse


def test_help(run):
    for words in (["--help"], ["-h"], ["help"]):
        assert run(*words) == (0, overview(), "")
    for words in (["--help", "--all"], ["help", "--all"]):
        assert run(*words) == (0, overview(every=True), "")
    shown = re.findall(r"^  ([a-z][a-z-]+) +[a-z]", overview(), re.MULTILINE)
    assert (shown, len(set(FIRST))) == (FIRST, 10)
    assert run("--version").out.startswith("orchestrator ")
    assert all(len(line) <= 88 for line in overview().splitlines())


def test_a_line_that_cannot_be_read(run):
    for words in ((), ("rceipts",), ("ps", "--nonsense")):
        done = run(*words)
        assert (done.code, done.out, done.err.count("\n")) == (64, "", 1)
        assert done.err.startswith("orchestrator: ")
    assert "did you mean 'stats'?" in run("stat").err


@pytest.mark.parametrize("name", VERBS)
def test_every_verb_has_help_with_an_example(run, name):
    done = run(name, "--help")
    assert done.code == 0
    assert done.out.startswith(f"usage: orchestrator {name}")
    assert f"orchestrator {name}" in done.out.partition("example:")[2]
    assert max(map(len, done.out.splitlines())) <= 80
    assert callable(parse.function_of(VERBS[name]))
    declared = parse.options_of(VERBS[name]).declared()
    assert [option.dest for option in declared if not option.help] == []


@pytest.mark.parametrize("name", VERBS)
def test_the_example_can_be_read(name):
    import shlex

    line = VERBS[name].example.replace("\\\n", " ").partition(" > ")[0]
    words = shlex.split(line)
    assert words[0] == "orchestrator"
    verb, rest = parse.split(words[1:])
    assert parse.arguments(VERBS[verb], rest)


def test_every_verb_is_in_a_group_and_the_operators():
    assert {verb.group for verb in VERBS.values()} == set(GROUPS)
    assert PROGRAM.operators == set(VERBS)


def test_ps_loads_nothing_heavy(office):
    root = office.memory.store.root
    line = [sys.executable, "-X", "importtime", "-m", "orchestrator", "--root", root, "ps"]
    done = subprocess.run(line, capture_output=True, text=True, timeout=60, check=True)
    loaded = {text.rpartition("|")[2].strip().split(".")[0] for text in done.stderr.splitlines()}
    heavy = {
        "anthropic",
        "openai",
        "tiktoken",
        "jinja2",
        "genai_prices",
        "rich",
        "yaml",
        "mcp",
        "httpx",
        "asyncio",
    }
    assert loaded & heavy == set()
