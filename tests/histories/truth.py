"""What a journal says, read with plain dictionaries: the oracle of the fuzzer.

Nothing of the index is asked. Of the product only the pure rules are used: who may see an entry,
and which of two wins.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter, defaultdict

from synapse.authority import covers, judge, visible
from synapse.model.agents import Agent, Skill
from synapse.model.clock import micros
from synapse.model.entry import NEVER, expiry
from synapse.model.kinds import MESSAGE
from synapse.model.records import Record, entry_of, filings

TOKEN = re.compile(r"\bw\d+\b")


def lines(root):
    """Yield the whole lines of a journal, as dictionaries."""
    folder = os.path.join(root, "journal")
    for name in sorted(os.listdir(folder)):
        if name.endswith(".jsonl"):
            with open(os.path.join(folder, name), "rb") as file:
                for raw in file.read().split(b"\n")[:-1]:
                    try:
                        line = json.loads(raw)
                    except ValueError:
                        continue
                    if isinstance(line, dict) and "seq" in line:
                        yield line


def journal(root):
    """Return the records of a journal that count, in their order."""
    records = []
    for line in lines(root):
        get = line.get
        head = (line["seq"], micros(line["at"]), line["kind"], line["by"], get("id"))
        rest = (get("text"), get("path"), get("once"), get("key"), get("sha"))
        records.append(Record(*head, get("f") or {}, *rest))
    voids = {each.fields["seq"] for each in records if each.kind == "void"}
    return [each for each in records if each.seq not in voids]


class Truth:
    """The state that follows from the records of a journal."""

    def __init__(self, root):
        self.records = journal(root)
        self.agents, self.entries, self.staged, self.by_id = {}, {}, {}, {}
        self.first, self.token_of = {}, {}
        self.ended, self.effects = set(), defaultdict(list)
        self.disputes = defaultdict(set)
        self.successors, self.topics = defaultdict(set), defaultdict(set)
        self.shown, self.read = defaultdict(dict), defaultdict(set)
        self.settings = None
        self.signatures = []
        for record in self.records:
            step = getattr(self, f"_{record.kind}", None)
            if step is not None:
                step(record)
            elif record.kind in ("archive", "restore"):
                self._file(record)
            self.signatures.append((record.seq, *self.sign(record)))

    # -- what a record says, in words that outlive its ids -----------------------------------------

    def sign(self, record):
        """Return a key that is the same wherever the record stands: kind, author and token."""
        fields = record.fields
        if record.kind == "entry":
            return "entry", record.by, self.token_of[record.id]
        if record.kind in ("approve", "reject", "vouch", "acked"):
            return record.kind, record.by, self.token_of.get(fields["entry"])
        if record.kind == "receipt":
            tokens = sorted(str(self.token_of.get(id)) for id in fields["ids"])
            return "receipt", record.by, " ".join(tokens)
        if record.kind == "agent":
            agent = fields["agent"]
            how = "removed" if fields.get("how") == "removed" else agent["department"]
            return "agent", agent["id"], how
        said = json.dumps(
            fields.get("settings", {}).get("name") if record.kind == "settings" else fields
        )
        found = TOKEN.search(said)
        return record.kind, record.by, found.group() if found else None

    # -- records -----------------------------------------------------------------------------------

    def _agent(self, record):
        fields = dict(record.fields["agent"])
        if record.fields.get("how") == "removed":
            self.agents.pop(fields["id"], None)
            return
        fields["skills"] = tuple(Skill(*each) for each in fields.get("skills") or ())
        fields = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in fields.items()
        }
        self.agents[fields["id"]] = Agent(**fields)

    def _entry(self, record):
        entry = entry_of(record)
        found = [tag for tag in entry.tags if TOKEN.fullmatch(tag)]
        found = found or TOKEN.findall(entry.body)
        self.token_of[record.id] = found[0] if found else entry.body[:40]
        self.first.setdefault((record.by, record.once), record.id)
        self.by_id[record.id] = record.id
        if entry.alias:
            self.by_id.setdefault(entry.alias, record.id)
        if entry.staged:
            self.staged[entry.id] = entry
        else:
            self._arrive(entry)

    def _approve(self, record):
        entry = self.staged.pop(record.fields["entry"], None)
        if entry is None:
            return
        ttl = record.fields.get("ttl", entry.ttl)
        trust = record.fields.get("trust", "reviewed")
        expires = expiry(ttl, record.at)
        self._arrive(
            entry._replace(
                seq=record.seq, at=record.at, staged=False, trust=trust, ttl=ttl, expires=expires
            )
        )

    def _reject(self, record):
        self.staged.pop(record.fields["entry"], None)

    def _resolve(self, record):
        entry = self.entries.get(self.by_id.get(record.fields["entry"]))
        if entry is not None:
            self._end(entry.id)

    def _file(self, record):
        for id, away in filings(record):
            entry = self.entries.get(self.by_id.get(id))
            if entry is not None:
                self.entries[entry.id] = entry._replace(archived=away)

    def _shown(self, record):
        marks = self.shown[record.by]
        marks.update(dict.fromkeys(record.fields.get("ids", ()), record.seq))

    def _delivery(self, record):
        if record.fields.get("state") == "rendered":
            self._shown(record)

    def _receipt(self, record):
        self.read[record.by].update(record.fields["ids"])

    def _acked(self, record):
        self.read[record.by].add(record.fields["entry"])

    # -- who wins ----------------------------------------------------------------------------------

    def _end(self, id):
        self.ended.add(id)
        for peer in self.disputes.pop(id, ()):
            self.disputes[peer].discard(id)

    def _arrive(self, new):
        """Take in an entry that takes effect, and what that does to the others."""
        replaced = [self.by_id[id] for id in new.replaces if id in self.by_id]
        olds = [self.entries[id] for id in replaced if id in self.entries]
        groups = [self.successors[old.id] for old in olds]
        if new.topic:
            groups.append(self.topics[new.namespace, new.topic])
        rivals = {id for group in groups for id in group if id not in self.ended}
        rivals = [self.entries[id] for id in rivals]
        rivals = sorted((each for each in rivals if not each.archived), key=lambda each: each.seq)
        self.entries[new.id] = new
        by_seq = {each.seq: each.id for each in (*olds, *rivals, new)}
        standing = [old for old in olds if old.id not in self.ended]
        disputed = {each.seq for each in (*olds, *rivals) if self._in_dispute(each)}
        for effect in judge(new, standing, rivals, disputed):
            id, by = by_seq[effect.seq], by_seq[effect.by]
            if effect.until:
                self._hide(self.entries[id], self.entries[by], effect.until)
            elif not {id, by} & self.ended:
                self.disputes[id].add(by)
        for group in groups:
            group.add(new.id)

    def _hide(self, old, new, until):
        """Note that an entry takes the place of another one, for those who may see it."""
        narrow = not self._covers(new, old)
        if narrow and old.kind == MESSAGE:
            return
        self.effects[old.id].append((new.id, until, narrow))
        if until == NEVER and not narrow:
            self._end(old.id)

    def _in_dispute(self, entry):
        return any(self._covers(self.entries[peer], entry) for peer in self.disputes[entry.id])

    def _covers(self, new, old):
        """Return whether all who may see an entry may see another one, its author too."""
        author = self.agents.get(old.author)
        return covers(new, old) and (author is None or visible(new, author))

    # -- answers -----------------------------------------------------------------------------------

    def _hidden(self, id, now, agent):
        """Return whether something hides the entry from this agent: for good, or as long as it is
        shown itself.
        """
        if id in self.ended:
            return True
        for by, until, narrow in self.effects[id]:
            if until > now and (not narrow or self._sees(agent, by)):
                stands = not self.entries[by].archived and not self._replaced(by, agent)
                if until == NEVER or stands:
                    return True
        return False

    def _replaced(self, id, agent):
        """Return whether something took the place of the entry for good, as this agent sees it."""
        return id in self.ended or any(
            until == NEVER and self._sees(agent, by) for by, until, _ in self.effects[id]
        )

    def _sees(self, agent, id):
        return agent == "operator" or visible(self.entries[id], self.agents.get(agent))

    def live(self, agent, now):
        """Return the ids of all that this agent is shown, newest first."""
        found = self.found(agent, now)
        return [id for id in found if not self.entries[id].archived]

    def found(self, agent, now):
        """Return the ids of all that this agent finds: archived messages too, newest first."""
        found = [
            entry
            for entry in self.entries.values()
            if (entry.kind == "message" or not entry.archived)
            and entry.expires > now
            and not self._hidden(entry.id, now, agent)
            and self._sees(agent, entry.id)
        ]
        return [entry.id for entry in sorted(found, key=lambda each: each.seq, reverse=True)]

    def plain(self, agent, now):
        """Return the live ones that are no messages."""
        return [id for id in self.live(agent, now) if self.entries[id].kind == "entry"]

    def unread(self, agent, now):
        """Return the live entries of others that no mark names."""
        marks = self.shown[agent]
        return [
            id
            for id in self.plain(agent, now)
            if self.entries[id].author != agent and not marks.get(id, 0) > self.entries[id].seq
        ]

    def inbox(self, agent, now):
        """Return the messages that this agent has not read, oldest first."""
        return [
            id
            for id in self.live(agent, now)[::-1]
            if self.entries[id].kind == "message"
            and self.entries[id].author != agent
            and id not in self.read[agent]
        ]

    def doubled(self):
        """Yield what stands there twice though it may only stand there once."""
        ids = Counter(each.id for each in self.records if each.kind == "entry")
        yield from (f"id {id} twice" for id, count in ids.items() if count > 1)
        keys = Counter((each.by, each.once) for each in self.records if each.once)
        yield from (f"key {key} twice" for key, count in keys.items() if count > 1)
        seqs = [each.seq for each in self.records]
        if seqs != sorted(set(seqs)):
            yield "records out of order"
