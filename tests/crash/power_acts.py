"""The acts whose power is cut: how each is prepared and done, and what is to be left of it."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import synapse
from orchestrator.prompts.fence import secret
from synapse import Mail, backup
from synapse.compat.migrate import migrate
from synapse.consolidate.nightly import run_nightly
from synapse.errors import SynapseError
from synapse.exchange import merge_in
from synapse.knowledge import memory as knowledge
from synapse.log import adopt as drop_box
from synapse.log import journal
from synapse.model.records import Record
from synapse.testing import FrozenClock
from synapse.trust.bearer import TokenFile, new_token
from tests.crash.power_check import (
    STAFF,
    Act,
    entries,
    findings,
    in_memory,
    standing,
    stored,
    workspace,
)
from tests.crash.power_disk import LONG_AGO
from tests.crash.power_redact import REDACT
from tests.crash.power_runs import RUN, TEAM
from tests.crash.test_nights import DATE, LEASE, NIGHT, filled, opened

# -- the acts --------------------------------------------------------------------------------------


def append(memory, acknowledge):
    memory.store.log.journal.segment_bytes = 4_000
    for n in range(8):
        body = f"append {n} " + "wörd ☃ " * (n * 131 % 400)
        place = f"new/n{n}" if n % 3 == 0 else "api/endpoints"
        acknowledge(stored(memory, memory.as_agent("eng").append(body, place)))


def append_late(memory, acknowledge):
    """Another process reads each entry before it is on the disk: the index is ahead."""
    sync = journal.sync

    def late(fd):
        other.as_agent("lead").read()
        acknowledge(("seen",))
        sync(fd)

    with synapse.open(memory.store.root) as other:
        journal.sync = late
        try:
            append(memory, acknowledge)
        finally:
            journal.sync = sync


def append_between(memory, acknowledge):
    """Another process writes behind each line before that is on the disk, and is answered first."""
    sync = journal.sync

    def late(fd):
        journal.sync = sync
        try:
            lead = other.as_agent("lead")
            acknowledge(stored(other, lead.append(f"between {other.store.log.last()}", "api/auth")))
        finally:
            journal.sync = late
        sync(fd)

    with synapse.open(memory.store.root) as other:
        other.store.log.journal.segment_bytes = 4_000
        journal.sync = late
        try:
            append(memory, acknowledge)
        finally:
            journal.sync = sync


def append_all(memory, acknowledge):
    me = memory.as_agent("eng")
    for n in range(4):
        first = memory.store.log.last()
        batch = {
            f"once {n} {i}": Record.new("note", "eng", {"text": f"{n} {i} " + "☃" * 90 * i})
            for i in range(5)
        }
        memory.store.commit.append_all(batch)
        acknowledge(("records", first + 1, first + 5, [*batch]))
        acknowledge(stored(memory, me.append(f"between {n}", "api/endpoints")))


def keyed(memory, told, whole):
    """The records of a batch are there, all that were acknowledged."""
    keys = Counter(record.once for record in memory.store.log.since(0))
    for _, _, _, names in (what for what in told if what[0] == "records"):
        for name in names:
            if keys[name] != 1:
                yield "lost" if not keys[name] else "twice", name


def mail(memory, acknowledge):
    lead, eng = (Mail(memory.as_agent(name)) for name in ("lead", "eng"))
    for n in range(3):
        sent = lead.send("eng", f"message {n} " + "ý" * 300 * n, subject=f"s{n}")
        acknowledge(stored(memory, sent))
        answer = eng.reply(sent.id, f"answer {n}")
        acknowledge(stored(memory, answer))
        eng.ack(sent.id)
        acknowledge(("acked", sent.id))
    edited = lead.edit(sent.id, "edited")
    acknowledge(stored(memory, edited))


def acked(memory, told, whole):
    done = [record for record in memory.store.log.since(0) if record.kind == "acked"]
    for what in told:
        if what[0] == "acked" and what[1] not in str([each.fields for each in done]):
            yield "lost", what


def rulings(memory, acknowledge):
    lead, eng, junior = map(memory.as_agent, ("lead", "eng", "junior"))
    for n in range(2):
        staged = junior.append(f"staged {n} " + "z" * 600, "api/endpoints")
        acknowledge(stored(memory, staged))
    lead.approve(lead.staged()[0].id)
    acknowledge(("acts", "approve"))
    lead.reject(lead.staged()[0].id)
    acknowledge(("acts", "reject"))
    ids = [entry.id for entry in eng.read()][:2]
    eng.archive(ids)
    acknowledge(("acts", "archive"))
    eng.restore(ids[:1])
    acknowledge(("acts", "restore"))


def acts(memory, told, whole):
    kinds = Counter(record.kind for record in memory.store.log.since(0))
    for what in told:
        if what[0] == "acts" and kinds[what[1]] != 1:
            yield "lost", what


def register(memory, acknowledge):
    for n in range(3):
        memory.register(synapse.Agent(f"new-{n}", read=["*"], write=["*"]))
        acknowledge(("agent", f"new-{n}", (None, "", f"dep-{n}")))
        acknowledge(stored(memory, memory.as_agent(f"new-{n}").append(f"hello {n}", "api/x")))
    for n in range(3):
        memory.register(synapse.Agent(f"new-{n}", read=["*"], write=["*"], department=f"dep-{n}"))
        acknowledge(("agent", f"new-{n}", (f"dep-{n}",)))


def know(memory, acknowledge):
    me, facts = memory.as_agent("eng"), []
    for n, scope in enumerate(("agent", "group", "agent", "group")):
        facts.append(knowledge.remember(me, f"fact {n} " + "☃" * 200 * n, scope=scope))
        acknowledge(stored(memory, facts[-1]))


def night(memory, acknowledge):
    for id, text in entries(memory):
        acknowledge(("entry", id, text))
    assert run_nightly(memory, DATE, memory.store.clock()).ran
    acknowledge(("night",))


def aged(root):
    """A store in which much is past its time at night."""
    filled(str(root / "memory"), 3)
    with opened(str(root / "memory")) as memory:
        for agent in STAFF:
            memory.register(agent)


def consolidated(memory, told, whole):
    """A night that ended is over; any other one is gone on with."""
    when = memory.store.clock() + 2 * LEASE  # who was at it is given up
    again = run_nightly(memory, DATE, when)
    if again.ran and ("night",) in told:
        yield "twice", again
    if acts := run_nightly(memory, "2026-02-10", when).acts:
        yield "half", acts


def take(memory, acknowledge):
    directory = os.path.join(os.path.dirname(memory.store.root), "deep", "backups")
    for n in range(3):
        memory.as_agent("eng").append(f"entry {n} " + "v" * 700 * n, "api/endpoints")
        snapshot = backup.take(memory.store, directory, keep=2)
        acknowledge(("snapshot", n, snapshot))


def kept(memory, told, whole):
    """The newest snapshots are whole, and so is everyone that is listed."""
    directory = os.path.join(os.path.dirname(memory.store.root), "deep", "backups")
    taken = [what[2] for what in told if what[0] == "snapshot"]
    for snapshot in taken[-1:]:
        path = os.path.join(directory, os.path.basename(snapshot.path))
        if backup.check(path) != snapshot._replace(path=path):
            yield "lost", snapshot
    for snapshot in backup.listed(directory):
        try:
            backup.check(snapshot.path)
        except SynapseError as error:
            yield "half", error


def saved(root):
    """A snapshot of a workspace that is gone."""
    workspace(root)
    with synapse.open(str(root / "memory")) as memory:
        backup.take(memory.store, str(root / "backups"))
        (root / "export").write_text("".join(memory.export()))
    shutil.rmtree(root / "memory")


def restored(root, acknowledge):
    (path,) = (root / "backups").iterdir()
    with synapse.init(str(root / "memory")) as memory:
        backup.restore(memory.store, str(path))
        for id, text in entries(memory):
            acknowledge(("entry", id, text))


def imported(root, acknowledge):
    with synapse.init(str(root / "memory")) as memory:
        with (root / "export").open() as lines:
            memory.import_(lines)
        for id, text in entries(memory):
            acknowledge(("entry", id, text))


def begun(root, told, whole, inodes):
    """What is wrong with a workspace that was filled at once: it holds all, or nothing."""
    if not told:
        try:
            with synapse.init(str(root / "memory")) as memory:
                count = len(entries(memory))
                if count not in (0, len(whole)):
                    yield "half", f"{count} of {len(whole)}"
        except (SynapseError, OSError) as error:
            yield "stuck", repr(error)
        return
    yield from findings(root, told, whole, inodes)


def made(root, acknowledge):
    with synapse.init(str(root / "memory")) as memory:
        acknowledge(("made",))
        for agent in STAFF:
            memory.register(agent)
        acknowledge(("staffed",))
        acknowledge(stored(memory, memory.as_agent("eng").append("first", "api/x")))


def stands(root, told, whole, inodes):
    if ("made",) in told:
        try:
            with synapse.open(str(root / "memory")) as memory:
                memory.as_agent("operator").read()
                if memory.store.settings.name != "memory":
                    yield "lost", "its name"
                if not memory.verify().ok:
                    yield "verify", memory.verify().problems
        except (SynapseError, OSError) as error:
            yield "stuck", repr(error)
    if ("staffed",) in told:
        yield from findings(root, told, whole, inodes)


def letters(root):
    workspace(root)
    messages = [
        {
            "id": f"syn_0123456789a{n}",
            "from": "helios",
            "to": "claude-code",
            "priority": "info",
            "subject": f"s{n}",
            "body": f"letter {n} " + "ü" * 200 * n,
            "thread_id": f"thr_0c7b2f60-93ce-4c4e-9d3c-6a3c2f8d1e5{n}",
            "timestamp": f"2026-02-10T21:00:0{n}",
            "status": "sent",
            "read_by": ["claude-code"],
            "ack_body": None,
        }
        for n in range(6)
    ]
    text = json.dumps({"version": 1, "messages": messages, "agents": ["helios"]})
    (root / "synapse.json").write_text(text)


def take_over(memory, acknowledge):
    path = os.path.join(os.path.dirname(memory.store.root), "synapse.json")
    migrate(memory, path)
    for id, text in entries(memory):
        acknowledge(("entry", id, text))
    for name in ("helios", "claude-code"):
        acknowledge(("agent", name, (None,)))


def apart(root):
    """A workspace and its copy, which went on by itself; both journals are of several files."""
    workspace(root)
    shutil.copytree(root / "memory", root / "other")
    for name in ("memory", "other"):
        with synapse.open(str(root / name)) as memory:
            memory.store.log.journal.segment_bytes = 2_000
            for n in range(4):
                memory.as_agent("eng").append(f"{name} {n} " + "ä" * 400, "api/x")


def merge(memory, acknowledge):
    for id, text in entries(memory):
        acknowledge(("entry", id, text))
    merge_in(memory.store, os.path.join(os.path.dirname(memory.store.root), "other"))
    for id, text in entries(memory):
        acknowledge(("entry", id, text))


DROP = (
    "---\nid: syn-x{}\nfrom: eng\ntimestamp: 2026-02-01T00:00:00Z\n"
    "namespace: api/endpoints\npriority: info\n---\n\ndrop {}\n"
)


def drops(root):
    """Files that people and agents dropped a while ago, some that can never be adopted."""
    workspace(root)
    memory = root / "memory"
    for n, place in enumerate(("entries/api/endpoints", "inbox/eng/new") * 2):
        (memory / place).mkdir(parents=True, exist_ok=True)
        (memory / place / f"drop-{n}.md").write_text(DROP.format(n, n) + "ñ" * 500)
        (memory / place / f"bad-{n}.md").write_text(f"---\nno: {n}\n---\n" + "ñ" * 500)
    for path in memory.rglob("*.md"):
        os.utime(path, (LONG_AGO, LONG_AGO))


@contextmanager
def settled():
    """Take a drop in at once: that it is whole is known here."""
    before, drop_box.SETTLED = drop_box.SETTLED, -1
    try:
        yield
    finally:
        drop_box.SETTLED = before


def adopt(memory, acknowledge):
    with settled():
        memory.store.refresh(whole=True)
    for id, text in entries(memory):
        acknowledge(("entry", id, text))
    acknowledge(("adopted",))


def adopted(memory, told, whole):
    """Every drop is an entry, or in quarantine, whenever the power was cut."""
    with settled():
        memory.store.refresh(whole=True)
    dropped = Counter(text.partition("drop ")[2][:1] for _, text in entries(memory))
    for n in range(4):
        if dropped[str(n)] != 1:
            yield "lost" if not dropped[str(n)] else "twice", f"drop {n}"
    kept = Path(memory.store.root, "quarantine").glob("*.md")
    named = {path.read_text().partition("no: ")[2][:1] for path in kept}
    if named != {"0", "1", "2", "3"}:
        yield "lost", named


def token(memory, acknowledge):
    path = os.path.join(os.path.dirname(memory.store.root), "tokens")
    for agent in ("eng", "lead"):
        acknowledge(("token", new_token(path, agent), agent))


def believed(memory, told, whole):
    path = os.path.join(os.path.dirname(memory.store.root), "tokens")
    for _, bearer, agent in (what for what in told if what[0] == "token"):
        if TokenFile(path).agent(bearer) != agent:
            yield "lost", agent
    new_token(path, "eng")


def fence(memory, acknowledge):
    acknowledge(("secret", secret(memory.store.root)))


def fenced(memory, told, whole):
    for _, value in (what for what in told if what[0] == "secret"):
        if secret(memory.store.root) != value:
            yield "lost", value


ACTS = {
    "append": in_memory(append),
    "append_late": in_memory(append_late),
    "append_between": in_memory(append_between),
    "append_all": in_memory(append_all, more=keyed),
    "mail": in_memory(mail, more=acked),
    "rulings": in_memory(rulings, more=acts),
    "register": in_memory(register),
    "knowledge": in_memory(know),
    "night": in_memory(night, aged, consolidated, FrozenClock(NIGHT)),
    "backup": in_memory(take, more=kept),
    "restore": Act(saved, restored, begun, standing),
    "import": Act(saved, imported, begun, standing),
    "migrate": in_memory(take_over, letters),
    "merge": in_memory(merge, apart),
    "adopt": in_memory(adopt, drops, adopted),
    "init": Act(lambda root: None, made, stands, standing),
    "token": in_memory(token, more=believed),
    "fence": in_memory(fence, more=fenced),
    "run": RUN,
    "team": TEAM,
    "redact": REDACT,
}
