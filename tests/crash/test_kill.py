"""Writers killed with SIGKILL: nothing acknowledged is lost, nothing is seen torn, no id is given
twice.

Eight write at once, each until it is killed at one of its calls of the system, and another takes
its place; one reads all the time. What the writers were told is compared with the disk then.
"""

import contextlib
import hashlib
import os
import random
import signal
import time
from itertools import cycle
from pathlib import Path
from typing import NamedTuple

import pytest

import synapse
from tests.crash import kill

SHORT = 60  # kills in every run; a thousand in the soak
WRITERS = 8
AGENTS = [f"eng-{n}" for n in range(WRITERS)]
# within which a writer dies: it opens the workspace, and writes a few entries
CALLS = {"ours": 240, "naive": 2_000}

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


# -- lives -----------------------------------------------------------------------------------------


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
        fd = os.open(folder / f"{id}.md", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.write(fd, f"---\nid: {id}\nfrom: {name}\nnamespace: api/endpoints\n---\n\n".encode())
        for line in text.split("\n"):
            os.write(fd, f"{line}\n".encode())
        os.close(fd)
        yield id, text


def writer(kind, root, name):
    log = os.open(os.path.join(root, f"acks-{name}"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    writing = {"ours": write_ours, "naive": write_naively}[kind]
    for id, text in writing(root, name):
        os.write(log, f"{id} {text[-64:]}\n".encode())


def reader(root, seen):
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
    Path(seen).write_text("\n".join(sorted(torn)))


# -- the checker -----------------------------------------------------------------------------------


class Verdict(NamedTuple):
    """How often each thing that must not be was seen, and how much was written at all."""

    acknowledged: int
    lost: int
    torn: int
    twice: int


def die(kind, root, seen, kills):
    """Let so many writers die, of eight that write at once, while one reads."""
    points, living = kill.points(CALLS[kind], kills), dict.fromkeys(AGENTS)
    random.Random(7).shuffle(points)
    watching = kill.begun(reader, root, seen)
    for _, at, name in zip(range(kills), cycle(points), cycle(AGENTS), strict=False):
        died(living[name])
        living[name] = kill.begun(writer, kind, root, name, at=at)
    for life in living.values():
        died(life)
    watching.send_signal(signal.SIGTERM)
    _, err = watching.communicate(timeout=60)
    assert watching.returncode == 0, err


def died(life):
    if life is not None:
        _, err = life.communicate(timeout=120)
        assert life.returncode == -signal.SIGKILL, err


def run(kind, root, seen, kills):
    """Let writers die, then compare what they were told with what the directory holds."""
    die(kind, root, seen, kills)
    acks = [line.split() for path in root.glob("acks-*") for line in path.read_text().splitlines()]
    if kind == "ours":
        finish(root)
    files = {path.stem: proof_of(path.read_text()) for path in root.glob("entries/**/*.md")}
    ids = [id for id, _ in acks]
    torn = seen.read_text().split()
    return Verdict(
        acknowledged=len(acks),
        lost=sum(files.get(id) != digest for id, digest in acks),
        torn=len({*torn, *(id for id, digest in files.items() if digest is None)}),
        twice=len(ids) - len(set(ids)),
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


def check_ours(root, seen, kills):
    verdict = run("ours", prepared(root), seen, kills)
    assert verdict == Verdict(verdict.acknowledged, lost=0, torn=0, twice=0)
    assert verdict.acknowledged > kills / 4
    with synapse.open(str(root), clock=later) as memory:
        assert memory.verify().problems == ()
        records = [record for record in memory.store.log.since() if record.kind == "entry"]
        ids = [record.id for record in records]
        assert len(ids) == len(set(ids))
        assert verdict.acknowledged <= len(ids) <= verdict.acknowledged + kills
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
    verdict = run("naive", tmp_path / "memory", tmp_path / "seen", SHORT // 2)
    assert verdict.lost > 0
    assert verdict.torn > 0
    assert verdict.twice > 0


@pytest.mark.soak
def test_a_thousand_killed_writers_lose_nothing(tmp_path):
    print(check_ours(tmp_path / "memory", tmp_path / "seen", 1_000))
