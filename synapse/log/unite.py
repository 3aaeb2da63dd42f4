"""Two histories of the journal become one on the disk: at once, or not at all. Called under the
journal's lock.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence

from synapse.errors import Conflict, InvalidEntry, NotFound
from synapse.log import progress
from synapse.log.accepted import Accepted
from synapse.log.chain import decode, imprint, is_whole
from synapse.log.damage import Stretch, has_text
from synapse.log.disk import sync, sync_directory, whole_lines
from synapse.log.journal import Journal
from synapse.log.merge import Merged, decoded, merge, sides
from synapse.log.mirror import Mirror, has_place, path_of, unplaced
from synapse.model.records import Record
from synapse.system.plain_files import DRAFT, open_file, read_file


def unite(root: str, journal: Journal, mirror: Mirror, more: Iterable[bytes] = ()) -> Merged:
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
        if journal.accepted is not None:
            journal.accepted.add(_counted(journal.accepted, merged))
        _leave(mirror, merged.moved)
        _rewrite(journal, all_lines, os.path.join(root, ".index"))
        progress.restart(root, 0)
    return merged._replace(records=merged.records + histories.end - own)


def _counted(accepted: Accepted, merged: Merged) -> list[bytes]:
    """Return the imprints of the new lines that count: those of lines that counted before."""
    return [
        imprint(line)
        for line, source in zip(merged.lines, merged.sources, strict=True)
        if not source or accepted.takes(source, decoded(source))
    ]


def begin(root: str, journal: Journal, raws: Iterable[bytes]) -> None:
    """Make these lines, already proven, the whole journal of a workspace that has none: all of
    them, or none. The tree that follows from them is put there by whoever looks next.
    """

    def write() -> None:
        if journal.last():
            raise Conflict("the journal holds records already")
        progress.restart(root, 0)
        if not journal.extend(raws):
            _replace(journal, 1, raws, os.path.join(root, ".index"))
        sync_directory(root)

    journal.lock.run(write)


def _leave(mirror: Mirror, moved: Iterable[Record]) -> None:
    """Remove files of entries that will stand under another name, if they are what the other side
    wrote.
    """
    for record in moved:
        if has_place(record) and mirror.read(path_of(record)) == (record.text or "").encode():
            mirror.remove(path_of(record))


def put_back(root: str, journal: Journal, stretch: Stretch, raw: bytes) -> bool:
    """Put these lines, already proven, in the place of a damaged stretch: at once, or not at all.
    Return whether that was done; where the journal is another one by now, it is not.
    """

    def write() -> bool:
        path, end = journal._path(stretch.segment), stretch.start + len(stretch.raw)
        content = read_file(path)
        if content[stretch.start : end] != stretch.raw or (
            stretch.start == 0 and stretch.seqs.start != stretch.segment
        ):
            return False
        folder = os.path.join(root, ".index")
        new = draft(folder, (content[: stretch.start], raw, content[end:]))
        os.rename(new, path)
        sync_directory(journal.directory)
        journal._look_again()
        journal._forget()
        return True

    return journal.lock.run(write)


def lines_of(source: str, strict: bool = True) -> Iterator[bytes]:
    """Yield the lines of a workspace's journal, of a snapshot or of an export. InvalidEntry where a
    text is not what was written; a lenient reader passes over that line.
    """
    journal = os.path.join(source, "journal")
    if os.path.isdir(journal):
        names = sorted(
            name for name in os.listdir(journal) if name.endswith(".jsonl") and name[:-6].isdigit()
        )
        paths = [os.path.join(journal, name) for name in names]
    elif os.path.isfile(os.path.join(source, "log.jsonl")):
        paths = [os.path.join(source, "log.jsonl")]
    elif os.path.isfile(source):
        paths = [source]
    else:
        raise NotFound(f"{source} is neither a workspace nor a snapshot nor an export", path=source)
    for path in paths:
        with open(open_file(os.path.realpath(path)), "rb") as file:
            for number, raw in enumerate(file, 1):
                record = decode(raw) if raw.endswith(b"\n") else None
                if record is None:
                    continue
                why = unplaced(record) if strict else None
                if why is not None:
                    raise InvalidEntry(
                        f"{path}: line {number} cannot be taken in: {why}", path=path
                    )
                if has_text(record, raw):
                    yield raw
                elif strict:
                    raise InvalidEntry(
                        f"{path}: the text of line {number} is not what was written", path=path
                    )


def _rewrite(journal: Journal, lines: Sequence[bytes], folder: str) -> None:
    """Make these lines the journal, from the first file on that says anything else."""
    if journal.extend(lines):
        return
    start, count = _untouched(journal, lines)
    _replace(journal, start, lines[count:], folder)


def _replace(journal: Journal, start: int, lines: Iterable[bytes], folder: str) -> None:
    """Make these lines the file of the journal that begins with this record, and the last one. The
    rename is the commit; a crash right after it leaves lines twice, which the next merge sorts out.
    """
    os.rename(draft(folder, lines), journal._path(start))
    sync_directory(journal.directory)
    for segment in journal._list():
        if segment > start:
            os.unlink(journal._path(segment))
    sync_directory(journal.directory)
    journal._look_again()
    journal._forget()


def draft(folder: str, parts: Iterable[bytes]) -> str:
    """Write a file that will be renamed into the journal, and sync it. Called under its lock."""
    sweep(folder)
    path = os.path.join(folder, f"{DRAFT}{os.getpid()}")
    fd = open_file(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    with open(fd, "wb") as file:
        file.writelines(parts)
        file.flush()
        sync(file.fileno())
    return path


def sweep(folder: str) -> None:
    """Remove the drafts of those who were killed. Called under the journal's lock."""
    for name in os.listdir(folder):
        if name.startswith(DRAFT):
            os.unlink(os.path.join(folder, name))


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
