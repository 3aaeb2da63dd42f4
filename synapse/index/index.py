"""The index of one log: caught up by cursor before it is asked, rebuilt at will to the same
digest.
"""

from __future__ import annotations

import os
import sqlite3
from _thread import RLock
from collections.abc import Callable, Sequence
from functools import partial

from synapse.errors import IndexDamaged, StoreBusy, StoreCorrupt
from synapse.index.counts import TokenCounts
from synapse.index.database import BUSY, Database, is_damage, open_database
from synapse.index.derive.corrections import Steps, corrected, is_step, steps_of
from synapse.index.derive.progress import (
    Reached,
    changes_of,
    fork_since,
    last_common,
    note_fork,
    read_reached,
    still_lost,
    write_reached,
)
from synapse.index.derive.projector import BATCH, Projector, voids_of
from synapse.index.names import Names
from synapse.index.postings import Postings
from synapse.index.readable import Readable
from synapse.index.snapshot import Snapshot
from synapse.model import kinds
from synapse.model.records import Lost, Record, is_foreign
from synapse.system.lock import Lock
from synapse.system.typed import TYPE_CHECKING, T

if TYPE_CHECKING:
    from synapse.model.protocols import Log

FOLDERS = 500  # of which the names are kept in memory
UNKNOWN = (-1, -1, -1)
NO_STEPS = Steps()
Watch = Callable[[Sequence[Record]], object]
_INSIDE = "a snapshot is for questions: leave it before the log or the index is written to"


class Index(TokenCounts, Readable):
    """What has been derived from a log. One process at a time adds to it; all others read on
    meanwhile.
    """

    def __init__(self, log: Log, path: str, db: Database | None = None, wait: float = BUSY) -> None:
        if path != ":memory:":
            os.makedirs(os.path.dirname(path), exist_ok=True)
        TokenCounts.__init__(self)
        Readable.__init__(self)
        self.log = log
        self.lock = None if path == ":memory:" else Lock(f"{path}.lock", patience=30.0)
        self.db = db or open_database(path, self.lock, wait=wait)
        self.mutex = RLock()
        self.place, self.doubts = (-1, -1), 0  # where it stands
        self.notes: list[str] = []
        self.fork_noted = False
        self.lost: tuple[int, ...] = ()  # records whose lines are damaged, as was said
        self.foreign = 0  # records that do not count, as was said
        self.say: Callable[[str], object] = _warn
        self.taken = 0  # batches since the last fold
        self.folders: dict[str, tuple[int, set[str]]] = {}
        self.stands_in_for = ""  # the file, where this is a copy in memory of it
        try:
            self.current = Snapshot(self.db, Names(self.db))
        except IndexDamaged:
            self.renew(Reached())

    @property
    def held(self) -> bool:
        """Return whether this thread is inside of a snapshot."""
        return self.act.depth > 0

    @classmethod
    def in_memory(cls, log: Log, path: str, wait: float = 1.0) -> Index:
        """Return a copy of the file, which the first read catches up; empty without a path."""
        from synapse.index.copy import in_memory

        return cls(log, ":memory:", in_memory(path, wait=wait) if path else None)

    def afterwards(self, write: Callable[[], object]) -> None:
        """Run what writes to the log: now, or when this thread has left its snapshot."""
        act = self.act
        if act.depth:
            act.afterwards.append(write)
        else:
            write()

    # -- catching up -------------------------------------------------------------------------------

    def catch_up(self) -> None:
        """Take in what the log has more. For the log, and for whoever opens a snapshot."""
        if self.held:
            raise RuntimeError(_INSIDE)
        self.take_in()

    def take_in(self) -> None:
        """Catch up with the log, for who is not inside of a snapshot."""
        mark = self.log.mark()
        if mark != self.place or self.log.doubts != self.doubts:
            self.twice(self._take_in)
        self.pass_on()
        self.spare, self.notice = None, ""

    def twice(self, section: Callable[[], T]) -> T:
        """Run the section; where the file of the index is damaged, set it aside and run it on a new
        one. It may write to the log nothing that it would write again.
        """
        try:
            return section()
        except (IndexDamaged, sqlite3.DatabaseError) as error:
            if not isinstance(error, IndexDamaged) and not is_damage(error):
                raise
            if self.lock is None:
                raise self.db.failed(error) from error
            self.renew()
            self._take_in()
            return section()

    def renew(self, reached: Reached | None = None) -> None:
        """Set the damaged file aside, unless another process just did, and begin a new one, for the
        log to be taken in again. How far the log had been seen is kept, as far as it can be read.
        """
        if self.lock is None:
            return
        with self.mutex:
            forks, position = "", reached or self.current
            reached = Reached(turn=position.turn, seen=getattr(position, "cursor", 0))
            try:
                stored = read_reached(self.db)
                forks = self.db.meta("forks") or ""
                reached = stored.anew()._replace(seen=self.seen())
            except (IndexDamaged, sqlite3.DatabaseError, ValueError):
                pass
            try:
                mine = self.lock.run(self.db.set_aside)
                if mine:
                    self.db.set_meta("forks", forks)
                    write_reached(self.db, reached)
                    self.notes.append(
                        f"the index was damaged: it is kept as {self.db.path}.damaged, and"
                        " a new one is derived from the journal"
                    )
            except (sqlite3.Error, OSError) as error:
                raise self.db.failed(error) from error
            self.folders.clear()
            self.current = Snapshot(self.db, Names(self.db), turn=reached.turn)
            self.place = (-1, -1)

    def _take_in(self) -> None:
        mark = self.log.mark()
        with self.mutex:
            doubts = self.log.doubts
            if self._behind(mark, read_reached(self.db)):
                # Alone for one batch at a time: whoever waits may do the next.
                batch = partial(self._batch, mark)
                while not self._whole(batch):
                    pass
            reached = self.refresh((*mark, doubts))
            self.place, self.doubts = mark, doubts
        if self.log.forked and not self.fork_noted:
            self.notes.append(
                "the journal holds two histories (a git merge?), and one is shown:"
                " `synapse merge`, or the next write, makes them one"
            )
        self.fork_noted = self.log.forked
        self.notes += changes_of(reached, self.lost, self.foreign)
        self.lost, self.foreign = reached.lost, reached.foreign
        notes, self.notes = self.notes, []
        for note in notes:
            self.say(note)

    def _behind(self, mark: tuple[int, int], reached: Reached) -> bool:
        """Return whether there is more in the log, or another log than the one that was taken
        in.
        """
        return (
            reached.mark < mark
            or not self.log.holds(reached.proof)
            or self.log.mark() < reached.mark
        )

    def refresh(self, mark: object) -> Reached:
        """Learn the names first, so that no page reaches further: others write meanwhile. Return
        how far the index has come.
        """
        cursor, reached, current = self.cursor(), read_reached(self.db), self.current
        names, entries, postings = current.names, current.entries, current.postings
        turn = reached.turn
        version = self.db.run("version").fetchone()
        if turn != current.turn:
            entries, postings = {}, Postings()
            self.folders.clear()
        if turn != current.turn or version != names.version:
            names = Names(self.db, version)
        self.current = Snapshot(self.db, names, cursor, mark, turn, entries, postings)
        return reached

    def rebuild(self, watch: Watch | None = None) -> int:
        """Drop everything and derive it again. Return how many records the log holds. Others read
        on in the old one. Who watches is shown every batch of records on the way, all of them
        again where one was taken back. What the log lost is given up, and reported no more.
        """
        with self.mutex:
            self.twice(lambda: self._whole(lambda: self._given_up(watch)))
            self.fill_words()
            names = Names(self.db, self.db.run("version").fetchone())
            turn = read_reached(self.db).turn
            self.current = Snapshot(self.db, names, self.cursor(), UNKNOWN, turn)
            self.place = (-1, -1)
            return int(self.db.meta("seq") or 0)

    def _given_up(self, watch: Watch | None) -> bool:
        highest, reached = self.seen(), read_reached(self.db)
        self._anew(reached._replace(seen=0), watch=watch)
        if highest > self.cursor():
            note_fork(self.db, reached.turn + 1, self.cursor())
            self.log.restart(self.cursor(), forget=True)
            self.notes.append(
                f"given up: records {self.cursor() + 1} to {highest}, which had been"
                f" seen, are not there"
            )
        return True

    def restored(self, floor: int) -> None:
        """Derive it anew from a journal that has lines again, after this record, that it had not:
        whoever has it open begins anew too.
        """
        self.rebuild()
        turn = self.turns() + 1
        self._whole(lambda: note_fork(self.db, turn, floor))
        self.log.restart(floor)

    def purge(self) -> None:
        """Derive it anew, and leave no byte of what was derived before in its files. StoreError
        where somebody who reads keeps it from that.
        """
        if self.stands_in_for:
            raise StoreBusy(f"the index {self.stands_in_for} is held by another process")
        self.restored(0)
        self.db.vacuum()

    def cursor(self) -> int:
        """Return the seq of the last record taken in."""
        return int(self.db.meta("seq") or 0)

    def seen(self) -> int:
        """Return the highest seq ever taken in, by this file of the index or by those that it was
        built again from.
        """
        return max(self.cursor(), read_reached(self.db).seen)

    def hear(self, note: str) -> None:
        self.notes.append(note)

    def meta(self, key: str) -> str | None:
        """Return a value that is kept with the index."""
        return self.twice(lambda: self.db.meta(key))

    def steps(self) -> Steps:
        """Return where the log's time steps back, as far as it was taken in."""
        return read_reached(self.db).steps

    def turns(self) -> int:
        return self.twice(lambda: read_reached(self.db)).turn

    def fork(self, turn: int) -> int | None:
        """Return the last record that all logs since a turn have in common; None if unknown."""
        return fork_since(self.db, turn)

    def _alone(self, section: Callable[[], T]) -> T:
        if self.held:
            raise RuntimeError(_INSIDE)
        try:
            if self.lock is None:
                with self.mutex:  # threads share the one connection there is
                    return section()
            return self.lock.run(section)
        except (sqlite3.Error, OSError) as error:
            raise self.db.failed(error) from error

    def demand_free(self) -> None:
        """Write nothing, as who adds to the index would: StoreBusy where others hold it."""
        self._whole(lambda: None)

    def _whole(self, section: Callable[[], T]) -> T:
        """Run the section alone and in one transaction, all of it or nothing, and return what it
        returns: nobody reads an index that is half derived.
        """
        return self._alone(partial(self.db.whole, section))

    def _batch(self, mark: tuple[int, int], watch: Watch | None = None) -> bool:
        """Take in the next records of the log. Return whether the index then stands at the mark."""
        cursor, reached = self.cursor(), read_reached(self.db)
        if not self._behind(mark, reached):
            return True  # others took them in
        records, proof = self.log.batch(cursor, BATCH, reached.proof)
        if not self.log.holds(reached.proof):
            return self._another(reached)
        if watch is not None:
            watch(records)
        steps, stamped = reached.steps, reached.stamped
        for record in records:
            if is_step(stamped, record.at, steps):
                new = steps_of(self.log.since(0))
                if new != steps:
                    return self._anew(reached, voids_of(self.log.since(0)), watch, new)
            stamped = record.at
        projector = Projector(self.db)
        last = self._taken(projector, corrected(records, steps))
        lost = still_lost((*reached.lost, *self.log.damaged), records)
        self.log.damaged.clear()
        if projector.restart:
            return self._anew(reached, voids_of(self.log.since(0)), watch, steps)
        if last is not None:
            cursor = last.seq
            self.db.set_meta("seq", str(cursor))
        done = len(records) < BATCH
        if done and cursor < reached.seen:
            self.log.explain(Lost(cursor, reached.seen, 0, 0, reached.boot))
            reached = reached._replace(seen=cursor)
        reached = reached._replace(
            foreign=reached.foreign + sum(map(is_foreign, records)),
            mark=mark if done else reached.mark,
            seen=max(reached.seen, cursor),
            boot=self.log.boot(),
            proof=proof or reached.proof,
            stamped=stamped,
            lost=lost,
        )
        write_reached(self.db, reached)
        self.taken += 1
        return done

    def _anew(
        self,
        reached: Reached,
        voids: Sequence[tuple[object, ...]] = (),
        watch: Watch | None = None,
        steps: Steps = NO_STEPS,
    ) -> bool:
        """Derive all of it again, also where a record was taken back after it had its effect, or
        its time turns out to be wrong: now it is known.
        """
        mark, forks = self.log.mark(), self.db.meta("forks") or ""
        self.log.damaged.clear()
        self.db.wipe()
        self.db.set_meta("forks", forks)
        write_reached(self.db, reached.anew()._replace(steps=steps))
        self.db.many("put_void", list(voids))
        while not self._batch(mark, watch):
            pass
        return True

    # -- another log -------------------------------------------------------------------------------

    def _another(self, reached: Reached) -> bool:
        """Derive all of it anew from a log that is not the one that was indexed, if it may be what
        it is.
        """
        end, highest = self.log.last(), self.seen()
        common = last_common(self.db, self.log, min(end, self.cursor()))
        why = "the database was set back" if self.log.was_cut(common) else "a checkout?"
        if why == "a checkout?" and common == end < highest:
            first, last = self.db.run("lost_between", {"floor": common}).fetchone()
            why = self.log.explain(Lost(end, highest, first or 0, last or 0, reached.boot))
        self._anew(reached._replace(seen=0))
        note_fork(self.db, reached.turn + 1, common)
        self.log.restart(common)
        self.notes.append(
            f"the journal is another one than was indexed ({why}): the index was made anew"
        )
        return True

    def _taken(self, projector: Projector, records: Sequence[Record]) -> Record | None:
        try:
            return projector.take(records)
        except (
            LookupError,
            TypeError,
            ValueError,
            AttributeError,
            sqlite3.IntegrityError,
        ) as error:
            stretch = f"records {records[0].seq} to {records[-1].seq}"
            message = (
                f"the log cannot be understood in {stretch}: run `synapse verify`"
                f" ({type(error).__name__}: {error})"
            )
            raise StoreCorrupt(message) from error

    def note(self, key: str, value: str) -> None:
        """Keep a value with the index, as disposable as the rest."""
        self.twice(lambda: self._whole(lambda: self.db.set_meta(key, value)))

    def fold(self, least: int = 0) -> None:
        """Fold the log of changes back into the file, if so many batches were taken in. Most of it
        beside whoever takes in more; then what came meanwhile, alone, so that the next can begin
        the log of changes anew.
        """
        if self.lock is not None and self.taken >= max(least, 1):
            self.taken = 0
            try:
                self.db.fold()
                self._alone(self.db.fold)
            except sqlite3.Error as error:
                raise self.db.failed(error) from error

    # -- what a log asks ---------------------------------------------------------------------------

    def first(self, by: str, once: str) -> int | None:
        return self.current.first(by, once)

    def keyed(self, key: str) -> Sequence[Record]:
        return self.current.keyed(key)

    def holder(self, id: str) -> int | None:
        row = self.db.run("id_of", {"id": id}).fetchone()
        return None if row is None else row[0]

    def whereabouts(self, id: str) -> str:
        return self.current.whereabouts(id)

    def minted(self, day: str) -> int:
        """Return the highest number that an id of the day has."""
        row = self.db.run("minted", {"start": f"syn-{day}-", "end": f"syn-{day}."})
        return int(row.fetchone()[0] or 0)

    def names(self, folder: str) -> set[str]:
        """Return the names of the files of a folder. They are kept between calls and added to: a
        busy folder of thousands is asked about several times a second.
        """
        cursor, (floor, names) = self.cursor(), self.folders.get(folder, (0, set()))
        if floor and self.db.run("refiled", {"floor": floor}).fetchone():
            floor, names = 0, set()
        of, namespace, thread = kinds.of_folder(folder)
        if thread is None:
            numbers = tuple(kinds.NUMBER[kind] for kind in of)
            rows = self.db.run("names", {"folder": namespace, "floor": floor}, kinds=numbers)
        else:
            rows = self.db.run("names_in_thread", {"thread": thread, "floor": floor})
        if len(self.folders) >= FOLDERS:
            self.folders.clear()
        names.update(os.path.basename(path) if path else f"{id}.md" for id, path in rows)
        self.folders[folder] = (cursor, names)
        return names

    # -- full text ---------------------------------------------------------------------------------

    def fill_words(self) -> None:
        """Index the words of what was taken in, in batches of their own: inside the append, or the
        page, they would make their tails.
        """
        self.twice(self._fill_words)

    def _fill_words(self) -> None:
        while self.cursor() > int(self.db.meta("words") or 0):
            self._whole(self._fill_batch)

    def _fill_batch(self) -> None:
        from synapse.index.full_text.search import fill

        reached = fill(self.db, int(self.db.meta("words") or 0), self.cursor())
        self.db.set_meta("words", str(reached))

    # -- proof -------------------------------------------------------------------------------------

    def digest(self) -> str:
        """Return a hash of every derived row, equal for equal logs."""
        return self.twice(self._digest)

    def _digest(self) -> str:
        self.take_in()
        return self.db.digest()

    def check(self) -> str:
        """Return SQLite's own word on the file: `ok`, or what is wrong."""
        return str(self.db.connection.execute("pragma integrity_check").fetchone()[0])

    def let_go(self) -> None:
        """Close this thread's connection: the thread has nothing more to ask."""
        self.db.let_go()

    def close(self) -> None:
        self.db.close()
        if self.lock is not None:
            self.lock.close()


def _warn(text: str) -> None:
    """Say something through `logging`, for programs that named no other way."""
    from logging import getLogger

    getLogger("synapse").warning(text)
