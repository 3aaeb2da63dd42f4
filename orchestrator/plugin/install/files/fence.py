"""A block of our lines in a text file that others write too, between two marked lines. Each verb of
ours that puts one into a file has marks of its own.

Pure. Called by `merge`, and by `sync`, which reads the files without our blocks.
"""

from __future__ import annotations

import re
import tomllib
from itertools import pairwise
from typing import Any, NamedTuple

from orchestrator.plugin.install.files.members import Clash

INSTALL, SYNC = "install", "sync"
_MARKS = {INSTALL: "synapse", SYNC: "synapse-sync"}
_NOTES = {
    INSTALL: "made by `orchestrator install`; edits in here are lost",
    SYNC: "made by `orchestrator sync`; what you write in here is taken out, as a proposal",
}
BEGIN, END = "synapse:begin", "synapse:end"
_FORMS = {"toml": ("# ", ""), "lines": ("# ", ""), "markdown": ("<!-- ", " -->")}
_HEADER = re.compile(r"^[ \t]*\[[^\n]*\][ \t]*(?:#[^\n]*)?\r?$", re.MULTILINE)


class Span(NamedTuple):
    """Where the block stands, its marked lines included."""

    start: int
    end: int


def block(text: str, style: str, by: str = INSTALL) -> str:
    """Return a block with its marked lines."""
    closing = _FORMS[style][1]
    first = f"{_mark(style, by, 'begin')} {_NOTES[by]}{closing}"
    return f"{first}\n{text.strip(chr(10))}\n{_mark(style, by, 'end')}{closing}\n"


def span(text: str, style: str, by: str = INSTALL) -> Span | None:
    """Return where the block is, None where there is none. Clash where it has no end, or where
    there are two."""
    begin, end = (re.escape(_mark(style, by, side)) for side in ("begin", "end"))
    first_line = rf"(?:^|(?<=\ufeff)){begin}\b[^\n]*$"
    begins = list(re.finditer(first_line, text, re.MULTILINE))
    ends = list(re.finditer(rf"^{end}\b[^\n]*(?:\n|\Z)", text, re.MULTILINE))
    if not begins and not ends:
        return None
    if len(begins) != 1 or len(ends) != 1 or ends[0].start() < begins[0].end():
        first = (begins or ends)[0]
        raise Clash(
            (
                f"there have to be one line `{_mark(style, by, 'begin')}` and one"
                f" `{_mark(style, by, 'end')}` below it: remove those that are too many"
            ),
            text.count("\n", 0, first.start()) + 1,
        )
    return Span(begins[0].start(), ends[0].end())


def is_alone(text: str) -> bool:
    """Return whether one block of ours in Markdown is all that there is, to the byte."""
    return any(span(text, "markdown", by) == (0, len(text)) for by in _MARKS)


def _mark(style: str, by: str, side: str) -> str:
    """Return how a marked line begins."""
    return f"{_FORMS[style][0]}{_MARKS[by]}:{side}"


def put(text: str, body: str, style: str, by: str = INSTALL) -> tuple[str, str]:
    """Return the text with the block, at the place of the one that is there, else at the end; and
    the white space that was put before it."""
    eol = "\r\n" if "\r\n" in text else "\n"
    fenced = block(body, style, by).replace("\n", eol)
    current = None if style == "toml" else span(text, style, by)
    if current is not None:
        return text[: current.start] + fenced + text[current.end :], ""
    lead = ""
    if text.strip("\ufeff"):
        lead = ("" if text.endswith("\n") else eol) + ("" if style == "lines" else eol)
    return text + lead + fenced, lead


def take_out(text: str, body: str, style: str, lead: str | None, by: str = INSTALL) -> str:
    """Return the text without the block."""
    current = _whole(text, body) if style == "toml" else span(text, style, by)
    if current is None:
        return _without_tables(text, body, lead) if style == "toml" else text
    before, after = text[: current.start], text[current.end :]
    if lead is None:
        lead = "\n" if before.endswith("\n\n") and style != "lines" else ""
    if lead and before.endswith(lead):
        before = before[: -len(lead)]
    # white space that was put before another block of ours begins its line already
    if before and not before.endswith("\n") and after and after[0] not in "\r\n":
        before += "\r\n" if "\r\n" in text else "\n"
    return before + after


# -- tables of TOML --------------------------------------------------------------------------------


def holds(text: str, body: str) -> bool:
    """Tell whether a text says all that our tables say, wherever a client has moved them."""
    try:
        return _within(_toml(text), tomllib.loads(body))
    except Clash:
        return False


def _within(theirs: Any, ours: Any) -> bool:
    if isinstance(theirs, dict) and isinstance(ours, dict):
        return all(key in theirs and _within(theirs[key], value) for key, value in ours.items())
    if isinstance(theirs, list) and isinstance(ours, list):
        return all(item in theirs for item in ours)
    return bool(theirs == ours)


def _whole(text: str, body: str) -> Span | None:
    """Return where the block is as we wrote it, None where somebody wrote into it."""
    try:
        current = span(text, "toml")
    except Clash:
        return None
    if current is None:
        return None
    written = text[current.start : current.end].replace("\r\n", "\n")
    return current if _parts(written)[1:-1] == _parts(block(body, "toml"))[1:-1] else None


def _without_tables(text: str, body: str, lead: str | None) -> str:
    """Return a text without our tables and marked lines, wherever they stand. A client that writes
    its file anew loses a comment before a table, and puts its own tables before the last comment.
    """
    ours = {
        _key(section): _plain(section)
        for section in _parts(body)
        if section.lstrip().startswith("[")
    }
    is_known = lead is not None or f"# {BEGIN}" in text or f"# {END}" in text
    remaining, is_last = [], False
    for section in _parts(text):
        key = _key(section)
        is_same = key in ours and _plain(section) == ours[key]
        is_last = section.lstrip().startswith((f"# {BEGIN}", f"# {END}")) or (
            is_same or (is_known and key in ours and not key.startswith("[["))
        )
        if not is_last:
            remaining.append(section)
    result = "".join(remaining)
    if (
        len(remaining) < len(_parts(text))
        and is_last
        and lead
        and result.replace("\r\n", "\n").endswith("\n\n")
        and result.endswith(lead)
    ):
        result = result[: -len(lead)]
    if result != text:
        _toml(result)
    return result


def _parts(text: str) -> list[str]:
    """Return a text in its parts: what stands before the first table, each table, each marked line
    of ours."""
    starts = {match.start() for match in _HEADER.finditer(text)}
    marks = list(re.finditer(rf"^# (?:{BEGIN}|{END})\b[^\n]*(?:\n|\Z)", text, re.MULTILINE))
    starts |= {position for mark in marks for position in (mark.start(), mark.end())}
    positions = [0, *sorted(starts - {0}), len(text)]
    return [text[start:end] for start, end in pairwise(positions) if start < end]


def _key(part: str) -> str:
    """Return the header of a table without its spaces; of another part nothing."""
    header = _HEADER.match(part)
    return "" if header is None else re.sub(r"\s+|#.*", "", header.group())


def _plain(part: str) -> str:
    return "\n".join(line.strip() for line in part.splitlines() if line.strip())


def check_toml(text: str, body: str) -> None:
    """Raise Clash unless the text is TOML and takes our tables beside its own."""
    theirs = text.removeprefix("\ufeff")
    own = _toml(theirs)
    try:
        both = tomllib.loads(f"{theirs}\n{body}")
    except tomllib.TOMLDecodeError as error:
        header = _clashing(theirs, body)
        raise Clash(
            f"{header[0]} stands there already: remove it, or rename it ({error})", header[1]
        ) from None
    if both != _merged(own, tomllib.loads(body)):
        raise Clash("our tables would change what the file says", 1)


def _toml(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text.removeprefix("\ufeff").replace("\r\n", "\n"))
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"at line (\d+)", str(error))
        number = int(line.group(1)) if line else text.count("\n") + 1
        raise Clash(f"this is no TOML: {error}", number) from None


def _clashing(theirs: str, body: str) -> tuple[str, int]:
    """Return the table of ours that cannot stand beside theirs, and the line of theirs."""
    for header in _HEADER.finditer(body):
        name = header.group().strip().strip("[]").strip()
        keys = [key.strip() for key in name.split(".")]
        for size in range(len(keys), 0, -1):
            path = r"\s*\.\s*".join(re.escape(key) for key in keys[:size])
            last = re.escape(keys[size - 1])
            match = re.search(
                rf"^[ \t]*(\[\[?\s*{path}\s*\]|(?:{path}|{last})\s*[=.])", theirs, re.MULTILINE
            )
            if match and _breaks(theirs, body, header.start()):
                return match.group().strip(" \t=."), theirs.count("\n", 0, match.start()) + 1
    return "a table of the same name", 1


def _breaks(theirs: str, body: str, start: int) -> bool:
    """Tell whether one table of ours, from its header to the next, cannot stand beside theirs."""
    following = _HEADER.search(body, start + 1)
    try:
        tomllib.loads(theirs + "\n" + body[start : following.start() if following else len(body)])
    except tomllib.TOMLDecodeError:
        return True
    return False


def _merged(theirs: Any, ours: Any) -> Any:
    if isinstance(theirs, dict) and isinstance(ours, dict):
        both = {key: _merged(theirs[key], ours[key]) for key in theirs.keys() & ours.keys()}
        return {**theirs, **ours, **both}
    if isinstance(theirs, list) and isinstance(ours, list):
        return theirs + ours
    return ours
