"""The usage and the last words in a chat of Gemini CLI: `~/.gemini/tmp/PROJECT/chats/*.jsonl`, and
a folder for its sub-agents.

A reply stands in the file again when its calls are done: the last of an id counts. Called by
`transcript`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from orchestrator.engines.protocol import Usage
from orchestrator.plugin.transcripts.transcript import Spent, lines, objects

REPLACED, SUMMARY = b'{"$set":{"messages":', b"<state_snapshot>"


def usage(path: str) -> Spent | None:
    """Return what a chat used; None where no reply is in it."""
    replies = {
        line["id"]: line
        for line in objects(path)
        if line.get("type") == "gemini" and line.get("id")
    }
    counted = [reply for reply in replies.values() if isinstance(reply.get("tokens"), dict)]
    if not counted:
        return None
    total = Usage()
    for reply in counted:
        total += read_usage(reply["tokens"])
    return Spent(total, len(counted), counted[-1].get("model"))


def read_usage(tokens: Mapping[str, Any]) -> Usage:
    """Return the usage of a reply. `input` includes what the cache held."""
    output = _number(tokens, "output") + _number(tokens, "thoughts")
    sent = _number(tokens, "input") + _number(tokens, "tool")
    return Usage(sent, output, _number(tokens, "cached"))


def last_text(path: str) -> str:
    """Return the text of the last reply that has one."""
    texts = [
        line["content"]
        for line in objects(path)
        if line.get("type") == "gemini" and isinstance(line.get("content"), str)
    ]
    return next(filter(None, reversed(texts)), "")


def summaries(path: str) -> int:
    """Return how often a chat was replaced by a summary of it."""
    return sum(line.startswith(REPLACED) for line, _ in lines(path, SUMMARY))


def child(parent: str, prompt: str) -> str | None:
    """Return the chat of a sub-agent that was asked this, of the session that the parent's chat is
    of.
    """
    session = next((line.get("sessionId") for line in objects(parent)), None)
    folder = os.path.join(os.path.dirname(parent), str(session))
    if not session or not os.path.isdir(folder):
        return None
    paths = [os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".jsonl")]
    for path in sorted(paths, key=os.path.getmtime, reverse=True):
        if any(prompt and prompt in text for text in _first_texts(path)):
            return path
    return None


def _first_texts(path: str) -> list[str]:
    """Return the texts that a chat begins with."""
    texts: list[str] = []
    for line in objects(path):
        if line.get("type") == "gemini":
            break
        content = line.get("content")
        texts += (
            [str(block.get("text")) for block in content if isinstance(block, dict)]
            if content
            else []
        )
    return texts


def _number(tokens: Mapping[str, Any], name: str) -> int:
    value = tokens.get(name)
    return value if isinstance(value, int) else 0
