"""From records to rows: takes a log's records in order and brings the projection in line with them.

What a record does to earlier ones is decided by `authority.judge`; here it is only written down.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping

from synapse.authority import Effect, covers, judge, visible
from synapse.index.database import Database
from synapse.index.derive import taint
from synapse.index.derive.entries import entry_from, read_entry, size
from synapse.model.agents import agent_from
from synapse.model.entry import NEVER, RANK, Entry
from synapse.model.kinds import MESSAGE, NUMBER
from synapse.model.records import (
    FOREIGN,
    MALFORMED,
    REDACTED,
    RESTING,
    Record,
    entry_of,
    filings,
    touched_by,
)
from synapse.system.json import dumps
from synapse.system.typed import Any

BATCH = 2_000
_RUN = ("run", "project", "parent", "root", "state", "status", "holder")
_NAMES = {
    "namespace": ("nid", "namespaces", "name"),
    "author": ("aid", "authors", "name"),
    "audience": ("num", "audiences", "name"),
    "thread": ("tid", "threads", "id"),
}
_NOT_HEAD = frozenset(("start", "body", "staged"))


def voids_of(records: Iterable[Record]) -> list[tuple[object, ...]]:
    """Return the seqs of the records that were taken back."""
    voids = [record.fields for record in records if record.kind == "void"]
    return [(fields["seq"],) for fields in voids if "seq" in fields]


class Projector:
    """Writes the rows of one batch of records. Rows wait in lists and go in together, for speed."""

    def __init__(self, db: Database) -> None:
        self.db = db
        self.waiting: dict[str, list[tuple[Any, ...]]] = {}
        self.active: dict[str, int] = {}
        # How many entries came into each, and how many of them had not expired yet.
        self.lanes: dict[tuple[int, int, int], tuple[int, int]] = {}
        self.taking = 0  # the record whose effects are being written
        self.swept = 0  # what had expired by then has been counted out
        self.numbers: dict[tuple[str, str], int] = {}
        self.restart = False

    def take(self, records: Iterable[Record]) -> Record | None:
        """Project the records; the last one. Stops at once when `restart` is set: a void reached
        back.
        """
        last = None
        voids = {seq for (seq,) in self.db.run("all_voids")}
        (self.swept,) = self.db.run("swept").fetchone()
        for record in records:
            if record.kind == FOREIGN:
                self._foreign(record)
            elif record.seq not in voids and record.kind != MALFORMED:
                self._take(record)
            last = record
            if self.restart:
                return last
        self.flush()
        self.db.many("put_active", list(self.active.items()))
        self.db.many("put_lane", [(*at, *counts) for at, counts in self.lanes.items()])
        self.active.clear()
        self.lanes.clear()
        if last is not None:
            if self.db.run("sweep", {"at": last.at}).rowcount > 0:
                self.db.run("sweep_left", {"at": last.at})
            self.db.run("put_swept", {"at": last.at})
        return last

    def flush(self) -> None:
        """Put the waiting rows in, as changes of this record; sums follow at the batch's end."""
        self.db.run("put_taking", (self.taking,))
        for name, rows in self.waiting.items():
            self.db.many(name, rows)
        self.waiting.clear()

    def _foreign(self, record: Record) -> None:
        """Note that a record is there that does not count, and that its names are taken."""
        names = (record.id, record.fields.get("alias"))
        self._put("put_foreign", record.seq, record.fields["kind"], record.by, *names)

    def _take(self, record: Record) -> None:
        self.taking = record.seq
        if record.once is not None:
            self._put("put_once", record.by, record.once, record.seq)
        if record.key is not None:
            self._put("put_keyed", record.key, record.seq, dumps(record.fields))
        self.active[record.by] = record.at
        if record.kind == "entry":
            self._entry(record)
        else:
            self._act(record)

    def _entry(self, record: Record) -> None:
        entry = entry_of(record)
        head = {name: value for name, value in record.fields.items() if name not in _NOT_HEAD}
        path, label = record.path, dumps(head)
        self._put("put_text", record.seq, entry.id, path, label, entry.body)
        staged = record.fields.get("staged", False)
        for id in (entry.id, entry.alias):
            if id:
                self._put("put_id", id, record.seq, None if staged else record.seq)
        if staged:
            self._put("put_staged", record.seq, record.at)
            self._put("put_act", record.seq, record.at, "entry", record.by, label)
            self._put("put_ref", entry.id, record.seq)
            self._inherit(entry, record.seq)
        else:
            self._place(entry, record.seq, label)

    def _place(self, entry: Entry, rec: int, head: str) -> None:
        """Put an entry into effect, at its `seq`; `rec` is the record that holds its text."""
        nid = self._number("namespace", entry.namespace)
        aid = self._number("author", entry.author)
        everybody = entry.addressees == ("all",)
        audience = 0 if everybody else self._number("audience", " ".join(entry.addressees))
        seq, prio = entry.seq, RANK[entry.priority]
        self._put(
            "put_entry",
            seq,
            rec,
            entry.at,
            nid,
            aid,
            prio,
            audience,
            entry.expires,
            NUMBER[entry.kind],
            size(head, entry),
        )
        if entry.kind == MESSAGE:
            tid = self._number("thread", entry.more["thread"])
            self._put("put_message", seq, tid, entry.more.get("parent"))
        lane = (nid, prio, audience)
        count, live = self.lanes.get(lane, (0, 0))
        # By a merge an entry may come when its time is over.
        self.lanes[lane] = (count + 1, live + (entry.expires > self.swept))
        for tag in entry.tags:
            self._put("put_tag", tag, seq)
        if entry.topic:
            self._put("put_topic", nid, entry.topic, seq)
        self._inherit(entry, seq)
        if entry.topic or entry.replaces:
            self.flush()
            olds = self._olds(entry)
            self.db.many("put_heir", [(old, seq) for old in olds])
            self._judge(entry, nid, olds)

    def _inherit(self, entry: Entry, seq: int) -> None:
        """Taint an entry that is made of a tainted one."""
        if taint.sources_of(entry):
            self.flush()
            self._judge_anew(taint.inherit(self.db, entry, seq))

    def _olds(self, new: Entry) -> list[int]:
        """Return the earlier entries that it supersedes, by whichever of their ids."""
        rows = (self.db.run("id_of", {"id": id}).fetchone() for id in new.replaces)
        return [row[1] for row in rows if row and row[1] is not None and row[1] < new.seq]

    def _judge(self, new: Entry, nid: int, olds: list[int]) -> None:
        """Write down what the arrival of this entry does to others and to itself."""
        at = {"never": NEVER, "at": new.at, "seq": new.seq}
        rivals: set[int] = set()
        if new.topic:
            rivals.update(
                seq
                for (seq,) in self.db.run("rivals_by_topic", at | {"nid": nid, "topic": new.topic})
            )
        for old in olds:
            rivals.update(seq for (seq,) in self.db.run("rivals_by_heirs", at | {"old": old}))
        # what is superseded while it is tainted stays so when it is not tainted any more
        entries = {seq: self.entry(seq) for seq in sorted({*rivals, *olds})} | {new.seq: new}
        replaced = [entries[seq] for seq in olds if self._hidden(seq) != NEVER]
        disputed = {seq for seq in entries if self._in_dispute(entries[seq])}
        for effect in judge(new, replaced, [entries[seq] for seq in sorted(rivals)], disputed):
            self._apply(effect, entries[effect.seq], entries[effect.by])

    def _apply(self, effect: Effect, entry: Entry, by: Entry) -> None:
        if effect.until:
            narrow = not self._covers(by, entry)
            # a message has no topic, and its author edits it for those who have it
            if not narrow or entry.kind != MESSAGE:
                self._hide(effect.seq, effect.by, effect.reason, effect.until, narrow=narrow)
        elif max(self._hidden(effect.seq), self._hidden(effect.by)) < NEVER:
            self.db.run("put_dispute", (effect.seq, effect.by))

    def _in_dispute(self, entry: Entry) -> bool:
        """Return whether an entry is in a dispute that all of its readers see."""
        peers = self.db.run("in_dispute", {"seq": entry.seq}).fetchall()
        return any(self._covers(self.entry(peer), entry) for (peer,) in peers)

    def _covers(self, new: Entry, old: Entry) -> bool:
        """Return whether all who may see an entry may see another one, as of now its author too."""
        if not covers(new, old):
            return False
        if new.author == old.author:
            return True
        row = self.db.run("agent", {"id": old.author}).fetchone()
        return row is None or visible(new, agent_from(json.loads(row[0])))

    def _hide(self, seq: int, by: int, reason: str, until: int, *, narrow: bool = False) -> None:
        self.db.run("put_fate", (seq, by, reason, until, narrow))
        self._weigh(seq)
        if until == NEVER and not narrow:
            self.db.run("end_disputes", {"seq": seq})

    def _weigh(self, seq: int) -> None:
        """Work out anew how long an entry is hidden, and those that it hides."""
        for name in ("weigh", "weigh_below"):
            self.db.run(name, {"seq": seq, "never": NEVER})

    def _hidden(self, seq: int) -> int:
        row = self.db.run("hidden", {"seq": seq}).fetchone()
        return int(row[0]) if row else NEVER

    def entry(self, seq: int) -> Entry:
        """Return the entry at a place, as its text and its vouchers make it."""
        return entry_from(self.db.run("row", {"seq": seq}).fetchone())

    # -- acts --------------------------------------------------------------------------------------

    def _act(self, record: Record) -> None:
        fields = record.fields
        self._put("put_act", record.seq, record.at, record.kind, record.by, dumps(fields))
        undone = record.kind in ("undo", "untaint")
        moved = touched_by(record) if undone else fields.get("ids", ())
        if record.kind == "receipt":  # `receipts` has them, for a fourth of the room
            moved = ()
        for id in (*moved, *((fields["entry"],) if "entry" in fields else ())):
            self._put("put_ref", id, record.seq)
        if record.kind == "agent":
            self._agent(record)
        elif record.kind == "shown":
            if fields.get("run"):
                self._delivery(record, "rendered")
            self._shown(record)
        elif record.kind == "run":
            self._run(record)
        elif record.kind == "delivery":
            self._delivery(record, fields["state"])
        elif step := self._steps().get(record.kind):
            self.flush()
            step(record)

    def _steps(self) -> Mapping[str, Callable[[Record], None]]:
        """Return what is done with an act that bears on what was taken in before it."""
        steps: dict[str, Callable[[Record], None]] = {"link": self._link, "used": self._used}
        steps |= {"thread": self._thread, "void": self._void}
        steps |= dict.fromkeys(("approve", "reject", "vouch", "resolve"), self._ruling)
        steps |= dict.fromkeys(("archive", "restore", "undo"), self._file)
        steps["taint"] = lambda act: self._judge_anew(taint.taint(self.db, act))
        steps["untaint"] = self._untaint
        steps["redact"] = self._redact
        return steps | dict.fromkeys(("receipt", "acked", "react"), self._marked)

    def _void(self, record: Record) -> None:
        seq = record.fields["seq"]
        self.restart = self.db.run("is_void", (seq,)).fetchone() is None
        self.db.run("put_void", (seq,))

    def _link(self, record: Record) -> None:
        values = (record.fields[name] for name in ("cause", "effect", "type", "strength"))
        self.db.run("put_link", (*values, record.by, record.seq, record.at))

    def _used(self, record: Record) -> None:
        self.db.many("put_use", list(record.fields["counts"].items()))

    def _marked(self, record: Record) -> None:
        """Note what an agent made of messages. What it acknowledged, it read."""
        fields, who = record.fields, self._number("author", record.by)
        for id in fields["ids"] if record.kind == "receipt" else (fields["entry"],):
            row = {"id": id, "aid": who, "at": record.at}
            if record.kind == "react":
                name = "drop_reaction" if fields.get("end") else "put_reaction"
                self.db.run(name, row | {"sign": fields["reaction"]})
            else:
                self.db.run("put_receipt", row)
            if record.kind == "acked":
                self.db.run("put_ack", row | {"body": fields.get("body")})

    def _thread(self, record: Record) -> None:
        fields = record.fields
        row = self.db.run("tags_of_thread", {"id": fields["thread"]}).fetchone()
        if row is not None:
            tags = dict.fromkeys((*json.loads(row[0] or "[]"), *fields.get("add", ())))
            new_tags = dumps([tag for tag in tags if tag not in fields.get("remove", ())])
            values = {
                "id": fields["thread"],
                "closed": fields.get("closed"),
                "subject": fields.get("subject"),
            }
            self.db.run(
                "put_thread_act", values | {"tags": new_tags if fields["how"] == "tag" else None}
            )

    def _shown(self, record: Record) -> None:
        """Note what an agent was shown: the entries that the record names; all up to its cursor
        where it names none. What was left out up to there is counted now, once, and by changes from
        then on.
        """
        fields = record.fields
        aid = self._number("author", record.fields.get("agent", record.by))
        self.flush()
        floor, counted = self.db.run("shown", {"me": aid}).fetchone() or (0, 0)
        if "ids" in fields:
            rows = [{"aid": aid, "id": id, "mark": record.seq} for id in fields["ids"]]
            self.db.connection.executemany(self.db.sql["put_seen"], rows)
            cursor = max(counted, min(fields.get("cursor", record.seq), record.seq - 1))
        else:
            floor = max(floor, fields["cursor"])
            cursor, counted = max(counted, floor), floor
            self.db.run("drop_left", {"aid": aid})
            self.db.run("drop_seen", {"aid": aid, "floor": floor})
        if cursor > counted:
            self.db.run("put_left", {"aid": aid, "after": counted, "cursor": cursor})
        self.db.run("put_shown", (aid, floor, cursor))

    def _delivery(self, record: Record, state: str) -> None:
        """Note how far entries came; what a run's prompt showed was rendered with it."""
        fields = record.fields
        whose = (fields.get("agent", record.by), fields.get("run") or "", fields.get("epoch") or 0)
        for id in fields.get("ids", ()):
            self._put("put_delivery", id, *whose, state, record.at)
        if record.kind == "delivery" and state == "rendered":
            self._shown(record)

    def _run(self, record: Record) -> None:
        """Lay what a later record says of a run over what the earlier ones said."""
        row = self.db.run("run", {"id": record.fields["run"]}).fetchone()
        fields = {**(json.loads(row[0]) if row else {}), **record.fields}
        # who begins the same work is decided on what was begun under this key
        if "intent" in record.fields:
            self._put(
                "put_keyed",
                record.fields["intent"],
                record.seq,
                dumps({"run": record.fields["run"]}),
            )
        values = {name: fields.get(name) for name in _RUN} | {"seq": record.seq, "at": record.at}
        values |= {"agent": fields.get("agent", record.by), "epoch": fields.get("epoch", 0)}
        values["ended_at"] = record.at if fields.get("state") in RESTING else None
        self.db.run("put_run", values | {"fields": dumps(fields)})

    def _agent(self, record: Record) -> None:
        fields = record.fields["agent"]
        if record.fields.get("how") == "removed":
            self.flush()
            self.db.run("drop_agent", (fields["id"],))
        else:
            self._put(
                "put_agent",
                fields["id"],
                record.seq,
                dumps(fields | {"sha": record.fields.get("sha")}),
            )

    def _ruling(self, record: Record) -> None:
        row = self.db.run("id_of", {"id": record.fields["entry"]}).fetchone()
        if row is None:
            return
        rec, seq = row
        if record.kind == "approve" and seq is None:
            self._approve(rec, record)
        elif record.kind == "reject" and seq is None:
            self.db.run("unstage", (rec,))
        elif record.kind == "vouch" and seq is not None:
            self._vouch(self.entry(seq), rec, record)
        elif record.kind == "resolve" and seq is not None:
            self._hide(seq, record.seq, "resolved", NEVER)

    def _redact(self, record: Record) -> None:
        """Show the text of an entry to nobody from the act on, however far it was carried out."""
        row = self.db.run("id_of", {"id": record.fields["entry"]}).fetchone()
        if row is None:
            return
        rec, seq = row
        self.db.run("redact", {"body": REDACTED, "rec": rec})
        if seq is not None:
            entry = self.entry(seq)
            _, head, _ = self.db.run("texts", {"rec": rec}).fetchone()
            self.db.run("revise", (RANK[entry.priority], size(head, entry), seq))

    def _approve(self, rec: int, record: Record) -> None:
        """Put an approved entry into effect: its place in the order, and the start of its time to
        live, are the approval's. A merged one is trusted as its sources are, and lives as long.
        """
        self.db.run("unstage", (rec,))
        self.db.run("settle_id", (record.seq, rec))
        self.db.run("settle_taint", {"seq": record.seq, "rec": rec, "never": NEVER})
        stamps = {name: record.fields[name] for name in ("trust", "ttl") if name in record.fields}
        head = self._restamp(rec, {"trust": "reviewed"} | stamps)
        id, _, body = self.db.run("texts", {"rec": rec}).fetchone()
        self._place(read_entry(id, head, body, record.seq, record.at), rec, head)

    def _vouch(self, entry: Entry, rec: int, record: Record) -> None:
        stamps = {
            name: record.fields[name]
            for name in ("authority", "trust", "priority")
            if name in record.fields
        }
        head = self._restamp(rec, stamps)
        seq, entry = entry.seq, self.entry(entry.seq)
        self.db.run("revise", (RANK[entry.priority], size(head, entry), seq))
        if self._hidden(seq) < NEVER and (entry.topic or entry.replaces):
            self.db.run("drop_fates", {"seq": seq, "never": NEVER})
            self.db.run("end_disputes", {"seq": seq})
            self._weigh(seq)
            self._judge(entry, self._number("namespace", entry.namespace), self._olds(entry))

    def _restamp(self, rec: int, stamps: Mapping[str, Any]) -> str:
        """Change what stands in the head of an entry; return the new one."""
        _, before, _ = self.db.run("texts", {"rec": rec}).fetchone()
        head = dumps(json.loads(before) | stamps)
        self.db.run("put_vouched", (head, rec))
        return head

    def _file(self, record: Record) -> None:
        for id, away in filings(record):
            row = self.db.run("id_of", {"id": id}).fetchone()
            if row and row[1] is not None:
                self.db.run("set_archived", (int(away), row[1]))
                self._weigh(row[1])
        for hider, stands in record.fields.get("holds", ()) if record.kind == "undo" else ():
            self._lift(hider, stands)

    def _untaint(self, record: Record) -> None:
        for hider, stands in record.fields.get("holds", ()):
            self._lift(hider, stands)
        places = taint.untaint(self.db, record)
        for seq in places:
            self._weigh(seq)
        self._judge_anew(places)

    def _judge_anew(self, seqs: Iterable[int]) -> None:
        """Judge entries that are shown again as if they came now."""
        for seq in seqs:
            if self._hidden(seq) < NEVER:
                entry = self.entry(seq)
                if entry.topic or entry.replaces:
                    nid = self._number("namespace", entry.namespace)
                    self._judge(entry, nid, self._olds(entry))

    def _lift(self, hider: int, stands: bool) -> None:
        """Show what a record hid again, and judge it as if it came now; or hide it once more."""
        rows = self.db.run(
            "held_by", {"seq": hider, "lifted": int(stands), "never": NEVER}
        ).fetchall()
        self.db.run("lift", {"seq": hider, "lifted": int(not stands)})
        self.db.run("weigh_below", {"seq": hider, "never": NEVER})
        for seq, _, for_good, waits in rows:
            if waits:
                continue
            self._weigh(seq)
            if stands and for_good:
                self.db.run("end_disputes", {"seq": seq})
                self._judge_anew(taint.released_by(self.db, seq))
            elif not stands:
                self._judge_anew((seq,))

    # -- rows --------------------------------------------------------------------------------------

    def _put(self, name: str, *row: Any) -> None:
        self.waiting.setdefault(name, []).append(row)

    def _number(self, kind: str, name: str) -> int:
        """Return the small integer that stands for a name; numbers are given in the order of first
        use.
        """
        key = (kind, name)
        if key not in self.numbers:
            column, table, name_column = _NAMES[kind]
            self.db.run(f"put_{kind}", (name,))
            row = self.db.connection.execute(
                f"select {column} from {table} where {name_column} = ?", (name,)
            ).fetchone()
            self.numbers[key] = row[0]
        return self.numbers[key]
