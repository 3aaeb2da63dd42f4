"""Standard input and output: reading a text, and what to do when nobody reads the output any
more.
"""

from __future__ import annotations

import os
import select
import sys

from synapse.cli.frame.options import Usage
from synapse.errors import InvalidEntry

_MAX_BODY = 4 << 20


def hush() -> None:
    """Send further output nowhere: Python flushes standard output once more when it ends."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError, AttributeError):
        pass


def abandoned() -> bool:
    """Return whether standard output is a pipe whose reader is gone."""
    try:
        poll = select.poll()
        poll.register(sys.stdout.fileno(), 0)
        return any(events & (select.POLLERR | select.POLLNVAL) for _, events in poll.poll(0))
    except (OSError, ValueError, AttributeError):
        return False


def read_body(argument: str | None) -> str:
    """Return the text of an argument, or of standard input where it is - or missing."""
    if argument is not None and argument != "-":
        return argument
    stdin = sys.stdin
    if stdin is None or (argument is None and stdin.isatty()):
        raise Usage("no body: give it as an argument or on standard input")
    raw = getattr(stdin, "buffer", stdin).read(_MAX_BODY)
    try:
        return raw if isinstance(raw, str) else raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidEntry(
            f"standard input is not UTF-8: byte {error.start} cannot be read"
        ) from error
