"""The fields of an entry, each written once: its form, and its names in a file and in JSON. Pure.

`entry` has the values with these fields and their types. The file of an entry, its line in the
journal, its JSON, its seal and the checks of its texts follow from this table; none has a list of
fields of its own. CONTRIBUTING.md says which places a new field needs.
"""

from __future__ import annotations

from synapse.system.typed import NamedTuple

# Whether seals and signatures cover a field. Their headers of version 1 have each of the first
# fields, null where it is not set; a later field stands there only where it is set, so that what
# was sealed or signed before still fits.
ALWAYS, WHEN_SET, NEVER = "always", "when set", "never"


class Field(NamedTuple):
    """A field. `form` says how it is checked, read and written; `key` is its name in a file and
    `wire` its name in JSON, empty where it is in none. `sealed` is one of the three above. `line`:
    the journal has it among the fields of the entry's line.
    """

    name: str
    form: str
    key: str
    wire: str
    sealed: str
    line: bool


def _by_author(
    name: str, form: str, sealed: str, key: str = "", wire: str = "", *, line: bool = True
) -> Field:
    """Return a field that the author sets, in files and in JSON."""
    return Field(name, form, key or name, wire or key or name, sealed, line)


def _by_gate(name: str, form: str, wire: str = "", *, line: bool = True) -> Field:
    """Return a field that is set when the entry is taken in, or later; it is in no file."""
    return Field(name, form, "", wire or name, NEVER, line)


# In the order of JSON. A file has what every entry has first, then the lists, then the texts.
FIELDS = (
    _by_author("id", "id", NEVER, line=False),
    _by_author("author", "agent", ALWAYS, "from"),
    _by_author("addressees", "names", ALWAYS, "to"),
    _by_author("timestamp", "time", ALWAYS),
    _by_author("namespace", "namespace", ALWAYS),
    _by_author("priority", "priority", ALWAYS),
    _by_author("ttl", "span", ALWAYS),
    _by_author("tags", "words", ALWAYS),
    _by_author("topic", "text", ALWAYS),
    _by_author("replaces", "one or more ids", ALWAYS, "supersedes"),
    _by_author("related", "ids", ALWAYS),
    _by_author("scope", "scope", ALWAYS),
    _by_author("pii", "flag", NEVER, line=False),  # of a draft alone: the entry is sealed
    _by_author("claim", "text", ALWAYS, "authority", "claim"),
    _by_author("derived_from", "ids", ALWAYS),
    _by_author("evidence", "text", ALWAYS),
    _by_author("when", "moments", ALWAYS),
    _by_author("signature", "proof", NEVER),
    _by_gate("authority", "number"),
    _by_gate("trust", "word"),
    _by_gate("seq", "number", line=False),
    _by_gate("at", "moment", "received", line=False),
    _by_gate("expires", "end", line=False),
    _by_gate("alias", "word or none"),
    _by_gate("claimed", "word or none"),
    _by_gate("disputed", "list", line=False),
    _by_gate("archived", "flag", line=False),
    _by_gate("staged", "flag"),
    _by_author("kind", "kind", ALWAYS),
    Field("more", "more", "", "more", ALWAYS, True),  # in a file its fields are keys of their own
    _by_gate("run", "word or none"),
    Field("body", "body", "", "body", NEVER, False),  # a seal covers it beside the header
)
BY_NAME = {field.name: field for field in FIELDS}

_TEXTS = ("text", "moments")


def names_of(*forms: str) -> tuple[str, ...]:
    """Return the names of the fields that have one of these forms."""
    return tuple(field.name for field in FIELDS if field.form in forms)


# What an author writes in words of its own beside the body and the tags; None where it did not.
FREE = names_of(*_TEXTS)
# The same and the signature: optional texts of a file, by their keys.
TEXTS = {field.key: field.name for field in FIELDS if field.form in (*_TEXTS, "proof")}
# What says more about the body: an entry made of several has it where all of them agree.
DETAILS = tuple(name for name in FREE if name not in ("topic", "claim"))
REFERENCES = names_of("ids", "one or more ids")
LISTS = (*names_of("names", "words", "list"), *REFERENCES)
