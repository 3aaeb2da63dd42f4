"""Completion: what bash offers for a line."""

import os
import subprocess
import sys

import pytest

from orchestrator.cli.upkeep.completion import script
from orchestrator.cli.verbs import VERBS


def offers(line, cwd):
    words = line.split(" ")
    code = (
        f"{script('bash')}\nCOMP_WORDS=({' '.join(repr(word) for word in words)})\n"
        f"COMP_CWORD={len(words) - 1}\n_orchestrator\nprintf '%s\\n' \"${{COMPREPLY[@]}}\"\n"
    )
    env = os.environ | {"PATH": f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-c", code],
        cwd=cwd,
        env=env,
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("orchestrator st", ["stats", "stop", "status"]),
        ("orchestrator tail eng", ["eng-a-1"]),
        ("orchestrator tail --fo", ["--follow"]),
        ("orchestrator run --agent eng-", ["eng-a", "eng-b"]),
        ("orchestrator completion z", ["zsh"]),
    ],
)
def test_bash_offers(office, tmp_path, line, offered):
    office.begin("eng-a-1")
    office.folder("eng-a-1")
    assert offers(line, tmp_path) == offered


def test_every_verb_is_offered(tmp_path):
    assert set(offers("orchestrator ", tmp_path)) >= set(VERBS)
    assert offers("orchestrator tail ", tmp_path) != []


def test_the_script_is_printed(run):
    done = run("completion", "zsh")
    assert done.code == 0
    assert "bashcompinit" in done.out
