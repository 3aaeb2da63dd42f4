"""How one entry looks in a view: its text in Markdown, whole or as a pointer. Pure.

A head says where an entry stands, its id, who wrote it and how much that counts, and when. It is in
every prompt for every entry, so it says nothing twice: the day is in the id. Whatever others wrote
stands behind `>`, line by line, after the head. So it can never pose as a heading, a list item, a
fence, front matter or another entry; and what would not be seen is spelled out.
"""

from __future__ import annotations

from functools import lru_cache

from synapse.model import namespace as ns
from synapse.model.clock import DAY, seconds
from synapse.model.entry import Entry, minted
from synapse.system.quoting import escaped, prefixed
from synapse.system.typed import NamedTuple

WHOLE, POINTER = "whole", "pointer"
MAX_BODY = 1 << 16  # bytes
EXCERPT = 80  # characters
BODY = "  > "  # before each line of a body
BRIEF = 7 * DAY  # of what lives no longer, the time of day matters
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
    return Block(
        f"{_head(entry, entry.id, _time(entry))}\n{prefixed(escaped(body), BODY)}{cut}", WHOLE
    )


@lru_cache(KEPT)
def pointer(entry: Entry, commands: bool = True) -> Block:
    start = " ".join(entry.body[: EXCERPT * 2].split())
    is_cut = len(start) > EXCERPT or len(entry.body) > EXCERPT * 2
    excerpt = escaped(start[:EXCERPT]) + "…" * is_cut
    name = f"`synapse read {entry.id}`" if commands else entry.id
    return Block(f"{_head(entry, name)} > {excerpt}\n", POINTER)


def _head(entry: Entry, name: str, time: str = "") -> str:
    """Return where an entry stands and who wrote it, in terms that its text cannot change."""
    trust = "" if entry.trust == "local" else f", {entry.trust}"
    disputed = f", disputed with {', '.join(entry.disputed)}" if entry.disputed else ""
    source = f"{named(entry.author)}, authority {entry.authority}{trust}{time}{disputed}"
    return f"- {entry.namespace} {name} ({source})"


def _time(entry: Entry) -> str:
    """Return when an entry was received, as far as its id does not say so: the day, and the time of
    day of what is critical or ends within a week.
    """
    at, id = seconds(entry.at)[:16], minted(entry.id)
    is_brief = entry.priority == "critical" or entry.expires - entry.at <= BRIEF
    if id and id[0] == at[:10]:
        return f", {at[11:]}Z" if is_brief else ""
    return f", {at}Z" if is_brief else f", {at[:10]}"


def named(author: str) -> str:
    """Return an id as it is; anything else that a dropped file claims as its author in quotes, on
    one line.
    """
    if ns.is_component(author):
        return author
    line = " ".join(author[:64].split()).replace('"', "'")
    return f'"{escaped(line)}"'
