"""A damaged index stops nobody: it is set aside and derived again, whatever the damage is."""

from __future__ import annotations

import multiprocessing
import os
import random
import sqlite3
import subprocess
import sys

import pytest

import synapse
from synapse.index.database import Database
from synapse.index.index import Index
from synapse.mail.mailbox import Mail
from synapse.model.agents import Agent

ENTRIES = 60


@pytest.fixture
def root(tmp_path):
    root = str(tmp_path / "ws")
    synapse.init(root).close()
    with synapse.open(root) as memory:
        for name in ("ada", "bob"):
            memory.register(Agent(name, "engineer"))
        ada = memory.as_agent("ada")
        for n in range(ENTRIES):
            ada.append(f"word{n} " + "filler " * 40, f"projects/p{n % 7}")
        Mail(ada).send("agent:bob", "the first letter", subject="letters")
        memory.as_agent("bob").search("word3")  # the words are in the file too
    return root


def _index(root):
    return os.path.join(root, ".index", "brain.db")


def zeros(path):
    size = os.path.getsize(path)
    with open(path, "r+b") as file:
        file.write(b"\0" * size)


def noise(path):
    size = os.path.getsize(path)
    with open(path, "r+b") as file:
        file.write(random.Random(1).randbytes(size))


def no_header(path):
    with open(path, "r+b") as file:
        file.write(b"not a database at all")


def half(path):
    os.truncate(path, os.path.getsize(path) // 2)


def pages(path):
    """Damage every page but the first three."""
    with open(path, "r+b") as file:
        for start in range(3 * 4096, os.path.getsize(path), 4096):
            file.seek(start)
            file.write(b"\xff" * 64)


def anothers(path):
    os.remove(path)
    connection = sqlite3.connect(path)
    connection.execute("create table meta (of text, another text)")
    connection.commit()
    connection.close()


DAMAGES = [zeros, noise, no_header, half, pages, anothers]


def _works(memory, more=0):
    """Return what does not work, of reading, searching, mail and writing."""
    ada, bob = memory.as_agent("ada"), memory.as_agent("bob")
    wrong = []
    if len(bob.read()) < ENTRIES:
        wrong.append("read")
    if not bob.search("word17"):
        wrong.append("search")
    if "word" not in bob.briefing(2000).text:
        wrong.append("briefing")
    if len(Mail(bob).inbox()) != 1:
        wrong.append("mail")
    entry = ada.append(f"after {more}", "projects/p1", once=f"after {more}")
    if ada.append(f"after {more}", "projects/p1", once=f"after {more}").id != entry.id:
        wrong.append("once")
    if memory.digest() != memory.rebuild().digest:
        wrong.append("digest")
    return wrong


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_index_is_derived_again_at_open(root, damage):
    damage(_index(root))
    with synapse.open(root) as memory:
        assert _works(memory) == []
        assert memory.verify().ok
    assert any(".damaged" in name for name in os.listdir(f"{root}/.index"))


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_index_is_derived_again_while_open(root, damage):
    with synapse.open(root) as memory, synapse.open(root) as other:
        assert memory.as_agent("bob").read()
        other.as_agent("ada").append("one more, by somebody else", "projects/p1")
        for process in (memory, other):
            process.store.index.fold()
            process.store.index.db.connection.execute("pragma wal_checkpoint(truncate)").fetchone()
            process.store.index.db.connection.execute("pragma shrink_memory")
        damage(_index(root))
        assert _works(memory) == []
        assert _works(other, 1) == []
    with synapse.open(root) as memory:
        assert memory.verify().ok


@pytest.mark.parametrize("seed", range(12))
def test_a_few_damaged_bytes_stop_nobody(root, seed):
    """Wherever the bytes are, what is answered is right, or says that it is not known."""
    draw, path = random.Random(seed), _index(root)
    with open(path, "r+b") as file:
        for _ in range(30):
            file.seek(draw.randrange(os.path.getsize(path)) // 4096 * 4096)
            file.write(draw.randbytes(16))
    with synapse.open(root) as memory:
        for n in range(6):
            try:
                memory.as_agent("ada").append(f"try {n}", "projects/p1", once=f"try {n}")
                break
            except synapse.StoreError:
                continue
        else:
            pytest.fail("nothing could be written")
        assert memory.rebuild().digest
        assert _works(memory) == []


def test_it_is_said_once_and_what_was_damaged_is_kept(root):
    notes = []
    zeros(_index(root))
    with open(_index(root), "rb") as file:
        damaged = file.read()
    with synapse.open(root) as memory:
        memory.store.index.say = notes.append
        memory.as_agent("bob").read()
    with open(_index(root) + ".damaged", "rb") as file:
        assert file.read() == damaged
    with synapse.open(root) as memory:
        memory.store.index.say = notes.append
        no_header(_index(root))
        memory.store.index.db.let_go()
        memory.as_agent("ada").append("something", "projects/p1")
        memory.as_agent("bob").read()
    assert len([note for note in notes if "damaged" in note]) == 1


def test_a_cut_journal_is_noticed_although_the_index_was_damaged(root):
    """How far the journal had been seen is read from the damaged file, where it can be."""
    connection = sqlite3.connect(_index(root))
    connection.execute("pragma wal_checkpoint(truncate)")
    roots = connection.execute(
        "select rootpage from sqlite_master where tbl_name in ('namespaces', 'authors')"
    ).fetchall()
    connection.close()
    with open(_index(root), "r+b") as file:
        for (number,) in roots:
            file.seek((number - 1) * 4096)
            file.write(b"\xff" * 4096)
    journal = f"{root}/journal/{'1'.zfill(12)}.jsonl"
    with open(journal, "rb") as file:
        lines = file.readlines()
    os.truncate(journal, sum(map(len, lines[:-5])))
    with synapse.open(root) as memory:
        report = memory.verify()
    assert os.path.exists(_index(root) + ".damaged")
    assert not report.ok
    assert any("cut" in problem.what for problem in report.problems)


def test_an_index_that_is_never_set_aside_is_found_out(root, monkeypatch):
    monkeypatch.setattr(Index, "twice", lambda self, section: section())
    with synapse.open(root) as memory:
        no_header(_index(root))
        memory.store.index.db.let_go()
        with pytest.raises(synapse.StoreError):
            memory.as_agent("ada").append("something", "projects/p1")


_PROCESS = """
import sys
import synapse
root, n = sys.argv[1:]
with synapse.open(root) as memory:
    ada = memory.as_agent("ada")
    for i in range(10):
        ada.append(f"from {n}: {i}", "projects/p1", once=f"{n} {i}")
    print(len(memory.as_agent("bob").read()))
"""


def test_many_processes_find_it_damaged_at_once(root):
    zeros(_index(root))
    children = [
        subprocess.Popen(
            [sys.executable, "-c", _PROCESS, root, str(n)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for n in range(6)
    ]
    for child in children:
        _, errors = child.communicate(timeout=120)
        assert child.returncode == 0, errors.decode()
    with synapse.open(root) as memory:
        assert memory.verify().ok
        entries = memory.as_agent("bob").read()
        mine = [entry.body for entry in entries if entry.body.startswith("from ")]
        assert len(mine) == len(set(mine)) == 60
        assert memory.digest() == memory.rebuild().digest


def _opens(folder, together, failures):
    for n in range(40):
        together.wait(timeout=60)
        try:
            Database(os.path.join(folder, f"{n}.db")).close()
        except Exception as error:
            failures.put(str(error))


def test_many_processes_open_a_new_file_at_once(tmp_path):
    forks = multiprocessing.get_context("fork")
    together, failures = forks.Barrier(6), forks.SimpleQueue()
    children = [
        forks.Process(target=_opens, args=(str(tmp_path), together, failures)) for _ in range(6)
    ]
    for child in children:
        child.start()
    for child in children:
        child.join(timeout=120)
        assert child.exitcode == 0
    assert failures.empty(), failures.get()
