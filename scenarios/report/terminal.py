"""The Markdown of a report in the terminal: lines of at most 80 columns. Folded figures are left to
the page; the cells of a grid are shown.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence

from scenarios.report.markdown import COLUMN_MEANINGS, FIGURES, FOLDED, FOLDS, PIPE

WIDTH = 80
CELL = re.compile(r"(?<!\\)\|")
NARROW = 24  # signs of a name, before a row becomes a sentence
LEFT_OUT = (FIGURES, COLUMN_MEANINGS)
ITEM = "* "


def lines(markdown: Iterable[str]) -> Iterator[str]:
    """Yield the lines for a terminal, one empty line between two blocks."""
    was_empty = True
    for block in _blocks(markdown):
        if not was_empty:
            yield ""
        yield from block
        was_empty = False


def _blocks(markdown: Iterable[str]) -> Iterator[list[str]]:
    """Yield the blocks of a document as lines: paragraphs, lists, tables."""
    block: list[str] = []
    folded = ""
    for line in (*markdown, ""):
        if match := FOLDS.fullmatch(line):
            folded = match[1]
            block.append(f"{folded}:")
        elif line and line != FOLDED:
            block.append(line)
        elif block:
            if folded not in LEFT_OUT:
                yield [*_block(block)]
            block = []
        folded = "" if line == FOLDED else folded


def _block(block: Sequence[str]) -> Iterator[str]:
    if block[0].startswith("|"):
        yield from _table(block)
    elif block[0].startswith(ITEM):
        for line in block:
            yield from wrapped(f"  {plain(line.removeprefix(ITEM))}", "    ")
    else:
        yield from wrapped(plain(" ".join(block)).lstrip("# "))


def plain(text: str) -> str:
    """Return a text without the marks of Markdown."""
    text = text.replace("&lt;", "<").replace("]\\(", "](").replace("\\*", "\0")
    text = re.sub(r"\*\*(.+?)\*\*|(?<!\S)\*(\w+:)\*(?!\S)", r"\1\2", text)
    return text.replace("\0", "*")


def _table(block: Sequence[str]) -> Iterator[str]:
    """Yield aligned columns where they fit, else each row as a sentence."""
    head, rule, *rows = ([_text(cell) for cell in CELL.split(line)[1:-1]] for line in block)
    cells = [[_lines_of(name) for name in head], *([[cell] for cell in row] for row in rows)]
    if _width(cells) > WIDTH:  # names may take several lines
        narrow = max(NARROW, WIDTH - _width([row[1:] for row in cells]) - 1)
        cells = [[_lines_of(row[0][0], narrow), *row[1:]] for row in cells]
    if _width(cells) <= WIDTH:
        yield from _aligned(cells, [side.endswith(":") for side in rule])
        return
    for name, *values in rows:
        pairs = zip(head[1:], values, strict=True)
        text = "; ".join(f"{title} {value}" for title, value in pairs if value not in ("", "–"))
        yield from wrapped(f"  {name}{': ' if text else ''}{text}", "      ")


def _aligned(rows: Sequence[Sequence[Sequence[str]]], right: Sequence[bool]) -> Iterator[str]:
    """Yield rows whose cells have several lines, heads at the foot of theirs."""
    widths = _widths(rows)
    for number, row in enumerate(rows):
        height = max(map(len, row))
        for at in range(height):
            above = [at - (height - len(cell) if number == 0 else 0) for cell in row]
            texts = [
                cell[line] if 0 <= line < len(cell) else ""
                for cell, line in zip(row, above, strict=True)
            ]
            yield " ".join(
                text.rjust(width) if is_number else text.ljust(width)
                for text, width, is_number in zip(texts, widths, right, strict=True)
            ).rstrip()


def _widths(rows: Sequence[Sequence[Sequence[str]]]) -> list[int]:
    """Return the width of each column."""
    return [
        max(len(line) for cell in column for line in cell) for column in zip(*rows, strict=True)
    ]


def _width(rows: Sequence[Sequence[Sequence[str]]]) -> int:
    widths = _widths(rows)
    return sum(widths) + len(widths) - 1


def _lines_of(text: str, width: int = 5) -> list[str]:
    """Return a text in lines as narrow as this, or as its longest word."""
    width = max([width, *map(len, text.split())])
    return textwrap.wrap(text, width, break_on_hyphens=False) or [""]


def _text(cell: str) -> str:
    return plain(cell.strip().replace(PIPE, "|"))


def wrapped(text: str, indent: str = "") -> Sequence[str]:
    return textwrap.wrap(text, WIDTH, subsequent_indent=indent, break_on_hyphens=False)
