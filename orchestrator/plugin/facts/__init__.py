"""The facts of each coding client, from `facts/CLIENT.json`: its events, fields and tools, what
each event can take, and the version that all this was seen in.

Reads files of this package only. Called wherever a client's own names are needed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import cache
from typing import Any, NamedTuple

from synapse.errors import NotFound

FOLDER = os.path.dirname(os.path.abspath(__file__))
FORMS = ("stop", "deny", "prompt", "context", "again", "notice")


class EventFacts(NamedTuple):
    """One event of a client: our name for it, how many characters it takes, in which forms it can
    be answered; `skip` are patterns of fields for which nothing is done, and `also` are those for
    which it is another event of ours. `failed`: it tells of a call that gave nothing.
    """

    name: str
    cap: int
    forms: tuple[str, ...]
    skip: Mapping[str, str]
    also: Mapping[str, Mapping[str, str]]
    output: Mapping[str, Any]
    matcher: str
    failed: bool


class ToolFacts(NamedTuple):
    """What a client's tool does, and which of its arguments name the subject, a child's prompt and
    type. With a `pattern`, the subjects are what it finds in that argument; where it finds any, the
    call is of the kind `finds`: a shell's command that reads a file. `answer` finds a child's last
    message, and the reason of its end, in what its call gives; `done` is the reason of a child that
    has done its task. Of an edit, `old` and `new` name the texts that go and come, in the arguments
    or in each item of the list `parts`.
    """

    kind: str = "other"
    subject: str = ""
    pattern: str = ""
    finds: str = ""
    prompt: str = ""
    type: str = ""
    answer: str = ""
    done: str = ""
    old: str = ""
    new: str = ""
    parts: str = ""


class Facts(NamedTuple):
    """One client's. `parts` are the hooks that it runs at a start; `strip` are patterns of what
    stands before a field's own text; `calls`: no event but a call's own tells of a sub-agent;
    `renames`: a process has one session, and goes on under another id once it was emptied; `raw`
    has all of its file, for what only one client's module asks.
    """

    client: str
    verified: str
    events: Mapping[str, EventFacts]
    fields: Mapping[str, str]
    tools: Mapping[str, ToolFacts]
    output: Mapping[str, Any]
    parts: int
    unit: str
    strip: Mapping[str, str]
    calls: bool
    renames: bool
    raw: Mapping[str, Any]

    def tool(self, name: str) -> ToolFacts:
        """Return what is known of a tool: by its name, else by the first pattern that it fits."""
        tool_facts = self.tools.get(name)
        if tool_facts is not None or not name:
            return tool_facts or ToolFacts()
        return next(
            (tool for pattern, tool in self.tools.items() if fnmatchcase(name, pattern)),
            ToolFacts(),
        )

    def length(self, text: str) -> int:
        """Return how long a text is as the client counts it: in characters, in bytes, or in the
        units of UTF-16, in which JavaScript counts.
        """
        if text.isascii() or not self.unit:
            return len(text)
        return len(text.encode("utf-16-le")) // 2 if self.unit == "utf-16" else len(text.encode())


def clients() -> list[str]:
    """Return the clients that facts are known of."""
    return sorted(
        name.removesuffix(".json") for name in os.listdir(FOLDER) if name.endswith(".json")
    )


@cache  # a file of the package, which does not change
def load(client: str) -> Facts:
    """Return the facts of a client; NotFound says which clients there are."""
    try:
        with open(os.path.join(FOLDER, f"{client}.json"), encoding="utf-8") as file:
            raw = json.load(file)
    except (FileNotFoundError, ValueError):
        raise NotFound(
            f"no client {client!r} is known: {', '.join(clients())}", id=client
        ) from None
    return Facts(
        client,
        str(raw["verified"]),
        {name: _event_facts(fields) for name, fields in raw["events"].items()},
        raw["fields"],
        {name: ToolFacts(**fields) for name, fields in raw["tools"].items()},
        raw["output"],
        int(raw.get("parts", 1)),
        str(raw.get("unit", "")),
        raw.get("strip", {}),
        raw.get("agents") == "calls",
        raw.get("emptied") == "renamed",
        raw,
    )


def _event_facts(fields: Mapping[str, Any]) -> EventFacts:
    forms = set(filter(None, str(fields.get("form", "")).split("+")))
    return EventFacts(
        fields["name"],
        int(fields.get("cap", 0)),
        tuple(form for form in FORMS if form in forms),
        fields.get("skip", {}),
        fields.get("also", {}),
        fields.get("output", {}),
        str(fields.get("matcher", "")),
        bool(fields.get("failed")),
    )
