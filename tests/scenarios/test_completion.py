import re
import shutil
import subprocess

import pytest

from scenarios.__main__ import FIRST, main
from scenarios.completion import SHELLS
from scenarios.data.files import library

ASK = """
source /dev/stdin <<'SCRIPT'
{script}
SCRIPT
COMP_WORDS=({words})
COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
_brain_suite
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.fixture
def script(capsys):
    def script(shell="bash"):
        assert main(["completion", shell]) == 0
        return capsys.readouterr().out

    return script


@pytest.fixture
def complete(script, tmp_path):
    def complete(words):
        program = ASK.format(script=script(), words=words)
        done = subprocess.run(
            ["bash", "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        return [line for line in done.stdout.splitlines() if line]

    return complete


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_is_valid(shell, script):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    done = subprocess.run(
        [shell, "-n"], input=script(shell), text=True, capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_verbs_options_values_and_scenarios_are_completed(complete, tmp_path):
    assert complete("brain-suite re") == ["report", "record", "retrieval"]
    assert {"list", "run", "verify", "completion"} <= set(complete("brain-suite ''"))
    assert complete("brain-suite run --max-u") == ["--max-usd"]
    assert complete("brain-suite cal") == ["calibrate"]
    assert {"--live", "--runs", "--max-tokens", "--cassette"} <= set(
        complete("brain-suite calibrate --")
    )
    assert complete("brain-suite run --cassette-mode r") == ["replay"]
    assert complete("brain-suite completion z") == ["zsh"]
    assert set(complete("brain-suite run ''")) >= {*library(), "all", "--arms"}
    (tmp_path / "mine.yaml").touch()
    assert complete("brain-suite lint mine") == ["mine.yaml"]


def test_help_shows_the_verbs_of_the_first_week_and_all_where_asked(capsys):
    def shown(*words):
        with pytest.raises(SystemExit) as done:
            main(list(words))
        assert done.value.code == 0
        return re.findall(r"^    ([a-z]+)", capsys.readouterr().out, re.MULTILINE)

    assert sorted(shown("--help")) == sorted(FIRST)
    assert shown("help") == shown("--help")
    every = shown("--help", "--all")
    assert shown("help", "--all") == every
    assert {"calibrate", "retrieval", *FIRST} < {*every}
