"""The edits that a call of a client's tool makes, read from its arguments. Pure. Called by
`event`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from orchestrator.files.touch import Edit
from orchestrator.plugin.facts import ToolFacts
from synapse.system.pattern import later

PATCH = "*** Begin Patch"  # in a tool's argument, or in a command
LONGEST = 1 << 18  # characters of a text that are looked at
_SECTION = later(r"(?m)^\*\*\* (?:Add|Update|Delete) File: (.+)$")
_HUNK = later(r"(?m)^@@.*\n")


def read_edits(
    tool: ToolFacts, arguments: Mapping[str, Any], subjects: tuple[str, ...]
) -> tuple[Edit, ...]:
    """Return the edits of a call in their order; none where the tool changes no file."""
    if tool.kind == "run" or (tool.kind == "edit" and tool.pattern):
        texts = (_text(arguments, name) or "" for name in arguments)
        return tuple(edit for text in texts if PATCH in text for edit in _of_patch(text))
    if tool.kind != "edit" or not tool.new:
        return ()
    items = arguments.get(tool.parts) if tool.parts else None
    items = items if isinstance(items, list) else [arguments]
    return tuple(
        Edit(path, _text(item, tool.old), _text(item, tool.new) or "")
        for path in subjects[:1]
        for item in items
        if isinstance(item, Mapping)
    )


def _of_patch(patch: str) -> Iterator[Edit]:
    """Yield the edits of a patch, one for each place of a file."""
    sections = [*_SECTION.finditer(patch)]
    ends = [match.start() for match in sections[1:]] + [len(patch)]
    for section, end in zip(sections, ends, strict=True):
        for hunk in _HUNK.split(patch[section.end() + 1 : end]):
            lines = [line for line in hunk.splitlines() if not line.startswith("***")]
            old = "\n".join(line[1:] for line in lines if not line.startswith("+"))
            new = "\n".join(line[1:] for line in lines if not line.startswith("-"))
            if old != new:
                yield Edit(section[1].strip(), old, new)


def _text(values: Mapping[str, Any], name: str) -> str | None:
    value = values.get(name) if name else None
    return value[:LONGEST] if isinstance(value, str) else None
