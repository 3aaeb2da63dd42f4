"""The figures of nightly runs: how much there is, how fast it grows, how much is filed away. Pure.

They are computed at the end of a run, stored in its record, and read by `synapse stats` and
`doctor`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from synapse.consolidate.acts import AppliedAct
from synapse.index.questions.maintenance import Weight
from synapse.model.clock import DAY, day
from synapse.system.typed import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from synapse.model.records import Record

# Namespaces at the top level, and levels below one another, that are hard to follow.
MANY, DEEP = 10, 3
IDLE_DAYS = 3
WEEK = 7
GROWTH = 2  # times as much written as filed away, for a week
FEW = 100  # entries in a week that are no growth to speak of


class Measure(NamedTuple):
    """The figures of one run."""

    date: str
    at: int
    entries: int
    bytes: int
    written: int
    filed: int
    merged: int
    disputed: int
    # name, entries and bytes after the run, bytes before
    namespaces: tuple[tuple[str, int, int, int], ...]

    @property
    def compression(self) -> float:
        """Return the share of bytes that the run filed away."""
        sizes = [(size, before) for _, _, size, before in self.namespaces if before]
        return (
            1 - sum(size for size, _ in sizes) / sum(before for _, before in sizes)
            if sizes
            else 0.0
        )


def measure_json(each: Measure) -> dict[str, object]:
    """Return the figures of a run as a JSON object."""
    names = ("name", "entries", "bytes", "before")
    rows = [dict(zip(names, row, strict=True)) for row in each.namespaces]
    return each._asdict() | {"namespaces": rows, "compression": round(each.compression, 4)}


def measure_fields(
    before: Sequence[Weight],
    after: Sequence[Weight],
    done: Iterable[AppliedAct],
    written: int,
    disputed: int,
) -> dict[str, object]:
    """Return the figures as fields of the run's record."""
    later = {weight.namespace: weight for weight in after}
    names = sorted({weight.namespace for weight in (*before, *after)})
    earlier = {weight.namespace: weight.bytes for weight in before}
    none = Weight("", 0, 0, 0)
    acts = list(done)
    return {
        "entries": sum(weight.entries for weight in after),
        "bytes": sum(weight.bytes for weight in after),
        "written": written,
        "filed": sum(len(result.act.ids) for result in acts),
        "merged": sum(len(result.act.ids) for result in acts if result.act.kind == "merge"),
        "disputed": disputed,
        "namespaces": [
            [name, later.get(name, none).entries, later.get(name, none).bytes, earlier.get(name, 0)]
            for name in names
        ],
    }


def measures(records: Iterable[Record]) -> list[Measure]:
    """Return the figures of each finished run, oldest first."""
    finished = []
    for record in records:
        if "namespaces" in record.fields:
            values = {
                name: record.fields[name] for name in Measure._fields if name in record.fields
            }
            namespaces = tuple(tuple(row) for row in record.fields["namespaces"])
            values |= {"at": record.at, "namespaces": namespaces}
            finished.append(Measure(**values))
    return finished


def shape(namespaces: Iterable[str]) -> Iterator[str]:
    """Yield remarks on what is hard to follow about the namespaces in use."""
    used = sorted(namespaces)
    top = {name.split("/", 1)[0] for name in used}
    if len(top) > MANY:
        yield f"{len(top)} at the top level, more than {MANY}: hard to follow"
    yield from (f"{name} is deeper than {DEEP} levels" for name in used if name.count("/") >= DEEP)


def idleness(runs: Sequence[Measure], since: int | None, now: int) -> Iterator[str]:
    """Yield what is wrong with the runs. `since` is when the first record of the log came."""
    last = runs[-1].at if runs else since
    if last is not None and now - last > IDLE_DAYS * DAY:
        yield f"no night since {day(last)}: run `synapse defrag`, or have one run every night"
    week = runs[-WEEK:]
    written = sum(measure.written for measure in week)
    filed = sum(measure.filed for measure in week)
    if len(week) == WEEK and written > max(GROWTH * filed, FEW):
        yield (
            f"{written} entries were written in the last {WEEK} nights, and {filed} filed"
            f" away: it grows"
        )


def plot(values: Sequence[int], width: int, height: int = 6) -> list[str]:
    """Return a curve of blocks, the newest value at the right, with its highest value beside it."""
    recent = values[-width:]
    most = max(recent, default=0) or 1
    eighths = [round(value * height * 8 / most) for value in recent]
    lines = []
    for row in range(height - 1, -1, -1):
        label = f"{most:>8,}" if row == height - 1 else f"{0:>8}" if row == 0 else " " * 8
        lines.append(
            f"{label} |"
            + "".join(" ▁▂▃▄▅▆▇█"[min(max(eighth - row * 8, 0), 8)] for eighth in eighths).rstrip()
        )
    return lines


def per_namespace(measure: Measure) -> list[tuple[str, ...]]:
    """Return the namespaces of a run as rows of a table, the fullest first."""
    rows = sorted(measure.namespaces, key=lambda row: (-row[2], row[0]))
    table: list[tuple[str, ...]] = []
    for name, entries, size, before in rows:
        share = f"{1 - size / before:.0%}" if before else "-"
        table.append((name, f"{entries:,}", f"{size:,}", share))
    return table
