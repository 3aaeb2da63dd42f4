"""One history, played from a seed: random acts, faults and restarts, and the checks on the way."""

from __future__ import annotations

import os
import random
import shutil
import tempfile
import traceback

import synapse
from synapse.model.clock import day
from synapse.model.entry import SECOND
from tests.histories import acts, check, faults, steps
from tests.histories.acts import ACKED, DIED, FAILED, RAW, Act
from tests.histories.elsewhere import Elsewhere
from tests.histories.ledger import Ledger
from tests.histories.truth import TOKEN, Truth

START = 1_769_936_400 * SECOND  # 2026-02-01T09:00:00Z
HANDLES = 3
BLOCK = 64 << 20


class Played:
    """What became of a history: its steps in words, and what was wrong with it."""

    def __init__(self, seed):
        self.seed, self.steps, self.problems = seed, [], []


class World:
    """One workspace and all that have it open. `now` is the time that everybody's clock shows."""

    def __init__(self, folder, template, seed, elsewhere, flags=()):
        self.folder, self.seed, self.elsewhere = str(folder), seed, elsewhere
        self.flags = frozenset(flags)
        self.root = os.path.join(self.folder, "0")
        shutil.copytree(template, self.root)
        self.now, self.tokens, self.roots = START + 3600 * SECOND, 0, 1
        self.dice = random.Random(f"{seed}")
        self.segment = self.dice.choice((BLOCK, BLOCK, 3_000))
        self.trusting = self.dice.random() < 0.5
        self.handles, self.items, self.other = [], [], None
        self.ledger, self.orders, self.pending = Ledger(), [], {}
        self.keys, self.untold, self.merging = [], [], None
        self.agents = ["lead", "eng", "ops", "junior", "temp"]
        self.kept_index = None
        self.problems, self.busy = [], False

    # -- handles -----------------------------------------------------------------------------------

    def clock(self):
        return self.now

    def open(self, root=None):
        mem = acts.opened(root or self.root, self.clock, self.dice.random())
        mem.store.log.journal.segment_bytes = self.segment
        if root is None:
            self.handles.append(mem)
        return mem

    def handle(self):
        """Return one of the open handles; now and then one that was just opened."""
        if not self.handles or (len(self.handles) < HANDLES and self.dice.random() < 0.15):
            return self.open()
        return self.dice.choice(self.handles)

    def drop(self, mem):
        """Forget a handle: its process is dead, or has ended."""
        if mem in self.handles:
            self.handles.remove(mem)
        mem.close()

    def close_all(self):
        while self.handles:
            self.handles.pop().close()

    def close(self):
        self.close_all()
        if self.other is not None:
            self.other.mem.close()

    # -- words -------------------------------------------------------------------------------------

    def token(self):
        self.tokens += 1
        return f"w{self.tokens}"

    def tell(self, text):
        self.untold.append(text.replace(self.folder, ""))

    def wrong(self, text):
        self.problems.append(text)

    # -- acts --------------------------------------------------------------------------------------

    def act(self, mem, act, fault=None, side=None):
        """Carry out an act through a handle, with a fault in it, and note what became of it."""
        side = side or self
        how = self._fault(fault)
        try:
            with how as point:
                outcome, value = acts.attempt(mem, act)
        except faults.Killed:
            outcome, value = DIED, None
        hit = point.hit if fault else False
        if fault and fault[0] == "dying" and hit:
            outcome = DIED if outcome != ACKED else ACKED
            self.drop(mem) if side is self else side.reopen()
        self.note(act, outcome, value, side, hit)
        if hit:
            self.tell(f"(of its calls, number {fault[1]}: {fault[2] or 'killed'})")
        return outcome, value

    def _fault(self, fault):
        if fault is None:
            return faults.none()
        kind, at, code = fault
        if kind == "dying":
            return faults.dying(at, faults.killed)
        return faults.failing(at, code)

    def note(self, act, outcome, value, side, hit=False):
        self.tell(f"{acts.told(act)} -> {outcome} {value if value is not None else ''}")
        if outcome == RAW:
            self.wrong(f"{act.kind} raised {value}")
        if outcome == FAILED and not hit and not self.busy:
            self.wrong(f"{act.kind} failed without a fault: {value}")
        tokens = ()
        if act.kind in ("receive", "read mail") and outcome == ACKED:
            names = Truth(side.root).token_of if value else {}
            tokens = [names.get(id, id) for id in value]
        elif act.kind == "read mail":
            ids = act.args["ids"]
            tokens = [item["token"] for item in side.items if item["id"] in ids]
        side.ledger.note(act, outcome, tokens)
        known = {item["token"] for item in side.items}
        made = act.kind in ("append", "stage", "send", "reply") and outcome == ACKED
        if made and act.token not in known:
            side.items.append(self._item(act, value))

    def _item(self, act, id):
        kind = "message" if act.kind in ("send", "reply") else "entry"
        return {
            "token": act.token,
            "id": id,
            "kind": kind,
            "author": act.agent,
            "staged": act.kind == "stage",
        }

    def sent_elsewhere(self, orders, die):
        """Have another process do these acts, and die at one of the calls that change the disk."""
        order = {
            "root": self.root,
            "now": self.now,
            "seed": self.dice.random(),
            "die": die,
            "trusting": self.trusting,
            "segment": self.segment,
            "acts": orders,
        }
        told = self.elsewhere.run(order)
        for place, act in enumerate(orders):
            if place < len(told):
                self.note(act, *told[place], self)
            elif place == len(told) and die:
                self.note(act, DIED, None, self)
            elif place == len(told):
                self.wrong(f"another process ended in {act.kind}")
        self.tell(f"(elsewhere, killed at call {die}: {len(told)} of {len(orders)})")

    # -- what is there -----------------------------------------------------------------------------

    def relist(self, truth):
        """List the items anew: after a merge some have other ids."""
        self.items = [
            {
                "token": truth.token_of[entry.id],
                "id": entry.id,
                "kind": entry.kind,
                "author": entry.author,
                "staged": entry.id in truth.staged,
            }
            for entry in (*truth.entries.values(), *truth.staged.values())
            if TOKEN.fullmatch(truth.token_of[entry.id])
        ]

    def looked(self, mem):
        """Have a handle look at all that lies in the tree; what was dropped or edited is then
        known."""
        outcome, value = acts.attempt(mem, Act("look", "operator", "", {}))
        if outcome != ACKED:
            self.wrong(f"a look {outcome}: {value}")
            return
        for sign in self.pending.values():
            self.ledger.must[sign] += 1
        self.pending.clear()


def play(seed, count, template, elsewhere, *, flags=(), skip=(), parent=None):
    """Play the history of a seed; how it went."""
    result = Played(seed)
    folder = tempfile.mkdtemp(prefix=f"history-{seed}-", dir=parent)
    world = World(folder, template, seed, elsewhere, flags)
    try:
        with acts.virtual(world.clock, world.trusting):
            for place in range(count):
                world.dice = random.Random(f"{seed}:{place}")
                world.now += world.dice.choice((1, 50, 900, 12_000)) * 1_000
                if place not in skip:
                    guarded(world, steps.step)
                result.steps.append((place, world.untold))
                world.untold = []
                if world.problems:
                    break
            if not world.problems:
                world.dice = random.Random(f"{seed}:end")
                guarded(world, check.at_the_end)
                result.steps.append((count, world.untold))
    finally:
        world.close()
        shutil.rmtree(folder, ignore_errors=True)
    result.problems = world.problems
    return result


def guarded(world, act):
    """Note what an act or a check raises as something wrong, with its place."""
    try:
        act(world)
    except Exception as error:
        world.wrong("".join(traceback.format_exception(error)[-4:]))


def made_template(folder):
    """Make the workspace that every history begins with."""
    root = os.path.join(folder, "template")
    with synapse.init(root, clock=lambda: START) as mem:
        for agent in steps.STAFF:
            mem.register(agent)
    return root


def smallest(seed, count, template, elsewhere, flags=(), parent=None):
    """Return the steps that can be left out so that the history still goes wrong."""

    def fails(skip):
        how = {"flags": flags, "skip": skip, "parent": parent}
        return bool(play(seed, count, template, elsewhere, **how).problems)

    skip = set()
    for size in (8, 4, 2, 1):
        for start in range(0, count, size):
            more = skip | set(range(start, min(count, start + size)))
            if more != skip and fails(more):
                skip = more
    return skip


__all__ = ["Elsewhere", "Truth", "World", "day", "made_template", "play", "smallest"]
