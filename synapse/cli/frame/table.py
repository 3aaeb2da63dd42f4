"""Tables as aligned text, or drawn by rich on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from synapse.cli.frame.show import one_line

Rows = Sequence[Sequence[str]]


def table(headers: Sequence[str], rows: Rows) -> str:
    """Return aligned columns, two spaces apart; the last column is not padded."""
    cells = [list(headers), *([one_line(cell) for cell in row] for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(headers) - 1)]
    return "\n".join(
        "  ".join(
            [*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]]
        ).rstrip()
        for row in cells
    )


def draw_table(headers: Sequence[str], rows: Rows) -> str:
    """Return the table as rich draws it on a terminal, else as aligned text."""
    if not sys.stdout.isatty():
        return table(headers, rows)
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    pretty = Table(*headers, box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for row in rows:
        pretty.add_row(*(Text(one_line(cell)) for cell in row))
    with console.capture() as capture:
        console.print(pretty)
    return "\n".join(line.rstrip() for line in capture.get().splitlines())
