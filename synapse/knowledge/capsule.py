"""A capsule: the best search results as text within a limit of bytes, each with its source.

Pure.

What most of it has in common is said once, in the head; of each item there is its id and the hash
of its text, both cut (`reference` reads them), who said it, when, and in what it differs from the
head.
"""

from __future__ import annotations

from collections import Counter

from synapse.index.full_text.search import excerpt
from synapse.index.full_text.terms import sought
from synapse.model.clock import seconds
from synapse.model.entry import Entry, minted
from synapse.model.results import Hit
from synapse.system.digest import sha256
from synapse.system.quoting import inline
from synapse.system.typed import TYPE_CHECKING, NamedTuple
from synapse.view import block

if TYPE_CHECKING:
    from collections.abc import Sequence

LEAST, MOST = 256, 1 << 16  # bytes that a capsule may be asked to keep to
QUOTED = 320  # characters of one item
DIGITS = 8  # of an id's twelve
HASH = 5


class Capsule(NamedTuple):
    """The text that an agent is given, and the items in it; how many were found, as of which place
    of the log.
    """

    text: str
    shown: tuple[Entry, ...] = ()
    found: int = 0
    version: int = 0


class Common(NamedTuple):
    """What most items share: namespace, authority, confidence, trust; and the year."""

    where: tuple[str, ...]
    year: str


def capsule(hits: Sequence[Hit], found: int, query: str, limit: int, version: int) -> Capsule:
    """Return the best hits that fit into `limit` bytes. A hit that does not fit is passed over for
    a shorter one after it; of the best hit a part is shown."""
    if not hits:
        return Capsule(
            f"Nothing that you may see here matches these words (version {version}).\n",
            version=version,
        )
    common = Common(
        Counter(_where(hit.entry) for hit in hits).most_common(1)[0][0],
        Counter(seconds(hit.entry.at)[:4] for hit in hits).most_common(1)[0][0],
    )
    query_words = frozenset(sought(query))
    head = f"(version {version}; {', '.join(common.where)}; {common.year} UTC)\n"
    texts = [_item(hit.entry, common, _quote(hit, query_words)) for hit in hits]
    room, foot = limit - len(head.encode()), _foot(len(hits), found)
    included = _fitting(texts, room)
    if len(included) < found:
        included = _fitting(texts, room - len(foot))
        foot = _foot(len(included), found)
    text = (
        (head if included else "")
        + "".join(included.values())
        + (foot if len(included) < found else "")
    )
    return Capsule(text, tuple(hits[position].entry for position in included), found, version)


def _fitting(texts: Sequence[str], room: int) -> dict[int, str]:
    """Return the texts that fit, by their position."""
    included: dict[int, str] = {}
    for position, text in enumerate(texts):
        raw = text.encode()
        if not included and raw.index(b"\n") + 40 <= room < len(raw):
            text = raw[: room - 4].decode("utf-8", "ignore") + "…\n"
        if (size := len(text.encode())) <= room:
            included[position] = text
            room -= size
    return included


def short(entry: Entry) -> str:
    """Return the short reference of an item: the part of its id that is needed, and the start of
    its hash."""
    return f"{short_id(entry.id)}@{digest(entry)[:HASH]}"


def short_id(id: str) -> str:
    head, mark, digits = id.partition("_")
    return f"{head}{mark}{digits[:DIGITS]}" if mark and not head.startswith("syn-") else id


def digest(entry: Entry) -> str:
    """Return the sha256 of the text, as any tool computes it."""
    return sha256(entry.body.encode())


def _where(entry: Entry) -> tuple[str, ...]:
    confidence = entry.more.get("confidence", 1)
    return (
        f"[{entry.namespace}]",
        f"authority {entry.authority}",
        f"confidence {confidence:g}",
        entry.trust,
    )


def _item(entry: Entry, common: Common, quote: str) -> str:
    own = [mine for mine, theirs in zip(_where(entry), common.where, strict=True) if mine != theirs]
    disputed = f" disputed with {', '.join(entry.disputed)}" if entry.disputed else ""
    own += ["archived"] if entry.archived else []
    apart = f" ({', '.join(own)})" if own else ""
    # to the minute; without the day if the id has it, without the year of most hits
    at, day = seconds(entry.at)[:16], minted(entry.id)
    in_id = day and day[0] == at[:10]
    time = at[11:] if in_id else at.removeprefix(f"{common.year}-")
    return f"- {short(entry)} {block.named(entry.author)} {time}{apart}{disputed}\n  > {quote}\n"


def _quote(hit: Hit, words: frozenset[str]) -> str:
    flat = " ".join(hit.body.split())
    if len(flat) > QUOTED:
        flat, _ = excerpt(hit.body, words, QUOTED)
    return inline(flat)


def _foot(shown: int, found: int) -> str:
    return f"({shown} of {found} shown; raise top_k, or `read` an id)\n"
