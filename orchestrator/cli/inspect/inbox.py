"""`orchestrator inbox`: what waits for you, each with the line that moves it."""

from __future__ import annotations

from orchestrator.cli.frame.describe import source_of
from orchestrator.cli.frame.items import format_items
from orchestrator.waiting.inbox import KINDS
from orchestrator.waiting.inbox import inbox as waiting
from synapse.cli.frame.call import Call
from synapse.cli.frame.options import Options


def inbox_options(parser: Options) -> None:
    parser.add_argument(
        "--kind", choices=KINDS, metavar="K", help=f"only these: {', '.join(KINDS)}"
    )


def inbox(call: Call) -> None:
    source = source_of(call)
    items = [item for item in waiting(source) if call.args.kind in (None, item.kind)]
    now = source.now()
    call.show(
        lambda: {"waiting": [item.json(now) for item in items]},
        lambda: format_items(items, now) or "nothing waits for you",
    )
