"""What was acknowledged, refused or cut short: the account that a journal is held against."""

from __future__ import annotations

from collections import Counter

from tests.histories.acts import ACKED, DIED, FAILED

# Kinds of records that nobody but a history's acts writes.
OURS = frozenset(
    "entry resolve archive restore approve reject receipt acked agent settings claim".split()
)
SYSTEM = frozenset(("consolidator", "log"))
# Acts whose record is named by the entry that they are about, not by a token of their own.
ABOUT = frozenset(("approve", "reject", "ack"))
RECORD = {
    "append": "entry",
    "stage": "entry",
    "send": "entry",
    "reply": "entry",
    "ack": "acked",
    "receive": "receipt",
    "read mail": "receipt",
    "register": "agent",
}
WRITING = frozenset((*RECORD, "resolve", "archive", "restore", "approve", "reject", "claim"))
UNORDERED = frozenset(("register", "claim", "ack", "receive", "read mail"))


class Ledger:
    """Of one side of a history: how often each signature must and may stand in its journal."""

    def __init__(self):
        self.must, self.may = Counter(), Counter()
        self.wild = Counter()  # receipts that were cut short: of whom, how many
        self.keyed = set()  # signatures under a `once` that was acknowledged
        self.early = set()  # signatures that may stand there since an act was cut short
        self.order = []  # signatures in the order in which they were acknowledged
        self.delivered = {}  # of each agent, how often it was given which message
        self.marked = {}  # of each agent, messages that it may have marked in another way

    def sign(self, act, tokens=()):
        kind = RECORD.get(act.kind, act.kind)
        if kind == "agent":
            return kind, act.args["id"], act.token
        if kind == "receipt":
            return kind, act.agent, " ".join(sorted(tokens))
        return kind, act.agent, act.token

    def note(self, act, outcome, tokens=()):
        """Note what became of an act. `tokens` are those of the messages that it marked."""
        if act.kind not in WRITING:
            return
        sign = self.sign(act, tokens)
        if act.kind in ("receive", "read mail", "ack"):
            self._note_mail(act, outcome, tokens)
        if outcome == DIED or (outcome == FAILED and act.kind in ("register", "ack")):
            if sign[0] == "receipt":
                self.wild[act.agent] += 1
            else:
                self.may[sign] += 1
                self.early.add(sign)
        if outcome != ACKED or (sign[0] == "receipt" and not tokens):
            return
        if act.args.get("once"):
            if sign in self.keyed:
                return
            self.keyed.add(sign)
        if act.kind not in UNORDERED and sign not in self.early:
            self.order.append(sign)
        self.must[sign] += 1

    def _note_mail(self, act, outcome, tokens):
        if act.kind == "receive" and outcome == ACKED:
            self.delivered.setdefault(act.agent, Counter()).update(tokens)
        else:
            marked = self.marked.setdefault(act.agent, set())
            marked.update(tokens)
            marked.update([act.token] if act.kind == "ack" else ())
            if act.kind == "receive":
                marked.add("*")

    def absorb(self, other):
        """Take in the account of the other side, which was merged into this one."""
        self.must += other.must
        self.may += other.may
        self.wild += other.wild
        self.keyed |= other.keyed
        return [other.order]

    def allow(self, other):
        """Let all of the other side's stand here or not: the merge was cut short."""
        self.may += other.must + other.may

    def faults(self, truth, orders):
        """Yield what the journal has too much, too little, or in another order than was
        acknowledged.
        """
        found, first = Counter(), {}
        for seq, kind, by, token in truth.signatures:
            if kind in OURS and by not in SYSTEM and token is not None:
                sign = (kind, by, token)
                found[sign] += 1
                first.setdefault(sign, seq)
        yield from self._too_many(found)
        for sign, count in self.must.items():
            if found[sign] < count:
                yield f"{' '.join(sign)}: {found[sign]} times, of {count} acknowledged"
        for order in (self.order, *orders):
            seqs = [first[sign] for sign in order if sign in first]
            if seqs != sorted(seqs):
                yield "acknowledged in another order than written"

    def _too_many(self, found):
        receipts = Counter()
        for sign, count in found.items():
            most = self.must[sign] + (0 if sign in self.keyed else self.may[sign])
            if count > most and sign[0] == "receipt":
                receipts[sign[1]] += count - most
            elif count > most:
                yield f"{' '.join(sign)}: {count} times, of at most {most}"
        for who, count in receipts.items():
            if count > self.wild[who]:
                yield f"receipts by {who}: {count} that nobody acknowledged"
