"""The verb `webhooks`: a person sees the webhooks of a workspace, tries one, has dead letters sent
again, and runs the sender.
"""

from __future__ import annotations

from synapse.cli.frame.call import Call
from synapse.cli.frame.options import Options, Usage
from synapse.cli.frame.table import draw_table
from synapse.system.quoting import clean
from synapse.system.typed import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from synapse.webhooks.status import State

ACTS = ("list", "status", "test", "resend", "run")
FAILED = 1
READY = "ready"  # what a webhook is that sends


def webhooks_options(parser: Options) -> None:
    add = parser.add_argument
    add(
        "what",
        nargs="?",
        default="list",
        metavar="WHAT",
        help=f"{', '.join(ACTS[:-1])} or {ACTS[-1]} (default: list)",
    )
    add(
        "which",
        nargs="?",
        metavar="NAME",
        help="a webhook; with resend also the id of a dead letter",
    )


def webhooks(call: Call) -> int:
    args = call.args
    if args.what not in ACTS:
        raise Usage(f"webhooks {args.what}: write one of {', '.join(ACTS)}")
    if args.what in ("test", "resend") and not args.which:
        raise Usage(f"webhooks {args.what}: which one?")
    return _ACTS[args.what](call)


def _list(call: Call) -> int:
    from synapse.webhooks import status

    rows = status.states(call.memory.store)
    call.show(
        lambda: {"webhooks": [row.listed() for row in rows]},
        lambda: _table(rows) if rows else "no webhook is declared in synapse.yaml",
    )
    return 0


def _table(rows: Sequence[State]) -> str:
    """Return webhooks as a table, and below it why some of them send nothing."""
    table = draw_table(
        ("name", "state", "reads as", "address"),
        [
            (
                row.name,
                READY if row.state == READY else "sends nothing",
                row.reader or "public",
                row.url,
            )
            for row in rows
        ],
    )
    idle = [f"{row.name}: {row.state}" for row in rows if row.state != READY]
    return "\n".join([table, *(clean(line) for line in idle)])


def _status(call: Call) -> int:
    from synapse.webhooks import status

    store, name = call.memory.store, call.args.which
    rows = [row for row in status.states(store) if name in (None, row.name)]
    up = status.is_up(store)
    lines = [_sender(up)]
    for row in rows:
        error = row.error and f"; last error: {row.error['text']} ({row.error['time']})"
        cursor = "not begun" if row.cursor is None else f"cursor {row.cursor}"
        lines.append(
            f"{row.name}: {row.state}; {row.sent} sent, {row.pending} waiting,"
            f" {len(row.dead)} dead; {cursor}{error or ''}"
        )
        lines += [
            f"  {letter['id']}  {letter['entry']}  {letter['attempts']} attempts: {letter['error']}"
            for letter in row.dead
        ]
    call.show(
        lambda: {"sender": up, "webhooks": [row._asdict() for row in rows]},
        lambda: "\n".join(lines),
    )
    return 0


def _sender(up: bool) -> str:
    return "a sender is up" if up else "no sender is up: `synapse webhooks run` is one"


def _test(call: Call) -> int:
    from synapse.webhooks import status

    outcome = status.send_test(call.memory.store, call.args.which)
    verb = "was taken" if outcome.delivered else "was not taken"
    call.show(
        {"webhook": call.args.which, **outcome._asdict()},
        f"a test of {call.args.which} {verb}: {outcome.text}",
    )
    return 0 if outcome.delivered else FAILED


def _resend(call: Call) -> int:
    from synapse.webhooks import status

    store = call.memory.store
    ids = status.resend(store, call.args.which)
    call.show({"resent": ids}, f"{len(ids)} to be sent again")
    if ids and not status.is_up(store):
        call.note(_sender(False))
    return 0


def _run(call: Call) -> int:
    import asyncio
    import signal

    from synapse.webhooks.sender import Sender

    async def send() -> None:
        stop, loop = asyncio.Event(), asyncio.get_running_loop()
        for which in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(which, stop.set)
        call.note("sending; Ctrl-C ends it")
        await Sender(call.memory.store, call.note).run(stop)

    asyncio.run(send())
    return 0


_ACTS = dict(zip(ACTS, (_list, _status, _test, _resend, _run), strict=True))
