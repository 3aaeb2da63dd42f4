import os
import stat
import subprocess

import pytest

from synapse.cli.setup import COMMANDS, text_of, write_scripts

FAKE = '#!/bin/sh\necho "$SYNAPSE_ROOT"\nprintf "<%s>" "$@"\n'


def test_scripts_are_executable_and_can_be_written_again(tmp_path):
    for _ in range(2):
        paths = write_scripts(str(tmp_path))
        assert sorted(os.listdir(tmp_path / "bin")) == sorted(
            f"{name}.sh" for name in COMMANDS
        )
    assert all(os.stat(path).st_mode & stat.S_IXUSR for path in paths)


@pytest.mark.parametrize("command", COMMANDS)
def test_script_is_valid_shell(command, tmp_path):
    done = subprocess.run(
        ["sh", "-n"],
        input=text_of(command),
        text=True,
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("command", COMMANDS)
def test_script_calls_its_command_on_its_own_workspace(command, tmp_path):
    root = tmp_path / "a workspace"
    write_scripts(str(root))
    path = tmp_path / "path"
    path.mkdir()
    (path / command).write_text(FAKE)
    (path / command).chmod(0o755)
    env = {"PATH": f"{path}:{os.defpath}", "SYNAPSE_ROOT": "/elsewhere", "CDPATH": "/"}
    script = os.path.join("a workspace", "bin", f"{command}.sh")
    done = subprocess.run(
        [f"./{script}", "--from", "two words"],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"{root}\n<--from><two words>"


def test_script_without_its_command_says_what_is_missing(tmp_path):
    write_scripts(str(tmp_path))
    env = {"PATH": os.defpath}
    done = subprocess.run(
        [tmp_path / "bin" / "synapse-write.sh"],
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 127
    assert "synapse-write: not found" in done.stderr
