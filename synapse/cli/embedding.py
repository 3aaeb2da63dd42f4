"""`synapse embed`: vectors of what has none yet."""

from __future__ import annotations

from synapse.cli.call import Call
from synapse.cli.following import Interruptible
from synapse.cli.options import Options
from synapse.cli.parse import number
from synapse.cli.show import clean, fields, to_json
from synapse.system.typed import TYPE_CHECKING

if TYPE_CHECKING:
    from synapse.search.semantic import Queue


def embed_options(parser: Options) -> None:
    add = parser.add_argument
    add(
        "--limit",
        type=number,
        metavar="N",
        help="at most so many entries; else all that wait",
    )
    add(
        "--follow",
        action="store_true",
        help="go on, and embed what comes, until it is stopped",
    )


def embed(call: Call) -> None:
    from synapse.search import semantic

    store = call.memory.store
    if not call.args.follow:
        queue = semantic.embed(store, call.args.limit)
        call.show(lambda: fields(queue), queue_line(queue))
        return
    with Interruptible():
        for queue in semantic.follow(store):
            call.say(to_json(fields(queue)) if call.json else queue_line(queue))
            call.flush()


def queue_line(queue: Queue) -> str:
    refused = f", {queue.refused} refused" if queue.refused else ""
    return f"{queue.embedded} embedded{refused}, {queue.waiting} waiting; {clean(queue.model)}"
