import json
import os
import shutil
import subprocess
import sys

import pytest

from synapse.cli.frame import completion
from synapse.cli.setup import completion_script
from synapse.cli.verbs import ALIASES, PROGRAM, VERBS

ASK = """
source /dev/stdin <<'SCRIPT'
{script}
SCRIPT
COMP_WORDS=({words})
COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
_synapse
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


def complete(words, cwd=None):
    program = ASK.format(script=completion_script("bash"), words=words)
    env = os.environ | {"PATH": f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-c", program], cwd=cwd, env=env, capture_output=True, text=True, check=True
    )
    return [line for line in done.stdout.splitlines() if line]


@pytest.mark.parametrize("shell", completion.SHELLS)
def test_script_is_valid(shell):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    done = subprocess.run(
        [shell, "-n"], input=completion_script(shell), text=True, capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_scripts_differ_only_in_how_they_are_loaded():
    bash = completion_script("bash").splitlines()
    zsh = completion_script("zsh").splitlines()
    assert bash[1:] == zsh[3:]
    assert "bashcompinit" in zsh[2]


def test_verbs_are_completed():
    assert complete("synapse re") == [
        "read", "remember", "recent", "resolve", "reject", "restore", "revoke", "register", "repair", "redact", "rebuild", "reputation",
    ]  # fmt: skip
    assert set(VERBS) <= set(complete("synapse ''"))
    assert complete("synapse --root somewhere unr") == ["unread"]


@pytest.mark.parametrize("name", sorted(VERBS))
def test_options_are_completed(name):
    assert complete(f"synapse {name} --js") == ["--json"]
    assert set(complete(f"synapse {name} --")) == set(completion.flags(name, PROGRAM))


@pytest.mark.parametrize(("command", "verb"), ALIASES.items())
def test_aliases_are_completed(command, verb):
    assert set(complete(f"{command} --")) == set(completion.flags(verb, PROGRAM))


def test_values_are_completed(tmp_path):
    os.makedirs(tmp_path / "shared-memory" / "agents")
    os.makedirs(tmp_path / "shared-memory" / "entries")
    os.makedirs(tmp_path / "src")
    for name in ("eng-backend", "eng-frontend", "r2d2"):
        (tmp_path / "shared-memory" / "agents" / f"{name}.yaml").touch()
    assert complete("synapse read --agent eng", tmp_path) == ["eng-backend", "eng-frontend"]
    assert complete("synapse view r", tmp_path) == ["r2d2"]
    assert complete("synapse view r", tmp_path / "src") == ["r2d2"]
    assert complete("synapse --root ../shared-memory view r", tmp_path / "src") == ["r2d2"]
    assert complete("synapse write --priority c") == ["critical"]
    assert complete("synapse write --scope p") == ["public", "private"]
    assert complete("synapse completion z") == ["zsh"]


def test_completion_prints_the_script(run):
    assert run("completion", "bash").out == completion_script("bash")
    assert json.loads(run("completion", "zsh", "--json").out)["script"] == completion_script("zsh")
    assert run("completion", "csh").code == 64
