"""A text is overwritten in files that repeat it, in their place and at their length. Pure: bytes
in, places out; `integrity.redaction` reads and writes the files.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator

from synapse.system.json import dumps

SEED = 16  # bytes that are looked for; around them, all that is equal counts
LEAST = 24  # bytes of a longer line that have to be there together
SHORT = 6  # characters that a line has at least, to be looked for by itself
WORD = b"[redacted]"


def forms(text: str) -> list[bytes]:
    """Return the lines of a text as files may hold them: as they are, in JSON, and in JSON within
    JSON.
    """
    lines = {line.strip() for line in text.splitlines()}
    lines = {line for line in lines if len(line) >= SHORT} or {text.strip()}
    needles: set[bytes] = set()
    for line in lines:
        once = [dumps(line)[1:-1], json.dumps(line)[1:-1]]
        twice = [encode(form)[1:-1] for form in once for encode in (dumps, json.dumps)]
        needles.update(form.encode() for form in (line, *once, *twice))
    return sorted(needles - {b""}, key=len, reverse=True)


def erased(raw: bytes, needles: Collection[bytes]) -> bytes:
    """Return a file without what it holds of these lines, at its length."""
    blanked = bytearray(raw)
    for start, end in places(raw, needles):
        size = end - start
        blanked[start:end] = WORD.ljust(size) if size >= len(WORD) else b"*" * size
    return bytes(blanked)


def places(raw: bytes, needles: Collection[bytes]) -> Iterator[tuple[int, int]]:
    """Yield where parts of these lines stand."""
    for needle in needles:
        if len(needle) <= LEAST:
            at = raw.find(needle)
            while at >= 0:
                yield at, at + len(needle)
                at = raw.find(needle, at + len(needle))
            continue
        for offset in range(0, len(needle) - SEED + 1, SEED):
            yield from _around(raw, needle, offset)


def _around(raw: bytes, needle: bytes, offset: int) -> Iterator[tuple[int, int]]:
    seed = needle[offset : offset + SEED]
    at = raw.find(seed)
    while at >= 0:
        start, end, index = at, at + SEED, offset + SEED
        while start and start > at - offset and raw[start - 1] == needle[offset - at + start - 1]:
            start -= 1
        while end < len(raw) and index < len(needle) and raw[end] == needle[index]:
            end, index = end + 1, index + 1
        if end - start >= LEAST:
            yield _whole_letters(raw, start, end)
        at = raw.find(seed, end)


def _whole_letters(raw: bytes, start: int, end: int) -> tuple[int, int]:
    """Return the place without the parts of letters, and of escapes, at its two ends."""
    while start < end and raw[start] & 0xC0 == 0x80:
        start += 1
    while end > start and end < len(raw) and raw[end] & 0xC0 == 0x80:
        end -= 1
    slashes = len(raw[:start]) - len(raw[:start].rstrip(b"\\")) if start else 0
    return (start + 1 if slashes % 2 else start), end
