"""How one entry looks in a view: its text in Markdown, whole or as a pointer. Pure.

Whatever others wrote stands behind `>`, line by line, after a head that says who wrote it. So it
can never pose as a heading, a list item, a fence, front matter or another entry; and what would not
be seen is spelled out.
"""

from __future__ import annotations

from functools import lru_cache

from synapse.model import namespace as ns
from synapse.model.clock import seconds
from synapse.model.entry import Entry
from synapse.system.quoting import escaped, prefixed
from synapse.system.typed import NamedTuple

WHOLE, POINTER = "whole", "pointer"
MAX_BODY = 1 << 16  # bytes
EXCERPT = 80  # characters
BODY = "  > "  # before each line of a body
# blocks of each form that are kept: one prompt shows most of what the one before showed
KEPT = 1_024


class Block(NamedTuple):
    """One entry as text. It begins with `- ` and ends in one newline, so that counts of blocks add
    up.
    """

    text: str
    form: str


@lru_cache(KEPT)
def natural(entry: Entry, commands: bool = True) -> Block:
    """Return the form an entry has where there is room: whole, but info is a pointer unless it is a
    status. Without `commands`, it names none of the shell's: its reader has no shell."""
    return whole(entry, commands) if stands_whole(entry) else pointer(entry, commands)


def stands_whole(entry: Entry) -> bool:
    """Return whether an entry is whole where there is room."""
    return entry.priority != "info" or entry.namespace.split("/", 1)[0] == "status"


def whole(entry: Entry, commands: bool = True) -> Block:
    body, cut = entry.body, ""
    if len(body) * 4 > MAX_BODY and len(raw := body.encode("utf-8", "replace")) > MAX_BODY:
        body = raw[:MAX_BODY].decode("utf-8", "ignore")
        hint = f"; all of it: `synapse read {entry.id}`" if commands else ""
        cut = f"  (the first {MAX_BODY} of {len(raw)} bytes{hint})\n"
    disputed = _disputed(entry)
    head = f"- [{entry.namespace}] {entry.id} ({_source(entry)}, {seconds(entry.at)}{disputed})\n"
    return Block(f"{head}{prefixed(escaped(body), BODY)}{cut}", WHOLE)


@lru_cache(KEPT)
def pointer(entry: Entry, commands: bool = True) -> Block:
    start = " ".join(entry.body[: EXCERPT * 2].split())
    is_cut = len(start) > EXCERPT or len(entry.body) > EXCERPT * 2
    excerpt = escaped(start[:EXCERPT]) + "…" * is_cut
    name = f"`synapse read {entry.id}`" if commands else entry.id
    head = f"- [{entry.namespace}] {name} ({_source(entry)}{_disputed(entry)})"
    return Block(f"{head} > {excerpt}\n", POINTER)


def _source(entry: Entry) -> str:
    """Return who said it, in terms that the text of an entry cannot change."""
    trust = "" if entry.trust == "local" else f", {entry.trust}"
    return f"from: {named(entry.author)}, authority {entry.authority}{trust}"


def _disputed(entry: Entry) -> str:
    return f", disputed with {', '.join(entry.disputed)}" if entry.disputed else ""


def named(author: str) -> str:
    """Return an id as it is; anything else that a dropped file claims as its author in quotes, on
    one line.
    """
    if ns.is_component(author):
        return author
    line = " ".join(author[:64].split()).replace('"', "'")
    return f'"{escaped(line)}"'
