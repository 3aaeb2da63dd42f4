"""The end of a verb that runs until it is stopped, without a traceback."""

from __future__ import annotations

import signal

from synapse.cli.frame.streams import abandoned, hush
from synapse.system.typed import NoReturn

# seconds between two looks at whether anybody still reads the output
_READER_CHECK = 2.0


class Interruptible:
    """What goes on until it is stopped: ends without a word when it is told to, or when nobody
    reads any more.
    """

    def __enter__(self) -> None:
        self._before = {which: signal.signal(which, act) for which, act in _SIGNALS.items()}
        every = _READER_CHECK
        self._timer = signal.setitimer(signal.ITIMER_REAL, every, every)

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> bool:
        signal.setitimer(signal.ITIMER_REAL, *self._timer)
        for which, act in self._before.items():
            signal.signal(which, act)
        if kind is BrokenPipeError:
            hush()
        return kind in (BrokenPipeError, KeyboardInterrupt)


def _stop(number: int, frame: object) -> NoReturn:
    raise KeyboardInterrupt


def _look(number: int, frame: object) -> None:
    """End the verb when its reader is gone, also if no event comes that could not be written."""
    if abandoned():
        raise KeyboardInterrupt


_SIGNALS = {signal.SIGTERM: _stop, signal.SIGALRM: _look}
