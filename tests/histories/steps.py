"""The steps of a history: acts of agents and of the operator, faults, restarts. Each draws what it
does from the dice of its world.
"""

from __future__ import annotations

import json
import os
import shutil

import synapse
from synapse import backup
from synapse.errors import StoreError
from synapse.model.clock import day
from synapse.model.entry import SECOND
from tests.histories import acts, check
from tests.histories.acts import ACKED, Act
from tests.histories.ledger import Ledger
from tests.histories.truth import Truth

STAFF = (
    synapse.Agent("lead", role="cto"),
    synapse.Agent("eng", read=["*"], write=["*"]),
    synapse.Agent("ops", read=["*"], write=["*"], teams=["red"]),
    synapse.Agent("junior", read=["*"], write=["*"], review_required=True),
    synapse.Agent("temp", read=["api/*"], write=["api/*"]),
)
PLACES = ("api/x", "api/x", "api/y", "team/z", "status/p", "blockers/p")
WRITERS = ("eng", "eng", "ops", "lead", "temp")
TO = ("eng", "ops", "lead", "all", "team:red", "eng,ops")
SAID = "the build takes ten minutes on the new machine"


class Other:
    """The other side of a history that forked: a copy that others write into."""

    def __init__(self, world, root):
        self.world, self.root = world, root
        self.items, self.ledger = [dict(item) for item in world.items], Ledger()
        self.mem = world.open(root)

    def reopen(self):
        self.mem.close()
        self.mem = self.world.open(self.root)


# -- acts ------------------------------------------------------------------------------------------


def plain(token, place, **more):
    return {"body": f"{token} {SAID}", "namespace": place, **more}


def pick(world, side, *, kind=None, staged=None):
    """Return one of the items, the later ones more often; None where there is none."""
    found = [
        item
        for item in side.items
        if kind in (None, item["kind"]) and staged in (None, item["staged"])
    ]
    return found[-1 - int(world.dice.random() ** 2 * len(found))] if found else None


def drawn(world, side):
    """Return an act that an agent might want to do now."""
    dice, token = world.dice, world.token()
    kind = dice.choices(*zip(*ACTS, strict=True))[0]
    who = dice.choice(WRITERS)
    item = pick(world, side)
    if kind == "append" or item is None:
        more = {
            "priority": dice.choice(("info", "info", "important", "critical")),
            "ttl": dice.choice((None, None, "1h", "2d", "never")),
        }
        if dice.random() < 0.2:
            more["topic"] = dice.choice(("t", "u"))
        if dice.random() < 0.2:
            more["to"] = dice.choice(TO)
        if item and item["kind"] == "entry" and dice.random() < 0.25:
            more["supersedes"], who = item["id"], dice.choice((item["author"], who))
        if item and dice.random() < 0.2:
            more["related"] = item["id"]
        return Act("append", who, token, plain(token, dice.choice(PLACES), **more))
    if kind == "once":
        return keyed(world, side, token, who)
    if kind == "stage":
        return Act("stage", "junior", token, plain(token, dice.choice(PLACES)))
    if kind == "send":
        args = {"to": dice.choice(TO), "body": f"{token} {SAID}"}
        if dice.random() < 0.3:
            args["once"] = f"key-{token}"
        return Act("send", who, token, args)
    return about(world, side, kind, who, token, item)


def about(world, side, kind, who, token, item):
    """Return an act on something that is there."""
    dice = world.dice
    message = pick(world, side, kind="message") or item
    waits = pick(world, side, staged=True) or item
    if kind == "reply":
        args = {"id": message["id"], "body": f"{token} {SAID}"}
        return Act("reply", who, token, args)
    if kind == "receive":
        args = {"limit": 2} if dice.random() < 0.5 else {}
        return Act("receive", dice.choice(check.MAIL), token, args)
    if kind == "read mail":
        return Act("read mail", who, token, {"ids": [message["id"]]})
    if kind == "ack":
        return Act("ack", who, message["token"], {"id": message["id"]})
    if kind in ("approve", "reject"):
        return Act(kind, "lead", waits["token"], {"id": waits["id"]})
    if kind == "resolve":
        return Act(kind, dice.choice((item["author"], who)), token, {"id": item["id"]})
    if kind in ("archive", "restore"):
        ids = sorted({item["id"], message["id"]}) if dice.random() < 0.3 else [item["id"]]
        return Act(kind, dice.choice((item["author"], "lead")), token, {"ids": ids})
    if kind == "claim":
        return Act(kind, who, f"w{dice.randint(9_001, 9_003)}", {})
    if kind == "mark":
        return Act(kind, who, token, {"unread": dice.random() < 0.6})
    name = dice.choice(("temp", "ops"))
    teams = ["red"] if name == "ops" else []
    reads = ["api/*"] if name == "temp" else ["*"]
    args = {"id": name, "department": token, "teams": teams}
    return Act("register", "operator", token, args | {"read": reads, "write": reads})


def keyed(world, side, token, who):
    """Return an append under a key: a new one, or one that was tried before, by whomever."""
    mine = [act for of, act in world.keys if of is side]
    if mine and world.dice.random() < 0.6:
        return world.dice.choice(mine)
    more = {"once": f"key-{token}"}
    act = Act("append", who, token, plain(token, world.dice.choice(PLACES), **more))
    world.keys.append((side, act))
    return act


ACTS = (
    ("append", 10),
    ("once", 6),
    ("stage", 2),
    ("send", 6),
    ("reply", 2),
    ("receive", 4),
    ("read mail", 1),
    ("ack", 1),
    ("approve", 1),
    ("reject", 1),
    ("resolve", 2),
    ("archive", 2),
    ("restore", 1),
    ("claim", 1),
    ("mark", 3),
    ("register", 1),
)


def fault_of(world):
    """Return a fault for an act, or none."""
    chance = world.dice.random()
    if chance < 0.10:
        code = world.dice.choice(("EIO", "ENOSPC"))
        return "failing", world.dice.randint(1, 30), code
    if chance < 0.20:
        return "dying", world.dice.randint(1, 14), None
    return None


def some_act(world):
    world.act(world.handle(), drawn(world, world), fault_of(world))


def some_acts_elsewhere(world):
    orders = [drawn(world, world) for _ in range(world.dice.randint(1, 3))]
    world.sent_elsewhere(orders, world.dice.choice((0, *range(1, 40))))


# -- the operator ----------------------------------------------------------------------------------


def look(world):
    mem, fault = world.handle(), fault_of(world)
    if fault is None:
        world.looked(mem)
    else:
        world.act(mem, Act("look", "operator", "", {}), fault)


def rebuild(world):
    world.act(world.handle(), Act("rebuild", "operator", "", {}), fault_of(world))


def night(world):
    act = Act("night", "operator", "", {"date": day(world.now)})
    if world.dice.random() < 0.3:
        world.sent_elsewhere([act], world.dice.randint(1, 60))
    else:
        world.act(world.handle(), act, fault_of(world))


def drop_file(world):
    """Drop an entry by hand: into the tree, or into somebody's inbox."""
    dice, token = world.dice, world.token()
    who, place = dice.choice(("eng", "ops")), dice.choice(PLACES)
    path = dice.choice((f"entries/{place}", f"inbox/{who}/new")) + f"/{token}.md"
    head = f"from: {who}\ntimestamp: 2026-02-01T08:00:00Z\nnamespace: {place}\n"
    text = f"---\n{head}priority: info\ntags: [{token}]\n---\n\n{token} {SAID}\n"
    world.act(world.handle(), Act("drop", who, token, {"path": path, "text": text}))
    world.pending[path] = ("entry", who, token)


def edit_agent(world):
    """Edit the file of an agent by hand."""
    token, name = world.token(), "ops"
    text = f"id: {name}\nrole: engineer\ndepartment: {token}\nteams: [red]\nread: ['*']\n"
    path, sign = f"agents/{name}.yaml", ("agent", name, token)
    text += "write: ['*']\n"
    act = Act("edit", "operator", token, {"path": path, "text": text})
    world.act(world.handle(), act)
    if path in world.pending:
        world.ledger.may[world.pending[path]] += 1
    world.pending[path] = sign


def edit_settings(world):
    token = world.token()
    text = f"protocol: 1\nname: {token}\nttl:\n  api/*: {world.dice.randint(5, 30)}d\n"
    act = Act("edit", "operator", token, {"path": "synapse.yaml", "text": text})
    world.act(world.handle(), act)
    world.ledger.may["settings", "operator", token] += 1


def later(world):
    """Let hours or days pass."""
    span = world.dice.choice((600, 3_700, 90_000, 5 * 86_400))
    world.now += span * SECOND
    world.tell(f"(so many seconds pass: {span})")


def move(world):
    """Take a snapshot, restore it elsewhere, and go on there: the machine was lost."""
    world.now += 5 * SECOND
    mem, world.roots = world.handle(), world.roots + 1
    world.looked(mem)
    taken = backup.take(mem.store, os.path.join(world.folder, "snapshots"))
    root = os.path.join(world.folder, f"{world.roots}")
    with synapse.init(root, clock=world.clock) as copy:
        backup.restore(copy.store, taken.path)
        if copy.digest() != mem.digest():
            world.wrong("a restored snapshot is not what was taken")
    world.close_all()
    world.root, world.kept_index = root, None
    world.tell("(a snapshot is restored, and everybody goes on there)")


def fork(world):
    """Copy the workspace as git does, without what is derived; others write into the copy."""
    if world.other is not None:
        return merge(world, fault_of(world))
    world.looked(world.handle())
    root = os.path.join(world.folder, f"other-{world.token()}")
    shutil.copytree(world.root, root, ignore=shutil.ignore_patterns(".index"))
    world.other = Other(world, root)
    world.tell("(the history forks)")
    for _ in range(world.dice.randint(1, 4)):
        there(world)
    return None


def there(world):
    """Act on the other side of the fork."""
    side = world.other
    act = drawn(world, side)
    if act.kind in ("append", "send", "stage", "resolve", "archive"):
        world.tell("on the other side:")
        world.act(side.mem, act, fault_of(world), side)


def merge(world, fault):
    """Merge the other side in; what was cut short is merged again."""
    side = world.other
    source = Act("merge", "operator", "", {"source": side.root})
    if world.merging is None:
        side.mem.store.refresh(whole=True)
        world.merging = side
    outcome, _ = world.act(world.handle(), source, fault)
    if outcome != ACKED:
        outcome, value = world.act(world.handle(), source)
        if outcome != ACKED:
            world.wrong(f"a second merge {outcome}: {value}")
            return
    world.orders += world.ledger.absorb(side.ledger)
    world.keys = [(world if of is side else of, act) for of, act in world.keys]
    side.mem.close()
    world.other = world.merging = None
    world.relist(Truth(world.root))


# -- faults of the folder --------------------------------------------------------------------------


def segment(root):
    """Return the path of the journal's last file."""
    folder = os.path.join(root, "journal")
    names = [name for name in os.listdir(folder) if name.endswith(".jsonl")]
    return os.path.join(folder, max(names))


def restart(world):
    world.close_all()
    world.tell("(everybody ends)")


def tear(world):
    """Leave a part of a line behind, as a writer does that died within its write."""
    path = segment(world.root)
    with open(path, "rb") as file:
        last = (file.read().splitlines() or [b'{"chain":"00'])[-1]
    with open(path, "ab") as file:
        file.write(last[: world.dice.randint(1, len(last))])
    world.tell("(a line is torn)")


def cut(world):
    """Take the end of the journal away: everybody has to notice; then put it back. Nothing is
    written meanwhile; a read is refused, or answered and told of it.
    """
    mem = world.handle()
    world.looked(mem)
    if mem.store.index.notice:
        world.wrong(f"it says on: {mem.store.index.notice}")
    path = segment(world.root)
    with open(path, "rb") as file:
        whole = file.read()
    kept = whole.splitlines(keepends=True)
    most = min(3, len(kept) - 1)
    if most < 1:
        return
    short = b"".join(kept[: -world.dice.randint(1, most)])
    extra = kept[-1][: world.dice.choice((0, 30))]
    with open(path, "r+b") as file:
        file.write(short + extra)
        file.truncate()
    world.tell(f"(the journal is cut: {len(whole)} to {len(short)} and {len(extra)} bytes)")
    token = world.token()
    for each in {id(each): each for each in (mem, world.open())}.values():
        told = []
        for kind in ("read", "append"):
            try:
                me = each.as_agent("eng")
                me.read() if kind == "read" else me.append(token, "api/x")
            except StoreError as error:
                world.tell(f"{kind}: {error}")
                continue
            if kind != "read" or "lost" not in each.store.index.notice:
                told.append(kind)
        if told:
            world.wrong(f"the journal was cut, and nobody said so: {told}")
    put_back(world, path, whole)


def put_back(world, path, whole):
    """Write a file of the journal as it was, in its place or by a rename."""
    if world.dice.random() < 0.5:
        with open(path, "r+b") as file:
            file.write(whole)
            file.truncate()
    else:
        with open(f"{path}.tmp", "wb") as file:
            file.write(whole)
        os.rename(f"{path}.tmp", path)


def replace(world):
    """Put another file with the same bytes in the place of the journal's, as rsync does."""
    if world.dice.random() < 0.7:
        path = segment(world.root)
        shutil.copyfile(path, f"{path}.tmp")
        os.rename(f"{path}.tmp", path)
        world.tell("(the journal's file is another one)")
        return
    folder = os.path.join(world.root, "journal")
    shutil.copytree(folder, f"{folder}.tmp")
    os.rename(folder, f"{folder}.old")
    os.rename(f"{folder}.tmp", folder)
    shutil.rmtree(f"{folder}.old")
    world.tell("(the journal's folder is another one)")
    for mem in world.handles:  # each is told once to try again
        token = world.token()
        world.busy = True
        outcome, _ = world.act(mem, Act("append", "eng", token, plain(token, "api/x")))
        world.busy = False
        if outcome == ACKED and not mem.store.log.journal.lock.stands():
            world.wrong("an act was acknowledged under the lock of another folder")


def slurp(path):
    """Return the bytes of a file, None where there is none."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None


def damage(world):
    """Delete or change files of entries by hand; `verify` names them, `repair` puts them back."""
    world.now += 5 * SECOND
    mem = world.handle()
    world.looked(mem)
    paths = []
    for folder, _, names in os.walk(os.path.join(world.root, "entries")):
        names = [name for name in names if not name.startswith(".")]
        paths += [os.path.join(folder, name) for name in names]
    hurt = world.dice.sample(sorted(paths), min(len(paths), world.dice.randint(1, 3)))
    before = {path: slurp(path) for path in hurt}
    for path in hurt:
        if world.dice.random() < 0.5:
            os.unlink(path)
        else:
            with open(path, "a") as file:
                file.write("more\n")
    names = sorted(os.path.relpath(path, world.root) for path in hurt)
    world.tell(f"(files are damaged: {names})")
    _, found = acts.attempt(mem, Act("verify", "operator", "", {}))
    told = sorted(problem.partition(": ")[0] for problem in found)
    if told != names:
        world.wrong(f"verify named {found}, but {names} were damaged")
    outcome, found = world.act(mem, Act("repair", "operator", "", {}))
    if outcome != ACKED or found:
        world.wrong(f"repair {outcome}: {found}")
    elif before != {path: slurp(path) for path in hurt}:
        world.wrong("what repair put back is not what was there")


def lose_index(world):
    """Delete the index, all that is derived, or put an older one in its place."""
    world.close_all()
    folder = os.path.join(world.root, ".index")
    kind = world.dice.choice(("index", "folder", "older", "keep"))
    names = ("brain.db", "brain.db-wal", "brain.db-shm")
    paths = [os.path.join(folder, name) for name in names]
    kept = os.path.join(world.folder, "kept")
    if kind == "keep":
        shutil.rmtree(kept, ignore_errors=True)
        shutil.copytree(folder, kept) if os.path.isdir(folder) else os.mkdir(kept)
        world.kept_index = kept
    elif kind == "folder":
        shutil.rmtree(folder, ignore_errors=True)
    else:
        for path in filter(os.path.exists, paths):
            os.unlink(path)
        for path in paths if kind == "older" and world.kept_index else ():
            source = os.path.join(kept, os.path.basename(path))
            if os.path.exists(source):
                shutil.copyfile(source, path)
    world.tell(f"(the index: {kind})")


def spoil_index(world):
    """Damage the file of the index: zeros, half of it, other bytes."""
    if "index" not in world.flags:
        return
    world.close_all()
    path = os.path.join(world.root, ".index", "brain.db")
    if not os.path.exists(path):
        return
    size, kind = os.path.getsize(path), world.dice.choice(("zeros", "half", "noise"))
    with open(path, "r+b") as file:
        if kind == "half":
            file.truncate(size // 2)
        else:
            file.seek(world.dice.randrange(size))
            noise = world.dice.randbytes(4_096) if kind == "noise" else bytes(4_096)
            file.write(noise)
    world.tell(f"(the index is damaged: {kind})")


def spoil_line(world):
    """Change a byte in the middle of the journal; `verify` names the record; it is put back."""
    if "lines" not in world.flags:
        return
    path = segment(world.root)
    with open(path, "rb") as file:
        whole = file.read()
    rows = whole.splitlines(keepends=True)
    if len(rows) < 3:
        return
    place = world.dice.randrange(len(rows) - 2)
    spot = sum(map(len, rows[:place])) + world.dice.randrange(len(rows[place]) - 1)
    with open(path, "r+b") as file:
        file.seek(spot)
        file.write(bytes([whole[spot] ^ 1]))
    world.tell(f"(a byte of line {place + 1} is changed)")
    _, found = acts.attempt(world.handle(), Act("verify", "operator", "", {}))
    if not found:
        world.wrong(f"line {place + 1} was changed, and verify said nothing")
    put_back(world, path, whole)


def jump(world):
    """Have the clock jump: a year ahead for an act, then back; or an hour back."""
    if "clock" not in world.flags:
        return
    span = world.dice.choice((400 * 86_400, -3_600)) * SECOND
    world.now += span
    world.tell(f"(the clock jumps: {json.dumps(span // SECOND)} s)")
    some_act(world)
    world.now -= span if span > 0 else 0


STEPS = (
    (some_act, 50),
    (some_acts_elsewhere, 4),
    (look, 3),
    (rebuild, 1),
    (night, 2),
    (drop_file, 4),
    (edit_agent, 1),
    (edit_settings, 1),
    (later, 3),
    (move, 1),
    (fork, 2),
    (restart, 3),
    (tear, 3),
    (cut, 1),
    (replace, 3),
    (damage, 2),
    (lose_index, 3),
    (spoil_index, 1),
    (spoil_line, 1),
    (jump, 1),
    (check.on_the_way, 4),
)


def step(world):
    kind = world.dice.choices(*zip(*STEPS, strict=True))[0]
    if world.other is not None and world.dice.random() < 0.2:
        there(world)
    else:
        kind(world)
