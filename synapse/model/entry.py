"""The entry, which is what one agent writes for the others, and the small grammars of its fields.
Values, pure.

Values are named tuples, not dataclasses: importing `dataclasses` pulls in `inspect` and costs a
cold shell command a quarter of its time, and a page of fifty entries is built twice as fast.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from operator import attrgetter, itemgetter

from synapse.errors import InvalidEntry
from synapse.model import namespace as ns
from synapse.model.entry_fields import REFERENCES
from synapse.model.kinds import ENTRY, NO_MORE, More
from synapse.model.kinds import is_id as is_id
from synapse.system.typed import Any, NamedTuple

PRIORITIES = ("critical", "important", "info")
RANK = {name: rank for rank, name in enumerate(PRIORITIES)}
SCOPES = ("public", "team", "private", "encrypted")
SEALED = frozenset(("private", "encrypted"))  # the scopes whose bodies are envelopes
TRUST = ("unverified", "outside", "local", "keyed", "reviewed")
DOUBTFUL = frozenset(("unverified", "outside"))  # a run that was shown one of these is limited
NEVER = 2**62
# until when an entry is hidden that is tainted, or made of one that is
TAINTED = NEVER + 1
SECOND = 1_000_000
MAX_TTL = 3650 * 86_400 * SECOND

_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_FOREVER = frozenset(("never", "permanent", "null", "none", "~"))


class Draft(NamedTuple):
    """What an agent means to write: checked in form, not yet admitted, no id."""

    body: str
    namespace: str
    author: str
    priority: str = "info"
    ttl: str | None = None
    addressees: tuple[str, ...] = ("all",)
    tags: tuple[str, ...] = ()
    related: tuple[str, ...] = ()
    replaces: tuple[str, ...] = ()
    topic: str | None = None
    scope: str = "public"
    pii: bool = False
    claim: str | None = None
    derived_from: tuple[str, ...] = ()
    evidence: str | None = None
    when: str | None = None
    timestamp: str | None = None
    id: str | None = None
    kind: str = ENTRY
    more: More = NO_MORE
    signature: str | None = None


class Entry(NamedTuple):
    """A stored entry. `author`, `authority`, `trust` and `at` are stamped by the log's gate, never
    by the text.

    `seq` is its place in the log, `at` the microsecond it was received, `expires` the one it stops
    being shown; `claimed` is the priority that an unverified one asked for. A message, a fact or an
    atom is an entry of that `kind`, with the fields of its own in `more`. `run` is the run that
    wrote it.
    """

    id: str
    author: str
    timestamp: str
    namespace: str
    priority: str
    body: str
    ttl: str
    addressees: tuple[str, ...] = ("all",)
    tags: tuple[str, ...] = ()
    related: tuple[str, ...] = ()
    replaces: tuple[str, ...] = ()
    topic: str | None = None
    scope: str = "public"
    claim: str | None = None
    derived_from: tuple[str, ...] = ()
    evidence: str | None = None
    when: str | None = None
    authority: int = 0
    trust: str = "local"
    seq: int = 0
    at: int = 0
    expires: int = NEVER
    alias: str | None = None
    claimed: str | None = None
    disputed: tuple[str, ...] = ()
    archived: bool = False
    staged: bool = False
    kind: str = ENTRY
    more: More = NO_MORE
    run: str | None = None
    signature: str | None = None

    def of_run_of(self, agent: str) -> bool:
        """Return whether a run of the agent wrote the entry. What is written in its name outside of
        its runs, as by a person in a shell, is news to them.
        """
        return self.author == agent and self.run is not None

    @property
    def to(self) -> str | tuple[str, ...]:
        """Return the addressee as it is written: one name, or several."""
        return self.addressees[0] if len(self.addressees) == 1 else self.addressees

    @property
    def supersedes(self) -> str | tuple[str, ...] | None:
        """Return the id that this entry replaces; several when it settles a dispute."""
        return one_or_many(self.replaces)


def references(source: Draft | Entry) -> Iterator[str]:
    """Return the ids of entries that a draft or an entry names."""
    return chain.from_iterable(_references(source))


_references = attrgetter(*REFERENCES)
# An entry's fields, taken from a draft and behind it the fields that no draft has.
_BESIDE = tuple(name for name in Entry._fields if name not in Draft._fields)
_BLANK = tuple(Entry._field_defaults[name] for name in _BESIDE)
_arranged = itemgetter(*map((*Draft._fields, *_BESIDE).index, Entry._fields))


def stamp(draft: Draft, **fields: Any) -> Entry:
    """Return the entry that a draft becomes, with these fields in place of its own or beside them.
    `pii` stays behind: what is marked so is sealed, or refused.
    """
    return Entry._make(_arranged(draft + _BLANK))._replace(**fields)


def one_or_many(values: tuple[str, ...]) -> str | tuple[str, ...] | None:
    return None if not values else values[0] if len(values) == 1 else values


def parse_ttl(text: str) -> int | None:
    """Return the microseconds of a time to live such as `30m`, `24h` or `7d`; None is for ever."""
    normalized = text.strip().lower()
    if normalized in _FOREVER:
        return None
    number, unit = normalized[:-1], normalized[-1:]
    if unit not in _UNITS or not number.isascii() or not number.isdigit():
        raise InvalidEntry(
            f"ttl {text!r} is not valid: write a number and s, m, h, d or w, or 'never'", ttl=text
        )
    return min(int(number[:15]) * _UNITS[unit] * SECOND, MAX_TTL)


def expiry(ttl: str, at: int) -> int:
    span = parse_ttl(ttl)
    return NEVER if span is None else at + span


def check_priority(text: str) -> str:
    if text in RANK:
        return text
    raise InvalidEntry(f"priority {text!r} is not one of {', '.join(PRIORITIES)}", priority=text)


def mint(day: str, number: int) -> str:
    """Return the id of the day's n-th entry; it grows past 999, so ids are never sorted as text."""
    return f"syn-{day}-{number:03d}"


def minted(id: str) -> tuple[str, int] | None:
    """Return the day and number of an id of our own form, else None."""
    day, digits = id[4:14], id[15:]
    if id.count("-") != 4 or day[4:5] != "-" or day[7:8] != "-":
        return None
    if not (digits.isascii() and digits.isdigit()):
        return None
    number = int(digits[:12])
    return (day, number) if is_id(id) and mint(day, number) == id else None


def addressees(to: str | Iterable[str] | None) -> tuple[str, ...]:
    """Return `to:` as a sorted tuple of `all`, `team:x`, `agent:y`; a bare name is an agent's. None
    is everybody; an empty list is a mistake, for all would read what was meant for somebody."""
    if to in ("all", ("all",)):
        return ("all",)
    names = [to] if isinstance(to, str) else list(to or ())
    if not all(isinstance(name, str) for name in names):
        raise InvalidEntry(
            f"to {names!r:.60} is not a list of names: write one such as ['eng-a', 'team:web']"
        )
    parts = (part.strip() for name in names for part in name.split(","))
    addressed = sorted({_addressee(part) for part in parts if part})
    if to is not None and not addressed:
        raise InvalidEntry("to whom? Name an agent, a team, several, or all", to=to)
    return ("all",) if not addressed or "all" in addressed else tuple(addressed)


def _addressee(name: str) -> str:
    if name in ("all", "*"):
        return "all"
    kind, colon, id = name.partition(":")
    kind, id = (kind, id) if colon else ("agent", name)
    if kind in ("team", "agent") and ns.is_component(id):
        return f"{kind}:{id}"
    raise InvalidEntry(
        f"to {name!r} is not valid: write all, team:NAME, agent:ID or a list of them", to=name
    )


def words(values: str | Iterable[str] | None) -> tuple[str, ...]:
    """Return a list given as `a, b` or as a sequence as a tuple without empties or repeats."""
    if values is None or values == ():
        return ()
    items = values.split(",") if isinstance(values, str) else list(values)
    if not all(isinstance(item, str) for item in items):
        raise InvalidEntry(f"{items!r:.60} is not a list of texts: write one such as ['api', 'v2']")
    if isinstance(values, str) and values.strip() and not any(map(str.strip, items)):
        raise InvalidEntry(f"{values!r} names nothing: write words with commas between")
    return tuple(dict.fromkeys(item.strip() for item in items if item.strip()))


def moments(when: str | Iterable[str] | None) -> str | None:
    """Return the text of one moment or several; an empty one is a mistake, and stays empty."""
    return ", ".join(words(when)) if when or when == "" else None
