"""How far something long has come: on a terminal, within its width, and gone at the end."""

import os
import pty
import re
import subprocess
import sys
import termios

import synapse


def everything(terminal):
    """What a terminal was told until its other end was closed; it comes in pieces."""
    told = b""
    with open(terminal, "rb", buffering=0) as file:
        try:
            while piece := file.read(1 << 16):
                told += piece
        except OSError:  # how Linux says that nobody is at the other end
            pass
    return told.decode()


def test_a_night_shows_how_far_it_is_on_a_terminal_and_nothing_elsewhere(tmp_path):
    root = str(tmp_path / "shared")
    command = [sys.executable, "-m", "synapse.cli", "defrag", "--root"]
    with synapse.init(root) as mem:
        mem.register(synapse.Agent("a", read=("*",), write=("*",)))
        me = mem.as_agent("a")
        me.append("new", "api", supersedes=me.append("old", "api").id)
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 80))
    env = os.environ | {"TERM": "xterm"}
    told = subprocess.run(
        [*command, root], stdout=subprocess.PIPE, stderr=theirs, check=True, env=env
    ).stdout
    os.close(theirs)
    shown = everything(ours)
    lines = shown.split("\r\x1b[K")
    assert [line for line in lines if line.endswith("...")][-6:] == [
        "scan ...", "merge ...", "archive ...", "enforce ...", "changelog ...", "metrics ..."
    ]  # fmt: skip
    assert "\n" not in shown
    assert max(map(len, lines)) < 80
    assert lines[-1] == ""
    assert re.search(rb"filed away syn-.*superseded", told)
    quiet = subprocess.run([*command, root], capture_output=True, check=True)
    assert quiet.stderr == b""


def test_a_narrow_terminal_gets_as_much_as_fits(tmp_path):
    words = "from synapse.cli.frame.progress import Progress\nwith Progress() as p:\n"
    words += " p.phase('x' * 50); p.said = 0; p.act(1, 2)"
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 20))
    subprocess.run(
        [sys.executable, "-c", words], stderr=theirs, check=True, env=os.environ | {"TERM": "xterm"}
    )
    os.close(theirs)
    shown = everything(ours).split("\r\x1b[K")
    assert shown == ["", "looking ...", "x" * 19, "x" * 19, ""]
