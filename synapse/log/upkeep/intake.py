"""Taking in what was dropped: batches of files become records with one turn at the lock and one
sync, and each file counts once however often it is tried again. The files log calls this.
"""

from __future__ import annotations

from collections.abc import Iterable

from synapse.errors import Conflict, NotFound, QueueFull, SynapseError
from synapse.log import progress, settle
from synapse.log.adopt import Admit, Drop, Rejected
from synapse.log.mirror import has_place, live_path
from synapse.model import kinds
from synapse.model.entry import Entry, minted
from synapse.model.records import Record, unchanged
from synapse.privacy.secrets import mask
from synapse.system.digest import sha256
from synapse.system.typed import TYPE_CHECKING

if TYPE_CHECKING:
    from synapse.index.index import Index
    from synapse.log.commit import Commit
    from synapse.log.mirror import Mirror

BATCH = 250  # files whose lines are written with one turn at the lock and one sync


class Intake:
    """One look's worth of dropped files, on their way into the log.

    A file is admitted by the state of the log before its batch. Where that could matter, because
    it refers to what is not known yet or waits for review, the batch is written first.
    """

    def __init__(self, commit: Commit, mirror: Mirror, state: Index, admit: Admit) -> None:
        self.commit = commit
        self.log = commit.log
        self.mirror = mirror
        self.state = state
        self.admit = admit
        self.batch: dict[str, Record] = {}  # to be written, each under its `once`
        self.away: list[str] = []  # dropped where they cannot stay once they are in
        self.waiting: list[str] = []  # there is no room for them now

    def take(self, items: Iterable[Drop | Rejected]) -> None:
        """Adopt these files, the oldest first, or put them aside."""
        items = list(items)
        for item in items:
            if isinstance(item, Rejected):
                self._quarantine(item)
        drops = [item for item in items if isinstance(item, Drop)]
        drops.sort(key=lambda drop: (drop.draft.timestamp or "", drop.draft.id or "", drop.path))
        for drop in drops:
            self._adopt(drop)
            if len(self.batch) >= BATCH:
                self._write()
        self._write()

    def _adopt(self, found: Drop) -> None:
        if self._left_behind(found):
            return
        if self.mirror.wrote(found.path, found.text.encode()):
            settle.set_aside(self.mirror, found.path, found.text.encode())
            progress.restart(self.mirror.root, self.log.last())
            return
        if kinds.is_plan(found.path):
            self._write()
            last = next(reversed(self.state.keyed(f"plan:{found.path}")), None)
            if found.plain or last is not None:
                self._adopt_plan(found, last)
                return
        entry = self._admitted(found)
        if entry is None:
            return
        stays = found.channel.inbox is None and not entry.staged and mask(found.path) == found.path
        entry = entry._replace(id=found.draft.id or "" if entry.trust != "unverified" else "")
        body = {"start": found.start} if found.start >= 0 else {"body": entry.body}
        fields = body | ({"alias": found.draft.id} if found.draft.id else {})
        self.batch[_once(found)] = Record.new(
            "entry",
            entry.author,
            fields,
            entry,
            found.text,
            found.path if stays else None,
            "staging" if entry.staged else _signed(entry),
        )
        if not stays:
            self.away.append(found.path)
        if entry.staged:
            self._write()  # whether there is room for the next is counted in the log

    def _admitted(self, found: Drop) -> Entry | None:
        """Return the file as the entry that it becomes; None where it waits or was put aside."""
        refers = (*found.draft.replaces, *found.draft.derived_from)
        if any(self.state.holder(id) is None for id in refers):
            self._write()  # it may be among those
        try:
            return self.admit(found.draft, found.channel)
        except QueueFull:
            self.waiting.append(found.path)
            return None
        except SynapseError as error:
            self._quarantine(Rejected(found.path, str(error)))
            return None

    def _write(self) -> None:
        """Commit the batch. A file that cannot stay goes only when its record is on the disk."""
        batch, away = self.batch, self.away
        self.batch, self.away = {}, []
        if not batch:
            return
        self.commit.append_all(batch)
        for path in away:
            self.mirror.remove(path)
        self.state.catch_up()

    def _left_behind(self, found: Drop) -> bool:
        """Return whether the log itself put that file there, for an entry that was filed away since
        or is about to be.
        """
        seq = self.state.holder(found.draft.id) if found.draft.id else None
        if seq is None:
            # it may be that of a record that cannot be read
            return bool(self.state.lost) and minted(found.draft.id or "") is not None
        try:
            record = self.log.at(seq)
        except NotFound:
            return True
        if record.text != found.text or not has_place(record):
            return False
        return live_path(record) == found.path

    def _adopt_plan(self, found: Drop, last: Record | None) -> None:
        """Adopt what a plan.md says now, in the place of what it said before. The file stays
        people's own: each version becomes an entry beside it, under a name of its own.
        """
        masked = mask(found.text)
        if masked != found.text:  # people's own file, which goes on without it
            self.mirror.place(found.path, masked.encode(), replace=True)
            found = found._replace(text=masked)
        key, digest = f"plan:{found.path}", sha256(found.text.encode())
        if last is not None and last.fields.get("copy") == digest:
            return
        olds = () if last is None else (self.log.at(last.seq).id or "",)
        draft = found.draft._replace(id=None, replaces=olds)
        entry = self._admitted(found._replace(draft=draft))
        if entry is None:
            return
        fields, guard = {"copy": digest}, unchanged(key, last.seq if last else 0)
        try:
            record = Record.new(
                "entry", entry.author, fields, entry, key="staging" if entry.staged else key
            )
            self.commit.append(
                record,
                once=_once(found) if entry.staged else None,
                unless=None if entry.staged else guard,
            )
        except Conflict:
            pass  # another process took this version in

    def _quarantine(self, found: Rejected) -> None:
        record = settle.quarantine(self.mirror, found, self.log.settings())
        if record is None:
            # another process may move it, or a later look
            self.waiting.append(found.path)
            return
        self.commit.append(record)


def _signed(entry: Entry) -> str | None:
    """Return the key under which an entry that its author signed stands: a copy is not taken."""
    if entry.trust != "keyed":
        return None
    text = entry.signature or entry.body
    return f"signed:{sha256(text.encode())[:32]}"


def _once(found: Drop) -> str:
    """Return the key under which a file counts once, whoever takes it in and however often."""
    return f"adopt:{found.path}:{settle.digest(found.text)}"
