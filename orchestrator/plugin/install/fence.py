"""Lines of ours in a text file that others write too, between two marked lines.

Pure. Called by `merge`, and by `agents_md` to read the block that is there.
"""

from __future__ import annotations

import re
import tomllib
from typing import Any, NamedTuple

from orchestrator.plugin.install.members import Clash

BEGIN, END = "synapse:begin", "synapse:end"
_NOTE = "made by `orchestrator install`; edits in here are lost"
_FORMS = {"toml": ("# ", ""), "lines": ("# ", ""), "markdown": ("<!-- ", " -->")}
_HEADER = re.compile(r"^[ \t]*\[\[?[^\n]*\]", re.MULTILINE)


class Span(NamedTuple):
    """Where the block stands, its marked lines included."""

    start: int
    end: int


def block(text: str, style: str) -> str:
    """Return a block with its marked lines."""
    left, right = _FORMS[style]
    return f"{left}{BEGIN} {_NOTE}{right}\n{text.strip(chr(10))}\n{left}{END}{right}\n"


def span(text: str, style: str) -> Span | None:
    """Return where the block is, None where there is none. Clash where it has no end, or where
    there are two."""
    left, _ = _FORMS[style]
    begins = list(re.finditer(rf"^{re.escape(left + BEGIN)}\b[^\n]*$", text, re.MULTILINE))
    ends = list(re.finditer(rf"^{re.escape(left + END)}\b[^\n]*(?:\n|\Z)", text, re.MULTILINE))
    if not begins and not ends:
        return None
    if len(begins) != 1 or len(ends) != 1 or ends[0].start() < begins[0].end():
        first = (begins or ends)[0]
        raise Clash(
            f"there have to be one line `{left}{BEGIN}` and one `{left}{END}` below it: remove those that are too many",
            text.count("\n", 0, first.start()) + 1,
        )
    return Span(begins[0].start(), ends[0].end())


def put(text: str, body: str, style: str) -> tuple[str, str]:
    """Return the text with the block, at the place of the one that is there, else at the end; and
    the white space that was put before it."""
    eol = "\r\n" if "\r\n" in text else "\n"
    made = block(body, style).replace("\n", eol)
    there = span(text, style)
    if there is not None:
        return text[: there.start] + made + text[there.end :], ""
    lead = ""
    if text.strip("\ufeff"):
        lead = ("" if text.endswith("\n") else eol) + ("" if style == "lines" else eol)
    return text + lead + made, lead


def take_out(text: str, body: str, style: str, lead: str | None) -> str:
    """Return the text without the block. Tables of TOML that others wrote into it stay: a client
    that writes its own file may move our last line behind its tables."""
    there = span(text, style)
    if there is None:
        return text
    before, after = text[: there.start], text[there.end :]
    left = _others(text[there.start : there.end], body) if style == "toml" else ""
    if left:
        return before + left + after
    if lead is None:
        lead = "\n" if before.endswith("\n\n") and style != "lines" else ""
    if lead and before.endswith(lead):
        before = before[: -len(lead)]
    if before and after and not before.endswith("\n"):
        before += "\r\n" if "\r\n" in text else "\n"
    return before + after


def _others(text: str, body: str) -> str:
    """Return the tables in the block that are not ours."""
    ours = {_key(header.group()) for header in _HEADER.finditer(body)}
    headers = list(_HEADER.finditer(text))
    ends = [header.start() for header in headers[1:]] + [len(text)]
    tables = [
        text[header.start() : end]
        for header, end in zip(headers, ends, strict=True)
        if _key(header.group()) not in ours
    ]
    lines = "".join(tables).splitlines(keepends=True)
    return "".join(line for line in lines if f"# {END}" not in line)


def _key(header: str) -> str:
    return re.sub(r"\s+", "", header)


def check_toml(text: str, body: str) -> None:
    """Raise Clash unless the text is TOML and takes our tables beside its own."""
    there = span(text, "toml")
    theirs = text if there is None else text[: there.start] + text[there.end :]
    own = _toml(theirs)
    try:
        both = tomllib.loads(f"{theirs}\n{body}")
    except tomllib.TOMLDecodeError as error:
        header = _clashing(theirs, body)
        raise Clash(f"{header[0]} stands there already: remove it, or rename it ({error})", header[1]) from None
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
        parts = [part.strip() for part in name.split(".")]
        for size in range(len(parts), 0, -1):
            path = r"\s*\.\s*".join(re.escape(part) for part in parts[:size])
            last = re.escape(parts[size - 1])
            match = re.search(rf"^[ \t]*(\[\[?\s*{path}\s*\]|(?:{path}|{last})\s*[=.])", theirs, re.MULTILINE)
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
