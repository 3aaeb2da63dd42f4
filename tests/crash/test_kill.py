"""Writers killed with SIGKILL: nothing acknowledged is lost, nothing is seen torn, no id is given
twice.

Run as a program, this file is the harness: it forks writers and a reader, kills writers at random
points for as often as it was told to, and leaves behind what they were told. The checker then
compares that with the disk.
"""

import contextlib
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import pytest

import synapse

SHORT = 60  # kills in every run; a thousand in the soak
WRITERS = 8
AGENTS = [f"eng-{n}" for n in range(WRITERS)]


# a digest of letters alone: one of digits may read like the number of a card, which is refused
LETTERS = str.maketrans("0123456789", "ghijklmnop")


def digest(body):
    return hashlib.sha256(body.encode()).hexdigest().translate(LETTERS)


def text_of(name, number):
    """A body that carries its own proof, so that a torn one is known from itself."""
    lines = (f"{name} {number} line {n}" for n in range(random.choice((1, 3, 12, 400))))
    body = "\n".join(lines)
    return f"{body}\nsha256 {digest(body)}"


def proof_of(text):
    """The digest in a text that is whole, else None."""
    head, _, tail = text.rstrip("\n").rpartition("\nsha256 ")
    body = head.partition("\n---\n")[2].strip("\n")
    return tail if digest(body) == tail else None


# -- the harness -----------------------------------------------------------------------------------


def write_ours(root, name):
    """Entries through the library, for ever; gives back what was acknowledged."""
    with synapse.open(root) as memory:
        me = memory.as_agent(name)
        for number in range(1 << 30):
            text = text_of(f"{name} {os.getpid()}", number)
            yield me.append(text, "api/endpoints").id, text


def write_naively(root, name):
    """As people write it first: the next free number, then the file."""
    folder = Path(root, "entries", "api", "endpoints")
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(1 << 30):
        text = text_of(f"{name} {os.getpid()}", number)
        taken = [int(path.stem.rsplit("-", 1)[1]) for path in folder.glob("*.md")]
        id = f"syn-2026-02-01-{max(taken, default=0) + 1:03d}"
        with open(folder / f"{id}.md", "w", encoding="utf-8", buffering=256) as file:
            file.write(f"---\nid: {id}\nfrom: {name}\nnamespace: api/endpoints\n---\n\n")
            file.writelines(f"{line}\n" for line in text.split("\n"))
        yield id, text


def writer(kind, root, name):
    log = os.open(os.path.join(root, f"acks-{name}"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    writing = {"ours": write_ours, "naive": write_naively}[kind]
    for id, text in writing(root, name):
        os.write(log, f"{id} {text[-64:]}\n".encode())


def reader(root, folder):
    """Cats every file that there is, over and over; the paths of those that were not whole once."""
    torn, whole, stop = set(), set(), []
    signal.signal(signal.SIGTERM, lambda *_: stop.append(1))
    while not stop:
        for place, _, names in os.walk(os.path.join(root, "entries")):
            for name in names:
                path = os.path.join(place, name)
                if path in whole or name.startswith(".") or not name.endswith(".md"):
                    continue
                with contextlib.suppress(OSError), open(path, encoding="utf-8") as file:
                    (whole if proof_of(file.read()) else torn).add(path)
        time.sleep(0.001)
    Path(folder, "torn").write_text("\n".join(sorted(torn)))


def fork(work, *args):
    pid = os.fork()
    if pid:
        return pid
    try:
        work(*args)
    except BaseException:
        import traceback

        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def harness(kind, root, folder, kills, seed):
    """Eight writers and a reader; every few milliseconds one writer dies and another takes its
    place.
    """
    chance = random.Random(seed)
    pids = {name: fork(writer, kind, root, name) for name in AGENTS}
    watching = fork(reader, root, folder)
    failed = 0
    for _ in range(kills):
        time.sleep(chance.choice((0.001, 0.005, 0.02, 0.05)) * chance.random())
        name = chance.choice(AGENTS)
        os.kill(pids[name], signal.SIGKILL)
        failed += os.waitpid(pids[name], 0)[1] != signal.SIGKILL
        pids[name] = fork(writer, kind, root, name)
    time.sleep(0.2)
    for pid in pids.values():
        os.kill(pid, signal.SIGKILL)
        failed += os.waitpid(pid, 0)[1] != signal.SIGKILL
    os.kill(watching, signal.SIGTERM)
    failed += os.waitpid(watching, 0)[1] != 0
    print(json.dumps({"failed": failed}))


# -- the checker -----------------------------------------------------------------------------------


class Verdict(NamedTuple):
    """How often each thing that must not be was seen, and how much was written at all."""

    acknowledged: int
    lost: int
    torn: int
    twice: int
    failed: int


def run(kind, root, folder, kills):
    """Let writers die, then compare what they were told with what the directory holds."""
    folder.mkdir()
    done = subprocess.run(
        [sys.executable, __file__, kind, str(root), str(folder), str(kills), "7"],
        stdout=subprocess.PIPE,
        text=True,
        timeout=600,
        check=True,
    )
    acks = [line.split() for path in root.glob("acks-*") for line in path.read_text().splitlines()]
    if kind == "ours":
        finish(root)
    files = {path.stem: proof_of(path.read_text()) for path in root.glob("entries/**/*.md")}
    ids = [id for id, _ in acks]
    torn = (folder / "torn").read_text().split()
    return Verdict(
        acknowledged=len(acks),
        lost=sum(files.get(id) != digest for id, digest in acks),
        torn=len({*torn, *(id for id, digest in files.items() if digest is None)}),
        twice=len(ids) - len(set(ids)),
        failed=json.loads(done.stdout)["failed"],
    )


def later():
    return time.time_ns() // 1000 + 10_000_000


def finish(root):
    """One opening, after the two seconds that a slow writer has for its file."""
    with synapse.open(str(root), clock=later) as memory:
        memory.as_agent("operator").read(limit=1)


def prepared(root):
    with synapse.init(str(root)) as memory:
        for name in AGENTS:
            memory.register(synapse.Agent(name, read=["*"], write=["*"]))
    return root


def check_ours(root, folder, kills):
    verdict = run("ours", prepared(root), folder, kills)
    assert verdict == Verdict(verdict.acknowledged, lost=0, torn=0, twice=0, failed=0)
    assert verdict.acknowledged > kills / 4
    with synapse.open(str(root), clock=later) as memory:
        assert memory.verify().problems == ()
        records = [record for record in memory.store.log.since() if record.kind == "entry"]
        ids = [record.id for record in records]
        assert len(ids) == len(set(ids))
        assert verdict.acknowledged <= len(ids) <= verdict.acknowledged + kills + WRITERS
        shown = memory.as_agent("operator").read(limit=None)
        assert {entry.id for entry in shown} == set(ids), (
            "something was adopted, or is missing in the index"
        )
        assert memory.rebuild().digest == memory.digest()
    return verdict


def test_killed_writers_lose_nothing(tmp_path):
    check_ours(tmp_path / "memory", tmp_path / "seen", SHORT)


def test_the_checker_catches_the_naive_writer(tmp_path):
    (tmp_path / "memory").mkdir()
    verdict = run("naive", tmp_path / "memory", tmp_path / "seen", SHORT)
    assert verdict.failed == 0
    assert verdict.lost > 0
    assert verdict.torn > 0
    assert verdict.twice > 0


@pytest.mark.soak
def test_a_thousand_killed_writers_lose_nothing(tmp_path):
    print(check_ours(tmp_path / "memory", tmp_path / "seen", 1_000))


if __name__ == "__main__":
    harness(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), sys.argv[5])
