"""The output of verbs: entries as text at 80 columns, and JSON.

No terminal ever gets a raw control.

Pure, but for asking whether standard output is a terminal.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

from synapse.model.entry import DOUBTFUL, Entry
from synapse.model.entry_fields import DETAILS
from synapse.model.kinds import ENTRY
from synapse.model.namespace import is_component
from synapse.system.quoting import clean as clean
from synapse.system.quoting import in_json
from synapse.system.quoting import one_line as one_line

INDENT = "    "
LINES = 12
WIDTH = 80


def to_json(value: object) -> str:
    """Return one line of JSON; characters that a terminal or a model's server would act on are
    escaped."""
    import json

    from synapse.wire.forms import fields

    text = in_json(json.dumps(fields(value), ensure_ascii=False))
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _json_escape(char) for char in text)


def header(entry: Entry) -> str:
    """Return id, priority, namespace, author and time of an entry, with its warnings."""
    parts_of_header = [entry.id, entry.priority, entry.namespace, _author(entry), entry.timestamp]
    labels = marks(entry)
    return one_line(
        " ".join([*parts_of_header, f"({', '.join(labels)})"] if labels else parts_of_header)
    )


def _author(entry: Entry) -> str:
    """Return the author; in quotes where a dropped file claims something that is no name."""
    if is_component(entry.author):
        return entry.author
    from synapse.view.block import named

    return named(entry.author)


def marks(entry: Entry) -> list[str]:
    """Return warnings about an entry, such as `staged` or `disputed`."""
    labels = []
    if entry.staged:
        labels.append("staged")
    if entry.trust in DOUBTFUL:
        labels.append(entry.trust)
    if entry.disputed:
        labels.append("disputed")
    if entry.archived:
        labels.append("archived")
    return labels


def details(entry: Entry) -> str:
    """Return the optional fields of an entry on one line; empty if none is set."""
    pairs = [
        ("disputed with", ", ".join(entry.disputed)),
        ("to", ", ".join(entry.addressees) if entry.addressees != ("all",) else ""),
        ("subject", entry.more.get("subject", "")),
        ("thread", entry.more.get("thread", "")),
        ("topic", entry.topic or ""),
        ("tags", ", ".join(entry.tags)),
        ("supersedes", ", ".join(entry.replaces)),
        ("related", ", ".join(entry.related)),
        ("scope", entry.scope if entry.scope != "public" else ""),
    ]
    # of mail and knowledge `when` is the time that an old file had
    shown = (name for name in DETAILS if name != "when" or entry.kind == ENTRY)
    pairs += [(name, getattr(entry, name)) for name in shown]
    return one_line("; ".join(f"{name} {value}" for name, value in pairs if value))


def block(entry: Entry, *, whole: bool = False, width: int | None = None) -> str:
    """Return an entry as text: a header, its fields and its indented body, shortened unless
    `whole`."""
    lines = clean(entry.body).split("\n")
    hidden = 0 if whole else max(0, len(lines) - LINES)
    visible = _fit(lines[: len(lines) - hidden], width)
    if hidden:
        visible.append(f"... {hidden} more line{'s' * (hidden > 1)}: synapse read {entry.id}")
    extra_fields = details(entry)
    extra = [f"[{extra_fields}]"] if extra_fields else []
    return "\n".join(
        [header(entry), *(INDENT + line if line else "" for line in [*extra, *visible])]
    )


def listing(entries: Iterable[Entry], *, whole: bool = False) -> str:
    """Return entries as text, with an empty line between them."""
    width = columns()
    return "\n\n".join(block(entry, whole=whole, width=width) for entry in entries)


def line(entry: Entry, width: int = 0) -> str:
    """Return an entry on one line: id, priority, namespace, author and how its body starts."""
    labels = marks(entry)
    columns_ = [entry.id, entry.priority, entry.namespace, f"{_author(entry)}:"]
    return short(
        " ".join([*columns_, *([f"({', '.join(labels)})"] if labels else []), first(entry.body)]),
        width,
    )


def first(body: str) -> str:
    """Return the first line of a body."""
    return body.split("\n", 1)[0]


def short(text: str, width: int) -> str:
    """Return one clean line of at most `width` characters; 0 means no limit."""
    text = one_line(text.replace("\n", " "))
    return text if not width or len(text) <= width else f"{text[: width - 3]}..."


def columns() -> int | None:
    """Return the width of the terminal; None if the output is not a terminal."""
    import os

    try:
        return (
            max(os.get_terminal_size(sys.stdout.fileno()).columns, 40)
            if sys.stdout.isatty()
            else None
        )
    except (OSError, ValueError, AttributeError):
        return None


def _fit(lines: Sequence[str], width: int | None) -> list[str]:
    if not width:
        return list(lines)
    from textwrap import wrap

    inside = width - len(INDENT)
    fitted: list[str] = []
    for text in lines:
        long = len(text) > inside
        fitted += (
            wrap(text, inside, break_long_words=False, break_on_hyphens=False) if long else [text]
        )
    return fitted


def _json_escape(char: str) -> str:
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))
