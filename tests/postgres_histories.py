"""Histories of a log in PostgreSQL: several machines, each with a folder, a clock and processes of its
own, write and read while they, the server and what lies between come to harm; and what is wrong then.

A writer notes what became of each text: acknowledged, refused, or not known. Every second text has a
`once` and is sent until it is acknowledged; the others are sent once alone, so that a guess at what
became of a commit shows.
"""

import json
import os
import random
import subprocess
import sys
import threading
import time
import uuid
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import synapse
from synapse.errors import StoreBusy, StoreError, SynapseError
from synapse.log.chain import chain_of, decode, follows
from synapse.log.postgres import database as database_module
from synapse.log.postgres import journal as journal_module
from synapse.log.postgres.address import parse_address
from synapse.model.clock import SECOND, now
from synapse.model.placement import GENESIS
from synapse.system.signal import NotificationPipe
from tests.postgres import Proxy

WRITER = synapse.Agent("eng-a", role="engineer", read=("*",), write=("*",))
PROJECT = Path(__file__).parents[1]
APART = 600 * SECOND  # the clock of one machine to that of the next
THREADS = 4  # writers in a process


class Scale(NamedTuple):
    """How many do what: writers and subscribers of each machine, texts of all of them, and how often
    each harm is done.
    """

    machines: int = 3
    writers: int = 2
    texts: int = 30
    subscribers: int = 1
    harm: tuple[tuple[str, int], ...] = ()


def note(memory, text, **more):
    return memory.as_agent("eng-a").append(text, "api/x", **more)


def lines_of(server, url):
    schema = parse_address(url).schema
    return [
        f"{raw}\n".encode() for (raw,) in server.run(f"select raw from {schema}.line order by seq")
    ]


def copy_of(memory):
    folder = Path(memory.store.root, "journal")
    return b"".join(path.read_bytes() for path in sorted(folder.glob("*.jsonl")))


def is_chain(raws):
    last = GENESIS
    for number, raw in enumerate(raws, 1):
        if not follows(raw, last) or decode(raw).seq != number:
            return False
        last = chain_of(raw)
    return True


def through(proxy, url):
    head, _, path = url.rpartition("@")[2].partition("/")
    host = head.partition(":")[0]
    return f"{url.rpartition('@')[0]}@{host}:{proxy.own}/{path}"


# -- what a machine does ---------------------------------------------------------------------------


def opened(root, url, offset):
    """Open the machine's folder, as often as that takes within a minute."""
    until = time.monotonic() + 60
    while True:
        try:
            return synapse.init(root, log=url, clock=lambda: now() + offset)
        except (StoreError, OSError):
            if time.monotonic() > until:
                raise
            time.sleep(random.random() * 0.2)


def noted(path):
    """Return what was noted in a file by one that may have been killed within a line."""
    raw = path.read_text() if path.exists() else ""
    path.write_text(raw[: raw.rfind("\n") + 1])
    return [json.loads(line) for line in raw[: raw.rfind("\n") + 1].splitlines()]


def write(memory, path, number):
    """Write until so many texts are acknowledged."""
    name = path.name
    done = sum(outcome == "acknowledged" for _, outcome, _ in noted(path))
    with path.open("a") as file:
        while done < number:
            once = f"{name}-{done}" if done % 2 else None
            text = f"{name} {done}" + ("" if once else f" {uuid.uuid4().hex}")
            id = ""
            try:
                id = note(memory, text, once=once).id
                outcome = "acknowledged"
                done += 1
            except StoreBusy:
                outcome = "refused"
            except (SynapseError, OSError):
                outcome = "not known"
            file.write(json.dumps([text, outcome, id]) + "\n")
            file.flush()
            if not id:
                time.sleep(random.random() * 0.05)


def subscribe(memory, path, over):
    """Note every record from the last one that was noted, until all is over."""
    log, seen = memory.store.log, noted(path)
    cursor = seen[-1][0] if seen else 0
    pipe = NotificationPipe(log.pipes)
    with path.open("a") as file:
        while True:
            last = over.exists()
            before = cursor
            for record in log.since(cursor):
                cursor = record.seq
                file.write(json.dumps([record.seq, record.id]) + "\n")
            file.flush()
            if last and cursor == before and not log.journal.away:
                break
            pipe.wait(0.5)
    pipe.close()


def live(folder, root, url, offset, number, bug, *names):
    """Be one process of a machine: its writers, or its subscribers."""
    if bug:
        globals()[bug]()
    folder, memory = Path(folder), opened(root, url, int(offset))
    jobs = []
    for name in names:
        writes = name.startswith("w")
        what = (write, int(number)) if writes else (subscribe, folder / "over")
        jobs.append(threading.Thread(target=what[0], args=(memory, folder / name, what[1])))
    for job in jobs:
        job.start()
    for job in jobs:
        job.join()
    memory.close()


class Machine:
    """A folder, a clock, a way to the server, and processes that can be killed together."""

    def __init__(self, number, folder, server, url, scale, bug):
        self.proxy = Proxy(server.port)
        self.root = folder / f"machine-{number}"
        texts = -(-scale.texts // (scale.machines * scale.writers))
        writers = [f"w{number}-{n}" for n in range(scale.writers)]
        crews = [writers[n : n + THREADS] for n in range(0, len(writers), THREADS)]
        crews.append([f"s{number}-{n}" for n in range(scale.subscribers)])
        offset = (number - scale.machines // 2) * APART
        common = (folder, self.root, through(self.proxy, url), offset, texts, bug)
        self.commands = [
            [sys.executable, "-m", "tests.postgres_histories", *map(str, common), *crew]
            for crew in crews
            if crew
        ]
        self.url = through(self.proxy, url)
        self.jobs = []

    def open(self):
        """Open the folder, with nothing in the way any more."""
        self.proxy.lose = None
        return synapse.init(self.root, log=self.url)

    def start(self):
        self.jobs = [subprocess.Popen(command, cwd=PROJECT) for command in self.commands]

    def kill(self):
        for job in self.jobs:
            job.kill()
        for job in self.jobs:
            job.wait()

    def over(self):
        return all(job.poll() is not None for job in self.jobs)


# -- what comes to harm ----------------------------------------------------------------------------


def end_backend(server, machine):
    server.run(
        "select pg_terminate_backend(pid) from pg_stat_activity"
        " where application_name = 'synapse' order by random() limit 1"
    )


def stop_server(server, machine):
    server.stop()
    server.start()


def freeze_server(server, machine):
    server.freeze()
    time.sleep(random.uniform(0.5, 3))
    server.thaw()


def kill_machine(server, machine):
    machine.kill()
    machine.start()


def cut(server, machine):
    machine.proxy.cut()


def freeze(server, machine):
    machine.proxy.flows.clear()
    time.sleep(random.uniform(0.5, 3))
    machine.proxy.flows.set()


def swallow(server, machine):
    """Lose the answer to the next commit."""

    def lose(data):
        found = b"COMMIT\0" in data
        if found:
            machine.proxy.lose = None
        return found

    machine.proxy.lose = lose


# -- a history -------------------------------------------------------------------------------------


def play(folder, server, url, scale, bug=""):
    """Have the machines write and read while harm is done; return what is wrong, and counts."""
    with synapse.init(folder / "first", log=url) as first:
        first.register(WRITER)
    machines = [Machine(n, folder, server, url, scale, bug) for n in range(scale.machines)]
    harms = [name for name, number in scale.harm for _ in range(number)]
    random.shuffle(harms)
    begun, done = time.monotonic(), Counter()
    for machine in machines:
        machine.start()
    try:
        while not all(machine.over() for machine in machines):
            written = sum(path.read_bytes().count(b'"acknowledged"') for path in folder.glob("w*"))
            if written >= scale.texts:
                (folder / "over").touch()
            elif harms and written / scale.texts >= done.total() / (done.total() + len(harms)):
                name = harms.pop()
                globals()[name](server, random.choice(machines))
                done[name] += 1
                continue
            time.sleep(0.05)
        counts = {"seconds": round(time.monotonic() - begun), **done}
        return judge(folder, lines_of(server, url), machines, scale, counts), counts
    finally:
        for machine in machines:
            machine.kill()
            machine.proxy.close()


def judge(folder, lines, machines, scale, counts):
    """Return what is wrong with a history; count what was noted."""
    records = [decode(raw) for raw in lines]
    outcomes = [each for path in folder.glob("w*") for each in noted(path)]
    counts |= Counter(outcome for _, outcome, _ in outcomes)
    stored = Counter(body_of(record) for record in records if record.kind == "entry")
    ids = {body_of(record): record.id for record in records if record.kind == "entry"}
    wrong = [f"lost {t}" for t, how, id in outcomes if how == "acknowledged" and ids.get(t) != id]
    wrong += [f"doubled {text}" for text, number in stored.items() if number > 1]
    settled = {text for text, outcome, _ in outcomes if outcome == "acknowledged"}
    refused = {text for text, outcome, _ in outcomes if outcome == "refused"} - settled
    unknown = {text for text, outcome, _ in outcomes if outcome == "not known"}
    wrong += [f"refused and stored {text}" for text in refused - unknown if stored[text]]
    wrong += [] if len(settled) >= scale.texts else ["not all were written"]
    wrong += [] if is_chain(lines) else ["the chain is broken"]
    expected = [[record.seq, record.id] for record in records]
    for path in folder.glob("s*"):
        seen = noted(path)
        wrong += [] if seen == expected else [f"{path.name} saw {len(seen)} of {len(expected)}"]
    memories = [machine.open() for machine in machines]
    wrong += [] if len({memory.digest() for memory in memories}) == 1 else ["digests differ"]
    for memory in memories:
        wrong += [] if copy_of(memory) == b"".join(lines) else [f"{memory.store.root} is no copy"]
        memory.close()
    counts |= {"records": len(lines), "readers": len(list(folder.glob("s*")))}
    return wrong


def body_of(record):
    return record.text.rpartition("---\n")[2].strip()


# -- bugs that a history has to show ---------------------------------------------------------------


def acknowledge_early():
    """Have the answer come before the commit, which another thread makes."""
    real = journal_module._Append._at_once

    def early(self):
        tail = self.journal._current(self.keeper)
        made = self._make(tail)
        threading.Timer(0.05, lambda: self.journal.lock.run(lambda: real(self))).start()
        return made.results

    journal_module._Append._at_once = early


def copy_early():
    """Have the copy be written before the commit."""
    real = database_module.Turn.append
    journals = []

    def early(self, tail, lines, *more):
        journals[-1]._store([f"{line}\n".encode() for line in lines.split("\n")])
        return real(self, tail, lines, *more)

    database_module.Turn.append = early
    real_init = journal_module.PgJournal.__init__

    def init(self, *args, **more):
        journals.append(self)
        real_init(self, *args, **more)

    journal_module.PgJournal.__init__ = init


def guess():
    """Have a connection that broke within a commit be taken for a commit that failed."""

    def run(self):
        self.after = self.journal._current(self.keeper).seq
        try:
            return self._at_once() or self._in_turn() or self._in_turn()
        except database_module.ConnectionLost:
            raise StoreBusy("nothing was stored") from None

    journal_module._Append.run = run


if __name__ == "__main__":
    random.seed(os.getpid())
    live(*sys.argv[1:])
