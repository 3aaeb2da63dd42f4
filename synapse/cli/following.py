"""`synapse unread` and `synapse watch`: what is new, asked once or followed."""

from __future__ import annotations

import signal

from synapse.cli.call import Call
from synapse.cli.options import Options
from synapse.cli.parse import number, seconds
from synapse.cli.show import line, to_json
from synapse.cli.streams import abandoned, hush
from synapse.system.typed import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from synapse.model.results import Event

LOOK = 2.0


def unread_options(parser: Options) -> None:
    parser.add_argument("--agent", metavar="AGENT", help="whose; else $SYNAPSE_AGENT")


def unread(call: Call) -> None:
    agent = call.agent()
    count = call.memory.as_agent(agent).unread()
    call.show({"agent": agent, "unread": count}, str(count))


def watch_options(parser: Options) -> None:
    add = parser.add_argument
    add(
        "--agent",
        metavar="AGENT",
        help="as this agent; else $SYNAPSE_AGENT, else everything",
    )
    add("--critical", action="store_true", help="only what is critical")
    add(
        "--since",
        metavar="WHEN",
        help="begin after this cursor, or this time (24h, yesterday); else with what comes next",
    )
    add("--count", type=number, metavar="N", help="end after so many lines")
    add(
        "--timeout",
        type=seconds,
        metavar="S",
        help="end after so many seconds, or 5m, 2h",
    )


def watch(call: Call) -> None:
    with Interruptible():
        _follow(call)


class Interruptible:
    """What goes on until it is stopped: ends without a word when it is told to, or when nobody
    reads any more.
    """

    def __enter__(self) -> None:
        self._before = {
            which: signal.signal(which, act) for which, act in _SIGNALS.items()
        }
        signal.setitimer(signal.ITIMER_REAL, LOOK, LOOK)

    def __exit__(
        self, kind: type[BaseException] | None, error: object, trace: object
    ) -> bool:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for which, act in self._before.items():
            signal.signal(which, act)
        if kind is BrokenPipeError:
            hush()
        return kind in (BrokenPipeError, KeyboardInterrupt)


def _follow(call: Call) -> None:
    args = call.args
    left = args.count
    since = int(args.since) if args.since and args.since.isdecimal() else args.since
    for event in call.reader().follow(
        since, critical=args.critical, timeout=args.timeout
    ):
        call.say(to_json(event_json(event)) if call.json else event_line(event))
        call.flush()
        left = left and left - 1
        if left == 0:
            return


def event_json(event: Event) -> dict[str, Any]:
    from synapse.formats import codec

    return {
        "cursor": event.cursor,
        "kind": event.kind,
        "entry": codec.entry_json(event.entry),
    }


def event_line(event: Event) -> str:
    return f"{event.cursor} {event.kind} {line(event.entry)}"


def _stop(number: int, frame: object) -> NoReturn:
    raise KeyboardInterrupt


def _look(number: int, frame: object) -> None:
    """A monitor may die long before the next event would have told so."""
    if abandoned():
        raise KeyboardInterrupt


_SIGNALS = {signal.SIGTERM: _stop, signal.SIGALRM: _look}
