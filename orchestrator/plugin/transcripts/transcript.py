"""The usage of a conversation, from its client's own transcript. Reads files of clients, writes
none.

A transcript may be torn, huge, or no file at all. What cannot be read is left out, and the usage
then says that it is an estimate. Each client has a module `CLIENT.py` with `usage(path)` in this
folder. Called where a worker's run ends.
"""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any, NamedTuple

from orchestrator.engines.protocol import Usage

LONGEST_LINE = 16 << 20  # bytes; longer ones hold images, never usage alone
TAIL = 1 << 18  # bytes at the end of a transcript in which its last message stands
LAST = 60  # characters of that message
WRITTEN_WITHIN = 0.3  # seconds
LARGEST = 256 << 20  # bytes of a transcript that are read


class Spent(NamedTuple):
    """The usage of a conversation, its turns, and the model that answered last."""

    usage: Usage
    turns: int
    model: str | None


def spent(client: str, path: str | None) -> Spent | None:
    """Return what the transcript at a path says; None where there is none, or it cannot be read."""
    reader = _reader(client)
    if reader is None or not path:
        return None
    try:
        usage: Spent | None = reader.usage(path)
    except (OSError, ValueError):
        return None
    return usage


def summaries(client: str, path: str | None) -> int:
    """Return how often a conversation was replaced by a summary, for a client that tells of it in
    its transcript alone.
    """
    reader = _reader(client)
    if not path or not hasattr(reader, "summaries"):
        return 0
    try:
        count: int = reader.summaries(path)
    except (OSError, ValueError):
        return 0
    return count


def child_transcript(client: str, parent: str | None, prompt: str) -> str | None:
    """Return the transcript of a sub-agent that was asked this, for a client that does not name
    it.
    """
    reader = _reader(client)
    if not parent or not hasattr(reader, "child"):
        return None
    try:
        path: str | None = reader.child(parent, prompt)
    except (OSError, ValueError):
        return None
    return path


def last_message(client: str, path: str | None, message: str) -> str:
    """Return a conversation's last message as its transcript has it, for a client whose event may
    go on with pieces of it once more; the event's where the transcript has another in time.
    """
    reader = _reader(client)
    if not path or not message or not hasattr(reader, "last_text"):
        return message
    end = time.monotonic() + WRITTEN_WITHIN
    while True:
        try:
            text = str(reader.last_text(path)).strip()
        except (OSError, ValueError):
            return message
        if text and message.strip().startswith(text):
            return text
        if time.monotonic() > end:
            return message
        time.sleep(0.02)


def await_message(path: str | None, message: str) -> None:
    """Wait until a transcript holds the end of a conversation's last message: a client tells that a
    sub-agent ends before it has written that down. Not for long: what is missing then is not
    counted.
    """
    ending = json.dumps(message.strip()[-LAST:], ensure_ascii=False)[1:-1].encode(
        "utf-8", "replace"
    )
    end = time.monotonic() + WRITTEN_WITHIN
    while path and ending and time.monotonic() < end:
        try:
            with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    return
                file.seek(max(os.fstat(file.fileno()).st_size - TAIL, 0))
                if ending in file.read():
                    return
        except OSError:
            return
        time.sleep(0.02)


def _reader(client: str) -> Any:
    try:
        return import_module(f"orchestrator.plugin.transcripts.{client.replace('-', '_')}")
    except ImportError:
        return None


def lines(path: str, having: bytes) -> Iterator[tuple[bytes, bool]]:
    """Yield the whole lines of a file that have these bytes in them, and whether all of the file
    was read. OSError where it is no regular file.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(f"{path} is no file")
        all_read, bytes_left = True, LARGEST
        while bytes_left > 0:
            line = file.readline(LONGEST_LINE)
            bytes_left -= len(line)
            if not line:
                yield b"", all_read
                return
            if not line.endswith(b"\n") and len(line) == LONGEST_LINE:
                all_read = False
                bytes_left -= _skip_line(file, bytes_left)
            elif having in line:
                yield line, all_read
        yield b"", False


def _skip_line(file: Any, bytes_left: int) -> int:
    """Read to the end of the line; how many bytes that were."""
    size = 0
    while size < bytes_left and (chunk := file.readline(LONGEST_LINE)):
        size += len(chunk)
        if chunk.endswith(b"\n"):
            break
    return size


def objects(path: str) -> Iterator[Mapping[str, Any]]:
    """Yield the objects of a file of JSON lines; a line that is none is left out."""
    for line, _ in lines(path, b"{"):
        try:
            value = json.loads(line or b"null")
        except ValueError:  # it is being written
            continue
        if isinstance(value, dict):
            yield value
