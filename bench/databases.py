"""`python -m bench postgres ADDRESS`: a log in PostgreSQL beside one in files and beside bare SQL,
in one run. What is compared is done in turn, so that all have the same disk and the same load,
which are printed.

The workspaces that it makes in the database are dropped at its end.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from threading import Thread

import synapse
from bench import child
from bench.figures import Timing, duration
from bench.limits import Raw
from synapse.core import Memory
from synapse.log.postgres.address import parse_address
from synapse.log.postgres.database import connect
from synapse.system.signal import NotificationPipe
from synapse.testing.tools import draft_entry

WRITER = synapse.Agent("eng-a", role="engineer", read=("*",), write=("*",))
BODY = "use /v2/users " * 28  # 400 bytes, as an entry has
BLOCK, SINGLES, BATCH = 20, 300, 100
CREW, EACH, MACHINES = 8, 60, 3


class Bench:
    """The places of one run: folders, and workspaces in the database."""

    def __init__(self, address: str, place: str) -> None:
        self.address, self.place = address, place
        self.number = 0
        self.used: list[str] = []
        self.sql = connect(parse_address(address), 10)

    def schema(self) -> str:
        """Return the name of a schema that nobody has used."""
        self.used.append(f"bench_{os.getpid()}_{len(self.used)}")
        return self.used[-1]

    def workspace(self) -> str:
        """Return the address of a workspace that nobody has used."""
        sign = "&" if "?" in self.address else "?"
        return f"{self.address}{sign}workspace={self.schema()}"

    def machine(self, log: str | None = None) -> Memory:
        """Open a new folder, of its own or of a machine that shares a database's log."""
        self.number += 1
        memory = synapse.init(f"{self.place}/{self.number}", log=log)
        if not memory.agents():
            memory.register(WRITER)
        return memory

    def close(self) -> None:
        for name in self.used:
            self.sql.execute(f"drop schema if exists {name} cascade".encode())
        self.sql.close()


def in_turn(*calls: Callable[[], object], number: int) -> list[Timing]:
    """Time each call so often, in blocks that take turns."""
    seconds: list[list[float]] = [[] for _ in calls]
    for _ in range(number // BLOCK):
        for call, own in zip(calls, seconds, strict=True):
            call()
            for _ in range(BLOCK):
                begun = time.perf_counter()
                call()
                own.append(time.perf_counter() - begun)
    return [Timing(each) for each in seconds]


def said(timing: Timing) -> str:
    return f"p50 {duration(timing.p50)}, p99 {duration(timing.at(0.99))}"


def note(memory: Memory) -> object:
    return memory.as_agent(WRITER.id).append(BODY, "api/x")


def writing(bench: Bench) -> Iterator[str]:
    """One writer, each in turn: a synced line, bare SQL, files, the database."""
    raw = Raw(f"{bench.place}/raw")
    schema = bench.schema()
    bench.sql.execute(f"create schema {schema}".encode())
    table = f"{schema}.bare"
    bench.sql.execute(f"create table {table} (seq bigserial primary key, line text)".encode())
    insert, line = f"insert into {table} (line) values (%s)".encode(), (BODY * 2,)
    with bench.machine() as files, bench.machine(bench.workspace()) as shared:
        disk, bare, own, ours = in_turn(
            raw.line,
            lambda: bench.sql.execute(insert, line),
            lambda: note(files),
            lambda: note(shared),
            number=SINGLES,
        )
        yield f"fdatasync of a line: {said(disk)}"
        yield f"bare INSERT: {said(bare)}"
        yield f"append, files: {said(own)}"
        yield f"append, database: {said(ours)}; {ours.p50 / own.p50:.2f}× files"
        for name, memory in (("files", files), ("database", shared)):
            begun, cpu = time.perf_counter(), time.process_time()
            fill(memory, BATCH)
            took, cpu = time.perf_counter() - begun, time.process_time() - cpu
            single = own.p50 if memory is files else ours.p50
            yield (
                f"append_all({BATCH}), {name}: {duration(took / BATCH)} a record,"
                f" {duration(cpu / BATCH)} of CPU; {single * BATCH / took:.1f}× singles"
            )
    raw.close()


def fill(memory: Memory, number: int) -> None:
    """Append so many entries, in batches."""
    for _ in range(number // BATCH):
        records = [draft_entry(BODY, author=WRITER.id, namespace="api/x") for _ in range(BATCH)]
        memory.store.commit.append_all({uuid.uuid4().hex: record for record in records})


def reading(bench: Bench) -> Iterator[str]:
    """A page of which nothing is new, beside one round trip."""
    with bench.machine() as files, bench.machine(bench.workspace()) as shared:
        for memory in (files, shared):
            fill(memory, 1_000)
        trip, own, ours = in_turn(
            lambda: bench.sql.execute("select 1").fetchone(),
            lambda: files.as_agent(WRITER.id).read(limit=20),
            lambda: shared.as_agent(WRITER.id).read(limit=20),
            number=SINGLES,
        )
        yield f"one round trip: {said(trip)}"
        yield f"page, files: {said(own)}"
        yield f"page, database: {said(ours)}; {duration(ours.p50 - own.p50)} more than files"


def telling(bench: Bench) -> Iterator[str]:
    """From the append on one machine until another has read it."""
    log = bench.workspace()
    with bench.machine(log) as one, bench.machine(log) as two:
        reader, sent, seconds = two.as_agent(WRITER.id), [0.0], list[float]()
        pipe = NotificationPipe(two.store.log.pipes or "")
        while not pipe.wait(1):
            pass
        for number in range(100):
            text = f"critical {number}"

            def write(text: str = text) -> None:
                time.sleep(0.02)
                sent[0] = time.perf_counter()
                one.as_agent(WRITER.id).append(text, "api/x", priority="critical")

            thread = Thread(target=write)
            thread.start()
            while text not in {entry.body for entry in reader.read(limit=1)}:
                pipe.wait(1)
            seconds.append(time.perf_counter() - sent[0])
            thread.join()
        pipe.close()
    yield f"critical, A to B: {said(Timing(seconds))}"


def crew(bench: Bench) -> Iterator[str]:
    """Eight processes on three machines, beside one."""
    log = bench.workspace()
    roots = []
    for _ in range(MACHINES):
        with bench.machine(log) as memory:
            roots.append(str(memory.store.root))
    rates = {}
    for number in (1, CREW):
        command = [sys.executable, "-m", "bench.databases", log]
        jobs = [
            subprocess.Popen(
                [*command, roots[n % MACHINES]], stdin=-1, stdout=-1, text=True, cwd=child.ROOT
            )
            for n in range(number)
        ]
        for job in jobs:
            child.await_ready(job)
        begun = time.perf_counter()
        for job in jobs:
            child.tell(job, "go")
        seconds = [each for job in jobs for each in child.answer(job)]
        rates[number] = len(seconds) / (time.perf_counter() - begun)
        timing = Timing(seconds)
        yield (
            f"{number} writers: {rates[number]:.0f}/s, {said(timing)},"
            f" p99 is {timing.at(0.99) / timing.p50:.1f}× p50"
        )
    yield f"{CREW} writers are {rates[CREW] / rates[1]:.2f}× one"


def catching_up(bench: Bench, number: int) -> Iterator[str]:
    """A new machine, and how an append grows with the log."""
    log = bench.workspace()
    with bench.machine(log) as memory:
        for size in (1_000, number):
            fill(memory, size - memory.store.log.last())
            memory.as_agent(WRITER.id).read(limit=1)
            cpu = time.process_time()
            (timing,) = in_turn(lambda: note(memory), number=100)
            cpu = (time.process_time() - cpu) / 105
            yield f"append at {size:,}: {said(timing)}, {duration(cpu)} of CPU"
    begun, cpu = time.perf_counter(), time.process_time()
    with bench.machine(log) as memory:
        memory.as_agent(WRITER.id).read(limit=1)
        records = memory.store.log.last()
    took, cpu = time.perf_counter() - begun, time.process_time() - cpu
    yield (
        f"a new machine takes in {records:,} records: {records / cpu:,.0f} a second of CPU,"
        f" {duration(took)} in all"
    )


def write(log: str, root: str) -> None:
    """Be one of the crew."""
    with synapse.init(root, log=log) as memory:
        note(memory)
        print(child.READY, flush=True)
        sys.stdin.readline()
        (timing,) = in_turn(lambda: note(memory), number=EACH)
        print(json.dumps(timing.seconds))


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench postgres", description=__doc__)
    parser.add_argument("address", help="of a database: postgresql://USER@HOST/DATABASE")
    parser.add_argument("--number", type=int, default=10_000, help="records that a log grows to")
    parser.add_argument("--dir", help="where folders are made, on the disk to measure")
    args = parser.parse_args(words)
    place = tempfile.mkdtemp(prefix="synapse-bench-", dir=args.dir)
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, place, ignore_errors=True)
        bench = Bench(args.address, place)
        stack.callback(bench.close)
        version = bench.sql.info.server_version // 10_000
        print(f"PostgreSQL {version}, load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
        for part in (writing(bench), reading(bench), telling(bench), crew(bench)):
            for line in part:
                print(line, flush=True)
        for line in catching_up(bench, args.number):
            print(line, flush=True)
    return 0


if __name__ == "__main__":
    write(*sys.argv[1:])
