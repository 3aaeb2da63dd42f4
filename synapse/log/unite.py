"""Two histories of the journal become one on the disk: at once, or not at all. Called under the
journal's lock.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from synapse.errors import Conflict
from synapse.log import settle
from synapse.log.chain import is_whole
from synapse.log.disk import sync, sync_directory, whole_lines, write_all
from synapse.log.journal import Journal
from synapse.log.merge import Merged, merge, sides
from synapse.log.mirror import Mirror, path_of
from synapse.model.records import Record


def unite(
    root: str, journal: Journal, mirror: Mirror, more: Iterable[bytes] = ()
) -> Merged:
    """Append what the other histories hold to ours: those in the journal's files, and these lines.
    A file that only another history knows leaves its place first; what follows from the lines is
    put there by whoever looks next.
    """
    journal.demand_lock()
    lines = [raw for raw in journal.raw_lines() if is_whole(raw)]
    before = len(lines)
    own = sides(lines).end
    histories = sides([*lines, *more])
    merged = merge(histories)
    all_lines = [*histories.ours, *merged.lines]
    if merged.lines or len(histories.ours) != before:
        _leave(mirror, merged.moved)
        _rewrite(
            journal, all_lines, os.path.join(root, ".index", f"merge-{os.getpid()}")
        )
        settle.restart(root, 0)
    return merged._replace(records=merged.records + histories.end - own)


def begin(journal: Journal, raws: Sequence[bytes]) -> None:
    """Make these lines, already proven, the whole journal of a workspace that has none."""

    def write() -> None:
        if journal.last():
            raise Conflict("the journal holds records already")
        fd = journal._fd(journal.starts[-1])
        for raw in raws:
            write_all(fd, raw)
        sync(fd)
        journal.tail = None

    journal.lock.run(write)


def _leave(mirror: Mirror, moved: Iterable[Record]) -> None:
    """Remove files of entries that will stand under another name, if they are what the other side
    wrote.
    """
    for record in moved:
        if mirror.read(path_of(record)) == (record.text or "").encode():
            mirror.remove(path_of(record))


def _rewrite(journal: Journal, lines: Sequence[bytes], aside: str) -> None:
    """Make these lines the journal, from the first file on that says anything else. The rename is
    the commit; a crash right after it leaves lines twice, which the next merge sorts out.
    """
    start, count = _untouched(journal, lines)
    with open(aside, "wb") as file:
        file.writelines(lines[count:])
        file.flush()
        sync(file.fileno())
    os.rename(aside, journal._path(start))
    sync_directory(journal.directory)
    for segment in journal._list():
        if segment > start:
            os.unlink(journal._path(segment))
    sync_directory(journal.directory)
    journal._look_again()
    journal._forget()


def _untouched(journal: Journal, lines: Sequence[bytes]) -> tuple[int, int]:
    """Return the file to write, and how many of the lines stand in those before it."""
    count = 0
    for start in journal._list():
        raws = [raw for raw in whole_lines(journal._fd(start), 0) if is_whole(raw)]
        if start != count + 1:
            return 1, 0
        if raws != list(lines[count : count + len(raws)]):
            return start, count
        count += len(raws)
    return count + 1, count
