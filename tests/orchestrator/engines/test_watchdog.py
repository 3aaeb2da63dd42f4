"""Nothing of a client's process outlives its supervisor, however that dies; nor the client, nor the
step.

Run as a program, this file is a supervisor of eight children with a grandchild each, some of which
made sessions of their own. It is killed with SIGKILL, and who is left is counted.
"""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from orchestrator.engines.child import Child

CHILDREN = 8
SLEEP = f"exec {sys.executable} -S -c 'import time; time.sleep(600)' {{mark}}"

# A child with its grandchild, which is below it, in a session of its own, or orphaned there, and
# deaf to SIGTERM.
FAMILIES = (
    f"({SLEEP}) & {SLEEP}",
    f'setsid sh -c "{SLEEP}" & {SLEEP}',
    f'(setsid sh -c "{SLEEP}" &) ; {SLEEP}',
    f"trap '' TERM; (setsid sh -c \"{SLEEP}\" &) ; {SLEEP}",
)


def alive(mark):
    """The sleepers that carry the mark, without those who are dead and not yet buried."""
    found = subprocess.run(
        ["ps", "-axww", "-o", "pid=,stat=,command="], capture_output=True, text=True, check=True
    )
    rows = (row.split(None, 2) for row in found.stdout.splitlines())
    return [
        int(pid)
        for pid, state, command in rows
        if command.endswith(f"time.sleep(600) {mark}")
        and "sh -c" not in command
        and state[0] != "Z"
    ]


def until(true, seconds):
    since = time.monotonic()
    while not true() and time.monotonic() - since < seconds:
        time.sleep(0.01)
    return true()


def child_of(script, grace=5.0, folder="."):
    with tempfile.TemporaryFile() as output, open(os.devnull, "rb") as given:
        return Child(
            ["sh", "-c", script],
            folder=folder,
            env=os.environ,
            files=(given, output, output),
            grace=grace,
        )


async def supervise(way, mark):
    """The supervisor that is to be killed."""
    scripts = [FAMILIES[number % len(FAMILIES)].format(mark=mark) for number in range(CHILDREN)]
    if way == "plain":
        held = [subprocess.Popen(["sh", "-c", script]) for script in scripts]
    else:
        held = [child_of(script) for script in scripts]
    await asyncio.sleep(600)
    return held


def survivors_of(way, mark):
    """How many of the sixteen are alive two seconds after their supervisor was killed."""
    supervisor = subprocess.Popen([sys.executable, __file__, way, mark])
    with supervisor:
        ready = until(lambda: len(alive(mark)) == 2 * CHILDREN, 30)
        supervisor.kill()
    assert ready
    until(lambda: not alive(mark), 2)
    return alive(mark)


@pytest.fixture
def mark():
    mark = f"mark-{os.getpid()}-{time.monotonic_ns()}"
    yield mark
    for pid in alive(mark):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def test_nothing_outlives_the_supervisor(mark):
    assert survivors_of("lifeline", mark) == []


def test_the_checker_sees_what_plain_children_leave(mark):
    assert len(survivors_of("plain", mark)) == 2 * CHILDREN


@pytest.mark.soak
def test_nothing_outlives_fifty_supervisors(mark):
    assert [survivors_of("lifeline", f"{mark}-{number}") for number in range(50)] == [[]] * 50


@pytest.mark.parametrize("family", FAMILIES)
def test_nothing_outlives_its_end(mark, family):
    async def ended():
        child = child_of(family.format(mark=mark), grace=0.3)
        assert await asyncio.to_thread(until, lambda: len(alive(mark)) == 2, 20)
        await child.end()
        return alive(mark)

    assert asyncio.run(ended()) == []


def test_what_a_command_leaves_behind_ends_with_it(mark):
    script = f'(setsid sh -c "{SLEEP}" &) ; sleep 0.2; exit 3'.format(mark=mark)

    async def waited():
        child = child_of(script)
        code = await child.wait(20)
        left = alive(mark)
        await child.end()
        return code, left

    assert asyncio.run(waited()) == (3, [])


@pytest.mark.parametrize(
    ("script", "code"), [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137), ("kill -15 $$", 143)]
)
def test_exit_codes_are_a_shells(script, code):
    async def waited():
        child = child_of(script)
        try:
            return await child.wait(20)
        finally:
            await child.end()

    assert asyncio.run(waited()) == code


def test_it_is_asked_kindly_first(tmp_path):
    told = tmp_path / "told"
    script = (
        f"trap 'echo kindly > {told}; exit 0' TERM; echo > {tmp_path}/ready; while :; do"
        f" sleep 0.05; done"
    )

    async def ended():
        child = child_of(script)
        assert await asyncio.to_thread(until, (tmp_path / "ready").exists, 20)
        await child.end()

    asyncio.run(ended())
    assert told.read_text() == "kindly\n"


def test_a_command_that_is_not_there():
    async def waited():
        with tempfile.TemporaryFile() as output, open(os.devnull, "rb") as given:
            files = (given, output, output)
            child = Child(["no-such-command"], folder=".", env=os.environ, files=files, grace=1)
            code = await child.wait(20)
            await child.end()
            output.seek(0)
            return code, output.read()

    assert asyncio.run(waited()) == (
        127,
        b"no-such-command cannot be started: No such file or directory\n",
    )


def test_the_watchdog_imports_nothing_of_ours():
    source = (Path(__file__).parents[3] / "orchestrator/engines/watchdog.py").read_text(
        encoding="utf-8"
    )
    assert "orchestrator" not in source
    assert "synapse" not in source


if __name__ == "__main__":
    asyncio.run(supervise(*sys.argv[1:]))
