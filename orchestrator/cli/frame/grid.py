"""Tables of figures: on a terminal a row is one line, and the last column is cut; elsewhere all of
it is printed.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from synapse.cli.frame.show import one_line
from synapse.cli.frame.table import Rows, table

LEAST = 12
GAP = 2
STYLES = {
    "running": "cyan",
    "done": "green",
    "acked": "green",
    "rendered": "green",
    "blocked": "yellow",
    "waiting": "yellow",
    "failed": "red",
    "orphaned": "red",
    "closed": "cyan",
    "timeout": "red",
    "stored": "yellow",
}


def grid(headers: Sequence[str], rows: Rows, right: Sequence[str] = ()) -> str:
    """Return a table. `right` are the headers of the columns of numbers, which are never cut: where
    there is too little room, the last column gives way, then the blanks between the columns; where
    that is a number, these blanks and then the first column.
    """
    if sys.stdout.isatty():
        return _draw(headers, rows, right)
    cells = [list(headers), *([one_line(cell) for cell in row] for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(headers))]
    numbers = {column for column, header in enumerate(headers) if header in right}
    padded = [
        [cell.rjust(widths[i]) if i in numbers else cell for i, cell in enumerate(row)]
        for row in cells
    ]
    return table(padded[0], padded[1:])


def _draw(headers: Sequence[str], rows: Rows, right: Sequence[str]) -> str:
    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    cells = [[one_line(cell.replace("\n", " ")) for cell in row] for row in rows]
    widths = [max(map(cell_len, column)) for column in zip(headers, *cells, strict=True)]
    is_number = headers[-1] in right
    gives = 0 if is_number else len(headers) - 1
    least = sum(widths) if is_number else sum(widths[:-1]) + min(widths[-1], LEAST)
    gap = 1 if least + GAP * (len(headers) - 1) > console.width else GAP
    room = console.width - sum(widths) + widths[gives] - gap * (len(headers) - 1)
    widths[gives] = min(widths[gives], max(room, LEAST))
    console.width = max(console.width, sum(widths) + gap * (len(headers) - 1))
    pretty = Table(box=None, padding=(0, gap, 0, 0), pad_edge=False, header_style="bold")
    for header, width in zip(headers, widths, strict=True):
        justify: Any = "right" if header in right else "left"
        pretty.add_column(header, justify=justify, no_wrap=True, overflow="ellipsis", width=width)
    for row in cells:
        pretty.add_row(*(Text(cell, style=STYLES.get(cell, "")) for cell in row))
    with console.capture() as capture:
        console.print(pretty)
    return "\n".join(line.rstrip() for line in capture.get().splitlines())
