"""The acts whose power is cut: how each is prepared and done, and what is to be left of it."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from datetime import datetime, timedelta

import synapse
from orchestrator import Supervisor, Task
from orchestrator.engines.scripted import Move, Scripted
from orchestrator.nightly.defrag_agent import defrag_agent, read
from orchestrator.nightly.notebook import lost
from orchestrator.testing.virtual import VirtualTime
from synapse import Mail, backup
from synapse.compat.migrate import migrate
from synapse.consolidate.nightly import run_nightly
from synapse.errors import SynapseError
from synapse.knowledge import memory as knowledge
from synapse.log import journal
from synapse.mcp.bearer import TokenFile, new_token
from synapse.model.records import Record
from synapse.testing import FrozenClock
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


def append_all(memory, acknowledge):
    me = memory.as_agent("eng")
    for n in range(4):
        first = memory.store.log.last()
        batch = {
            f"once {n} {i}": Record.new(
                "note", "eng", {"text": f"{n} {i} " + "☃" * 90 * i}
            )
            for i in range(5)
        }
        memory.store.write_all(batch)
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
        acknowledge(
            stored(memory, memory.as_agent(f"new-{n}").append(f"hello {n}", "api/x"))
        )
    for n in range(3):
        memory.register(
            synapse.Agent(f"new-{n}", read=["*"], write=["*"], department=f"dep-{n}")
        )
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
        snapshot = backup.take(memory, directory, keep=2)
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
        backup.take(memory, str(root / "backups"))
        (root / "export").write_text("".join(memory.export()))
    shutil.rmtree(root / "memory")


def restored(root, acknowledge):
    (path,) = (root / "backups").iterdir()
    with synapse.init(str(root / "memory")) as memory:
        backup.restore(memory, str(path))
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


def token(memory, acknowledge):
    path = os.path.join(os.path.dirname(memory.store.root), "tokens")
    for agent in ("eng", "lead"):
        acknowledge(("token", new_token(path, agent), agent))


def believed(memory, told, whole):
    path = os.path.join(os.path.dirname(memory.store.root), "tokens")
    for _, secret, agent in (what for what in told if what[0] == "token"):
        if TokenFile(path).agent(secret) != agent:
            yield "lost", agent
    new_token(path, "eng")


# -- an agent's own notes --------------------------------------------------------------------------

DAY = datetime(2026, 2, 10, 2, 30)


def notes(root):
    files = {
        "MEMORY.md": "## Projects\n- shop\n- shop\n- gone (until 2026-02-01)\n"
        + "".join(f"- point ö {n} that is worth keeping\n" for n in range(40)),
        "memory/2026-01-05.md": "- an old note\n" + "- and more of it\n" * 80,
        "memory/2026-01-06.md": "- another old note\n",
        "memory/2026-02-09.md": "- Lesson: read the log\n",
    }
    for name, text in files.items():
        path = root / "scout" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def tidy(root, acknowledge):
    for n in range(3):
        report = defrag_agent(str(root / "scout"), DAY + timedelta(n), lines=30 - 5 * n)
        assert report.verdict != "failed"
        acknowledge(("tidied", n))


def tidied(root, told, whole, inodes):
    folder = str(root / "scout")
    day = DAY.date() if told else None
    try:
        for problem in lost(whole, read(folder), today=day):
            yield "lost", problem
        if defrag_agent(folder, DAY + timedelta(9)).verdict == "failed":
            yield "stuck", "it cannot be tidied any more"
    except SynapseError as error:
        yield "stuck", repr(error)


def noted(root):
    """What the notes said before anything was tidied."""
    other = root.parent / "before"
    other.mkdir()
    notes(other)
    return read(str(other / "scout"))


# -- a run -----------------------------------------------------------------------------------------


class Work:
    """A run of an agent that calls a tool in each of its turns, and what it was told."""

    TURNS = 4

    def __init__(self, tell):
        self.tell = tell

    def turn(self, seen):
        self.tell(("asked", seen.turn))
        if seen.turn == self.TURNS:
            return "All is done."
        wrote = {"namespace": "status/web", "body": f"step {seen.turn} " + "ö☃" * 300}
        return Move("", (("append", wrote), ("work", {"step": seen.turn})))

    def supervisor(self, memory, seed):
        def work(step: int) -> str:
            """Do one step."""
            self.tell(("worked", step))
            return f"did {step}" + " und möhr" * 90

        options = {"inline": True, "memory_tools": "always", "tools": [work]}
        return Supervisor(memory, engine=Scripted(self.turn), seed=seed, **options)


def hired(root):
    with synapse.init(str(root / "memory"), clock=VirtualTime()) as memory:
        for agent in STAFF:
            memory.register(agent)


def run(root, acknowledge):
    time = VirtualTime()
    with synapse.open(str(root / "memory"), clock=time) as memory:

        async def work():
            async with supervisor:
                await supervisor.spawn(Task("Build it", "eng", project="web"))

        with Work(acknowledge).supervisor(memory, 7) as supervisor:
            time.run(work())
        acknowledge(("ended",))


def move_marks(root, inodes):
    """Let the marks of steps, which name files by their inodes, name those that have their
    place.
    """
    for path in root.rglob("steps.mark"):
        inode, space, size = path.read_text().partition(" ")
        if inode.isdigit() and int(inode) in inodes:
            path.write_text(f"{inodes[int(inode)]}{space}{size}")


def ran(root, told, whole, inodes):
    """What is wrong with a run that another process goes on with: what it did is not done again,
    and it comes to its end.
    """
    move_marks(root, inodes)
    time, again = VirtualTime(), []
    time.elapsed = 600
    try:
        with synapse.open(str(root / "memory"), clock=time) as memory:

            async def rest():
                async with supervisor:
                    taken = (await supervisor.recover()).runs
                    return [await supervisor.result(run) for run in taken]

            with Work(again.append).supervisor(memory, 8) as supervisor:
                results = time.run(rest())
                runs = supervisor.run_store.runs.all()
    except (SynapseError, OSError) as error:
        yield "stuck", repr(error)
        return
    yield from done_again(told, again, runs)
    for result in results:
        if result.status != "done":
            yield "ended", (result.status, result.why)
    yield from findings(root, (), whole, inodes, clock=time)


def done_again(told, again, runs):
    """What a run was told before and after the cut: no step twice, and all that was said stands.
    Of a call whose reply nobody has, one can only ask again.
    """
    asked = [what for what in told if what[0] == "asked"]
    for what in sorted({*told} & {*again} - {*asked[-1:]}):
        yield "twice", (what, again)
    states = [run.status for run in runs]
    if ("ended",) in told and (again or states != ["done"]):
        yield "lost", (again, states)
    if told and not runs:
        yield "lost", "the run"


ACTS = {
    "append": in_memory(append),
    "append_late": in_memory(append_late),
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
    "init": Act(lambda root: None, made, stands, standing),
    "token": in_memory(token, more=believed),
    "run": Act(hired, run, ran, standing),
    "notes": Act(notes, tidy, tidied, noted),
}
