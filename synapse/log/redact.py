"""The text of one record leaves the log: its line, its file, its place on an archive page. Called
by the files log; each step may be done again.

The chain covers the head of a line, with the digest of its text. So the text can go: `null` and
spaces stand in its place, at its length, and every other line stays where it is.
"""

from __future__ import annotations

import os

from synapse.errors import StoreError
from synapse.log import settle
from synapse.log.chain import blanked, is_redacted, seq_of
from synapse.log.disk import sync_directory, whole_lines
from synapse.log.journal import Journal
from synapse.log.mirror import Mirror, block, has_place, live_path, pages, path_of
from synapse.log.unite import draft, sweep
from synapse.model.records import Record
from synapse.system.plain_files import read_file


def blank(root: str, journal: Journal, seq: int) -> bool:
    """Take the text out of a record's line, by one rename; return whether it was there. What
    earlier drafts hold of it goes too, and stays away even if the machine fails right after.
    """

    def write() -> bool:
        journal.demand_lock()
        aside = os.path.join(root, ".index")
        changed = _blank(aside, journal, seq)
        sweep(aside)
        sync_directory(aside)
        sync_directory(journal.directory)  # whoever did it before may have been killed
        journal._look_again()
        journal._forget()
        return changed

    return journal.lock.run(write)


def _blank(aside: str, journal: Journal, seq: int) -> bool:
    segment = max(start for start in journal._list() if start <= seq)
    path, offset = journal._path(segment), 0
    for raw in whole_lines(journal._fd(segment), 0):
        if seq_of(raw) == seq and not is_redacted(raw):
            break
        offset += len(raw)
    else:
        return False
    journal.blank(raw)
    content = read_file(path)
    end = offset + len(raw)
    if content[offset:end] != raw:
        raise StoreError("the journal was replaced meanwhile: redact it again")
    parts = (content[:offset], blanked(raw), content[end:])
    os.rename(draft(aside, parts), path)
    return True


def remove(mirror: Mirror, record: Record) -> None:
    """Remove an entry's file, its drafts, and its block on the archive page: for good, even if
    the machine fails right after.
    """
    if not has_place(record):
        return
    for path in {path_of(record), live_path(record)}:
        mirror.remove(path)
        mirror.sweep(path)
        mirror.settle(os.path.dirname(path))
    page = settle.page_path(record)
    mirror.alone(lambda: _without(mirror, page, record.id or ""))


def _without(mirror: Mirror, path: str, id: str) -> None:
    mirror.sweep(path)
    raw = mirror.read(path, limit=1 << 40) or b""
    remaining = [page for page in pages(raw) if page.id != id]
    if len(remaining) != len(list(pages(raw))):
        text = b"".join(block(page.id, page.text) for page in remaining)
        mirror.place(path, text, replace=True, synced=True)
    mirror.settle(os.path.dirname(path))
