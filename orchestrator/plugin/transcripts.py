"""What a client's own transcript says that a conversation used. Reads files of clients, writes none.

Each client's form is a module of its own, `transcripts_CLIENT.py` with `usage(path)`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any, NamedTuple

from orchestrator.engine import Usage

LARGEST = 64 << 20  # bytes of a transcript


class Spent(NamedTuple):
    """The usage of a conversation, its turns, and the model that answered last."""

    usage: Usage
    turns: int
    model: str | None


def spent(client: str, path: str | None) -> Spent | None:
    """Return what the transcript at a path says; None where there is none, or it cannot be read."""
    reader = _reader(client)
    if not path or reader is None or not os.path.isfile(path):
        return None
    found: Spent | None = reader.usage(path)
    return found


def child_transcript(client: str, parent: str | None, prompt: str) -> str | None:
    """Return the transcript of a sub-agent that was asked this, for a client that does not name it."""
    reader = _reader(client)
    if not parent or not hasattr(reader, "child"):
        return None
    found: str | None = reader.child(parent, prompt)
    return found


def lines(path: str) -> Iterator[Mapping[str, Any]]:
    """Yield the objects of a file of JSON lines; a line that is none is left out."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            if os.fstat(file.fileno()).st_size > LARGEST:
                return
            for line in file:
                try:
                    value = json.loads(line)
                except ValueError:  # it is being written
                    continue
                if isinstance(value, dict):
                    yield value
    except OSError:
        return


def _reader(client: str) -> Any:
    try:
        return import_module(f"orchestrator.plugin.transcripts_{client.replace('-', '_')}")
    except ImportError:
        return None
