"""The request to a coding client: its command line, its prompt, and the session to resume. Starts
no process; writes no file but those that the command line names.
"""

from __future__ import annotations

import json
import os
import re
import uuid
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from orchestrator.engines.protocol import Message, Rejected, Request, Usage
from synapse.system.plain_files import open_file

LONGEST_ARGUMENT = 120_000  # bytes; Linux takes 128 KiB in one
PLACEHOLDER = re.compile(
    r"\{(prompt|prompt_file|system_file|schema|schema_file|session|model|root)\}"
)

# The structured result that a client can be asked for.
REPORT = json.dumps(
    {
        "type": "object",
        "properties": {
            "summary": {"type": "string"},
            "blocked": {
                "type": ["string", "null"],
                "description": "What keeps you from your task; else null",
            },
        },
        "required": ["summary", "blocked"],
        "additionalProperties": False,
    }
)


class Session(NamedTuple):
    """A client's session, and what had been used in it where the client reports nothing but
    totals.
    """

    id: str
    used: Usage = Usage()

    @property
    def text(self) -> str:
        used = self.used
        counts = (used.input_tokens, used.output_tokens, used.cached_tokens, used.written_tokens)
        return f"{self.id} {','.join(map(str, counts))}" if any(counts) else self.id

    @classmethod
    def read(cls, text: str) -> Session:
        id, _, used = text.partition(" ")
        if not used:
            return cls(id)
        sent, got, cached, written = map(int, used.split(","))
        return cls(id, Usage(sent, got, cached, written))

    def since(self, usage: Usage) -> Usage:
        """Return the usage beyond the earlier one."""
        return usage._replace(
            input_tokens=max(usage.input_tokens - self.used.input_tokens, 0),
            output_tokens=max(usage.output_tokens - self.used.output_tokens, 0),
            cached_tokens=max(usage.cached_tokens - self.used.cached_tokens, 0),
            written_tokens=max(usage.written_tokens - self.used.written_tokens, 0),
        )


def prompt_of(request: Request, *, resumed: bool, with_system: bool) -> str:
    """Return the whole conversation as text or, where a session is resumed, what it does not have
    yet.
    """
    messages = request.messages
    if resumed:
        last = max(
            (at for at, message in enumerate(messages) if message.role == "assistant"), default=-1
        )
        messages = messages[last + 1 :]
    texts = [_message_text(message) for message in messages if message.text]
    return "\n\n".join(
        [request.system, *texts] if with_system and request.system and not resumed else texts
    )


def _message_text(message: Message) -> str:
    return (
        f"## Your Earlier Output\n\n{message.text}" if message.role == "assistant" else message.text
    )


def fill(words: Sequence[str], values: Mapping[str, str]) -> list[str]:
    """Return the words with their placeholders filled, once: what is filled in is not looked at."""
    filled = [PLACEHOLDER.sub(lambda found: values[found[1]], word) for word in words]
    if any(len(word.encode()) > LONGEST_ARGUMENT for word in filled):
        raise Rejected(
            "the prompt is too long for an argument: have it read from {prompt_file}"
            " or from standard input"
        )
    return filled


def values_for(
    request: Request, session: Session | None, prompt: str, folder: str, root: str
) -> dict[str, str]:
    """Return the values of the placeholders; what is a file is written into the folder."""
    files = {"prompt_file": prompt, "system_file": request.system, "schema_file": REPORT}
    return {
        **{name: _written(os.path.join(folder, name), text) for name, text in files.items()},
        "prompt": prompt,
        "schema": REPORT,
        "session": session.id if session else str(uuid.uuid4()),
        "model": request.model or "",
        "root": json.dumps(root)[1:-1],
    }


def _written(path: str, text: str) -> str:
    fd = open_file(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    with open(fd, "w", encoding="utf-8", errors="replace") as file:
        file.write(text)
    return path
