"""The outbox of one webhook: which entries wait to be sent, and how far all before are settled.

Its file holds a cursor that never passes an entry which was neither delivered nor put among the
dead letters, and is replaced whole and synced. What is sent twice, because the process died between
an answer and the next file, has the same id. Used by one thread; opens no connection.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator
from contextlib import closing, suppress

from synapse.errors import NotFound, StoreCorrupt, StoreError
from synapse.formats import codec
from synapse.log.disk import write_file
from synapse.model import clock
from synapse.model.agents import OPERATOR, Agent
from synapse.model.results import Event
from synapse.notify import Follower
from synapse.store import Store
from synapse.system.digest import sha256
from synapse.system.plain_files import make_folder, read_file
from synapse.system.typed import Any, NamedTuple
from synapse.webhooks.targets import PERSON, PUBLIC, Target, may_leave

FOLDER = "runs/.webhooks"
WAITING = "run.waiting"  # a run waits until somebody answers this entry
TYPES = {"vouch": "entry.vouched", "waiting": WAITING}
WINDOW = 64  # entries that are looked at before the first of them is settled
IN_FLIGHT = 4
OVERTAKEN = 5000  # later entries that were settled before one is given up that holds up the cursor
STREAK = 5  # failures in a row after which a success says that the receiver is back
BATCH = 2000  # records that one look goes through
SAVE_EVERY = 5.0  # seconds, where nothing but the cursor has moved
MARKS = 12  # places in the log that are remembered, in case another log is in its place
LONGEST = 1 << 20  # bytes of the file


class Backoff(NamedTuple):
    """How long a delivery waits after it failed, and how often it is tried in all."""

    first: float = 1.0
    longest: float = 3600.0
    attempts: int = 20

    def delay(self, failed: int, chance: float) -> float:
        """Return the seconds after so many failures: each time about twice as long. `chance`, from
        0 to 1, keeps those apart that failed together.
        """
        span = min(self.longest, self.first * float(1 << min(failed - 1, 30)))
        return span * (0.5 + chance / 2)


class Delivery:
    """One entry on its way to one target."""

    __slots__ = ("again", "attempts", "due", "entry", "error", "flying", "id", "seq", "type")

    def __init__(self, id: str, type: str, entry: str, seq: int, again: bool = False) -> None:
        self.id = id
        self.type = type
        self.entry = entry
        self.seq = seq
        self.again = again  # it was a dead letter, and is behind the cursor
        self.attempts = 0
        self.due = 0.0
        self.error = ""
        self.flying = False


class Outbox:
    """What is on its way to one target, from the cursor on that its file has; for a target without
    a file, from now on.
    """

    def __init__(self, store: Store, target: Target, backoff: Backoff) -> None:
        self.store = store
        self.target = target
        self.backoff = backoff
        self.folder = made_folder(store)
        self.waiting: dict[str, Delivery] = {}
        self.again: dict[str, Delivery] = {}
        self.problem = ""  # why nothing is sent at all
        self.failed = 0  # deliveries, since the last one that was taken
        self.more = False  # the last look did not come to the end of the log
        self.saved = -SAVE_EVERY
        self.state = read_state(self.folder, target.name)
        self.changed = not self.state
        if not self.state:
            with store.snapshot() as snap:
                self.state = {
                    "cursor": snap.cursor,
                    "settled": {},
                    "marks": [],
                    "attempts": {},
                    "sent": 0,
                }
        self.settled: dict[str, int] = dict(self.state["settled"])
        self.marks: list[list[Any]] = list(self.state["marks"])
        self.follower = self._follow(self._known_place())

    # -- what waits --------------------------------------------------------------------------------

    def fill(self) -> None:
        """Take the next entries that are for this target from the log, as far as there is room."""
        reader = self._reader()
        count, self.more = 0, False
        before = self.follower.cursor
        polled: Any = self.follower.poll()  # a generator, which is to be closed
        try:
            with closing(polled) as events:
                while len(self.waiting) < WINDOW:
                    event = next(events, None)
                    if event is None:
                        break
                    count += 1
                    if self.target.takes(event.entry) and may_leave(event.entry, reader):
                        self._add(event)
                    if count >= BATCH:
                        self.more = True
                        break
            for event in self._waits(before):
                if self.target.takes(event.entry) and may_leave(event.entry, reader):
                    self._add(event)
        except StoreCorrupt:  # the journal is another one than was followed
            self.follower = self._follow(self._known_place())
            self.more = True

    def _waits(self, since: int) -> Iterator[Event]:
        """Yield the blockers of the runs that began to wait for a person since this place, as far
        as was followed."""
        if since == self.follower.cursor:
            return
        for record in self.store.log.since(since):
            if record.seq > self.follower.cursor:
                return
            if record.kind == "run" and record.fields.get("state") == "waiting":
                with suppress(NotFound):
                    entry = self.store.entry(str(record.fields["entry"]))
                    yield Event(record.seq, "waiting", entry)

    def recall(self) -> None:
        """Take up the dead letters that somebody wants sent again."""
        for fields in letters(self.folder, self.target.name, "again", self.again):
            self.again[fields["id"]] = Delivery(
                fields["id"], fields["type"], fields["entry"], fields["seq"], True
            )

    def due(self, now: float) -> list[Delivery]:
        """Return what is to be sent now, oldest first, and take it as being on its way."""
        grounded = (waiting for waiting in self._every() if not waiting.flying)
        ready = [waiting for waiting in grounded if waiting.due <= now][: self._free()]
        for delivery in ready:
            delivery.flying = True
        return ready

    def next_due(self) -> float | None:
        """Return when the next delivery may be sent; None where there is none, or as many as may be
        are on their way.
        """
        dues = (delivery.due for delivery in self._every() if not delivery.flying)
        return min(dues, default=None) if self._free() else None

    def _every(self) -> list[Delivery]:
        return [*self.waiting.values(), *self.again.values()]

    def _free(self) -> int:
        return max(0, IN_FLIGHT - sum(delivery.flying for delivery in self._every()))

    def body(self, delivery: Delivery) -> bytes | None:
        """Return what is sent: the entry as it is now; None where it may not leave any more."""
        reader = self._reader()
        try:
            entry = self.store.entry(delivery.entry, reader)
        except NotFound:
            return None
        with self.store.snapshot() as snap:
            tainted = snap.is_tainted(entry.id)
        if tainted or not may_leave(entry, reader):
            return None
        data = codec.entry_json(entry)
        asks_operator = entry.addressees == (f"agent:{OPERATOR}",)
        if delivery.type == WAITING or asks_operator:
            data["answer"] = f'orchestrator answer {entry.id} "..."'
        return payload(delivery.type, entry.at, self.store.settings.name, data)

    # -- what became of it -------------------------------------------------------------------------

    def settle(self, delivery: Delivery, *, sent: bool = True) -> None:
        """Note that a delivery was taken, or has nothing any more that may be sent."""
        if delivery.again:
            self.again.pop(delivery.id, None)
            _remove(letter_path(self.folder, self.target.name, "again", delivery.id))
        self._done(delivery)
        self.state["sent"] += sent
        if sent and self.failed >= STREAK:  # it is back: nothing has to wait any longer
            for waiting in self._every():
                waiting.due = 0.0
        self.failed = 0

    def fail(self, delivery: Delivery, why: str, now: float, wait: float) -> None:
        """Note that a delivery failed: it waits, or becomes a dead letter."""
        delivery.flying = False
        delivery.attempts += 1
        delivery.error = why
        delivery.due = now + wait
        self.failed += 1
        self.state["error"] = {"time": clock.iso(self.store.clock()), "text": why}
        self.changed = True
        if delivery.attempts >= self.backoff.attempts:
            self._bury(delivery)

    def ground(self, delivery: Delivery, now: float, wait: float) -> None:
        """Put a delivery back that was not tried."""
        delivery.flying = False
        delivery.due = now + wait

    def save(self, now: float, *, force: bool = False) -> None:
        """Write the file, where anything changed."""
        self._give_up()
        cursor = self.low()
        moved = cursor != self.state["cursor"] or force
        if not self.changed and not (moved and (force or now - self.saved >= SAVE_EVERY)):
            return
        self.settled = {id: seq for id, seq in self.settled.items() if seq > cursor}
        self._mark(cursor)
        tried = [delivery for delivery in self.waiting.values() if delivery.attempts]
        self.state |= {
            "cursor": cursor,
            "settled": self.settled,
            "marks": self.marks,
            "attempts": {delivery.id: [delivery.attempts, delivery.error] for delivery in tried},
            "pending": len(self.waiting) + len(self.again),
        }
        raw = json.dumps(self.state, ensure_ascii=True).encode()
        write_file(state_path(self.folder, self.target.name), raw, 0o600)
        self.changed, self.saved = False, now

    def low(self) -> int:
        """Return the place in the log up to which everything is settled."""
        firsts = (delivery.seq - 1 for delivery in self.waiting.values())
        return min((self.follower.cursor, *firsts))

    # -- its own ---------------------------------------------------------------------------------

    def _reader(self) -> Agent:
        """Return the agent whose rights the target has; NotFound where it is unregistered."""
        if not self.target.reader:
            return PUBLIC
        if self.target.reader == OPERATOR:
            return PERSON
        agent = self.store.agents.get(self.target.reader)
        if agent is None:
            raise self.store.agents.unregistered(self.target.reader)
        return agent

    def _add(self, event: Event) -> None:
        type = TYPES.get(event.kind, "entry.created")
        id = message_id(self.target.name, type, event)
        if id in self.settled:
            self.settled[id] = event.cursor
        elif id in self.waiting:
            self.waiting[id].seq = event.cursor
        else:
            delivery = Delivery(id, type, event.entry.id, event.cursor)
            tried = self.state["attempts"].pop(id, None)
            if tried is not None:
                delivery.attempts, delivery.error = tried
            self.waiting[id] = delivery

    def _done(self, delivery: Delivery) -> None:
        if self.waiting.pop(delivery.id, None) is not None:
            self.settled[delivery.id] = delivery.seq
        self.changed = True

    def _bury(self, delivery: Delivery) -> None:
        """Put a delivery among the dead letters, on the disk, before the cursor passes it."""
        fields = {
            "id": delivery.id,
            "type": delivery.type,
            "entry": delivery.entry,
            "seq": delivery.seq,
            "attempts": delivery.attempts,
            "error": delivery.error,
            "time": clock.iso(self.store.clock()),
        }
        path = letter_path(self.folder, self.target.name, "dead", delivery.id)
        write_file(path, json.dumps(fields).encode(), 0o600)
        if delivery.again:
            self.again.pop(delivery.id, None)
            _remove(letter_path(self.folder, self.target.name, "again", delivery.id))
        self._done(delivery)

    def _give_up(self) -> None:
        """Bury what so many later ones overtook that the file would grow without end."""
        if len(self.settled) <= OVERTAKEN:
            return
        oldest = min(self.waiting.values(), key=lambda each: each.seq, default=None)
        if oldest is not None and not oldest.flying:
            self._bury(oldest)

    def _follow(self, cursor: int) -> Follower:
        return Follower(self.store, lambda: None, cursor)

    def _mark(self, cursor: int) -> None:
        """Remember a place of the log, and of those before it fewer and fewer."""
        if self.marks and self.marks[-1][0] == cursor:
            return
        self.marks = [mark for mark in self.marks if mark[0] < cursor]
        proof = self.store.log.proof(cursor)
        if proof or cursor == 0:
            self.marks.append([cursor, proof])
        if len(self.marks) > MARKS:
            closest = min(
                range(1, MARKS),
                key=lambda n: (
                    (self.marks[n + 1][0] - self.marks[n - 1][0]) / (cursor - self.marks[n - 1][0])
                ),
            )
            del self.marks[closest]

    def _known_place(self) -> int:
        """Return the last place that this log has in common with the one that was followed, as far
        as it is remembered. What comes after it is sent again, under the same ids.
        """
        log = self.store.log
        end = log.last()
        for seq, proof in reversed(self.marks):
            if seq <= end and log.holds(proof):
                return int(seq)
        return 0 if self.marks else int(self.state["cursor"])


def message_id(target: str, type: str, event: Event) -> str:
    """Return the id of a delivery: the same one whenever this entry is sent to this target."""
    entry = event.entry
    text = json.dumps([target, type, entry.id, entry.at])
    return f"msg_{sha256(text.encode())[:32]}"


def payload(type: str, at: int, workspace: str, data: dict[str, Any]) -> bytes:
    """Return the body of a delivery."""
    fields = {"type": type, "timestamp": clock.iso(at), "workspace": workspace, "data": data}
    return json.dumps(fields, ensure_ascii=True, separators=(",", ":")).encode()


# -- files ---------------------------------------------------------------------------------------


def folder_of(store: Store) -> str:
    """Return the folder of all outboxes of a workspace."""
    if store.root is None:
        raise StoreError("webhooks need a workspace in a folder")
    return os.path.join(store.root, FOLDER)


def made_folder(store: Store) -> str:
    """Return the folder of all outboxes, which is made where there is none."""
    folder = folder_of(store)
    make_folder(os.path.dirname(folder))
    make_folder(folder)
    return folder


def state_path(folder: str, name: str) -> str:
    return os.path.join(folder, f"{name}.json")


def letter_path(folder: str, name: str, kind: str, id: str) -> str:
    return os.path.join(folder, f"{name}.{kind}.{id}.json")


def read_state(folder: str, name: str) -> dict[str, Any]:
    """Return the file of a target; empty where there is none. StoreError where it is damaged: what
    was sent is not known then.
    """
    path = state_path(folder, name)
    try:
        state: Any = json.loads(read_file(path, LONGEST))
        if _is_whole(state):
            return dict(state)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        pass
    raise StoreError(
        f"{path} is damaged: delete it to send what comes from now on, nothing before", path=path
    )


def _is_whole(state: Any) -> bool:
    """Return whether a file is one of ours: another program may have written it."""
    numbers = [state["cursor"], state["sent"], *state["settled"].values()]
    numbers += [seq for seq, _ in state["marks"]]
    numbers += [tried for tried, _ in state["attempts"].values()]
    texts = [proof for _, proof in state["marks"]]
    texts += [error for _, error in state["attempts"].values()]
    return all(type(number) is int and number >= 0 for number in numbers) and all(
        isinstance(text, str) for text in texts
    )


def letters(
    folder: str, name: str, kind: str, known: Collection[str] = ()
) -> Iterator[dict[str, Any]]:
    """Yield the letters of a target that are dead, or to be sent again, without those that are
    known already.
    """
    prefix, end = f"{name}.{kind}.", ".json"
    try:
        names = sorted(os.listdir(folder))
    except FileNotFoundError:
        return
    for file in names:
        id = file[len(prefix) : -len(end)]
        if not (file.startswith(prefix) and file.endswith(end)) or id in known:
            continue
        try:
            fields: Any = json.loads(read_file(os.path.join(folder, file), LONGEST))
            if fields["id"] == id:
                yield fields | {"seq": int(fields["seq"])}
        except (OSError, ValueError, TypeError, KeyError):
            continue  # taken up meanwhile, or not one of ours


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
