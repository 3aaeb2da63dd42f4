"""`orchestrator up | down | status`: start, end and ask the one daemon of a workspace."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from orchestrator.cli.frame.engines import open_supervisor
from orchestrator.cli.frame.options import engine_options
from synapse.cli.frame.call import Call
from synapse.cli.frame.options import Options
from synapse.cli.frame.show import one_line
from synapse.cli.serve import checked_address, demand_packages, serve_options, serving_of
from synapse.errors import Conflict, StoreError
from synapse.system.plain_files import make_folder, open_file

if TYPE_CHECKING:
    from orchestrator.daemon import Daemon
    from orchestrator.supervisor import Supervisor

PATIENCE = 10.0
LOG = "runs/.daemon.log"


def up_options(parser: Options) -> None:
    parser.add_argument(
        "--detach", action="store_true", help="run in the background; its output goes to " + LOG
    )
    parser.add_argument(
        "--serve",
        action="store_true",
        help="serve the workspace over HTTP, too, as `synapse serve` does",
    )
    serve_options(parser)
    engine_options(parser)


def up(call: Call) -> None:
    address = checked_address(call)
    if call.args.detach:
        return _detach(call)
    import asyncio

    with open_supervisor(call) as supervisor:
        asyncio.run(_stay(call, supervisor, address if call.args.serve else None))
    return None


def _server(
    call: Call, address: tuple[str, int] | None, daemon: Daemon
) -> AbstractContextManager[object]:
    """Return the server beside the daemon; StoreError where its packages are not installed."""
    if address is None:
        return nullcontext()
    demand_packages()
    import asyncio

    from orchestrator.server.daemon_server import begin_on, served

    host, port = address
    serving = serving_of(call, call.memory, host)
    begin = begin_on(asyncio.get_running_loop(), daemon.begin)
    return served(serving, _root(call), port, call.note, host, begin)


async def _stay(call: Call, supervisor: Supervisor, address: tuple[str, int] | None) -> None:
    """Stay up until the daemon is asked to go down, or gets a signal."""
    import asyncio
    import signal

    from orchestrator.daemon import Daemon
    from orchestrator.nightly import job
    from orchestrator.nightly.schedule import Alarm, plan_of, zone_of
    from orchestrator.plugin.install.clients import agents_md
    from orchestrator.plugin.sync import sync

    root, settings = _root(call), call.memory.store.settings
    plan = plan_of(settings)
    job.snapshots_of(settings)  # an error in it is raised now, not later
    jobs = [*job.nightly(root, plan), *agents_md.nightly(root, plan)]
    jobs += sync.nightly(root, plan)
    alarm = Alarm(jobs, zone_of(plan.zone), call.memory.store.clock, call.note)
    daemon = Daemon(_root(call), supervisor, alarm, call.note)
    for which in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(which, daemon.down.set)
    call.note(f"up as process {os.getpid()}; `orchestrator down` ends it")
    with _server(call, address, daemon):
        await daemon.run()


def _detach(call: Call) -> None:
    from orchestrator.daemon import is_up
    from orchestrator.plugin.daemon import UP_ALREADY

    root, args = _root(call), call.args
    if is_up(root):
        raise Conflict(UP_ALREADY)
    # -P: nothing is imported from the folder in which this happens to run
    command = [sys.executable, "-P", "-m", "orchestrator", "--root", root, "up"]
    command += _server_words(args) if args.serve else []
    for name in ("engine", "model", "script"):
        command += [f"--{name}", getattr(args, name)] if getattr(args, name) else []
    make_folder(os.path.join(root, "runs"))
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    with open(open_file(os.path.join(root, LOG), flags), "ab") as log:
        began = log.tell()
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            close_fds=True,
        )
    answer = _await_status(call, process, began)
    process.returncode = 0  # it stays, and nobody waits for it
    call.show(answer, f"up as process {answer['pid']}")


def _server_words(args: Any) -> list[str]:
    """Return the options of the server as another process takes them."""
    options = ["--serve", "--host", args.host, "--port", args.port]
    if args.token_file:
        options += ["--token-file", os.path.abspath(os.path.expanduser(args.token_file))]
    for names in args.hosts or ():
        options += ["--hosts", names]
    return options + ["--trust-local"] * args.trust_local


def _await_status(call: Call, process: subprocess.Popen[bytes], began: int) -> dict[str, Any]:
    """Return what the new daemon says of itself. Where it does not come up, raise StoreError with
    the last line of its log.
    """
    from orchestrator.plugin.daemon import ask
    from synapse.errors import NotFound

    end = time.monotonic() + PATIENCE
    while time.monotonic() < end and process.poll() is None:
        try:
            answer = ask(_root(call), "status")
            if answer["pid"] == process.pid:
                return answer
        except (NotFound, StoreError):  # one that a hook started makes room for it
            pass
        time.sleep(0.05)
    with open(open_file(os.path.join(_root(call), LOG)), encoding="utf-8", errors="replace") as log:
        log.seek(began)
        lines = [line.strip() for line in log if line.strip()]
    why = (
        lines[-1].removeprefix("orchestrator: ")
        if lines
        else f"it said nothing in {PATIENCE:.0f} s"
    )
    raise StoreError(f"the daemon did not come up: {why} ({LOG})")


def down_options(parser: Options) -> None:
    """Add nothing: the verb has no options of its own."""


def down(call: Call) -> None:
    from orchestrator.plugin.daemon import is_up

    answer = _asked(_root(call), "down")
    end = time.monotonic() + PATIENCE
    while is_up(_root(call)):
        if time.monotonic() > end:
            raise StoreError(
                f"the daemon, process {answer['pid']}, was asked to go down and is still up"
            )
        time.sleep(0.02)
    runs = ", ".join(answer.get("runs", ()))
    runs_left = f"; for `orchestrator up` or `resume` to go on with: {runs}" if runs else ""
    call.show(answer, f"down{runs_left}; the next hook of a client starts one again")


def status_options(parser: Options) -> None:
    """Add nothing: the verb has no options of its own."""


def status(call: Call) -> None:
    from orchestrator.plugin.daemon import SESSIONS

    answer = _asked(_root(call), "status")
    up = f"up as process {answer['pid']} for {answer['seconds']:.0f} s"
    old = "; it runs on other code than is installed now" if answer["outdated"] else ""
    if answer["scope"] == SESSIONS:
        call.show(answer, f"{up}, for the sessions of clients alone{old}")
        return
    runs = ", ".join(answer["runs"]) or "none"
    jobs = f"; it is at: {', '.join(answer['jobs'])}" if answer["jobs"] else ""
    waiting = "".join(
        f"\n{one_line(f'{run} {why}')}" for run, why in answer.get("left", {}).items()
    )
    call.show(answer, f"{up}; it holds these runs: {runs}{jobs}{old}{waiting}")


def _asked(root: str, do: str) -> dict[str, Any]:
    from orchestrator.plugin.daemon import ask

    return ask(root, do)


def _root(call: Call) -> str:
    return os.path.abspath(call.memory.store.root or call.root)
