"""What a client's own transcript says that a conversation used. Reads files of clients, writes none.

A transcript may be torn, huge, or no file at all: what cannot be read is passed over, and a usage that
is not of all of it says that it is an estimate. Called where a worker's run ends.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from orchestrator.engine import Usage

LONGEST_LINE = 16 << 20  # bytes; longer ones hold images, never usage alone
LARGEST = 256 << 20  # bytes of a transcript that are read


class Spent(NamedTuple):
    """The usage of a conversation, its turns, and the model that answered last."""

    usage: Usage
    turns: int
    model: str | None


def spent(client: str, path: str | None) -> Spent | None:
    """Return what the transcript at a path says; None where there is none, or it cannot be read."""
    reader = READERS.get(client)
    if reader is None or not path:
        return None
    try:
        return reader(path)
    except (OSError, ValueError):
        return None


def lines(path: str, having: bytes) -> Iterator[tuple[bytes, bool]]:
    """Yield the whole lines of a file that have these bytes in them, and whether all of the file was
    read. OSError where it is no regular file."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(f"{path} is no file")
        whole, left = True, LARGEST
        while left > 0:
            line = file.readline(LONGEST_LINE)
            left -= len(line)
            if not line:
                yield b"", whole
                return
            if not line.endswith(b"\n") and len(line) == LONGEST_LINE:
                whole = False
                left -= _skip_line(file, left)
            elif having in line:
                yield line, whole
        yield b"", False


def _skip_line(file: Any, left: int) -> int:
    """Read to the end of the line; how many bytes that were."""
    size = 0
    while size < left and (part := file.readline(LONGEST_LINE)):
        size += len(part)
        if part.endswith(b"\n"):
            break
    return size


# -- Claude Code -----------------------------------------------------------------------------------


def _claude_code(path: str) -> Spent | None:
    """Return the sum over the replies of a session's or sub-agent's JSONL. A reply has a line for each
    of its blocks, all with its usage; the last of them has it complete."""
    replies: dict[str, Usage] = {}
    model, complete = None, True
    for line, whole in lines(path, b'"usage"'):
        complete = complete and whole
        message = _reply(line)
        if message is None:
            continue
        replies[str(message["id"])] = _usage(message["usage"])
        model = message.get("model") or model
    if not replies:
        return None
    usage = sum(replies.values(), Usage(estimated=not complete))
    return Spent(usage, len(replies), model if isinstance(model, str) else None)


def _reply(line: bytes) -> dict[str, Any] | None:
    """Return the model's message that a line holds. What the client says in the model's place (its own
    errors) was billed by nobody."""
    try:
        record = json.loads(line)
    except ValueError:
        return None
    if not isinstance(record, dict) or record.get("type") != "assistant" or record.get("isApiErrorMessage"):
        return None
    message = record.get("message")
    if not isinstance(message, dict) or not message.get("id") or message.get("model") == "<synthetic>":
        return None
    return message if isinstance(message.get("usage"), dict) else None


def _usage(fields: dict[str, Any]) -> Usage:
    fresh, read = _count(fields, "input_tokens"), _count(fields, "cache_read_input_tokens")
    written = _count(fields, "cache_creation_input_tokens")
    return Usage(fresh + read + written, _count(fields, "output_tokens"), read, written)


def _count(fields: dict[str, Any], name: str) -> int:
    value = fields.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def _codex(path: str) -> Spent | None:
    from orchestrator.plugin import transcripts_codex

    return transcripts_codex.spent(path)


READERS: dict[str, Callable[[str], Spent | None]] = {"claude-code": _claude_code, "codex": _codex}
