"""What goes on around a workspace, for `synapse doctor`: who serves and sends, what is left of the
disk, the tokens and the last snapshot. Nothing here waits for longer than `PATIENCE`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from synapse.system.findings import Finding, some
from synapse.system.typed import TYPE_CHECKING

if TYPE_CHECKING:
    from synapse.core import Memory

PATIENCE = 0.5  # seconds for an answer of the server
LEAST = 200 << 20  # bytes of free disk
OLD = 2.0  # days since a snapshot, where one is taken each night
MOST = 0.8  # of the descriptors that a server may have


def disk(root: str, memory: Memory) -> Iterator[Finding]:
    """Check that there is room for what is written next."""
    left = os.statvfs(root)
    free = left.f_bavail * left.f_frsize
    text = f"{free / (1 << 30):.1f} GB are free"
    if free < LEAST:
        text = f"{free >> 20} MB are free: `du -sh {os.path.abspath(root)}/*` shows what takes room"
    if left.f_files and left.f_favail < 1_000:
        text = f"{left.f_favail} files may be made: `df -i {os.path.abspath(root)}`"
        yield Finding("disk", "warn", text)
    else:
        yield Finding("disk", "ok" if free >= LEAST else "warn", text)


def server(root: str, memory: Memory) -> Iterator[Finding]:
    """Check that the server that runs, if one does, answers, and has descriptors left."""
    import socket
    from urllib.parse import urlsplit

    from synapse.server import announcement

    running = announcement.find(root)
    if running is None:
        yield Finding("server", "ok", "none runs for this workspace")
        return
    parts = urlsplit(running.address)
    try:
        socket.create_connection((parts.hostname or "", parts.port or 443), PATIENCE).close()
    except OSError as error:
        text = f"the server at {running.address} does not answer ({error}); start it again:"
        yield Finding("server", "fail", f"{text} `synapse serve`")
        return
    used, allowed = _descriptors(running.pid)
    if used > MOST * allowed:
        text = f"process {running.pid} has {used} of {allowed} descriptors open"
        yield Finding("server", "warn", f"{text}: restart it, with a higher `ulimit -n`")
    else:
        yield Finding("server", "ok", f"it answers at {running.address}")


def _descriptors(pid: int) -> tuple[int, int]:
    """Return how many descriptors a process has open, and how many it may; zeros where the system
    does not say.
    """
    try:
        with open(f"/proc/{pid}/limits", encoding="utf-8") as file:
            (row,) = [line for line in file if line.startswith("Max open files")]
        return len(os.listdir(f"/proc/{pid}/fd")), int(row.split()[3])
    except (OSError, ValueError):
        return 0, 0


def tokens(root: str, memory: Memory) -> Iterator[Finding]:
    """Check the file of the tokens by which agents ask a server."""
    from synapse.errors import NotFound
    from synapse.trust.bearer import TokenFile, place

    path = place(root)
    file = TokenFile(path)
    try:
        count = len(file.load())
    except NotFound:
        return
    lines = [f"{path}: line {number} is no token, and is passed over" for number in file.damaged()]
    yield from some("tokens", "warn", lines, "`synapse token new AGENT` makes another")
    if not lines:
        yield Finding("tokens", "ok", f"{count} in {path}")


def webhooks(root: str, memory: Memory) -> Iterator[Finding]:
    """Check that what is to be sent is sent."""
    from synapse.webhooks import status

    states = status.states(memory.store)
    problems = [
        f"webhook {state.name} sends nothing: {state.state}"
        for state in states
        if state.state != status.READY
    ]
    for state in states:
        last = f": {state.error['text']} ({state.error['time']})" if state.error else ""
        if state.dead:
            problems.append(f"webhook {state.name}: {len(state.dead)} letters were given up{last}")
        elif state.error and state.pending:
            problems.append(f"webhook {state.name}: {state.pending} letters wait{last}")
    if states and not status.is_up(memory.store):
        problems.append("no sender is up: `synapse webhooks run` is one")
    advice = "`synapse webhooks status` lists them, `synapse webhooks resend NAME` sends again"
    yield from some("webhooks", "warn", problems, advice)


def snapshots(root: str, memory: Memory) -> Iterator[Finding]:
    """Check that the snapshot of each night is there, or say why there can be none."""
    from synapse.backup import listed
    from synapse.log.chain import chain_of
    from synapse.log.files import FilesLog

    block = dict(memory.store.settings.other).get("backup")
    if not isinstance(block, dict) or not block.get("dir"):
        return
    folder = os.path.expanduser(str(block["dir"]))
    log = memory.store.log
    first = next(log.journal.lines(), b"") if isinstance(log, FilesLog) else b""
    own = [each for each in listed(folder) if first and each.origin == chain_of(first)]
    advice = "`synapse backup DIR` takes one now and says what is wrong"
    problems = []
    if not os.access(_existing(folder), os.W_OK):
        problems.append(f"no snapshot can be taken: {folder} cannot be written")
    elif not own:
        problems.append(f"no snapshot of this workspace is in {folder}")
    elif (age := _days(memory, own[-1].taken)) > OLD:
        problems.append(f"the last snapshot is {age:.0f} days old ({own[-1].path})")
    yield from some("snapshots", "warn", problems, advice)
    if not problems:
        yield Finding("snapshots", "ok", f"the last one is of {own[-1].taken[:16]}Z")


def _days(memory: Memory, taken: str) -> float:
    from synapse.model import clock

    return (memory.store.clock() - clock.micros(taken)) / clock.DAY


def _existing(folder: str) -> str:
    """Return the folder, or the nearest one above it that is there."""
    while not os.path.isdir(folder) and folder != os.path.dirname(folder):
        folder = os.path.dirname(folder)
    return folder
