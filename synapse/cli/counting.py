"""`synapse stats`: how much there is, how it grows, and what the nights do about it."""

from __future__ import annotations

from synapse.cli.call import Call
from synapse.cli.options import Options
from synapse.cli.parse import number
from synapse.cli.show import WIDTH
from synapse.system.typed import TYPE_CHECKING

if TYPE_CHECKING:
    from synapse.consolidate import Measured
    from synapse.consolidate.metrics import Measure

FULLEST = 10
LEGEND = """\
written: since the night before; filed: filed away, merged ones among them
disputed: entries that contradict an equal, shown until somebody settles it
compressed: the share of the bytes that the night filed away"""
_HEADS = (
    "night",
    "entries",
    "KB",
    "written",
    "filed",
    "merged",
    "disputed",
    "compressed",
)


def stats_options(parser: Options) -> None:
    parser.add_argument(
        "--nights",
        type=number,
        default=14,
        metavar="N",
        help="the newest so many in the table; else 14",
    )


def stats(call: Call) -> None:
    from synapse.consolidate import measured

    found = measured(call.memory)
    told = {
        "nights": [_json(each) for each in found.nights],
        "warnings": [*found.worries, *found.remarks],
    }
    call.show(lambda: told, lambda: _text(found, call.args.nights))


def _json(each: Measure) -> dict[str, object]:
    names = ("name", "entries", "bytes", "before")
    rows = [dict(zip(names, row, strict=True)) for row in each.namespaces]
    return each._asdict() | {
        "namespaces": rows,
        "compression": round(each.compression, 4),
    }


def _text(found: Measured, nights: int) -> str:
    from synapse.cli.table import table
    from synapse.consolidate.metrics import per_namespace, plot

    parts = [f"warning: {each}" for each in (*found.worries, *found.remarks)]
    if not found.nights:
        return "\n".join(
            [*parts, "no night yet: `synapse defrag`, or have one run every night"]
        )
    parts += ["entries", *plot([each.entries for each in found.nights], WIDTH - 11), ""]
    parts.append(table(_HEADS, [_row(each) for each in found.nights[-nights:]]))
    parts += ["", LEGEND]
    fullest = per_namespace(found.nights[-1])[:FULLEST]
    return "\n".join(
        [*parts, "", table(("namespace", "entries", "bytes", "compressed"), fullest)]
    )


def _row(each: Measure) -> tuple[str, ...]:
    counts = (
        each.entries,
        each.bytes // 1000,
        each.written,
        each.filed,
        each.merged,
        each.disputed,
    )
    return (each.date, *(f"{count:,}" for count in counts), f"{each.compression:.0%}")
